"""Parquet files: their headers are read as plain Python reads them, and no way of reading loses a report."""

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
from ldpbeam.transforms.sources.parquet_headers import (
    TooLarge,
    footer,
    page_headers,
    pages_lie,
    pages_of,
    row_groups,
)
from ldpbeam.transforms.sources.stored_file import StoredFile
from ldpbeam.wire.codec import EvenRows
from tests.reference import parquet_headers as slow
from tests.transforms.sources.test_files import AGREED, WIDTH, mutated

ROWS = 400


def written(**options: Any) -> bytes:
    """A sound file, as some writer might write it."""
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


def until_unsound(groups: Iterator[Any]) -> tuple[list[Any], bool]:
    """Row groups as plain values, and whether the footer was sound to its end."""
    found = []
    try:
        for group in groups:
            columns = {
                name: {key: one for key, one in about.items() if key in (5, 7, 9, 11)}
                for name, about in group.columns.items()
            }
            found.append((group.rows, columns, group.encrypted, group.in_other_files))
    except (ValueError, IndexError):
        return found, False
    return found, True


def headers(data: bytes, longest: int) -> tuple[list[tuple[int, ...]], bool]:
    """The headers of pages that lie end to end, and whether all were sound."""
    found: list[tuple[int, ...]] = []
    file: Any = BytesIO(data)
    try:
        found.extend(page_headers(file, 0, len(data), longest))
    except ValueError:
        return found, False
    return found, True


def stored(folder: Path, data: bytes) -> StoredFile:
    """A file with these bytes."""
    (folder / "in").write_bytes(data)
    return StoredFile(str(folder / "in"), 1)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.cases(2)
