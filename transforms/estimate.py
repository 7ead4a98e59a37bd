"""Stages 4 and 5 as a public transform: counted epochs in, rows out."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, NamedTuple

import apache_beam as beam

from ldpbeam.accounting import CountedEpoch
from ldpbeam.collection.collection import Collection
from ldpbeam.errors import UsageError
from ldpbeam.histogram import EpochHistogram
from ldpbeam.summaries import summary_table
from ldpbeam.tables import table_by_slice

from .arguments import Collections, OfCollections, fraction
from .count import Counted
from .rows import AccountRow, FrequencyRow, SummaryRow, account_rows, frequency_rows, summary_rows
from .stages.estimate import EstimateEpochs, TablesOfEpochs, counted_pane
from .window import refuse_discarding


class Estimated(NamedTuple):
    """The outputs of stages 4 and 5.

    Attributes:
        frequencies: a :class:`~ldpbeam.transforms.FrequencyRow` for each value of an epoch, or a
            ``pyarrow.Table`` for each epoch.
        accounts: :class:`~ldpbeam.transforms.AccountRow` of epochs.
        summaries: :class:`~ldpbeam.transforms.SummaryRow` of epochs, of collections that give a
            distribution (``hash_family: interval``).
    """

    frequencies: Any
    accounts: Any
    summaries: Any


class EstimateHistograms(OfCollections):
    """Turns counts into histograms, which our own pipelines publish."""

    def __init__(self, collections: Collections, *, max_error_fraction: float = 0.1) -> None:
        super().__init__(collections)
        self._limit = fraction("max_error_fraction", max_error_fraction)

    def expand(self, counted: Any) -> Any:
        return self._histograms(_epochs(counted))

    def _histograms(self, epochs: Any) -> Any:
        estimate = beam.ParDo(EstimateEpochs(self.collections, self._limit))
        return epochs | "Estimate" >> estimate.with_output_types(tuple[str, EpochHistogram])


class EstimateFrequencies(EstimateHistograms):
    """Turns counts into unbiased frequencies with intervals, and into consistent ones beside them.

    Takes the output of :class:`~ldpbeam.transforms.CountSupport`, or pairs of (digest, epoch) and counts, as
    ``CombinePerKey(CountSupport.Fn(collections))`` makes them in a graph of your own. There each pane has all
    counts of its epoch so far, and the pane's index is the revision.
    """

    def __init__(
        self,
        collections: Collections,
        *,
        max_error_fraction: float = 0.1,
        form: Literal["rows", "tables"] = "rows",
    ) -> None:
        """Say of which collections, and in which form.

        Args:
            collections: a collection, the path of its file or its definition, or several.
            max_error_fraction: if a larger part of an epoch's records was rejected, it has no result.
            form: ``rows``, or ``tables`` with one ``pyarrow.Table`` for each epoch, which is many times
                cheaper for large domains.

        Raises:
            CollectionError, UsageError, TypeError: no collections, or unsound ones.
            UsageError: ``form`` is another text, or ``max_error_fraction`` is no number from 0 to 1.
        """
        super().__init__(collections, max_error_fraction=max_error_fraction)
        if form not in ("rows", "tables"):
            raise UsageError(
                "E-USAGE-TRANSFORM",
                f"form is 'rows' or 'tables', not {form!r}",
                remedy="Leave it out for rows.",
            )
        self._tables = form == "tables"

    def expand(self, counted: Any) -> Any:
        epochs = _epochs(counted)
        histograms = self._histograms(epochs)
        frequencies = histograms | "Tables" >> beam.ParDo(TablesOfEpochs(self.collections)).with_output_types(
            Any
        )
        if not self._tables:
            frequencies = frequencies | "Rows" >> beam.FlatMap(frequency_rows).with_output_types(FrequencyRow)
        names = {digest: one.name for digest, one in self.by_digest.items()}
        accounts = beam.FlatMap(partial(_account_rows, names)).with_output_types(AccountRow)
        of_epoch = partial(_summary_rows, {d: one for d, one in self.by_digest.items() if one.has_summaries})
        summaries = beam.FlatMap(of_epoch).with_output_types(SummaryRow)
        return Estimated(frequencies, epochs | "Accounts" >> accounts, histograms | "Summaries" >> summaries)


def _epochs(counted: Any) -> Any:
    """(digest, counted epoch) of each epoch, from :class:`CountSupport` or from panes of a user's windows."""
    if isinstance(counted, Counted):
        return counted.counted
    refuse_discarding(counted.windowing)
    return counted | "Panes" >> beam.Map(counted_pane).with_output_types(tuple[str, CountedEpoch])


def _account_rows(names: dict[str, str], pair: tuple[str, CountedEpoch]) -> Iterable[AccountRow]:
    digest, one = pair
    return account_rows(names[digest], digest, one.epoch, one.revision, one.sequence, one.account)


def _summary_rows(
    collections: dict[str, Collection], pair: tuple[str, EpochHistogram]
) -> Iterable[SummaryRow]:
    digest, histogram = pair
    if digest not in collections:
        return ()
    collection = collections[digest]
    return summary_rows(table_by_slice(collection, histogram, partial(summary_table, collection)))
