"""Covariance of the estimates of two epochs, from what devices keep for life (docs/over-time.md section 2).

Everything here is per report: a covariance of estimates from n reports each is the number divided by n. So
each formula is that of one device, and depends on the protocol's permanent round and not on its second one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldpbeam.arrays import Floats, Ints
from ldpbeam.collection.collection import Collection
from ldpbeam.estimates import share_levels, support_variance, variance
from ldpbeam.over_time.series import Series
from ldpbeam.protocols.contract import DistributionProtocol, FrequencyProtocol, MeanProtocol
from ldpbeam.protocols.estimator import EVERYONE, Result
from ldpbeam.protocols.part_estimator import PartEstimator
from ldpbeam.support import Recurrence, SupportProbabilities


@dataclass(frozen=True)
class DrawnAnew:
    """The rate: the chance that a device draws its value anew from one epoch to the next.

    It draws from the whole population. So the device comes back to an earlier value by chance only. Where
    devices come back for other reasons (weekdays, weekends, a usual value), the share of the devices that
    change their value is larger than the rate. If you know only that share, give it as ``most``, with 0 as
    ``least``. With ``least`` = 0 errors of means are at most those without a rate.

    Attributes:
        least, most: bounds of the rate, from 0 to 1; equal where it is known. A device that is replaced by
            another one counts as drawing anew.
    """

    least: float
    most: float

    def __post_init__(self) -> None:
        """Raises ValueError for rates out of order or outside 0 .. 1."""
        if not 0 <= self.least <= self.most <= 1:
            raise ValueError(f"needs 0 <= least <= most <= 1, not {self.least} and {self.most}")

    def unchanged(self, epochs: Ints) -> tuple[Floats, Floats]:
        """The least and the largest share of the devices that draw no other value in so many epochs."""
        least, most = (1 - np.float64(rate) for rate in (self.most, self.least))
        return np.asarray(least**epochs, np.float64), np.asarray(most**epochs, np.float64)


class MemoErrors(ABC):
    """The part of the errors of one attribute that comes from what devices keep for life.

    ``estimate`` is one or several rows of estimates; their last axis is the values of the attribute.
    """

    def levels(self, estimate: Floats) -> Floats | None:
        """The amount that :meth:`shares` subtracts from a row of estimates, (..., 1); None for nothing."""
        return None

    def shares(self, estimate: Floats, levels: Floats | None) -> Floats:
        """The frequencies that errors follow from: the estimates less the :meth:`levels` of their rows."""
        return estimate

    @abstractmethod
    def floor_variance(self, estimate: Floats) -> Floats:
        """Covariance of two epochs between which no device changes its value: V_one times n, at most."""

    def least_floor_variance(self, estimate: Floats) -> Floats:
        """The least that it can be, where the estimates do not tell."""
        return self.floor_variance(estimate)

    def agreement(self, before: Floats, after: Floats) -> Floats | None:
        """The number that :meth:`drawn_anew` needs of all shares of a row, (..., 1); None for nothing."""
        return None

    @abstractmethod
    def drawn_anew(
        self, before: Floats, after: Floats, agreement: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Covariance of two epochs between which every device draws its value anew: at least, at most.

        ``before`` and ``after`` are shares; of some values only where their :meth:`agreement` is given.

        Args:
            before, after: shares, (..., k).
            agreement: of the two rows, as :meth:`agreement` gives it; None where all values are there.
        """

    def drawn_apart(self, estimate: Floats) -> Floats:
        """What drawing devices takes from the floor variance at most, where each reports in some epochs."""
        return np.zeros_like(estimate)

    def place(self, estimate: Floats) -> Floats:
        """Where the estimates lie in their range: what :meth:`opposed` takes the mean of over the epochs."""
        return estimate

    @abstractmethod
    def opposed(self, estimate: Floats, average: Floats) -> Floats:
        """Whatever devices do, the covariance of two epochs is not below −Σ of products of these.

        Shape (parts,) + that of the estimates: one number for each cause, as a factor per epoch. ``average``
        is one row, the mean of :meth:`place` over the epochs of the series, since one bound holds for all.
        """


def levels_of(series: Series, errors: MemoErrors) -> Floats | None:
    """The :meth:`MemoErrors.levels` of each epoch of a series that has all values, (T, 1)."""
    every = [errors.levels(rows) for block in series.blocks() for rows in block.frequencies()]
    known = [levels for levels in every if levels is not None]
    return np.concatenate(known) if known else None


