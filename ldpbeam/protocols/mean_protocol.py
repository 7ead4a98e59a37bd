"""Protocols whose result is one mean, in the units of the values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldpbeam.arrays import Floats, Ints
from ldpbeam.protocols.contract import LocalProtocol, Result

if TYPE_CHECKING:
    from ldpbeam.estimates import Estimates

__all__ = ["MeanProtocol"]


class MeanProtocol(LocalProtocol[int]):
    """A protocol whose result is the mean of values 0..m, m = domain_size − 1."""

    RESULT = Result.MEAN

    @property
    def maximum(self) -> int:
        """The largest value, m."""
        return self.domain_size - 1

    @property
    def results(self) -> int:
        """A result is one number."""
        return 1

    def support_counts(self, counts: Ints) -> Ints:
        """The sum of what the reports say."""
        return counts

    def consistent(self, method: str, estimates: Estimates) -> Floats:
        """The mean clipped to 0..m, whatever the method: one number has no sum to keep.

        ``none`` leaves it as it is.
        """
        import numpy as np

        if method == "none":
            return estimates.frequency.copy()
        return np.clip(estimates.frequency, 0.0, float(self.maximum))
