"""After stage 5: results get their numbers, then go to the optional sinks, before the files are written."""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from ldpbeam.collection.collection import Collection
from ldpbeam.transforms.sinks import SINKS, Outputs
from ldpbeam.transforms.sinks.accounting import NumberRevisions

__all__ = ["write_optional_sinks"]


def write_optional_sinks(
    histograms: beam.PCollection, collection: Collection, outputs: Outputs
) -> beam.PCollection[Any]:
    """Number final histograms, and pass them on once every sink that was asked for has them.

    So the accounting, which is written after this, names nothing that a sink lacks; and what a crash keeps
    from the accounting is published once more.
    """
    if outputs.job:
        numbers = NumberRevisions(collection, outputs.output, outputs.job)
        histograms = histograms | "Number" >> beam.ParDo(numbers)
    for name, sink in SINKS.items():
        target = outputs.targets.get(name)
        if target:
            histograms = histograms | sink.label >> beam.ParDo(sink.load()(collection, target))
    return histograms
