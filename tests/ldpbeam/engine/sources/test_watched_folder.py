"""A folder that grows as a source of the local engine: each file once, in time, whatever happens between."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
import pytest

from ldpbeam.admission import ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collector.store import FileStore
from ldpbeam.durable.file import GROUP, write_file
from ldpbeam.engine.sources import watched_folder as watched
from ldpbeam.engine.sources.watched_folder import WatchedFolder
from ldpbeam.errors import UsageError
from ldpbeam.protocols import Parameters
from ldpbeam.simulators.deliver.files import batch_record
from ldpbeam.sums.public import read_counts
from ldpbeam.wire import codec, report_pb2
from tests.ldpbeam.engine.broker import Clock
from tests.ldpbeam.engine.test_engine import HOUR, ONE, Bench
from tests.pipelines.running import execute, fleet

DISTRIBUTION = replace(
    ONE,
    name="distribution",
    domain=Domain(60, ordered=True),
    protocol_name="olh",
    parameters=Parameters(epsilon=1.0, hash_family="interval"),
    consistency="ordered",
)


@pytest.fixture(autouse=True)
def locks() -> Iterator[None]:
    yield
    while STORES:
        STORES.pop()._lock.release()


STORES: list[FileStore] = []
"""Whose locks the kernel would take back from a dead process."""


def columns(ids: range, epoch: int = 0) -> list[ReportColumns]:
    payloads = (np.array(ids, np.uint64) % np.uint64(4)).astype(np.uint8).reshape(-1, 1)
    return [ReportColumns(ONE.digest, epoch, np.array(ids, np.uint64), payloads)]


class FolderBench(Bench):
    """A collector's store, an engine that watches its folder, and their clock."""

    def __init__(self, tmp_path: Path, *collections: Collection, **settings: Any) -> None:
        self.folder = tmp_path / "reports"
        self.folder.mkdir()
        super().__init__(tmp_path / "out", *collections, watch=str(self.folder), **settings)
        self.store = self.collector()

    def collector(self, name: str = "", every: float = 1.0) -> FileStore:
        store = FileStore(self.folder / name, every, 1 << 24, self.clock, self.clock)
        store.open()
        STORES.append(store)
        return store

    def source(self) -> WatchedFolder:
        return WatchedFolder(str(self.folder), self.clock, self.clock, self.pause)

    def pause(self, seconds: float) -> None:
        self.clock.now += seconds

    def take(self, ids: range, epoch: int = 0) -> None:
        """A file that arrives and is finished now."""
        self.store.commit(columns(ids, epoch))
        self.clock.now += 1
        self.store.publish()
        self.touch()

    def touch(self) -> None:
        """The disk's clock is the test's."""
        for path in self.folder.rglob("*.pb"):
            if path.stat().st_mtime > 1e9:
                os.utime(path, (self.clock.now, self.clock.now))


def test_a_crash_in_the_middle_of_a_file_goes_on_in_its_middle(tmp_path: Path) -> None:
    """A file of many records is taken in parts; each part is on disk with where it ends."""
    bench = FolderBench(tmp_path, land_messages=3)
    for second in range(8):  # a batch for each second of arrival
        bench.store.commit(columns(range(second * 10, second * 10 + 10)))
        bench.clock.now += 1
    bench.store.close()
    bench.touch()
    bench.step()
    assert bench.engine.state.messages == 3
    bench.start()
    bench.step(6)
    assert bench.stop() == {"read": 80, "counted": 80, "late": 0, "duplicate": 0, "rejected": {}}


def test_while_a_file_is_not_taken_whole_reports_are_missing_from_its_first_arrival_on(
    tmp_path: Path,
) -> None:
    bench = FolderBench(tmp_path)
    for second in range(2):
        bench.store.commit(columns(range(second * 10, second * 10 + 10)))
        bench.clock.now += 1
    bench.store.close()
    bench.clock.now = 5000.0
    source = bench.source()
    for missing_from in (100, 5000):
        assert len(source.pull(1, 1 << 20, 0.0)) == 1
        assert source.missing_from() == missing_from * 1_000_000


