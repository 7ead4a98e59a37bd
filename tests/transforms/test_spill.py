"""Columns that wait on disk come back as they were, and a disk that takes none is a message for people."""

from __future__ import annotations

import errno
import io
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from apache_beam import coders
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.arrays import read_only
from ldpbeam.dedup import keep_one_per_id, repeated, shard_columns
from ldpbeam.errors import LdpError
from ldpbeam.reports import Parts, ReportColumns, put_together
from ldpbeam.transforms.coders import ReportColumnsCoder
from ldpbeam.transforms.stages import spill as spilling
from ldpbeam.transforms.stages.spill import (
    Gathered,
    Places,
    Shard,
    ShardWithSpill,
    Spill,
    WaitingColumns,
    WaitingColumnsCoder,
)

WHEN, WINDOW = Timestamp(7), IntervalWindow(0, 8)


def columns(reports: int, epoch: int = 3, width: int = 5, digest: int = 2**64 - 1) -> ReportColumns:
    draw = np.random.Generator(np.random.Philox(reports + 1000 * epoch))
    ids = draw.integers(0, 1 << 64, reports, np.uint64)
    return ReportColumns(digest, epoch, ids, draw.integers(0, 256, (reports, width), np.uint8))


def same(one: ReportColumns, other: ReportColumns) -> bool:
    return (
        (one.digest, one.epoch) == (other.digest, other.epoch)
        and np.array_equal(one.report_ids, other.report_ids)
        and np.array_equal(one.payloads, other.payloads)
    )


def bundle(step: ShardWithSpill, batches: Iterable[ReportColumns]) -> list[tuple[Shard, WaitingColumns]]:
    """What a step gives for a bundle, at its end too; the key says the epoch."""
    step.start_bundle()
    found = [each for b in batches for each in step.process((("a", b.epoch), Parts([b])), WHEN, WINDOW)]
    for late in step.finish_bundle():
        assert (late.timestamp, late.windows) == (WHEN, (WINDOW,))
        found.append(late.value)
    return found


def by_shard(given: Iterable[tuple[Shard, WaitingColumns]]) -> dict[Shard, list[WaitingColumns]]:
    """What a runner would gather, once it has been encoded and decoded."""
    coder = WaitingColumnsCoder()
    groups: dict[Shard, list[WaitingColumns]] = {}
    for shard, waiting in given:
        groups.setdefault(shard, []).append(coder.decode(coder.encode(waiting)))
    return groups


def gathered(waiting: Sequence[WaitingColumns]) -> list[ReportColumns]:
    with Gathered(waiting) as reports:
        found = list(reports.columns_without(np.empty(0, np.int64)))
        assert np.array_equal(reports.ids, np.concatenate([part.report_ids for part in found]))
    return found


@given(st.integers(0, 40), st.integers(-(2**63), 2**63 - 1), st.integers(0, 3), st.integers(0, 2**64 - 1))
def test_columns_travel_as_they_are(reports: int, epoch: int, width: int, digest: int) -> None:
    asked = ReportColumns(
        digest, epoch, np.arange(reports, dtype=np.uint64), np.full((reports, width), 255, np.uint8)
    )
    coder = WaitingColumnsCoder()
    found = coder.decode(coder.encode(WaitingColumns(asked)))
    assert found.places is None
    assert found.columns is not None
    assert same(found.columns, asked)


@given(
    st.binary(min_size=1, max_size=9),
    st.integers(0, 2**64 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 300),
    st.lists(st.tuples(*[st.integers(0, 2**62)] * 3), max_size=4),
)
def test_places_travel_as_they_are(
    path: bytes, digest: int, epoch: int, width: int, parts: list[tuple[int, int, int]]
) -> None:
    table = np.array(parts, np.int64).reshape(-1, 3)
    asked = Places(os.fsdecode(b"/x/" + path.replace(b"\0", b"")), digest, epoch, width, table)
    coder = WaitingColumnsCoder()
    found = coder.decode(coder.encode(WaitingColumns(places=asked)))
    assert found.columns is None
    back = found.places
    assert back is not None
    assert (back.path, back.digest, back.epoch, back.width) == (asked.path, digest, epoch, width)
    assert np.array_equal(back.table, table)


