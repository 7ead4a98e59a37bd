"""Reports on their way to a pipeline: published to a Pub/Sub topic, as a collector would.

A message holds one serialized ReportBatch, or one Report, without a length before it. Its attribute
``received`` is when the collector took it in, milliseconds since 1970: simulated, somewhere in the epoch that
its reports belong to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ldpbeam.admission import ReportColumns, as_sent, batch_message, put_together
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import Epochs
from ldpbeam.errors import option_error
from ldpbeam.wire import report_pb2

from ..population.joint import Joint
from ..population.sliced import SlicedPopulation
from ..population.specs import Population
from ..random_words import RandomWords
from .files import Format
from .simulate import PopulationEpochs, SimulationRecord, refuse_existing, write_record

RECEIVED = "received"
"""The attribute that holds the simulated arrival time."""

_MESSAGE_BYTES = 1 << 20
"""Columns of a message at most (unless one report is longer); Pub/Sub refuses 10 MB."""

_OUTSTANDING_BYTES = 32 << 20
_OUTSTANDING = 4096
"""What may be on its way and not confirmed, in bytes and in messages."""

_SECONDS = 60.0
"""How long to try to publish a message before giving up."""


@dataclass(frozen=True)
class PublishRecord(SimulationRecord):
    topic: str
    messages: int


def publish_epochs(  # noqa: PLR0913 - the options of a command, by name
    collection: Collection,
    population: Population | Joint | SlicedPopulation,
    topic: str,
    *,
    seed: int,
    out: Path | None = None,
    spec: str = "",
    notes: Sequence[str] = (),
    format: Format = "batch",  # noqa: A002 - as the command line calls it
    truth: bool = False,
    first_epoch: int = 0,
    reports_per_message: int = 4096,
    on_epoch: Callable[[int, int], None] | None = None,
) -> PublishRecord:
    """Let a fleet of devices with the population's values report, epoch after epoch, to a topic."""
    from google.cloud import pubsub_v1

    if format not in ("batch", "report"):
        raise option_error(f"a Pub/Sub message cannot hold {format!r}", "Choose batch or report.")
    if truth and out is None:
        raise option_error("there is nowhere to write the truth", "Add an output directory (--output).")
    simulation = PopulationEpochs(collection, population, seed, first_epoch)
    if out is not None:
        # The truth would seem to be the one of those reports.
        refuse_existing(out / "reports")
    publisher = _publisher(pubsub_v1)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    published = 0

    def publish(epoch: int, present: int, batches: Iterator[ReportColumns]) -> int:
        nonlocal published
        rows = _rows_per_message(collection, format, reports_per_message)
        times = arrivals(simulation.random_words, collection.epochs, epoch, -(-present // rows))
        pending: deque[Future[str]] = deque()
        for some, milliseconds in zip(regrouped(batches, rows), times, strict=True):
            # Reports of several slices need a message each.
            for content in messages(as_sent(collection, some), format):
                # Waits while too much is outstanding.
                pending.append(publisher.publish(topic, content, **{RECEIVED: str(milliseconds)}))
                published += 1
            while pending and pending[0].done():
                pending.popleft().result()
        for confirmation in pending:
            confirmation.result()
        return present

    try:
        truth_file = out / "truth.parquet" if out is not None and truth else None
        total = simulation.run(publish, truth_file, on_epoch)
    finally:
        publisher.stop()
        publisher.transport.close()
    record = PublishRecord(
        **simulation.facts(spec, notes),
        reports=total,
        format=format,
        compression="none",
        topic=topic,
        messages=published,
    )
    if out is not None:
        write_record(record, out)
    return record


def messages(batches: Iterable[ReportColumns], format: Format) -> Iterator[bytes]:  # noqa: A002 - as above
    """The content of a message for each batch, or for each report."""
    for batch in batches:
        if format == "batch":
            yield batch_message(batch)
            continue
        for report_id, payload in zip(batch.report_ids.tolist(), batch.payloads, strict=True):
            yield report_pb2.Report(
                digest=batch.digest, epoch=batch.epoch, report_id=report_id, payload=payload.tobytes()
            ).SerializeToString()


def arrivals(random_words: RandomWords, epochs: Epochs, epoch: int, count: int) -> list[int]:
    """Arrival times of an epoch's messages: uniform over the epoch, in order, milliseconds since 1970."""
    words = random_words.words("arrival", epoch, 0, count, 1, limit=1000 * epochs.length)[:, 0]
    start = 1000 * epochs.start(epoch)
    return [start + word for word in np.sort(words).tolist()]


def _rows_per_message(collection: Collection, format: Format, wanted: int) -> int:  # noqa: A002
    if format == "report":
        return 1
    return max(1, min(wanted, _MESSAGE_BYTES // (8 + collection.protocol.device.payload_size)))


def regrouped(batches: Iterator[ReportColumns], rows: int) -> Iterator[ReportColumns]:
    """The same reports in order, ``rows`` at a time: messages do not depend on the fleet's batches."""
    held: ReportColumns | None = None
    for batch in batches:
        joined = batch if held is None else put_together([held, batch])
        whole = len(joined) // rows * rows
        for first in range(0, whole, rows):
            yield _slice(joined, first, first + rows)
        held = _slice(joined, whole, len(joined))
    if held is not None and len(held):
        yield held


def _slice(batch: ReportColumns, first: int, end: int) -> ReportColumns:
    return ReportColumns(batch.digest, batch.epoch, batch.report_ids[first:end], batch.payloads[first:end])


def _publisher(pubsub: Any) -> Any:
    """A client that blocks while too much is outstanding, and gives up within a minute, not ten."""
    from google.api_core import exceptions
    from google.api_core.retry import Retry, if_exception_type

    passing = if_exception_type(
        exceptions.Aborted,
        exceptions.DeadlineExceeded,
        exceptions.InternalServerError,
        exceptions.ResourceExhausted,
        exceptions.ServiceUnavailable,
        exceptions.Unknown,
    )
    limits = pubsub.types.PublishFlowControl(
        message_limit=_OUTSTANDING,
        byte_limit=_OUTSTANDING_BYTES,
        limit_exceeded_behavior=pubsub.types.LimitExceededBehavior.BLOCK,
    )
    options = pubsub.types.PublisherOptions(
        flow_control=limits, retry=Retry(predicate=passing, timeout=_SECONDS), timeout=_SECONDS
    )
    return pubsub.PublisherClient(
        batch_settings=pubsub.types.BatchSettings(max_messages=1000), publisher_options=options
    )
