"""The estimates of one attribute over several epochs, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ldpbeam.arrays import Flags, Floats, Ints


@dataclass(frozen=True, eq=False)
class Series:
    """One row per epoch, in rising order, and one column per value (a single one for a mean).

    Attributes:
        epochs: int64 (T,), indices.
        n: int64 (T, k), reports behind each estimate.
        estimate: float64 (T, k), raw ones; NaN where an epoch has none.
        std_error: float64 (T, k).
    """

    epochs: Ints
    n: Ints
    estimate: Floats
    std_error: Floats

    def __post_init__(self) -> None:
        """Raises ValueError for arrays that do not fit, or epochs that do not rise."""
        shape = (len(self.epochs), self.estimate.shape[-1])
        if not self.n.shape == self.estimate.shape == self.std_error.shape == shape:
            raise ValueError(f"a series of {shape[0]} epochs needs arrays of that many rows, all alike")
        if (np.diff(self.epochs) <= 0).any():
            raise ValueError("the epochs of a series must rise")

    @property
    def known(self) -> Flags:
        """Where there is an estimate with its error, (T, k)."""
        return np.isfinite(self.estimate) & np.isfinite(self.std_error) & (self.n > 0)

    @property
    def average(self) -> Floats:
        """The mean of the estimates of each value, (k,); 0 where there is none."""
        known = self.known
        total = np.where(known, self.estimate, 0.0).sum(axis=0)
        return np.asarray(total / np.maximum(known.sum(axis=0), 1), np.float64)

    def rows(self, where: Flags | slice) -> Series:
        """Some of the epochs."""
        return Series(self.epochs[where], self.n[where], self.estimate[where], self.std_error[where])
