"""The page of a running stream over HTTP: read-only, made when somebody asks, and not again at once."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from ldpbeam.host.http import QuietHandler, listening, parse_address
from ldpbeam.records.run_record import RUN_RECORD

AT_LEAST = 5.0
"""Seconds between two pages."""

SHARE = 0.1
"""Of the time, at most this much is spent on pages."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class LivePage:
    """The page of an output directory, as it was a few seconds ago at most, or as long as nothing changed."""

    def __init__(self, output: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is read yet."""
        self._output, self._clock = output, clock
        self._lock = threading.Lock()
        self._page = b""
        self._made_of: tuple[int, int] | None = None
        self._again = 0.0

    def content(self) -> bytes:
        """The page; empty as long as nothing has been published."""
        with self._lock:
            try:
                status = (self._output / RUN_RECORD).stat()
            except FileNotFoundError:
                return self._page
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp != self._made_of and self._clock() >= self._again:
                self._make(stamp)
            return self._page

    def _make(self, stamp: tuple[int, int]) -> None:
        from ldpbeam.report_page.document import render

        began = self._clock()
        try:
            self._page = render(self._output)
            self._made_of = stamp
        except Exception:  # whatever a file that is being replaced raises
            if not self._page:
                raise
        finally:
            took = self._clock() - began
            self._again = self._clock() + max(AT_LEAST, took * (1 / SHARE - 1))


def served_at(typed: str) -> tuple[str, int]:
    """The address of ``--serve``."""
    return parse_address(typed, "--serve", "127.0.0.1:9200")


def _is_own(host: str, bound: str) -> bool:
    """Whether a request is meant for an address of this machine alone: no other site's name leads here."""
    try:
        if not ipaddress.ip_address(bound).is_loopback:
            return True
    except ValueError:
        return True
    name = urlsplit(f"//{host}").hostname or ""
    return name in ("localhost", bound)


@contextmanager
def serve_page(address: tuple[str, int], output: Path) -> Iterator[int]:
    """Answer ``GET`` and ``HEAD /`` for the duration of a block; gives the port."""
    page = LivePage(output)

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - the library's name
            self._answer(body=True)

        def do_HEAD(self) -> None:  # noqa: N802 - the library's name
            self._answer(body=False)

        def _answer(self, body: bool) -> None:
            asked = urlsplit(self.path)
            if not _is_own(self.headers.get("Host", ""), address[0]):
                self._send(421, b"this server answers to its own address only\n", body)
            elif asked.path != "/":
                self._send(404, b"see /\n", body)
            else:
                try:
                    content = page.content()
                except Exception as error:  # whatever a damaged file raises; the engine goes on
                    self._send(500, f"no page could be made ({type(error).__name__})\n".encode(), body)
                    return
                if content:
                    self._send(200, content, body, self._refresh(asked.query))
                else:
                    self._send(503, b"nothing has been published yet\n", body, {"Retry-After": "5"})

        def _refresh(self, query: str) -> dict[str, str]:
            """``?refresh=30``: browsers load the page again and again."""
            typed = parse_qs(query).get("refresh", [""])[0]
            return {"Refresh": str(max(5, int(typed)))} if typed.isdecimal() and len(typed) < 6 else {}

        def _send(self, code: int, content: bytes, body: bool, more: dict[str, str] | None = None) -> None:
            kind = "text/html" if code == 200 else "text/plain"
            headers = {"Content-Type": f"{kind}; charset=utf-8", **_HEADERS, **(more or {})}
            self.send(code, content, headers, body=body)

    with listening(address, Handler, "--serve") as port:
        yield port
