"""``ldpbeam doctor``: what it finds well, what it finds at fault, and the fix that it names."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ldpbeam.cli import doctor as examination
from ldpbeam.cli.doctor import EMULATOR, Finding, examine
from ldpbeam.cli.main import cli
from ldpbeam.errors import LdpError


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(EMULATOR, raising=False)


def found(name: str, **asked: Any) -> Finding:
    return next(one for one in examine(**{"output": Path(), **asked}) if one.name == name)


def call(*arguments: object) -> str:
    done = CliRunner().invoke(cli, ["doctor", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.thorough
def test_a_sound_machine_has_no_fault_and_beam_is_not_imported(tmp_path: Path) -> None:
    lines = call("--output", tmp_path).splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "note"}
    assert any(f"apache-beam {metadata.version('apache-beam')}" in line for line in lines)
    assert any("means FnApiRunner" in line for line in lines)
    assert list(tmp_path.iterdir()) == []
    document = json.loads(call("--output", tmp_path, "--json"))
    assert document["faults"] == 0
    assert len(document["findings"]) == len(lines)
    assert call("--quiet") == ""
    code = (
        "import sys\nfrom ldpbeam.cli.main import cli\n"
        "cli(['doctor', '--quiet'], standalone_mode=False)\n"
        "print(sorted({'apache_beam', 'numba', 'scipy', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", "[]\n")


def test_a_fault_ends_with_6_and_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv(EMULATOR, f"127.0.0.1:{port}")
    with pytest.raises(LdpError) as caught:
        call()
    assert (caught.value.code, caught.value.exit_code) == ("E-DOCTOR-FAULT", 6)
    assert "1 at fault: emulator" in str(caught.value)
    assert f"unset {EMULATOR}" in str(caught.value)


def test_an_emulator_that_answers_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setenv(EMULATOR, f"127.0.0.1:{listening.getsockname()[1]}")
        assert found("emulator").state == "ok"
    for wrong in ("localhost", "localhost:none", "localhost:0", ":8085"):
        monkeypatch.setenv(EMULATOR, wrong)
        assert found("emulator").state == "fault"


def test_the_runner_that_really_runs_is_named() -> None:
    for typed, runs in ((None, "FnApiRunner"), ("DirectRunner", "FnApiRunner"), ("Other", "Other")):
        assert f"means {runs}" in found("runner", runner=typed).detail


def test_a_place_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert found("write", output=tmp_path / "file").state == "fault"
    # A folder that is not there yet is made by the run: the one above it counts.
    assert found("write", output=tmp_path / "new" / "deep").state == "ok"


def test_versions_are_held_against_those_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "2.50.0" if name == "apache-beam" else real(name))
    fault = found("pipeline")
    assert fault.state == "fault"
    assert "apache-beam 2.50.0 is not ==2.77.*" in fault.detail
    assert fault.fix == "pip install 'ldpbeam[pipeline]'"


def test_an_extra_that_is_not_installed_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version

    def version(name: str) -> str:
        if name in {"aiohttp", "numba"}:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    assert found("collect").state == "note"
    assert found("pipeline").state == "fault"
    monkeypatch.setattr(examination, "_has_pubsub", lambda: False)
    assert found("gcp").state == "note"
