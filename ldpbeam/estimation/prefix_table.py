"""The counts of one prefix length, by function and symbol, and what they say of fingerprints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import numpy as np

from ldpbeam.arrays import Floats, Ints, Uints
from ldpbeam.estimation.prefix_plan import FALSE_FINDS, deviations
from ldpbeam.kernels import hashing

_MOST_FREQUENT, _ROUNDS = 256, 4
"""Strings whose parts are taken out of a table at most, and how often these are estimated."""


@dataclass(frozen=True)
class LevelCounts:
    """The reports of one prefix length.

    Attributes:
        length: symbols of a prefix.
        asked: share of all devices that have this level.
        counts: by function and symbol, int64 (F, g).
    """

    length: int
    asked: float
    counts: Ints


@dataclass(frozen=True)
class Reading:
    """How reports are read.

    Attributes:
        symbols: of the alphabet.
        own: chance that a report supports the prefix of its device, all rounds together.
        functions: a and c of the public list, uint64 (F,) each.
        fingerprints: of a level's number, from 0 on, and of texts: uint32 (texts,). A text that is shorter
            than the level's length is a whole string.
    """

    symbols: tuple[str, ...]
    own: float
    functions: tuple[Uints, Uints]
    fingerprints: Callable[[int, list[str]], Any]


def threshold(quantile: float, moments: Floats) -> float:
    """Where a sum with this variance and third cumulant lies so many deviations up (Cornish and Fisher)."""
    variance, third = moments
    if not variance or quantile == inf:
        return inf
    return float(quantile * sqrt(variance) + (quantile**2 - 1) / 6 * third / variance)


class PrefixTable:
    """A level's counts, and the rest of them without the parts of frequent strings.

    The excess of a string is its support less n/g, n·gap times the estimate of its share.
    """

    def __init__(self, level: LevelCounts, reading: Reading, number: int) -> None:
        self.level, self.own, self._reading, self._number = level, reading.own, reading, number
        self.counts = np.ascontiguousarray(level.counts, np.int64)
        self.rows: Ints = self.counts.sum(axis=1)
        self.n, self.g = int(self.rows.sum()), self.counts.shape[1]
        self.unit = max(self.n, 1) * (reading.own - 1 / self.g)
        self._rest: Floats = self.counts.astype(np.float64)
        self._frequent, self._parts = np.zeros(0, np.uint32), np.zeros(0)
        self.shared = np.zeros(0, np.uint32)

    def fingerprints(self, texts: list[str]) -> Any:
        return self._reading.fingerprints(self._number, texts)

    def moments(self) -> Floats:
        """Variance and third cumulant of the excess of a string of nobody: of one random cell of each row."""
        apart = self._rest - self._rest.mean(axis=1, keepdims=True)
        squares = apart * apart
        return np.asarray(np.array([squares.sum(), (squares * apart).sum()]) / self.g)

    def support(self, fingerprints: Any) -> Ints:
        sums = np.zeros(fingerprints.size, np.int64)
        hashing.add_listed(self.counts, *self._reading.functions, fingerprints, sums)
        return sums

    def excess(self, fingerprints: Any) -> Floats:
        """Without what other frequent strings add to it, where those were taken out."""
        sums = np.zeros(fingerprints.size)
        hashing.add_listed(self._rest, *self._reading.functions, fingerprints, sums)
        return np.asarray(sums - self.n / self.g + self._own_part(fingerprints))

    def residuals(self, fingerprints: Any) -> Floats:
        """By function, the support of each string less what its estimate expects: float64 (strings, F)."""
        there = self._rest[np.arange(len(self.rows)), self._symbols(fingerprints)]
        left = self.excess(fingerprints) - self._own_part(fingerprints)
        return np.asarray(there - (1 / self.g + left / max(self.n, 1))[:, None] * self.rows)

    def take_out(self, fingerprints: Any, tried: int) -> None:
        """Take the parts of the frequent ones of these strings out, by Jacobi's iteration.

        Frequent is what lies higher than any of so many strings of nobody: with one of these its noise would
        leave the table, from which the law of all others follows. Different strings with one fingerprint are
        remembered in ``shared``.
        """
        quantile = deviations(FALSE_FINDS, tried)
        values, times = np.unique(fingerprints, return_counts=True)
        self.shared = values[times > 1]
        functions, steep = np.arange(len(self.rows)), self.g / (self.g - 1) * self.rows / max(self.n, 1)
        for _ in range(_ROUNDS):
            excess, least = self.excess(values), threshold(quantile, self.moments())
            among = np.sort(np.argsort(-excess)[:_MOST_FREQUENT])
            among = among[excess[among] > least]
            self._frequent, self._parts = values[among], excess[among]
            self._rest = self.counts + (steep * self._parts.sum() / self.g)[:, None]
            for symbols, part in zip(self._symbols(self._frequent), self._parts, strict=True):
                self._rest[functions, symbols] -= steep * part

    def _own_part(self, fingerprints: Any) -> Floats:
        """The excess of each string that was taken out, 0 of the others."""
        if not self._frequent.size:
            return np.zeros(fingerprints.size)
        place = np.minimum(np.searchsorted(self._frequent, fingerprints), self._frequent.size - 1)
        return np.where(self._frequent[place] == fingerprints, self._parts[place], 0.0)

    def _symbols(self, fingerprints: Any) -> Ints:
        a, c = self._reading.functions
        same = [np.full(a.size, one, np.int64) for one in fingerprints.tolist()]
        hashed = [hashing.hash_affine(a, c, values, np.uint64(self.g)) for values in same]
        return np.array(hashed, np.int64).reshape(-1, a.size)


def sum_of_moments(tables: list[PrefixTable]) -> Floats:
    """Of the excess of a string of nobody in all these tables together."""
    return np.asarray(np.sum([table.moments() for table in tables], axis=0))
