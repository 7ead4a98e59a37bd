"""Counts that wait on disk are the same counts, and what travels in their stead is small."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ldpbeam.accounting import Account, CountedEpoch
from ldpbeam.admission import Parts, ReportColumns
from ldpbeam.arrays import read_only
from ldpbeam.collection.collection import Collection
from ldpbeam.epoch_result import count_support
from ldpbeam.errors import LdpError
from ldpbeam.histogram import estimate_counted
from ldpbeam.job.config import RunConfig
from ldpbeam.pipelines import run_files
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.simulators.deliver.files import write_reports
from ldpbeam.support import Support, UncountedReports
from ldpbeam.transforms.stages import counts_on_disk
from ldpbeam.transforms.stages.count_windows import counter
from ldpbeam.transforms.stages.counts_on_disk import (
    CountsOnDisk,
    CountWithSpill,
    WaitingCount,
    WaitingCountCoder,
)
from ldpbeam.transforms.stages.support import CountSupportOfEach
from tests.pipelines.running import collection, execute

WIDE = collection("grr", 100_000, "wide", parameters=Parameters(epsilon=8.0))
"""Its counts take 800 kB in memory."""
_TWO = Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0, g=11, hash_family="linear")
HASHED = collection("loloha", 8_000, "hashed", parameters=_TWO)
"""Its table has 11^5 cells less 11, and its payloads three bytes."""


def values(agreed: Collection, reports: int, seed: int, epoch: int = 3) -> ReportColumns:
    """Reports with responses of any kind, below the number of cells."""
    draw = np.random.default_rng(seed)
    cells = draw.integers(0, min(agreed.protocol.counter.counts_length, 1 << 24), reports).astype("<u4")
    payloads = cells.view(np.uint8).reshape(-1, 4)[:, : agreed.protocol.device.payload_size]
    ids = draw.integers(0, 1 << 63, reports).astype(np.uint64)
    return ReportColumns(agreed.digest, epoch, ids, read_only(payloads))


def with_spill(folder: Path, *collections: Collection) -> CountWithSpill:
    return CountWithSpill(CountSupportOfEach(collections), str(folder))


def travelled(waiting: WaitingCount) -> WaitingCount:
    coder = WaitingCountCoder()
    return coder.decode(coder.encode(waiting))


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def test_the_place_of_counts_travels_in_their_stead(tmp_path: Path) -> None:
    """A hundred thousand values cross both boundaries of stages as some hundred bytes."""
    count, coder = with_spill(tmp_path / "new", WIDE), WaitingCountCoder()
    batch = values(WIDE, 50, 1)
    waiting = count.compact(count.add_input(count.create_accumulator(), Parts([batch])))
    assert len(coder.encode(waiting)) == coder.estimate_size(waiting) < 500
    merged = count.merge_accumulators([WaitingCount(), travelled(waiting), WaitingCount()])
    output = count.extract_output(merged)
    assert isinstance(output, CountsOnDisk)
    assert len(pickle.dumps(output)) < 500
    assert (output.reports, len(files(tmp_path / "new"))) == (50, 1)
    assert output.counted(WIDE.protocol.counter) == count_support(WIDE, [batch])
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files(tmp_path / "new"))
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_small_accumulators_and_none_are_in_no_file(tmp_path: Path) -> None:
    """Nor is there a folder for them."""
    few = collection("grr", 11)
    count, coder = with_spill(tmp_path / "new", few), WaitingCountCoder()
    empty = count.create_accumulator()
    assert travelled(count.compact(empty)).held is None
    assert coder.estimate_size(empty) == len(coder.encode(empty)) == 1
    assert count.merge_accumulators([]).held is None
    assert count.merge_accumulators([empty, WaitingCount()]).held is None
    assert count.extract_output(empty) is None
    batch = values(few, 0, 1)
    waiting = travelled(count.compact(count.add_input(empty, Parts([batch]))))
    assert coder.estimate_size(waiting) >= len(coder.encode(waiting))
    assert count.extract_output(count.merge_accumulators([waiting, WaitingCount()])) == count_support(
        few, [batch]
    )
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("agreed", [WIDE, HASHED], ids=["counts", "payloads"])
@pytest.mark.parametrize("room", [0, 1 << 20, 1 << 30])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_order_room_and_merges_do_not_matter(
    agreed: Collection,
    room: int,
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[tuple[int, int]],
    draw: Any,
) -> None:
    """Epochs by turns, in whatever room there is; merged in any order, and once more as after a retry."""
    folder = tmp_path_factory.mktemp("spilled")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(counts_on_disk, "_IN_MEMORY", room)
        patched.setattr(counts_on_disk, "_SMALL", 1)
        patched.setattr("ldpbeam.support.LARGE_TABLE", 1 << 17)
        count = with_spill(folder, WIDE, HASHED)
        batches = [values(agreed, n, seed) for seed, (_, n) in enumerate(sizes)]
        table: dict[int, WaitingCount] = {}
        for (key, _), batch in zip(sizes, batches, strict=True):
            waiting = table.pop(key, None) or count.create_accumulator()
            table[key] = count.add_input(waiting, Parts([batch]))
            # An accumulator that was read into memory again has left nothing behind.
            on_disk = [w for w in table.values() if isinstance(w.held, CountsOnDisk)]
            assert len(files(folder)) == len(on_disk)
        parts = [travelled(count.compact(waiting)) for waiting in table.values()]
        assert not count._sizes
        assert count._bytes == 0
        draw.shuffle(parts)
        wanted = count_support(agreed, batches)
        for _ in range(2):
            middle = draw.randrange(len(parts) + 1)
            halves = [count.merge_accumulators(iter(half)) for half in (parts[:middle], parts[middle:])]
            found = count.extract_output(count.merge_accumulators(map(travelled, halves)))
            assert found is not None
            assert found.reports == wanted.reports
            assert (found if isinstance(found, Support) else found.counted(agreed.protocol.counter)) == wanted


def test_what_was_used_longest_ago_leaves_memory_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as there is no room; the one that is used stays, however large it is."""
    monkeypatch.setattr(counts_on_disk, "_IN_MEMORY", 2 * 800_000)
    count = with_spill(tmp_path, WIDE)
    first, second, third = (count.create_accumulator() for _ in range(3))
    for waiting in (first, second, first):
        count.add_input(waiting, Parts([values(WIDE, 3, 1)]))
    assert not files(tmp_path)
    count.add_input(third, Parts([values(WIDE, 3, 1)]))
    assert [isinstance(each.held, CountsOnDisk) for each in (first, second, third)] == [False, True, False]
    count.add_input(second, Parts([values(WIDE, 3, 1)]))
    assert [isinstance(each.held, CountsOnDisk) for each in (first, second, third)] == [True, False, False]
    monkeypatch.setattr(counts_on_disk, "_IN_MEMORY", 0)
    count.add_input(second, Parts([values(WIDE, 3, 1)]))
    assert [isinstance(each.held, CountsOnDisk) for each in (first, second, third)] == [True, False, True]
    outputs = map(count.extract_output, (first, second, third))
    assert [output and output.reports for output in outputs] == [6, 9, 3]


