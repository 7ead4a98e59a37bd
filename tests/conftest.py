"""What every test may rely on."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")

# The chance that a correct program fails the whole suite by bad luck. Statistical tests divide it
# by the number of comparisons they make.
FALSE_ALARM_SUITE = 1e-6

REPOSITORY = Path(__file__).resolve().parents[1]

MOST = 20
"""Cases of one test, at most, where it says how many are enough, and no other number."""

# Nobody's terminal and language.
os.environ.update(COLUMNS="80", LINES="24", LANGUAGE="C")

# Threads of linear algebra wait for each other by looking again and again: where two processes of tests share
# two cores, matrices of 150 rows cost sixty times as much. Nothing has loaded numpy yet; children inherit it.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

# Derandomized, so that a red run is red again; no deadline, since a first call compiles kernels.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test marked cases(n, most) all but n are thorough; of more than ``most`` the others go."""
    marked: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("cases"):
            marked.setdefault(item.nodeid.partition("[")[0], []).append(item)
    gone: set[pytest.Item] = set()
    for cases in marked.values():
        mark = cases[0].get_closest_marker("cases")
        enough, most = (*mark.args, MOST)[:2] if mark else (1, MOST)
        few = evenly(cases, enough)
        for item in set(cases).difference(few):
            item.add_marker("thorough")
        gone |= set(cases).difference(few, evenly(cases, most - len(few)))
    config.hook.pytest_deselected(items=list(gone))
    items[:] = [item for item in items if item not in gone]


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
