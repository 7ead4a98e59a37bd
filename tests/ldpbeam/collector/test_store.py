"""The journal and the files made of it: what was committed survives whatever happens to the rest."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from ldpbeam.admission import ReportColumns
from ldpbeam.collector import store as stores
from ldpbeam.collector.store import FileStore
from ldpbeam.durable import file
from ldpbeam.durable.folder import sync_folder
from ldpbeam.errors import LdpError
from ldpbeam.records import journal as files
from ldpbeam.records.journal import committed_size
from tests.ldpbeam.collector.serving import ONE, names, records


def columns(ids: range, epoch: int = 0) -> list[ReportColumns]:
    payloads = (np.array(ids, np.uint8) % 4).reshape(-1, 1)
    return [ReportColumns(ONE.digest, epoch, np.array(ids, np.uint64), payloads)]


class Time:
    now = 1000.5

    def __call__(self) -> float:
        return self.now


def opened(output: Path, every: float = 10.0, size: int = 1 << 20) -> tuple[FileStore, Time]:
    time = Time()
    store = FileStore(output, every, size, time, time)
    store.open()
    return store, time


def abandoned(store: FileStore) -> None:
    """What is left of a collector that was killed."""
    store._lock.release()


def test_what_is_committed_is_in_the_files_with_the_second_of_its_arrival(tmp_path: Path) -> None:
    store, time = opened(tmp_path)
    store.commit(columns(range(5)))
    time.now = 1002.9
    store.commit(columns(range(3, 9), 7))
    store.close()
    first = [(1000, ONE.digest, 0, i, bytes([i % 4])) for i in range(5)]
    assert records(tmp_path) == first + [(1002, ONE.digest, 7, i, bytes([i % 4])) for i in range(3, 9)]
    assert [path.name[:24] for path in tmp_path.iterdir() if path.name != ".lock"] == [
        "reports-19700101T001640Z"
    ]


def test_a_killed_collectors_journal_becomes_a_file(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    store.commit(columns(range(5)))
    abandoned(store)
    assert names(tmp_path) == []
    (tmp_path / "reports-x.pb.0123abcd.tmp").write_bytes(b"half")
    store, _ = opened(tmp_path)
    assert names(tmp_path) == list(range(5))
    assert not list(tmp_path.glob(".journal-*"))
    assert not list(tmp_path.glob("*.tmp"))
    store.close()


def test_a_damaged_journal_is_put_aside_counted_and_said(tmp_path: Path) -> None:
    """Answered reports before the damage are kept; a second start finds nothing left to do."""
    heard: list[LdpError] = []
    store, _ = opened(tmp_path)
    for first in range(0, 200, 10):
        store.commit(columns(range(first, first + 10)))
    [journal] = tmp_path.glob(".journal-*")
    abandoned(store)
    content = bytearray(journal.read_bytes())
    content[len(content) // 20 * 19 + 30] ^= 16
    journal.write_bytes(content)
    for start in range(2):
        store = FileStore(tmp_path, 10.0, 1 << 20, notice=heard.append)
        store.open()
        assert names(tmp_path) == list(range(190))
        assert store.damaged == (start == 0)
        assert [found.code for found in heard] == ["W-COLLECT-DAMAGED"]
        store.close()
    [aside] = tmp_path.glob(".damaged-*")
    assert aside.read_bytes() == content
    assert str(aside) in str(heard[0])
    assert "19 commits" in str(heard[0])
    assert f"{len(content) // 20} of its bytes" in str(heard[0])


@pytest.fixture
def killed(tmp_path: Path) -> dict[str, bytes]:
    """The files of a killed collector: three commits succeeded; the fourth failed, but is in the journal."""
    store, _ = opened(tmp_path / "killed")
    for ids in (range(5), range(5, 9), range(9, 20)):
        store.commit(columns(ids))
    with (
        mock.patch.object(os, "fdatasync", side_effect=OSError(errno.EIO, "Input/output error")),
        pytest.raises(OSError, match="Input/output"),
    ):
        store.commit(columns(range(20, 24)))
    abandoned(store)
    return {path.name: path.read_bytes() for path in (tmp_path / "killed").iterdir()}


def next_start(folder: Path, left: dict[str, bytes]) -> tuple[list[int], list[LdpError]]:
    """Start a collector on these files, twice: the reports in its files, and all warnings."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in left.items():
        (folder / name).write_bytes(content)
    heard: list[LdpError] = []
    for _ in range(2):
        store = FileStore(folder, 10.0, 1 << 20, notice=heard.append)
        store.open()
        store.close()
    assert {path.name[:9] for path in folder.iterdir()} <= {".lock", ".damaged-", "reports-1"}
    return names(folder), heard


def named(left: dict[str, bytes], prefix: str) -> str:
    [name] = [name for name in left if name.startswith(prefix)]
    return name


