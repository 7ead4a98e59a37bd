"""Protocols whose reports support values: one estimator for all of them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ldpbeam.protocols.contract import LocalProtocol, Result
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ldpbeam.estimate import Estimates

__all__ = ["FrequencyProtocol"]

Response = TypeVar("Response")


class FrequencyProtocol(LocalProtocol[Response]):
    """A protocol whose reports support values: estimator, variance and interval follow from (own, other).

    Class constants:
        EXCLUSIVE: whether a report supports exactly one value (then counts are multinomial).
    """

    EXCLUSIVE: ClassVar[bool] = False

    @property
    def result(self) -> Result:
        """A frequency for each value."""
        return Result.FREQUENCIES

    @property
    @abstractmethod
    def support(self) -> SupportProbabilities:
        """P(support | own value) and P(support | another value) of one report, exact."""

    @property
    def lasting(self) -> SupportProbabilities | None:
        """P(support | own value) and P(support | another) of what a device keeps for life, taken alone.

        The variance that follows from them is the part of an estimate's error that repeats itself while
        devices keep their values: no number of epochs averages it away. None where nothing is kept.
        """
        return None

    @abstractmethod
    def supports(self, response: Response, value: int) -> bool:
        """Whether the response supports the value: the slow definition of counting."""

    @property
    def most_supported(self) -> int:
        """Values that one admitted report can support at most."""
        return self.domain_size

    @property
    def supported_variance(self) -> float | None:
        """A bound on the variance of the number of values that a report supports, whatever the value.

        None where that number is not random. The mean is own + (k − 1)·other for every value; a number
        between 0 and k with that mean has no larger variance than the one stated here.
        """
        mean = float(self.support.own + (self.domain_size - 1) * self.support.other)
        return mean * (self.domain_size - mean)

    @property
    def extremes(self) -> tuple[float, float] | None:
        """P(a report is counted in a cell of ``signs``) for both cells, the same for every value.

        None where ``signs`` holds something else.
        """
        return None

    def support_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Support of each value, int64 (domain_size,), from an accumulator."""
        return counts

    def report_counts(self, counts: NDArray[np.int64], reports: int) -> int | NDArray[np.int64]:
        """Reports behind each value: all of them, or those that sampled it, int64 (domain_size,)."""
        return reports

    def estimate(
        self, counts: NDArray[np.int64], reports: int, ties: NDArray[np.float64] | None = None
    ) -> Estimates:
        """The estimator of MATHS section 1."""
        from ldpbeam.estimate import estimate

        n = self.report_counts(counts, reports)
        return estimate(self.support_counts(counts), n, self.support, ties)

    def consistent(self, method: str, estimates: Estimates) -> NDArray[np.float64]:
        """One of the methods of :mod:`ldpbeam.consistency`."""
        from ldpbeam.consistency import Noise, consistent

        own, other = float(self.support.own), float(self.support.other)
        # Values sampled by few devices differ a little in their n; the methods know one.
        n = round(float(estimates.n.mean()))
        noise = Noise(n=n, own=own, other=other, exclusive=self.EXCLUSIVE)
        return consistent(method, estimates.frequency, noise)