def test_nothing_is_encoded_for_the_sake_of_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam asks for sizes of elements now and then; it would encode them to find out."""
    coder = coders.TupleCoder((coders.StrUtf8Coder(), WaitingColumnsCoder()))
    asked = WaitingColumns(columns(1000))
    exactly = len(coder.encode(("a", asked)))
    for kind in (WaitingColumnsCoder, ReportColumnsCoder):
        monkeypatch.setattr(kind, "encode", lambda *_: pytest.fail("encoded"))
    assert abs(coder.estimate_size(("a", asked)) - exactly) < 100
    places = WaitingColumns(places=Places("/x", 1, 2, 3, np.zeros((500, 3), np.int64)))
    assert 12_000 < coder.estimate_size(("a", places)) < 12_200


@pytest.mark.parametrize("bits", [0, 2])
def test_what_is_beyond_the_limit_waits_on_disk(bits: int, tmp_path: Path) -> None:
    """Two batches fit, the third is beyond; what is gathered is what was put in, shard by shard."""
    batches = [columns(100, epoch) for epoch in (0, 0, 1, 0, 1)]
    shard = ShardWithSpill(bits, Spill(str(tmp_path / "spilled"), 2 * 100 * 13))
    given = bundle(shard, batches)
    shard.teardown()
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "spilled").iterdir()] == [0o600]
    wanted: dict[Shard, list[ReportColumns]] = {}
    for batch in batches:
        for at, part in shard_columns(batch, bits):
            wanted.setdefault((("a", batch.epoch), at), []).append(part)
    # The two of epoch 0 that fit are elements by themselves; of the rest there is one for each shard.
    groups = by_shard(given)
    assert groups.keys() == wanted.keys()
    for key, some in groups.items():
        assert [one.places is None for one in some] == ([True, True, False] if key[0][1] == 0 else [False])
        assert same(put_together(gathered(some)), put_together(wanted[key]))


@pytest.mark.parametrize("limit", [1, 203, 250, 1 << 16])
def test_payloads_are_read_in_blocks(limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts in a row, as many as make up a block; what is left out is left out of its own block."""
    monkeypatch.setattr(spilling, "_BLOCK", limit)
    step = ShardWithSpill(0, Spill(str(tmp_path), 1300))
    batches = [columns(n, 3) for n in (100, 101, 102, 103, 1)]
    waiting = [one for _, one in bundle(step, batches)]
    whole = put_together(batches)
    with Gathered(waiting) as reports:
        sizes = {1: [100, 101, 102, 103, 1], 203: [100, 203, 104], 250: [100, 306, 1]}.get(limit, [100, 307])
        assert [len(part) for part in reports.columns_without(np.empty(0, np.int64))] == sizes
        rows = np.array([0, 99, 100, 200, 201, 303, 405])
        assert np.array_equal(reports.payloads_of(rows), whole.payloads[rows])
        left = put_together(list(reports.columns_without(rows)))
        assert np.array_equal(left.payloads, np.delete(whole.payloads, rows, 0))
        assert np.array_equal(left.report_ids, np.delete(whole.report_ids, rows))
        # A block of which nothing is left does not exist.
        everything = np.arange(100, 407)
        assert [len(part) for part in reports.columns_without(everything)] == [100]


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=1, max_size=9), min_size=1),
    st.integers(0, 3),
    st.integers(0, 60),
    st.integers(1, 12),
    st.integers(0, 2**63 - 1).map(lambda x: 2 * x + 1),
)
def test_one_report_per_id_of_what_waits_as_of_columns(
    parts: list[list[tuple[int, int]]], bits: int, above: int, block: int, key: int
) -> None:
    """The same reports stay, in memory or on disk, and the same numbers are left out, as of columns."""
    batches = [
        ReportColumns(
            7,
            3,
            np.array([i for i, _ in part], np.uint64),
            read_only(np.array([[p] for _, p in part], np.uint8)),
        )
        for part in parts
    ]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(spilling, "_BLOCK", block)
        groups = by_shard(bundle(ShardWithSpill(bits, Spill(folder, above)), batches))
        stayed: list[tuple[int, bytes]] = []
        duplicate = conflicting = 0
        for waiting in groups.values():
            with Gathered(waiting) as reports:
                found = repeated(reports.ids, reports.payloads_of, key)
                for part in reports.columns_without(found.rows):
                    assert len(part)
                    stayed += zip(part.report_ids.tolist(), map(bytes, part.payloads), strict=True)
                duplicate, conflicting = duplicate + found.duplicate, conflicting + found.conflicting
    wanted = keep_one_per_id(batches, key)
    pairs = zip(wanted.columns.report_ids.tolist(), map(bytes, wanted.columns.payloads), strict=True)
    assert sorted(stayed) == sorted(pairs)
    assert (duplicate, conflicting) == wanted[1:]


