"""``ldpbeam audit``: what it prints, and exit code 7 where a client does not keep its promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ldpbeam.audit.standard_collections import standard_collections
from ldpbeam.errors import LdpError
from ldpbeam.protocols import PROTOCOLS
from ldpbeam.protocols.attributes.allocate import ALLOCATIONS
from tests.conftest import REPOSITORY
from tests.ldpbeam.audit.client.test_external import ONE, command
from tests.ldpbeam.cli.calling import call


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ldpbeam", "audit", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "one.yaml").write_text(ONE)
    return tmp_path / "one.yaml"


@pytest.mark.thorough
def test_a_violation_ends_with_7(file: Path) -> None:
    done = ran(str(file), "--client", command(file, "truth"), "--draws", "600")
    assert done.returncode == 7, done.stderr
    assert "VIOLATED" in done.stdout
    assert "  match: " in done.stdout
    assert "[E-AUDIT-VIOLATION]" in done.stderr
    assert "not audited: Forks" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        ("--client x", "E-USAGE-OPTION", 2),
        ("examples/first_choice.yaml --client no-such-program", "E-AUDIT-CLIENT", 2),
        ("no-such.yaml", "E-COLLECTION-FILE", 3),
    ],
)
def test_what_cannot_be_audited(arguments: str, code: str, exit_code: int) -> None:
    error = call("audit", *arguments.split()).exception
    assert isinstance(error, LdpError)
    assert (error.code, error.exit_code) == (code, exit_code)


def test_without_a_collection_everything_is_audited() -> None:
    for quick in (True, False):
        found = list(standard_collections(quick=quick))
        assert {one.protocol_name for one in found if not one.allocation} == set(PROTOCOLS)
        assert {one.allocation for one in found if one.allocation} == set(ALLOCATIONS)


@pytest.mark.thorough
def test_a_collection_whose_devices_report_rarely_is_audited_by_whole_lives(file: Path) -> None:
    rare = re.sub(r"count: \d+", "count: 6", file.read_text()) + "participation: {reports: 2, of: 6}\n"
    file.write_text(rare)
    done = ran(str(file), "--draws", "100")
    assert done.returncode == 0, done.stderr
    assert "holds" in done.stdout
    assert "without participation" in done.stdout
