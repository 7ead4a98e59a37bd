"""Reports to a Pub/Sub topic: safe once the broker has confirmed them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ldpbeam.admission import ReportColumns, batch_message
from ldpbeam.errors import LdpError
from ldpbeam.records.journal import of_a_size
from ldpbeam.transforms.pubsub import library, require_path

RECEIVED = "received"
"""The attribute with the arrival, milliseconds since 1970; ``--timestamp-attribute received`` reads it."""

_MESSAGE_BYTES = 1 << 20
_SECONDS = 20.0
"""How long to wait for the broker before the devices hear that they should come again."""


class TopicStore:
    """As :class:`ldpbeam.collector.store.Store`; a message holds one ``ReportBatch``."""

    damaged = 0

    def __init__(self, topic: str, wall: Callable[[], float] = time.time) -> None:
        self._topic = require_path("topic", topic)
        self._pubsub = library()
        self._wall = wall
        self._publisher: Any = None

    def open(self) -> None:
        from google.api_core.retry import Retry

        options = self._pubsub.types.PublisherOptions(retry=Retry(timeout=_SECONDS), timeout=_SECONDS)
        try:
            self._publisher = self._pubsub.PublisherClient(
                # A commit is sent as it is: it has waited for others already.
                batch_settings=self._pubsub.types.BatchSettings(max_messages=1000, max_latency=0.001),
                publisher_options=options,
            )
        except Exception as error:
            raise self._failure(error) from None

    def commit(self, columns: Sequence[ReportColumns]) -> None:
        # To the second: when a report came decides whether it is late, and only whole seconds matter to that.
        received = str(int(self._wall()) * 1000)
        try:
            sent = [
                self._publisher.publish(self._topic, batch_message(part), **{RECEIVED: received})
                for some in columns
                for part in of_a_size(some, _MESSAGE_BYTES)
            ]
            for confirmation in sent:
                confirmation.result(timeout=_SECONDS)
        except Exception as error:
            raise self._failure(error) from None

    def publish(self) -> None:
        """Everything that was answered can be read already."""

    def close(self) -> None:
        if self._publisher is not None:
            self._publisher.stop()
            self._publisher.transport.close()
            self._publisher = None

    def _failure(self, error: Exception) -> LdpError:
        from ldpbeam.transforms.pubsub import explain

        return explain(error, "topic", self._topic)
