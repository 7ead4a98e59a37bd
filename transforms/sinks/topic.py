"""After stage 5, a sink for messages: every published revision of an epoch to a Pub/Sub topic.

Goes through google-cloud-pubsub's own publisher, which works on every runner; Beam's works on two.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from threading import Event
from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import instant
from ldpbeam.errors import LdpError
from ldpbeam.histogram import EpochHistogram
from ldpbeam.tables import epoch_table

from ..pubsub import library, require_path
from .confirmed_sink import ConfirmedSink

ESTIMATES_SCHEMA = "ldpbeam.estimates/1"

MESSAGE_BYTES = 9_000_000
"""Body of a message at most; Pub/Sub takes 10 MB with attributes and all."""

_SAME = ("collection", "version", "digest", "epoch", "epoch_start", "epoch_end", "revision", "method", "pane")
"""Columns of the table that are the same in all rows of an epoch: a message has them once."""

_SECONDS = 300.0
"""How long to wait for the confirmation of a message; the library itself would wait for ever."""
_PAUSE = 5.0
"""Longest pause between two attempts."""


@dataclass(frozen=True)
class EstimateMessage:
    data: bytes
    attributes: dict[str, str]
    ordering_key: str


def estimate_messages(
    collection: Collection, histogram: EpochHistogram, fixed: dict[str, Any], limit: int
) -> list[EstimateMessage]:
    """A revision as messages: one where its JSON fits into ``limit`` bytes, else parts with consecutive
    rows."""
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
                "E-RUN-SINK",
                f"a single row of the estimates takes {largest:,} bytes, a message takes {limit:,}",
                where=f"collection {head['collection']}",
                remedy="Shorten the labels of its values.",
            )
        parts = min(rows, max(parts + 1, parts * largest // limit))


def _encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


class PublishEstimates(ConfirmedSink):
    """:class:`EpochHistogram` to messages. Consumers key by the attribute ``id``: it has one content only."""

    def __init__(self, collection: Collection, topic: str) -> None:
        super().__init__(collection)
        self._topic = topic
        self._publisher: Any = None
        self._given_up: Any = None
        self._futures: list[Any] = []

    @staticmethod
    def check(target: str) -> None:
        require_path("topic", target)
        library()

    def begin(self) -> None:
        """Start with a client that works: one that has failed would refuse the epochs that it failed at."""
        if self._futures:
            self.disconnect()
        if self._publisher is None:
            self.connect()

    def send(self, histogram: EpochHistogram) -> int:
        messages = estimate_messages(self.collection, histogram, self.fixed, MESSAGE_BYTES)
        try:
            for one in messages:
                key, attributes = one.ordering_key, one.attributes
                sent = self._publisher.publish(self._topic, one.data, ordering_key=key, **attributes)
                self._futures.append(sent)
        except Exception as error:
            raise self._failure(error) from None
        return sum(len(message.data) for message in messages)

    def confirm(self) -> None:
        try:
            for future in self._futures:
                self._wait(future)
        except Exception as error:
            raise self._failure(error) from None
        self._futures.clear()

    def _wait(self, future: Any) -> None:
        """Until a message has arrived, or there is a reason why it has not."""
        try:
            future.result(timeout=_SECONDS)
        except TimeoutError:
            # What failed the last time is not tried again, and says so.
            self._given_up.set()
            future.result(timeout=_PAUSE + 1)

    def _failure(self, error: Exception) -> LdpError:
        self.disconnect()
        why = " ".join(f"{type(error).__name__} {error}".split())[:200].rstrip(". ")
        return LdpError(
            "E-RUN-SINK",
            f"estimates could not be published ({why})",
            where=self._topic,
            remedy="Check that the topic exists and that the worker may publish to it "
            "(roles/pubsub.publisher); then start the run again.",
        )

    def connect(self) -> None:
        pubsub = library()
        self._futures.clear()
        self._given_up = Event()
        try:
            self._publisher = _publisher(pubsub, self._given_up)
        except Exception as error:
            raise self._failure(error) from None

    def disconnect(self) -> None:
        if self._publisher is None:
            return
        self._given_up.set()
        for future in self._futures:
            with suppress(Exception):  # whatever became of it; closing under it would not be reported better
                future.result(timeout=_PAUSE + 1)
        self._futures.clear()
        self._publisher.stop()
        self._publisher.transport.close()
        self._publisher = None


def _publisher(pubsub: Any, given_up: Event) -> Any:
    """A client with ordering, which stops trying once ``given_up`` is set."""
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
