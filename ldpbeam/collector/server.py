"""The HTTP side of a collector: limits, answers, an orderly end. Who sent what is neither logged nor kept."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import ClientPayloadError, web

from ldpbeam.collector.checks import REASONS_OF_A_COLLECTION, REASONS_WITHOUT_COLLECTION
from ldpbeam.collector.gather import Gather, NotSafeError, RequestCounts
from ldpbeam.collector.room import NoRoomError, Occupant, Room
from ldpbeam.errors import Reason, UsageError
from ldpbeam.host.prometheus import CONTENT_TYPE, family, single, text
from ldpbeam.transforms.sources.formats import SAMPLE, unread_format

PATH = "/v1/reports"
_TYPE = "application/x-protobuf"
_BEHIND_SECONDS, _UNSAFE_SECONDS = "2", "5"
"""What Retry-After says when too much is waiting, and when reports cannot be made safe."""
_LINE, _HEADERS = 4096, 64
"""Bytes of a request line or a header, and how many headers."""
_READ_BYTES = 1 << 14
"""What is read of a body ahead of whoever asks for it."""
_LINGER = 1.0
BACKLOG = 1024
"""Connections that wait to be accepted; so many may be accepted at once before others are closed for them."""
PUBLISH_SECONDS = 1.0
"""How often the store is asked to publish what is due."""
_ANSWER_SECONDS = 10.0
"""How long a client may take for its answer once the collector is told to stop."""
_STATUS = {Reason.UNKNOWN_COLLECTION: 404, Reason.OVERSIZE: 413}
"""Of what is refused for its content; 400 for all else."""
_NONE_YET = dict.fromkeys((204, 429, 503), 0)
"""Answers that alerts look at; each is a series from the start, as of reports refused."""
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\nRetry-After: "
    + _UNSAFE_SECONDS.encode()
    + b"\r\n\r\n"
)


@dataclass(frozen=True)
class Limits:
    body: int = 1 << 20
    waiting: int = 64 << 20
    connections: int = 1000
    body_seconds: float = 20.0
    idle_seconds: float = 75.0
    origins: frozenset[str] = frozenset()


class _RefusedRequest(Exception):  # noqa: N818 - an answer
    def __init__(self, status: int, reason: str, retry: str = "") -> None:
        self.status, self.reason, self.retry = status, reason, retry


class _Connection(web.RequestHandler):
    """aiohttp's, within the room, with our words for what it refuses by itself, and without its log."""

    def __init__(self, manager: web.Server, room: Room, counts: RequestCounts, limits: Limits) -> None:
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.idle_seconds,
            logger=_SILENT,
            access_log=_SILENT,
            max_line_size=_LINE,
            max_field_size=_LINE,
            max_headers=_HEADERS,
            lingering_time=_LINGER,
            read_bufsize=_READ_BYTES,
            auto_decompress=False,
        )
        self._room, self._counts = room, counts
        self.client = Occupant(self._abort)

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place, or answer 503 and hang up."""
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - what TCP has
        try:
            self._room.enter(self.client)
        except NoRoomError:
            self._counts.answers[503] += 1
            transport.write(_FULL)
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._room.leave(self.client)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """A request that is not HTTP, or a fault of ours; what was sent is not repeated."""
        answer = _answer(status, "internal" if status >= 500 else "http")
        answer.force_close()
        self._counts.answers[status] += 1
        return answer


_SILENT = logging.getLogger(f"{__name__}.silent")
"""aiohttp's lines name the address of a client."""
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False
_SILENT.disabled = True


