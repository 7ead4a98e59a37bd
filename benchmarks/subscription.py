"""A server that speaks Pub/Sub's protocol and makes its messages itself, for long tests of the local engine.

Google's emulator and its fake for Go programs answer with a handful of messages at a time, and give an
engine some hundred a second once messages have gathered. This server gives a thousand at a time. What is not
acknowledged within its lease it gives again, as Pub/Sub does.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import grpc
from google.cloud import pubsub_v1
from google.protobuf import empty_pb2

__all__ = ["Subscription"]

_SERVICE = "google.pubsub.v1.Subscriber"
_TOGETHER = 1000


class Subscription:
    """One subscription, served on a port of this machine."""

    def __init__(self, lease_seconds: float = 60.0) -> None:
        """Begin to serve."""
        self._lease = lease_seconds
        self._changed = threading.Condition()
        self._waiting: deque[tuple[int, bytes, float]] = deque()
        self._given: dict[int, tuple[float, tuple[int, bytes, float]]] = {}
        self._number = 0
        self.again = 0
        types = pubsub_v1.types
        server = grpc.server(ThreadPoolExecutor(8))
        methods = {
            "StreamingPull": grpc.stream_stream_rpc_method_handler(
                self._streaming_pull,
                types.StreamingPullRequest.deserialize,
                types.StreamingPullResponse.pb().SerializeToString,
            ),
            "Acknowledge": self._unary(self._acknowledge, types.AcknowledgeRequest),
            "ModifyAckDeadline": self._unary(self._extend, types.ModifyAckDeadlineRequest),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, methods),))
        self.host = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        self._server = server

    def stop(self) -> None:
        """End every call."""
        self._server.stop(None).wait()

    def publish(self, messages: Iterable[bytes]) -> None:
        """Add messages; the publish time is now."""
        now = time.time()
        with self._changed:
            for data in messages:
                self._number += 1
                self._waiting.append((self._number, data, now))
            self._changed.notify_all()

    def left(self) -> int:
        """Messages that are not acknowledged."""
        with self._changed:
            return len(self._waiting) + len(self._given)

    @staticmethod
    def _unary(answer: Callable[[Any], None], request: Any) -> grpc.RpcMethodHandler[Any, Any]:
        def call(asked: Any, _: grpc.ServicerContext) -> empty_pb2.Empty:
            answer(asked)
            return empty_pb2.Empty()

        return grpc.unary_unary_rpc_method_handler(
            call, request.deserialize, empty_pb2.Empty.SerializeToString
        )

    def _acknowledge(self, asked: Any) -> None:
        with self._changed:
            for ack_id in asked.ack_ids:
                self._given.pop(int(ack_id), None)
            self._changed.notify_all()

    def _extend(self, asked: Any) -> None:
        end = time.monotonic() + asked.ack_deadline_seconds
        with self._changed:
            for ack_id in asked.ack_ids:
                if (given := self._given.get(int(ack_id))) is not None:
                    self._given[int(ack_id)] = (end, given[1])

    def _streaming_pull(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        first = next(requests)
        threading.Thread(target=_drain, args=(requests,), daemon=True).start()
        most = first.max_outstanding_messages or 1 << 62
        while context.is_active():
            with self._changed:
                self._take_back()
                room = most - len(self._given)
                if not self._waiting or room <= 0:
                    self._changed.wait(0.5)
                    continue
                end = time.monotonic() + self._lease
                taken = [self._waiting.popleft() for _ in range(min(_TOGETHER, room, len(self._waiting)))]
                self._given.update((message[0], (end, message)) for message in taken)
            yield _response(taken)

    def _take_back(self) -> None:
        now = time.monotonic()
        late = [number for number, (end, _) in self._given.items() if end < now]
        self._waiting.extendleft(self._given.pop(number)[1] for number in reversed(late))
        self.again += len(late)


def _drain(requests: Iterator[Any]) -> None:
    """Read heartbeats until the client hangs up; acknowledgements come as calls of their own."""
    with suppress(grpc.RpcError):
        deque(requests, 0)


def _response(taken: list[tuple[int, bytes, float]]) -> Any:
    response = pubsub_v1.types.StreamingPullResponse.pb()()
    for number, data, published in taken:
        received = response.received_messages.add(ack_id=str(number))
        received.message.data, received.message.message_id = data, str(number)
        received.message.publish_time.FromNanoseconds(int(published * 1e9))
    return response
