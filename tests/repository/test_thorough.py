"""What `make test` leaves to `make check`: what is marked, and of marked cases all but as many as said."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import pytest

from tests.conftest import thorough


class Item:
    """As much of a collected test as the choice looks at."""

    def __init__(self, nodeid: str, mark: pytest.Mark | None = None) -> None:
        self.nodeid, self.mark = nodeid, mark

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        assert name == "thorough"
        return self.mark


def left(*items: Item) -> list[str]:
    found = thorough(cast("list[pytest.Item]", list(items)))
    return [item.nodeid for item in items if cast("Any", item) in found]


def marked(nodeid: str, **some: int) -> Item:
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
