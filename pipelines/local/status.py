"""What a running engine is doing, for people who are not there: numbers for Prometheus, lines of JSON.

The engine makes a :class:`Status` after every step; whoever asks gets the last one. Nothing here holds the
engine up, and nothing of a report, nor of a payload, is in it.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ldpbeam.errors import UsageError
from ldpbeam.pipelines.prometheus import CONTENT_TYPE, family, single, text

__all__ = ["Status", "parse_address", "serve_metrics"]


@dataclass(frozen=True)
class Status:
    """Counts since the first engine on the output, where nothing else is said.

    Attributes:
        pulled, landed: messages pulled, and of these safe on disk, since this engine started.
        read, counted, late, duplicate: reports.
        rejected: by reason.
        pending: reports read and in no result yet.
        published: results, since this engine started.
        watermark: seconds since 1970; 0 before there is one.
        lag: seconds by which it is behind the time.
        connected: whether the broker answers.
        clock_ahead: seconds by which the wall clock is ahead of what is believed; 0 where they agree.
        open_epochs: that have reports and take more.
        segments: files of the landing.
    """

    pulled: int = 0
    landed: int = 0
    read: int = 0
    counted: int = 0
    late: int = 0
    duplicate: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    pending: int = 0
    published: int = 0
    watermark: float = 0.0
    lag: float = 0.0
    connected: bool = True
    clock_ahead: float = 0.0
    open_epochs: int = 0
    segments: int = 0

    def as_record(self) -> dict[str, Any]:
        """For a line of JSON."""
        return {
            **{name: getattr(self, name) for name, _, _, _ in _METRICS},
            "rejected": dict(sorted(self.rejected.items())),
            "connected": self.connected,
        }

    def as_text(self) -> str:
        """For Prometheus."""
        lines: list[str] = []
        for name, metric, kind, meaning in _METRICS:
            lines += single(metric, kind, meaning, getattr(self, name))
        refused = [({"reason": reason}, n) for reason, n in sorted(self.rejected.items())]
        lines += family("ldpbeam_reports_rejected", "gauge", "Reports refused, by reason.", refused)
        lines += single("ldpbeam_connected", "gauge", "Whether the broker answers.", int(self.connected))
        return text(lines)


_METRICS = (
    ("pulled", "ldpbeam_messages_pulled_total", "counter", "Messages pulled since the start."),
    ("landed", "ldpbeam_messages_landed_total", "counter", "Messages safe on disk since the start."),
    ("published", "ldpbeam_results_published_total", "counter", "Results published since the start."),
    ("read", "ldpbeam_reports_read", "gauge", "Reports read, over all engines on this output."),
    ("counted", "ldpbeam_reports_counted", "gauge", "Reports in the newest results."),
    ("late", "ldpbeam_reports_late", "gauge", "Reports that arrived after their epoch had closed."),
    ("duplicate", "ldpbeam_reports_duplicate", "gauge", "Repeats of report ids."),
    ("pending", "ldpbeam_reports_pending", "gauge", "Reports read and in no result yet."),
    ("open_epochs", "ldpbeam_epochs_open", "gauge", "Epochs with reports that take more."),
    ("segments", "ldpbeam_landing_segments", "gauge", "Files of the landing."),
    ("watermark", "ldpbeam_watermark_timestamp_seconds", "gauge", "No older message is expected."),
    ("lag", "ldpbeam_watermark_lag_seconds", "gauge", "Seconds by which the watermark is behind the time."),
    ("clock_ahead", "ldpbeam_clock_ahead_seconds", "gauge", "Seconds by which the clock is not believed."),
)
"""Attribute, name, kind, meaning. What a replay can take back is a gauge."""


def parse_address(
    typed: str, option: str = "--metrics", code: str = "E-USAGE-METRICS", example: str = "127.0.0.1:9100"
) -> tuple[str, int]:
    """``HOST:PORT``, ``:PORT`` or ``PORT``; without a host, this machine alone.

    Raises:
        UsageError: it is none of these.
    """
    host, _, port = typed.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not port.isdecimal() or int(port) > 65535 or (":" in host and not _is_address(host)):
        raise UsageError(
            code,
            f"{typed!r} is no address to listen on",
            remedy=f"Write {option} PORT, or HOST:PORT, such as {example}.",
        )
    return host or "127.0.0.1", int(port)


def _is_address(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False


@contextmanager
def serve_metrics(address: tuple[str, int], status: Callable[[], Status]) -> Iterator[int]:
    """Answer ``GET /metrics`` for the duration of a block; gives the port.

    Raises:
        UsageError: nobody can listen there.
    """

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "ldpbeam", ""
        timeout = 10

        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/metrics"
            body = status().as_text().encode() if found else b"see /metrics\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", CONTENT_TYPE if found else "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
            """Nobody wants a line for each."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET

    try:
        server = Server(address, Handler)
    except OSError as error:
        raise UsageError(
            "E-USAGE-METRICS",
            f"cannot listen on {address[0]}:{address[1]}: {error.strerror or error}",
            remedy="Choose another --metrics HOST:PORT.",
        ) from None
    with server:
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
