"""What a running engine says of itself: metrics over HTTP, lines of JSON, and clear errors."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from ldpbeam.cli import run as command
from ldpbeam.durable.store import Transaction
from ldpbeam.engine import run as job
from ldpbeam.engine.engine import LocalStream
from ldpbeam.engine.run import run_local
from ldpbeam.engine.status import Status, serve_metrics
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.errors import LdpError, UsageError
from ldpbeam.host.http import parse_address
from ldpbeam.job.config import RunConfig
from ldpbeam.wire import report_pb2
from tests.ldpbeam.engine.broker import Broker, Clock
from tests.ldpbeam.engine.test_engine import HOUR, ONE, Bench
from tests.waiting import PATIENCE

LINE = re.compile(r'[a-z_]+(\{reason="[a-z_]+"\})? -?\d+(\.\d+)?')


def report(name: int, epoch: int = 0, payload: bytes = b"\1") -> bytes:
    one = report_pb2.Report(digest=ONE.digest, epoch=epoch, report_id=name, payload=payload)
    return one.SerializeToString()


def config(output: Path, **more: Any) -> RunConfig:
    base = RunConfig.parsed((ONE,), output=str(output), subscription="projects/p/subscriptions/s")
    return base.changed(watermark_delay=2.0, land_every=1.0, **more)


def read(text: str) -> dict[str, float]:
    """A scraper's view."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(LINE.fullmatch(line) for line in lines), text
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_what_is_said_is_what_happened(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    def said() -> dict[str, float]:
        return read(bench.engine.status.as_text())

    for i in range(5):
        bench.broker.publish(report(i % 4))
    bench.broker.publish(b"junk")
    bench.step()
    found = said()
    assert found["ldpbeam_messages_pulled_total"] == found["ldpbeam_messages_landed_total"] == 6
    assert found["ldpbeam_reports_read"] == 6
    assert found["ldpbeam_reports_pending"] == 5
    assert found['ldpbeam_reports_rejected{reason="malformed"}'] == 1
    assert found["ldpbeam_results_published_total"] == found["ldpbeam_reports_counted"] == 0
    assert found["ldpbeam_epochs_open"] == found["ldpbeam_landing_segments"] == 1
    assert found["ldpbeam_watermark_timestamp_seconds"] == bench.clock.now - 2
    bench.until(HOUR + 10.0)
    found = said()
    assert found["ldpbeam_results_published_total"] == 1
    assert found["ldpbeam_reports_pending"] == 0
    assert (found["ldpbeam_reports_counted"], found["ldpbeam_reports_duplicate"]) == (4, 1)
    assert 2 <= found["ldpbeam_watermark_lag_seconds"] <= 4
    bench.until(HOUR + 1900.0)
    bench.broker.publish(report(9))
    bench.step()
    assert said()["ldpbeam_reports_late"] == 1
    bench.clock.ahead = 500.0
    bench.step()
    assert said()["ldpbeam_clock_ahead_seconds"] == 500
    bench.stop()
    assert bench.engine.status.as_record()["rejected"] == {"malformed": 1}
    bench.start()
    again = bench.engine.status
    assert (again.read, again.counted, again.late, again.pulled) == (7, 4, 1, 0)


def test_metrics_over_http() -> None:
    status = Status(read=5, rejected={"malformed": 2})
    with serve_metrics(("127.0.0.1", 0), lambda: status) as port:
        with urlopen(f"http://127.0.0.1:{port}/metrics?x=1", timeout=PATIENCE) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert read(answer.read().decode())["ldpbeam_reports_read"] == 5
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"http://127.0.0.1:{port}/etc/passwd", timeout=PATIENCE)
        with pytest.raises(UsageError, match="E-USAGE-LISTEN"), serve_metrics(("127.0.0.1", port), Status):
            pass
    with socket.socket() as nobody:
        assert nobody.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9100", ("127.0.0.1", 9100)),
        ("[::1]:9100", ("::1", 9100)),
        ("metrics.local:1", ("metrics.local", 1)),
        *((wrong, None) for wrong in ("host:", "1:2:3", "127.0.0.1:65536", "-1")),
    ],
)
def test_addresses(text: str, address: tuple[str, int] | None) -> None:
    with nullcontext() if address else pytest.raises(UsageError, match="E-USAGE-LISTEN"):
        assert parse_address(text, "--metrics", "9100") == address


