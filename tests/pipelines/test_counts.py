"""Counts of the whole pipeline are those of a slow reading, and nothing but the reports changes them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from ldpbeam.admission import ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.simulators.deliver.files import Compression, Format
from ldpbeam.transforms.stages.columns_on_disk import ShardWithSpill
from tests.pipelines.running import (
    DEVICES,
    EPOCHS,
    Done,
    collection,
    counting_collections,
    execute,
    expected_support,
    fleet,
    found_support,
    with_duplicates,
    write,
)

COLLECTIONS = counting_collections()
VARIANTS: list[tuple[Format, Compression]] = [
    ("batch", "zstd"),
    ("report", "zstd"),
    ("parquet", "none"),
]

Everything = tuple[list[Collection], Path, Done]


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Everything:
    base = tmp_path_factory.mktemp("everything")
    agreed = COLLECTIONS
    for i, one in enumerate(agreed):
        write(base / "reports", one, with_duplicates(fleet(one)), prefix=f"{i}-")
    return agreed, base / "reports", execute(agreed, base / "reports", base / "output")


@pytest.mark.cases(1)
@pytest.mark.parametrize("index", range(len(COLLECTIONS)), ids=[c.name for c in COLLECTIONS])
def test_counts_are_those_of_a_slow_reading(everything: Everything, index: int) -> None:
    """Bit-identical support for every protocol and hash family, duplicates removed by the rule."""
    agreed, reports, done = everything
    mine = agreed[index]
    slow = expected_support([mine], sorted(reports.glob(f"{index}-*")))
    found = {k: v for k, v in found_support(done).items() if k[0] == mine.digest_hex}
    assert sorted(slow) == [(mine.digest_hex, epoch) for epoch in range(EPOCHS)]
    assert {n for n, _ in slow.values()} == {DEVICES}
    assert found == slow


@pytest.fixture(scope="session")
def few() -> tuple[list[Collection], list[list[ReportColumns]]]:
    agreed = [collection(name, name=name) for name in ("grr", "l_osue", "loloha")]
    return agreed, [with_duplicates(fleet(one)) for one in agreed]


@pytest.fixture(scope="session")
def plain(
    few: tuple[list[Collection], list[list[ReportColumns]]], tmp_path_factory: pytest.TempPathFactory
) -> Everything:
    base = tmp_path_factory.mktemp("plain")
    for one, batches in zip(*few, strict=True):
        write(base / "reports", one, batches, prefix=one.name)
    done = execute(few[0], base / "reports", base / "output")
    assert found_support(done) == expected_support(few[0], sorted((base / "reports").iterdir()))
    return few[0], base / "reports", done


def same(done: Done, plain: Done) -> None:
    found, wanted = done.tables(), plain.tables()
    assert sorted(found) == sorted(wanted)
    for key, table in found.items():
        assert table.equals(wanted[key], check_metadata=True)
    assert done.files() == plain.files()
    assert done.record["accounting"] == plain.record["accounting"]


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "compression"), VARIANTS)
def test_the_file_format_changes_nothing(
    few: tuple[list[Collection], list[list[ReportColumns]]],
    plain: Everything,
    tmp_path: Path,
    kind: Format,
    compression: Compression,
) -> None:
    for one, batches in zip(*few, strict=True):
        write(tmp_path / "reports", one, batches, kind, compression, prefix=one.name)
    files = sorted((tmp_path / "reports").iterdir())
    assert expected_support(few[0], files) == found_support(plain[2])
    same(execute(few[0], files, tmp_path / "output"), plain[2])


def test_order_and_batching_change_nothing(
    few: tuple[list[Collection], list[list[ReportColumns]]], plain: Everything, tmp_path: Path
) -> None:
    """Reports shuffled, cut into other batches and files, and de-duplicated in other shards."""
    from ldpbeam.simulators.deliver.files import batch_record

    draw = random.Random(3)
    records: list[bytes] = []
    for one, batches in zip(*few, strict=True):
        for epoch in range(EPOCHS):
            mine = [b for b in batches if b.epoch == epoch]
            ids = np.concatenate([b.report_ids for b in mine])
            payloads = np.concatenate([b.payloads for b in mine])
            order = draw.sample(range(ids.size), ids.size)
            while order:
                size = draw.choice([1, 2, 7, 50, 111])
                some, order = order[:size], order[size:]
                batch = ReportColumns(one.digest, epoch, ids[some], payloads[some])
                records.append(batch_record(batch))
    draw.shuffle(records)
    (tmp_path / "reports").mkdir()
    for i in range(3):
        (tmp_path / "reports" / f"{i}.pb").write_bytes(b"".join(records[i::3]))
    done = execute(few[0], tmp_path / "reports", tmp_path / "output", shard_bits=3)
    same(done, plain[2])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [
        ("--direct_runner_bundle_repeat=3",),
        ("--direct_num_workers=2", "--direct_running_mode=multi_threading"),
        pytest.param(
            ("--direct_num_workers=2", "--direct_running_mode=multi_processing"),
            marks=pytest.mark.slow,  # 25 s: workers import Beam and compile kernels
        ),
    ],
    ids=["repeat", "threads", "processes"],
)
def test_repeated_and_parallel_bundles_change_nothing(
    plain: Everything, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Every bundle run three times, two threads, two processes: functions are pure, merging is exact."""
    agreed, reports, wanted = plain
    same(execute(agreed, reports, tmp_path, beam_args=options, shard_bits=2), wanted)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("bits", "options"), [(0, ()), (3, ("--direct_runner_bundle_repeat=2",))], ids=["whole", "sharded"]
)
def test_reports_that_wait_on_disk_change_nothing(
    plain: Everything, tmp_path: Path, bits: int, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    agreed, reports, wanted = plain
    held: list[int] = []
    write = ShardWithSpill._write

    def counted(step: ShardWithSpill, columns: ReportColumns) -> tuple[int, int]:
        held.append(len(columns))
        return write(step, columns)

    monkeypatch.setattr(ShardWithSpill, "_write", counted)
    same(execute(agreed, reports, tmp_path, beam_args=options, shard_bits=bits, spill_above=0), wanted)
    total = wanted.total
    reports_read = total["counted"] + total["duplicate"] + total["rejected"]["conflicting_report_id"]
    assert sum(held) == (3 if options else 1) * reports_read  # Beam repeats a bundle twice more
    assert not list(tmp_path.rglob("*spilled*"))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        path.name for path in wanted.output.iterdir()
    )
