"""As much of Pub/Sub as a publisher sees: Publish over gRPC, in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import grpc
from google.pubsub_v1 import types

REQUEST = types.PublishRequest.pb()
RESPONSE = types.PublishResponse.pb()


@dataclass
class FakeTopic:
    topic: str
    messages: list[Any] = field(default_factory=list)
    before: deque[grpc.StatusCode] = field(default_factory=deque)
    after: deque[grpc.StatusCode] = field(default_factory=deque)
    down: grpc.StatusCode | None = None
    calls: int = 0
    host: str = ""
    _ids: Iterator[int] = field(default_factory=lambda: count(1))

    def publish(self, request: Any, context: Any) -> Any:
        self.calls += 1
        if request.ByteSize() > 10_000_000:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "too large")
        if request.topic != self.topic:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such topic")
        if self.down or self.before:
            context.abort(self.down or self.before.popleft(), "before")
        self.messages += request.messages
        if self.after:
            context.abort(self.after.popleft(), "after")
        return RESPONSE(message_ids=[str(next(self._ids)) for _ in request.messages])


@contextmanager
def fake_topic(topic: str) -> Iterator[FakeTopic]:
    fake = FakeTopic(topic)
    publish = grpc.unary_unary_rpc_method_handler(
        fake.publish, request_deserializer=REQUEST.FromString, response_serializer=RESPONSE.SerializeToString
    )
    handler = grpc.method_handlers_generic_handler("google.pubsub.v1.Publisher", {"Publish": publish})
    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((handler,))
    fake.host = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield fake
    finally:
        server.stop(None).wait()
