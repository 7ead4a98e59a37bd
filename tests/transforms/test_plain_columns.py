"""Row groups whose values are taken from where they lie: the same rows, and no others, as pyarrow reads."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpbeam.admission import ReportColumns
from ldpbeam.kernels import plain_pages
from ldpbeam.simulators.deliver.files import write_reports
from ldpbeam.transforms.sources import parquet, parquet_headers, plain_columns
from ldpbeam.transforms.sources.chunks import BadSource
from ldpbeam.transforms.sources.parquet_headers import COLUMNS, footer, pages_lie, row_groups
from ldpbeam.transforms.sources.stored import StoredFile
from ldpbeam.wire.codec import EvenRows
from tests.reference import parquet_headers as reference
from tests.reference import plain_pages as slow
from tests.transforms.test_parquet import everything
from tests.transforms.test_sources import AGREED, WIDTH, mutated

ROWS = 60
SCHEMA = pa.schema(
    [
        pa.field("digest", pa.uint64(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("report_id", pa.uint64(), nullable=False),
        pa.field("payload", pa.binary(WIDTH), nullable=False),
    ]
)


def our_own(path: Path) -> None:
    """Three elements of one epoch and one of another, as the simulator writes them: two row groups."""
    draw = np.random.default_rng(5)
    parts = []
    for epoch, rows in ((3, 20), (3, 1), (3, 19), (4, 20)):
        payloads = np.stack([draw.integers(0, 256, rows, np.uint8), np.full(rows, 3, np.uint8)], 1)
        parts.append(
            ReportColumns(AGREED.digest, epoch, draw.integers(0, 1 << 64, rows, np.uint64), payloads)
        )
    write_reports("parquet", path, parts)


def table(schema: pa.Schema = SCHEMA, **columns: Any) -> pa.Table:
    """Rows of one epoch, apart from the columns given."""
    draw = random.Random(7)
    made = {
        "digest": [AGREED.digest] * ROWS,
        "epoch": [3] * ROWS,
        "report_id": [draw.getrandbits(63) for _ in range(ROWS)],
        "payload": [draw.randbytes(1) + b"\3" for _ in range(ROWS)],
    } | columns
    return pa.table({field.name: pa.array(made[field.name], field.type) for field in schema}, schema=schema)


def written(path: Path, rows: pa.Table | None = None, **options: Any) -> None:
    """A file of small pages that are not compressed, unless the options say otherwise."""
    usual = {"compression": "none", "use_dictionary": ["digest", "epoch"], "write_statistics": False}
    small = {"data_page_size": 64, "write_batch_size": 8}
    pq.write_table(table() if rows is None else rows, path, **(usual | small | options))


def with_signed_words(path: Path) -> None:
    """As by a writer that has no unsigned types."""
    fields = [pa.field(f.name, pa.int64() if pa.types.is_integer(f.type) else f.type, False) for f in SCHEMA]
    written(path, table(pa.schema(fields), digest=[int(np.uint64(AGREED.digest).astype(np.int64))] * ROWS))


def beside_others(path: Path) -> None:
    """Columns in another order, with one between them that nobody asks for."""
    order = ["report_id", "payload", "digest", "epoch"]
    rows = table().select(order)
    fields = pa.field("more", pa.string())
    written(path, rows.add_column(2, fields, pa.array([str(i) for i in range(ROWS)])))


SOUND: dict[str, Callable[[Path], None]] = {
    "our own": our_own,
    "small pages": written,
    "statistics": lambda path: written(path, write_statistics=["digest", "epoch", "report_id"]),
    "signed": with_signed_words,
    "beside others": beside_others,
    "groups of seven": lambda path: written(path, row_group_size=7),
}
"""Files that need no decoding."""


def one_row_with(name: str, value: Any) -> Callable[[Path], None]:
    """A file in which a row has another value in a column."""

    def write(path: Path) -> None:
        column = table()[name].to_pylist()
        written(path, table(**{name: [*column[:-1], value]}))

    return write


def with_column(name: str, kind: pa.DataType, values: list[Any], *, nullable: bool = False) -> Any:
    """A file in which a column is of another type."""

    def write(path: Path) -> None:
        fields = [pa.field(name, kind, nullable) if f.name == name else f for f in SCHEMA]
        written(path, table(pa.schema(fields), **{name: values}))

    return write


def with_two_of_a_name(path: Path) -> None:
    """A column, and a struct that is called the same."""
    nested = pa.array([{"a": i} for i in range(ROWS)])
    written(path, table().append_column(pa.field("digest", nested.type), nested))


OTHERS: dict[str, Callable[[Path], None]] = {
    "compressed": lambda path: written(path, compression="snappy"),
    "one column compressed": lambda path: written(path, compression={"report_id": "zstd"}),
    "checksums": lambda path: written(path, write_page_checksum=True),
    "second version of pages": lambda path: written(path, data_page_version="2.0"),
    "dictionaries": lambda path: written(path, use_dictionary=True),
    "no dictionaries": lambda path: written(path, use_dictionary=False),
    "differences": lambda path: written(path, column_encoding={"report_id": "DELTA_BINARY_PACKED"}),
    "split bytes": lambda path: written(path, column_encoding={"report_id": "BYTE_STREAM_SPLIT"}),
    "nullable": with_column("epoch", pa.int64(), [3] * ROWS, nullable=True),
    "a null": with_column("payload", pa.binary(WIDTH), [None] + [b"\0\3"] * (ROWS - 1), nullable=True),
    "bytes of any length": with_column("payload", pa.binary(), [b"\0\3"] * ROWS),
    "fractions": with_column("epoch", pa.float64(), [3.0] * ROWS),
    "unsigned epochs": with_column("epoch", pa.uint64(), [3] * ROWS),
    "times": with_column("epoch", pa.timestamp("ms"), [3] * ROWS),
    "narrow": with_column("epoch", pa.int32(), [3] * ROWS),
    "two of a name": with_two_of_a_name,
    "two epochs": one_row_with("epoch", 4),
    "two digests": one_row_with("digest", 5),
    "statistics of payloads": lambda path: written(path, write_statistics=True),
}
"""Files that pyarrow has to read."""


class Taken:
    """How many row groups were taken from where they lie, and how many were not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lie = self.decoded = 0
        self._patch, self._real = monkeypatch, parquet._as_they_lie
        self.on()

    def on(self) -> None:
        """Take them."""
        self._patch.setattr(parquet, "_as_they_lie", self._count)

    def off(self) -> None:
        """Have pyarrow read everything."""
        self._patch.setattr(parquet, "_as_they_lie", lambda *_: None)

    def _count(self, *arguments: Any) -> EvenRows | None:
        found = self._real(*arguments)
        self.lie, self.decoded = self.lie + (found is not None), self.decoded + (found is None)
        return found


