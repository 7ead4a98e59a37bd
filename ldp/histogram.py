"""Stages 4 and 5 of 5 for one epoch: counts become estimates, estimates a consistent histogram. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ldp.collection import Collection
from ldp.consistency import Noise, consistent
from ldp.estimate import Estimates, estimate, tie_breakers
from ldp.support import Support

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["INSUFFICIENT", "OK", "EpochHistogram", "estimate_epoch", "make_consistent"]

OK = "ok"
INSUFFICIENT = "insufficient_reports"


@dataclass(frozen=True, eq=False)
class EpochHistogram:
    """What is known about one epoch of one collection.

    Attributes:
        digest: the collection's.
        epoch: index.
        n: reports counted.
        support: int64 (k,).
        estimates: None when too few reports came; then ``status`` says so.
        consistent: float64 (k,), after post-processing; None before it or without estimates.
        status: :data:`OK` or :data:`INSUFFICIENT`.
        revision: 0 for the first result of an epoch, one more for each that late reports cause.
    """

    digest: int
    epoch: int
    n: int
    support: NDArray[np.int64]
    estimates: Estimates | None
    consistent: NDArray[np.float64] | None = None
    status: str = OK
    revision: int = 0


def estimate_epoch(collection: Collection, epoch: int, support: Support) -> EpochHistogram:
    """Stage 4: support counts, unbiased estimates, standard errors, intervals."""
    protocol = collection.protocol
    counts = protocol.support_counts(support.counts)
    n = support.reports
    if n < max(collection.min_reports, 1):
        return EpochHistogram(collection.digest, epoch, n, counts, None, status=INSUFFICIENT)
    ties = tie_breakers(collection.digest, epoch, protocol.domain_size)
    estimates = estimate(counts, n, protocol.support, ties)
    return EpochHistogram(collection.digest, epoch, n, counts, estimates)


def make_consistent(collection: Collection, histogram: EpochHistogram) -> EpochHistogram:
    """Stage 5: the collection's post-processing; the raw estimates stay beside it."""
    if histogram.estimates is None:
        return histogram
    protocol = collection.protocol
    own, other = float(protocol.support.own), float(protocol.support.other)
    noise = Noise(n=histogram.n, own=own, other=other, exclusive=protocol.EXCLUSIVE)
    result = consistent(collection.consistency, histogram.estimates.frequency, noise)
    return replace(histogram, consistent=result)
