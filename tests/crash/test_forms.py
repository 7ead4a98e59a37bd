"""Real commands over seven forms of input and execution, killed at any time: the last run's output is equal.

Nothing is wrapped here: a command is a process of its own with its workers, and SIGKILL comes after a random
time or as soon as the output shows that a certain part of the run has begun. By default one form is killed
twice; ``make nightly`` kills 78 times.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.collection.file import load_collection
from ldpbeam.host.signals import _descendants
from tests.conftest import REPOSITORY
from tests.crash.harness import YAML, Tree, differences, reader_complaints, tree
from tests.pipelines.running import fleet, with_duplicates, write
from tests.waiting import PATIENCE, slowness

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

KILLS = 78
WITH_REJECTS = 4  # some ids come with two payloads


@dataclass(frozen=True)
class Form:
    """What is read, and how it is run.

    Attributes:
        kind, compression: of the files.
        options: of the command.
    """

    kind: Any = "batch"
    compression: Any = "none"
    options: tuple[str, ...] = ()


FORMS = {
    "pb": Form(),
    "gzip": Form("report", "gzip"),
    "zstd": Form("batch", "zstd"),
    "parquet": Form("parquet"),
    "threads": Form(options=("--direct_running_mode=multi_threading", "--direct_num_workers=2")),
    "processes": Form(options=("--direct_running_mode=multi_processing", "--direct_num_workers=2")),
    "bundles": Form(options=("--runner", "BundleBasedDirectRunner")),
}
SHARES = {name: KILLS // len(FORMS) + (i < KILLS % len(FORMS)) for i, name in enumerate(FORMS)}


class Forms:
    """Inputs in every form, and what undisturbed runs make of them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self._yaml = base / "screens.yaml"
        parameters = "epsilon_longitudinal: 2.0\nepsilon_first: 1.0"
        self._yaml.write_text(YAML.format(name="screens", size=24, protocol="loloha", parameters=parameters))
        agreed = load_collection(self._yaml)
        self._sent = with_duplicates(fleet(agreed, 200, 3))
        self._agreed = agreed
        self._known: dict[str, tuple[list[str], Tree, float]] = {}

    def undisturbed(self, name: str) -> tuple[list[str], Tree, float]:
        """The command, what it leaves, and how many seconds it takes."""
        if name not in self._known:
            form = FORMS[name]
            folder = write(self.base / name, self._agreed, self._sent, form.kind, form.compression)
            command = [
                "run",
                "--collection",
                str(self._yaml),
                "--input",
                str(folder),
                *form.options,
                "--output",
            ]
            output = self.base / f"{name}-reference"
            begin = time.monotonic()
            with started([*command, str(output)]) as process:
                assert process.wait(PATIENCE) == WITH_REJECTS
            self._known[name] = command, tree(output), time.monotonic() - begin
        return self._known[name]


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Forms:
    return Forms(tmp_path_factory.mktemp("forms"))


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


def moments(draw: random.Random, seconds: float, wanted: int) -> Iterator[tuple[str, Moment]]:
    """Every other one at a random time, the others at something that shows in the output."""
    signs: dict[str, Moment] = {
        "begun": lambda output, _: any(output.glob(".run-*.tmp")),
        "tables": lambda output, _: any(output.glob(".run-*.tmp/estimates/*.parquet")),
        "accounting": lambda output, _: any(output.glob(".run-*.tmp/accounting/*.json")),
        "record": lambda output, _: any(output.glob(".run-*.tmp/run.json")),
    }
    names = list(signs)
    for i in range(wanted):
        if i % 2:
            name = names[i // 2 % len(names)]
            yield name, signs[name]
        else:
            when = draw.uniform(0.2, seconds)
            yield f"{when:.2f} s", lambda _, since, when=when: since >= when  # type: ignore[misc]


def kill_some(forms: Forms, name: str, wanted: int) -> list[str]:
    """Kill a form's command some times in one directory, look each time, let the last run finish."""
    command, reference, seconds = forms.undisturbed(name)
    output = forms.base / f"{name}-killed"
    complaints, killed = [], 0
    for label, due in moments(random.Random(name), seconds, wanted):
        begin = time.monotonic()
        with started([*command, str(output)]) as process:
            while process.poll() is None and not due(output, time.monotonic() - begin):
                time.sleep(0.002)
            workers = _descendants(process.pid)
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        complaints += [f"{name}, {label}: {c}" for c in reader_complaints(tree(output), [reference])]
        complaints += [f"{name}, {label}: worker {pid} lives" for pid in workers if not ends(pid)]
    with started([*command, str(output)]) as process:
        assert process.wait(PATIENCE) == WITH_REJECTS
    complaints += [f"{name}, run again: {c}" for c in differences(tree(output), reference)]
    # Who is quicker than its time is not killed; most are not.
    assert killed >= wanted / 2, f"{killed} of {wanted} were killed"
    return complaints


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


@pytest.mark.thorough
def test_a_form_killed_twice(forms: Forms) -> None:
    assert kill_some(forms, "pb", 2) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FORMS)
def test_a_form_killed_again_and_again(forms: Forms, name: str) -> None:
    """Eleven or twelve times each; of all forms the estimates are the same bytes."""
    output = forms.base / f"{name}-killed"
    if output.exists():
        for path in sorted(output.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    assert kill_some(forms, name, SHARES[name]) == []
    plain = forms.undisturbed("pb")[1]
    mine = re.compile(r"(estimates|latest)/")
    assert {n: c for n, c in forms.undisturbed(name)[1].items() if mine.match(n)} == {
        n: c for n, c in plain.items() if mine.match(n)
    }
