"""The TypeScript client, as built, before the same audit as the Python one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ldpbeam.audit.audit import audit
from ldpbeam.audit.checks.outcome import AuditOutcome, Check
from ldpbeam.audit.client.draws import DrawPlan
from ldpbeam.audit.client.external import ExternalClient
from ldpbeam.collection.file import load_collection
from tests.conftest import REPOSITORY
from tests.waiting import PATIENCE

pytestmark = pytest.mark.javascript

PROGRAM = REPOSITORY / "clients" / "js" / "build" / "src" / "audit.js"
PLAN = DrawPlan(draws=3000, lasting=60, swept=(32, 10))

YAML = """
name: asked
epoch: {length: 1d, count: 500}
"""
RANGE = "domain: {range: {max: 60, buckets: 6}}\n"
SETTINGS = {
    "olh": "epsilon: 2.0\ndomain: {strings: {max_length: 5, symbols: ab é🦊, fold: true, outside: drop}}\n",
    "loloha": f"{RANGE}epsilon_longitudinal: 2.0\nepsilon_first: 1.9\ng: 3\nhash_family: linear\n",
    "l_osue": f"{RANGE}epsilon_longitudinal: 2.0\nepsilon_first: 1.9\n",
    "dbitflip_pm": f"{RANGE}epsilon_longitudinal: 2.0\nd: 3\nslices: {{channel: [a, be ta], arm: [é]}}\n",
}


def defined(file: Path) -> Path:
    """What ``ldpbeam definition`` prints, in a file."""
    output = file.with_suffix(".json")
    command = [sys.executable, "-m", "ldpbeam", "definition", str(file), "--output", str(output)]
    subprocess.run(command, check=True, timeout=PATIENCE, env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
    return output


def audited(file: Path, definition: Path) -> AuditOutcome:
    asked = load_collection(file)
    with ExternalClient(f"node {PROGRAM} {definition}", asked) as client:
        return audit(client, asked, PLAN, 1e-9)


@pytest.mark.parametrize("protocol", SETTINGS)
def test_the_typescript_device_passes(protocol: str, tmp_path: Path) -> None:
    file = tmp_path / "asked.yaml"
    file.write_text(f"{YAML}protocol: {protocol}\n{SETTINGS[protocol]}", "utf-8")
    outcome = audited(file, defined(file))
    assert outcome.violations == []
    assert Check.MATCH in {one.check for one in outcome.checks}
