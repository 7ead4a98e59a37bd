"""Which devices of a fleet report in an epoch, where each draws a few epochs of its own for life.

The same function of the same random words as a device's
(:meth:`ldpbeam.collection.participation.Participation.chosen`), for columns of devices. The i-th word of a
device is its row of the stream ``participation`` at index i, so nothing depends on batching, on the epoch, or
on which epochs were simulated before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.collection.participation import Participation

from .population.specs import ABSENT
from .random_words import RandomWords

_CELLS = 16 << 20
"""Devices times epochs that are looked at together, a byte each."""


def taking_part(
    participation: Participation, random_words: RandomWords, epoch: int, first: int, rows: int
) -> NDArray[np.bool_]:
    """Which of the devices ``first … first + rows - 1`` report in an epoch, bool (rows,)."""
    reports = np.zeros(rows, np.bool_)
    step = max(1, _CELLS // participation.of)
    for begin in range(0, rows, step):
        some = slice(begin, min(begin + step, rows))
        drawn = _own_epochs(participation, random_words, first + begin, some.stop - begin)
        reports[some] = drawn[:, epoch]
    return reports


def silenced(
    participation: Participation | None,
    random_words: RandomWords,
    epoch: int,
    values: NDArray[np.integer[Any]],
) -> NDArray[np.integer[Any]]:
    """Values of a whole fleet, (devices,) or (devices, attributes), with silent devices as absent ones."""
    if participation is None:
        return values
    mine = taking_part(participation, random_words, epoch, 0, len(values))
    return np.where(mine if values.ndim == 1 else mine[:, np.newaxis], values, ABSENT).astype(values.dtype)


def _own_epochs(
    participation: Participation, random_words: RandomWords, first: int, rows: int
) -> NDArray[np.bool_]:
    own = np.zeros((rows, participation.of), np.bool_)
    devices = np.arange(rows)
    for place, limit in enumerate(participation.limits):
        drawn = random_words.words("participation", place, first, rows, 1, limit)[:, 0].astype(np.int64)
        own[devices, np.where(own[devices, drawn], limit - 1, drawn)] = True
    return own