# --- run_local, with a broker in memory in the place of Pub/Sub


class Service(Broker):
    """A subscriber that can be opened and closed."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.online = True

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.redeliver()

    def connected(self) -> bool:
        return self.online


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    clock = Clock(100.0)
    made = Service(clock)
    monkeypatch.setattr(job, "Subscriber", lambda *_, **__: made)
    original = LocalStream.__init__

    def begin(self: LocalStream[Any], given: RunConfig, source: Any, landing: Landing) -> None:
        original(self, given, source, landing, clock.wall, clock)

    monkeypatch.setattr(LocalStream, "__init__", begin)
    return made


def test_lines_of_json(tmp_path: Path, service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """One object a line; a broken connection and a wrong clock are events of their own."""
    for i in range(3):
        service.publish(report(i))
    steps, original = [0], LocalStream.step

    def step(self: LocalStream[Any]) -> int:
        steps[0] += 1
        if steps[0] == 3:
            service.clock.ahead = 1e6
        service.online = not 5 < steps[0] < 12
        return original(self)

    with mock.patch.object(LocalStream, "step", step):
        run_local(config(tmp_path, stop_when_idle=8), command._json_line)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines if line["event"] != "published"] == [
        "clock",
        "disconnected",
        "connected",
    ]
    assert lines[0]["event"] == "published"
    assert lines[-1]["read"] == lines[-1]["pending"] == 3
    assert all({"pulled", "landed", "lag", "late", "rejected"} <= line.keys() for line in lines)


@pytest.mark.parametrize("where", ["landing/", "estimates/", "accounting/", "run.json"])
def test_a_disk_that_takes_no_more(tmp_path: Path, service: Service, where: str) -> None:
    """A clear error; nothing that was acknowledged is lost, and the next engine goes on."""
    number, refused, real = errno.ENOSPC, list[str](), os.open

    def opened(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_CREAT and f"/{where}" in str(path) and service.clock.now > 200:
            refused.append(str(path))
            raise OSError(number, os.strerror(number), str(path))
        return real(path, flags, *more, **named)

    def commit(rows: Transaction) -> None:
        if where.startswith("landing/") and service.clock.now > 200:
            refused.append(where)
            raise OSError(number, os.strerror(number))
        committed(rows)

    committed = Transaction.commit

    def at(moment: float, do: Callable[[], Any]) -> Callable[[LocalStream[Any]], int]:
        def step(self: LocalStream[Any]) -> int:
            if service.clock.now < moment and not service.queue:
                service.clock.now = moment
                do()
            return original(self)

        return step

    original = LocalStream.step
    for i in range(5):
        service.publish(report(i))

    def more() -> None:
        for i in range(5, 9):
            service.publish(report(i, epoch=1))
        service.publish(b"junk")

    with (
        mock.patch.object(LocalStream, "step", at(HOUR + 10.0, more)),
        mock.patch.object(os, "open", opened),  # all that is published goes through it
        mock.patch.object(Transaction, "commit", commit),  # and all that is kept through this
        pytest.raises(LdpError, match="E-DISK-FULL"),
    ):
        run_local(config(tmp_path, stop_when_idle=30))
    assert refused
    assert not list(tmp_path.rglob("*.tmp"))
    total = run_local(config(tmp_path, stop_when_idle=30)).accounting.total.as_record()
    assert (total["read"], total["counted"], total["rejected"]) == (10, 9, {"malformed": 1})
    assert not service.queue
    assert not service.out


def test_two_engines_on_one_output(tmp_path: Path, service: Service) -> None:
    """The second one says so before it pulls anything."""
    service.publish(report(1))
    with Landing(str(tmp_path)).locked(), pytest.raises(LdpError, match="E-STREAM-BUSY"):
        run_local(config(tmp_path, stop_when_idle=1))
    assert len(service.queue) == 1
    assert run_local(config(tmp_path, stop_when_idle=1)).accounting.total.read == 1


def test_what_only_grows_is_a_counter() -> None:
    """What a replay can take back is a gauge: Prometheus would take a smaller counter for a restart."""
    lines = Status().as_text().splitlines()
    kinds = dict(line.split()[2:] for line in lines if line.startswith("# TYPE "))
    assert {name for name, kind in kinds.items() if kind == "counter"} == {
        "ldpbeam_messages_pulled_total",
        "ldpbeam_messages_landed_total",
        "ldpbeam_results_published_total",
    }
