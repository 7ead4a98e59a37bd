"""After stage 5: results get their numbers, then go to the sinks that come before the files."""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from ldpbeam.collection.collection import Collection
from ldpbeam.transforms.sinks.accounting import NumberRevisions
from ldpbeam.transforms.sinks.bigquery import WriteEstimatesToBigQuery
from ldpbeam.transforms.sinks.topic import PublishEstimates

__all__ = ["told_elsewhere"]


def told_elsewhere(
    histograms: beam.PCollection, collection: Collection, topic: str, table: str, output: str, job: str
) -> beam.PCollection[Any]:
    """The same histograms, numbered for all sinks, once those that were asked for have them.

    So the books, which are written after this, name nothing that a sink lacks; and what a crash keeps from
    the books is told again.

    Args:
        histograms: final ones.
        collection: whose they are.
        topic: ``projects/P/topics/T``, or empty.
        table: ``project:dataset.table``, or empty.
        output: output directory.
        job: name of an unbounded job; empty over files, whose epochs have one result each, number 0.
    """
    if job:
        histograms = histograms | "Number" >> beam.ParDo(NumberRevisions(collection, output, job))
    if topic:
        histograms = histograms | "Topic" >> beam.ParDo(PublishEstimates(collection, topic))
    if table:
        sink = WriteEstimatesToBigQuery(collection, table)
        histograms = histograms | "BigQuery" >> beam.ParDo(sink)
    return histograms