def test_wherever_a_journal_is_cut_the_loss_of_an_answered_report_is_reported(
    tmp_path: Path, killed: dict[str, bytes]
) -> None:
    journal = named(killed, ".journal-")
    answered, whole = committed_size(killed[named(killed, ".committed-")]), killed[journal]
    assert 0 < answered < len(whole)
    for length in {*range(0, len(whole), 7), answered - 1, answered, len(whole)}:
        found, heard = next_start(tmp_path / "next", {**killed, journal: whole[:length]})
        assert len(heard) == (length < answered), length
        assert set(range(20)) <= set(found) or heard


@pytest.mark.parametrize("gone", [".journal-", ".committed-", ".reserve", ".lock"])
def test_each_deleted_file_is_noticed_or_harmless(
    tmp_path: Path, killed: dict[str, bytes], gone: str
) -> None:
    left = {name: content for name, content in killed.items() if not name.startswith(gone)}
    assert len(left) == len(killed) - 1
    found, heard = next_start(tmp_path / "next", left)
    assert ([found.code for found in heard], bool(found)) == (
        (["W-COLLECT-DAMAGED"], False) if gone == ".journal-" else ([], True)
    )
    if heard:
        assert named(killed, ".journal-") in str(heard[0])
        assert f"{committed_size(killed[named(killed, '.committed-')]):,} bytes" in str(heard[0])


def test_a_journal_that_is_deleted_under_a_running_collector_is_reported(tmp_path: Path) -> None:
    heard: list[LdpError] = []
    store = FileStore(tmp_path, 10.0, 1 << 20, notice=heard.append)
    store.open()
    store.commit(columns(range(5)))
    [journal] = tmp_path.glob(".journal-*")
    journal.unlink()
    store.publish()
    assert heard == []  # it is still being written to
    store.close()
    assert [found.code for found in heard] == ["W-COLLECT-DAMAGED"]
    assert store.damaged == 1
    assert not list(tmp_path.glob(".committed-*"))