class Collector:
    def __init__(self, gather: Gather, limits: Limits, names: Mapping[str, str]) -> None:
        """Serve requests; ``gather``, which already runs, judges and stores the bodies."""
        self._gather, self._limits, self._names = gather, limits, names
        self.room = Room(limits.connections, limits.waiting)
        self._stopping = False
        self.counts = gather.counts
        self._routes = {
            PATH: {"POST": self._report, "OPTIONS": self._preflight},
            "/healthz": {"GET": self._live},
            "/readyz": {"GET": self._ready},
            "/metrics": {"GET": self._metrics},
        }

    async def serve(
        self, address: tuple[str, int], stopped: asyncio.Event, listening: Callable[[str, int], None]
    ) -> None:
        """Listen until told to stop; then answer whatever has come, and return when all of it is safe."""
        loop = asyncio.get_running_loop()
        http = web.Server(self._handle)
        try:
            family_of_host = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            listener = await loop.create_server(
                lambda: _Connection(http, self.room, self.counts, self._limits),
                *address,
                backlog=BACKLOG,
                family=family_of_host,
            )
        except OSError as error:
            raise UsageError(
                "E-USAGE-LISTEN",
                f"cannot listen on {address[0]}:{address[1]}: {error.strerror or error}",
                remedy="Choose another --listen HOST:PORT.",
            ) from None
        # Accepted sockets inherit it: who reads no answers has few of them waiting.
        listener.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _READ_BYTES)
        commits = asyncio.create_task(self._gather.run())
        publications = asyncio.create_task(self._publish())
        host, port = listener.sockets[0].getsockname()[:2]
        listening(host, port)
        await stopped.wait()
        self._stopping = True
        listener.close()
        self._gather.stop()
        await commits
        await http.shutdown(_ANSWER_SECONDS)
        publications.cancel()
        with suppress(asyncio.CancelledError):
            await publications
        self._gather.close()

    async def _publish(self) -> None:
        while True:
            await self._gather.publish()
            await asyncio.sleep(PUBLISH_SECONDS)

    # --- requests

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(0)  # others have their turn: aiohttp answers requests of one connection in a row
        # As it was sent: a proxy may compare paths before it decodes them.
        methods = self._routes.get(request.raw_path.partition("?")[0])
        try:
            if methods is None:
                raise _RefusedRequest(404, "not_found")
            respond = methods.get(request.method)
            if respond is None:
                raise _RefusedRequest(405, "method")
            answer = await respond(request)
        except _RefusedRequest as refused:
            answer = _answer(refused.status, refused.reason, refused.retry)
            if not request.content.is_eof():
                answer.force_close()
            if refused.status == 405 and methods is not None:
                answer.headers["Allow"] = ", ".join(methods)
        if self._stopping:
            answer.force_close()
        origin = request.headers.get("Origin")
        if origin is not None and self._allows(origin):
            answer.headers["Access-Control-Allow-Origin"] = "*" if "*" in self._limits.origins else origin
            answer.headers["Access-Control-Expose-Headers"] = "Retry-After"  # else no page can obey it
            answer.headers["Vary"] = "Origin"
        self.counts.answers[answer.status] += 1
        return answer

    def _allows(self, origin: str) -> bool:
        return bool({"*", origin} & self._limits.origins)

    async def _report(self, request: web.BaseRequest) -> web.Response:
        if request.content_type != _TYPE or any(
            encoding != "identity" for encoding in request.headers.getall("Content-Encoding", ())
        ):
            raise _RefusedRequest(415, "content_type")
        if (request.content_length or 0) > self._limits.body:
            raise self._oversize()
        assert isinstance(request.protocol, _Connection)  # noqa: S101 - there are no others
        client = request.protocol.client
        self.room.renew(client)
        try:
            body = await self._body(request, client)
            client.stored = True
            verdict = await self._gather.put(body)
        except NoRoomError:
            raise _RefusedRequest(429, "behind", _BEHIND_SECONDS) from None
        except NotSafeError:
            raise _RefusedRequest(503, "unavailable", _UNSAFE_SECONDS) from None
        finally:
            self.room.renew(client)
        if verdict.reason is not None:
            explanation = verdict.reason.explanation
            if verdict.reason is Reason.MALFORMED:
                explanation = unread_format(body[:SAMPLE], "body") or explanation
            return _answer(_STATUS.get(verdict.reason, 400), verdict.reason.value, explanation=explanation)
        return web.Response(status=204, headers=_OURS)

    def _oversize(self) -> _RefusedRequest:
        self.counts.refused["", Reason.OVERSIZE.value] += 1
        return _RefusedRequest(413, Reason.OVERSIZE.value)

    async def _body(self, request: web.BaseRequest, client: Occupant) -> bytes:
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while part := await request.content.readany():
                    size += len(part)
                    if size > self._limits.body:
                        raise self._oversize()
                    self.room.charge(client, len(part))
                    parts.append(part)
        except TimeoutError:
            raise _RefusedRequest(408, "timeout") from None
        except (ConnectionError, ClientPayloadError, web.RequestPayloadError):
            raise _RefusedRequest(400, "incomplete") from None
        return b"".join(parts)

    async def _preflight(self, request: web.BaseRequest) -> web.Response:
        if not self._allows(request.headers.get("Origin", "")):
            raise _RefusedRequest(403, "origin")
        allowed = {
            "Access-Control-Allow-Methods": "POST",
            "Access-Control-Allow-Headers": "content-type",
            "Access-Control-Max-Age": "86400",
        }
        return web.Response(status=204, headers=_OURS | allowed)

    async def _live(self, request: web.BaseRequest) -> web.Response:
        return web.Response(text="live\n", headers=_OURS)

    async def _ready(self, request: web.BaseRequest) -> web.Response:
        if self._stopping or self._gather.failed:
            raise _RefusedRequest(503, "unavailable", _UNSAFE_SECONDS)
        return web.Response(text="ready\n", headers=_OURS)

    async def _metrics(self, request: web.BaseRequest) -> web.Response:
        content = self.metrics().encode()
        return web.Response(body=content, headers=_OURS | {"Content-Type": CONTENT_TYPE})

    def metrics(self) -> str:
        """All counts in the text format of Prometheus."""
        counts, lines = self.counts, []
        for name, meaning, samples in (
            (
                "reports_taken",
                "Reports that are safe, by collection; re-sent ones again.",
                [(self._named(digest), counts.reports.get(digest, 0)) for digest in sorted(self._names)],
            ),
            (
                "reports_refused",
                "Reports refused, by collection and reason.",
                [({**self._named(d), "reason": r}, n) for (d, r), n in sorted(self._refused().items())],
            ),
            (
                "answers",
                "Answers, by status.",
                [({"status": str(code)}, n) for code, n in sorted((_NONE_YET | counts.answers).items())],
            ),
        ):
            lines += family(f"ldpbeam_collector_{name}_total", "counter", meaning, samples)
        for name, meaning, value in (
            ("commits", "Times that reports were made safe together.", counts.commits),
            ("failures", "Times that they could not be.", counts.failures),
            ("damaged_journals", "Journals that were damaged, cut or deleted.", self._gather.damaged),
        ):
            lines += single(f"ldpbeam_collector_{name}_total", "counter", meaning, value)
        lines += single("ldpbeam_collector_held_bytes", "gauge", "Bodies read or waiting.", self.room.held)
        return text(lines)

    def _refused(self) -> dict[tuple[str, str], int]:
        """Every pair of a collection and a reason from 0 on: Prometheus does not see a series' first jump."""
        none = {("", reason.value): 0 for reason in REASONS_WITHOUT_COLLECTION}
        each = {(digest, reason.value): 0 for digest in self._names for reason in REASONS_OF_A_COLLECTION}
        return {**none, **each, **self.counts.refused}

    def _named(self, digest: str) -> dict[str, str]:
        return {"collection": self._names.get(digest, ""), "digest": digest}


_OURS = {"Server": "ldpbeam"}


def _answer(status: int, reason: str, retry: str = "", explanation: str = "") -> web.Response:
    body = {"reason": reason, **({"explanation": explanation} if explanation else {})}
    headers = _OURS | {"Content-Type": "application/json"} | ({"Retry-After": retry} if retry else {})
    return web.Response(status=status, body=json.dumps(body).encode() + b"\n", headers=headers)
