"""Report files: protobuf's own bytes, readable again, reproducible, whole or not there."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from google.protobuf.internal.encoder import _VarintBytes  # type: ignore[attr-defined]  # not in its stub
from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.admission import ReportColumns
from ldpbeam.simulators.deliver import files
from ldpbeam.simulators.deliver.files import (
    COMPRESSIONS,
    FORMATS,
    Compression,
    Format,
    batch_record,
    report_file,
    report_records,
    write_reports,
)
from ldpbeam.wire import report_pb2

DIGEST = 0x0123456789ABCDEF
IDS = st.lists(st.integers(0, (1 << 64) - 1) | st.just(0), min_size=1, max_size=6)
# 102 .. 110: where a report's length takes a second byte; 128: where the payload's does.
WIDTHS = st.integers(1, 20) | st.integers(98, 130) | st.integers(16_300, 16_400)
EPOCHS = st.sampled_from([0, 1, 63, 64, 8191, 8192, (1 << 63) - 1, -1, -(1 << 63)]) | st.integers(0, 1 << 20)


def columns(ids: list[int], width: int, epoch: int = 3, seed: int = 0, digest: int = DIGEST) -> ReportColumns:
    payloads = np.random.default_rng(seed).integers(0, 256, (len(ids), width), np.uint8)
    return ReportColumns(digest, epoch, np.array(ids, np.uint64), payloads)


def delimited(message: report_pb2.Report | report_pb2.ReportBatch) -> bytes:
    encoded = message.SerializeToString()
    return bytes(_VarintBytes(len(encoded))) + encoded


def singles(batch: ReportColumns) -> list[report_pb2.Report]:
    return [
        report_pb2.Report(
            digest=batch.digest, epoch=batch.epoch, report_id=int(name), payload=payload.tobytes()
        )
        for name, payload in zip(batch.report_ids, batch.payloads, strict=True)
    ]


def message(batch: ReportColumns) -> report_pb2.ReportBatch:
    return report_pb2.ReportBatch(
        digest=batch.digest,
        epoch=batch.epoch,
        count=len(batch),
        report_ids=batch.report_ids.tolist(),
        payloads=batch.payloads.tobytes(),
    )


@given(ids=IDS, width=WIDTHS, epoch=EPOCHS, digest=st.sampled_from([0, 1, DIGEST, (1 << 64) - 1]))
def test_records_are_protobufs_own_bytes(ids: list[int], width: int, epoch: int, digest: int) -> None:
    batch = columns(ids, width, epoch, digest=digest)
    expected = b"".join(map(delimited, singles(batch)))
    assert report_records(batch) == expected
    assert batch_record(batch) == delimited(message(batch))


@pytest.mark.parametrize("count", [1, 15, 16, 2047, 2048])
def test_batches_of_any_length(count: int) -> None:
    batch = columns(list(range(1, count + 1)), 5)
    assert batch_record(batch) == delimited(message(batch))


def decompressed(path: Path, compression: str) -> bytes:
    data = path.read_bytes()
    if compression == "gzip":
        return gzip.decompress(data)
    if compression == "zstd":
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_files_hold_the_records(tmp_path: Path, compression: Compression) -> None:
    batches = [columns([1, 2], 3), columns([3], 3, seed=1)]
    a = report_file(tmp_path, 3, "batch", compression)
    assert write_reports("batch", a, batches, compression=compression) == 3
    expected = b"".join(batch_record(batch) for batch in batches)
    assert decompressed(a, compression) == expected
    b = tmp_path / "reports"
    assert write_reports("report", b, batches, compression=compression) == 3
    assert decompressed(b, compression) == b"".join(report_records(x) for x in batches)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([a.name, "reports"])


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_parquet_has_a_row_per_report(tmp_path: Path, compression: Compression) -> None:
    digest = (1 << 64) - 2
    batches = [columns([1, 0], 3, digest=digest), columns([(1 << 64) - 1], 3, seed=1, digest=digest)]
    path = tmp_path / "x.parquet"
    assert write_reports("parquet", path, batches, compression=compression) == 3
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [3]
    kind = file.metadata.row_group(0).column(0).compression
    assert kind == {"none": "UNCOMPRESSED"}.get(compression, compression.upper())
    assert file.schema_arrow.equals(
        pa.schema(
            [
                pa.field("digest", pa.uint64(), nullable=False),
                pa.field("epoch", pa.int64(), nullable=False),
                pa.field("report_id", pa.uint64(), nullable=False),
                pa.field("payload", pa.binary(3), nullable=False),
            ]
        )
    )
    assert file.read().to_pylist() == [
        {"digest": digest, "epoch": 3, "report_id": int(name), "payload": payload.tobytes()}
        for batch in batches
        for name, payload in zip(batch.report_ids, batch.payloads, strict=True)
    ]


@pytest.mark.parametrize("parts", [[7], [3, 4], [4, 3], [1] * 7, [8], [5, 4, 11], [20]])
def test_row_groups_do_not_depend_on_how_reports_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: list[int]
) -> None:
    """Groups of four rows, a smaller one at the end, and the same bytes as from one element."""
    monkeypatch.setattr(files, "ROW_GROUP", 4)
    total = sum(parts)
    whole = columns(list(range(1, total + 1)), 3)
    edges = np.cumsum([0, *parts])
    cut = [
        ReportColumns(whole.digest, whole.epoch, whole.report_ids[a:b], whole.payloads[a:b])
        for a, b in itertools.pairwise(edges)
    ]
    for name, batches in (("whole", [whole]), ("cut", cut)):
        assert write_reports("parquet", tmp_path / name, batches) == total
    file = pq.ParquetFile(tmp_path / "cut")
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert sizes == [min(4, total - begin) for begin in range(0, total, 4)]
    assert file.read()["report_id"].to_pylist() == whole.report_ids.tolist()
    assert (tmp_path / "cut").read_bytes() == (tmp_path / "whole").read_bytes()


def every_kind() -> list[Any]:
    return [pytest.param(f, c, id=f"{f}-{c}") for f in FORMATS for c in COMPRESSIONS]


@pytest.mark.parametrize(("kind", "compression"), every_kind())
def test_equal_reports_give_equal_bytes(tmp_path: Path, kind: Format, compression: Compression) -> None:
    batches = [columns(list(range(1, 400)), 9)]
    a, b = tmp_path / "a", tmp_path / "b"
    for path in (a, b):
        write_reports(kind, path, batches, compression=compression)
    assert a.read_bytes() == b.read_bytes()
    # gzip: neither a name nor a time in the header.
    if kind != "parquet" and compression == "gzip":
        assert a.read_bytes()[3:8] == bytes(5)


@pytest.mark.parametrize(("kind", "compression"), every_kind())
def test_a_file_is_whole_or_not_there(tmp_path: Path, kind: Format, compression: Compression) -> None:
    def failing() -> Iterator[ReportColumns]:
        yield columns([1], 3)
        raise RuntimeError("the disk is full")

    path = tmp_path / "x"
    path.write_bytes(b"older")
    with pytest.raises(RuntimeError, match="full"):
        write_reports(kind, path, failing(), compression=compression)
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
    assert path.read_bytes() == b"older"


@pytest.mark.parametrize("kind", FORMATS)
def test_no_report_no_file(tmp_path: Path, kind: Format) -> None:
    empty = columns([], 3)
    assert write_reports(kind, tmp_path / "x", [empty]) == 0
    assert write_reports(kind, tmp_path / "x", []) == 0
    assert list(tmp_path.iterdir()) == []
    assert write_reports(kind, tmp_path / "x", [empty, columns([1], 3), empty]) == 1
