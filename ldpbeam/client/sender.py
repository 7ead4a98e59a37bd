"""Sends what waits in an outbox to a collector over HTTP; the standard library only."""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from ldpbeam.client.folder import WaitingReport
from ldpbeam.client.outbox import Outbox
from ldpbeam.errors import DeviceError, Reason

_LATER = frozenset({408, 425, 429})
"""Refusals that say nothing against the report."""

VERDICTS = frozenset(
    reason.value
    for reason in (
        Reason.MALFORMED,
        Reason.WRONG_LENGTH,
        Reason.UNKNOWN_COLLECTION,
        Reason.FOREIGN_EPOCH,
        Reason.RETIRED_COLLECTION,
        Reason.OVERSIZE,
    )
)
"""What a collector says against a report itself, which it would say again; docs/wire.md lists the same."""

_REPORTS_AT_ONCE = 16
"""Reports that are forgotten at once: one change of the state for all of them."""

_BODY = 4096
"""Bytes of an answer that are looked at."""

_LONGEST = 86400.0
"""A collector cannot ask for a longer pause, seconds."""


class _NoRedirects(HTTPRedirectHandler):
    """A redirected POST becomes a GET without the report, whose answer would look like an acknowledgement."""

    def redirect_request(self, *_: Any, **__: Any) -> Request | None:
        return None


class Sender:
    """Posts reports that are due, one by one, until the collector does not take them.

    A program calls :meth:`send_due` now and then, for example each minute. When a report is sent depends on
    the time drawn for it and on the collector's answers, never on a value.

    Args:
        outbox: of the device.
        url: of the collector, such as ``https://collect.example.com/v1/reports``.
        timeout: seconds to wait for an answer.
        first_pause: seconds after a first failure; each further one doubles the pause, up to a day.
        clock: seconds since 1970.

    Attributes:
        sent: reports that the collector acknowledged.
        dropped: reports that it refused for good, by its reason (``wrong_length``).
        failures: attempts since the last success.
        next_attempt: nothing is sent before, seconds since 1970.
    """

    def __init__(
        self,
        outbox: Outbox,
        url: str,
        *,
        timeout: float = 30.0,
        first_pause: float = 2.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise DeviceError(
                "E-DEVICE-COLLECTOR",
                "the collector's address is not an http or https URL",
                remedy="Write it like https://collect.example.com/v1/reports.",
            )
        self._outbox = outbox
        self._url = url
        self._timeout = timeout
        self._first_pause = first_pause
        self._clock = clock
        self._opener: OpenerDirector = build_opener(_NoRedirects)
        self.sent = 0
        self.dropped: Counter[str] = Counter()
        self.failures = 0
        self.next_attempt = 0.0

    def send_due(self) -> int:
        """Send the reports that are due; how many were acknowledged.

        A failure ends the attempt and is no exception: the report stays, and :attr:`next_attempt` says when
        it is tried again. Where the process is killed meanwhile, up to 16 reports may be sent once more.
        """
        now = self._clock()
        # A pause is never longer; the clock was ahead when this one began.
        if now < self.next_attempt <= now + _LONGEST:
            return 0
        due = [one for one in self._outbox.waiting() if one.due <= now]
        before = self.sent
        for first in range(0, len(due), _REPORTS_AT_ONCE):
            if not self._send(due[first : first + _REPORTS_AT_ONCE]):
                break
        return self.sent - before

    def _send(self, due: Sequence[WaitingReport]) -> bool:
        """Send some reports, and forget those that were answered; whether to go on."""
        answered = list[WaitingReport]()
        try:
            for waiting in due:
                report = self._outbox.read(waiting)
                if report is None:
                    continue
                status, retry_after, reason = self._post(report)
                if 200 <= status < 300:
                    self.sent += 1
                    self.failures = 0
                elif 400 <= status < 500 and status not in _LATER and reason:
                    self.dropped[reason] += 1
                else:
                    self._pause(retry_after)
                    return False
                answered.append(waiting)
        finally:
            if answered:
                self._outbox.acknowledge(*answered)
        return True

    def _post(self, report: bytes) -> tuple[int, str, str]:
        """Status of the answer, 0 where there is none; its Retry-After header; the collector's reason."""
        headers = {"Content-Type": "application/x-protobuf", "User-Agent": "ldpbeam"}
        request = Request(self._url, report, headers, method="POST")  # noqa: S310 - the scheme was checked
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                return int(answer.status), "", ""
        except HTTPError as refused:
            with refused:
                body = refused.read(_BODY)
                return refused.code, refused.headers.get("Retry-After") or "", _reason(body)
        except (OSError, HTTPException):  # the latter from a server that does not speak HTTP
            return 0, "", ""

    def _pause(self, retry_after: str) -> None:
        """Twice the last pause, of which half is drawn; longer where the collector asks for it."""
        longest = min(self._first_pause * 2 ** min(self.failures, 40), _LONGEST)
        self.failures += 1
        drawn = longest * (1 + secrets.randbits(32) / (1 << 32)) / 2
        self.next_attempt = self._clock() + max(drawn, self._asked_for(retry_after))

    def _asked_for(self, text: str) -> float:
        """Seconds of a Retry-After header, a number or a date; 0 for anything else."""
        if text.isascii() and text.isdigit():
            return min(float(text[:9]), _LONGEST)
        try:
            seconds = parsedate_to_datetime(text).timestamp() - self._clock()
        except (ValueError, TypeError, OverflowError):
            return 0.0
        return min(max(seconds, 0.0), _LONGEST)


def _reason(body: bytes) -> str:
    """A collector's verdict; empty for a mistyped path, or where somebody else answered, such as a proxy."""
    try:
        reason = json.loads(body)["reason"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return reason if isinstance(reason, str) and reason in VERDICTS else ""
