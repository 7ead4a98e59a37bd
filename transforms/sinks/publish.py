"""After stage 5: histograms to the optional sinks, and then to files."""

from __future__ import annotations

from collections.abc import Sequence

import apache_beam as beam

from ldpbeam.collection.collection import Collection
from ldpbeam.histogram import EpochHistogram

from ..composite import composite
from . import Outputs, chosen_sinks
from .accounting import RevisionNumbers
from .estimates import Published, WriteEpochs
from .of_each import OfEach


class NumberRevisions(beam.DoFn):
    def __init__(self, collection: Collection, outputs: Outputs) -> None:
        self._numbers = RevisionNumbers(collection, outputs.output, outputs.job)

    def process(self, histogram: EpochHistogram) -> list[EpochHistogram]:
        return [self._numbers.number(histogram)]


@composite
def write_histograms(
    histograms: beam.PCollection[tuple[str, EpochHistogram]],
    collections: Sequence[Collection],
    outputs: Outputs,
) -> beam.PCollection[Published]:
    """Histograms to files, once every optional sink that was asked for has them under their number."""
    if outputs.job:
        number = {c.digest_hex: NumberRevisions(c, outputs) for c in collections}
        histograms = histograms | "Number" >> beam.ParDo(OfEach(number))
    sinks = {c.digest_hex: chosen_sinks(c, outputs) for c in collections}
    for label in next(iter(sinks.values())):
        chosen = OfEach({digest: those[label] for digest, those in sinks.items()})
        histograms = histograms | label >> beam.ParDo(chosen)
    write = {c.digest_hex: WriteEpochs(c, outputs.output, outputs.job) for c in collections}
    return histograms | "Files" >> beam.ParDo(OfEach(write, last=True))
