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
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.admission import Parts, ReportColumns, put_together
from ldpbeam.arrays import read_only
from ldpbeam.dedup import keep_one_per_id, secret_key, shard_columns
from ldpbeam.errors import LdpError
from ldpbeam.transforms.stages import columns_on_disk
from ldpbeam.transforms.stages.columns_on_disk import (
    GatheredColumns,
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
    with GatheredColumns(waiting) as reports:
        found = list(reports.columns())
        assert len(reports) == sum(map(len, found))
    return found


def test_what_is_beyond_the_limit_waits_on_disk(tmp_path: Path) -> None:
    """Two batches fit, the third is beyond; what is gathered is what was put in, shard by shard."""
    batches = [columns(100, epoch) for epoch in (0, 0, 1, 0, 1)]
    shard = ShardWithSpill(2, Spill(str(tmp_path / "spilled"), 2 * 100 * 13))
    given = bundle(shard, batches)
    shard.teardown()
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "spilled").iterdir()] == [0o600]
    wanted: dict[Shard, list[ReportColumns]] = {}
    for batch in batches:
        for at, part in shard_columns(batch, 2):
            wanted.setdefault((("a", batch.epoch), at), []).append(part)
    # The two of epoch 0 that fit are elements by themselves; of the rest there is one for each shard.
    groups = by_shard(given)
    assert groups.keys() == wanted.keys()
    for key, some in groups.items():
        assert [isinstance(one.held, ReportColumns) for one in some] == (
            [True, True, False] if key[0][1] == 0 else [False]
        )
        assert same(put_together(gathered(some)), put_together(wanted[key]))


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=1, max_size=9), min_size=1),
    st.integers(0, 3),
    st.integers(0, 60),
    st.integers(1, 12),
    st.integers(0, 2**63 - 1).map(lambda x: 2 * x + 1),
    st.integers(1, 20),
)
def test_one_report_per_id_of_what_waits_as_of_columns(
    parts: list[list[tuple[int, int]]], bits: int, above: int, block: int, key: int, at_once: int
) -> None:
    batches = [
        ReportColumns(
            7,
            3,
            np.array([i for i, _ in part], np.uint64),
            read_only(np.array([[p] for _, p in part], np.uint8)),
        )
        for part in parts
    ]
    wanted = keep_one_per_id(batches, key)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(columns_on_disk, "_BLOCK", block)
        patch.setattr(columns_on_disk, "_IDS", at_once)
        groups = by_shard(bundle(ShardWithSpill(bits, Spill(f"{folder}/spilled", above)), batches))
        stayed: list[tuple[int, bytes]] = []
        duplicate = conflicting = 0
        for waiting in groups.values():
            with GatheredColumns(waiting) as reports:
                found = reports.keep_one_per_id(key)
                for part in reports.columns():
                    assert len(part)
                    stayed += zip(part.report_ids.tolist(), map(bytes, part.payloads), strict=True)
                duplicate, conflicting = duplicate + found[0], conflicting + found[1]
    pairs = zip(wanted.columns.report_ids.tolist(), map(bytes, wanted.columns.payloads), strict=True)
    assert sorted(stayed) == sorted(pairs)
    assert (duplicate, conflicting) == wanted[1:]


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
    with GatheredColumns([waiting]) as reports:
        assert len(reports) == 100
    (path,) = tmp_path.iterdir()
    os.truncate(path, 8 * 100 + 5 * 99)
    with GatheredColumns([waiting]) as reports, pytest.raises(LdpError, match="E-RUN-FILES"):
        list(reports.columns())
    os.truncate(path, 8 * 99)
    with pytest.raises(LdpError, match="E-RUN-FILES"), GatheredColumns([waiting]) as reports:
        reports.keep_one_per_id(secret_key())
    path.unlink()
    with pytest.raises(LdpError, match="E-RUN-FILES") as caught, GatheredColumns([waiting]) as reports:
        reports.keep_one_per_id(secret_key())
    assert caught.value.where == str(path)
    assert "a file of reports was changed or taken away before they were counted" in str(caught.value)
    assert descriptors() <= opened


def test_every_byte_of_what_a_step_has_written_is_checked_before_it_is_counted(tmp_path: Path) -> None:
    """Kernels rely on bytes that have been judged, and would write anywhere for others."""
    step = ShardWithSpill(2, Spill(str(tmp_path), 0))
    waiting = [one for _, one in bundle(step, [columns(20), columns(9)])]
    step.teardown()
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    assert len(content) == 29 * (8 + 5)
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with pytest.raises(LdpError, match="E-RUN-FILES"), GatheredColumns(waiting) as reports:
            list(reports.columns())
    path.write_bytes(content)
    assert sum(map(len, gathered(waiting))) == 29


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
    monkeypatch.setattr(io, "FileIO", Halting)
    asked = columns(9)
    ((_, waiting),) = bundle(ShardWithSpill(0, Spill(str(tmp_path), 0)), [asked])
    assert same(gathered([waiting])[0], asked)
