"""One site and one recorder for all tests here, and a line per label at the end of a full run."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.harness import TALLY, Site
from tests.crash.recorder import Recorder, fast_folder


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("crash"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    yield made
    made.close()


@pytest.fixture
def home() -> Iterator[Path]:
    made = fast_folder()
    yield made
    shutil.rmtree(made)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    tally = config.stash.get(TALLY, {})
    if tally:
        points = sum(count for count, _ in tally.values())
        seconds = sum(time for _, time in tally.values())
        terminalreporter.section(f"killed at {points} points in {seconds:.0f} s")
        for label, (count, time) in tally.items():
            terminalreporter.write_line(f"{label:12} {count:4} points {time:6.1f} s")