@dataclass(frozen=True)
class FrequencyErrors(MemoErrors):
    lasting: SupportProbabilities
    protocol: FrequencyProtocol[Any]

    def levels(self, estimate: Floats) -> Floats | None:
        """The amount by which the nearest frequencies that add up to 1 lie lower, (..., 1)."""
        return _levels(estimate)

    def shares(self, estimate: Floats, levels: Floats | None) -> Floats:
        """The nearest frequencies that add up to 1."""
        return _shares(estimate, levels)

    @property
    def recurrence(self) -> Recurrence:
        """What answers for different values have in common."""
        return self.protocol.estimator.recurrence

    @property
    def _gap(self) -> float:
        return float(self.lasting.gap)

    def floor_variance(self, estimate: Floats) -> Floats:
        """The variance of the permanent round alone, and of drawing the devices that speak about a value."""
        return variance(estimate, 1, self.lasting)

    def agreement(self, before: Floats, after: Floats) -> Floats | None:
        """The chance h that a device which draws its value anew draws the one that it had."""
        return _product_of(np.clip(before, 0.0, 1.0), np.clip(after, 0.0, 1.0))

    def drawn_anew(
        self, before: Floats, after: Floats, agreement: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """A device holds v before and after with the product of both frequencies."""
        own, other, recurrence = float(self.lasting.own), float(self.lasting.other), self.recurrence
        first, second = np.clip(before, 0.0, 1.0), np.clip(after, 0.0, 1.0)
        twice = first * second
        involved = first + second - 2 * twice
        same = np.maximum(_product_of(first, second) if agreement is None else agreement, twice)
        apart = np.maximum(1 - same - involved, 0.0)
        shared = twice * own * (1 - own) + (same - twice) * other * (1 - other)
        shared = shared + involved * recurrence.involved + apart * recurrence.apart
        covariance = np.asarray(shared / self._gap**2, np.float64)
        return covariance, covariance

    def place(self, estimate: Floats) -> Floats:
        """Between 0 and 1."""
        return np.clip(estimate, 0.0, 1.0)

    def opposed(self, estimate: Floats, average: Floats) -> Floats:
        """Answers of different values may be opposed, and so may values of the devices that were drawn."""
        clipped = self.place(estimate)
        answers = np.full_like(clipped, np.sqrt(max(-self.recurrence.apart_least, 0.0)) / self._gap)
        held = np.where(average <= 0.5, clipped, 1 - clipped)
        drawn = np.sqrt(1 - float(self.lasting.sampled)) * held
        return np.stack([answers, drawn])


def _levels(estimate: Floats) -> Floats | None:
    """Of all values; of one value alone, nothing is known about a sum."""
    return share_levels(estimate) if estimate.shape[-1] > 1 else None


def _shares(estimate: Floats, levels: Floats | None) -> Floats:
    return estimate if levels is None else np.asarray(np.maximum(estimate - levels, 0.0), np.float64)


def _product_of(first: Floats, second: Floats) -> Floats:
    """Σ f·f' over the values: how often two independent draws agree; at least 1/k, and at most 1."""
    if first.shape[-1] == 1:
        return np.ones_like(first)
    total = np.nansum(first, axis=-1, keepdims=True) * np.nansum(second, axis=-1, keepdims=True)
    agree = np.nansum(first * second, axis=-1, keepdims=True) / np.maximum(total, 1e-300)
    return np.asarray(np.clip(agree, 1 / first.shape[-1], 1.0), np.float64)


@dataclass(frozen=True)
class MeanErrors(MemoErrors):
    """Of one mean of values 0 .. ``maximum``, in its units."""

    maximum: int
    ends: SupportProbabilities | None
    share: float = 1.0

    def floor_variance(self, estimate: Floats) -> Floats:
        """As if the memoised bits were coins of their mean probability, which holds any share of devices
        too."""
        place = np.clip(estimate / self.maximum, 0.0, 1.0)
        if self.ends is None:
            return np.asarray((1 - self.share) * self.maximum**2 * place * (1 - place), np.float64)
        return self.maximum**2 * variance(place, 1, self.ends)

    def least_floor_variance(self, estimate: Floats) -> Floats:
        """Bits are the less random the nearer values lie to both ends."""
        if self.ends is None:
            return np.zeros_like(estimate)
        own, other, gap = float(self.ends.own), float(self.ends.other), float(self.ends.gap)
        least = support_variance(np.zeros_like(estimate), own, other)
        return self.maximum**2 * least / gap**2

    def drawn_anew(
        self, before: Floats, after: Floats, agreement: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Between 0, as rounding rises with the value whatever α is, and what unchanged values would have."""
        nothing = np.zeros_like(before)
        if self.ends is None:
            return nothing, nothing
        return nothing, np.sqrt(self.floor_variance(before) * self.floor_variance(after))

    def opposed(self, estimate: Floats, average: Floats) -> Floats:
        """Of the devices drawn for life, values may fall where they were high: at most both deviations."""
        place = np.clip(estimate / self.maximum, 0.0, 1.0)
        drawn = np.sqrt((1 - self.share) * place * (1 - place)) * self.maximum
        return np.asarray(drawn[None], np.float64)


def memo_errors(estimator: PartEstimator) -> MemoErrors | None:
    """Of an attribute that every device reports in every epoch; None where errors are independent."""
    protocol, share = estimator.protocol, estimator.share
    if protocol.estimator.result is Result.DISCOVERED:
        return None  # of what was found in one epoch, nothing is known of others
    if isinstance(protocol, DistributionProtocol):
        return None  # single values have no estimate, so none that could have an error
    if isinstance(protocol, MeanProtocol):
        if protocol.estimator.lasting_ends is None and share == EVERYONE:
            return None
        return MeanErrors(protocol.estimator.maximum, protocol.estimator.lasting_ends, float(share))
    assert isinstance(protocol, FrequencyProtocol)  # noqa: S101 - there is no fourth kind
    lasting = estimator.lasting
    return None if lasting is None else FrequencyErrors(lasting, protocol)


@dataclass(frozen=True)
class SlottedErrors(MemoErrors):
    """Where a device reports in ``reports`` of ``of`` epochs only, which it drew for life."""

    whole: MemoErrors | None
    maximum: int
    reports: int
    of: int
    share: float = 1.0
    sum_to_one: bool = False

    def levels(self, estimate: Floats) -> Floats | None:
        return _levels(estimate) if self.sum_to_one else None

    def shares(self, estimate: Floats, levels: Floats | None) -> Floats:
        return _shares(estimate, levels)

    @property
    def _again(self) -> float:
        return (self.reports - 1) / max(self.of - 1, 1)

    def floor_variance(self, estimate: Floats) -> Floats:
        return (
            np.zeros_like(estimate)
            if self.whole is None
            else self._again * self.whole.floor_variance(estimate)
        )

    def least_floor_variance(self, estimate: Floats) -> Floats:
        """Of the devices that report in both epochs, without what :meth:`drawn_apart` takes away."""
        return (
            np.zeros_like(estimate)
            if self.whole is None
            else self._again * self.whole.least_floor_variance(estimate)
        )

    def drawn_apart(self, estimate: Floats) -> Floats:
        """σ(T−m)/(T(T−1))·f(1−f), reached where nobody changes its value; of a mean with m² for 1."""
        place = np.clip(estimate / self.maximum, 0.0, 1.0)
        apart = self.share * (self.of - self.reports) / (self.of * max(self.of - 1, 1))
        return np.asarray(self.maximum**2 * apart * place * (1 - place), np.float64)

    def agreement(self, before: Floats, after: Floats) -> Floats | None:
        return None if self.whole is None else self.whole.agreement(before, after)

    def drawn_anew(
        self, before: Floats, after: Floats, agreement: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Of the devices that report in both epochs; who they are says nothing about new values."""
        if self.whole is None:
            return np.zeros_like(before), np.zeros_like(before)
        least, most = self.whole.drawn_anew(before, after, agreement)
        return self._again * least, self._again * most

    def place(self, estimate: Floats) -> Floats:
        return estimate if self.whole is None else self.whole.place(estimate)

    def opposed(self, estimate: Floats, average: Floats) -> Floats:
        drawn = np.sqrt(self.drawn_apart(estimate))[None]
        if self.whole is None:
            return np.asarray(drawn, np.float64)
        return np.concatenate([np.sqrt(self._again) * self.whole.opposed(estimate, average), drawn])


def errors_of(collection: Collection, *, sampled: bool = False) -> tuple[MemoErrors | None, ...]:
    """Of each attribute of a collection, in their order; None where errors of epochs are independent."""
    life = collection.participation
    estimators = [one.of_sample if sampled else one for one in collection.estimators]
    if life is None:
        return tuple(map(memo_errors, estimators))
    return tuple(slotted_errors(estimator, life.reports, life.of) for estimator in estimators)


def slotted_errors(estimator: PartEstimator, reports: int, of: int) -> SlottedErrors:
    """Of an attribute that a device reports in ``reports`` of ``of`` epochs only."""
    protocol = estimator.protocol
    maximum, sum_to_one = (
        (protocol.estimator.maximum, False) if isinstance(protocol, MeanProtocol) else (1, True)
    )
    return SlottedErrors(memo_errors(estimator), maximum, reports, of, float(estimator.share), sum_to_one)


def std_error_floor(errors: MemoErrors | None, frequency: Floats, n: Ints, std_error: Floats) -> Floats:
    """√V_one: a mean over epochs does not become more certain than that while devices keep their values."""
    if errors is None:
        return np.where(np.isnan(std_error), np.nan, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        floor = np.sqrt(errors.floor_variance(errors.shares(frequency, errors.levels(frequency))) / n)
    return np.asarray(np.minimum(floor, std_error), np.float64)
