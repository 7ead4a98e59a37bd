"""kill -9 under load: no answered report is lost, no report is counted twice, no file is read twice.

Devices send over real connections, and send again what was not answered, to whichever collector is there. At
each point the collector and the engine that watches its folder are killed after a random time, wherever they
are: starting, recovering, committing, finishing a file, landing, publishing.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import load_collection
from ldpbeam.engine.engine import LocalStream
from ldpbeam.engine.sources.watched_folder import WatchedFolder
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.job.config import RunConfig
from ldpbeam.wire import report_pb2
from tests.collector_crash.forks import forks, kill
from tests.ldpbeam.collector.serving import TYPE, records
from tests.pipelines.running import check_books
from tests.waiting import PATIENCE, poll

POINTS = 60
YAML = """
name: one
version: 1
domain: {size: 4}
protocol: grr
epsilon: 1.0
epoch: {length: 36500d, count: 2}
"""


class Devices(threading.Thread):
    """Sends one message after the other; what was not answered again, until it is."""

    def __init__(self, number: int, digest: int) -> None:
        super().__init__(daemon=True)
        self._draw = random.Random(f"devices {number}")
        self._digest = digest
        self.port = 0
        self.finish = threading.Event()
        self.answered: dict[int, bytes] = {}
        self.resent = 0
        self.odd: list[int] = []

    def run(self) -> None:
        message: tuple[bytes, dict[int, bytes]] | None = None
        line: http.client.HTTPConnection | None = None
        while message or not self.finish.is_set():
            message = message or self._next()
            if line is None or line.port != self.port:
                if line is not None:
                    line.close()
                line = http.client.HTTPConnection("127.0.0.1", self.port or 1, timeout=60)
            try:
                line.request("POST", "/v1/reports", message[0], TYPE)
                status = line.getresponse()
                status.read()
            except (OSError, http.client.HTTPException):
                line.close()
                line, self.resent = None, self.resent + 1
                time.sleep(0.005)
                continue
            if status.status == 204:
                self.answered |= message[1]
                message = None
            elif status.status not in {429, 503}:
                self.odd.append(status.status)
                message = None
        if line is not None:
            line.close()

    def _next(self) -> tuple[bytes, dict[int, bytes]]:
        count = self._draw.choice((1, 1, 30))
        reports = {self._draw.getrandbits(63) + 1: bytes([self._draw.randrange(4)]) for _ in range(count)}
        if count == 1:
            [(name, payload)] = reports.items()
            one = report_pb2.Report(digest=self._digest, report_id=name, payload=payload)
            return one.SerializeToString(), reports
        many = report_pb2.ReportBatch(digest=self._digest, count=count, payloads=b"".join(reports.values()))
        many.report_ids.extend(reports)
        return many.SerializeToString(), reports


@pytest.mark.thorough
def test_killed_collectors_and_engines_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    draw = random.Random(int.from_bytes(os.urandom(4)))
    agreed = load_collection_of(tmp_path)
    with forks(tmp_path, YAML) as warm:
        devices = [Devices(i, agreed.digest) for i in range(4)]
        for each in devices:
            each.start()
        for _ in range(POINTS):
            engine, collector = warm.fork("watch"), warm.fork("collect")
            # Some lives end while they begin, others after some answers, however busy the machine is.
            wanted = sum(len(each.answered) for each in devices) + draw.choice((0, 10, 60))
            began, least = time.monotonic(), draw.choice((0.05, 0.4)) * draw.random()
            while (passed := time.monotonic() - began) < least or passed < 10:
                if passed >= least and sum(len(each.answered) for each in devices) >= wanted:
                    break
                time.sleep(0.002)
                for each in devices:
                    each.port = warm.ports.get(collector, each.port)
            kill(*draw.sample([engine, collector], 2))
        last = warm.fork("collect")
        assert warm.listening(last)
        for each in devices:
            each.port = warm.ports[last]
        poll(lambda: sum(len(each.answered) for each in devices) > 20 * POINTS)
        for each in devices:
            each.finish.set()
        for each in devices:
            each.join(PATIENCE)
            assert not each.is_alive()
        os.kill(last, signal.SIGTERM)
        poll(lambda: not Path(f"/proc/{last}").exists())
    assert [each.odd for each in devices] == [[]] * 4
    answered = {name: payload for each in devices for name, payload in each.answered.items()}
    stored = records(tmp_path / "reports")
    kept = {name: payload for _, _, _, name, payload in stored}
    lost = [name for name, payload in answered.items() if kept.get(name) != payload]
    assert lost == []
    assert kept.keys() <= answered.keys()
    assert len(answered) > 20 * POINTS
    assert not [*(tmp_path / "reports").glob("*.tmp"), *(tmp_path / "reports").glob(".journal-*")]
    total = counted(tmp_path, agreed)
    assert total["counted"] == len(answered)
    assert total["read"] == len(stored)  # no file twice, whatever was killed
    assert total["duplicate"] == len(stored) - len(answered)


def load_collection_of(tmp_path: Path) -> Collection:
    described = tmp_path / "agreed.yaml"
    described.write_text(YAML)
    return load_collection(described)


def counted(tmp_path: Path, agreed: Collection) -> dict[str, Any]:
    """What the engine makes of everything, after all that happened to it."""
    output = tmp_path / "out"
    config = RunConfig.parsed(
        (agreed,), output=str(output), watch=str(tmp_path / "reports"), land_every=0.05, watermark_delay=1.0
    )
    with Landing(str(output)).locked() as landing:
        engine = LocalStream(config, WatchedFolder(config.input.watch), landing)
        while engine.step():
            pass
        engine.stop()
    record = json.loads((output / "run.json").read_text())
    check_books(record)
    assert record["accounting"]["total"]["rejected"] == {}
    total: dict[str, Any] = record["accounting"]["total"]
    return total
