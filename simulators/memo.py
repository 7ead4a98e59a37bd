"""The memory of a simulated fleet: every permanent answer of every device, drawn once and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.kernels import memo as kernels

_SMALLEST = 10
"""log2 of the rows of a new table."""

_FEW = 8
"""Inputs up to which a cell for each takes no more than one key of a hash table: 64 bytes."""

_NARROW, _WIDE = np.iinfo(np.uint8).max - 1, np.iinfo(np.int64).max - 1
"""The largest symbols that a cell of one byte and one of eight hold: it holds them plus 1."""


def memory(answer_bytes: int | None, inputs: int, devices: int) -> FleetMemo | DirectMemo:
    """The memory for the keys device·inputs + input."""
    if answer_bytes is None and inputs <= _FEW:
        return DirectMemo(inputs * devices)
    return FleetMemo(answer_bytes)


class DirectMemo:
    """Symbols by small keys, one cell for each; the same contract as :class:`FleetMemo`'s."""

    def __init__(self, keys: int) -> None:
        self._cells: NDArray[Any] = np.zeros(keys, np.uint8)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._cells))

    def recall(
        self, keys: NDArray[np.int64], draw: Callable[[NDArray[np.int64]], NDArray[Any]]
    ) -> NDArray[Any]:
        """As :meth:`FleetMemo.recall`; symbols are int64 (n,), at least 0."""
        keys = np.ascontiguousarray(keys, np.int64)
        answers, rows = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
        count = kernels.look(keys, self._cells, answers, rows)
        if count < 0:
            raise ValueError("a memo key is of no device")
        if count:
            new = rows[:count]
            drawn = np.ascontiguousarray(draw(new), np.int64)
            most = _NARROW if self._cells.dtype == np.uint8 else _WIDE
            if kernels.enter(keys, new, drawn, most, self._cells, answers):
                self._cells = self._cells.astype(np.int64)
                kernels.enter(keys, new, drawn, _WIDE, self._cells, answers)
        return answers

    def part(self, index: int) -> FleetMemo | DirectMemo:
        raise IndexError(f"a memory of one attribute has no part {index}")

    def inputs_per_device(self, inputs: int, devices: int) -> NDArray[np.int64]:
        counts: NDArray[np.int64] = np.count_nonzero(self._cells.reshape(devices, inputs), axis=1)
        return counts


class FleetMemo:
    """Permanent answers by 64-bit key; what ``ldpbeam.protocols.simulation.FleetAnswers`` asks for."""

    def __init__(self, answer_bytes: int | None, parts: Sequence[FleetMemo | DirectMemo] = ()) -> None:
        self._parts = tuple(parts)
        self._size = 0
        self._clear(_SMALLEST)
        self._keys = np.empty(1 << _SMALLEST, np.int64)
        self._answers: NDArray[Any] = (
            np.empty(1 << _SMALLEST, np.int64)
            if answer_bytes is None
            else np.empty((1 << _SMALLEST, answer_bytes), np.uint8)
        )

    def __len__(self) -> int:
        return self._size

    def recall(
        self, keys: NDArray[np.int64], draw: Callable[[NDArray[np.int64]], NDArray[Any]]
    ) -> NDArray[Any]:
        """The answers for ``keys``; the new ones are drawn first, in one call, and kept."""
        keys = np.ascontiguousarray(keys, np.int64)
        positions = np.empty(keys.size, np.int64)
        kernels.find(keys, self._table, self._shift, positions)
        new = np.flatnonzero(positions < 0)
        if new.size:
            positions[new] = self._keep(keys[new], draw(new))
        recalled: NDArray[Any] = self._answers[positions]
        return recalled

    def part(self, index: int) -> FleetMemo | DirectMemo:
        return self._parts[index]

    def inputs_per_device(self, inputs: int, devices: int) -> NDArray[np.int64]:
        """How many inputs each device has memoised, the ledger's figure."""
        return np.bincount(self._keys[: self._size] // inputs, minlength=devices)

    def _keep(self, keys: NDArray[np.int64], answers: NDArray[Any]) -> NDArray[np.int64]:
        first, self._size = self._size, self._size + keys.size
        if self._size > len(self._keys):
            rows = 1 << (self._size - 1).bit_length()
            self._keys = _grown(self._keys, rows, first)
            self._answers = _grown(self._answers, rows, first)
        self._keys[first : self._size] = keys
        self._answers[first : self._size] = answers
        if 2 * self._size > len(self._table):
            self._clear((2 * self._size - 1).bit_length())
            first = 0
        positions = np.arange(first, self._size)
        kernels.insert(self._keys[first : self._size], positions, self._table, self._shift)
        return positions[positions.size - keys.size :]

    def _clear(self, bits: int) -> None:
        self._table = np.full((1 << bits, 2), -1, np.int64)
        self._shift = np.uint64(64 - bits)


def _grown(array: NDArray[Any], rows: int, used: int) -> NDArray[Any]:
    """A longer array with the same first ``used`` rows."""
    grown = np.empty((rows, *array.shape[1:]), array.dtype)
    grown[:used] = array[:used]
    return grown
