"""The outbox: what was drawn reaches a collector at least once, and what was never committed never leaves."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.request import OpenerDirector

import pytest

from ldpbeam.client import Device, Outbox, WaitingReport
from ldpbeam.client.folder import DeviceFolder
from ldpbeam.client.sender import Sender
from ldpbeam.errors import DeviceError
from tests.ldpbeam.client.devices import (
    Spread,
    interrupted_commits,
    loloha,
    parsed,
    quicken_disk,
    rows_in,
    set_state,
    state_of,
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


def test_an_acknowledged_report_does_not_wait_again(tmp_path: Path) -> None:
    device = Device.open(loloha(), tmp_path)
    message = device.report(1, 4)
    device.outbox.acknowledge(device.outbox.waiting()[0])
    assert device.report(1, 4) == message
    assert not device.outbox.waiting()


@memos
def test_what_the_state_does_not_know_is_never_handed_out(memo: Any, tmp_path: Path) -> None:
    """A machine that stops within a report leaves neither the report nor the epoch.

    Sent later, it would be a second permanent response in stored mode, and one that nobody charged.
    """
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


def test_other_collections_keep_what_waits(tmp_path: Path) -> None:
    first, second = Device.open(loloha(), tmp_path), Device.open(unary(), tmp_path)
    first.report(1, 8)
    second.report(1, 2)
    first.report(1, 9)
    assert {(one.digest, one.epoch) for one in first.outbox.waiting()} == {
        (loloha().digest_hex, 8),
        (loloha().digest_hex, 9),
        (unary().digest_hex, 2),
    }


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
    """Of all collections of the folder."""
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


@memos
def test_what_was_made_ahead_of_time_is_due_once_the_device_goes_back(
    memo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes stay; other collections, and earlier epochs, wait as before."""
    now = [100 * 86400.0]
    device = Device.open(loloha(), tmp_path, memo=memo, spread=inf, clock=lambda: now[0])
    other = Device.open(unary(), tmp_path, memo=memo, spread=inf, clock=lambda: now[0])
    for one in (device, other):
        monkeypatch.setattr(one._draws, "share", lambda _: 3 << 62)  # three quarters
        one.report(1)
    (early,) = (
        device.outbox.read(one) for one in device.outbox.waiting() if one.digest == loloha().digest_hex
    )
    now[0] = 10 * 86400.0
    device.report(2)
    assert device.outbox.waiting() == [
        WaitingReport(864000, loloha().digest_hex, 2400),
        WaitingReport(864000 + 2700, loloha().digest_hex, 240),
        WaitingReport(8640000 + 2700, unary().digest_hex, 2400),
    ]
    assert device.outbox.read(device.outbox.waiting()[0]) == early
    for hour in (500, 242):  # ahead again, and back: what is due already stays due when it was
        now[0] = hour * 3600.0
        device.report(3)
    dues = {one.epoch: one.due for one in device.outbox.waiting() if one.digest == loloha().digest_hex}
    assert dues == {2400: 864000, 240: 866700, 500: 871200, 242: 871200 + 2700}


def test_a_device_without_an_outbox_says_so(tmp_path: Path) -> None:
    for device in (Device.ephemeral(loloha()), Device.open(loloha(), tmp_path, outbox=0)):
        device.report(1, 0)
        with pytest.raises(DeviceError, match="E-DEVICE-OUTBOX"):
            _ = device.outbox
    with pytest.raises(ValueError, match="at least one"):
        Device.open(loloha(), tmp_path, outbox=-1)


# --- when


