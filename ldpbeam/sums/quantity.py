"""Which sums of an attribute's frequencies are asked for: groups, cumulative shares, or the mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ldpbeam.arrays import Floats
from ldpbeam.collection.domain import Domain
from ldpbeam.errors import UsageError

MOST_STEPS = 1 << 12
"""Values of a domain up to which cumulative shares are worked out: their weights take 128 MiB."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Weighted sums of the frequencies of all values, one after the other."""

    names: tuple[str, ...]
    weights: Floats
    values: tuple[int, ...]

    @property
    def centre(self) -> Floats:
        """The mean weight of each sum over all values: c, float64 (sums,)."""
        return np.asarray(self.weights.mean(axis=1), np.float64)

    @property
    def centred(self) -> Floats:
        """w − c, float64 (sums, k)."""
        return self.weights - self.centre[:, None]

    def estimate(self, frequency: Floats) -> Floats:
        """Estimates of the sums from raw ones of all values, float64 (..., sums) from (..., k)."""
        return np.asarray(self.centre + frequency @ self.centred.T, np.float64)


def of_groups(domain: Domain, groups: Mapping[str, Sequence[int]]) -> Sums:
    """The share of the devices in each group of values; groups may overlap, and need not cover the domain."""
    if not groups:
        raise ValueError("there is no group")
    weights = np.zeros((len(groups), domain.size))
    for row, (name, values) in zip(weights, groups.items(), strict=True):
        places = np.unique(np.asarray(values, np.int64))
        if not places.size:
            raise ValueError(f"group {name!r} has no values")
        if places[0] < 0 or places[-1] >= domain.size:
            raise ValueError(f"group {name!r} has values outside 0 .. {domain.size - 1}")
        row[places] = 1.0
    return Sums(tuple(groups), weights, tuple(int(one) for one in weights.sum(axis=1)))


def cumulative(domain: Domain) -> Sums:
    """The share of the devices at each value or below it."""
    if not domain.has_order:
        raise _unordered("cumulative shares and quantiles need")
    if domain.size > MOST_STEPS:
        raise UsageError(
            "E-USAGE-SUMS",
            f"cumulative shares are worked out for up to {MOST_STEPS:,} values, and the domain has "
            f"{domain.size:,}",
            remedy="Ask for groups of values: --group FILE.",
        )
    names = tuple(domain.label(value) for value in range(domain.size))
    return Sums(names, np.tril(np.ones((domain.size, domain.size))), tuple(range(1, domain.size + 1)))


def of_mean(domain: Domain) -> Sums:
    """The mean of the values: of numbers themselves, of buckets by their middles."""
    if domain.labels is not None:
        raise UsageError(
            "E-USAGE-SUMS",
            "labels are names, also where they look like numbers, so they have no mean",
            remedy="Collect a range, domain: {range: {max: 86400, buckets: 32}}; or ask for groups of "
            "labels.",
        )
    if not domain.has_order:
        raise _unordered("a mean needs")
    places = np.arange(domain.size, dtype=np.float64)
    if domain.maximum is not None and not domain.whole:
        places = (places + 0.5) * (domain.maximum / domain.size)
    return Sums(("mean",), places[None], (domain.size,))


def _unordered(what_needs: str) -> UsageError:
    return UsageError(
        "E-USAGE-SUMS",
        f"{what_needs} values in order, and nothing says that these are",
        remedy="Write ordered: true into the domain of the collection file, and load that file (--collection "
        "FILE): devices need not know, and the digest stays.",
    )
