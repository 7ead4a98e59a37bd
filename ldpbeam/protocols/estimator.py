"""The server's estimates from an accumulator: frequencies, all by one estimator, or a mean."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from ldpbeam.arrays import Floats, Ints
from ldpbeam.protocols.completeness import require_complete
from ldpbeam.protocols.counter import Counter
from ldpbeam.support import Recurrence, SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.estimates import Estimates
    from ldpbeam.estimation.distribution import CumulativeCurve
    from ldpbeam.protocols.sum_laws import SumLaw

EVERYONE = Fraction(1)
"""The share of the population that reports, where nobody is left out at random."""

NO_RECURRENCE = Recurrence()
"""Of protocols where each value has an answer of its own."""


class Result(Enum):
    """The kind of an epoch's estimates; the values are published (run.json) and never change."""

    FREQUENCIES = "frequencies"
    """One frequency for each value of the domain."""
    MEAN = "mean"
    """One mean, in the units of the values."""
    DISTRIBUTION = "distribution"
    """The share of the devices up to each value of a domain that has an order."""
    DISCOVERED = "discovered"
    """Texts that nobody listed, as many as are found, with a frequency each."""


class Estimator(ABC):
    """From an accumulator to the numbers of an epoch's result, with their errors.

    Attributes:
        result: frequencies, a mean or a distribution; with several attributes the kind that all of them have.
        size: how many numbers a result has: one per value, or one for a mean.
        support: P(support | own value) and P(support | another) of one report, exact; None for a mean.
        lasting: P(support | own value) and P(support | another) of the permanent round alone. The variance
            that follows from them is the part of an estimate's error that repeats itself while devices keep
            their values: no number of epochs averages it away. None where devices keep nothing for life.
        recurrence: how the memoised answers of two different values of a device depend on each other; empty
            where each value has an answer of its own.
    """

    result: Result
    size: int
    support: SupportProbabilities | None
    lasting: SupportProbabilities | None
    recurrence: Recurrence

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        require_complete(cls)

    @abstractmethod
    def estimate(
        self, counts: Ints, reports: int, ties: Floats | None = None, share: Fraction = EVERYONE
    ) -> Estimates:
        """Unbiased estimates with their errors from an accumulator.

        Args:
            counts: int64 (counts_length,).
            reports: number of reports in it, at least 1.
            ties: (size,), see :func:`ldpbeam.estimates.interval`.
            share: part of the population, drawn at random, that reports; errors include the drawing.
        """

    @abstractmethod
    def consistent(self, method: str, estimates: Estimates) -> Floats:
        """The estimates after post-processing by a method of :mod:`ldpbeam.consistency`, float64 (size,)."""


@dataclass(frozen=True)
class FrequencyEstimator(Estimator, ABC):
    """Frequencies of values that reports support: estimate, variance and interval follow from (own, other).

    Class constants:
        EXCLUSIVE: whether a report supports exactly one value (then counts are multinomial).

    Attributes:
        counter: of the reports.
        formulas: how own and other follow from the rounds, in the letters of docs/maths.md; empty where
            they are those of one round.
        asked: P(a report speaks about v), and P(it speaks about v and w) over P(v)·P(w), for v ≠ w.
    """

    EXCLUSIVE: ClassVar[bool] = False

    result = Result.FREQUENCIES

    counter: Counter
    size: int
    support: SupportProbabilities
    lasting: SupportProbabilities | None = None
    recurrence: Recurrence = NO_RECURRENCE
    asked: tuple[Fraction, Fraction] = (EVERYONE, EVERYONE)
    formulas: tuple[str, str] = ("", "")

    @abstractmethod
    def sum_law(self, weights: Floats, *, lasting: bool = False) -> SumLaw:
        """What one report says about weighted sums of frequencies.

        Args:
            weights: float64 (sums, k), of the values.
            lasting: True for the permanent round alone, False for a whole report.
        """

    def estimate(
        self, counts: Ints, reports: int, ties: Floats | None = None, share: Fraction = EVERYONE
    ) -> Estimates:
        """The estimator of docs/maths.md section 1; arguments as of :meth:`Estimator.estimate`."""
        from ldpbeam.estimates import estimate

        n = self.counter.report_counts(counts, reports)
        support = self.counter.support_counts(counts)
        # f = (C/n − other)/(own − other)
        return estimate(support, n, self.support.among(share), ties, sum_to_one=True)

    def consistent(self, method: str, estimates: Estimates) -> Floats:
        """One of the methods of :mod:`ldpbeam.consistency`."""
        from ldpbeam.consistency import consistent
        from ldpbeam.consistency.base import Noise

        own, other = float(self.support.own), float(self.support.other)
        # Values sampled by few devices differ a little in their n; the methods know one.
        n = round(float(estimates.n.mean()))
        noise = Noise(n=n, own=own, other=other, exclusive=self.EXCLUSIVE)
        return consistent(method, estimates.frequency, noise)


