"""kill -9 of devices, collector and engine at once: reports = devices × epochs, nothing is answered twice.

Devices of the real client report and send to a real collector, whose folder a real engine counts. All three
are killed together after a random amount of work, 45 times, and started again. In the end each device has
reported exactly once in each epoch, nothing waits, and the engine has counted all.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import signal
import time
from collections import Counter
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
from tests.collector_crash.forks import Forks, forks, kill
from tests.ldpbeam.collector.serving import records
from tests.pipelines.running import check_books
from tests.waiting import PATIENCE, poll

KILLS = 45
DEVICES, EPOCHS = 20, 12
YAML = """
name: together
version: 1
domain: {{size: 16}}
protocol: dbitflip_pm
d: 8
epsilon_longitudinal: 2.0
epoch: {{length: 1d, origin: {origin}, count: {epochs}}}
allowed_lateness: 40d
"""
"""A device whose value stays sends the same payload in all epochs: a second permanent answer would show."""


def collection_yaml() -> str:
    """All epochs have passed, and none is too late."""
    origin = datetime.datetime.now(datetime.UTC).date() - datetime.timedelta(days=EPOCHS + 1)
    return YAML.format(origin=f"{origin}T00:00:00Z", epochs=EPOCHS)


def made(warm: Forks) -> list[tuple[int, int, bytes]]:
    """(device, epoch, message) of each report that a device made, or made again, in order."""
    with warm.came:
        said = [words for words in warm.said if "message" in words]
    return [(words["device"], words["epoch"], bytes.fromhex(words["message"])) for words in said]


def live(warm: Forks, reports: int, seconds: float) -> None:
    """Start all three; kill them so many seconds after there are so many reports."""
    engine, collector = warm.fork("watch"), warm.fork("collect")
    if len(reported(warm)) < reports:
        assert warm.listening(collector)
    devices = warm.fork(f"report {warm.ports.get(collector, 1)} {latest(warm)}")
    end = time.monotonic() + PATIENCE
    while len(reported(warm)) < reports:
        assert time.monotonic() < end
        time.sleep(0.001)
    time.sleep(seconds)
    kill(*random.sample([engine, collector, devices], 3))


def reported(warm: Forks) -> set[tuple[int, int]]:
    """(device, epoch) of the reports that were made, each once."""
    return {(device, epoch) for device, epoch, _ in made(warm)}


def latest(warm: Forks) -> int:
    """The latest epoch of a report; all devices have reported in those before it."""
    return max((epoch for _, epoch in reported(warm)), default=0)


def done(warm: Forks) -> list[float]:
    """What each device has spent, once nothing waits."""
    with warm.came:
        return next((words["done"] for words in warm.said if "done" in words), [])


def counted(folder: Path, agreed: Collection) -> dict[str, Any]:
    """What the engine makes of everything, after all that happened to it."""
    output = folder / "out"
    config = RunConfig.parsed(
        (agreed,), output=str(output), watch=str(folder / "reports"), land_every=0.05, watermark_delay=1.0
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


def complaints(folder: Path, warm: Forks, collection: Collection) -> list[str]:
    """What is wrong after the last life."""
    wrong = []
    messages: dict[tuple[int, int], set[bytes]] = {}
    for device, epoch, message in made(warm):
        messages.setdefault((device, epoch), set()).add(message)
    if len(messages) != DEVICES * EPOCHS:
        wrong.append("a device did not report")
    if any(len(each) > 1 for each in messages.values()):
        wrong.append("a device made two reports of one epoch")
    answers: dict[int, set[bytes]] = {}
    sent: dict[int, report_pb2.Report] = {}
    for (device, _), each in messages.items():
        for message in each:
            report = report_pb2.Report.FromString(message)
            sent[report.report_id] = report
            answers.setdefault(device, set()).add(report.payload)
    if any(len(each) > 1 for each in answers.values()):
        wrong.append("a device has a second permanent answer")
    if set(done(warm)) != {2.0}:
        wrong.append("a device spent more than once")
    stored = records(folder / "reports")
    kept = {(name, epoch): payload for _, _, epoch, name, payload in stored}
    if len(kept) != DEVICES * EPOCHS:
        wrong.append("reports are not devices × epochs")
    if any(kept.get((name, report.epoch)) != report.payload for name, report in sent.items()):
        wrong.append("a report is lost")
    total = counted(folder, collection)
    if total["counted"] != DEVICES * EPOCHS:
        wrong.append("counted is not devices × epochs")
    if total["read"] != len(stored) or total["duplicate"] != len(stored) - len(kept):
        wrong.append("the engine read a report twice, or not at all")
    return wrong


def lives(folder: Path, kills: int, fault: str = "") -> list[str]:
    """Kill all three so often, let them end once, and look."""
    with forks(folder, collection_yaml(), fault) as warm:
        # Many kills come at once after a start. The last leaves work for the life after it.
        for reports in sorted(random.choices(range(DEVICES * EPOCHS * 4 // 5), k=kills)):
            live(warm, reports, random.random() * 0.05)
            assert not done(warm), "the last kills find nothing to do"
        engine, collector = warm.fork("watch"), warm.fork("collect")
        assert warm.listening(collector)
        warm.fork(f"report {warm.ports[collector]} {latest(warm)}")
        poll(lambda: done(warm))
        os.kill(collector, signal.SIGTERM)
        poll(lambda: not Path(f"/proc/{collector}").exists())
        kill(engine)
        return complaints(folder, warm, load_collection(folder / "one.yaml"))


@pytest.mark.thorough
def test_killed_at_once_reports_are_devices_times_epochs(tmp_path: Path) -> None:
    assert lives(tmp_path, KILLS) == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("fault", "sign"),
    [
        ("a collector answers before it keeps", "a report is lost"),
        ("a device begins anew", "a device has a second permanent answer"),
        ("an engine reads again", "the engine read a report twice, or not at all"),
    ],
)
def test_a_program_that_breaks_its_promise_is_seen(fault: str, sign: str, tmp_path: Path) -> None:
    assert sign in Counter(lives(tmp_path, 8, fault))
