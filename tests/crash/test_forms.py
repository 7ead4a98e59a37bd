"""Real commands, with and without workers, killed at any time: the last run's output is equal.

Nothing is wrapped here: a command is a process of its own with its workers, and SIGKILL comes after a random
time or as soon as the output shows that a certain part of the run has begun.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ldpbeam.collection.file import load_collection
from ldpbeam.host.signals import _descendants
from tests.conftest import REPOSITORY
from tests.crash.harness import YAML, differences, reader_complaints, tree
from tests.pipelines.running import fleet, with_duplicates, write
from tests.waiting import PATIENCE, slowness

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

WITH_REJECTS = 4  # some ids come with two payloads
OPTIONS = {"here": (), "processes": ("--direct_running_mode=multi_processing", "--direct_num_workers=2")}


class started:  # noqa: N801 - reads as a verb
    """A command in a process of its own; it and its workers are gone after the block."""

    def __init__(self, argv: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ldpbeam.cli.main", *argv],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self._process

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


Moment = Callable[[Path, float], bool]
"""Whether it is time to kill, by the output and the seconds since the start."""


def moments(draw: random.Random, seconds: float) -> Iterator[Moment]:
    """Two random times, and what shows in the output."""
    for when in (draw.uniform(0.2, seconds), draw.uniform(0.2, seconds)):
        yield lambda _, since, when=when: since >= when  # type: ignore[misc]
    for sign in ("", "/estimates/*.parquet", "/accounting/*.json", "/run.json"):
        yield lambda output, _, sign=sign: any(output.glob(f".run-*.tmp{sign}"))  # type: ignore[misc]


@pytest.mark.thorough
@pytest.mark.parametrize("where", OPTIONS)
def test_a_killed_run_misleads_no_reader_and_the_next_is_whole(where: str, tmp_path: Path) -> None:
    described = tmp_path / "screens.yaml"
    parameters = "epsilon_longitudinal: 2.0\nepsilon_first: 1.0"
    described.write_text(YAML.format(name="screens", size=24, protocol="loloha", parameters=parameters))
    agreed = load_collection(described)
    folder = write(tmp_path / "reports", agreed, with_duplicates(fleet(agreed, 200, 3)))
    command = ["run", "--collection", f"{described}", "--input", f"{folder}", *OPTIONS[where], "--output"]
    begin = time.monotonic()
    with started([*command, f"{tmp_path / 'reference'}"]) as process:
        assert process.wait(PATIENCE) == WITH_REJECTS
    reference, seconds = tree(tmp_path / "reference"), time.monotonic() - begin
    output, killed = tmp_path / "killed", 0
    for due in moments(random.Random(where), seconds):
        begin = time.monotonic()
        with started([*command, f"{output}"]) as process:
            while process.poll() is None and not due(output, time.monotonic() - begin):
                time.sleep(0.002)
            workers = _descendants(process.pid)
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        assert reader_complaints(tree(output), [reference]) == []
        assert [pid for pid in workers if not ends(pid)] == []
    with started([*command, f"{output}"]) as process:
        assert process.wait(PATIENCE) == WITH_REJECTS
    assert differences(tree(output), reference) == []
    assert killed >= 3, "who is quicker than its time is not killed; most are not"


def ends(pid: int) -> bool:
    """Whether a process is gone, or goes within a few seconds."""
    deadline = time.monotonic() + 5 * slowness()
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.02)
    return False