def test_a_report_is_safe_without_the_size_of_its_journal(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    with mock.patch.object(os, "pwrite", side_effect=OSError(errno.ENOSPC, "No space left on device")):
        store.commit(columns(range(5)))
    store.close()
    assert names(tmp_path) == list(range(5))


class Disk:
    """A disk of so many bytes for one folder, as the store meets it."""

    def __init__(self, folder: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.size = folder, size
        put, write, allocate = file.write_file, stores._write, os.posix_fallocate

        def checked_put(path: Path, parts: list[bytes], mode: int) -> None:
            self.take(sum(map(len, parts)))
            put(path, parts, mode)

        def checked_write(descriptor: int, content: bytes) -> int:
            self.take(len(content))
            return write(descriptor, content)

        def checked_allocate(descriptor: int, start: int, length: int) -> None:
            self.take(length - os.fstat(descriptor).st_size)
            allocate(descriptor, start, length)

        monkeypatch.setattr(stores, "write_file", checked_put)
        monkeypatch.setattr(stores, "_write", checked_write)
        monkeypatch.setattr(os, "posix_fallocate", checked_allocate)
        monkeypatch.setattr(stores, "_STEP", 500)

    def take(self, more: int) -> None:
        if sum(path.stat().st_size for path in self.folder.iterdir()) + more > self.size:
            raise OSError(errno.ENOSPC, "No space left on device")


def test_a_collector_that_died_on_a_full_disk_starts_again_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reserve is what the last journal is finished in, before the kill and after it."""
    disk, heard = Disk(tmp_path, 20_000, monkeypatch), list[LdpError]()
    store = FileStore(tmp_path, 1e9, 4000, notice=heard.append)
    store.open()
    taken: list[int] = []
    with pytest.raises(OSError, match="No space"):
        for first in range(0, 10_000, 8):
            store.commit(columns(range(first % 200, first % 200 + 8), epoch=first))
            taken.append(first)
    assert len(taken) > 20
    abandoned(store)

    store = FileStore(tmp_path, 1e9, 4000, notice=heard.append)
    store.open()
    assert sorted({record[2] for record in records(tmp_path)}) == taken
    assert len(records(tmp_path)) == 8 * len(taken)
    with pytest.raises(OSError, match="No space"):
        for _ in range(1000):
            store.commit(columns(range(8), epoch=taken[-1]))
    disk.size -= 4000  # somebody else takes room as well
    abandoned(store)

    store = FileStore(tmp_path, 1e9, 4000, notice=heard.append)
    store.open()
    assert [found.code for found in heard][-1:] == ["E-DISK-FULL"]
    with pytest.raises(OSError, match="No space"):  # devices hear 503
        store.commit(columns(range(8)))
    disk.size = 1 << 20
    store.publish()
    store.commit(columns(range(8)))
    store.close()
    assert not list(tmp_path.glob(".journal-*"))
    assert not (tmp_path / ".reserve").exists()


def test_a_folder_is_forced_to_disk_after_each_name_that_comes_or_goes(tmp_path: Path) -> None:
    """Else a power cut could lose a file, or bring back the journal of one that was taken away."""
    done: list[str] = []

    def noted(name: str, real: Any) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            found = real(*given, **more)
            done.append(name)
            return found

        return call

    store, _ = opened(tmp_path)
    with (
        mock.patch.object(os, "replace", noted("rename", os.replace)),
        mock.patch.object(Path, "unlink", noted("unlink", Path.unlink)),
        mock.patch.object(stores, "sync_folder", noted("sync", sync_folder)),
        mock.patch.object(file, "sync_folder", noted("sync", sync_folder)),
    ):
        store.commit(columns(range(5)))
        store.close()
    # At the end goes what is kept for a full disk, which may come back.
    assert done == ["sync", "rename", "sync", "unlink", "unlink", "sync", "unlink"]


def test_a_disk_that_cannot_be_read_ends_the_start_and_lets_the_folder_go(tmp_path: Path) -> None:
    """Unlike one without room, which may have some later: the next collector finds the folder free."""
    store, _ = opened(tmp_path)
    store.commit(columns(range(5)))
    abandoned(store)
    with (
        mock.patch.object(stores, "write_file", side_effect=OSError(errno.EIO, "Input/output error")),
        pytest.raises((OSError, LdpError), match="Input/output"),
    ):
        opened(tmp_path)
    opened(tmp_path)[0].close()
    assert names(tmp_path) == list(range(5))


def test_a_journal_whose_name_may_not_last_takes_no_report(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    with (
        mock.patch.object(stores, "sync_folder", side_effect=OSError(errno.EIO, "Input/output error")),
        pytest.raises(OSError, match="Input/output"),
    ):
        store.commit(columns(range(5)))
    store.commit(columns(range(5, 9)))
    store.close()
    assert names(tmp_path) == list(range(5, 9))


def test_a_journal_is_finished_by_age_and_by_size(tmp_path: Path) -> None:
    store, time = opened(tmp_path, size=400)
    store.commit(columns(range(5)))
    store.publish()
    assert names(tmp_path) == []
    time.now += 10
    store.publish()
    assert names(tmp_path) == list(range(5))
    store.commit(columns(range(5, 100)))
    store.publish()
    assert names(tmp_path) == list(range(100))
    store.close()


def test_a_clock_that_is_set_back_begins_another_file(tmp_path: Path) -> None:
    """The name of a journal promises that nothing in it arrived earlier; whoever reads relies on it."""
    store, time = opened(tmp_path)
    store.commit(columns(range(5)))
    time.now -= 100
    store.commit(columns(range(5, 7)))
    store.close()
    found = sorted(path.name for path in tmp_path.glob("*.pb"))
    assert [files.started(name) for name in found] == [900, 1000]
    assert names(tmp_path) == list(range(7))


def test_two_collectors_do_not_share_a_folder(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    with pytest.raises(LdpError, match="another collector") as caught:
        opened(tmp_path)
    assert caught.value.code == "E-COLLECT-BUSY"
    store.close()
    opened(tmp_path)[0].close()


@pytest.mark.parametrize("call", ["write", "fdatasync", "open"])
def test_a_commit_that_fails_takes_nothing_along(tmp_path: Path, call: str) -> None:
    store, _ = opened(tmp_path)
    store.commit(columns(range(5)))
    if call == "open":
        store._seal()
    real = getattr(os, call)

    def refuse(*arguments: Any) -> object:
        if call == "write":
            real(arguments[0], bytes(arguments[1])[:7])  # a part of it is there
        raise OSError(errno.ENOSPC, "No space left on device")

    with mock.patch.object(os, call, refuse), pytest.raises(OSError, match="No space"):
        store.commit(columns(range(5, 9)))
    store.commit(columns(range(9, 12)))
    store.close()
    # Where only the sync failed the kernel may have it all; its devices send it again, and it counts once.
    extra = list(range(5, 9)) if call == "fdatasync" else []
    assert names(tmp_path) == sorted([*range(5), *extra, *range(9, 12)])


def test_files_are_not_for_everybody(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store, _ = opened(tmp_path / "new")
        store.commit(columns(range(5)))
        [journal] = tmp_path.glob("new/.journal-*")
        assert journal.stat().st_mode & 0o777 == 0o600
        store.close()
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o750
    [path] = tmp_path.glob("new/*.pb")
    assert path.stat().st_mode & 0o777 == 0o640


def test_the_reserve_has_room_for_a_journal_that_could_not_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_STEP", 1)
    store, time = opened(tmp_path)
    store.commit(columns(range(200)))
    time.now += 10
    full = OSError(errno.ENOSPC, "No space left on device")
    with mock.patch.object(stores, "write_file", side_effect=full), pytest.raises(OSError, match="No space"):
        store.publish()
    [journal] = tmp_path.glob(".journal-*")
    size = journal.stat().st_size
    store.commit(columns(range(5)))
    assert (tmp_path / ".reserve").stat().st_size == size
    store.close()
