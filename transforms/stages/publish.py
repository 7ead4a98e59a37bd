"""The end of both pipelines: stages 4 and 5, then the sinks (adapts ldpbeam.histogram)."""

from __future__ import annotations

import apache_beam as beam

from ldpbeam.accounting import CountedEpoch, Entry
from ldpbeam.collection.collection import Collection
from ldpbeam.transforms.sinks import Outputs
from ldpbeam.transforms.sinks.atomic import FileRecord
from ldpbeam.transforms.sinks.estimates import PublishedIndicators, WriteEpochs
from ldpbeam.transforms.sinks.optional import number_revisions, write_optional_sinks
from ldpbeam.transforms.stages.estimate import EstimateEpoch
from ldpbeam.transforms.stages.histogram import MakeConsistent

__all__ = ["publish_epochs"]


def publish_epochs(
    counted: beam.PCollection[CountedEpoch],
    collection: Collection,
    outputs: Outputs,
    max_error_fraction: float,
) -> beam.PCollection[FileRecord | PublishedIndicators | Entry]:
    """Counted epochs to published ones; gives what :class:`WriteEpochs` gives.

    The steps belong to the transform around them, whose labels stay, so they are no transform of their own.
    """
    histograms = (
        counted
        | "Estimate" >> beam.ParDo(EstimateEpoch(collection, max_error_fraction))
        | "Histogram" >> beam.ParDo(MakeConsistent(collection))
    )
    numbered = number_revisions(histograms, collection, outputs)
    confirmed = write_optional_sinks(numbered, collection, outputs)
    return confirmed | "Write" >> beam.ParDo(WriteEpochs(collection, outputs.output, outputs.job))
