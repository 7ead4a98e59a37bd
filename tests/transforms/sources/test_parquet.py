"""Parquet files: no way of reading loses a report."""

from __future__ import annotations

import random
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpbeam.admission import Admission, Written
from ldpbeam.reports import admit_even_rows, admit_rows
from ldpbeam.transforms.sources import parquet
from ldpbeam.transforms.sources.arrow_columns import even_payloads
from ldpbeam.transforms.sources.chunks import BadSource, ReportTable
from ldpbeam.transforms.sources.files import ReadFiles
from ldpbeam.transforms.sources.stored_file import StoredFile
from ldpbeam.wire.codec import EvenRows
from tests.transforms.sources.test_files import AGREED, WIDTH, mutated

ROWS = 400


def written(**options: Any) -> bytes:
    draw = random.Random(7)
    columns = {
        "more": pa.array([str(i) for i in range(ROWS)]),
        "digest": pa.array([AGREED.digest] * ROWS, pa.uint64()),
        "epoch": pa.array([i * 5 // ROWS for i in range(ROWS)], pa.int64()),
        "report_id": pa.array([draw.getrandbits(64) for _ in range(ROWS)], pa.uint64()),
        "payload": pa.array([draw.randbytes(1) + b"\3" for _ in range(ROWS)], options.pop("payload")),
    }
    sink = BytesIO()
    pq.write_table(pa.table(columns), sink, **options)
    return sink.getvalue()


FILES: dict[str, dict[str, Any]] = {
    "as pyarrow writes": {"payload": pa.binary()},
    "fixed, many groups": {"payload": pa.binary(WIDTH), "row_group_size": 40, "use_dictionary": False},
    "second version of pages, large": {"payload": pa.large_binary(), "data_page_version": "2.0"},
    "small pages, zstd, checked": {
        "payload": pa.binary(WIDTH),
        "data_page_size": 64,
        "write_batch_size": 16,
        "compression": "zstd",
        "write_page_checksum": True,
        "use_dictionary": False,
    },
    "by differences": {
        "payload": pa.binary(),
        "use_dictionary": False,
        "column_encoding": {"payload": "DELTA_BYTE_ARRAY", "report_id": "DELTA_BINARY_PACKED"},
    },
}


def everything(path: Path, allowed: int | None = None) -> list[Any]:
    found: list[Any] = []
    if allowed is None:
        elements: Iterator[Any] = ReadFiles().process(str(path))
    else:
        elements = parquet.read_tables(str(path), StoredFile(str(path), 1), allowed, None, {})
    for element in elements:
        if isinstance(element, ReportTable):
            rows = element.each()
            for i in range(rows.digest.size):
                at, length = rows.payload_at[i], rows.payload_length[i]
                where = (rows.place[i], rows.digest[i], rows.epoch[i], rows.report_id[i])
                found.append((*map(int, where), rows.buffer[at : at + length].tobytes()))
        elif isinstance(element, BadSource):
            found.append(element)
        else:
            found.append(element.frames.buffer.tobytes())  # what begins otherwise is no Parquet
    return found


@pytest.mark.parametrize("name", FILES)
def test_rows_at_once_are_those_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    data, draw = written(**FILES[name]), random.Random(name)
    path = tmp_path / "in"
    even = even_payloads
    for i, changed in enumerate((data, *(mutated(data, draw) for _ in range(25)))):
        path.write_bytes(changed)
        at_once = everything(path)
        monkeypatch.setattr(parquet, "even_payloads", lambda _: None)
        assert everything(path) == at_once
        monkeypatch.setattr(parquet, "even_payloads", even)
        assert i or len(at_once) == ROWS


def test_rows_that_lie_even_are_cut_where_others_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that stands for more than it may: as many rows are read, and as many are left out."""
    path, row = tmp_path / "in", WIDTH + 24
    path.write_bytes(written(payload=pa.binary(WIDTH), use_dictionary=False, compression="none"))
    allowed = (0, 150 * row, 150 * row + 1, 399 * row, ROWS * row - 1, ROWS * row)
    at_once = [everything(path, most) for most in allowed]
    monkeypatch.setattr(parquet, "even_payloads", lambda _: None)
    assert [everything(path, most) for most in allowed] == at_once
    assert [sum(isinstance(one, tuple) for one in found) for found in at_once] == [0, 150, 150, 399, 399, 400]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    "fault", ["none", "symbol", "digest", "epoch", "two epochs", "foreign", "width", "unborn"]
)
def test_rows_that_lie_even_are_judged_like_others(fault: str, shared: bool) -> None:
    """All at once where nothing is to be said about any, else one by one: the same accounting and columns."""
    n, draw = 50, random.Random(fault)
    digest, epoch = np.full(n, AGREED.digest, np.uint64), np.full(n, 3)
    payloads = np.full((n, WIDTH + (fault == "width")), 3, np.uint8)
    written_by = Written(AGREED.opens(3) * 1_000_000 - 1) if fault == "unborn" else None
    match fault:
        case "symbol":
            payloads[7, 1] = 0xFF
        case "digest":
            digest[:] = 5
        case "epoch":
            epoch[:] = -1
        case "two epochs":
            epoch[20:] = 4
        case "foreign":
            digest[9] = 5
    ids = np.array([draw.getrandbits(64) for _ in range(n)], np.uint64)
    if shared and fault != "foreign":
        digest = np.broadcast_to(digest[0], n)
    if shared and fault != "two epochs":
        epoch = np.broadcast_to(epoch[0], n)
    rows = EvenRows(digest, epoch, ids, payloads, 1000)
    told = []
    for judge in (admit_even_rows, lambda given, *more: admit_rows(given.rows(), *more)):
        done = Admission(written_by=written_by)
        judge(rows, {AGREED.digest: AGREED}, "a", done)
        admitted = [
            (one.digest, one.epoch, one.report_ids.tolist(), one.payloads.tolist()) for one in done.admitted
        ]
        told.append((admitted, list(done.entries()), done.rejections))
    assert told[0] == told[1]
    counted = sum(len(one[2]) for one in told[0][0])
    assert counted == {"none": n, "symbol": n - 1, "two epochs": n, "foreign": n - 1}.get(fault, 0)
