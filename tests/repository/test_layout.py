"""What a device loads, and what is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

LINKED = ("transforms", "pipelines", "simulators")
"""Folders of the repository that are packages of ldpbeam: links in ldpbeam/ lead to them."""
STANDARD = sys.stdlib_module_names | {"ldpbeam"}


def loaded_by(module: str) -> set[str]:
    """Top-level modules that a fresh interpreter has after the import and had not before."""
    code = (
        "import sys, json; before = set(sys.modules); __import__(sys.argv[1]);"
        "print(json.dumps(sorted({m.partition('.')[0] for m in set(sys.modules) - before})))"
    )
    command = [sys.executable, "-c", code, module]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(("module", "more"), [("ldpbeam", set()), ("ldpbeam.client", {"google"})])
def test_the_client_loads_nothing_but_the_standard_library_and_protobuf(module: str, more: set[str]) -> None:
    assert loaded_by(module) - STANDARD - more == set()


@pytest.mark.parametrize("module", ["ldpbeam.protocols", "ldpbeam.planning"])
def test_a_protocol_loads_no_server_library(module: str) -> None:
    assert loaded_by(module) & {"numpy", "numba", "scipy", "apache_beam", "pyarrow"} == set()


def test_one_package_is_installed_and_holds_the_linked_folders() -> None:
    links = {path.name: path.readlink() for path in (REPOSITORY / "ldpbeam").iterdir() if path.is_symlink()}
    assert links == {name: Path("..", name) for name in (*LINKED, "docs")}
    assert [name for name in ("ldpbeam", *LINKED) if not (REPOSITORY / name / "py.typed").is_file()] == []
