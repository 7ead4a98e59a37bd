"""Results of the local engine: reports of landed segments through the driver, then to the sinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP

from ldpbeam.admission import ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.engine.publication import DueResult
from ldpbeam.engine.storage.segment import EpochKey
from ldpbeam.engine.storage.stream_state import StreamState
from ldpbeam.epoch_result import result_of_epoch
from ldpbeam.histogram import EpochHistogram
from ldpbeam.job.config import RunConfig
from ldpbeam.transforms.sinks import chosen_sinks
from ldpbeam.transforms.sinks.accounting import EpochAccounting, content_digest, number_after
from ldpbeam.transforms.sinks.estimates import EpochFiles

ENGINE = "local"
"""The job that the accounting names for every revision; on one output directory there is only one engine."""


def publish_due(config: RunConfig, state: StreamState, due: Sequence[DueResult]) -> None:
    """Make results and publish them: to optional sinks first, so that the accounting names nothing they
    lack."""
    columns = state.read(each.key for each in due if each.counts)
    accounts: list[EpochAccounting] = []
    for collection in config.collections:
        own = [each for each in due if each.key[0] == collection.digest_hex]
        if not own:
            continue
        results = _numbered(state, collection, _results(config, collection, own, columns))
        for sink in chosen_sinks(collection, config.outputs).values():
            results = _confirmed(sink, results)
        files = EpochFiles(collection, config.outputs.output, ENGINE)
        for result in results:
            known = state.epochs[collection.digest_hex, result.epoch].published
            accounts.append(files.write_tables(result, known)[1])
    state.publish(accounts)


def _numbered(
    state: StreamState, collection: Collection, results: Iterable[EpochHistogram]
) -> Iterator[EpochHistogram]:
    """The same results with their numbers, which are kept before any sink sees them."""
    for result in results:
        if not result.attributes and not result.withheld:
            yield result
            continue
        key = (collection.digest_hex, result.epoch)
        newest = state.epochs[key].newest_number
        number = number_after(newest, content_digest(collection, result), ENGINE)
        if number != newest:
            state.keep_number(key, number)
        yield replace(result, revision=number.revision)


def _results(
    config: RunConfig,
    collection: Collection,
    due: Sequence[DueResult],
    columns: dict[EpochKey, list[ReportColumns]],
) -> Iterator[EpochHistogram]:
    """One result after the other, so that the tables of a large domain are not held together."""
    for each in due:
        yield result_of_epoch(
            collection,
            each.key[1],
            columns.pop(each.key, ()),
            each.account,
            each.publication,
            deduplicate=config.counting.deduplicate,
            max_error_fraction=config.counting.max_error_fraction,
        )


def _confirmed(sink: beam.DoFn, results: Iterable[EpochHistogram]) -> Iterator[EpochHistogram]:
    """The same results, each once the sink has confirmed it: one bundle of a sink made for pipelines."""
    sink.setup()
    try:
        sink.start_bundle()
        for result in results:
            yield from (held.value for held in sink.process(result, MIN_TIMESTAMP, GlobalWindow()))
        yield from (held.value for held in sink.finish_bundle())
    finally:
        sink.teardown()
