"""Tables as Parquet files: compressed as pays for their size, the same to a reader."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpbeam.tables import as_parquet


@pytest.mark.parametrize(("rows", "compression"), [(0, None), (10_000, "SNAPPY"), (10_001, "ZSTD")])
def test_small_tables_are_compressed_quickly_and_large_ones_well(rows: int, compression: str | None) -> None:
    schema = pa.schema([pa.field("value", pa.int64(), nullable=False)], {"a": "b"})
    table = pa.table({"value": range(rows)}, schema=schema)
    file = pq.ParquetFile(io.BytesIO(as_parquet(table)))
    assert file.read().equals(table, check_metadata=True)
    if compression is not None:
        assert file.metadata.row_group(0).column(0).compression == compression
