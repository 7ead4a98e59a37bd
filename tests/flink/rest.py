"""Pub/Sub over HTTP in front of one that speaks gRPC alone, as Google's fake for Go programs does.

Beam's Java connector asks over HTTP. Google's emulator answers it, but holds an empty pull for 20 seconds and
more although the connector asks it not to, and the connector extends no lease and lets no checkpoint pass
meanwhile. The real service answers at once, and so does the fake.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from google.protobuf import empty_pb2, json_format
from google.pubsub_v1 import types

__all__ = ["serving_rest"]

CALLS = {
    "": ("GetSubscription", types.GetSubscriptionRequest.pb(), types.Subscription.pb()),
    "pull": ("Pull", types.PullRequest.pb(), types.PullResponse.pb()),
    "acknowledge": ("Acknowledge", types.AcknowledgeRequest.pb(), empty_pb2.Empty),
    "modifyAckDeadline": ("ModifyAckDeadline", types.ModifyAckDeadlineRequest.pb(), empty_pb2.Empty),
}
"""By the word after the colon of a path: what a reader of a subscription asks."""


@contextmanager
def serving_rest(host: str) -> Iterator[str]:
    """The address of an HTTP server in front of `host`."""
    with grpc.insecure_channel(host) as channel:

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._pass_on(b"{}")

            def do_POST(self) -> None:
                self._pass_on(self._body())

            def _pass_on(self, body: bytes) -> None:
                path = self.path.partition("?")[0].removeprefix("/v1/")
                subscription, _, verb = path.partition(":")
                name, asked, answered = CALLS[verb]
                request = json_format.Parse(body, asked())
                request.subscription = subscription
                call = channel.unary_unary(
                    f"/google.pubsub.v1.Subscriber/{name}",
                    request_serializer=asked.SerializeToString,
                    response_deserializer=answered.FromString,
                )
                try:
                    status, answer = 200, json_format.MessageToJson(call(request, timeout=30))
                except grpc.RpcError as error:
                    status, answer = 503, str(error.code())
                content = answer.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") == "chunked":
                    body = b""
                    while size := int(self.rfile.readline(), 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                else:
                    body = self.rfile.read(int(self.headers["Content-Length"]))
                return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()
