"""The fleet's memo against a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldpbeam.simulators.memo import DirectMemo, FleetMemo

SYMBOL = None
CALLS = st.lists(
    st.lists(st.integers(0, 40) | st.integers(0, (1 << 63) - 1), unique=True, max_size=30),
    max_size=8,
)


class Reference:
    """One dictionary entry per key; answers are numbered in the order in which they are drawn."""

    def __init__(self) -> None:
        self.answers: dict[int, int] = {}

    def recall(self, keys: list[int]) -> list[int]:
        for key in keys:
            self.answers.setdefault(key, len(self.answers))
        return [self.answers[key] for key in keys]


class Drawn:
    """Answers numbered in the order of drawing, as symbols or as rows; remembers what was asked."""

    def __init__(self, answer_bytes: int | None) -> None:
        self.width = answer_bytes
        self.count = 0
        self.calls: list[list[int]] = []

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        self.calls.append(rows.tolist())
        numbers = np.arange(self.count, self.count + rows.size, dtype=np.int64)
        self.count += rows.size
        return numbers if self.width is None else as_rows(numbers, self.width)


def as_rows(numbers: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Each number as ``width`` bytes, low byte first."""
    return (numbers[:, None] >> (8 * np.arange(width)) % 64).astype(np.uint8)


def keys_of(keys: list[int]) -> NDArray[np.int64]:
    return np.array(keys, np.int64)


@pytest.mark.cases(1)
@pytest.mark.parametrize("width", [SYMBOL, 1, 3, 8, 177])
@given(calls=CALLS)
def test_answers_are_those_of_a_dictionary(width: int | None, calls: list[list[int]]) -> None:
    memo, reference, draw = FleetMemo(width), Reference(), Drawn(width)
    for keys in calls:
        new = [row for row, key in enumerate(keys) if key not in reference.answers]
        asked = len(draw.calls)
        found = memo.recall(keys_of(keys), draw)
        assert draw.calls[asked:] == ([new] if new else [])
        expected = keys_of(reference.recall(keys))
        shown = expected if width is None else as_rows(expected, width)
        assert found.dtype == (np.int64 if width is None else np.uint8)
        assert np.array_equal(found, shown)
        assert len(memo) == len(reference.answers)


@pytest.mark.parametrize("width", [SYMBOL, 8])
@pytest.mark.parametrize("step", [1, 1 << 20, 1 << 40])
def test_it_grows_and_forgets_nothing(width: int | None, step: int) -> None:
    memo, draw = FleetMemo(width), Drawn(width)
    keys = np.arange(40_000, dtype=np.int64) * step
    order = np.random.default_rng(1).permutation(keys)
    first = np.concatenate([memo.recall(part, draw) for part in np.array_split(order, 97)])
    assert len(memo) == keys.size
    assert np.array_equal(memo.recall(order, draw), first)
    assert draw.count == keys.size
    backwards = memo.recall(order[::-1], draw)
    assert np.array_equal(backwards[::-1], first)


# --- a cell for each key


@given(calls=st.lists(st.lists(st.integers(0, 29), unique=True, max_size=30), max_size=8))
@pytest.mark.parametrize("least", [0, 230, 254, 255, 1 << 40])
@pytest.mark.thorough
def test_cells_answer_as_a_dictionary(least: int, calls: list[list[int]]) -> None:
    """Answers count up from ``least``, across the largest that a cell of one byte holds."""
    memo, reference, draw = DirectMemo(30), Reference(), Drawn(SYMBOL)
    for keys in calls:
        new = [row for row, key in enumerate(keys) if key not in reference.answers]
        asked = len(draw.calls)
        found = memo.recall(keys_of(keys), lambda rows: draw(rows) + least)
        assert draw.calls[asked:] == ([new] if new else [])
        assert found.dtype == np.int64
        assert found.tolist() == [answer + least for answer in reference.recall(keys)]
        assert len(memo) == len(reference.answers)
    expected = [sum(key // 5 == device for key in reference.answers) for device in range(6)]
    counts = memo.inputs_per_device(5, 6)
    assert counts.dtype == np.int64
    assert counts.tolist() == expected
