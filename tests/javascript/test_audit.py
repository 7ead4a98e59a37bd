"""The TypeScript client, as built, before the same audit as the Python one."""

from __future__ import annotations

import json
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

DOMAINS = {
    "l_grr": "{labels: [a, b, c, d, e, f]}",
    "l_osue": "{range: {max: 7, buckets: 6}}",
    "loloha-interval": "{range: {max: 60, buckets: 6}}",
}
YAML = """
name: asked
domain: {domain}
protocol: {protocol}
epsilon_longitudinal: {longitudinal}
epsilon_first: {first}
epoch: {{length: 1d, count: 500}}
"""
MORE = {
    "loloha-affine": "g: 2\nhash_family: affine\n",
    "loloha-linear": "g: 3\nhash_family: linear\n",
    "loloha-interval": "g: 3\nhash_family: interval\n",
    "l_osue": "",
    "l_grr": "",
}


def collection(folder: Path, kind: str, longitudinal: float = 2.0, first: float = 1.9) -> Path:
    text = YAML.format(
        domain=DOMAINS.get(kind, "{size: 6}"),
        protocol=kind.partition("-")[0],
        longitudinal=longitudinal,
        first=first,
    )
    (folder / "asked.yaml").write_text(text + MORE[kind])
    return folder / "asked.yaml"


def dbitflip(folder: Path) -> Path:
    text = YAML.format(domain="{size: 6}", protocol="dbitflip_pm", longitudinal=2.0, first=1.0)
    one_level = "".join(line for line in text.splitlines(True) if not line.startswith("epsilon_first"))
    (folder / "asked.yaml").write_text(one_level + "d: 3\n")
    return folder / "asked.yaml"


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


@pytest.mark.parametrize("kind", [*MORE, "dbitflip_pm"])
def test_the_typescript_device_passes(kind: str, tmp_path: Path) -> None:
    file = dbitflip(tmp_path) if kind == "dbitflip_pm" else collection(tmp_path, kind)
    outcome = audited(file, defined(file))
    assert outcome.violations == []
    assert Check.MATCH in {one.check for one in outcome.checks}


def test_one_with_the_integers_of_another_level_is_found(tmp_path: Path) -> None:
    """It sends the digest of a collection of ε = 1, and spends 4."""
    (tmp_path / "low").mkdir()
    (tmp_path / "high").mkdir()
    low = collection(tmp_path / "low", "l_grr", 1.0, 0.5)
    promised, spent = (
        json.loads(defined(file).read_text())
        for file in (low, collection(tmp_path / "high", "l_grr", 4.0, 3.0))
    )
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({**promised, "protocol": spent["protocol"]}))
    failed = audited(low, wrong).failed
    assert Check.MATCH in failed
    assert Check.BOUND in failed
