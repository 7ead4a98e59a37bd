"""Columns that wait on disk come back as they were, and a disk that takes none is a message for people."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.dedup import shard_columns
from ldpbeam.errors import LdpError
from ldpbeam.reports import ReportColumns
from ldpbeam.transforms.stages.reports import EpochKey
from ldpbeam.transforms.stages.spill import (
    ShardWithSpill,
    Spill,
    WaitingColumns,
    WaitingColumnsCoder,
    gathered,
)


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


@given(st.integers(0, 40), st.integers(-(2**63), 2**63 - 1), st.integers(0, 3), st.integers(0, 2**64 - 1))
def test_columns_travel_as_they_are(reports: int, epoch: int, width: int, digest: int) -> None:
    asked = ReportColumns(
        digest, epoch, np.arange(reports, dtype=np.uint64), np.full((reports, width), 255, np.uint8)
    )
    coder = WaitingColumnsCoder()
    found = coder.decode(coder.encode(WaitingColumns(asked)))
    assert found.columns is not None
    assert same(found.columns, asked)


def test_a_place_travels_as_it_is() -> None:
    coder, place = WaitingColumnsCoder(), WaitingColumns(None, os.fsdecode(b"/x/\xff y"), 2**40, 77)
    assert coder.decode(coder.encode(place)) == place


@pytest.mark.parametrize("bits", [0, 2])
def test_what_is_beyond_the_limit_waits_on_disk(bits: int, tmp_path: Path) -> None:
    """Two batches fit, the third is beyond; what is gathered is what was put in, shard by shard."""
    batches = [columns(100, epoch) for epoch in (0, 0, 1, 0, 1)]
    shard = ShardWithSpill(bits, Spill(str(tmp_path / "spilled"), 2 * 100 * 13))
    groups: dict[tuple[EpochKey, int], list[WaitingColumns]] = {}
    for number, batch in enumerate(batches):
        for key, waiting in shard.process((("a", batch.epoch), batch)):
            assert (waiting.columns is None) == (number >= 2)
            groups.setdefault(key, []).append(waiting)
    shard.teardown()
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "spilled").iterdir()] == [0o600]
    wanted: dict[tuple[EpochKey, int], list[ReportColumns]] = {}
    for batch in batches:
        for at, part in shard_columns(batch, bits):
            wanted.setdefault((("a", batch.epoch), at), []).append(part)
    assert groups.keys() == wanted.keys()
    for key, some in groups.items():
        found = gathered(some)
        assert len(found) == len(wanted[key])
        assert all(map(same, found, wanted[key]))


def test_two_files_are_read_in_the_order_of_their_places(tmp_path: Path) -> None:
    """Steps that run side by side have a file each; a group holds places of both in any order."""
    spill = Spill(str(tmp_path), 0)
    one, other = ShardWithSpill(0, spill), ShardWithSpill(0, spill)
    batches = [columns(n) for n in (1, 2, 3, 4)]
    key = ("a", 0)
    places = [w for step, b in zip((one, other) * 2, batches, strict=True) for _, w in step.process((key, b))]
    found = gathered(reversed(places))
    assert sorted(len(part) for part in found) == [1, 2, 3, 4]
    assert all(same(part, batches[len(part) - 1]) for part in found)


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(LdpError) as caught:
        list(ShardWithSpill(0, Spill(str(tmp_path), 0)).process((("a", 0), columns(5))))
    assert caught.value.code == "E-DISK-FULL"
    assert caught.value.where.startswith(str(tmp_path))


def test_a_write_that_takes_half_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: whole(descriptor, bytes(data)[:7]))
    asked = columns(9)
    places = [waiting for _, waiting in ShardWithSpill(0, Spill(str(tmp_path), 0)).process((("a", 3), asked))]
    assert same(gathered(places)[0], asked)
