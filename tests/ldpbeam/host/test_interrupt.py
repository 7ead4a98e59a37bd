"""Ctrl-C, SIGTERM and kill -9 of a real command over files: how fast it ends, and what it leaves."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ldpbeam.cli.main import cli, main
from ldpbeam.host.signals import _descendants
from tests.conftest import REPOSITORY
from tests.pipelines.running import collection, execute, fleet, write
from tests.waiting import PATIENCE, poll, slowness

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

YAML = """\
name: minutes
version: 1
domain: {size: 11}
protocol: loloha
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {length: 1h, count: 100}
"""

BUSY = """\
import sys, threading, time
from pathlib import Path
from ldpbeam.cli.main import main
from ldpbeam.transforms.stages.estimate import EstimateEpochs

marker, sys.argv = Path(sys.argv[1]), ["ldpbeam", *sys.argv[2:]]
real = EstimateEpochs.process

def busy(self, element):
    if element[1].epoch:
        marker.touch()
        {what}
    return list(real(self, element))

EstimateEpochs.process = busy
main()
"""
"""The command with a step that takes very long in its second epoch; the first has been written by then."""

WAYS = {
    "waiting": f"threading.Event().wait({PATIENCE})",
    "computing": f"end = time.monotonic() + {PATIENCE}\n        while time.monotonic() < end: pass",
}


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An earlier run, finished, of fewer reports: its output, and the reports of the next one."""
    folder = tmp_path_factory.mktemp("earlier")
    (folder / "c.yaml").write_text(YAML)
    agreed = collection("loloha")
    sent = fleet(agreed, 200, 2)
    write(folder / "earlier", agreed, sent[:2])
    write(folder / "in", agreed, sent)
    execute(agreed, folder / "earlier", folder / "out")
    return folder


@pytest.fixture
def command(earlier: Path, tmp_path: Path) -> list[str]:
    """A run over a copy of the earlier one."""
    shutil.copytree(earlier, tmp_path, dirs_exist_ok=True)
    return [
        "run", "--collection", str(tmp_path / "c.yaml"), "--input", str(tmp_path / "in"),
        "--output", str(tmp_path / "out"),
    ]  # fmt: skip


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def seconds_to_end(process: subprocess.Popen[str], number: int) -> float:
    begin = time.monotonic()
    os.kill(process.pid, number)
    process.wait(PATIENCE)
    return time.monotonic() - begin


def test_ctrl_c_in_any_command_ends_it_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.commands["docs"], "callback", interrupted)
    monkeypatch.setattr("sys.argv", ["ldpbeam", "docs"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err.strip() == "ldpbeam: interrupted. [E-INTERRUPTED]"


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_at_once(
    command: list[str], start: Callable[..., subprocess.Popen[str]], tmp_path: Path, number: int, way: str
) -> None:
    before = tree(tmp_path / "out")
    process = start("-c", BUSY.format(what=WAYS[way]), str(tmp_path / "begun"), *command)
    poll((tmp_path / "begun").exists)
    assert list((tmp_path / "out").glob(".run-*.tmp/estimates/*")), "nothing has been written so far"
    took = seconds_to_end(process, number)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[signal.Signals(number)]
    assert took < 2 * slowness()
    assert process.communicate()[1].splitlines()[-1].endswith("[E-INTERRUPTED]")
    assert tree(tmp_path / "out") == before
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "accounting", "estimates", "latest", "rejects", "run.json",
    ]  # fmt: skip


def gone(pids: list[int]) -> bool:
    """Whether none of them computes any more; who was killed and not waited for yet does not."""
    for pid in pids:
        with suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                return False
    return True


MODES = ["multi_threading", "multi_processing"]


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
def test_a_signal_ends_workers_too(
    command: list[str], start: Callable[..., subprocess.Popen[str]], tmp_path: Path, mode: str
) -> None:
    before = tree(tmp_path / "out")
    workers = [f"--direct_running_mode={mode}", "--direct_num_workers=2"]
    process = start("-m", "ldpbeam.cli.main", *command, *workers)
    if mode == "multi_processing":
        poll(lambda: len(_descendants(process.pid)) >= 2)
    else:
        poll(lambda: list((tmp_path / "out").glob(".run-*.tmp")))
    pids = _descendants(process.pid)
    took = seconds_to_end(process, signal.SIGTERM)
    assert process.returncode == 143
    assert took < 2 * slowness()
    poll(lambda: gone(pids), 5 * slowness())
    assert tree(tmp_path / "out") == before


@pytest.mark.thorough
def test_workers_end_with_a_killed_run(
    command: list[str], start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """kill -9 of the parent, at once and when the workers compute: none stays, and the next run tidies."""
    before = tree(tmp_path / "out")
    workers = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    process = start("-m", "ldpbeam.cli.main", *command, *workers)
    poll(lambda: len(_descendants(process.pid)) >= 2)
    poll(lambda: all(b"ldpbeam.pipelines.workers" in _command_line(p) for p in _descendants(process.pid)))
    time.sleep(2)  # so far as to have asked the kernel
    pids = _descendants(process.pid)
    assert pids
    os.kill(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)
    poll(lambda: gone(pids), 3 * slowness())
    left = tree(tmp_path / "out")
    assert {name: left[name] for name in before} == before


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
