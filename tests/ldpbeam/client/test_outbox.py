"""The outbox: what was drawn reaches a collector at least once, and what was never committed never leaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.client import Device, Outbox, WaitingReport
from ldpbeam.client.folder import DeviceFolder
from ldpbeam.client.sender import Sender
from ldpbeam.errors import DeviceError
from tests.ldpbeam.client.devices import (
    Spread,
    interrupted_commits,
    loloha,
    quicken_disk,
    rows_in,
    unary,
)
from tests.ldpbeam.client.test_device import memos
from tests.narrow import of_kind


def test_reports_wait_until_they_are_acknowledged(tmp_path: Path) -> None:
    reports = [Device.open(loloha(), tmp_path).report(1, epoch) for epoch in range(3)]
    Device.open(loloha(), tmp_path).report(1, 2)  # asked again: waits once
    outbox = Device.open(loloha(), tmp_path).outbox
    assert [one.epoch for one in outbox.waiting()] == [0, 1, 2]
    assert [outbox.read(one) for one in outbox.waiting()] == reports
    outbox.acknowledge(outbox.waiting()[1])
    other = Device.open(loloha(), tmp_path).outbox
    assert [one.epoch for one in other.waiting()] == [0, 2]
    assert len(other) == 2
    gone = other.waiting()[0]
    other.acknowledge(gone)
    other.acknowledge(gone)
    assert other.read(gone) is None


@memos
def test_what_the_state_does_not_know_is_never_handed_out(memo: Any, tmp_path: Path) -> None:
    device = Device.open(unary(), tmp_path, memo=memo)
    device.report(1, 0)
    before = rows_in(tmp_path)
    with interrupted_commits() as changed, pytest.raises(KeyboardInterrupt):
        device.report(9, 5)
    assert set(changed) == {"state", "outbox"}
    assert rows_in(tmp_path) == before
    assert [one.epoch for one in device.outbox.waiting()] == [0]
    device.report(2, 6)
    assert [one.epoch for one in device.outbox.waiting()] == [0, 6]


def test_the_outbox_is_bounded_and_drops_the_oldest(tmp_path: Path) -> None:
    device = Device.open(loloha(), tmp_path, outbox=3, clock=lambda: 0.0)
    for epoch in range(7):
        device.report(1, epoch)
        kept = list(range(max(0, epoch - 2), epoch + 1))
        assert [one.epoch for one in device.outbox.waiting()] == kept
    assert Device.open(unary(), tmp_path).outbox.dropped == (4, 0)
    assert len(rows_in(tmp_path)["outbox"]) == 3
    smallest = Device.open(unary(), tmp_path / "smallest", outbox=1)
    for epoch in range(3):
        smallest.report(1, epoch)
        assert [one.epoch for one in smallest.outbox.waiting()] == [epoch]


def test_the_oldest_report_is_the_one_that_was_due_first(tmp_path: Path) -> None:
    now = [9 * 3600.0]
    first, second = (
        Device.open(asked, tmp_path, outbox=2, clock=lambda: now[0]) for asked in (loloha(), unary())
    )
    for device, epoch in ((first, 8), (second, 3), (first, 9), (second, 4)):
        device.report(1, epoch)
        now[0] += 60
    assert [(one.digest, one.epoch) for one in first.outbox.waiting()] == [
        (loloha().digest_hex, 9),
        (unary().digest_hex, 4),
    ]


def test_what_was_made_ahead_of_time_is_due_once_the_device_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Due already, or of another collection, it stays due when it was."""
    now = [2400 * 3600.0]
    own = loloha()
    device, other = (Device.open(one, tmp_path, spread=inf, clock=lambda: now[0]) for one in (own, unary()))
    for one in (device, other):
        monkeypatch.setattr(one._draws, "share", lambda _: 3 << 62)  # three quarters of 3,600 seconds
        one.report(1)
    for hour in (240, 500, 242):
        now[0] = hour * 3600.0
        device.report(2)
    dues = {(one.digest == own.digest_hex, one.epoch): one.due for one in device.outbox.waiting()}
    assert dues == {
        (True, 2400): 240 * 3600,
        (True, 240): 240 * 3600 + 2700,
        (True, 500): 242 * 3600,
        (True, 242): 242 * 3600 + 2700,
        (False, 2400): 2400 * 3600 + 2700,
    }


def test_a_device_without_an_outbox_says_so(tmp_path: Path) -> None:
    for device in (Device.ephemeral(loloha()), Device.open(loloha(), tmp_path, outbox=0)):
        with pytest.raises(DeviceError, match="E-DEVICE-OUTBOX"):
            _ = device.outbox


# --- when


