"""The command ``collect`` as people start it: its end, its errors, and a run over what it leaves."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ldpbeam.admission import batch_message
from ldpbeam.collection.file import load_collection
from ldpbeam.errors import LdpError
from tests.conftest import REPOSITORY
from tests.ldpbeam.cli.calling import call
from tests.ldpbeam.collector.serving import TYPE, names
from tests.pipelines.running import fleet
from tests.waiting import PATIENCE

YAML = "name: one\ndomain: {size: 11}\nprotocol: loloha\nepsilon_longitudinal: 2.0\nepsilon_first: 1.0\n"


def described(folder: Path) -> Path:
    path = folder / "one.yaml"
    path.write_text(f"{YAML}epoch: {{length: 1h, count: 100}}\nmin_reports: 1\n")
    return path


def arguments(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "ldpbeam", "collect", "--collection", str(described(folder)), *more]


@contextmanager
def started(folder: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = arguments(
        folder, "--listen", "127.0.0.1:0", "--output", str(folder / "reports"), "--json", *more
    )
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield process, json.loads(line)["port"]
    finally:
        process.kill()
        process.communicate()


def failed(folder: Path, *more: str) -> tuple[int, str]:
    done = subprocess.run(
        arguments(folder, *more),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    return done.returncode, done.stderr


def send(port: int, bodies: list[bytes]) -> set[int]:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    found = set()
    for body in bodies:
        line.request("POST", "/v1/reports", body, TYPE)
        answer = line.getresponse()
        answer.read()
        found.add(answer.status)
    line.close()
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_everything_in_files(tmp_path: Path, name: signal.Signals) -> None:
    with started(tmp_path) as (process, port):
        agreed = load_collection(tmp_path / "one.yaml")
        batches = fleet(agreed, 100, 1)
        assert send(port, [batch_message(some) for some in batches]) == {204}
        assert send(port, [b"\xff"]) == {400}
        second = failed(tmp_path, "--listen", "0", "--output", str(tmp_path / "reports"))
        assert second[0] == 6
        assert "[E-COLLECT-BUSY]" in second[1]
        taken = failed(tmp_path, "--listen", str(port), "--output", str(tmp_path / "others"))
        assert taken[0] == 2
        assert "[E-USAGE-LISTEN]" in taken[1]
        process.send_signal(name)
        process.send_signal(name)  # whoever starts programs often tells them twice
        printed, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (0, "")
    assert json.loads(printed) == {
        "event": "stopped",
        "taken": {agreed.digest_hex: 100},
        "refused": [{"digest": "", "reason": "malformed", "reports": 1}],
        "failures": 0,
    }
    assert names(tmp_path / "reports") == sorted(i for some in batches for i in some.report_ids.tolist())


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("", "E-USAGE-OPTION"),
        ("--output x --topic projects/my-project/topics/reports", "E-USAGE-OPTION"),
        ("--topic reports", "E-PUBSUB-MISSING"),
        ("--listen nowhere:x --output x", "E-USAGE-LISTEN"),
        ("--output /proc/none", "E-USAGE-OUTPUT"),
        ("--output x --file-every soon", "E-USAGE-OPTION"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, more: str, code: str) -> None:
    error = call("collect", "--collection", described(tmp_path), "--listen", "0", *more.split()).exception
    assert isinstance(error, LdpError)
    assert (error.code, error.exit_code) == (code, 2)