def test_two_files_are_read_in_the_order_of_their_places(tmp_path: Path) -> None:
    """Steps that run side by side have a file each; a group holds places of both in any order."""
    spill = Spill(str(tmp_path), 0)
    one, other = ShardWithSpill(0, spill), ShardWithSpill(0, spill)
    batches = [columns(n) for n in (1, 2, 3, 4)]
    places = [
        waiting
        for step, batch in zip((one, other) * 2, batches, strict=True)
        for _, waiting in bundle(step, [batch])
    ]
    found, back = gathered(places), gathered(places[::-1])
    assert sorted(len(part) for part in found) == [1, 2, 3, 4]
    assert all(same(part, batches[len(part) - 1]) for part in found)
    assert [len(part) for part in back] == [len(part) for part in found]


def test_a_bundle_that_is_begun_again_says_nothing_of_the_first_time(tmp_path: Path) -> None:
    step = ShardWithSpill(0, Spill(str(tmp_path), 0))
    step.start_bundle()
    assert not list(step.process((("a", 3), Parts([columns(5)])), WHEN, WINDOW))
    ((_, waiting),) = bundle(step, [columns(9)])
    assert same(put_together(gathered([waiting])), columns(9))
    assert bundle(step, []) == []


def test_reports_of_an_epoch_stay_in_its_window(tmp_path: Path) -> None:
    """What is said at the end of a bundle has the window that the columns had, whatever came last."""
    step = ShardWithSpill(0, Spill(str(tmp_path), 0))
    for epoch in (0, 1):
        window = IntervalWindow(8 * epoch, 8 * epoch + 8)
        list(step.process((("a", epoch), Parts([columns(5, epoch)])), Timestamp(8 * epoch + 7), window))
    found = {each.value[0][0][1]: each for each in step.finish_bundle()}
    assert {epoch: (each.timestamp, each.windows) for epoch, each in found.items()} == {
        epoch: (Timestamp(8 * epoch + 7), (IntervalWindow(8 * epoch, 8 * epoch + 8),)) for epoch in (0, 1)
    }


def descriptors() -> set[str]:
    """What this process has open, where the system says so."""
    folder = Path("/proc/self/fd")
    return (
        {str(each.readlink()) for each in folder.iterdir() if each.is_symlink()} if folder.is_dir() else set()
    )


def test_files_are_closed_whatever_happens(tmp_path: Path) -> None:
    """A file that has lost its end is no file of fewer reports; nothing stays open behind an error."""
    step = ShardWithSpill(0, Spill(str(tmp_path), 0))
    ((_, waiting),) = bundle(step, [columns(100)])
    step.teardown()
    opened = descriptors()
    with Gathered([waiting]) as reports:
        assert reports.ids.size == 100
    (path,) = tmp_path.iterdir()
    os.truncate(path, 8 * 100 + 5 * 99)
    with Gathered([waiting]) as reports, pytest.raises(OSError, match="shorter"):
        list(reports.columns_without(np.empty(0, np.int64)))
    os.truncate(path, 8 * 99)
    with pytest.raises(OSError, match="shorter"), Gathered([waiting]):
        pass
    assert descriptors() <= opened


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(LdpError) as caught:
        bundle(ShardWithSpill(0, Spill(str(tmp_path), 0)), [columns(5)])
    assert caught.value.code == "E-DISK-FULL"
    assert caught.value.where.startswith(str(tmp_path))


def test_writing_and_reading_that_take_a_part_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.write

    class Halting(io.FileIO):
        def readinto(self, buffer: Any) -> int:
            return super().readinto(memoryview(buffer)[:7])

    monkeypatch.setattr(os, "write", lambda descriptor, data: whole(descriptor, bytes(data)[:7]))
    monkeypatch.setattr(spilling.io, "FileIO", Halting)
    asked = columns(9)
    ((_, waiting),) = bundle(ShardWithSpill(0, Spill(str(tmp_path), 0)), [asked])
    assert same(gathered([waiting])[0], asked)


def test_ids_that_lie_anywhere_in_a_files_bytes_are_written(tmp_path: Path) -> None:
    """Columns that are not split keep the memory that they were read into, unaligned and read-only."""
    ids = np.frombuffer(b"abc" + np.arange(9, dtype="<u8").tobytes(), np.uint8)[3:].view("<u8")
    asked = ReportColumns(1, 3, ids, read_only(np.arange(18, dtype=np.uint8).reshape(9, 2)))
    ((_, waiting),) = bundle(ShardWithSpill(0, Spill(str(tmp_path), 0)), [asked])
    assert same(gathered([waiting])[0], asked)
