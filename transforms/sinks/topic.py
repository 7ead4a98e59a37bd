"""After stage 5, a sink for messages: every published revision of an epoch to a Pub/Sub topic.

Goes through google-cloud-pubsub's own publisher, which works on every runner; Beam's works on two.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from threading import Event
from typing import Any

import apache_beam as beam
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import instant
from ldpbeam.errors import LdpError, UsageError
from ldpbeam.histogram import EpochHistogram
from ldpbeam.tables import epoch_table, fixed_columns

__all__ = ["ESTIMATES_SCHEMA", "MESSAGE_BYTES", "EstimateMessage", "PublishEstimates", "estimate_messages"]

ESTIMATES_SCHEMA = "ldpbeam.estimates/1"

MESSAGE_BYTES = 9_000_000
"""Body of a message at most; Pub/Sub takes 10 MB with attributes and all."""

_SAME = ("collection", "version", "digest", "epoch", "epoch_start", "epoch_end", "revision", "method", "pane")
"""Columns of the table that are the same in all rows of an epoch: told once."""

_OUTSTANDING_BYTES = 64 << 20
_OUTSTANDING = 100
"""What may be on its way and not confirmed. Every epoch on its way has a thread of the library's."""

_SECONDS = 300.0
"""How long to wait for the confirmation of a message; the library itself would wait for ever."""
_PAUSE = 5.0
"""Longest pause between two attempts."""


@dataclass(frozen=True)
class EstimateMessage:
    """A message about one revision of one epoch.

    Attributes:
        data: JSON, see docs/sinks.md.
        attributes: what a subscription may filter by; ``id`` is the same whenever the same part is sent.
        ordering_key: digest and epoch.
    """

    data: bytes
    attributes: dict[str, str]
    ordering_key: str


def estimate_messages(
    collection: Collection,
    histogram: EpochHistogram,
    fixed: dict[str, Any],
    limit: int,
) -> list[EstimateMessage]:
    """A revision as messages: one where its JSON fits, else parts with consecutive rows.

    Args:
        collection: whose epoch it is.
        histogram: without attributes and not withheld, it gives no message.
        fixed: :func:`ldpbeam.tables.fixed_columns` of the collection.
        limit: bytes of a body at most.

    Raises:
        LdpError: a single row is larger.
    """
    if not histogram.attributes and not histogram.withheld:
        return []
    revision = histogram.revision
    head, columns, rows = _content(collection, histogram, fixed)
    bodies = _bodies(head, columns, rows, limit)
    place = f"{collection.digest_hex}/{histogram.epoch}"
    common = {
        "collection": collection.name,
        "digest": collection.digest_hex,
        "epoch": str(histogram.epoch),
        "revision": str(revision),
        "pane": histogram.pane,
        "closed": str(histogram.closed).lower(),
        "parts": str(len(bodies)),
        **({"withheld": histogram.withheld} if histogram.withheld else {}),
    }
    return [
        EstimateMessage(body, {**common, "part": str(part), "id": f"{place}/{revision}/{part}"}, place)
        for part, body in enumerate(bodies, 1)
    ]


def _content(
    collection: Collection, histogram: EpochHistogram, fixed: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, list[Any]], int]:
    """What all parts say, the other columns of the table, and their length."""
    head = {
        "schema": ESTIMATES_SCHEMA,
        "collection": collection.name,
        "version": collection.version,
        "digest": collection.digest_hex,
        "epoch": histogram.epoch,
        "epoch_start": instant(collection.epochs.start(histogram.epoch)),
        "epoch_end": instant(collection.epochs.end(histogram.epoch)),
        "revision": histogram.revision,
        "method": collection.consistency,
        "pane": histogram.pane,
        "reports": histogram.reports,
        "closed": histogram.closed,
        "withheld": histogram.withheld,
    }
    if histogram.attributes:
        table = epoch_table(collection, histogram, fixed)
    else:
        table = fixed["schema"].empty_table()
    return head, table.drop_columns(list(_SAME)).to_pydict(), table.num_rows


