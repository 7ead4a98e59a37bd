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
        basis: float64 (T, values), the raw frequencies of all values whose sums the estimates are; None where
            the estimates are those of the values themselves. What errors depend on.
    """

    epochs: Ints
    n: Ints
    estimate: Floats
    std_error: Floats
    basis: Floats | None = None

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
    def frequencies(self) -> Floats:
        """What errors depend on, (T, values): the basis, or the estimates; 0 where there is none."""
        if self.basis is not None:
            return np.nan_to_num(self.basis)
        return np.where(self.known, self.estimate, 0.0)

    @property
    def average(self) -> Floats:
        """The mean of :attr:`frequencies` over the epochs that have them, (values,); 0 where none has."""
        known = self.known if self.basis is None else np.isfinite(self.basis)
        return np.asarray(self.frequencies.sum(axis=0) / np.maximum(known.sum(axis=0), 1), np.float64)

    def rows(self, where: Flags | slice) -> Series:
        """Some of the epochs."""
        basis = None if self.basis is None else self.basis[where]
        return Series(self.epochs[where], self.n[where], self.estimate[where], self.std_error[where], basis)
