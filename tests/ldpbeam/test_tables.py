"""Tables as Parquet files: compressed as pays for their size, the same to a reader."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldpbeam
from ldpbeam.table_file import as_parquet, published_table


@pytest.mark.parametrize(("rows", "compression"), [(0, None), (10_000, "SNAPPY"), (10_001, "ZSTD")])
def test_small_tables_are_compressed_quickly_and_large_ones_well(rows: int, compression: str | None) -> None:
    schema = pa.schema([pa.field("value", pa.int64(), nullable=False)], {"a": "b"})
    table = pa.table({"value": range(rows)}, schema=schema)
    file = pq.ParquetFile(io.BytesIO(as_parquet(table)))
    assert file.read().equals(table, check_metadata=True)
    if compression is not None:
        assert file.metadata.row_group(0).column(0).compression == compression


def table_of_an_epoch() -> pa.Table:
    collection = ldpbeam.load_collection("examples/first_choice.yaml")
    return ldpbeam.estimate(collection, ldpbeam.simulate(collection, ["red"] * 600 + ["blue"] * 400, seed=7))


@pytest.mark.parametrize("step", [61, pytest.param(7, marks=pytest.mark.thorough)])
def test_every_bit_of_a_published_table_that_is_turned_is_seen(tmp_path: Path, step: int) -> None:
    table, path = table_of_an_epoch(), tmp_path / "t.parquet"
    content = as_parquet(table)
    path.write_bytes(content)
    assert published_table(path).read().equals(table)
    seen = 0
    for bit in [*range(0, 8 * len(content), step), *range(8 * (len(content) - 20), 8 * len(content))]:
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            assert published_table(path).read().equals(table), bit  # a bit of the mark: read as unsigned
        except (OSError, pa.ArrowException):
            seen += 1
    assert seen > 8 * len(content) / step


def test_a_table_that_is_cut_or_no_file_is_refused(tmp_path: Path) -> None:
    content, path = as_parquet(table_of_an_epoch()), tmp_path / "t.parquet"
    for length in range(0, len(content), 37):
        path.write_bytes(content[:length])
        with pytest.raises((OSError, pa.ArrowException)):
            published_table(path)
    path.unlink()
    os.mkfifo(path)  # opening one waits for a writer
    with pytest.raises(OSError, match="is no file"):
        published_table(path)


def test_a_table_of_somebody_else_is_read_and_its_pages_are_looked_at(tmp_path: Path) -> None:
    table, path = table_of_an_epoch(), tmp_path / "t.parquet"
    pq.write_table(table, path)
    assert published_table(path).read().equals(table)
    content = bytearray(path.read_bytes())
    content[8:40] = bytes(32)
    path.write_bytes(content)
    with pytest.raises((OSError, pa.ArrowException)):
        published_table(path)
