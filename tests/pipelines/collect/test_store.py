"""The journal and the files made of it: what was committed survives whatever happens to the rest."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from ldpbeam.admission import ReportColumns
from ldpbeam.errors import LdpError
from ldpbeam.pipelines.collect import folder as files
from ldpbeam.pipelines.collect import store as stores
from ldpbeam.pipelines.collect.store import FileStore
from tests.pipelines.collect.serving import ONE, TWO, names, records


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
    store._unlock()


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


def test_a_second_of_an_epoch_is_one_batch_in_the_order_of_ids(tmp_path: Path) -> None:
    """Nothing says which came first, or which came together."""
    contents = []
    for run, order in enumerate(([range(4), range(4, 9)], [range(4, 9), range(4)], [range(9)])):
        store, _ = opened(tmp_path / str(run))
        for some in order:
            store.commit(columns(some))
        store.close()
        contents += [path.read_bytes() for path in (tmp_path / str(run)).glob("*.pb")]
    assert len(set(contents)) == 1
    assert len(contents) == 3


def test_a_killed_collectors_journal_becomes_a_file(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    store.commit(columns(range(5)))
    abandoned(store)
    assert names(tmp_path) == []
    (tmp_path / ".reports-x.pb.tmp").write_bytes(b"half")
    store, _ = opened(tmp_path)
    assert names(tmp_path) == list(range(5))
    assert not list(tmp_path.glob(".journal-*"))
    assert not list(tmp_path.glob("*.tmp"))
    store.close()
    assert names(tmp_path) == list(range(5))


def test_wherever_a_journal_is_torn_whole_commits_survive_and_nothing_is_invented(tmp_path: Path) -> None:
    store, _ = opened(tmp_path / "whole")
    ends = []
    for first in (0, 10, 20):
        store.commit(columns(range(first, first + 3)))
        ends += [path.stat().st_size for path in (tmp_path / "whole").glob(".journal-*")]
    [journal] = (tmp_path / "whole").glob(".journal-*")
    content = journal.read_bytes()
    store.close()
    for cut in range(len(content) + 1):
        for tail in (b"", bytes(len(content) - cut)):
            whole = sum(end <= cut for end in ends)
            torn = content[:cut] + tail
            if torn[: ends[2]] == content:
                whole = 3  # what was cut off were zeros
            found = [second for second, _ in files.read_entries(torn)]
            assert len(found) == max(whole, sum(torn[:end] == content[:end] for end in ends)), cut
    for at in range(len(content)):
        damaged = content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]
        assert len(list(files.read_entries(damaged))) == sum(end <= at for end in ends)


@pytest.mark.parametrize("point", ["before", "put", "unlink"])
def test_a_kill_while_a_journal_is_finished_leaves_one_of_each_report(tmp_path: Path, point: str) -> None:
    class Killed(BaseException):
        pass

    store, _ = opened(tmp_path)
    store.commit(columns(range(5)))
    target = {"before": (stores, "file_content"), "put": (files, "sync"), "unlink": (Path, "unlink")}[point]
    with mock.patch.object(*target, side_effect=Killed), pytest.raises(Killed):
        store.close()
    opened(tmp_path)[0].close()
    assert names(tmp_path) == list(range(5))
    assert sorted(path.name[0] for path in tmp_path.iterdir()) == [".", "r"]


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


def test_a_folder_is_forced_to_disk_after_each_name_that_comes_or_goes(tmp_path: Path) -> None:
    """Else a power cut could lose a file, or bring back the journal of one that was taken away."""
    done: list[str] = []
    reals = {name: getattr(Path, name) for name in ("rename", "unlink")}

    def noted(name: str) -> Callable[..., object]:
        def call(path: Path, *given: object, **more: object) -> object:
            found: object = reals[name](path, *given, **more)
            done.append(name)
            return found

        return call

    def synced(real: Callable[[Path], None]) -> Callable[[Path], None]:
        def call(folder: Path) -> None:
            real(folder)
            done.append("sync")

        return call

    store, _ = opened(tmp_path)
    with (
        mock.patch.object(Path, "rename", noted("rename")),
        mock.patch.object(Path, "unlink", noted("unlink")),
        mock.patch.object(stores, "sync", synced(stores.sync)),
        mock.patch.object(files, "sync", synced(files.sync)),
    ):
        store.commit(columns(range(5)))
        assert done == ["sync"]  # the journal is there
        store.close()
    assert done[1:] == ["rename", "sync", "unlink", "sync"]


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


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    with mock.patch.object(files.secrets, "token_hex", return_value="same"):
        store, time = opened(tmp_path)
        store.commit(columns(range(5)))
        time.now += 10
        store.publish()
        time.now -= 10
        before = {path.name: path.read_bytes() for path in tmp_path.glob("*.pb")}
        store.commit(columns(range(5, 9)))
        store.close()
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.pb")} == before


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

    def refuse(*arguments: object) -> object:
        if call == "write":
            real(arguments[0], bytes(arguments[1])[:7])  # a part of it is there
        raise OSError(errno.ENOSPC, "No space left on device")

    with mock.patch.object(stores.os, call, refuse), pytest.raises(OSError, match="No space"):
        store.commit(columns(range(5, 9)))
    store.commit(columns(range(9, 12)))
    store.close()
    # Where only the sync failed the kernel may have it all; its devices send it again, and it counts once.
    extra = list(range(5, 9)) if call == "fdatasync" else []
    assert names(tmp_path) == sorted([*range(5), *extra, *range(9, 12)])


def test_a_disk_that_takes_no_file_keeps_the_journal(tmp_path: Path) -> None:
    store, time = opened(tmp_path)
    store.commit(columns(range(5)))
    time.now += 10
    with (
        mock.patch.object(files.os, "fsync", side_effect=OSError(errno.ENOSPC, "full")),
        pytest.raises(OSError, match="full"),
    ):
        store.publish()
    assert not list(tmp_path.glob("*.tmp"))
    store.publish()
    assert names(tmp_path) == list(range(5))
    store.close()


def test_files_are_not_for_everybody(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store, _ = opened(tmp_path)
        store.commit(columns(range(5)))
        [journal] = tmp_path.glob(".journal-*")
        assert journal.stat().st_mode & 0o777 == 0o600
        store.close()
    finally:
        os.umask(before)
    [path] = tmp_path.glob("*.pb")
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.thorough
def test_large_commits_stay_below_the_longest_record(tmp_path: Path) -> None:
    store, _ = opened(tmp_path, size=1 << 30)
    n = 400_000
    ids = np.arange(n, dtype=np.uint64)
    width = TWO.protocol.payload_size
    with mock.patch.object(files.codec, "MAX_RECORD", 1 << 20):
        store.commit([ReportColumns(TWO.digest, 1, ids, np.zeros((n, width), np.uint8))])
        store.close()
    [path] = tmp_path.glob("*.pb")
    found = files.codec.frames(np.frombuffer(path.read_bytes(), np.uint8))
    assert found.lengths.size > 10
    assert int(found.lengths.max()) < 1 << 19
    assert len(records(tmp_path)) == n
