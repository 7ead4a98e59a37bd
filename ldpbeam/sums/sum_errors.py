"""Errors of weighted sums of one attribute's frequencies: of one epoch, and of several together.

An estimate of Σ w·f is Σ w·f̂ of the raw estimates. Its variance for a fixed fleet is Σ of f_x·Var(X | x) over
n·(own − other)², X being what one report says (ldpbeam/protocols/sum_laws.py), and more where devices are
drawn. What devices keep for life has a law of the same kind; docs/groups.md has formulas and proofs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ldpbeam.arrays import Floats, Ints
from ldpbeam.estimates import nearest_shares
from ldpbeam.over_time.covariance import MemoErrors
from ldpbeam.protocols.contract import FrequencyProtocol
from ldpbeam.protocols.part_estimator import PartEstimator
from ldpbeam.protocols.sum_laws import FreshReports, SumLaw


@dataclass(frozen=True, eq=False)
class DrawingError:
    """What drawing devices, and the values that each speaks about, adds to the variance of sums."""

    weights: Floats
    alone: float
    together: float

    def variance(self, frequency: Floats, scale: Floats | None = None) -> Floats:
        """Per report, float64 (..., sums), from estimates (..., k); ``scale`` as for ``SumLaw.noise``."""
        total = self.together * self.of_weights(frequency)
        if self.alone:
            clipped = np.clip(frequency, 0.0, 1.0)
            spread = clipped * (1 - clipped) * (1.0 if scale is None else scale)
            total = total + self.alone * (spread @ self.weights.T**2)
        return total

    def of_weights(self, frequency: Floats) -> Floats:
        """The variance of the weight of a device drawn at random, float64 (..., sums)."""
        low, high = self._ends
        mean = self.place(frequency)
        most = (low + high) * mean - low * high
        squares = self.weights**2
        middle = squares.mean(axis=1)
        second = middle + frequency @ (squares - middle[:, None]).T
        # With two weights only, as of a group, the mean says it.
        second = np.where(self._two, most, np.clip(second, mean**2, most))
        return np.asarray(np.maximum(second - mean**2, 0.0), np.float64)

    def place(self, frequency: Floats) -> Floats:
        """The mean weight of a device, between the least and the largest one, float64 (..., sums)."""
        return np.clip(self._mean(frequency), *self._ends)

    def opposed(self, frequency: Floats, average: Floats) -> Floats:
        """Factors whose products bound from below what drawing adds to a covariance, (parts, ..., sums)."""
        low, high = self._ends
        deviation = np.sqrt(self.of_weights(frequency))
        causes = [np.sqrt(abs(self.together)) * deviation]
        if self.together > 0:
            mean = self.place(frequency)
            held = np.where(average - low <= high - average, mean - low, high - mean)
            causes[0] = np.sqrt(self.together) * np.minimum(deviation, held)
        if self.alone:
            clipped = np.clip(frequency, 0.0, 1.0)
            causes.append(np.sqrt(self.alone * (clipped**2 @ self.weights.T**2)))
        return np.stack(causes)

    def _mean(self, frequency: Floats) -> Floats:
        middle = self.weights.mean(axis=1)
        return np.asarray(middle + frequency @ (self.weights - middle[:, None]).T, np.float64)

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        return self.weights.min(axis=1), self.weights.max(axis=1)

    @cached_property
    def _two(self) -> Any:
        low, high = self._ends
        at_end = (self.weights == low[:, None]) | (self.weights == high[:, None])
        return at_end.all(axis=1)


@dataclass(frozen=True, eq=False)
class SumErrors(MemoErrors):
    """Of weighted sums of the frequencies of one attribute, that every device may report in every epoch."""

    protocol: FrequencyProtocol[Any]
    weights: Floats
    share: float = 1.0
    present: float = 1.0
    again: float = 1.0

    # One epoch

    @cached_property
    def _report(self) -> SumLaw:
        return self.protocol.estimator.sum_law(self.weights)

    @cached_property
    def _drawn(self) -> DrawingError:
        asked, both = map(float, self.protocol.estimator.asked)
        return DrawingError(self.weights, 1 / asked - both, both - self.share * self.present)

    def variance(self, frequency: Floats, n: Ints) -> Floats:
        """Of estimates of the sums, float64 (T, sums)."""
        reports, scale = self.reports(n), None
        asked = float(self.protocol.estimator.asked[0])
        if asked < 1:
            scale = reports * asked / n
        law = self._report
        noise = law.noise(frequency, scale) / (law.own - law.other) ** 2
        return np.asarray((noise + self._drawn.variance(frequency, scale)) / reports, np.float64)

    def reports(self, n: Ints) -> Floats:
        """Reports of each epoch, float64 (T, 1), from those that speak about each value (T, k)."""
        if self.protocol.estimator.asked[0] == 1:
            return n[..., :1].astype(np.float64)
        each = float(self.protocol.estimator.asked[0] * n.shape[-1])
        return np.asarray(np.rint(n.sum(axis=-1, keepdims=True) / each), np.float64)

    # Several epochs

    @property
    def independent(self) -> bool:
        return self.protocol.estimator.lasting is None and self.share == 1 and self.again == 1

    @cached_property
    def _floor_laws(self) -> tuple[SumLaw, DrawingError]:
        """The law of what is kept, and what drawing for life adds."""
        if self.protocol.estimator.lasting is None:
            return FreshReports(self.weights, 1.0, 0.0, np.zeros_like(self.weights)), DrawingError(
                self.weights, 0.0, 1 - self.share
            )
        asked, both = map(float, self.protocol.estimator.asked)
        drawn = DrawingError(self.weights, 1 / asked - both, both - self.share)
        return self.protocol.estimator.sum_law(self.weights, lasting=True), drawn

    @property
    def _gap(self) -> float:
        law = self._floor_laws[0]
        return law.own - law.other

    def floor_variance(self, estimate: Floats) -> Floats:
        """The variance of the permanent round, over the devices that report in both epochs, (..., sums)."""
        answers, drawn = self._floor_laws
        return self.again * (answers.noise(estimate) / self._gap**2 + drawn.variance(estimate))

    def drawn_apart(self, estimate: Floats) -> Floats:
        """The covariance because a device that reports in one epoch is less likely to report in another."""
        if self.again == 1:
            return np.zeros((*estimate.shape[:-1], len(self.weights)))
        apart = self.share * (self.present - self.again)
        return np.asarray(apart * self._drawn.of_weights(estimate), np.float64)

    def drawn_anew(
        self, before: Floats, after: Floats, agreement: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """At least, at most: the covariance if every device in both epochs draws its value anew."""
        law = self._floor_laws[0]
        least, most = law.again(nearest_shares(before), nearest_shares(after))
        scale = self.again / self._gap**2
        return scale * least, scale * most

    def place(self, estimate: Floats) -> Floats:
        return self._floor_laws[1].place(estimate)

    def opposed(self, estimate: Floats, average: Floats) -> Floats:
        """Answers of different values, and the values of the devices that were drawn."""
        law, drawn = self._floor_laws
        answers = np.sqrt(np.maximum(-law.least, 0.0)) / self._gap
        shape = (*estimate.shape[:-1], len(self.weights))
        causes = [np.broadcast_to(answers, shape)[None], drawn.opposed(estimate, average)]
        causes = [np.sqrt(self.again) * one for one in causes]
        if self.again < 1:
            causes.append(np.sqrt(self.drawn_apart(estimate))[None])
        return np.concatenate(causes)


def sum_errors(
    estimator: PartEstimator, weights: Floats, participation: tuple[int, int] | None = None
) -> SumErrors:
    """Of an attribute; ``participation`` is m and T where a device reports in m of T epochs only."""
    protocol = estimator.protocol
    assert isinstance(protocol, FrequencyProtocol)  # noqa: S101 - a mean has no values to add up
    again = 1.0
    if participation is not None:
        reports, of = participation
        again = (reports - 1) / max(of - 1, 1)
        if reports == of:
            again = 1.0
    return SumErrors(protocol, weights, float(estimator.share), float(estimator.present), again)
