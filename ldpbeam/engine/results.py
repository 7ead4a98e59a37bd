"""Results of the local engine: reports of landed segments through the driver, then to the sinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP

from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.engine.due import Due
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.engine.storage.segment import EpochKey, read_segment
from ldpbeam.epoch_result import result_of_epoch
from ldpbeam.histogram import EpochHistogram
from ldpbeam.job.config import RunConfig
from ldpbeam.reports import ReportColumns
from ldpbeam.transforms.sinks import chosen_sinks
from ldpbeam.transforms.sinks.accounting import RevisionNumbers
from ldpbeam.transforms.sinks.estimates import EpochFiles

ENGINE = "local"
"""The job that the accounting names for every revision; on one output directory there is only one engine."""


def publish_due(config: RunConfig, landing: Landing, due: Sequence[Due]) -> None:
    """Make results and publish them: to optional sinks first, so that the accounting names nothing they lack.

    Raises:
        LdpError: a segment is damaged, or a sink fails.
    """
    columns = _read(landing, due)
    for collection in config.collections:
        own = [each for each in due if each.key[0] == collection.digest_hex]
        if not own:
            continue
        numbers = RevisionNumbers(collection, config.outputs.output, ENGINE)
        results: Iterable[EpochHistogram] = map(numbers.number, _results(config, collection, own, columns))
        for sink in chosen_sinks(collection, config.outputs).values():
            results = _confirmed(sink, results)
        files = EpochFiles(collection, config.outputs.output, ENGINE)
        for result in results:
            files.write(result)


def _results(
    config: RunConfig,
    collection: Collection,
    due: Sequence[Due],
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


def _read(landing: Landing, due: Sequence[Due]) -> dict[EpochKey, list[ReportColumns]]:
    """The reports of all epochs that are due; each segment is opened once."""
    wanted: dict[int, set[EpochKey]] = {}
    for each in due:
        for number in each.segments:
            wanted.setdefault(number, set()).add(each.key)
    found: dict[EpochKey, list[ReportColumns]] = {}
    for number, keys in sorted(wanted.items()):
        for columns in read_segment(landing.path(number), frozenset(keys)):
            found.setdefault((digest_hex(columns.digest), columns.epoch), []).append(columns)
    return found
