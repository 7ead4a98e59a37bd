"""Which Python versions are declared, and which of those that a machine has `make` takes."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
DECLARED = [one.rsplit(" ", 1)[1] for one in PROJECT["classifiers"] if " 3." in one]


def install(where: Path, name: str, version: str) -> None:
    """A command that says it is that version of Python, whatever runs it."""
    command, numbers = where / name, ", ".join(version.split("."))
    pretend = f"import sys; sys.version_info = ({numbers}, 0, 'final', 0); "
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{pretend}$2"\n')
    command.chmod(0o755)


def chosen(where: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    """What `make` takes on a machine that has only the commands in this folder."""
    make = shutil.which("make")
    assert make is not None
    rule = "chosen: ; @$(CHOOSE_PYTHON); echo $$chosen"
    return subprocess.run(
        [make, "--no-print-directory", f"--eval={rule}", *settings, "chosen"],
        env={"PATH": str(where)},
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
    )


def test_the_first_declared_version_that_runs_is_taken(tmp_path: Path) -> None:
    for version in reversed(DECLARED):
        install(tmp_path, f"python{version}", version)
        assert chosen(tmp_path).stdout.strip() == f"python{version}"
    broken = tmp_path / f"python{DECLARED[0]}"
    broken.write_text("#!/bin/sh\necho 'command not found' >&2\nexit 127\n")
    assert chosen(tmp_path).stdout.strip() == f"python{DECLARED[1]}"


@pytest.mark.parametrize("version", DECLARED)
def test_a_python3_of_a_declared_version_is_taken(tmp_path: Path, version: str) -> None:
    install(tmp_path, "python3", version)
    assert chosen(tmp_path).stdout.strip() == "python3"


@pytest.mark.parametrize("version", ["3.10", "3.14"])
def test_another_version_is_refused_with_the_remedy(tmp_path: Path, version: str) -> None:
    install(tmp_path, "python3", version)
    for settings in ([], [f"PYTHON={tmp_path}/python3"]):
        ended = chosen(tmp_path, *settings)
        assert ended.returncode != 0
        assert all(one in ended.stderr for one in DECLARED)
        assert "PYTHON=/path/to/python3" in ended.stderr


def test_one_range_of_versions_is_written_everywhere() -> None:
    named = f"Python {', '.join(DECLARED[:-1])} or {DECLARED[-1]}"
    assert PROJECT["requires-python"] == f">={DECLARED[0]}"
    for page in ("README.md", "Makefile"):
        text = (REPOSITORY / page).read_text()
        assert named in text
        assert set(re.findall(r"\b3\.1\d\b", text.split("--- environment")[0])) <= set(DECLARED)