def test_a_file_that_others_know_of_stays(tmp_path: Path) -> None:
    """Adding to the sum of one accumulator leaves that one as it was."""
    count = with_spill(tmp_path, WIDE)
    batch = values(WIDE, 3, 1)
    waiting = count.compact(count.add_input(count.create_accumulator(), Parts([batch])))
    more = count.add_input(count.merge_accumulators([waiting]), Parts([batch]))
    assert more.read() == count_support(WIDE, [batch, batch])
    assert waiting.read() == count_support(WIDE, [batch])
    # Nor may what has left the step be taken away because it was on disk before it left.
    count._to_disk(more)
    more.own = True
    left = travelled(count.compact(more))
    count.add_input(more, Parts([batch]))
    assert left.read() == count_support(WIDE, [batch, batch])


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "shorter": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "a bit": damaged,
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_a_file_that_is_not_what_was_written_is_not_read(
    change: Callable[[Path], object], tmp_path: Path
) -> None:
    """Wherever it is read: in the table, in a merge, when the epoch is estimated."""
    count = with_spill(tmp_path, WIDE)
    batch = Parts([values(WIDE, 3, 1)])
    waiting = count.compact(count.add_input(count.create_accumulator(), batch))
    (path,) = files(tmp_path)
    change(path)
    where = count.extract_output(waiting)
    assert isinstance(where, CountsOnDisk)
    epoch = CountedEpoch(3, where, Account(read=3, counted=3))
    for read in (
        lambda: count.add_input(waiting, batch),
        lambda: count.merge_accumulators([waiting, waiting]),
        lambda: estimate_counted(WIDE, epoch),
    ):
        with pytest.raises(LdpError) as caught:
            read()
        assert (caught.value.code, caught.value.where) == ("E-RUN-FILES", str(path))
        text = str(caught.value)
        assert "a file of counts was changed or taken away before its epoch was estimated" in text
        assert "\n" not in text