@memos
def test_a_report_is_due_at_once_unless_its_sending_is_spread(
    memo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, dues = 3 * 3600 + 1800.5, dict[float | None, int]()
    for spread in (None, 0, 0.9, 600, 1800, 1801, inf):
        choice: Spread = {} if spread is None else {"spread": spread}
        folder = tmp_path / str(spread)
        device = Device.open(loloha(), folder, memo=memo, clock=lambda: now, **choice)
        monkeypatch.setattr(device._draws, "share", lambda _: 3 << 62)  # three quarters
        device.report(1)
        (waiting,) = device.outbox.waiting()
        dues[spread] = waiting.due - int(now)
    assert dues == {None: 0, 0: 0, 0.9: 0, 600: 450, 1800: 1350, 1801: 1350, inf: 1350}


# --- the sender


class Collector(ThreadingHTTPServer):
    """Answers as told, and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.received: list[tuple[str, str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1/reports"


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.headers.append(dict(self.headers))
        self.server.received.append((self.path, self.headers["Content-Type"], body))
        status, headers = self.server.answers.pop(0) if self.server.answers else (202, {})
        said = headers.pop("body", "").encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(said)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(said)

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Time:
    """A clock that tests turn."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def device(tmp_path: Path, clock: Time) -> Device:
    return Device.open(loloha(), tmp_path / "device", clock=clock)


def test_due_reports_are_posted_one_by_one(collector: Collector, device: Device, clock: Time) -> None:
    reports = []
    for _ in range(3):
        reports.append(device.report(1))
        clock.now += 3600
    later = device.report(1)
    clock.now = min(one.due for one in device.outbox.waiting()[3:]) - 1
    sender = Sender(device.outbox, collector.url, clock=clock)
    assert sender.send_due() == sender.sent == 3
    assert collector.received == [("/v1/reports", "application/x-protobuf", report) for report in reports]
    clock.now += 3600
    assert sender.send_due() == 1
    assert collector.received[-1][2] == later
    assert sender.send_due() == len(device.outbox) == 0


@pytest.mark.parametrize("share", [0, (1 << 32) - 1])
def test_a_pause_is_half_of_the_longest_to_all_of_it(
    collector: Collector, device: Device, clock: Time, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.report(1)
    sender = Sender(device.outbox, collector.url, clock=clock, first_pause=3)
    monkeypatch.setattr("ldpbeam.client.sender.secrets.randbits", lambda bits: share >> (32 - bits))
    collector.answers = [(503, {})] * 50
    for failure in range(50):
        sender.send_due()
        longest = min(3.0 * 2**failure, 86400)
        drawn = sender.next_attempt - clock.now
        assert drawn == pytest.approx(longest if share else longest / 2, rel=1e-6)
        assert sender.failures == failure + 1
        clock.now = sender.next_attempt


@pytest.mark.parametrize(
    ("asked", "pause"),
    [
        *((text, 1) for text in ("1", "-7", "x")),
        *((str(seconds), min(seconds, 86400)) for seconds in (2, 86401)),
        *((seconds, min(max(seconds, 1), 86400)) for seconds in (-5, 3, 86401)),
    ],
)
def test_how_long_a_collector_may_ask_for(
    collector: Collector, device: Device, clock: Time, asked: str | int, pause: float, monkeypatch: Any
) -> None:
    from email.utils import formatdate

    device.report(1)
    monkeypatch.setattr("ldpbeam.client.sender.secrets.randbits", lambda _: 0)
    text = asked if isinstance(asked, str) else formatdate(clock.now + asked, usegmt=True)
    collector.answers = [(429, {"Retry-After": text})]
    sender = Sender(device.outbox, collector.url, clock=clock)
    sender.send_due()
    assert sender.next_attempt - clock.now == pause


def test_a_pause_that_began_while_the_clock_was_ahead_ends_with_that(
    collector: Collector, device: Device, clock: Time
) -> None:
    device.report(1)
    right = clock.now
    sender = Sender(device.outbox, collector.url, clock=clock)
    for seconds, sends in ((-1, True), (0, False), (1, False), (86399.9, False), (86400, True)):
        collector.answers = [(503, {})]
        before = len(collector.received)
        sender.next_attempt = right + 86400
        clock.now = right + seconds
        with of_kind(
            DeviceFolder, device._storage
        ).transaction() as records:  # earlier than any of these times
            records.postpone(records.waiting[0], int(right) - 1)
            records.save()
        sender.send_due()
        assert len(collector.received) - before == sends, seconds


def test_which_answers_are_yes_no_for_good_and_later(
    collector: Collector, tmp_path: Path, clock: Time
) -> None:
    device = Device.open(loloha(), tmp_path, clock=clock)
    outcomes: dict[str, list[int]] = {"sent": [], "waits": [], "dropped": []}
    codes = (200, 201, 204, 299, 300, 304, 399, 400, 404, 407, 408, 409, 424, 425, 426, 428, 429, 430)
    for code in (*codes, 499, 500, 503, 599):
        clock.now += 3600
        device.report(1)
        collector.answers = [(code, {"body": "" if code in (204, 304) else '{"reason": "oversize"}'})]
        sender = Sender(device.outbox, collector.url, clock=clock)
        sender.send_due()
        waits = len(device.outbox)
        assert (waits, sender.failures) in ((0, 0), (1, 1))
        outcomes["sent" if sender.sent else "waits" if waits else "dropped"].append(code)
        assert sender.dropped == ({"oversize": 1} if code in outcomes["dropped"] else {})
        for one in device.outbox.waiting():
            device.outbox.acknowledge(one)
    assert outcomes == {
        "sent": [200, 201, 204, 299],
        "waits": [300, 304, 399, 408, 425, 429, 500, 503, 599],
        "dropped": [400, 404, 407, 409, 424, 426, 428, 430, 499],
    }


def test_no_cookie_and_no_name_go_with_a_report(collector: Collector, device: Device, clock: Time) -> None:
    for _ in range(2):
        device.report(1)
        clock.now += 3600
    collector.answers = [(204, {"Set-Cookie": "id=1; Path=/", "ETag": '"1"'}), (204, {})]
    assert Sender(device.outbox, collector.url, clock=clock).send_due() == 2
    names = {"Accept-Encoding", "Content-Length", "Host", "User-Agent", "Content-Type", "Connection"}
    for headers in collector.headers:
        assert set(headers) == names
        assert headers["User-Agent"] == "ldpbeam"


def test_nobody_answers_and_the_report_waits(device: Device, clock: Time) -> None:
    device.report(1)
    with Collector() as closed:
        url = closed.url
    sender = Sender(device.outbox, url, clock=clock)
    assert (sender.send_due(), sender.failures, len(device.outbox)) == (0, 1, 1)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        '{"reason": 7}',
        '{"reason": "not_found"}',
        "[" * 4096,
    ],
)
def test_what_is_not_the_collectors_verdict_costs_no_report(
    collector: Collector, device: Device, clock: Time, body: str
) -> None:
    device.report(1)
    clock.now += 7200
    collector.answers = [(404, {"body": body})]
    sender = Sender(device.outbox, collector.url, clock=clock)
    assert sender.send_due() == 0
    assert not sender.dropped
    assert len(device.outbox) == 1
    assert sender.next_attempt > clock.now


