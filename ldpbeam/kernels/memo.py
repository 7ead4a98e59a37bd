"""Kernels of the tables in which a simulated fleet looks its permanent answers up.

Where keys are few, a table has a cell for each (:func:`look`, :func:`enter`). Else an open-addressing hash
table leads from 64-bit keys to positions 0, 1, 2, … (:func:`find`, :func:`insert`). That table is int64 of
shape (capacity, 2), capacity a power of two above the number of keys. A row holds a key, at least 0, and its
position; key −1 marks a free row. Collisions step to the next row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.kernels.jit import kernel

_MIX = np.uint64(0x9E3779B97F4A7C15)


@kernel
def find(keys: Any, table: Any, shift: Any, positions: Any) -> None:
    """positions[i] = position of keys[i], or −1 where the table does not hold it."""
    last = table.shape[0] - 1
    for i in range(keys.size):
        key = keys[i]
        row = np.int64((np.uint64(key) * _MIX) >> shift)
        while table[row, 0] != key and table[row, 0] != -1:
            row = (row + 1) & last
        positions[i] = table[row, 1] if table[row, 0] == key else -1


@kernel
def insert(keys: Any, positions: Any, table: Any, shift: Any) -> None:
    """Add keys that the table does not hold, with their positions."""
    last = table.shape[0] - 1
    for i in range(keys.size):
        row = np.int64((np.uint64(keys[i]) * _MIX) >> shift)
        while table[row, 0] != -1:
            row = (row + 1) & last
        table[row, 0] = keys[i]
        table[row, 1] = positions[i]


@kernel
def look(keys: Any, cells: Any, answers: Any, new: Any) -> Any:
    """answers[i] = what the cell of keys[i] holds, and the rows whose cell is empty; returns their number."""
    missing = 0
    for i in range(keys.size):
        if not 0 <= keys[i] < cells.size:
            return -1
        cell = np.int64(cells[keys[i]])
        answers[i] = cell - 1
        new[missing] = i
        missing += cell == 0
    return missing


@kernel
def enter(keys: Any, new: Any, drawn: Any, most: Any, cells: Any, answers: Any) -> Any:
    """Put drawn[j] into the cell of keys[new[j]] and into answers[new[j]], if all are 0 .. ``most``."""
    least, greatest = most, np.int64(0)
    for j in range(drawn.size):
        least, greatest = min(least, drawn[j]), max(greatest, drawn[j])
    if least < 0:
        return -1
    if greatest > most:
        return 1
    for j in range(new.size):
        row = new[j]
        answers[row] = drawn[j]
        cells[keys[row]] = drawn[j] + 1
    return 0
