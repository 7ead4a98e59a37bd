"""The server's estimates of one attribute: its protocol, and the share of the devices that report it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ldpbeam.arrays import Floats, Ints
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.estimator import EVERYONE, DistributionEstimator, MeanEstimator
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.estimates import Estimates


_SAMPLE = Fraction(1, 1 << 64)
"""The share of a population without end that a sample of devices is, for formulas that divide by it."""


@dataclass(frozen=True)
class PartEstimator:
    """The server's estimates of one attribute that a share of the devices reports."""

    protocol: LocalProtocol[Any]
    share: Fraction = EVERYONE
    present: Fraction = EVERYONE
    atoms: tuple[int, ...] = ()

    @property
    def support(self) -> SupportProbabilities | None:
        support = self.protocol.estimator.support
        return None if support is None else support.among(self.share * self.present)

    @property
    def lasting(self) -> SupportProbabilities | None:
        alone = self.protocol.estimator.lasting
        if self.support is None or self.share == EVERYONE:
            return alone
        return (alone or SupportProbabilities(Fraction(1), Fraction(0))).among(self.share)

    @property
    def of_sample(self) -> PartEstimator:
        """The same where the devices are a sample, so that their values are a matter of chance too."""
        return replace(self, share=_SAMPLE)

    @property
    def is_sample(self) -> bool:
        return self.share == _SAMPLE

    def value_variance(self, estimate: Floats) -> Floats:
        """What the values of a sample add, at most, to the published variance of one report, (..., k)."""
        import numpy as np

        estimator, share, top = self.protocol.estimator, float(self.share * self.present), 1.0
        if self.support is not None:
            share = float(self.support.sampled)
        elif isinstance(estimator, MeanEstimator):
            top = float(estimator.maximum)
            if estimator.even_variance(0.0) == estimator.even_variance(1.0):
                share = 0.0  # bits are taken as coins of their mean: the values are in their variance
        place = np.clip(estimate, 0.0, top)
        return np.asarray(share * place * (top - place), np.float64)

    def estimate(self, counts: Ints, reports: int, ties: Floats | None = None) -> Estimates:
        """As :meth:`ldpbeam.protocols.estimator.Estimator.estimate`; NaN without a report."""
        from ldpbeam.estimates import Estimates

        estimator, share = self.protocol.estimator, self.share * self.present
        if not reports:
            return Estimates.unknown(estimator.size)
        if isinstance(estimator, DistributionEstimator):
            return estimator.estimate_with(counts, reports, share, self.atoms)
        return estimator.estimate(counts, reports, ties, share)

    @property
    def distribution(self) -> DistributionEstimator:
        """Its estimator, where the result is a distribution."""
        estimator = self.protocol.estimator
        assert isinstance(estimator, DistributionEstimator)  # noqa: S101 - others have MemoErrors
        return estimator

    def consistent(self, method: str, estimates: Estimates) -> Floats:
        """As :meth:`ldpbeam.protocols.estimator.Estimator.consistent`; NaN without a report."""
        import numpy as np

        if not estimates.n.any():
            return np.full(self.protocol.estimator.size, np.nan)
        return self.protocol.estimator.consistent(method, estimates)


def part_estimators(protocol: LocalProtocol[Any]) -> tuple[PartEstimator, ...]:
    """One for each attribute; a protocol of one attribute is estimated by itself."""
    return tuple(PartEstimator(part, protocol.share) for part in protocol.parts)