@pytest.mark.thorough
@memos
def test_sending_times_are_uniform_in_what_is_left_of_the_epoch(
    memo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 epochs: the mean of a uniform share is within 6 of its standard errors, and no value enters."""
    quicken_disk(monkeypatch)
    now = [0.0]
    device = Device.open(loloha(), tmp_path, memo=memo, spread=inf, clock=lambda: now[0])
    shares = []
    for epoch in range(400):
        now[0] = 3600 * epoch + 600
        device.report(epoch % 9)
        (waiting,) = device.outbox.waiting()
        assert now[0] <= waiting.due < 3600 * (epoch + 1)
        shares.append((waiting.due - now[0]) / 3000)
        device.outbox.acknowledge(waiting)
    assert abs(fmean(shares) - 0.5) < 6 * (1 / 12 / 400) ** 0.5
    assert len(set(shares)) > 300


def test_the_sending_time_does_not_depend_on_the_value(tmp_path: Path) -> None:
    device = Device.open(unary(), tmp_path, spread=inf, clock=lambda: 3 * 3600.0)
    before, dues = state_of(device), set()
    for value in range(24):
        set_state(device, before)
        device.report(value)
        dues |= {one.due for one in device.outbox.waiting()}
    assert len(dues) == 1


@memos
def test_a_report_is_due_at_once_unless_its_sending_is_spread(
    memo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drawn share is that of the spread, or of what is left of the epoch where that is less."""
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


@pytest.mark.parametrize("spread", [-1, float("nan")])
def test_a_spread_is_no_negative_time(spread: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="spread"):
        Device.open(loloha(), tmp_path, spread=spread)


def test_a_report_about_an_epoch_that_has_ended_is_due_at_once(tmp_path: Path) -> None:
    device = Device.open(loloha(), tmp_path, clock=lambda: 10 * 3600.0)
    device.report(1, 3)
    assert device.outbox.waiting() == [WaitingReport(36000, loloha().digest_hex, 3)]


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


@pytest.mark.parametrize(
    ("status", "asked"), [(503, "120"), (429, "120"), (503, "date"), (429, "x"), (500, "")]
)
def test_a_busy_collector_is_left_alone_for_as_long_as_it_asks(
    collector: Collector, device: Device, clock: Time, status: int, asked: str
) -> None:
    from email.utils import formatdate

    message = device.report(1)
    clock.now += 7200
    given = formatdate(clock.now + 120, usegmt=True) if asked == "date" else asked
    collector.answers = [(status, {"Retry-After": given} if given else {})]
    sender = Sender(device.outbox, collector.url, clock=clock)
    assert sender.send_due() == 0
    pause = sender.next_attempt - clock.now
    assert pause == 120 if asked in ("120", "date") else 1 <= pause <= 2
    assert len(device.outbox) == 1
    clock.now = sender.next_attempt - 0.01
    assert sender.send_due() == 0
    assert len(collector.received) == 1
    clock.now = sender.next_attempt
    assert sender.send_due() == 1
    assert [body for _, _, body in collector.received] == [message] * 2
    assert sender.failures == 0


def test_pauses_double_and_are_drawn(collector: Collector, device: Device, clock: Time) -> None:
    device.report(1)
    clock.now += 7200
    sender = Sender(device.outbox, collector.url, clock=clock)
    shares = []
    collector.answers = [(503, {})] * 30
    for attempt in range(30):
        sender.send_due()
        longest = min(2.0 * 2**attempt, 86400)
        shares.append((sender.next_attempt - clock.now) / longest)
        clock.now = sender.next_attempt
    assert 0.5 <= min(shares) < 0.7
    assert 0.8 < max(shares) <= 1
    assert len(collector.received) == 30


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
        *((text, 1) for text in ("0", "1", "-7", "x", "", "1.5")),
        *((str(seconds), min(seconds, 86400)) for seconds in (2, 86399, 86400, 86401)),
        ("9" * 400, 86400),
        *((seconds, min(max(seconds, 1), 86400)) for seconds in (-5, 3, 86400, 86401)),
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


def test_a_report_is_sent_in_the_second_in_which_it_is_due(
    collector: Collector, device: Device, clock: Time
) -> None:
    device.report(1)
    sender = Sender(device.outbox, collector.url, clock=clock)
    clock.now -= 0.001
    assert sender.send_due() == 0
    clock.now += 0.001
    assert sender.send_due() == 1


def test_which_answers_are_yes_no_for_good_and_later(
    collector: Collector, tmp_path: Path, clock: Time
) -> None:
    """Each bound from both sides, with a verdict in the body that only a refusal for good is heard with."""
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
        for one in device.outbox.waiting():
            device.outbox.acknowledge(one)
    assert outcomes == {
        "sent": [200, 201, 204, 299],
        "waits": [300, 304, 399, 408, 425, 429, 500, 503, 599],
        "dropped": [400, 404, 407, 409, 424, 426, 428, 430, 499],
    }


def test_no_cookie_and_no_name_go_with_a_report(collector: Collector, device: Device, clock: Time) -> None:
    """Two reports of one device are not to be linked by what a collector sets with the first."""
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
    clock.now += 7200
    with Collector() as closed:
        url = closed.url
    sender = Sender(device.outbox, url, clock=clock, timeout=60)
    assert sender.send_due() == 0
    assert sender.failures == 1
    assert len(device.outbox) == 1


def test_a_collector_that_does_not_answer_in_time_is_none(device: Device, clock: Time) -> None:
    """It takes the connection, and says nothing."""
    device.report(1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1/reports"
        sender = Sender(device.outbox, url, clock=clock, timeout=0.2)
        begun = time.monotonic()
        assert sender.send_due() == 0
        assert 0.2 <= time.monotonic() - begun < 20
    assert (sender.failures, len(device.outbox)) == (1, 1)


@pytest.mark.parametrize(("given", "seconds"), [({}, 30.0), ({"timeout": 7.0}, 7.0)])
def test_how_long_an_answer_is_waited_for(
    device: Device, clock: Time, given: dict[str, float], seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def away(_: object, __: object, *, timeout: float) -> None:
        asked.append(timeout)
        raise OSError

    monkeypatch.setattr(OpenerDirector, "open", away)
    device.report(1)
    Sender(device.outbox, "http://127.0.0.1:9", clock=clock, **given).send_due()
    assert asked == [seconds]


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_a_report_that_is_refused_for_good_is_dropped_and_counted(
    collector: Collector, device: Device, clock: Time, status: int
) -> None:
    for _ in range(2):
        device.report(1)
        clock.now += 7200
    collector.answers = [(status, {"body": '{"reason": "wrong_length"}'})]
    sender = Sender(device.outbox, collector.url, clock=clock)
    assert sender.send_due() == 1
    assert sender.dropped == {"wrong_length": 1}
    assert len(device.outbox) == 0


@pytest.mark.parametrize(
    "body",
    [
        "",
        "not found",
        "[]",
        '{"reason": 7}',
        '{"reason": "<b>no</b>"}',
        '{"reason": "not_found"}',
        "[" * 4096,
    ],
)
@pytest.mark.parametrize("status", [403, 404])
def test_what_is_not_the_collectors_verdict_costs_no_report(
    collector: Collector, device: Device, clock: Time, status: int, body: str
) -> None:
    """A mistyped path, or a proxy that refuses: the report waits, and comes again after a pause."""
    device.report(1)
    clock.now += 7200
    collector.answers = [(status, {"body": body})]
    sender = Sender(device.outbox, collector.url, clock=clock)
    assert sender.send_due() == 0
    assert not sender.dropped
    assert len(device.outbox) == 1
    assert sender.next_attempt > clock.now


@pytest.mark.parametrize(("size", "dropped"), [(4096, True), (4097, False)])
def test_a_verdict_of_up_to_4096_bytes_is_read(
    collector: Collector, device: Device, clock: Time, size: int, dropped: bool
) -> None:
    """A longer one is no collector's."""
    device.report(1)
    body = '{"reason": "oversize", "more": ""}'
    collector.answers = [(400, {"body": body.replace('""', '"' + "x" * (size - len(body)) + '"')})]
    sender = Sender(device.outbox, collector.url, clock=clock)
    sender.send_due()
    assert len(device.outbox) == (not dropped)
    assert sender.dropped.total() == dropped


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
    """A redirected POST becomes a GET without the report, and its 200 would lose it."""
    device.report(1)
    clock.now += 7200
    collector.answers = [(302, {"Location": collector.url})]
    sender = Sender(device.outbox, collector.url, clock=clock)
    assert sender.send_due() == 0
    assert len(device.outbox) == 1


def test_reports_are_forgotten_together_once_they_are_answered(
    collector: Collector, device: Device, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 at a time, and what was answered before a failure: a second attempt sends the others alone."""
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


def test_a_sender_that_stops_before_the_acknowledgement_sends_the_same_bytes_again(
    collector: Collector, device: Device, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.report(1)
    clock.now += 7200

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(device.outbox), "acknowledge", stopped)
        with pytest.raises(KeyboardInterrupt):
            Sender(device.outbox, collector.url, clock=clock).send_due()
    assert Sender(device.outbox, collector.url, clock=clock).send_due() == 1
    first, second = (body for _, _, body in collector.received)
    assert first == second
    assert parsed(first).report_id


def test_only_http_is_spoken(device: Device) -> None:
    for url in ("file:///etc/passwd", "ftp://host/x", "host/v1/reports"):
        with pytest.raises(DeviceError, match="E-DEVICE-COLLECTOR"):
            Sender(device.outbox, url)
