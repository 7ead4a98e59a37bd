"""What somebody needs: how much there is to collect from, and the limits that a choice has to keep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache
from math import sqrt
from typing import ClassVar, Self

import numpy as np

from ldpbeam.arrays import Floats
from ldpbeam.collection.domain import MAX_DOMAIN
from ldpbeam.errors import UsageError, option_error
from ldpbeam.over_time.covariance import DrawnAnew
from ldpbeam.protocols.estimator import Result

LEAST_LEVEL, MOST_LEVEL = 1e-6, 32.0
"""Levels that a collection may have, see :meth:`ldpbeam.protocols.Parameters.level`."""

FREE_LEVELS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Levels ε∞ that are tried in this order where no level is asked for, up to one that gives the error."""

USUAL_LEVEL = 2.0
"""ε∞ where neither a level nor an error is asked for."""


USUAL_EPOCHS = 365
"""T where nothing says how many epochs are planned: a year of days."""


@dataclass(frozen=True)
class Needs:
    """What is asked for, whatever is estimated. Limits that are None limit nothing.

    Class constants:
        RESULT: what an epoch is to yield.

    Attributes:
        values: k, how many values the domain has.
        devices: how many report in an epoch, all of them.
        epochs: T, how many epochs are planned.
        drawn_anew: the chance that a device draws its value anew from one epoch to the next; None where it
            is not known, and every error over epochs is then the larger one of all possible rates. Of a range
            each error takes the end that is worse for it.
        longitudinal: the most that all reports about one memoised input may tell, ε∞.
        first: the most that a first report may tell, ε1.
        inputs_cap: the most that all reports of a device may tell about which inputs it memoised, between two
            sequences of inputs that change, and come back, at the same epochs.
        lifetime: the most that all reports of a device may tell about anything, however its values change.
        target: half-width of the 95 % interval that is wanted: of a frequency (0.01 is one percentage point),
            of a mean in the units of its counter.
        bits: the most bits of payload that a report may have.
    """

    RESULT: ClassVar[Result]

    values: int
    devices: int
    epochs: int = USUAL_EPOCHS
    drawn_anew: DrawnAnew | None = None
    longitudinal: float | None = None
    first: float | None = None
    inputs_cap: float | None = None
    lifetime: float | None = None
    target: float | None = None
    bits: int | None = None

    @property
    def nobody_changes(self) -> bool:
        return self.drawn_anew is not None and self.drawn_anew.most == 0

    def __post_init__(self) -> None:
        """Raises UsageError for a number out of its range, or ε1 that is not below ε∞."""
        _within("the number of values", self.values, 2, MAX_DOMAIN)
        _within("the number of devices", self.devices, 1, 10**15)
        _within("the number of epochs", self.epochs, 1, 1 << 20)
        for what, level in (
            ("ε∞", self.longitudinal),
            ("ε1", self.first),
            ("the lifetime ε", self.lifetime),
        ):
            _within(what, level, LEAST_LEVEL, MOST_LEVEL)
        _within("the cap", self.inputs_cap, LEAST_LEVEL, MOST_LEVEL * self.values)
        if self.target is not None and not 0 < self.target < self.whole:
            raise _unfit(f"the target error must lie between 0 and {self._whole_in_words}")
        _within("the bits of a report", self.bits, 1, 1 << 30)
        if self.first is not None and self.longitudinal is not None and not self.first < self.longitudinal:
            raise _unfit(f"ε1 = {self.first:g} is not below ε∞ = {self.longitudinal:g}")

    @property
    def whole(self) -> float:
        """How far apart what is estimated can lie: 1 for a frequency, m for a mean of 0 .. m."""
        return 1.0

    @property
    def _whole_in_words(self) -> str:
        return "100 percentage points"

    @property
    def limited(self) -> bool:
        """Whether any limit says how much a device may lose."""
        return not all(one is None for one in (self.longitudinal, self.first, self.inputs_cap, self.lifetime))

    def at(self, level: float) -> Self:
        return replace(self, longitudinal=level)


@dataclass(frozen=True)
class FrequencyNeeds(Needs):
    """Frequencies of all values."""

    RESULT = Result.FREQUENCIES

    frequencies: tuple[float, ...] | None = None

    @cached_property
    def uniform_error(self) -> float:
        """Root mean square error of answering 1/k for every value, without collecting anything."""
        squares = float((self.shares**2).sum())
        return sqrt(max(squares / self.values - 1 / self.values**2, 0.0))

    @cached_property
    def shares(self) -> Floats:
        """Frequencies of the values: those that are known, else such that fall like 1/rank."""
        return zipf(self.values) if self.frequencies is None else np.array(self.frequencies)


@dataclass(frozen=True)
class MeanNeeds(Needs):
    """The mean of a counter in 0 .. m; ``values`` is m + 1."""

    RESULT = Result.MEAN

    @property
    def maximum(self) -> int:
        return self.values - 1

    @property
    def whole(self) -> float:
        return float(self.maximum)

    @property
    def _whole_in_words(self) -> str:
        return f"{self.maximum:,}, the end of the counter's range (or 100%)"


class Ordered(Enum):
    """What is asked of the distribution of values in an order."""

    SHARE = "cumulative share"
    """The share of the devices at or below a value."""
    QUANTILE = "quantile"
    """The value at or below which a share of the devices lies."""
    MEAN = "mean"
    """The mean of the values."""


@dataclass(frozen=True)
class OrderedNeeds(Needs):
    """The distribution of values in an order.

    Attributes:
        asked: what the error is of.
        length: of the domain in the unit of its values: k, or the end of a range; a quantile and a mean have
            this unit.
    """

    RESULT = Result.FREQUENCIES

    asked: Ordered = Ordered.SHARE
    length: float = 1.0

    @property
    def whole(self) -> float:
        """1 of a share, else the length of the domain."""
        return 1.0 if self.asked is Ordered.SHARE else self.length

    @property
    def _whole_in_words(self) -> str:
        if self.asked is Ordered.SHARE:
            return super()._whole_in_words
        return f"{self.length:,g}, the length of the domain (or 100%)"


@lru_cache(16)
def zipf(values: int) -> Floats:
    """Frequencies in proportion to 1/rank, which add up to 1."""
    weights = 1 / np.arange(1, values + 1)
    shares = np.asarray(weights / weights.sum(), np.float64)
    shares.flags.writeable = False  # it is handed out again
    return shares


def _within(what: str, number: float | None, least: float, most: float) -> None:
    if number is not None and not least <= number <= most:
        raise _unfit(f"{what} must lie in {least:g} .. {most:g}, not {number:g}")


def _unfit(message: str) -> UsageError:
    return option_error(message, "Correct that option; ldpbeam plan --help has all.")