def test_a_report_that_another_process_sends_meanwhile_keeps_none_back(
    collector: Collector, device: Device, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = []
    for _ in range(3):
        reports.append(device.report(1))
        clock.now += 3600
    outbox = device.outbox
    waiting = outbox.waiting()
    monkeypatch.setattr(type(outbox), "waiting", lambda _: waiting)
    outbox.acknowledge(waiting[1])
    assert Sender(outbox, collector.url, clock=clock).send_due() == 2
    assert [body for _, _, body in collector.received] == [reports[0], reports[2]]


def test_a_redirect_is_no_acknowledgement(collector: Collector, device: Device, clock: Time) -> None:
    device.report(1)
    clock.now += 7200
    collector.answers = [(302, {"Location": collector.url})]
    sender = Sender(device.outbox, collector.url, clock=clock)
    assert sender.send_due() == 0
    assert len(device.outbox) == 1


def test_reports_are_forgotten_together_once_they_are_answered(
    collector: Collector, device: Device, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicken_disk(monkeypatch)
    for _ in range(40):
        device.report(1)
        clock.now += 3600
    changes: list[int] = []
    acknowledge = Outbox.acknowledge

    def counted(box: Outbox, *sent: WaitingReport) -> None:
        changes.append(len(sent))
        acknowledge(box, *sent)

    monkeypatch.setattr(Outbox, "acknowledge", counted)
    no: dict[str, str] = {}
    collector.answers = [(202, no)] * 10 + [(503, no)] + [(202, no)] * 20 + [(503, no)]
    sender = Sender(device.outbox, collector.url, clock=clock)
    assert (sender.send_due(), changes, len(device.outbox)) == (10, [10], 30)
    clock.now = sender.next_attempt
    assert (sender.send_due(), changes, len(device.outbox)) == (20, [10, 16, 4], 10)
    clock.now = sender.next_attempt
    assert (sender.send_due(), changes, len(device.outbox)) == (10, [10, 16, 4, 10], 0)
    assert len({body for _, _, body in collector.received}) == 40
    assert len(collector.received) == 42


def test_only_http_is_spoken(device: Device) -> None:
    for url in ("file:///etc/passwd", "ftp://host/x", "host/v1/reports"):
        with pytest.raises(DeviceError, match="E-DEVICE-COLLECTOR"):
            Sender(device.outbox, url)
