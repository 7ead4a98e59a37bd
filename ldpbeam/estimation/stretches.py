"""What a report says that names a stretch of an ordered domain: the cells of its counts, as sums of values.

A hash function cuts the values 0 .. k−1 into g stretches, and a device answers by randomised response which
stretch holds its value. So the chance of the answer y to function s is other + (own − other)·f(stretch),
where f(stretch) is the share of the devices in that stretch: everything that an epoch's counts tell follows
from these.

A histogram is written as 1/k + Σ θ·basis: cosines, which are smooth, and one spike for each atom. Every
member of the basis sums to 0. Sums of cosines over a stretch have a closed form, and the random walk's
penalty Σ (f_v − f_{v−1})² is a diagonal in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ldpbeam.arrays import Floats, Ints

EVERY_COSINE = 128
"""Up to so many values the basis has all k − 1 cosines, and so every histogram."""

COSINES = 96
"""As many it has of more values: what is left out varies within k/96 values."""

_BLOCK = 1 << 12
"""Edges whose basis is made at once."""


class Repeated(NamedTuple):
    """Reports of several epochs in which devices repeat their permanent answers."""

    times: float
    """How many times as large the repeated part of the variance is as if each epoch had other devices."""
    own: float
    other: float
    """P(permanent answer | the device's stretch) and P(it | another)."""


@dataclass(frozen=True, eq=False)
class Stretches:
    """The stretches of all functions, and the chances of the answers."""

    bounds: Ints
    own: float
    other: float

    @property
    def functions(self) -> int:
        """How many hash functions there are, S."""
        return int(self.bounds.shape[0])

    @property
    def g(self) -> int:
        """How many stretches a function cuts the domain into."""
        return int(self.bounds.shape[1]) - 1

    @property
    def domain_size(self) -> int:
        """How many values there are, k."""
        return int(self.bounds[0, -1])

    @property
    def gap(self) -> float:
        """own − other: how much more often a report names its device's stretch than another one."""
        return self.own - self.other

    def chances(self, shares: Floats) -> Floats:
        """P(answer | function), of shares of stretches, of their shape."""
        return np.asarray(self.other + self.gap * shares, np.float64)

    def spreads(self, shares: Floats, repeated: Repeated | None) -> Floats:
        """The variance of each cell's count per report, as if the cells of a function were independent.

        That of one epoch is the chance of the answer. What the second round leaves of the chance of the
        permanent answer repeats itself, at most in every epoch.
        """
        chances = self.chances(shares)
        if repeated is None:
            return chances
        gap = repeated.own - repeated.other
        lasting = (self.gap / gap) ** 2 * (repeated.other + gap * shares)
        return np.asarray(chances + (repeated.times - 1) * lasting, np.float64)

    def shares(self, cumulative: Floats) -> Floats:
        """f(stretch), float64 (functions, g), of the shares below the edges 0 .. k, float64 (k + 1,)."""
        return np.asarray(np.diff(cumulative[self.bounds], axis=1), np.float64)

    @cached_property
    def even_shares(self) -> Floats:
        """f(stretch) where all values are equally frequent, float64 (functions, g)."""
        return np.asarray(np.diff(self.bounds, axis=1) / self.domain_size, np.float64)

    @property
    def smooth(self) -> int:
        """How many cosines the basis has."""
        return self.domain_size - 1 if self.domain_size <= EVERY_COSINE else COSINES

    @cached_property
    def roughness(self) -> Floats:
        """Σ (f_v − f_{v−1})² of each cosine, float64 (smooth,)."""
        turns = np.pi * np.arange(1, self.smooth + 1) / self.domain_size
        return np.asarray(4 * np.sin(turns / 2) ** 2, np.float64)

    def below(self, edges: Ints, atoms: tuple[int, ...]) -> Floats:
        """Sums of the basis over the values below edges, float64 (*edges, atoms + smooth)."""
        k = self.domain_size
        turns = np.pi * np.arange(1, self.smooth + 1) / k
        # Σ_{v<t} cos(jπ(v + ½)/k) = sin(jπt/k) / (2 sin(jπ/(2k))); √(2/k) makes the cosines orthonormal.
        cosines = np.sin(edges[..., None] * turns) / (np.sqrt(2 * k) * np.sin(turns / 2))
        spikes = (edges[..., None] > np.array(atoms, np.int64)) - edges[..., None] / k
        return np.concatenate([spikes, cosines], axis=-1)

    def blocks(self) -> list[Ints]:
        """The edges 0 .. k in parts, whose basis fits memory however large the domain."""
        edges = np.arange(self.domain_size + 1)
        return np.split(edges, range(_BLOCK, self.domain_size + 1, _BLOCK))

    def of_stretches(self, atoms: tuple[int, ...]) -> Floats:
        """The slope of each cell's chance in θ, float64 (functions·g, atoms + smooth)."""
        sums = np.diff(self.below(self.bounds, atoms), axis=1)
        return np.ascontiguousarray(self.gap * sums.reshape(self.functions * self.g, -1))
