"""One epoch, from the reports of its devices to its histogram: the computation in a plain loop, without Beam.

Read this first. A device turns its value into a *report*, which :mod:`ldpbeam.reports` admits (stage 1). Here
are the four stages after that, for one *epoch* of one collection: each report counts once, reports become
*support* counts, counts become an *estimate*, estimates become a consistent *histogram*. The local engine
publishes what this function returns. The Beam pipelines spread the same stages over workers; since counts are
integers until stage 4, they arrive at the same numbers bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable

from ldpbeam.accounting import CONFLICTING, Account, CountedEpoch, Publication
from ldpbeam.admission import ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.dedup import secret_key, unrepeated
from ldpbeam.histogram import EpochHistogram, estimate_counted, make_consistent
from ldpbeam.support import Support


def result_of_epoch(
    collection: Collection,
    epoch: int,
    columns: Iterable[ReportColumns],
    known: Account | None = None,
    publication: Publication | None = None,
    *,
    deduplicate: bool = True,
    max_error_fraction: float = 1.0,
) -> EpochHistogram:
    """Stages 2 to 5 of one epoch.

    Args:
        collection: what devices and server agreed on.
        epoch: index.
        columns: all admitted reports of the epoch, in any order and any parts; without any, the result has
            accounting and no estimates.
        known: what is known already about the epoch's records: how many were read, came late, or were
            rejected. By default that these reports were read, and no others.
        publication: which result of the epoch this is; by default the first and last one.
        deduplicate: whether only one of several reports with the same id counts.
        max_error_fraction: nothing is estimated where a larger part of the records was rejected.
    """
    parts = list(columns)
    account = Account(read=sum(map(len, parts))) if known is None else known.copy()

    # Stage 2, epoch: one report per report id, so that sending a report again changes nothing.
    if deduplicate and parts:
        parts, duplicate, conflicting = unrepeated(parts, secret_key())
        account.add("duplicate", duplicate)
        if conflicting:
            account.add(CONFLICTING, conflicting)

    # Stage 3, support: how many reports support each value, in integers.
    support = count_support(collection, parts) if parts else None
    account.add("counted", support.reports if support else 0)

    # Stage 4, estimate: the noise that devices added is taken out, and what is left of it is measured.
    which = publication or Publication()
    counted = CountedEpoch(epoch, support, account, which.revision, which.pane, which.closed, which.position)
    estimated = estimate_counted(collection, counted, max_error_fraction)

    # Stage 5, histogram: the collection's consistency method; the raw estimates stay beside its result.
    return make_consistent(collection, estimated)


def count_support(collection: Collection, parts: Iterable[ReportColumns]) -> Support:
    """Stage 3: count reports, from zero."""
    counter = collection.counter
    total = Support.zero_of(counter)
    for columns in parts:
        total.add(columns.payloads, counter)
    return total
