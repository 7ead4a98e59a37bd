"""A small HTTP server beside an engine: where it listens, and that it ends with it."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ldpbeam.errors import UsageError


def parse_address(typed: str, option: str, example: str) -> tuple[str, int]:
    """``HOST:PORT``, ``:PORT`` or ``PORT``; without a host, this machine alone."""
    host, _, port = typed.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not port.isdecimal() or int(port) > 65535 or (":" in host and not _is_address(host)):
        raise UsageError(
            "E-USAGE-LISTEN",
            f"{typed!r} is no address to listen on",
            remedy=f"Write {option} PORT, or HOST:PORT, such as {example}.",
        )
    return host or "127.0.0.1", int(port)


def _is_address(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False


class QuietHandler(BaseHTTPRequestHandler):
    """Says nothing about itself or about who asks, and waits for nobody for long."""

    server_version, sys_version = "ldpbeam", ""
    timeout = 10

    def send(self, code: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Nobody wants a line for each."""


@contextmanager
def listening(address: tuple[str, int], handler: type[BaseHTTPRequestHandler], option: str) -> Iterator[int]:
    """Answer requests for the duration of a block, in threads; gives the port."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET

    try:
        server = Server(address, handler)
    except OSError as error:
        raise UsageError(
            "E-USAGE-LISTEN",
            f"cannot listen on {address[0]}:{address[1]}: {error.strerror or error}",
            remedy=f"Choose another {option} HOST:PORT.",
        ) from None
    with server:
        thread = threading.Thread(target=server.serve_forever, name=option.strip("-"), daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