def both(path: Path, taken: Taken, allowed: int | None = None) -> list[Any]:
    """What reading a file gives, which pyarrow gives as well."""
    taken.on()
    found = everything(path, allowed)
    taken.off()
    assert everything(path, allowed) == found, path.read_bytes().hex()
    return found


@pytest.mark.parametrize("name", SOUND)
def test_rows_are_those_that_pyarrow_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """All of a sound file, none of whose row groups is decoded; and of files with any bits changed."""
    path, taken, draw = tmp_path / "in", Taken(monkeypatch), random.Random(name)
    SOUND[name](path)
    data = path.read_bytes()
    found = both(path, taken)
    assert not any(isinstance(one, BadSource) for one in found)
    rows = [{"digest": d % 2**64, "epoch": e, "report_id": i, "payload": p} for _, d, e, i, p in found]
    expected = pq.read_table(path).select(list(COLUMNS)).to_pylist()
    assert rows == [one | {"digest": one["digest"] % 2**64} for one in expected]
    assert (taken.lie, taken.decoded) == (pq.ParquetFile(path).num_row_groups, 0)
    for _ in range(150):
        path.write_bytes(mutated(data, draw))
        both(path, taken)
    foot = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for at in (draw.randrange(4, len(data) - 8 if i % 2 else foot) for i in range(300)):
        path.write_bytes(data[:at] + bytes([(data[at] + draw.choice([-2, -1, 1, 2])) % 256]) + data[at + 1 :])
        both(path, taken)
    assert min(taken.lie, taken.decoded) > 60


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_laid_out_otherwise_is_left_to_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Sound or not, whatever is not laid out as the simulator does is decoded."""
    path, taken = tmp_path / "in", Taken(monkeypatch)
    OTHERS[name](path)
    found = both(path, taken)
    assert (taken.lie, taken.decoded) == (0, 1)
    assert len(found) == (1 if name in {"times", "two of a name"} else ROWS)


def column_pages(path: Path) -> Iterator[tuple[bytes, int, int]]:
    """The pages of each column of each row group, the width of its values, and how many there are."""
    with StoredFile(str(path), 1) as file:
        data = path.read_bytes()
        for group in row_groups(footer(file)):
            for name, column in group.columns.items():
                at, end = pages_lie(file, column)
                yield data[at:end], WIDTH if name == "payload" else 8, group.rows


def found_in(data: bytes, width: int, rows: int, largest: int, most: int) -> Any:
    """As of the reference, by the kernel."""
    bodies = np.full((most, 2), -1, np.int64)
    held = np.frombuffer(data, np.uint8)
    pages = plain_pages.values_of(held, width, rows, largest, bodies)
    return None if pages < 0 else (pages, [tuple(one) for one in bodies[: max(pages, 1)].tolist()])


@pytest.mark.parametrize("name", [*SOUND, *OTHERS])
def test_pages_are_found_as_by_the_reference(tmp_path: Path, name: str) -> None:
    """Of every column, sound or changed, with limits that are met and limits that are not."""
    path, draw = tmp_path / "in", random.Random(name)
    (SOUND | OTHERS)[name](path)
    sound = 0
    for data, width, rows in column_pages(path):
        for i in range(200):
            changed = data
            if i > 20:
                at = draw.randrange(len(data))
                byte = draw.choice(
                    [data[at] ^ 1 << draw.randrange(8), (data[at] + 2) % 256, 0x15, 0x16, 0x2C]
                )
                changed = data[:at] + bytes([byte]) + data[at + 1 :] if i % 3 else mutated(data, draw)
            width_asked, rows_asked = (width, rows) if i % 5 else (width + i % 2, rows + i % 3 - 1)
            limits = 1 << 24 if i % 4 else draw.randrange(1, 200), 64 if i % 7 else draw.randrange(1, 12)
            given = changed, width_asked, rows_asked, *limits
            expected = slow.values_of(*given)
            assert found_in(*given) == expected, (changed.hex(), *given[1:])
            sound += expected is not None
    assert name in OTHERS or sound > 100


def data_page(values: int, body: bytes, **fields: int) -> bytes:
    """A page as our writers write it, apart from the numbers given."""
    told = {"kind": 0, "plain": len(body), "stored": len(body), "values": values, "encoding": 0} | fields
    numbers = [told[name] for name in ("kind", "plain", "stored")]
    about = [told["values"], told["encoding"], told.get("definition", 3), told.get("repetition", 3)]

    def small(number: int) -> bytes:
        number, out = number << 1, b"\x15"
        while number > 127:
            out, number = out + bytes([number & 127 | 128]), number >> 7
        return out + bytes([number])

    return b"".join(map(small, numbers)) + b"\x2c" + b"".join(map(small, about)) + b"\0\0" + body


def dictionary(word: bytes, *, values: int = 1, encoding: int = 0) -> bytes:
    """A dictionary of one word, as pyarrow writes it."""
    size = bytes([2 * len(word)])
    head = b"\x15\4\x15" + size + b"\x15" + size + b"\x4c\x15" + bytes([2 * values, 0x15, 2 * encoding])
    return head + b"\x12\0\0" + word


WORD = bytes(range(8))
RUN = b"\1\x14\0"  # ten zeros of one bit each
PAGES: dict[str, tuple[bytes, bool]] = {
    "plain": (data_page(10, bytes(80)), True),
    "two pages": (data_page(4, bytes(32)) + data_page(6, bytes(48)), True),
    "levels in bits": (data_page(10, bytes(80), definition=4, repetition=4), True),
    "levels in no known way": (data_page(10, bytes(80), definition=5), False),
    "levels as numbers": (data_page(10, bytes(80), repetition=0), False),
    "too few": (data_page(9, bytes(72)), False),
    "too many": (data_page(11, bytes(88)), False),
    "a page of nothing": (data_page(10, bytes(80)) + data_page(0, b""), False),
    "a page too long": (data_page(10, bytes(81)), False),
    "compressed": (data_page(10, bytes(80), plain=81), False),
    "longer than there is": (data_page(10, bytes(80))[:-1], False),
    "another encoding": (data_page(10, bytes(80), encoding=9), False),
    "an index": (data_page(10, bytes(80), kind=1), False),
    "an index that says what a dictionary says": (
        b"\x15\2\x15\xa0\1\x15\xa0\1\x4c\x15\x14\x15\0\0\0" + bytes(80),
        False,
    ),
    "shared": (dictionary(WORD) + data_page(10, RUN, encoding=8), True),
    "shared, as of old": (dictionary(WORD, encoding=2) + data_page(10, RUN, encoding=2), True),
    "shared, two pages": (dictionary(WORD) + 2 * data_page(5, b"\1\x0a\0", encoding=8), True),
    "shared, eight bits": (dictionary(WORD) + data_page(10, b"\x08\x14\0", encoding=8), True),
    "shared, nine bits": (dictionary(WORD) + data_page(10, b"\x09\x14\0", encoding=8), False),
    "shared, no bits": (dictionary(WORD) + data_page(10, b"\0\x14\0", encoding=8), False),
    "a run of five bytes": (dictionary(WORD) + data_page(10, b"\1\x94\x80\x80\x80\0\0", encoding=8), True),
    "a run of six": (dictionary(WORD) + data_page(10, b"\1\x94\x80\x80\x80\x80\0\0", encoding=8), False),
    "the second of one": (dictionary(WORD) + data_page(10, b"\1\x14\1", encoding=8), False),
    "a short run": (dictionary(WORD) + data_page(10, b"\1\x12\0", encoding=8), False),
    "packed": (dictionary(WORD) + data_page(10, b"\1\5\0\0", encoding=8), False),
    "more behind the run": (dictionary(WORD) + data_page(10, RUN + b"\0", encoding=8), False),
    "no run": (dictionary(WORD) + data_page(10, b"\1\0", encoding=8), False),
    "a dictionary of two": (dictionary(WORD, values=2) + data_page(10, RUN, encoding=8), False),
    "a dictionary of none": (dictionary(WORD, values=0) + data_page(10, RUN, encoding=8), False),
    "a dictionary of an odd kind": (dictionary(WORD, encoding=8) + data_page(10, RUN, encoding=8), False),
    "a short word": (dictionary(WORD[:7]) + data_page(10, RUN, encoding=8), False),
    "plain behind a dictionary": (dictionary(WORD) + data_page(10, bytes(80)), False),
    "indices without a dictionary": (data_page(10, RUN, encoding=8), False),
    "a dictionary behind": (data_page(10, bytes(80)) + dictionary(WORD), False),
    "two dictionaries": (2 * dictionary(WORD) + data_page(10, RUN, encoding=8), False),
    "a dictionary alone": (dictionary(WORD), False),
    "nothing": (b"", False),
}


@pytest.mark.parametrize("name", PAGES)
def test_which_pages_hold_values_as_they_are(name: str) -> None:
    """Ten words of eight bytes, or what is not quite that; the reference says the same."""
    data, sound = PAGES[name]
    for limits in ((1 << 24, 8), (80, 3), (79, 3), (80, 1)):
        assert found_in(data, 8, 10, *limits) == slow.values_of(data, 8, 10, *limits)
    assert (found_in(data, 8, 10, 1 << 24, 8) is not None) == sound
    assert found_in(b"", 8, 0, 1 << 24, 8) is slow.values_of(b"", 8, 0, 1 << 24, 8) is None
    for cut in range(len(data)):
        given = data[:cut], 8, 10, 1 << 24, 8
        assert found_in(*given) == slow.values_of(*given)


def test_a_file_that_stands_for_too_much_is_cut_where_pyarrow_cuts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports of so many bytes are allowed: to the byte as many as when each row is looked at."""
    path, taken, row = tmp_path / "in", Taken(monkeypatch), WIDTH + 24
    written(path, row_group_size=20)
    for allowed in (0, 1, 159, 20 * row - 1, 20 * row, 20 * row + 1, 59 * row, ROWS * row - 1, ROWS * row):
        both(path, taken, allowed)
    assert taken.lie == 1 + 1 + 2 + 2 + 3


