"""What one report says about a weighted sum: X = Σ of w_v over the values v that it supports.

For every encoding the variance of X given the value that a device holds, and what two memoised answers of one
device have in common. Weights are float64 (sums, k). docs/groups.md has the formulas.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ldpbeam.arrays import Floats, Ints

if TYPE_CHECKING:
    from ldpbeam.hashing.base import UniversalFamily

_WORK = 1 << 33
"""Multiplications up to which the least covariance is looked for among all pairs of values."""


class SumLaw(ABC):
    """The law of X for one round, or for two rounds composed.

    Attributes:
        weights: float64 (sums, k).
        own, other: P(support | own value) and P(support | another).
    """

    weights: Floats
    own: float
    other: float

    @property
    @abstractmethod
    def conditional(self) -> Floats:
        """Var(X | value), float64 (sums, k)."""

    @property
    def mean(self) -> Floats:
        """E[X | value], float64 (sums, k)."""
        whole = self.weights.sum(axis=1, keepdims=True)
        return np.asarray(self.other * whole + (self.own - self.other) * self.weights, np.float64)

    def noise(self, frequency: Floats, scale: Floats | None = None) -> Floats:
        """Σ of f_x·Var(X | x), float64 (..., sums).

        Linear in the frequencies, so that unbiased ones give an unbiased variance; they need not add up to 1,
        and what they lack counts as spread evenly. Kept between the least and the largest variance.

        Args:
            frequency: (..., k), estimates.
            scale: (..., k), what part of the expected reports speaks about a value, inverted; None for 1.
        """
        means = self.conditional
        middle = means.mean(axis=1)
        whole = middle + frequency @ (means - middle[:, None]).T
        return np.asarray(np.clip(whole, means.min(axis=1), means.max(axis=1)), np.float64)

    @abstractmethod
    def again(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        """Covariance of X and X' where a device draws its values from these frequencies independently.

        Args:
            first, second: (k,), not negative, each with sum 1.

        Returns:
            (least, most), each (sums,): equal where it is known.
        """

    @property
    def least(self) -> Floats:
        """The covariance of X and X' for two different values is at least this, (sums,); not above 0."""
        return np.zeros(len(self.weights))