def test_sums_of_several_are_on_disk_too(tmp_path: Path) -> None:
    """What a merge gives travels as well where it is a stage of its own."""
    count, coder = with_spill(tmp_path, WIDE), WaitingCountCoder()
    batches = [values(WIDE, n, n) for n in (3, 5)]
    parts = [count.compact(count.add_input(count.create_accumulator(), Parts([b]))) for b in batches]
    merged = count.merge_accumulators(map(travelled, parts))
    assert len(coder.encode(merged)) < 500
    assert merged.read() == count_support(WIDE, batches)
    assert [part.read() for part in parts] == [count_support(WIDE, [batch]) for batch in batches]


def test_an_epoch_is_estimated_from_counts_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from the counts themselves, and from payloads on disk."""
    monkeypatch.setattr(counts_on_disk, "_SMALL", 1)
    monkeypatch.setattr("ldpbeam.support.LARGE_TABLE", 1 << 17)
    for agreed, kind in ((WIDE, Support), (HASHED, UncountedReports)):
        count = with_spill(tmp_path, agreed)
        batch = values(agreed, 4_000, 1)
        output = count.extract_output(count.add_input(count.create_accumulator(), Parts([batch])))
        assert isinstance(output, CountsOnDisk)
        assert isinstance(output.read(), kind)
        account = Account(read=4_000, counted=4_000)
        found = estimate_counted(agreed, CountedEpoch(3, output, account))
        wanted = estimate_counted(agreed, CountedEpoch(3, count_support(agreed, [batch]), account))
        assert found.reports == wanted.reports == 4_000
        assert found.indicators == wanted.indicators
        (one,), (other,) = found.attributes, wanted.attributes
        assert np.array_equal(one.support, other.support)
        assert one.estimates is not None
        assert other.estimates is not None
        assert np.array_equal(one.estimates.numbers, other.estimates.numbers)


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, "E-DISK-FULL"), (errno.EACCES, "E-DISK-DENIED"), (errno.EIO, "")]
)
def test_a_disk_that_takes_nothing_is_named(
    number: int, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other failures are what they are."""
    count = with_spill(tmp_path, WIDE)
    waiting = count.add_input(count.create_accumulator(), Parts([values(WIDE, 3, 1)]))

    def refused(*_: object) -> int:
        raise OSError(number, "no")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(LdpError if code else OSError) as caught:
        count.compact(waiting)
    if code:
        assert isinstance(caught.value, LdpError)
        assert caught.value.code == code
        assert str(caught.value).startswith(f"{tmp_path}/")


