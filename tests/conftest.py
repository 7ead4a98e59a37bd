"""What every test may rely on."""

import gc
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import settings

T = TypeVar("T")

# The chance that a correct program fails the whole suite by bad luck. Statistical tests divide it
# by the number of comparisons they make.
FALSE_ALARM_SUITE = 1e-6

REPOSITORY = Path(__file__).resolve().parents[1]

# What takes longest is begun first: a file belongs to one process, and one that is begun last keeps the other
# idle. By CPU seconds; the rest follows in the order of the folders.
LONGEST_FIRST = (
    "tests/docs/test_commands.py",
    "tests/ldpbeam/engine/test_schedules.py",
    "tests/laws/test_protocol_laws.py",
    "tests/transcripts/test_transcripts.py",
    "tests/ldpbeam/cli/test_options.py",
    "tests/ldpbeam/engine/storage/test_landing.py",
    "tests/ldpbeam/records/test_damage.py",
    "tests/crash/test_devices.py",
    "tests/crash/test_crash.py",
    "tests/crash/test_forms.py",
    "tests/ldpbeam/estimation/test_distribution.py",
    "tests/pipelines/test_counts.py",
    "tests/ldpbeam/cli/test_plan.py",
    "tests/ldpbeam/promise/test_best_guess.py",
    "tests/ldpbeam/report_page/test_limits.py",
    "tests/ldpbeam/cli/test_run.py",
    "tests/ldpbeam/cli/test_replay.py",
    "tests/ldpbeam/planning/test_plan.py",
    "tests/laws/test_memoised_inputs.py",
    "tests/pipelines/test_bad_input.py",
    "tests/ldpbeam/records/test_output.py",
    "tests/dataflow/test_submit.py",
    "tests/ldpbeam/engine/test_watermark.py",
    "tests/ldpbeam/report_page/test_document.py",
    "tests/ldpbeam/audit/client/test_external.py",
    "tests/ldpbeam/protocols/attributes/test_bounded_counters.py",
    "tests/ldpbeam/host/test_interrupt.py",
    "tests/ldpbeam/client/test_damage.py",
    "tests/ldpbeam/report_page/test_protocols.py",
    "tests/ldpbeam/cli/test_odd_paths.py",
    "tests/fuzz/test_fuzz.py",
    "tests/pipelines/test_bounded.py",
    "tests/pipelines/test_attributes.py",
    "tests/dataflow/test_workers.py",
)

# Where thorough tests run, these are begun last. Two hundred of their cases take as long as thousands of
# others: a machine that has no time for all (--thorough-within) leaves out some of those few.
LAST = (
    "tests/ldpbeam/audit/test_planted.py",
    "tests/ldpbeam/engine/storage/test_landing.py",
    "tests/ldpbeam/records/test_damage.py",
    "tests/ldpbeam/estimation/test_distribution.py",
)

BEGAN = time.monotonic()
"""When this process began; of parallel ones each has its own, seconds apart."""
MORE = pytest.StashKey[bool]()
"""Whether a test is one that `make test` leaves out."""

# Nobody's terminal and language. Where they are known nothing asks the system for them: argparse does at each
# option, and Beam adds thousands of options to parsers for one pipeline, a fifth of what a small one costs.
os.environ.update(COLUMNS="80", LINES="24", LANGUAGE="C")

# Threads of linear algebra wait for each other by looking again and again: where two processes of tests share
# two cores, matrices of 150 rows cost sixty times as much. Nothing has loaded numpy yet; children inherit it.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

# Libraries and the suite leave a million objects that stay: nothing looks for cycles while they come to be,
# nor among them afterwards (pytest_collection_finish).
gc.disable()
gc.set_threshold(100_000, 50, 50)

# Derandomized, so that a red run is red again; no deadline, since a first call compiles kernels.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that choose how many of the tests run."""
    parser.addoption(
        "--thorough", action="store_true", help="also the tests that make check adds to those of make test"
    )
    parser.addoption(
        "--thorough-within",
        type=float,
        metavar="MINUTES",
        help="none of those begins later than this after the start; what is skipped for it says so",
    )
    parser.addoption(
        "--cases",
        type=int,
        metavar="N",
        help="at most N cases of each test, evenly over them",
    )


class AtOnce:
    """Names each failure when it happens: a run that is ended from outside never comes to its summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._plugins = config.pluginmanager

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # Asked for only now: it comes to be after this plugin.
        terminal = self._plugins.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message.partition("\n")[0] if crash is not None else "see below"
            terminal.ensure_newline()
            terminal.write_line(f"FAILED {report.nodeid} ({report.when}): {why}"[:300])


def pytest_configure(config: pytest.Config) -> None:
    """Failures are named as they happen, by the process that prints."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(AtOnce(config))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A thorough test whose time is over is skipped, before anything is set up for it."""
    minutes = item.config.getoption("--thorough-within")
    if minutes is not None and item.stash.get(MORE, False) and time.monotonic() - BEGAN > 60 * minutes:
        pytest.skip(f"thorough tests begin within {minutes:g} minutes; this one would begin later")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those that are asked for, by :data:`LONGEST_FIRST` and :data:`LAST`; within a file as written."""
    left = thorough(items)
    for item in left:
        item.stash[MORE] = True
    if not config.getoption("--thorough"):
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
    if (some := config.getoption("--cases")) is not None:
        kept = {item for same in by_test(items) for item in evenly(same, some)}
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]
    if moving := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"a test is named by an address, which differs in every process: {moving[0]}")
    rank = {REPOSITORY / name: place for place, name in enumerate(LONGEST_FIRST)}
    others = len(rank)
    if config.getoption("--thorough"):
        rank |= {REPOSITORY / name: others + place for place, name in enumerate(LAST, start=1)}
    items.sort(key=lambda item: rank.get(item.path, others))


def pytest_collection_finish() -> None:
    """What is there before the first test stays to the end."""
    gc.freeze()
    gc.enable()


def thorough(items: list[pytest.Item]) -> set[pytest.Item]:
    """What only `make check` runs: items marked thorough.

    Of a test marked thorough(but=n) all cases but n, which lie evenly among them. Of a law marked
    thorough(sizes=...) the settings of so many values.
    """
    left: set[pytest.Item] = set()
    several: list[pytest.Item] = []
    for item in items:
        if mark := item.get_closest_marker("thorough"):
            if "sizes" in mark.kwargs:
                setting: Any = cast("pytest.Function", item).callspec.params["setting"]
                if setting.domain_size not in mark.kwargs["sizes"]:
                    continue
            left.add(item)
            if "but" in mark.kwargs:
                several.append(item)
    for same in by_test(several):
        mark = same[0].get_closest_marker("thorough")
        assert mark is not None
        left.difference_update(evenly(same, mark.kwargs["but"]))
    return left


def by_test(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """The cases of each test."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [*cases.values()]


def evenly(cases: Sequence[T], some: int) -> list[T]:
    """At most so many cases: the first, the last, and others evenly between them. One is the first."""
    last = len(cases) - 1
    places = {round(i * last / max(some - 1, 1)) for i in range(some)}
    return [case for place, case in enumerate(cases) if place in places]


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Bytes go by their length: their content may hold a time, and then two workers collect two suites."""
    return f"{argname}-{len(val)}-bytes" if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The public data sets, which lie beside the checkout and are not part of it."""
    path = REPOSITORY.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"no public data sets: {path} is absent")
    return path
