"""The command line in this process, a collection, and a network that is not there."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.cli import main as command
from ldpbeam.cli.shared import progress
from tests.dataflow.store import ObjectStore

Call = Callable[..., tuple[int, str, str]]

YAML = """\
name: minutes
version: 1
domain: {size: 11}
protocol: loloha
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {length: 1h, count: 100}
min_reports: 100
"""

run_command = command.main
"""Taken before a test replaces it."""


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Connections to this machine only; what else was tried is refused and listed."""
    tried: list[Any] = []
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and address[0] not in {"localhost", "127.0.0.1", "::1"}:
            tried.append(address)
            raise OSError(f"no network in this test: {address}")
        connect(self, address)

    def resolve(host: Any, *arguments: Any, **more: Any) -> Any:
        if host not in {"localhost", "127.0.0.1", "::1", None}:
            tried.append(host)
            raise socket.gaierror(f"no network in this test: {host}")
        return find(host, *arguments, **more)

    find = socket.getaddrinfo
    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.delenv("CLOUDSDK_COMPUTE_REGION", raising=False)
    return tried


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run the command line in this process: exit code, standard output, standard error."""
    # On a busy machine a run takes longer than the ten seconds after which it says how far it is.
    monkeypatch.setattr(progress, "_EVERY", float("inf"))

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ldpbeam", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            run_command()
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return run


@pytest.fixture
def agreed(tmp_path: Path) -> Path:
    """A collection file."""
    path = tmp_path / "minutes.yaml"
    path.write_text(YAML)
    return path


@pytest.fixture
def objects() -> Iterator[dict[str, bytes]]:
    ObjectStore.objects.clear()
    yield ObjectStore.objects
    ObjectStore.objects.clear()


@pytest.fixture
def stream(agreed: Path) -> list[object]:
    """A run over a subscription on Dataflow, without an output."""
    return [
        "run", "--collection", agreed, "--subscription", "projects/my-project/subscriptions/reports",
        "--runner", "DataflowRunner",
    ]  # fmt: skip