def test_footers_and_headers_are_those_of_the_reference(tmp_path: Path, name: str) -> None:
    """Of a sound file, and of hundreds whose footer, or the bytes of whose pages, were changed."""
    data, draw = written(**FILES[name]), random.Random(name)
    foot = footer(stored(tmp_path, data))
    sound, to_the_end = until_unsound(row_groups(foot))
    assert to_the_end
    assert sum(rows for rows, *_ in sound) == ROWS
    assert set(sound[0][1]) == {"digest", "epoch", "report_id", "payload"}
    unsound = 0
    for changed in (foot, *(mutated(foot, draw) for _ in range(300))):
        found = until_unsound(row_groups(changed))
        assert found == until_unsound(slow.row_groups(changed)), changed.hex()
        unsound += not found[1]
    assert 25 < unsound < 300
    with stored(tmp_path, data) as file:
        for group in row_groups(foot):
            for about in group.columns.values():
                at, end = pages_lie(file, about)
                pages = data[at:end]
                assert pages_of(file, at, end, 1 << 30).values == group.rows
                for changed in (pages, *(mutated(pages, draw) for _ in range(120 // len(sound)))):
                    for longest in (1 << 14, 40):
                        assert headers(changed, longest) == slow.page_headers(changed, longest), changed.hex()


def test_headers_across_the_end_of_what_was_read_are_read_again(tmp_path: Path) -> None:
    """A column of many small pages, a little at a time: headers begin in one piece and end in the next."""
    ids = np.random.default_rng(1).integers(0, 1 << 62, 4000)
    sink = BytesIO()
    small = {"data_page_size": 1, "write_batch_size": 8, "use_dictionary": False, "compression": "none"}
    pq.write_table(pa.table({"report_id": ids}), sink, **small)
    with stored(tmp_path, sink.getvalue()) as file:
        (group,) = row_groups(footer(file))
        at, end = pages_lie(file, group.columns["report_id"])
        assert end - at > 2 << 14
        found = pages_of(file, at, end, 1 << 30)
        assert found.values == 4000
        all_at_once = list(page_headers(file, at, end, 1 << 30))
        assert list(page_headers(file, at, end)) == all_at_once
        assert list(page_headers(file, at, end, 200)) == all_at_once


@pytest.mark.parametrize("depth", [1, 14, 15, 16, 17, 40])
@pytest.mark.parametrize("opened", [b"\x9c", b"\x99", b"\x9c\x99"[::-1]])
def test_values_are_nested_as_deep_as_in_the_reference(depth: int, opened: bytes) -> None:
    """Structs in structs, lists in lists: no deeper than sixteen, sound or cut."""
    nested = {b"\x9c": b"\x1c" * depth + b"\0" * depth, b"\x99": b"\x19" + b"\x19" * depth + b"\x08"}
    body = nested.get(opened, (b"\x1c\x19\x1c" * depth) + b"\0" * depth)
    for data in (b"\x15\0\x15\0\x15\0" + body + b"\0", b"\x15\2\x15\0\x15\0" + body + b"\0\0", body):
        for cut in range(len(data) + 1):
            assert headers(data[:cut], 1 << 14) == slow.page_headers(data[:cut], 1 << 14)


def test_numbers_have_64_bits_at_most() -> None:
    """The largest and the smallest are read, and what is longer is not sound."""
    for number in (
        b"\xff" * 9 + b"\x01",
        b"\xfe" + b"\xff" * 8 + b"\x01",
        b"\xff" * 9 + b"\x02",
        b"\xff" * 11,
    ):
        for field in range(3):
            data = b"".join(b"\x16" + (number if i == field else b"\x02") for i in range(3)) + b"\0"
            assert headers(data, 1 << 14) == slow.page_headers(data, 1 << 14)
    sound, _ = headers(b"\x16" + b"\xff" * 9 + b"\x01" + b"\x16\x02\x16\0\0", 1 << 14)
    assert sound == [(-(1 << 63), 1, 0, 0, -1)]


@pytest.mark.parametrize("count", [2, 3, 4, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 2, (1 << 64) - 1])
def test_a_list_has_no_more_elements_than_bytes_follow(count: int) -> None:
    """A count that is negative in 64 bits is none, and is not taken for the mark of a struct."""
    numbers = b"\x16\x02" * 3
    varint = b""
    while count > 127:
        varint, count = varint + bytes([count & 127 | 128]), count >> 7
    data = numbers + b"\x69" + b"\xf5" + varint + bytes([count]) + b"\x02\x02\0\0"
    found = headers(data, 1 << 14)
    assert found == slow.page_headers(data, 1 << 14)
    assert bool(found[0]) == (varint == b"" and count in (2, 3))


def everything(path: Path, allowed: int | None = None) -> list[Any]:
    """What reading a file gives, as plain values; of so many bytes of reports, where that is given."""
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
    """Rows as they lie give what rows with a place each give; sound files and others."""
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
    """All at once where nothing is to be said about any, else one by one: the same accounting and columns.

    Numbers that are the same in all rows may be in memory once.
    """
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


def data_page(values: int, encoding: int, plain: int = 10) -> bytes:
    """A page without bytes that says so much of itself."""

    def number(one: int) -> bytes:
        one, out = one << 1, b"\x15"
        while one > 127:
            out, one = out + bytes([one & 127 | 128]), one >> 7
        return out + bytes([one])

    return number(0) + number(plain) + number(0) + b"\x2c" + number(values) + number(encoding) + b"\0\0"


@pytest.mark.parametrize("encoding", [6, 7])
def test_pages_of_differences_have_a_million_values_at_most(encoding: int) -> None:
    """Their lengths are decoded all at once, and may take no bytes at all."""
    for values in (1 << 20, (1 << 20) + 1):
        page = data_page(values, encoding)
        file: Any = BytesIO(page)
        if values == 1 << 20:
            assert pages_of(file, 0, len(page), 1 << 30).values == values
        else:
            with pytest.raises(TooLarge):
                pages_of(file, 0, len(page), 1 << 30)


def test_rows_at_once_follow_from_the_headers() -> None:
    """Of plain values by their mean length, of differences by the page's; of a dictionary by nothing."""
    found = {}
    for encoding in (0, 7, 8):
        page = data_page(1000, encoding, 8 << 20)
        file: Any = BytesIO(page)
        found[encoding] = pages_of(file, 0, len(page), 1 << 30).rows_at_once
    assert found == {0: 500, 7: 1, 8: 1 << 16}
