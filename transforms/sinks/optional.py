"""After stage 5: results get their numbers, then go to the optional sinks, before the files are written."""

from __future__ import annotations

import apache_beam as beam

from ldpbeam.collection.collection import Collection
from ldpbeam.histogram import EpochHistogram
from ldpbeam.transforms.sinks import SINKS, Outputs
from ldpbeam.transforms.sinks.accounting import NumberRevisions

__all__ = ["number_revisions", "optional_sinks", "write_optional_sinks"]


def number_revisions(
    histograms: beam.PCollection[EpochHistogram], collection: Collection, outputs: Outputs
) -> beam.PCollection[EpochHistogram]:
    """The same histograms with the numbers of their revisions; over files each epoch has one, number 0."""
    if not outputs.job:
        return histograms
    return histograms | "Number" >> beam.ParDo(NumberRevisions(collection, outputs.output, outputs.job))


def optional_sinks(collection: Collection, outputs: Outputs) -> dict[str, beam.DoFn]:
    """The optional sinks that were asked for, by the labels of their steps, in the order of :data:`SINKS`."""
    return {
        sink.label: sink.load()(collection, outputs.targets[name])
        for name, sink in SINKS.items()
        if outputs.targets.get(name)
    }


def write_optional_sinks(
    histograms: beam.PCollection[EpochHistogram], collection: Collection, outputs: Outputs
) -> beam.PCollection[EpochHistogram]:
    """The same histograms, once every optional sink that was asked for has them.

    So the accounting, which is written after this, names nothing that a sink lacks; and what a crash keeps
    from the accounting is published once more.
    """
    for label, sink in optional_sinks(collection, outputs).items():
        histograms = histograms | label >> beam.ParDo(sink)
    return histograms
