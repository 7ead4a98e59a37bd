"""Stages 4 and 5 of 5 for one epoch: counts become estimates, estimates a consistent histogram. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ldpbeam.accounting import ON_TIME, Account, CountedEpoch
from ldpbeam.arrays import Floats, Ints
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.slices import Slice
from ldpbeam.estimates import Estimates, tie_breakers
from ldpbeam.indicators import Indicator, indicators
from ldpbeam.slice_support import SlicedSupport
from ldpbeam.support import Support

OK = "ok"
INSUFFICIENT = "insufficient_reports"
TOO_MANY_ERRORS = "too_many_errors"
"""Why an epoch has no estimates at all: too large a part of its records was rejected."""


@dataclass(frozen=True, eq=False)
class AttributeHistogram:
    reports: int
    support: Ints
    estimates: Estimates | None
    consistent: Floats | None = None
    status: str = OK
    counts: Ints | None = None  # by hash function and answer, where they give a distribution


@dataclass(frozen=True, eq=False)
class SliceHistogram:
    slice: Slice
    attributes: tuple[AttributeHistogram, ...]


@dataclass(frozen=True, eq=False)
class EpochHistogram:
    digest: int
    epoch: int
    reports: int
    attributes: tuple[AttributeHistogram, ...]
    revision: int = 0
    pane: str = ON_TIME
    account: Account | None = None
    closed: bool = True
    withheld: str = ""
    position: Mapping[str, int] | None = None
    indicators: tuple[Indicator, ...] = ()
    slices: tuple[SliceHistogram, ...] = ()  # but for the whole


def estimate_counted(
    collection: Collection, counted: CountedEpoch, max_error_fraction: float = 1.0
) -> EpochHistogram:
    """Stage 4 for an epoch with its account."""
    withheld = TOO_MANY_ERRORS if counted.account.error_fraction > max_error_fraction else ""
    support = counted.support
    if support is not None and not isinstance(support, Support):
        # Here, and gone when this returns: so there is one such table, however many epochs there are.
        support = support.counted(collection.counter)
    if support is None or withheld:
        reports = support.reports if support else 0
        bare = EpochHistogram(collection.digest, counted.epoch, reports, ())
    else:
        bare = estimate_epoch(collection, counted.epoch, support)
    signs: tuple[Indicator, ...] = ()
    if support and support.reports >= collection.min_reports:
        whole = support.whole() if isinstance(support, SlicedSupport) else support
        signs = indicators(collection.protocol, whole, counted.account)
    return replace(
        bare,
        indicators=signs,
        revision=counted.revision,
        pane=counted.pane,
        account=counted.account,
        closed=counted.closed,
        position=counted.position,
        # Without reports there is nothing to withhold.
        withheld=withheld if support else "",
    )


def estimate_epoch(collection: Collection, epoch: int, support: Support) -> EpochHistogram:
    """Stage 4: support counts, unbiased estimates, standard errors, intervals; of the whole and by slice."""
    if not isinstance(support, SlicedSupport):
        attributes = _attributes(collection, collection.digest, epoch, support)
        return EpochHistogram(collection.digest, epoch, support.reports, attributes)
    whole = support.whole()
    slices = tuple(
        SliceHistogram(
            slice_, _attributes(collection, collection.slice_digest(slice_), epoch, support.of(digests))
        )
        for slice_, digests in collection.published_slices.items()
    )
    attributes = _attributes(collection, collection.digest, epoch, whole)
    return EpochHistogram(collection.digest, epoch, whole.reports, attributes, slices=slices)


def _attributes(
    collection: Collection, digest: int, epoch: int, support: Support
) -> tuple[AttributeHistogram, ...]:
    """The histogram of each attribute; ties of few counts follow from the digest of the slice."""
    if collection.is_discovery:
        return (_found(collection, support),)
    protocol = collection.protocol
    rows = [part.estimator.size for part in protocol.parts]
    ties = np.split(tie_breakers(digest, epoch, sum(rows)), np.cumsum(rows)[:-1])
    attributes = []
    counted = protocol.counter.part_counts(support.counts, support.reports)
    for part, (counts, reports), split in zip(collection.estimators, counted, ties, strict=True):
        supported = part.protocol.counter.support_counts(counts)
        if reports < max(collection.min_reports, 1):
            attributes.append(AttributeHistogram(reports, supported, None, status=INSUFFICIENT))
        else:
            estimates = part.estimate(counts, reports, split)
            cells = counts if estimates.distribution is not None else None
            attributes.append(AttributeHistogram(reports, supported, estimates, counts=cells))
    return tuple(attributes)


def _found(collection: Collection, support: Support) -> AttributeHistogram:
    """The texts that all prefix lengths together have found."""
    (whole,) = collection.estimators
    if support.reports < max(collection.min_reports, 1):
        nothing = np.zeros(0, np.int64)
        return AttributeHistogram(support.reports, nothing, None, status=INSUFFICIENT)
    estimates = whole.estimate(support.counts, support.reports)
    # The counts are in the digest of a result: supports of other texts may be the same.
    return AttributeHistogram(support.reports, estimates.support, estimates, counts=support.counts)


def make_consistent(collection: Collection, histogram: EpochHistogram) -> EpochHistogram:
    """Stage 5: the collection's post-processing; the raw estimates stay beside it."""
    if not histogram.attributes:
        return histogram
    slices = tuple(
        replace(one, attributes=_consistent(collection, one.attributes)) for one in histogram.slices
    )
    return replace(histogram, attributes=_consistent(collection, histogram.attributes), slices=slices)


def _consistent(
    collection: Collection, attributes: tuple[AttributeHistogram, ...]
) -> tuple[AttributeHistogram, ...]:
    return tuple(
        replace(one, consistent=part.consistent(collection.consistency, one.estimates))
        if one.estimates is not None
        else one
        for part, one in zip(collection.estimators, attributes, strict=True)
    )