def _bodies(head: dict[str, Any], columns: dict[str, list[Any]], rows: int, limit: int) -> list[bytes]:
    """As few parts of about equal numbers of rows as fit; the same for the same content."""
    parts = 1
    while True:
        edges = [rows * part // parts for part in range(parts + 1)]
        bodies = [
            _encoded(
                {
                    **head,
                    "part": part,
                    "parts": parts,
                    "columns": {name: column[first:end] for name, column in columns.items()},
                }
            )
            for part, (first, end) in enumerate(pairwise(edges), 1)
        ]
        largest = max(map(len, bodies))
        if largest <= limit:
            return bodies
        if parts >= rows:
            raise LdpError(
                "E-RUN-TOPIC",
                f"a single row of the estimates takes {largest:,} bytes, a message takes {limit:,}",
                where=f"collection {head['collection']}",
                remedy="Shorten the labels of its values.",
            )
        parts = min(rows, max(parts + 1, parts * largest // limit))


def _encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


class PublishEstimates(beam.DoFn):
    """:class:`EpochHistogram` to messages; passes histograms on once the broker has their messages.

    At least once: a bundle is committed when all its messages are confirmed, and sent again when it fails.
    Consumers key by the attribute ``id``, which stands for one content only.
    """

    def __init__(self, collection: Collection, topic: str) -> None:
        """Publish epochs of this collection.

        Args:
            collection: whose epochs they are.
            topic: ``projects/P/topics/T``; must exist. PUBSUB_EMULATOR_HOST is honoured.
        """
        super().__init__()
        self._collection = collection
        self._topic = topic
        self._fixed: dict[str, Any] = {}
        self._publisher: Any = None
        self._given_up: Any = None
        self._waiting: deque[tuple[Any, list[Any], int]] = deque()
        self._bytes = self._messages = 0

    def setup(self) -> None:
        """Connect, once per worker."""
        self._fixed = fixed_columns(self._collection)
        self._open()

    def start_bundle(self) -> None:
        """Begin with nothing; a client that has failed would refuse the epochs that it failed at."""
        if self._waiting:
            self._close()
        if self._publisher is None:
            self._open()

    def process(
        self,
        histogram: EpochHistogram,
        when: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[Any]:
        """Send; give what was confirmed meanwhile, if too much is on its way."""
        futures: list[Any] = []
        entry = (WindowedValue(histogram, when, (window,)), futures, 0)
        self._waiting.append(entry)
        for message in self._messages_of(histogram):
            while self._bytes > _OUTSTANDING_BYTES and len(self._waiting) > 1:
                yield self._confirmed()
            try:
                future = self._publisher.publish(
                    self._topic, message.data, ordering_key=message.ordering_key, **message.attributes
                )
            except Exception as error:
                raise self._failure(error) from None
            futures.append(future)
            self._bytes += len(message.data)
            self._waiting[-1] = (entry[0], futures, self._waiting[-1][2] + len(message.data))
        self._messages += len(futures)
        while self._messages > _OUTSTANDING or self._bytes > _OUTSTANDING_BYTES:
            yield self._confirmed()

    def finish_bundle(self) -> Iterator[Any]:
        """The rest: nothing is committed that the broker has not confirmed."""
        while self._waiting:
            yield self._confirmed()

    def teardown(self) -> None:
        """Disconnect."""
        self._close()

    def _messages_of(self, histogram: EpochHistogram) -> list[EstimateMessage]:
        return estimate_messages(self._collection, histogram, self._fixed, MESSAGE_BYTES)

    def _confirmed(self) -> Any:
        """The oldest histogram on its way, once its messages have arrived."""
        held, futures, size = self._waiting[0]
        try:
            for future in futures:
                self._wait(future)
        except Exception as error:
            raise self._failure(error) from None
        self._waiting.popleft()
        self._bytes -= size
        self._messages -= len(futures)
        return held

    def _wait(self, future: Any) -> None:
        """Until a message has arrived, or there is a reason why it has not."""
        try:
            future.result(timeout=_SECONDS)
        except TimeoutError:
            # What failed the last time is not tried again, and says so.
            self._given_up.set()
            future.result(timeout=_PAUSE + 1)

    def _failure(self, error: Exception) -> LdpError:
        self._close()
        why = " ".join(f"{type(error).__name__} {error}".split())[:200].rstrip(". ")
        return LdpError(
            "E-RUN-TOPIC",
            f"estimates could not be published ({why})",
            where=self._topic,
            remedy="Check that the topic exists and that the worker may publish to it "
            "(roles/pubsub.publisher); then start the run again.",
        )

    def _open(self) -> None:
        try:
            pubsub = import_module("google.cloud.pubsub_v1")
        except ImportError:
            raise UsageError(
                "E-PUBSUB-LIBRARY",
                "Pub/Sub needs the package google-cloud-pubsub, which is not installed",
                remedy="Install it with: pip install 'ldpbeam[gcp]'",
            ) from None
        self._waiting = deque()
        self._bytes = self._messages = 0
        self._given_up = Event()
        try:
            self._publisher = _publisher(pubsub, self._given_up)
        except Exception as error:
            raise self._failure(error) from None

    def _close(self) -> None:
        """Let go of what is on its way, and disconnect."""
        if self._publisher is None:
            return
        self._given_up.set()
        for future in [future for _, futures, _ in self._waiting for future in futures]:
            with suppress(Exception):  # whatever became of it; closing under it would not be reported better
                future.result(timeout=_PAUSE + 1)
        self._waiting = deque()
        self._bytes = self._messages = 0
        self._publisher.stop()
        self._publisher.transport.close()
        self._publisher = None


def _publisher(pubsub: Any, given_up: Event) -> Any:
    """A client with ordering, which stops trying when it is told to.

    With ordering the library tries for ever, whatever timeout it is given; but what to try again is ours.
    """
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
    retry = Retry(
        predicate=lambda error: passing(error) and not given_up.is_set(), initial=0.1, maximum=_PAUSE
    )
    return pubsub.PublisherClient(
        publisher_options=pubsub.types.PublisherOptions(enable_message_ordering=True, retry=retry)
    )
