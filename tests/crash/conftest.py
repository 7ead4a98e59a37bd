"""One site for all tests here, and a line per label at the end of a full run."""

from collections.abc import Iterator

import pytest

from tests.crash.harness import TALLY, Site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("crash"))
    yield made
    made.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    tally = config.stash.get(TALLY, {})
    if tally:
        points = sum(count for count, _ in tally.values())
        seconds = sum(time for _, time in tally.values())
        terminalreporter.section(f"killed at {points} points in {seconds:.0f} s")
        for label, (count, time) in tally.items():
            terminalreporter.write_line(f"{label:12} {count:4} points {time:6.1f} s")