def test_a_row_group_without_rows_is_left_to_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is taken from pages that are not there."""
    path, taken = tmp_path / "in", Taken(monkeypatch)
    options: dict[str, Any] = {"compression": "none", "use_dictionary": ["digest", "epoch"]}
    with pq.ParquetWriter(path, SCHEMA, write_statistics=False, **options) as writer:
        for rows in (table().slice(0, 0), table()):
            writer.write_table(rows)
    assert pq.ParquetFile(path).metadata.row_group(0).num_rows == 0
    assert sum(not isinstance(one, BadSource) for one in both(path, taken)) == ROWS
    assert (taken.lie, taken.decoded) == (1, 1)


def test_columns_that_follow_one_another_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row group costs one read, and one more for each gap; a file that was cut meanwhile gives nothing."""
    reads, path = list[int](), tmp_path / "in"
    real = StoredFile.readinto

    def counted(self: StoredFile, buffer: Any) -> int:
        reads.append(len(buffer))
        return real(self, buffer)

    monkeypatch.setattr(StoredFile, "readinto", counted)
    for write, times in ((our_own, 2), (beside_others, 2), (written, 1)):
        write(path)
        reads.clear()
        everything(path)
        assert len(reads) == times
    with StoredFile(str(path), 1) as file:
        readers = parquet._Readers(file)
        (group,) = row_groups(footer(file))
        places = {name: pages_lie(file, group.columns[name]) for name in COLUMNS}
        held = readers.columns_of(places)
        assert {name: part.tobytes() for name, part in held.items()} == {
            name: path.read_bytes()[at:end] for name, (at, end) in places.items()
        }
    with StoredFile(str(path), 1) as file:
        readers = parquet._Readers(file)
        path.write_bytes(path.read_bytes()[: max(end for _, end in places.values()) - 1])
        assert readers.columns_of(places) == {}


