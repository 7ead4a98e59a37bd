"""What the reports of a protocol say: frequencies, with one estimator for all protocols, or one mean."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ldpbeam.arrays import Floats, Ints
from ldpbeam.protocols.contract import EVERYONE, LocalProtocol, Result
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.estimates import Estimates
    from ldpbeam.protocols.sum_laws import SumLaw

Response = TypeVar("Response")


class FrequencyProtocol(LocalProtocol[Response]):
    """A protocol whose reports support values: estimator, variance and interval follow from (own, other).

    Class constants:
        EXCLUSIVE: whether a report supports exactly one value (then counts are multinomial).
    """

    EXCLUSIVE: ClassVar[bool] = False

    RESULT = Result.FREQUENCIES

    @property
    @abstractmethod
    def support(self) -> SupportProbabilities:
        """P(support | own value) and P(support | another value) of one report, exact."""

    @abstractmethod
    def supports(self, response: Response, value: int) -> bool:
        """Whether the response supports the value: the slow definition of counting."""

    @property
    def ends(self) -> SupportProbabilities:
        """The same for every value: support."""
        return self.support

    @property
    def supported_variance(self) -> float | None:
        """A bound on the variance of the number of values that a report supports, whatever the value.

        None where that number is not random. The mean is own + (k − 1)·other for every value; a number
        between 0 and k with that mean has no larger variance than the one stated here.
        """
        mean = float(self.support.own + (self.domain_size - 1) * self.support.other)
        return mean * (self.domain_size - mean)

    @property
    def counts_length(self) -> int:
        """One cell per value, unless a protocol counts otherwise."""
        return self.domain_size

    def support_counts(self, counts: Ints) -> Ints:
        """Support of each value, int64 (domain_size,), from an accumulator."""
        return counts

    def estimate(
        self, counts: Ints, reports: int, ties: Floats | None = None, share: Fraction = EVERYONE
    ) -> Estimates:
        """The estimator of docs/maths.md section 1."""
        from ldpbeam.estimates import estimate

        n = self.report_counts(counts, reports)
        return estimate(self.support_counts(counts), n, self.support.among(share), ties, sum_to_one=True)

    def sum_law(self, weights: Floats, *, lasting: bool = False) -> SumLaw:
        """What one report says about weighted sums of frequencies.

        Args:
            weights: float64 (sums, k), of the values.
            lasting: whether of what a device keeps for life, taken alone, and not of a whole report.

        Raises:
            NotImplementedError: the protocol does not say.
        """
        raise NotImplementedError(f"{self.NAME} does not say how the supports of several values go together")

    @property
    def asked(self) -> tuple[Fraction, Fraction]:
        """P(a report speaks about v), and P(it speaks about v and w) over P(v)·P(w), for v ≠ w."""
        return EVERYONE, EVERYONE

    def consistent(self, method: str, estimates: Estimates) -> Floats:
        """One of the methods of :mod:`ldpbeam.consistency`."""
        from ldpbeam.consistency import consistent
        from ldpbeam.consistency.base import Noise

        own, other = float(self.support.own), float(self.support.other)
        # Values sampled by few devices differ a little in their n; the methods know one.
        n = round(float(estimates.n.mean()))
        noise = Noise(n=n, own=own, other=other, exclusive=self.EXCLUSIVE)
        return consistent(method, estimates.frequency, noise)


class MeanProtocol(LocalProtocol[int]):
    """A protocol whose result is the mean of values 0..m, m = domain_size − 1."""

    RESULT = Result.MEAN

    @property
    def maximum(self) -> int:
        """The largest value, m."""
        return self.domain_size - 1

    @property
    def lasting_ends(self) -> SupportProbabilities | None:
        """P(the bit that a device keeps for life is 1) at x = m and at x = 0; None where it keeps none."""
        return None

    @property
    def results(self) -> int:
        """A result is one number."""
        return 1

    @property
    def counts_length(self) -> int:
        """One cell: the sum of what the reports say."""
        return 1

    def support_counts(self, counts: Ints) -> Ints:
        """The sum of what the reports say."""
        return counts

    def consistent(self, method: str, estimates: Estimates) -> Floats:
        """The mean clipped to 0..m, whatever the method but ``none``: one number has no sum to keep."""
        import numpy as np

        if method == "none":
            return estimates.frequency.copy()
        return np.clip(estimates.frequency, 0.0, float(self.maximum))
