"""Stage 5 of 5, the contract: what a consistency method is given and what it promises.

A method maps k raw, unbiased estimates and what is known about their noise to k new numbers. It
never changes its input, is deterministic, and is post-processing: it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ldpbeam.estimates import support_variance

FloatArray: TypeAlias = npt.NDArray[np.float64]

LARGEST_ESTIMATE = 1e100
"""Larger magnitudes are refused: no channel yields them, and sums of them may overflow."""

SMALLEST_GAP = 2.0**-64
"""The grain of the project's probabilities, hence the least possible `own` - `other`."""


@dataclass(frozen=True)
class Noise:
    """What is known about how the estimates of one histogram were made (docs/maths.md section 1)."""

    n: int
    own: float
    other: float
    exclusive: bool

    def __post_init__(self) -> None:
        """Refuse what no channel can be."""
        if self.n < 0:
            raise ValueError(f"n: reports behind a histogram cannot be negative, got {self.n}")
        if not 0.0 <= self.other < self.own <= 1.0:
            raise ValueError(
                f"own, other: need 0 <= other < own <= 1, got own={self.own}, other={self.other}"
            )
        if self.own - self.other < SMALLEST_GAP:
            raise ValueError(f"own, other: need own - other >= 2^-64, got own={self.own}, other={self.other}")

    @property
    def gap(self) -> float:
        """`own` - `other`: how much of a device's value reaches the server."""
        return self.own - self.other

    def variance(self, frequency: FloatArray) -> FloatArray:
        """Variance of an estimate whose true frequency is given; infinite for n = 0."""
        true = np.clip(np.asarray(frequency, dtype=np.float64), 0.0, 1.0)
        if self.n == 0:
            return np.full_like(true, np.inf)
        bits = support_variance(true, self.own, self.other)
        return np.asarray(bits / (self.n * self.gap**2), dtype=np.float64)

    @property
    def floor_variance(self) -> float:
        """V*, the variance of the estimate of a value nobody holds; infinite for n = 0."""
        return float(self.variance(np.zeros(1))[0])

    def realisable(self, estimates: FloatArray) -> FloatArray:
        """Move each estimate into the range that support counts from 0 to n can produce."""
        return np.clip(estimates, -self.other / self.gap, (1.0 - self.other) / self.gap)


@dataclass(frozen=True)
class Method:
    """One consistency method and its promises, which one property test asserts for all methods."""

    name: str
    apply: Callable[[FloatArray, Noise], FloatArray]
    non_negative: bool
    sums_to_one: bool
    summary: str


def checked(estimates: FloatArray) -> FloatArray:
    """Return a fresh float64[k] copy, or raise ValueError saying what is wrong with them."""
    values = np.array(estimates, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"estimates: one number per value is needed, got shape {values.shape}")
    wrong = ~(np.abs(values) <= LARGEST_ESTIMATE)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise ValueError(
            f"estimates: each must be finite and at most {LARGEST_ESTIMATE:g} in size, "
            f"got {values[first]} at index {first}"
        )
    return values


def uniform(k: int) -> FloatArray:
    """The answer of a normalising method that has nothing to go by: 1/k for every value."""
    return np.full(k, 1.0 / k)