class MeanEstimator(Estimator, ABC):
    """The mean of values 0 .. m, in their units.

    Attributes:
        maximum: m.
        lasting_ends: P(the bit that a device keeps for life is 1) at x = m and at x = 0; None where it keeps
            none.
    """

    result = Result.MEAN
    size = 1
    support = None
    lasting = None
    recurrence = NO_RECURRENCE

    maximum: int
    lasting_ends: SupportProbabilities | None

    @abstractmethod
    def even_variance(self, share: float) -> float:
        """The variance of one report that :meth:`estimate` publishes, of values spread evenly over 0 .. m.

        Args:
            share: part of the population, drawn at random, that reports.
        """

    def worst_variance(self, share: float) -> float:
        """The same of those values of which it is largest."""
        return self.even_variance(share)

    def published(
        self, counts: Ints, reports: int, mean: Floats, error: Floats, low: Floats, high: Floats
    ) -> Estimates:
        """The only row; limits end at 0 and m, or at an estimate beyond them, as everywhere."""
        import numpy as np

        from ldpbeam.estimates import Estimates

        m = float(self.maximum)
        low, high = np.minimum(np.clip(low, 0.0, m), mean), np.maximum(np.clip(high, 0.0, m), mean)
        return Estimates(np.full(1, reports), counts[:1], np.stack([mean, error, low, high, low, high]))

    def consistent(self, method: str, estimates: Estimates) -> Floats:
        """The mean clipped to 0..m by all methods but ``none``: one number has no sum to keep."""
        import numpy as np

        if method == "none":
            return estimates.frequency.copy()
        return np.clip(estimates.frequency, 0.0, float(self.maximum))


class DistributionEstimator(Estimator, ABC):
    """The distribution over a domain that has an order; single values are not estimated."""

    result = Result.DISTRIBUTION
    support = None
    lasting = None
    recurrence = NO_RECURRENCE

    @abstractmethod
    def estimate_with(self, counts: Ints, reports: int, share: Fraction, atoms: tuple[int, ...]) -> Estimates:
        """As :meth:`estimate`, of a domain some of whose values many devices may share.

        Args:
            counts, reports, share: as of :meth:`estimate`.
            atoms: places of these values.
        """

    @abstractmethod
    def curve_of_epochs(self, counts: Floats, times: float, atoms: tuple[int, ...]) -> CumulativeCurve:
        """The mean of the curves of several epochs, by one fit of their counts.

        Args:
            counts: the sum over the epochs, weighted so that each epoch counts alike.
            times: how many times as large the repeated part of the variance is as of independent devices.
            atoms: as of :meth:`estimate_with`.
        """

    @abstractmethod
    def lasting_part_of_mean(self, cumulative: Floats, share: Fraction) -> float:
        """The part of the variance of an epoch's mean that repeats while devices keep their values.

        Args:
            cumulative: float64 (size,), the shares up to each value.
            share: of the population, drawn at random for each epoch, that reports.
        """