def test_pages_that_are_too_large_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However a row group is read, a page has so many bytes at most."""
    path, taken = tmp_path / "in", Taken(monkeypatch)
    written(path, data_page_size=1 << 20, write_batch_size=1024)
    for largest, lie in ((ROWS * 8, 1), (ROWS * 8 - 1, 0)):
        for module in (plain_columns, parquet_headers):
            monkeypatch.setattr(module, "MAX_PAGE", largest)
        taken.lie = 0
        assert len(both(path, taken)) == (ROWS if lie else 1)
        assert taken.lie == lie


@pytest.mark.parametrize("shift", range(9))
def test_ids_are_aligned_wherever_they_lie(shift: int) -> None:
    """Kernels that meet words at other places would be compiled once more."""
    ids = np.arange(10, dtype=np.uint64) + 7
    shared = dictionary(WORD) + data_page(10, RUN, encoding=8)
    pages = {"digest": shared, "epoch": shared, "payload": data_page(10, bytes(range(20)))}
    for many in (1, 2, 5):
        each = 10 // many
        parts = (ids[i : i + each] for i in range(0, 10, each))
        pages["report_id"] = b"".join(data_page(each, part.tobytes()) for part in parts)
        memory = np.zeros(16 + sum(map(len, pages.values())), np.uint8)
        held, at = {}, shift
        for name, data in pages.items():
            held[name] = memory[at : at + len(data)]
            held[name][:] = np.frombuffer(data, np.uint8)
            at += len(data)
        rows = plain_columns.even_rows(held, 10, dict.fromkeys(COLUMNS, 8) | {"payload": 2}, 1000)
        assert rows is not None
        assert rows.report_id.flags.aligned
        assert rows.report_id.tolist() == ids.tolist()
        assert rows.payloads.tolist() == np.arange(20).reshape(10, 2).tolist()
        assert (rows.digest == int.from_bytes(WORD, "little")).all()
        assert (rows.epoch == int.from_bytes(WORD, "little")).all()
        assert (rows.digest.dtype, rows.epoch.dtype, rows.report_id.dtype) == (np.uint64, np.int64, np.uint64)
        assert rows.first == 1000


def test_nothing_is_moved_unless_all_columns_are_sound() -> None:
    """pyarrow reads the same memory afterwards."""
    shared = dictionary(WORD) + data_page(10, RUN, encoding=8)
    pages = {"digest": shared, "epoch": shared, "report_id": 2 * data_page(5, bytes(range(40)))}
    pages["payload"] = data_page(10, bytes(20), encoding=9)
    held = {name: np.frombuffer(data, np.uint8).copy() for name, data in pages.items()}
    assert plain_columns.even_rows(held, 10, dict.fromkeys(COLUMNS, 8) | {"payload": 2}, 0) is None
    assert {name: part.tobytes() for name, part in held.items()} == pages


def footer_with(*, stands: bytes = b"", beside: bytes = b"") -> bytes:
    """A footer of one row group with one column, and more in its metadata, or beside that."""
    metadata = b"\x39\x18\6digest" + b"\x26\x14" + stands + b"\0"
    return b"\x49\x1c" + b"\x19\x1c" + b"\x3c" + metadata + beside + b"\0" + b"\x26\x14\0" + b"\0"


MIN, SHORT = b"\x18\x08" + WORD, b"\x18\x07" + WORD[:7]
FOOTERS = {
    "nothing more": (footer_with(), True),
    "a least word": (footer_with(stands=b"\x7c" + MIN + b"\0"), True),
    "numbers as well": (footer_with(stands=b"\x7c" + MIN + b"\x26\2\0"), True),
    "a least value of seven bytes": (footer_with(stands=b"\x7c" + SHORT + b"\0"), False),
    "a greatest value of no bytes": (footer_with(stands=b"\x7c" + MIN + b"\x18\0\0"), False),
    "twice, the first one odd": (
        footer_with(stands=b"\x7c" + SHORT + b"\0" + b"\x0c\x18" + MIN + b"\0"),
        False,
    ),
    "statistics that are none": (footer_with(stands=b"\x78\1a"), True),
    "encrypted": (footer_with(beside=b"\x5c\0"), False),
    "encrypted metadata": (footer_with(beside=b"\x68\1a"), False),
    "an index": (footer_with(beside=b"\x46\2"), True),
}


@pytest.mark.parametrize("name", FOOTERS)
def test_which_columns_are_in_clear_with_sound_statistics(name: str) -> None:
    """pyarrow refuses all others, so they are left to it; the reference says the same."""
    data, usual = FOOTERS[name]
    (group,) = row_groups(data)
    assert (group.rows, group.columns, group.usual) == (10, {"digest": {5: 10}}, {"digest": usual})
    (expected,) = reference.row_groups(data)
    assert (expected.rows, expected.usual) == (group.rows, group.usual)


@pytest.mark.parametrize("told", ["digest", "epoch", "report_id", "payload"])
def test_where_footers_are_read_differently_pyarrow_reads_the_file(tmp_path: Path, told: str) -> None:
    """Whatever of a column pyarrow reads otherwise, or cannot read, nothing is taken from where it lies."""
    path = tmp_path / "in"
    written(path)
    with StoredFile(str(path), 1) as file:
        readers = parquet._Readers(file)
        (group,) = row_groups(footer(file))
        leaves = parquet._leaves(readers.schema)
        assert leaves is not None
        assert readers.agree(0, group, leaves)
        assert not readers.agree(1, group, leaves)
        column = group.columns[told]
        for key in (5, 7, 9, 11):
            for value in (column.get(key, 0) + 1, -1, None):
                changed = dict(column) if value is None else column | {key: value}
                if value is None and changed.pop(key, None) is None:
                    continue
                other = replace(group, columns=group.columns | {told: changed})
                assert not readers.agree(0, other, leaves)
        assert not readers.agree(0, replace(group, usual=group.usual | {told: False}), leaves)
        assert not readers.agree(0, replace(group, rows=group.rows - 1), leaves)
        assert not readers.agree(0, group, leaves | {told: 3 - leaves[told]})
