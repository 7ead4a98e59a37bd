"""Stages 4 and 5 of 5, estimate and histogram (adapts ldpbeam.histogram), and then the sinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import apache_beam as beam

from ldpbeam.accounting import CountedEpoch, Entry
from ldpbeam.collection.collection import Collection
from ldpbeam.histogram import EpochHistogram, estimate_counted, make_consistent

from ..sinks import Outputs, chosen_sinks
from ..sinks.accounting import RevisionNumbers
from ..sinks.estimates import PublishedIndicators, WriteEpochs
from ..sinks.file_record import FileRecord
from .of_each import OfEach

Published = FileRecord | PublishedIndicators | Entry
"""What :class:`WriteEpochs` gives."""


class EstimateEpoch(beam.DoFn):
    """:class:`CountedEpoch` to :class:`EpochHistogram`: unbiased estimates, standard errors, intervals."""

    def __init__(self, collection: Collection, max_error_fraction: float = 1.0) -> None:
        """Estimate for this collection, unless a larger part of an epoch's records was rejected."""
        self._collection = collection
        self._max_error_fraction = max_error_fraction

    def process(self, counted: CountedEpoch) -> list[EpochHistogram]:
        """Debias once, with everything integer up to here."""
        return [estimate_counted(self._collection, counted, self._max_error_fraction)]


class MakeConsistent(beam.DoFn):
    """Apply the collection's consistency method; raw estimates stay beside the result."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def process(self, histogram: EpochHistogram) -> list[EpochHistogram]:
        """One histogram in, one out."""
        return [make_consistent(self._collection, histogram)]


def publish_epochs(
    counted: beam.PCollection[CountedEpoch],
    collection: Collection,
    outputs: Outputs,
    max_error_fraction: float,
) -> beam.PCollection[Published]:
    """Counted epochs to published ones.

    The steps belong to the transform around them, whose labels stay, so they are no transform of their own.
    """
    histograms = (
        counted
        | "Estimate" >> beam.ParDo(EstimateEpoch(collection, max_error_fraction))
        | "Histogram" >> beam.ParDo(MakeConsistent(collection))
    )
    return write_histograms(histograms, collection, outputs)


def publish_epochs_of_each(
    counted: beam.PCollection[tuple[str, CountedEpoch]],
    collections: Sequence[Collection],
    outputs: Outputs,
    max_error_fraction: float,
) -> beam.PCollection[Published]:
    """The same over files, where each epoch has one result, number 0, for several collections.

    Counted epochs come by the digest of their collection.
    """

    def step(make: Callable[[Collection], beam.DoFn], *, last: bool = False) -> beam.ParDo:
        return beam.ParDo(OfEach({c.digest_hex: make(c) for c in collections}, last=last))

    histograms = (
        counted
        | "Estimate" >> step(lambda collection: EstimateEpoch(collection, max_error_fraction))
        | "Histogram" >> step(MakeConsistent)
    )
    sinks = {c.digest_hex: chosen_sinks(c, outputs) for c in collections}
    for label in next(iter(sinks.values())):
        chosen = OfEach({digest: those[label] for digest, those in sinks.items()})
        histograms = histograms | label >> beam.ParDo(chosen)
    return histograms | "Write" >> step(lambda collection: WriteEpochs(collection, outputs.output), last=True)


def write_histograms(
    histograms: beam.PCollection[EpochHistogram], collection: Collection, outputs: Outputs
) -> beam.PCollection[Published]:
    """Histograms to files, once every optional sink that was asked for has them under their number.

    So the accounting, which comes last, names nothing that a sink lacks, and what a crash keeps from it is
    published once more.
    """
    if outputs.job:
        numbers = RevisionNumbers(collection, outputs.output, outputs.job)
        histograms = histograms | "Number" >> beam.Map(numbers.number)
    for label, sink in chosen_sinks(collection, outputs).items():
        histograms = histograms | label >> beam.ParDo(sink)
    return histograms | "Write" >> beam.ParDo(WriteEpochs(collection, outputs.output, outputs.job))
