"""Files that stand for far more than they take, each a few kilobytes; and what reading one costs."""

from __future__ import annotations

import gzip
import resource
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard


def gz(block: bytes, times: int) -> bytes:
    sink = BytesIO()
    with gzip.GzipFile("", "wb", 6, sink) as stream:
        for _ in range(times):
            stream.write(block)
    return sink.getvalue()


def zst(block: bytes, times: int) -> bytes:
    sink = BytesIO()
    with zstandard.ZstdCompressor().stream_writer(sink, closefd=False) as stream:
        for _ in range(times):
            stream.write(block)
    return sink.getvalue()


def table(payload: Any, rows: int = 65_536, ids: Any = None, **options: Any) -> bytes:
    """A table with these payloads, and report ids if they are not all 0."""
    same = {name: pa.array(np.zeros(rows, kind)) for name, kind in (("digest", "u8"), ("epoch", "i8"))}
    named = pa.array(np.zeros(rows, "u8")) if ids is None else ids
    sink = BytesIO()
    columns = {**same, "report_id": named, "payload": payload}
    pq.write_table(pa.table(columns), sink, compression="zstd", **options)
    return sink.getvalue()


def ids(column: Any) -> bytes:
    return table(pa.array([b"a"] * 65_536), ids=column, store_schema=False)


def row_groups_over_the_same_pages(times: int = 4000) -> bytes:
    """A footer that lists one row group of a thousand small pages again and again."""
    rows = 1000
    columns = {name: pa.array(np.arange(rows, dtype="i8")) for name in ("digest", "epoch", "report_id")}
    columns["payload"] = pa.array([b"a"] * rows)
    sink, summary = BytesIO(), BytesIO()
    small = {"data_page_size": 1, "write_batch_size": 1, "use_dictionary": False, "write_statistics": False}
    pq.write_table(pa.table(columns), sink, compression="none", store_schema=False, **small)
    metadata, once = pq.read_metadata(sink), pq.read_metadata(sink)
    for _ in range(times - 1):
        metadata.append_row_groups(once)
    metadata.write_metadata_file(summary)
    data = sink.getvalue()
    return data[: -8 - once.serialized_size] + summary.getvalue()[4:]


def dictionary(size: int, rows: int = 65_536) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows, np.int32)), pa.array([bytes(size)], pa.binary())
    )


BOMBS: dict[str, Callable[[], bytes]] = {
    "a count and no ids, gzip": lambda: gz(b"\x02\x28\x01" * (1 << 20), 2),
    "a count and no ids": lambda: b"\x02\x28\x01" * (1 << 18),
    "empty groups": lambda: b"\x02\x0b\x0c" * (1 << 18),
    "ids in parts": lambda: (b"\x12\x31" + bytes(7) + b"\x01\x31" + bytes(8)) * 20_000,
    "letters, zstd": lambda: zst(b"\x01a" * (1 << 21), 64),
    "zeros, zstd": lambda: zst(bytes(1 << 22), 512),
    "zeros, gzip": lambda: gz(bytes(1 << 22), 64),
    "a wide window, zstd": lambda: zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=27)
    ).compress(bytes(1 << 28)),
    "gzip members": lambda: gzip.compress(b"") * 5000,
    "zstd frames": lambda: zstandard.ZstdCompressor().compress(b"") * 8000,
    "a dictionary of one payload": lambda: table(dictionary(100_000), store_schema=False),
    "a categorical payload": lambda: table(dictionary(100_000)),
    "payloads of a fixed length": lambda: table(pa.array([bytes(3000)] * 65_536, pa.binary(3000))),
    "payloads one after the other": lambda: table(
        pa.array([bytes(3000)] * 65_536, pa.binary()), use_dictionary=False
    ),
    "payloads by their differences": lambda: table(
        pa.array([bytes(3000)] * 65_536, pa.binary()),
        use_dictionary=False,
        column_encoding={"payload": "DELTA_BYTE_ARRAY"},
    ),
    "ids as long text": lambda: ids(
        pa.DictionaryArray.from_arrays(pa.array(np.zeros(65_536, np.int32)), pa.array(["0" * 100_000]))
    ),
    "ids as many digits": lambda: ids(
        pa.array([Decimal(10**75 + i % 50) for i in range(65_536)], pa.decimal256(76, 0))
    ),
    "row groups over the same pages": row_groups_over_the_same_pages,
    "many equal rows": lambda: table(dictionary(1, 1 << 22), 1 << 22),
}


def peak() -> int:
    """Most memory that this process had at any time, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(folder: Path) -> None:
    """Read every bomb of a folder; one line each: name, bytes, seconds, further memory, records, admitted."""
    from tests.transforms.sources.test_files import KINDS, read, valid

    for kind in KINDS:
        (folder / "warm").write_bytes(valid(kind))
        read(folder / "warm")
    (folder / "warm").unlink()
    before = peak()
    for path in sorted(folder.iterdir()):
        begun = time.process_time()
        admitted, rejected, books = read(path)
        seconds = time.process_time() - begun
        assert books["read"] == admitted + rejected.total()
        reasons = "+".join(sorted(rejected))
        told = (path.name, path.stat().st_size, f"{seconds:.2f}", peak() - before, books["read"], reasons)
        sys.stdout.write("\t".join(map(str, told)) + "\n")


if __name__ == "__main__":
    measure(Path(sys.argv[1]))
