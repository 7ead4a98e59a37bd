"""The power is lost anywhere while the engine works: nothing acknowledged is lost, nothing is counted twice.

Once with a broker, which forgets what was acknowledged; once with a folder of files, of which the engine
remembers how far it was.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest

from ldpbeam.collection.epochs import Epochs
from ldpbeam.engine.engine import LocalStream
from ldpbeam.engine.sources.watched_folder import WatchedFolder
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.errors import LdpError
from ldpbeam.job.config import RunConfig
from ldpbeam.wire import codec, report_pb2
from tests.crash.harness import spread
from tests.crash.power import forcing_only, losses
from tests.crash.recorder import Log, Recorder, Said, mark, restore
from tests.ldpbeam.engine.broker import Broker, Clock, Message
from tests.pipelines.running import check_books, collection

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(sys.platform != "linux", reason="the recorder is loaded as Linux does it"),
]

HOUR = 3600
ONE = collection("grr", 4, "one", epochs=Epochs(HOUR, 0, 100), allowed_lateness=1800)
PLAN = (
    (100.0, 0, range(10)),
    (101.0, 0, range(5, 15)),  # some again
    (102.0, 0, range(20, 30)),
    (HOUR - 10.0, 0, range(30, 31)),
    (HOUR + 20.0, 1, range(100, 120)),
    (HOUR + 40.0, 0, range(31, 33)),  # after the first result
    (HOUR + 60.0, 1, range(120, 125)),
)
"""When a message is published, about which epoch, and the ids of its reports."""
UNIQUE = {epoch: len({i for _, e, ids in PLAN if e == epoch for i in ids}) for epoch in (0, 1)}
END = 3 * HOUR


def batch(epoch: int, ids: range) -> bytes:
    return report_pb2.ReportBatch(
        digest=ONE.digest,
        epoch=epoch,
        count=len(ids),
        report_ids=ids,
        payloads=bytes(i % 4 for i in ids),
    ).SerializeToString()


class Remembered(Broker):
    """A broker that says what was acknowledged."""

    def __init__(self, clock: Clock, acknowledged: set[int], tell: bool) -> None:
        super().__init__(clock)
        self._tell = tell
        for at, epoch, ids in PLAN:
            message = self.publish(batch(epoch, ids), at)
            if message.number in acknowledged:
                self.queue.remove(message)

    def pull(self, limit_messages: int, limit_bytes: int, timeout_seconds: float) -> list[Message]:
        """What has been published by now, one at a time."""
        if self.queue and self.queue[0].arrival_micros <= self.clock.now * 1e6:
            return super().pull(1, limit_bytes, timeout_seconds)
        self.clock.now += timeout_seconds
        return []

    def acknowledge(self, messages: Sequence[Message]) -> None:
        super().acknowledge(messages)
        if self._tell:
            mark(acknowledged=[message.number for message in messages])


def tables(output: Path) -> dict[str, str]:
    """Digests of the published tables, by name."""
    found = sorted((output / "estimates").glob("*.parquet"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def work(folder: Path, source: str, said: Said = (), tell: bool = True) -> dict[str, Any]:
    """One life of an engine, up to the end of the plan; what is in run.json then."""
    output = folder / "out"
    clock = Clock(max([50.0, *(words["now"] for words in said if "now" in words)]))
    settings = {"watermark_delay": 2.0, "land_every": 1.0, "output": str(output)}
    if source == "broker":
        done = {number for words in said for number in words.get("acknowledged", ())}
        reader: Any = Remembered(clock, done, tell)
        config = RunConfig.parsed((ONE,), subscription="s", **settings)
    else:
        config = RunConfig.parsed((ONE,), watch=source, **settings)

        def pause(seconds: float) -> None:
            clock.now += seconds

        reader = WatchedFolder(source, clock, clock, pause)
    with Landing(str(output)).locked() as landing:
        engine = LocalStream(config, reader, landing, clock, clock)
        for moment in (103.0, HOUR - 5.0, HOUR + 5.0, HOUR + 45.0, HOUR + 70.0, 2 * HOUR + 5.0, END):
            clock.now = max(clock.now, moment)
            for _ in range(4):
                engine.step()
            if tell:
                mark(now=clock.now, tables=tables(output))
        engine.stop()
    if tell:
        mark(stopped=True, tables=tables(output))
    record: dict[str, Any] = json.loads((output / "run.json").read_text())
    check_books(record)
    return record


def program(folder: Path, source: str, hasty: bool = False) -> None:
    """One life; acknowledged before anything is committed where it is hasty."""
    with mock.patch.object(LocalStream, "_land", land_hastily if hasty else LocalStream._land):
        work(folder, source)


def land_hastily(engine: LocalStream[Any], messages: list[Any], land: Any = LocalStream._land) -> None:
    """A planted fault: the commit comes after the acknowledgement."""
    engine._source.acknowledge(messages)
    with mock.patch.object(engine._source, "acknowledge", lambda messages: None):
        land(engine, messages)


def warm() -> None:
    """Compile what counts."""
    with TemporaryDirectory() as folder:
        work(Path(folder), "broker", tell=False)


def complaints(folder: Path, source: str, said: Said) -> list[str]:
    """What is wrong once the next engine has done the rest."""
    shown = {name: is_ for words in said for name, is_ in words.get("tables", {}).items()}
    try:
        record = work(folder, source, said, tell=False)
    except LdpError as error:
        return [error.code]
    wrong = []
    total = record["accounting"]["total"]
    if total["counted"] != sum(UNIQUE.values()):
        wrong.append(f"{total['counted']} reports are counted in place of {sum(UNIQUE.values())}")
    if source != "broker" and total["read"] != sum(len(ids) for _, _, ids in PLAN):
        wrong.append("a file was read twice, or not")
    if total["rejected"] or total["late"]:
        wrong.append("reports are rejected or late")
    found = tables(folder / "out")
    if any(found.get(name) != is_ for name, is_ in shown.items()):
        wrong.append("a table that readers saw has gone, or has another content")
    return wrong


def enumerated(log: Log, home: Path, source: str, wanted: int = 60) -> Counter[str]:
    found: Counter[str] = Counter()
    for loss in spread([*losses(log, 16)], wanted):
        found.update(complaints(restore(loss.state, home / "left"), source, loss.said))
    return found


@pytest.fixture
def source(request: pytest.FixtureRequest, home: Path) -> str:
    """The broker, or a folder with files of the same messages."""
    if request.param == "broker":
        return "broker"
    folder = home / "reports"
    folder.mkdir()
    for number, (at, epoch, ids) in enumerate(PLAN):
        message = report_pb2.ReportBatch.FromString(batch(epoch, ids))
        message.arrival = int(at)
        (folder / f"{number}.pb").write_bytes(codec.framed(message.SerializeToString()))
    return str(folder)


sources = pytest.mark.parametrize("source", ["broker", "files"], indirect=True)


def recorded(recorder: Recorder, home: Path, source: str) -> Log:
    folder = restore({}, home / "recorded")
    return recorder.run(program, folder, source=source)


@sources
def test_whatever_a_lost_disk_holds_nothing_is_lost_or_counted_twice(
    source: str, recorder: Recorder, home: Path
) -> None:
    assert enumerated(recorded(recorder, home, source), home, source) == {}


@pytest.mark.parametrize("forced", ["files", "folders"])
def test_an_engine_that_forces_only_the_one_to_disk_fails(
    forced: str, recorder: Recorder, home: Path
) -> None:
    """Otherwise the tests above could not fail of the engine: whatever it keeps its state in."""
    log = forcing_only(forced, recorded(recorder, home, "broker"))
    assert enumerated(log, home, "broker")


def test_an_acknowledgement_before_the_commit_is_seen(recorder: Recorder, home: Path) -> None:
    folder = restore({}, home / "recorded")
    log = recorder.run(program, folder, source="broker", hasty=True)
    assert enumerated(log, home, "broker", 400)
