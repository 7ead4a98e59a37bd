"""Tables of other programs: every type that holds whole numbers is read, every other one is named."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption

from ldpbeam.errors import Reason
from ldpbeam.transforms.sources import parquet
from ldpbeam.transforms.sources.chunks import BadSource, ReportTable
from ldpbeam.transforms.sources.files import ReadFiles
from tests.reference import report_columns as slow
from tests.transforms.sources.test_parquet import everything

VARIATIONS = 80
EDGES = [0, 1, 2**31, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -1, -(2**63)]
Draw = random.Random


def number(draw: Draw, low: int = -(2**66), high: int = 2**66) -> int:
    made = draw.choice(
        [draw.choice(EDGES), draw.randrange(100), draw.getrandbits(64), draw.randrange(low, high)]
    )
    return made if low <= made <= high else draw.randrange(max(low, 0), min(high, 100))


def integers(kind: Any, low: int, high: int) -> tuple[Any, Callable[[Draw], Any]]:
    return kind, lambda draw: number(draw, low, high)


def text(draw: Draw) -> str:
    if draw.random() < 0.2:
        odd = ["", " 1", "1 ", "1.0", "-", "+1", "٣", "1\n", "9" * 39, "0" * 38, "1e3", "naïve"]
        return draw.choice(odd)
    return str(number(draw))


def decimals(kind: Any) -> tuple[Any, Callable[[Draw], Any]]:
    most = min(10**kind.precision - 1, 2**66)
    return kind, lambda draw: Decimal(number(draw, -most, most))


NUMBERS: dict[str, tuple[Any, Callable[[Draw], Any]]] = {
    "uint8": integers(pa.uint8(), 0, 255),
    "uint32": integers(pa.uint32(), 0, 2**32 - 1),
    "uint64": integers(pa.uint64(), 0, 2**64 - 1),
    "int16": integers(pa.int16(), -(2**15), 2**15 - 1),
    "int32": integers(pa.int32(), -(2**31), 2**31 - 1),
    "int64": integers(pa.int64(), -(2**63), 2**63 - 1),
    "decimal(20, 0)": decimals(pa.decimal128(20, 0)),
    "decimal(38, 0)": decimals(pa.decimal128(38, 0)),
    "decimal(18, 0)": decimals(pa.decimal128(18, 0)),
    "text": (pa.string(), text),
    "large text": (pa.large_string(), text),
    "text, kept once": (pa.dictionary(pa.int32(), pa.string()), text),
    "text, viewed": (pa.string_view(), text),
    "numbers, kept once": (pa.dictionary(pa.int8(), pa.int64()), lambda draw: draw.randrange(-5, 100)),
}
PAYLOADS = {
    "bytes": pa.binary(),
    "large bytes": pa.large_binary(),
    "two bytes": pa.binary(2),
    "bytes, kept once": pa.dictionary(pa.int32(), pa.binary()),
    "bytes, viewed": pa.binary_view(),
}


def drawn(draw: Draw, rows: int) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    columns, values = {}, {}
    for name in ("digest", "epoch", "report_id"):
        kind, make = NUMBERS[draw.choice(list(NUMBERS))]
        values[name] = [None if draw.random() < 0.05 else make(draw) for _ in range(rows)]
        columns[name] = pa.array(values[name], kind)
    kind = PAYLOADS[draw.choice(list(PAYLOADS))]
    lengths = [2] if pa.types.is_fixed_size_binary(kind) else draw.choice([[2], [0, 1, 2, 30]])
    made = [None if draw.random() < 0.05 else draw.randbytes(draw.choice(lengths)) for _ in range(rows)]
    values["payload"], columns["payload"] = made, pa.array(made, kind)
    columns["more"] = pa.array([[i] for i in range(rows)])
    order = list(columns)
    draw.shuffle(order)
    return {name: columns[name] for name in order}, values


@pytest.mark.parametrize("seed", range(VARIATIONS))
@pytest.mark.cases(40)
def test_rows_are_those_of_the_reference(tmp_path: Path, seed: int) -> None:
    """Any types together, with nulls and numbers that are none, as any writer might lay them out."""
    draw = Draw(f"columns {seed}")
    rows = draw.choice([1, 5, 40, 300])
    columns, values = drawn(draw, rows)
    pq.write_table(
        pa.table(columns),
        tmp_path / "in",
        row_group_size=draw.choice([7, 1000]),
        use_dictionary=draw.choice([True, False, ["digest", "payload"]]),
        compression=draw.choice(["none", "snappy", "zstd", "gzip"]),
        data_page_version=draw.choice(["1.0", "2.0"]),
        data_page_size=draw.choice([64, 1 << 20]),
        store_schema=draw.choice([True, False]),
        store_decimal_as_integer=draw.choice([True, False]),
        write_page_checksum=draw.choice([True, False]),
    )
    found = everything(tmp_path / "in")
    expected = [slow.row({name: values[name][i] for name in values}) for i in range(rows)]
    assert [one for one in found if isinstance(one, tuple)] == [
        (i, one[0], one[1], one[2], one[3]) for i, one in enumerate(expected) if one is not None
    ]
    bad = [one for one in found if isinstance(one, BadSource)]
    assert {one.reason for one in bad} <= {Reason.MALFORMED}
    assert sum(one.count for one in bad) == expected.count(None)


def table(**changed: Any) -> pa.Table:
    columns = {
        "digest": pa.array([1, 2, 3], pa.uint64()),
        "epoch": pa.array([4, 5, 6]),
        "report_id": pa.array([7, 8, 9], pa.uint64()),
        "payload": pa.array([b"ab", b"cd", b"ef"]),
    } | changed
    return pa.table({name: column for name, column in columns.items() if column is not None})


WRONG: dict[str, tuple[Callable[[], pa.Table], str]] = {
    "capitals": (
        lambda: table().rename_columns(["Digest", "EPOCH", "ReportId", "pay-load"]),
        "there is no column digest",
    ),
    "8 bytes": (
        lambda: table(report_id=pa.array([bytes(8)] * 3, pa.binary(8))),
        "report_id is fixed_size_binary[8]",
    ),
    "bytes for digests": (lambda: table(digest=pa.array([b"1"] * 3)), "the column digest is binary"),
    "a timestamp": (lambda: table(epoch=pa.array([1, 2, 3], pa.timestamp("ms"))), "epoch is timestamp[ms]"),
    "a double": (lambda: table(epoch=pa.array([1.0, 2, 3])), "epoch is double"),
    "a fraction": (
        lambda: table(digest=pa.array([Decimal(1)] * 3, pa.decimal128(9, 2))),
        "digest is decimal128(9, 2)",
    ),
    "too many digits": (
        lambda: table(digest=pa.array([Decimal(1)] * 3, pa.decimal256(50, 0))),
        "digest is decimal256(50, 0)",
    ),
    "a struct of itself": (lambda: table(epoch=pa.array([{"epoch": 1}] * 3)), "epoch is a struct"),
    "a map": (
        lambda: table(payload=pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int8()))),
        "payload is a map",
    ),
    "hex": (lambda: table(payload=pa.array(["00ff"] * 3)), "payload is string"),
    "hex, kept once": (
        lambda: table(payload=pa.array(["00ff"] * 3).dictionary_encode()),
        "payload is string",
    ),
    "inside": (
        lambda: pa.table({"report": pa.array([{"digest": 1, "epoch": 2}] * 3), "payload": [b"a"] * 3}),
        "there is no column digest",
    ),
    "twice": (
        lambda: pa.Table.from_arrays([*table().columns, table()["epoch"]], [*table().column_names, "epoch"]),
        "epoch is there 2 times",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_column_of_another_type_is_named(tmp_path: Path, name: str) -> None:
    make, words = WRONG[name]
    pq.write_table(make(), tmp_path / "in")
    (bad,) = everything(tmp_path / "in")
    assert (bad.reason, bad.count, bad.place) == (Reason.WRONG_COLUMNS, 3, 0)
    assert words in bad.explanation
    assert bad.explanation.endswith(".")
    if name != "twice":
        assert "must be" in bad.explanation


@pytest.mark.parametrize(
    ("folder", "dropped", "numbers"),
    [
        ("epoch=5", ["epoch"], {"epoch": 5}),
        ("epoch=%35", ["epoch"], {"epoch": 5}),
        ("digest=-1/x=2/epoch=3", ["digest", "epoch"], {"digest": 2**64 - 1, "epoch": 3}),
        ("epoch=1/epoch=2", ["epoch"], {"epoch": 2}),
        ("epoch=9", [], {}),
    ],
)
def test_a_folder_names_what_its_files_leave_out(
    tmp_path: Path, folder: str, dropped: list[str], numbers: dict[str, int]
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    pq.write_table(table().drop_columns(dropped), tmp_path / folder / "part-0.parquet")
    found = everything(tmp_path / folder / "part-0.parquet")
    sound = {"digest": [1, 2, 3], "epoch": [4, 5, 6]} | {name: [one] * 3 for name, one in numbers.items()}
    assert [one[1] for one in found] == sound["digest"]
    assert [one[2] for one in found] == sound["epoch"]
    assert [one[3:] for one in found] == [(7, b"ab"), (8, b"cd"), (9, b"ef")]


@pytest.mark.parametrize(
    "folder",
    ["epoch=", "epoch=__HIVE_DEFAULT_PARTITION__", f"epoch={2**63}"],
)
def test_a_folder_that_names_no_number_is_said(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    pq.write_table(table(epoch=None), tmp_path / folder / "part-0.parquet")
    (bad,) = everything(tmp_path / folder / "part-0.parquet")
    assert (bad.reason, bad.count) == (Reason.WRONG_COLUMNS, 3)
    assert "epoch=NUMBER" in bad.explanation


def test_the_summary_of_a_dataset_is_no_data(tmp_path: Path) -> None:
    """Named outright, ``_metadata`` is refused by what it is: its rows are in other files."""
    collected: list[Any] = []
    pq.write_to_dataset(table(), tmp_path / "set", metadata_collector=collected)
    pq.write_metadata(table().schema, tmp_path / "_metadata", collected)
    (bad,) = everything(tmp_path / "_metadata")
    assert (bad.reason, bad.count) == (Reason.UNSUPPORTED_FORMAT, 1)
    assert "summary of a dataset" in bad.explanation


@pytest.mark.parametrize("dictionary", [True, False])
def test_decimals_may_be_bytes_of_any_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dictionary: bool
) -> None:
    """As some writers in Java have it; pyarrow writes none, so the type is put into the footer by hand."""
    ids = [0, 1, -1, 255, 2**63, 2**64 - 1, -(2**63), 2**64, 7] * 40
    numbers = [one.to_bytes(one.bit_length() // 8 + 1, "big", signed=True) for one in ids]
    count = len(ids)
    columns = {"digest": [1] * count, "epoch": [2] * count, "report_id": numbers, "payload": [b"a"] * count}
    pq.write_table(pa.table(columns), tmp_path / "in", use_dictionary=dictionary, store_schema=False)
    data = (tmp_path / "in").read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    body, foot = data[: -8 - length], data[-8 - length : -8]
    name = b"\x18\x09report_id"
    assert foot.count(name + b"\0") == 1
    # Fields 6, 7 and 8 of the schema's element: DECIMAL, scale 0, precision 20.
    foot = foot.replace(name + b"\0", name + b"\x25\x0a\x15\x00\x15\x28\0")
    (tmp_path / "in").write_bytes(body + foot + len(foot).to_bytes(4, "little") + b"PAR1")
    assert pq.read_schema(tmp_path / "in").field("report_id").type == pa.decimal128(20, 0)
    found = everything(tmp_path / "in")
    assert [one[3] for one in found if isinstance(one, tuple)] == [
        one % 2**64 for one in ids if -(2**63) <= one < 2**64
    ]
    assert sum(one.count for one in found if isinstance(one, BadSource)) == 40
    # Each row may have the longest value of the dictionary, so few are decoded together.
    monkeypatch.setattr(parquet, "_LONG_AT_ONCE", 19)
    sizes = [
        len(one.rows.digest)
        for one in ReadFiles().process(str(tmp_path / "in"))
        if isinstance(one, ReportTable)
    ]
    assert (max(sizes) < 20) == dictionary
    assert sum(sizes) == count - 40


class _Keys(encryption.KmsClient):
    def __init__(self, _: Any) -> None:
        super().__init__()

    def wrap_key(self, key_bytes: bytes, _: str) -> str:
        return base64.b64encode(key_bytes).decode()

    def unwrap_key(self, wrapped_key: str, _: str) -> bytes:
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("columns", [["payload"], ["epoch", "report_id"], ["more"]])
def test_encrypted_columns_are_named(tmp_path: Path, columns: list[str]) -> None:
    """With a footer in clear only some columns are closed, perhaps none that is needed."""
    factory = encryption.CryptoFactory(_Keys)
    asked = encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"c": columns}, plaintext_footer=True, double_wrapping=False
    )
    keys = factory.file_encryption_properties(encryption.KmsConnectionConfig(), asked)
    rows = table(more=pa.array([1, 2, 3]))
    pq.write_table(rows, tmp_path / "in", encryption_properties=keys)
    found = everything(tmp_path / "in")
    if columns == ["more"]:
        assert [one[3] for one in found] == [7, 8, 9]
        return
    (bad,) = found
    assert (bad.reason, bad.count) == (Reason.WRONG_COLUMNS, 3)
    assert f"encrypted: {', '.join(columns)}" in bad.explanation