def written(folder: Path) -> Path:
    """Files of three epochs of a hundred thousand values."""
    folder.mkdir()
    for epoch in range(3):
        batches = [values(WIDE, 40, 10 * epoch + n, epoch) for n in (0, 1)]
        write_reports("batch", folder / f"{epoch}.pb", batches)
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{}, {"deduplicate": False}, {"shard_bits": 3}], ids=str)
def test_no_table_of_counts_is_sent_between_steps(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole run: what Beam encodes of counts does not grow with the domain, and the files are the same."""
    reports = written(tmp_path / "reports")
    with monkeypatch.context() as all_in_memory:
        all_in_memory.setattr(counts_on_disk, "_SMALL", 1 << 62)
        wanted = execute(WIDE, reports, tmp_path / "wanted", **options)
    sent: list[int] = []
    encode, reduce = WaitingCountCoder.encode, Support.__reduce__

    def encoded(coder: WaitingCountCoder, waiting: WaitingCount) -> bytes:
        found = encode(coder, waiting)
        sent.append(len(found))
        return found

    def reduced(support: Support) -> Any:
        sent.append(support.counts.nbytes)
        return reduce(support)

    monkeypatch.setattr(WaitingCountCoder, "encode", encoded)
    monkeypatch.setattr(Support, "__reduce__", reduced)
    done = execute(WIDE, reports, tmp_path / "done", **options)
    assert len(sent) >= 3
    assert max(sent) < 1_000
    assert done.files() == wanted.files()
    assert done.total == wanted.total
    assert not list(tmp_path.rglob("*spilled*"))


@pytest.mark.thorough
def test_files_of_counts_go_with_a_run_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of counts that somebody takes away ends the run with one line, and nothing of it is left."""
    reports = written(tmp_path / "reports")
    extract = CountWithSpill.extract_output
    taken: list[Path] = []

    def and_then(count: CountWithSpill, waiting: WaitingCount) -> Any:
        found = extract(count, waiting)
        assert isinstance(found, CountsOnDisk)
        taken.append(Path(found.file.path))
        taken[-1].unlink()
        return found

    monkeypatch.setattr(CountWithSpill, "extract_output", and_then)
    with pytest.raises(LdpError) as caught:
        execute(WIDE, reports, tmp_path / "output")
    assert caught.value.code == "E-RUN-FILES"
    assert str(caught.value).startswith(f"{tmp_path}/output/")
    assert taken
    assert not any(path.parent.exists() for path in taken)
    assert not list((tmp_path / "output").rglob("*.parquet"))


def test_only_steps_that_share_a_disk_use_it(tmp_path: Path) -> None:
    """Workers of a cluster send counts themselves, and so do runs into an object store."""
    local = RunConfig.parsed((WIDE,), files=("x",), output=str(tmp_path))
    for change, on_disk in (
        ({}, True),
        ({"runner": "FlinkRunner"}, False),
        ({"runner": "DataflowRunner"}, False),
        ({"output": "gs://bucket/results"}, False),
    ):
        made = counter([WIDE], run_files.spill(local.changed(**change)))
        assert isinstance(made, CountWithSpill) == on_disk
        assert isinstance(made, CountSupportOfEach) != on_disk


def test_payloads_that_wait_are_no_table_on_disk_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large table is made when its epoch is estimated; until then the file holds payloads."""
    monkeypatch.setattr("ldpbeam.support.LARGE_TABLE", 1 << 17)
    monkeypatch.setattr(counts_on_disk, "_SMALL", 1)
    count = with_spill(tmp_path, HASHED)
    batch = values(HASHED, 1_000, 1)
    waiting = count.compact(count.add_input(count.create_accumulator(), Parts([batch])))
    assert isinstance(waiting.read(), UncountedReports)
    (path,) = files(tmp_path)
    assert path.stat().st_size < 3_100
