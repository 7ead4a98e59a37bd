"""The interval family: a function cuts a domain that has an order into g stretches of neighbouring values.

A report then says of a stretch of values that the device's value may lie in it, where other families say it
of a scattered set. What many reports say of stretches is a distribution with its quantiles and its mean; it
says little of single values (docs/maths.md section 3).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from math import exp, log
from typing import Any, ClassVar

from ldpbeam.arrays import Ints, Uints, read_only
from ldpbeam.errors import CollectionError
from ldpbeam.hashing.base import TableFamily

FUNCTIONS = 64
"""Functions of the family, S: the error of a cumulative share is within 0.3 % of that of 4,096 random ones.

A power of two, so that an odd multiple of a seed, mod S, takes each number once.
"""
_MULTIPLIER = 11
"""Its powers mod S place the cuts: 16 different ones, each cut's place independent of its neighbours'."""
_MOST_STRETCHES = 64


@dataclass(frozen=True)
class IntervalFamily(TableFamily):
    """H(v) = how many of g − 1 cuts lie at or below v; the domain has an order."""

    NAME: ClassVar[str] = "interval"

    def __post_init__(self) -> None:
        """Raises CollectionError for more stretches than values, or than 64."""
        most = min(self.domain_size, _MOST_STRETCHES)
        if not 2 <= self.g <= most:
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"g = {self.g} is not in 2 .. {most}, the numbers of stretches that the interval family cuts "
                f"{self.domain_size} values into",
                key="g",
                remedy="Use g: optimal, or g: 2 for the smallest lifetime cap.",
            )

    @cached_property
    def multipliers(self) -> tuple[int, ...]:
        """11^i mod S for every cut i."""
        return tuple(pow(_MULTIPLIER, i, FUNCTIONS) for i in range(self.g - 1))

    def _cut(self, seed: int, index: int) -> int:
        """⌈(2·(i·S + 11^i·s mod S) + 1)·(k − 1) / (2·(g − 1)·S)⌉."""
        place = index * FUNCTIONS + self.multipliers[index] * seed % FUNCTIONS
        return -(-(2 * place + 1) * (self.domain_size - 1) // (2 * (self.g - 1) * FUNCTIONS))

    @cached_property
    def _stretches(self) -> tuple[tuple[int, ...], ...]:
        """The ends of the stretches of every function: 0, the cuts, k."""
        return tuple(
            (0, *(self._cut(seed, index) for index in range(self.g - 1)), self.domain_size)
            for seed in range(FUNCTIONS)
        )

    def bounds(self) -> Ints:
        """Ends of the stretches, int64 (S, g + 1)."""
        return _bounds(self)

    def collides(self, v: int, w: int) -> Fraction:
        low, high = sorted((v, w))
        apart = sum(any(low < cut <= high for cut in ends[1:-1]) for ends in self._stretches)
        return Fraction(FUNCTIONS - apart, FUNCTIONS)

    @property
    def least_collision(self) -> Fraction:
        """The first and the last value never do: every cut lies between them."""
        return Fraction(0)

    @property
    def linkability(self) -> str:
        return (
            "Which stretch of values a device is in: many reports about one value tell it, below or above "
            f"each of the cuts of the device's hash function. The function, one of {FUNCTIONS}, is in every "
            "report; all devices with the same one look alike."
        )

    @property
    def functions(self) -> int:
        return FUNCTIONS

    @property
    def classes(self) -> int:
        return FUNCTIONS

    @property
    def reached(self) -> dict[int, float]:
        numbers = [sum(low < high for low, high in pairwise(ends)) for ends in self._stretches]
        return {number: numbers.count(number) / FUNCTIONS for number in sorted(set(numbers))}

    def information(self, own: float, other: float) -> float:
        step = (own - other) / self.domain_size
        reports = sum(times * _surprise(other + step * length) for length, times in _lengths(self).items())
        return reports / FUNCTIONS - _surprise(own) - (self.g - 1) * _surprise(other)

    def hash(self, seed: int, value: int) -> int:
        # Always all cuts: a loop that stops at the value would show it by its time.
        return sum(self._cut(seed, index) <= value for index in range(self.g - 1))

    def definition(self) -> dict[str, Any]:
        return {
            "family": self.NAME,
            "g": self.g,
            "functions": FUNCTIONS,
            "multipliers": list(self.multipliers),
        }

    def hash_many(self, seeds: Uints, values: Ints) -> Ints:
        from ldpbeam.kernels import hashing

        hashed: Ints = hashing.hash_interval(seeds, values, self.bounds())
        return hashed

    def cells(self, counts: Ints) -> Ints:
        return counts.reshape(FUNCTIONS, self.g)

    def support_counts(self, counts: Ints) -> Ints:
        import numpy as np

        table, bounds = self.cells(counts), self.bounds()
        steps = np.zeros(self.domain_size + 1, np.int64)
        np.add.at(steps, bounds[:, :-1], table)
        np.subtract.at(steps, bounds[:, 1:], table)
        return np.cumsum(steps[:-1])

    def steps(self, reports: float) -> float:
        return reports + 2 * self.counts_length + self.domain_size


@lru_cache(maxsize=8)
def _bounds(family: IntervalFamily) -> Ints:
    import numpy as np

    return read_only(np.array(family._stretches, np.int64))


@lru_cache(maxsize=_MOST_STRETCHES)
def _lengths(family: IntervalFamily) -> Counter[int]:
    """By length in values: how many stretches all functions have. Searches at several ε1 ask again."""
    return Counter(high - low for ends in family._stretches for low, high in pairwise(ends))


@lru_cache(maxsize=256)
def optimal_stretches(domain_size: int, epsilon_first: float) -> int:
    """The g under which the first report tells the server most, over all values alike, within ε1."""

    def information(g: int) -> float:
        ratio = exp(epsilon_first)
        return IntervalFamily(g, domain_size).information(ratio / (ratio + g - 1), 1 / (ratio + g - 1))

    return max(range(2, min(domain_size, _MOST_STRETCHES) + 1), key=lambda g: (information(g), -g))


def _surprise(chance: float) -> float:
    return -chance * log(chance)