def test_names_of_files_that_were_taken_away_are_forgotten(tmp_path: Path) -> None:
    """Once reports are removed: then, and after a restart."""
    bench = FolderBench(tmp_path, keep_landed=10)
    for first in range(0, 20, 10):
        bench.take(range(first, first + 10))
        bench.step()
    gone, kept = sorted(bench.folder.glob("*.pb"))
    gone.unlink()
    bench.step(2)
    assert set(bench.engine.state.taken) == {gone.name, kept.name}
    bench.until(HOUR * 2)
    bench.until(HOUR * 2 + 60)
    assert set(bench.engine.state.taken) == {kept.name}
    bench.start()
    assert set(bench.engine.state.taken) == {kept.name}
    assert bench.stop()["counted"] == 20


def test_a_report_is_late_by_its_arrival_however_long_its_file_waits(tmp_path: Path) -> None:
    """The collector was gone when the epoch closed; its journal says that reports are still to come."""
    bench = FolderBench(tmp_path)
    bench.take(range(5))
    bench.step(2)
    bench.clock.now = HOUR + 1700
    bench.store.commit(columns(range(5, 9)))
    bench.store._lock.release()  # killed
    bench.until(HOUR * 3)
    assert bench.watermark <= HOUR + 1700
    bench.store = bench.collector()
    bench.touch()
    bench.step(3)
    bench.take(range(20, 22))
    bench.until(HOUR * 3 + 60)
    assert bench.watermark > HOUR * 3
    assert bench.stop() == {"read": 11, "counted": 9, "late": 2, "duplicate": 0, "rejected": {}}


def test_a_slow_collector_holds_epochs_open_beside_a_quick_one(tmp_path: Path) -> None:
    bench = FolderBench(tmp_path)
    slow = bench.collector("slow", every=10_000.0)
    bench.take(range(1))
    bench.step(2)
    bench.clock.now = HOUR + 1700
    slow.commit(columns(range(5, 9)))
    for i in range(10):
        bench.clock.now += 100
        bench.take(range(100 + i, 101 + i), 1)
        bench.step()
    assert bench.watermark == HOUR + 1700
    slow.close()
    bench.touch()
    bench.until(HOUR * 3)
    assert bench.stop()["late"] == 0


def test_files_that_wait_hold_the_watermark_too(tmp_path: Path) -> None:
    bench = FolderBench(tmp_path, land_messages=1)
    for i in range(4):
        bench.take(range(i * 10, i * 10 + 10))
    bench.clock.now = 5 * HOUR
    for _ in range(3):
        bench.step()
        assert bench.watermark < 105
    bench.until(5 * HOUR + 60)
    assert bench.stop() == {"read": 40, "counted": 40, "late": 0, "duplicate": 0, "rejected": {}}


def test_what_is_damaged_is_rejected_and_the_rest_counted(tmp_path: Path) -> None:
    bench = FolderBench(tmp_path)
    [some] = columns(range(10))
    sound = batch_record(some)
    write_file(bench.folder / "a.pb", [sound + sound[:-3]], GROUP)
    write_file(bench.folder / "b.pb", [b"\xff" * 20], GROUP)
    write_file(bench.folder / "c.pb", [b"\0\0\0" + sound], GROUP)
    write_file(bench.folder / "d.pb", [codec.varint(17 << 20) + b"x" * 100], GROUP)
    write_file(bench.folder / "e.pb", [b""], GROUP)
    write_file(bench.folder / "f.txt", [sound], GROUP)
    (bench.folder / "g.pb").mkdir()
    write_file(bench.folder / "h.pb", [bytes(5000) + sound], GROUP)  # that many are one reject
    bench.touch()
    bench.step(4)
    total = bench.stop()
    assert (total["counted"], total["duplicate"]) == (10, 20)
    assert total["rejected"] == {"malformed": 1 + 1 + 3 + 1 + 1}
    bench.start()
    bench.step(2)
    assert bench.stop() == total


def test_a_file_that_goes_before_it_is_read_is_one_reject(tmp_path: Path) -> None:
    bench = FolderBench(tmp_path)
    bench.take(range(5))
    [path] = bench.folder.glob("*.pb")
    real = Path.open

    def gone(self: Path, *given: Any, **more: Any) -> Any:
        if self == path:
            path.unlink(missing_ok=True)
        return real(self, *given, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "open", gone)
        bench.step(4)
    bench.take(range(10, 14))
    bench.step(4)
    total = bench.stop()
    assert total["counted"] == 4
    assert total["rejected"] == {"malformed": 1}


