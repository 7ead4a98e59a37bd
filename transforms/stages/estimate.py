"""Stages 4 and 5 of 5, estimate and histogram (adapts ldpbeam.histogram)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.utils.windowed_value import PaneInfoTiming

from ldpbeam.accounting import EARLY, LATE, ON_TIME, Account, CountedEpoch
from ldpbeam.collection.collection import Collection
from ldpbeam.histogram import EpochHistogram, estimate_counted, make_consistent
from ldpbeam.support import Support, Uncounted
from ldpbeam.tables import epoch_table, fixed_columns, table_by_slice

from ..metrics import count_result
from .reports import EpochKey

_LOG = logging.getLogger(__name__)

_PANES = {PaneInfoTiming.EARLY: EARLY, PaneInfoTiming.LATE: LATE}


class EstimateEpochs(beam.DoFn):
    """:class:`CountedEpoch` to :class:`EpochHistogram`, each by the digest of its collection."""

    def __init__(self, collections: Sequence[Collection], max_error_fraction: float = 1.0) -> None:
        self._of = {c.digest_hex: c for c in collections}
        self._max_error_fraction = max_error_fraction

    def process(self, pair: tuple[str, CountedEpoch]) -> Iterator[tuple[str, EpochHistogram]]:
        digest, counted = pair
        collection = self._of[digest]
        estimated = estimate_counted(collection, counted, self._max_error_fraction)
        if estimated.withheld:
            _LOG.warning(
                "epoch %d of %s has no result: over %g of its records was rejected [W-TRANSFORM-WITHHELD]",
                estimated.epoch,
                collection.name,
                self._max_error_fraction,
            )
        if estimated.withheld or estimated.attributes:
            count_result(estimated.reports, withheld=bool(estimated.withheld))
        yield digest, make_consistent(collection, estimated)


class TablesOfEpochs(beam.DoFn):
    """Histograms by digest to a ``pyarrow.Table`` each, with the columns of ``estimates/``; none for none."""

    def __init__(self, collections: Sequence[Collection]) -> None:
        self._collections = {c.digest_hex: c for c in collections}
        self._fixed: dict[str, dict[str, Any]] = {}

    def process(self, pair: tuple[str, EpochHistogram]) -> Iterator[Any]:
        digest, histogram = pair
        if histogram.attributes:
            collection = self._collections[digest]
            fixed = self._fixed.get(digest)
            if fixed is None:
                fixed = self._fixed[digest] = fixed_columns(collection)
            table = partial(epoch_table, collection, fixed=fixed)
            yield table_by_slice(collection, histogram, table) if collection.slices else table(histogram)


def counted_pane(
    pair: tuple[EpochKey, Support | Uncounted], pane: Any = beam.DoFn.PaneInfoParam
) -> tuple[str, CountedEpoch]:
    """What one pane of somebody's own windows has counted: revision and pane are those of Beam."""
    (digest, epoch), support = pair
    account = Account(read=support.reports, counted=support.reports)
    name, closed = _PANES.get(pane.timing, ON_TIME), bool(pane.is_last)
    return digest, CountedEpoch(epoch, support, account, pane.index, name, closed, sequence=pane.index)