@dataclass(frozen=True, eq=False)
class OneSymbol(SumLaw):
    """Direct encoding: X is the weight of the one value that is reported."""

    weights: Floats
    own: float
    other: float

    @cached_property
    def conditional(self) -> Floats:
        """E[X²] − E[X]² given the value, float64 (sums, k)."""
        squares = (self.weights**2).sum(axis=1, keepdims=True)
        second = self.other * squares + (self.own - self.other) * self.weights**2
        return np.asarray(np.maximum(second - self.mean**2, 0.0), np.float64)

    def again(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        value = self.conditional @ (first * second)
        return value, value


@dataclass(frozen=True, eq=False)
class IndependentBits(SumLaw):
    """Bits that are independent given the value, each asked of the share ``sampled`` of the devices."""

    weights: Floats
    own: float
    other: float
    sampled: float = 1.0
    shared: float = 0.0

    @property
    def _bit(self) -> tuple[float, float]:
        """Variance of the bit of another value, and what that of the own value has more."""
        absent = self.other * (1 - self.other)
        return absent, self.own * (1 - self.own) - absent

    @cached_property
    def conditional(self) -> Floats:
        """Σ w²·other(1 − other), with own(1 − own) for the value itself."""
        absent, more = self._bit
        squares = self.weights**2
        return np.asarray((absent * squares.sum(axis=1, keepdims=True) + more * squares) / self.sampled)

    def noise(self, frequency: Floats, scale: Floats | None = None) -> Floats:
        if scale is None:
            return super().noise(frequency)
        absent, more = self._bit
        squares = self.weights.T**2
        bounds = scale @ squares
        whole = absent * bounds + more * ((frequency * scale) @ squares)
        low, high = sorted((absent, absent + more))
        return np.asarray(np.clip(whole, low * bounds, high * bounds) / self.sampled, np.float64)

    def again(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        twice = first * second
        value = self.conditional @ twice
        if self.shared:
            apart = np.maximum(1 - twice.sum() - (first + second - 2 * twice), 0.0)
            value = value + self.weights**2 @ (self.shared * apart) / self.sampled
        return value, value


@dataclass(frozen=True, eq=False)
class HashedSymbol(SumLaw):
    """Local hashing: X is what the values with the reported symbol weigh."""

    weights: Floats
    own: float
    other: float
    lie: float
    family: UniversalFamily

    @cached_property
    def _squares(self) -> Floats:
        return self.family.class_squares(self.weights)

    @cached_property
    def conditional(self) -> Floats:
        """E[X²] is lie·E Σ_y a(y)² + (own − lie)·E a(H(x))², a(y) being what the values of symbol y weigh."""
        pair = float(self.family.collision)
        whole = self.weights.sum(axis=1, keepdims=True)
        squares = (self.weights**2).sum(axis=1, keepdims=True)
        second = self.lie * ((1 - pair) * squares + pair * whole**2)
        second = second + (self.own - self.lie) * self._squares
        return np.asarray(np.maximum(second - self.mean**2, 0.0), np.float64)

    def _given(self, some: slice) -> tuple[Ints, Floats, Floats] | None:
        """Symbols (functions, k); mean and variance of X given function and symbol, (sums, functions, g)."""
        from ldpbeam.hashing.collisions import class_weights

        symbols = self.family.table()
        if symbols is None:
            return None
        weights = self.weights[some]
        held = class_weights(symbols, weights, self.family.g)
        mean = self.lie * weights.sum(axis=1)[:, None, None] + (self.own - self.lie) * held
        second = self.lie * (held**2).sum(axis=2, keepdims=True) + (self.own - self.lie) * held**2
        return symbols, mean, np.maximum(second - mean**2, 0.0)

    @property
    def _spread(self) -> Floats:
        """Var(E[X | function, x]) of every value x, at most what X itself has, float64 (sums, k)."""
        between = self._squares * (self.own - self.lie) ** 2
        whole = self.weights.sum(axis=1, keepdims=True)
        pair = float(self.family.collision)
        middle = (self.own - self.lie) * (self.weights + pair * (whole - self.weights))
        return np.asarray(np.clip(between - middle**2, 0.0, self.conditional), np.float64)

    def again(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        from ldpbeam.hashing.collisions import class_weights

        value = np.empty(len(self.weights))
        for at in range(len(self.weights)):
            given = self._given(slice(at, at + 1))
            if given is None:
                most = np.sqrt((self.conditional @ first) * (self.conditional @ second))
                return -np.sqrt((self._spread @ first) * (self._spread @ second)), most
            symbols, mean, variance = given
            if at == 0:
                one, two = class_weights(symbols, np.stack([first, second]), self.family.g)
            apart = (one * mean[0]).sum(axis=1) * (two * mean[0]).sum(axis=1)
            alike = (one * two * variance[0]).sum(axis=1)
            middle = (self.mean[at] @ first) * (self.mean[at] @ second)
            value[at] = (apart + alike).mean() - middle
        return value, value

    @cached_property
    def least(self) -> Floats:
        k = self.weights.shape[1]
        least = np.zeros(len(self.weights))
        for at in range(len(self.weights)):
            given = self._given(slice(at, at + 1))
            if given is None or len(given[0]) * (self.family.g + 1) * k**2 * len(self.weights) > _WORK:
                return np.asarray(-self._spread.max(axis=1), np.float64)
            symbols, mean, variance = given
            rows = np.arange(len(symbols))[:, None]
            means, spread = mean[0][rows, symbols], np.sqrt(variance[0][rows, symbols])
            common = means.T @ means
            for symbol in range(self.family.g):
                held = np.where(symbols == symbol, spread, 0.0)
                common += held.T @ held
            common = common / len(symbols) - np.outer(self.mean[at], self.mean[at])
            np.fill_diagonal(common, 0.0)
            least[at] = common.min()
        return least


@dataclass(frozen=True, eq=False)
class FreshReports(SumLaw):
    """Any report of which nothing is memoised, by the variances that its encoding works out."""

    weights: Floats
    own: float
    other: float
    given: Floats

    @property
    def conditional(self) -> Floats:
        return np.asarray(np.maximum(self.given, 0.0), np.float64)

    def again(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        """0 and 0: nothing is memoised, so that reports are independent given the values."""
        none = np.zeros(len(self.weights))
        return none, none
