"""What `make test` leaves to `make check`: what is marked, and of marked cases all but as many as said."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests import conftest
from tests.conftest import MORE, REPOSITORY, thorough
from tests.waiting import PATIENCE, poll, slowness


class Item:
    """As much of a collected test as the choice looks at."""

    def __init__(self, nodeid: str, mark: pytest.Mark | None = None, path: Path = REPOSITORY) -> None:
        self.nodeid, self.mark, self.path = nodeid, mark, path
        self.stash = pytest.Stash()
        self.callspec = SimpleNamespace(params={})

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        assert name == "thorough"
        return self.mark


def left(*items: Item) -> list[str]:
    found = thorough(cast("list[pytest.Item]", list(items)))
    return [item.nodeid for item in items if cast("Any", item) in found]


def marked(nodeid: str, **some: object) -> Item:
    return Item(nodeid, pytest.mark.thorough(**some).mark)


def test_what_is_marked_is_left_and_nothing_else() -> None:
    assert left(Item("a::x"), marked("a::y"), Item("a::z[1]"), marked("a::z[2]")) == ["a::y", "a::z[2]"]


@pytest.mark.parametrize(("cases", "but"), [(1, 1), (6, 1), (6, 2), (6, 5), (6, 6), (3, 8), (183, 61)])
def test_as_many_cases_as_said_are_kept_with_the_first_and_the_last(cases: int, but: int) -> None:
    items = [marked(f"a::x[{i}]", but=but) for i in range(cases)]
    kept = sorted(set(range(cases)) - {int(name[5:-1]) for name in left(*items)})
    assert len(kept) == min(cases, but)
    assert kept[0] == 0
    if but > 1:
        assert kept[-1] == cases - 1
        steps = {b - a for a, b in pairwise(kept)}
        assert max(steps, default=0) - min(steps, default=0) <= 1


def test_each_function_keeps_cases_of_its_own() -> None:
    items = [marked(f"{name}[{i}]", but=2) for name in ("a::x", "a::y", "b::x") for i in range(5)]
    assert len(left(*items)) == 9


def test_of_a_law_the_settings_of_so_many_values_are_left() -> None:
    items = [marked(f"a::x[{size}]", sizes=(3, 5)) for size in (2, 3, 5, 8)]
    for item, size in zip(items, (2, 3, 5, 8), strict=True):
        item.callspec = SimpleNamespace(params={"setting": SimpleNamespace(domain_size=size)})
    assert left(*items) == ["a::x[3]", "a::x[5]"]


def chosen(items: list[Item], **options: object) -> tuple[list[str], list[str]]:
    """What a run with these options has, in its order, and what it says that it leaves out."""
    some, skipped = cast("list[pytest.Item]", list(items)), list[str]()
    hook = SimpleNamespace(pytest_deselected=lambda items: skipped.extend(item.nodeid for item in items))
    getoption = {f"--{name}": value for name, value in options.items()}.get
    conftest.pytest_collection_modifyitems(
        cast("pytest.Config", SimpleNamespace(getoption=getoption, hook=hook)), some
    )
    return [item.nodeid for item in some], skipped


def test_of_each_test_at_most_so_many_cases_are_run() -> None:
    """Cases in the middle are left out, and pytest hears which."""
    items = [Item(f"a::{name}[{i}]") for name in "xy" for i in range(5)] + [Item("a::z")]
    found, skipped = chosen(items, thorough=True, cases=2)
    assert found == ["a::x[0]", "a::x[4]", "a::y[0]", "a::y[4]", "a::z"]
    assert skipped == [item.nodeid for item in items if item.nodeid not in found]


@pytest.mark.parametrize("thorough", [True, False])
def test_the_order_of_files(thorough: bool) -> None:
    """Only where thorough tests run, files with the longest of them come last."""
    files = [conftest.LAST[1], "tests/b.py", conftest.LONGEST_FIRST[1], conftest.LAST[0], "tests/a.py"]
    first = {name: place for place, name in enumerate(conftest.LONGEST_FIRST)}
    wanted = [conftest.LONGEST_FIRST[1], "tests/b.py", "tests/a.py", conftest.LAST[0], conftest.LAST[1]]
    if not thorough:
        wanted = sorted(files, key=lambda name: first.get(name, len(first)))
    assert chosen([Item(name, path=REPOSITORY / name) for name in files], thorough=thorough)[0] == wanted


class Begun:
    """As much of a test that is about to begin as the option looks at."""

    def __init__(self, minutes: float | None, more: bool) -> None:
        self.config, self.stash = self, pytest.Stash()
        self.minutes = minutes
        if more:
            self.stash[MORE] = True

    def getoption(self, name: str) -> float | None:
        assert name == "--thorough-within"
        return self.minutes


@pytest.mark.parametrize(
    ("minutes", "passed", "more", "runs"),
    [(None, 99, True, True), (5, 4.9, True, True), (5, 5.1, True, False), (5, 5.1, False, True)],
)
def test_thorough_tests_begin_within_their_time_and_others_always(
    minutes: float | None, passed: float, more: bool, runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: conftest.BEGAN + 60 * passed)
    item = cast("pytest.Item", Begun(minutes, more))
    if runs:
        conftest.pytest_runtest_setup(item)
    else:
        with pytest.raises(pytest.skip.Exception, match="begin within 5 minutes"):
            conftest.pytest_runtest_setup(item)


def test_every_test_that_make_test_leaves_out_is_known_as_one_of_them(request: pytest.FixtureRequest) -> None:
    """In this very run: those there are of them, and none of the others."""
    marked = {item.nodeid for item in request.session.items if item.stash.get(MORE, False)}
    assert marked == {item.nodeid for item in thorough(request.session.items)}


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "parallel"])
@pytest.mark.thorough
def test_a_failure_is_named_when_it_happens(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (folder := tmp_path / "tests").mkdir()
    (folder / "__init__.py").touch()
    (folder / "conftest.py").write_bytes((REPOSITORY / "tests" / "conftest.py").read_bytes())
    (folder / "test_one.py").write_text(
        "import pytest\n\n"
        "@pytest.fixture\n"
        "def broken(): raise OSError('gone')\n\n"
        "def test_wrong(): assert 1 == 2, 'no'\n"
        "def test_right(): pass\n"
        "def test_not_set_up(broken): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *workers, "tests"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    at_once, _, summary = done.stdout.partition("= FAILURES =")
    assert "FAILED tests/test_one.py::test_wrong (call): AssertionError: no\n" in at_once
    assert "FAILED tests/test_one.py::test_not_set_up (setup): OSError: gone\n" in at_once
    assert at_once.count("FAILED") == 2
    assert "1 failed, 1 passed, 1 error" in summary


def test_what_never_comes_is_waited_for_as_long_as_said() -> None:
    answers = iter(["", "", "here"])
    assert poll(lambda: next(answers), every=0) == "here"
    with pytest.raises(AssertionError, match=r"not within 0.01 s: a reason"):
        poll(lambda: None, 0.01, lambda: "a reason", every=0.001)
    assert slowness() >= 1
