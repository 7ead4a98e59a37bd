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
from dataclasses import dataclass, field, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ldpbeam.errors import UsageError
from ldpbeam.pipelines.prometheus import CONTENT_TYPE, family, single, text


def _metric(name: str, kind: str, meaning: str, default: Any = 0) -> Any:
    """A number that Prometheus knows as ``ldpbeam_NAME``; what a replay can take back is a gauge."""
    return field(default=default, metadata={"name": f"ldpbeam_{name}", "kind": kind, "meaning": meaning})


@dataclass(frozen=True)
class Status:
    """Numbers with their meaning; over all engines on the output, where nothing else is said."""

    pulled: int = _metric("messages_pulled_total", "counter", "Messages pulled since the start.")
    landed: int = _metric("messages_landed_total", "counter", "Messages safe on disk since the start.")
    published: int = _metric("results_published_total", "counter", "Results published since the start.")
    read: int = _metric("reports_read", "gauge", "Reports read, over all engines on this output.")
    counted: int = _metric("reports_counted", "gauge", "Reports in the newest results.")
    late: int = _metric("reports_late", "gauge", "Reports that arrived after their epoch had closed.")
    duplicate: int = _metric("reports_duplicate", "gauge", "Repeats of report ids.")
    pending: int = _metric("reports_pending", "gauge", "Reports read and in no result yet.")
    open_epochs: int = _metric("epochs_open", "gauge", "Epochs with reports that take more.")
    segments: int = _metric("landing_segments", "gauge", "Files of the landing.")
    watermark: float = _metric("watermark_timestamp_seconds", "gauge", "No older message is expected.", 0.0)
    lag: float = _metric(
        "watermark_lag_seconds", "gauge", "Seconds by which the watermark is behind the time.", 0.0
    )
    clock_ahead: float = _metric(
        "clock_ahead_seconds", "gauge", "Seconds by which the clock is not believed.", 0.0
    )
    rejected: dict[str, int] = field(default_factory=dict)  # by reason
    connected: bool = True  # whether the broker answers

    def as_record(self) -> dict[str, Any]:
        """For a line of JSON."""
        return {**vars(self), "rejected": dict(sorted(self.rejected.items()))}

    def as_text(self) -> str:
        """For Prometheus."""
        lines: list[str] = []
        for each in fields(self):
            if about := each.metadata:
                lines += single(about["name"], about["kind"], about["meaning"], getattr(self, each.name))
        refused = [({"reason": reason}, n) for reason, n in sorted(self.rejected.items())]
        lines += family("ldpbeam_reports_rejected", "gauge", "Reports refused, by reason.", refused)
        lines += single("ldpbeam_connected", "gauge", "Whether the broker answers.", int(self.connected))
        return text(lines)


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
