"""Messages of a Pub/Sub subscription, pulled in handfuls and acknowledged once they are safe elsewhere.

The streaming pull of google-cloud-pubsub fills a bounded queue and keeps the leases of everything that was
not acknowledged yet; :class:`Subscriber` is the narrow door to it. A message holds one serialized Report or
one serialized ReportBatch; nothing here looks inside. PUBSUB_EMULATOR_HOST is honoured by the library.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Expired
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Condition
from time import monotonic
from types import TracebackType
from typing import Any

from ldpbeam.engine.sources.source import MessageSource
from ldpbeam.errors import LdpError
from ldpbeam.transforms.pubsub import explain, library, require_path

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:[0-5]\d)", re.ASCII)
_MILLISECONDS = re.compile(r"\d{1,15}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)
_END = 253_402_300_800_000_000
"""The year 10000, microseconds since 1970; no time lies there."""

_ACKNOWLEDGE_SECONDS = 60.0
_CLOSE_SECONDS = 30.0
_PROBE_SECONDS = 20.0
_ALIVE_SECONDS = 5.0
_IDS_PER_REQUEST = 1000


@dataclass(frozen=True)
class Message:
    """One message, and what acknowledges it."""

    data: bytes
    arrival_micros: int
    message_id: str
    stamped: bool
    handle: Any = field(repr=False, compare=False)
    published_micros: int


class Subscriber(MessageSource[Message]):
    """A streaming pull from one subscription."""

    def __init__(
        self,
        subscription: str,
        timestamp_attribute: str | None = None,
        *,
        max_messages: int = 1000,
        max_bytes: int = 64 << 20,
        lease_seconds: int = 30,
    ) -> None:
        if max_messages < 1 or max_bytes < 1:
            raise ValueError(f"a queue of {max_messages} messages and {max_bytes} bytes holds nothing")
        self.subscription = require_path("subscription", subscription)
        pubsub = library()
        # Its tracebacks of a stream that ends would surround the one line that pull() raises.
        logging.getLogger("google.api_core.bidi").setLevel(logging.CRITICAL)
        self._attribute = timestamp_attribute
        self._max_messages, self._max_bytes = max_messages, max_bytes
        self._changed = Condition()
        self._queue: deque[Message] = deque()
        self._queued_bytes = 0
        self._leased: dict[str, None] = {}
        """Ack ids of all that was queued and not acknowledged, in order; nacked at the end."""
        self._closing = False
        try:
            self._client: Any = pubsub.SubscriberClient()
            self._probe()
        except Exception as error:
            raise explain(error, "subscription", self.subscription) from None
        self._stream: Any = self._client.subscribe(
            self.subscription,
            self._receive,
            flow_control=pubsub.types.FlowControl(
                max_bytes=max_bytes, max_messages=max_messages, max_duration_per_lease_extension=lease_seconds
            ),
            # One thread keeps the order of delivery, and is plenty for putting into a queue.
            scheduler=pubsub.subscriber.scheduler.ThreadScheduler(ThreadPoolExecutor(1, "pubsub-receive")),
            await_callbacks_on_shutdown=True,
        )
        self._stream.add_done_callback(self._wake)

    def pull(self, limit_messages: int, limit_bytes: int, timeout_seconds: float) -> list[Message]:
        """Messages in the order of delivery, as soon as there is one."""
        if limit_messages < 1:
            raise ValueError(f"a pull of at most {limit_messages} messages gives none; ask for at least 1")
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stream.done(), timeout_seconds)
            if self._stream.done():
                raise self._failure()
            taken: list[Message] = []
            size = 0
            while self._queue and len(taken) < limit_messages:
                size += self._queue[0].handle.size
                if taken and size > limit_bytes:
                    break
                taken.append(self._queue.popleft())
            self._queued_bytes -= sum(message.handle.size for message in taken)
            self._changed.notify_all()
        return taken

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Tell Pub/Sub that these need not be delivered again."""
        refusals = library().subscriber.exceptions
        if self._stream.done():
            raise self._failure()
        end = monotonic() + _ACKNOWLEDGE_SECONDS
        answers = [(message, message.handle.ack_with_response()) for message in messages]
        for message, answer in answers:
            try:
                answer.result(timeout=max(0.0, end - monotonic()))
            except refusals.AcknowledgeError as error:
                if error.error_code == refusals.AcknowledgeStatus.PERMISSION_DENIED:
                    raise explain(error, "subscription", self.subscription) from None
            except Expired:
                if self._stream.done():
                    raise self._failure() from None
            with self._changed:
                self._leased.pop(message.handle.ack_id, None)

    def connected(self) -> bool:
        """Whether Pub/Sub answers, which an empty pull does not say: silence or a broken connection."""
        try:
            self._probe(_ALIVE_SECONDS)
        except Exception:  # whatever it is, nothing can come; what it is shows in the next pull, or it ends
            return False
        return True

    def close(self) -> None:
        """Stop pulling, send what was acknowledged, and give back all else at once; may be called again."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._queue.clear()
            self._queued_bytes = 0
            self._changed.notify_all()
        self._stream.cancel()
        with suppress(Exception):  # whatever ended it before
            self._stream.result(timeout=_CLOSE_SECONDS)
        # Not before the stream has ended: what is given back would at once be delivered here again.
        self._give_back()
        self._client.close()

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _receive(self, raw: Any) -> None:
        """The library's callback: queue a message, or wait until there is room."""
        message = _message(raw, self._attribute)
        with self._changed:
            self._leased[raw.ack_id] = None
            self._changed.wait_for(lambda: self._closing or self._room(raw.size))
            if not self._closing:
                self._queue.append(message)
                self._queued_bytes += raw.size
                self._changed.notify_all()

    def _room(self, size: int) -> bool:
        if not self._queue:
            return True
        return len(self._queue) < self._max_messages and self._queued_bytes + size <= self._max_bytes

    def _wake(self, _: Any) -> None:
        with self._changed:
            self._changed.notify_all()

    def _failure(self) -> LdpError:
        """Why the stream is no longer there."""
        return explain(self._stream.exception(timeout=0), "subscription", self.subscription)

    def _probe(self, timeout: float = _PROBE_SECONDS) -> None:
        """Fail now where the library would try for ever: nobody answers, or credentials are stale."""
        from google.api_core import exceptions

        unanswered = (exceptions.ServiceUnavailable, exceptions.DeadlineExceeded, exceptions.Unauthenticated)
        wanted = {"resource": self.subscription, "permissions": ["pubsub.subscriptions.consume"]}
        try:
            self._client.test_iam_permissions(request=wanted, retry=None, timeout=timeout)
        except exceptions.GoogleAPICallError as error:
            if isinstance(error, unanswered):
                raise

    def _give_back(self) -> None:
        ids = list(self._leased)
        for first in range(0, len(ids), _IDS_PER_REQUEST):
            some = ids[first : first + _IDS_PER_REQUEST]
            with suppress(Exception):  # a courtesy: leases run out by themselves
                self._client.modify_ack_deadline(
                    subscription=self.subscription,
                    ack_ids=some,
                    ack_deadline_seconds=0,
                    retry=None,
                    timeout=_CLOSE_SECONDS,
                )


def timestamp_micros(text: str) -> int | None:
    """The time in a timestamp attribute, microseconds since 1970."""
    if _MILLISECONDS.fullmatch(text):
        micros = int(text) * 1000
    elif _RFC_3339.fullmatch(text):
        try:
            micros = (datetime.fromisoformat(text.upper()) - _EPOCH) // _MICRO
        except ValueError:  # there is no such day, hour or second
            return None
    else:
        return None
    return micros if 0 <= micros < _END else None


def _message(raw: Any, attribute: str | None) -> Message:
    """Convert the library's message; ``attribute`` names its arrival time, None for the broker's time."""
    micros = timestamp_micros(raw.attributes.get(attribute, "")) if attribute is not None else None
    stamped = attribute is None or micros is not None
    taken = (raw.publish_time - _EPOCH) // _MICRO
    return Message(raw.data, taken if micros is None else micros, raw.message_id, stamped, raw, taken)