def test_records_longer_than_a_read_are_whole(tmp_path: Path) -> None:
    bench = FolderBench(tmp_path)
    with mock.patch.object(watched, "_READ_BYTES", 64):
        bench.take(range(500))
        bench.take(range(500, 503))
        bench.step(3)
    assert bench.stop()["counted"] == 503


@pytest.mark.parametrize(
    ("arrival", "believed"),
    [(0, False), (253_402_300_799, True), (253_402_300_800, False)],
)
def test_arrivals_after_the_year_9999_are_not_believed(tmp_path: Path, arrival: int, believed: bool) -> None:
    """A record of somebody else's must not end the stream; it is of the time its file was written."""
    message = report_pb2.ReportBatch(
        digest=ONE.digest, count=1, report_ids=[7], payloads=b"\1", arrival=arrival
    )
    (tmp_path / "in").mkdir()
    write_file(tmp_path / "in" / "reports.pb", [codec.framed(message.SerializeToString())], GROUP)
    os.utime(tmp_path / "in" / "reports.pb", (50, 50))
    clock = Clock(100.0)
    source = WatchedFolder(str(tmp_path / "in"), clock, clock, lambda _: None)
    (found,) = source.pull(10, 1 << 20, 0.0)
    assert (found.stamped, found.arrival_micros) == (believed, (arrival if believed else 50) * 1_000_000)


def test_files_come_by_their_names_whatever_their_folder(tmp_path: Path) -> None:
    """Those from before the engine are messages of its start: they say nothing of the clock."""
    for name, written in (("a/2.pb", 150), ("b/1.pb", 50)):
        (tmp_path / name).parent.mkdir()
        write_file(tmp_path / name, [batch_record(columns(range(1))[0])], GROUP)
        os.utime(tmp_path / name, (written, written))
    clock = Clock(100.0)
    found = WatchedFolder(str(tmp_path), clock, clock, lambda _: None).pull(10, 1 << 20, 0.0)
    assert [(one.name, one.published_micros) for one in found] == [
        ("b/1.pb", 100_000_000),
        ("a/2.pb", 150_000_000),
    ]


def test_a_folder_that_goes_away_is_waited_for(tmp_path: Path) -> None:
    bench = FolderBench(tmp_path)
    bench.take(range(5))
    bench.step(2)
    away = bench.folder.rename(tmp_path / "away")
    bench.until(HOUR * 5)
    assert not bench.engine.connected
    assert bench.watermark < HOUR
    away.rename(bench.folder)
    bench.until(HOUR * 5 + 30)
    assert bench.engine.connected
    assert bench.watermark > HOUR * 4


def test_a_folder_must_be_there_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        WatchedFolder(str(tmp_path / "none"))


def test_a_run_over_the_folder_publishes_the_same(tmp_path: Path) -> None:
    """Bounded and unbounded: supports, distributions, summaries, counts; hidden files are passed over."""
    bench = FolderBench(tmp_path, ONE, DISTRIBUTION)
    bench.take(range(200))
    bench.take(range(100, 300), 1)
    for some in fleet(DISTRIBUTION, 256, 1):  # the second half comes after the end of the epoch
        bench.store.commit([some])
        bench.clock.now += 1
        bench.store.publish()
        bench.touch()
        bench.until(HOUR + 60)
    bench.store.commit(columns(range(300, 310)))
    bench.until(5 * HOUR)
    done = execute((ONE, DISTRIBUTION), sorted(bench.folder.glob("*.pb")), tmp_path / "bounded")
    assert done.total["counted"] == bench.stop()["counted"] == 656
    assert len(bench.books(0, DISTRIBUTION)["revisions"]) == 2
    streamed, bounded = (
        read_counts(output).drop_columns(["pane", "revision"]) for output in (bench.output, done.output)
    )
    assert streamed.num_rows == 1 and streamed.equals(bounded)
    published = [*(done.output / "latest").iterdir(), *(done.output / "summaries").iterdir()]
    assert len(published) == 4
    for path in published:
        ours, theirs = (
            pq.read_table(output / path.parent.name / path.name).drop_columns(["pane", "revision"])
            for output in (bench.output, done.output)
        )
        assert repr(ours.to_pylist()) == repr(theirs.to_pylist())
