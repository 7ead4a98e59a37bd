"""The HTTP side: what is answered, what each limit stops, and the end."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import pytest

from ldpbeam.collector import gather as gathering
from ldpbeam.collector.server import Limits
from ldpbeam.collector.store import FileStore
from tests.ldpbeam.collector.serving import ONE, TYPE, batch, folder, names, report, serving
from tests.waiting import PATIENCE, poll, slowness

LINE = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?\d+(\.\d+)?')


@contextmanager
def connection(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as line:
        yield line


def head(length: int | None, more: str = "") -> bytes:
    size = f"Content-Length: {length}\r\n" if length is not None else ""
    kind = f"Content-Type: {TYPE['Content-Type']}\r\n"
    return f"POST /v1/reports HTTP/1.1\r\nHost: x\r\n{kind}{size}{more}\r\n".encode()


def closed(line: socket.socket) -> bytes:
    """What came before the other side hung up."""
    got = b""
    while part := line.recv(1 << 16):
        got += part
    return got


@contextmanager
def held_disk() -> Iterator[threading.Event]:
    """A disk that takes nothing until the event is set."""
    event, real = threading.Event(), os.fdatasync

    def wait(descriptor: int) -> None:
        assert event.wait(PATIENCE)
        real(descriptor)

    with mock.patch.object(os, "fdatasync", wait):
        try:
            yield event
        finally:
            event.set()


def test_nothing_is_answered_before_it_is_on_disk(tmp_path: Path) -> None:
    with folder(tmp_path) as served, ExitStack() as stack:
        assert served.post(report(1)).status == 204  # everything is warm: an early answer would be here soon
        disk, line = stack.enter_context(held_disk()), stack.enter_context(connection(served.port))
        line.sendall(head(len(report(7))) + report(7))
        line.settimeout(2)
        with pytest.raises(TimeoutError):
            line.recv(1)
        disk.set()
        line.settimeout(PATIENCE)
        assert line.recv(1000).startswith(b"HTTP/1.1 204")


@pytest.mark.parametrize(
    ("body", "status", "reason", "digest"),
    [
        (b"", 400, "malformed", ""),
        (report(1, digest=5), 404, "unknown_collection", ""),
        (report(1, 100), 400, "foreign_epoch", ONE.digest_hex),
        (batch(range(3), count=9), 400, "malformed", ONE.digest_hex),
    ],
)
def test_what_is_refused_is_answered_with_its_reason_and_counted(
    tmp_path: Path, body: bytes, status: int, reason: str, digest: str
) -> None:
    with folder(tmp_path) as served:
        answer = served.post(body)
        assert (answer.status, answer.headers["Content-Type"]) == (status, "application/json")
        said = json.loads(answer.body)
        assert said["reason"] == reason
        assert len(said["explanation"]) > 20
        reports = 3 if body == batch(range(3), count=9) else 1
        assert served.metric("reports_refused_total", reason=reason, digest=digest) == reports
        assert served.metric("answers_total", status=str(status)) == 1
    assert names(tmp_path) == []


def test_each_reason_is_a_series_from_zero_on(tmp_path: Path) -> None:
    """Prometheus takes a series that begins at 5 for one that has not grown."""
    with folder(tmp_path) as served:
        before = served.series("reports_refused_total")
        assert set(before.values()) == {0}
        bodies = (b"\xff\xff", report(1, digest=5), report(1, 100), report(1, payload=b"\1\1"))
        for body in (*bodies, batch(range(3), count=9)):
            served.post(body)
        after = served.series("reports_refused_total")
        assert set(after) == set(before)
        assert sorted(after.values())[-5:] == [1, 1, 1, 1, 3]


def test_a_body_in_another_format_is_named(tmp_path: Path) -> None:
    with folder(tmp_path) as served:
        said = json.loads(served.post(b'{"digest": 1}').body)
        assert said["explanation"].startswith("The body is JSON text")


def test_what_is_no_report_request_is_refused(tmp_path: Path) -> None:
    with folder(tmp_path) as served:
        assert served.ask("POST", "/v1/reports", report(1), {"Content-Type": "text/plain"}).status == 415
        assert served.ask("POST", "/v1/reports", report(1)).status == 415
        assert served.post(report(1), Content_Encoding="gzip").status == 415
        answer = served.ask("GET", "/v1/reports")
        assert (answer.status, answer.headers["Allow"]) == (405, "POST, OPTIONS")
        assert served.ask("POST", "/v1/other", report(1), TYPE).status == 404
        with connection(served.port) as line:
            line.sendall(b"\x16\x03\x01 secret words\r\n\r\n")
            got = closed(line)
        assert got.split()[1] == b"400"
        assert b"secret" not in got
        assert served.metric("answers_total", status="400") == 1
        assert served.ask("GET", "/%6detrics").status == 404  # a proxy may compare paths as they are sent
        assert served.post(report(2)).status == 204
    assert names(tmp_path) == [2]


def test_a_body_longer_than_the_limit_is_refused_unread(tmp_path: Path) -> None:
    sound = batch(range(8))
    most, chunked = len(sound), head(None, "Transfer-Encoding: chunked\r\n")
    with folder(tmp_path, Limits(body=most)) as served:
        assert served.post(sound).status == 204
        with connection(served.port) as line:
            line.sendall(chunked + b"%x\r\n%b\r\n0\r\n\r\n" % (most, sound))
            assert line.recv(1000).startswith(b"HTTP/1.1 204")
        with connection(served.port) as line:
            line.sendall(head(most + 1))  # nothing of it was sent
            assert closed(line).startswith(b"HTTP/1.1 413")
        with connection(served.port) as line:
            line.sendall(chunked + b"%x\r\n" % (most + 1) + bytes(most + 1))
            assert line.recv(1000).startswith(b"HTTP/1.1 413")
        assert served.metric("reports_refused_total", reason="oversize") == 2
        assert served.collector.room.held == 0
    assert names(tmp_path) == sorted([*range(8), *range(8)])


def test_whoever_asks_first_is_told_to_go_on(tmp_path: Path) -> None:
    with folder(tmp_path) as served, connection(served.port) as line:
        line.sendall(head(len(report(9)), "Expect: 100-continue\r\n"))
        assert line.recv(1000).startswith(b"HTTP/1.1 100")
        line.sendall(report(9))
        assert line.recv(1000).startswith(b"HTTP/1.1 204")


def test_long_headers_are_refused(tmp_path: Path) -> None:
    with folder(tmp_path) as served:
        for more in ("X: " + "x" * 5000 + "\r\n", "".join(f"X{i}: 1\r\n" for i in range(70))):
            with connection(served.port) as line:
                line.sendall(head(1, more))
                assert closed(line).split()[1] == b"400"


@pytest.mark.thorough
def test_a_slow_body_and_a_slow_header_are_cut_off(tmp_path: Path) -> None:
    limits = Limits(body_seconds=0.5, idle_seconds=1.0)
    with folder(tmp_path, limits) as served:
        with connection(served.port) as line:
            line.sendall(head(50) + b"x")
            assert closed(line).startswith(b"HTTP/1.1 408")
        for begin in (b"", b"POST /v1/rep", head(len(report(1))) + report(1)):
            with connection(served.port) as line:
                line.sendall(begin)
                began = time.monotonic()
                while time.monotonic() - began < PATIENCE:  # one byte of a header now and then
                    time.sleep(0.2)
                    try:
                        line.sendall(b"P")
                    except OSError:
                        break
                assert 0.5 < time.monotonic() - began < 8 * slowness()
        assert served.collector.room.held == 0
        assert served.post(report(2)).status == 204


def test_beyond_the_most_connections_an_idle_one_makes_way_and_one_that_waits_for_the_disk_does_not(
    tmp_path: Path,
) -> None:
    with folder(tmp_path, Limits(connections=3)) as served, ExitStack() as stack:
        idle = [stack.enter_context(connection(served.port)) for _ in range(3)]
        poll(lambda: served.post(report(1)).status == 204)
        assert idle[0].recv(1) == b""
        with held_disk():
            lines = [stack.enter_context(connection(served.port)) for _ in range(3)]
            for i, line in enumerate(lines, 2):
                line.sendall(head(len(report(i))) + report(i))
            poll(lambda: served.collector.room.held == 3 * len(report(1)))
            with connection(served.port) as line:
                got = closed(line)
            assert got.startswith(b"HTTP/1.1 503")
            assert b"Retry-After: " in got
        for line in lines:
            assert line.recv(1000).startswith(b"HTTP/1.1 204")
        assert served.metric("answers_total", status="503") == 1


def test_when_more_is_waiting_than_may_devices_are_told_to_come_again(tmp_path: Path) -> None:
    with folder(tmp_path, Limits(waiting=len(report(1)) * 3)) as served, held_disk() as disk:
        with ExitStack() as stack:
            lines = []
            for i in range(1, 5):
                line = stack.enter_context(connection(served.port))
                line.sendall(head(len(report(i))) + report(i))
                lines.append(line)
            poll(lambda: served.collector.room.held == 3 * len(report(1)))
            answer = served.post(report(9))
            assert (answer.status, answer.headers["Retry-After"]) == (429, "2")
            assert json.loads(answer.body) == {"reason": "behind"}
            disk.set()
            statuses = [line.recv(1000).split()[1] for line in lines]
        assert statuses.count(b"204") == 3
        assert served.post(report(9)).status == 204
    assert 9 in names(tmp_path)


def test_a_disk_that_refuses_is_said_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "_PAUSE", 0.2)
    with folder(tmp_path) as served:
        assert served.ask("GET", "/readyz").status == 200
        full = OSError(errno.ENOSPC, "No space left on device")
        with mock.patch.object(os, "fdatasync", side_effect=full):
            answer = served.post(report(1))
            assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
            # For a while after each refusal.
            poll(lambda: {served.post(report(1)).status, served.ask("GET", "/readyz").status} == {503})
            assert served.ask("GET", "/healthz").status == 200
            assert served.post(report(1)).status == 503
        assert served.metric("failures_total") >= 1
        poll(lambda: served.post(report(2)).status == 204)
        assert served.ask("GET", "/readyz").status == 200
    assert 2 in names(tmp_path)


def test_a_fault_of_ours_is_no_answer_that_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "_PAUSE", 0.2)
    with folder(tmp_path) as served:
        with mock.patch("ldpbeam.collector.gather.judge", side_effect=RuntimeError("bug")):
            assert served.post(report(1)).status == 503
        poll(lambda: served.post(report(2)).status == 204)
    assert names(tmp_path) == [2]


def test_pages_of_other_origins_may_send_only_where_that_is_asked_for(tmp_path: Path) -> None:
    ours = {"Origin": "https://ours.example"}
    theirs = {"Origin": "https://theirs.example"}
    with folder(tmp_path / "none") as served:
        assert served.ask("OPTIONS", "/v1/reports", headers=ours).status == 403
        assert "Access-Control-Allow-Origin" not in served.post(report(1), **ours).headers
    with folder(tmp_path / "one", Limits(origins=frozenset({"https://ours.example"}))) as served:
        answer = served.ask("OPTIONS", "/v1/reports", headers=ours)
        assert answer.status == 204
        assert answer.headers["Access-Control-Allow-Methods"] == "POST"
        assert answer.headers["Access-Control-Allow-Headers"] == "content-type"
        assert served.ask("OPTIONS", "/v1/reports", headers=theirs).status == 403
        refused = served.post(b"", **ours)
        for one in (answer, refused):
            assert one.headers["Access-Control-Allow-Origin"] == "https://ours.example"
            assert one.headers["Access-Control-Expose-Headers"] == "Retry-After"
            assert one.headers["Vary"] == "Origin"
        assert "Access-Control-Allow-Origin" not in served.post(report(1), **theirs).headers
    with folder(tmp_path / "all", Limits(origins=frozenset({"*"}))) as served:
        assert served.post(report(1), **theirs).headers["Access-Control-Allow-Origin"] == "*"


def test_the_metrics_are_what_a_scraper_reads(tmp_path: Path) -> None:
    with folder(tmp_path) as served:
        # A rule that divides by what was taken has something to divide by, also where all is refused.
        assert served.metric("reports_taken_total", collection="one", digest=ONE.digest_hex) == 0
        served.post(report(1))
        served.post(batch(range(5)))
        served.post(b"")
        answer = served.ask("GET", "/metrics")
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        lines = answer.body.decode().splitlines()
        assert all(line.startswith("# ") or LINE.fullmatch(line) for line in lines)
        assert served.metric("reports_taken_total", collection="one", digest=ONE.digest_hex) == 6
        assert served.metric("commits_total") == 2
        assert served.metric("held_bytes") == 0


def test_files_are_finished_while_it_runs(tmp_path: Path) -> None:
    """One after the other, each once its reports are old enough, however few they are."""
    with folder(tmp_path, every=0.1) as served:
        for name in (1, 2):
            assert served.post(report(name)).status == 204
            wanted = [*range(1, name + 1)]
            poll(lambda: names(tmp_path) == wanted)  # noqa: B023 - called before the next turn


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")
def test_it_listens_at_an_address_of_ipv6(tmp_path: Path) -> None:
    with serving(FileStore(tmp_path, 3600.0, 1 << 24), host="::1") as served:
        assert served.post(report(1)).status == 204


def test_nothing_says_who_sent_what(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not the log at its loudest, not the files, not the metrics."""
    secret = "marker-of-a-device"
    with caplog.at_level(logging.DEBUG), folder(tmp_path) as served:
        served.post(report(1), User_Agent=secret, Cookie=secret, X_Forwarded_For="203.0.113.9")
        served.ask("POST", f"/v1/{secret}", b"", TYPE)
        with connection(served.port) as line:
            line.sendall(f"GET / HTTP/9 {secret}\r\n\r\n".encode())
            closed(line)
        with connection(served.port) as line:
            line.sendall(head(100) + b"half")
        with mock.patch("ldpbeam.collector.gather.judge", side_effect=RuntimeError("bug")):
            served.post(report(1))
        said = served.ask("GET", "/metrics").body.decode()
    said += caplog.text
    said += "".join(path.name + path.read_bytes().decode("latin-1") for path in tmp_path.iterdir())
    for word in (secret, "127.0.0.1", "203.0.113.9"):
        assert word not in said
