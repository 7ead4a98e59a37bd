"""Mutated messages against the protobuf library, mutated files of every format, and bombs.

`make nightly` has millions of messages. A part of a test has its own seed, so that what is found can be found
again: the seed is the parameter in the test's name.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpbeam.transforms.sources.stored_file import StoredFile
from tests.conftest import REPOSITORY
from tests.fuzz.bombs import BOMBS
from tests.ldpbeam.wire.test_codec import by_library, read_all
from tests.ldpbeam.wire.test_codec import mutated as mutated_message
from tests.transforms.sources.test_files import AGREED, KINDS, WIDTH, check, mutated, valid
from tests.waiting import slowness

MESSAGES, FILES = 20_000, 600
"""For each seed."""


def seeds(count: int) -> pytest.MarkDecorator:
    """From the second on they are slow."""
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, count)]
    return pytest.mark.parametrize("seed", [0, *slow])


LINEAR = frozenset(
    {
        "a count and no ids",
        "empty groups",
        "gzip members",
        "ids as long text",
        "ids as many digits",
        "ids in parts",
        "row groups over the same pages",
        "zstd frames",
    }
)
"""Bombs by what reading a byte of them used to cost; the others stand for too much and are cut."""


@seeds(20)
@pytest.mark.thorough
def test_messages_are_read_as_the_library_reads_them(seed: int) -> None:
    """Kind and every field of each message."""
    draw = random.Random(f"messages {seed}")
    messages = [mutated_message(draw) for _ in range(MESSAGES)]
    wrong = [
        (message.hex(), read)
        for message, read in zip(messages, read_all(messages), strict=True)
        if read != by_library(message)
    ]
    assert wrong[:5] == []


@pytest.mark.parametrize("depth", [1, 99, 100, 101, 1000])
def test_groups_are_nested_as_deep_as_the_library_takes_them(depth: int) -> None:
    """And no deeper; unlike before, they cost what other bytes cost."""
    for message in (
        b"\x0b" * depth + b"\x0c" * depth,
        b"\x0b" * depth + b"\x0c" * (depth - 1),
        b"\x03" * depth + b"\x04" * depth,
        b"\x0b" * depth + b"\x08\x01\x12\x02ab\x1d1234\x19" + b"12345678" + b"\x0c" * depth,
    ):
        assert read_all([message]) == [by_library(message)]


@seeds(20)
def test_mutated_files_balance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Every format in turn, with columns of other types too: no exception, and the books balance."""
    monkeypatch.setattr(StoredFile, "_drop", _never)
    draw = random.Random(f"files {seed}")
    sound = {kind: valid(kind) for kind in KINDS} | typed_tables()
    for i in range(FILES):
        kind = list(sound)[i % len(sound)]
        check(tmp_path / "in", mutated(sound[kind], draw))


def _never(_: StoredFile) -> None:
    pytest.fail("damaged content was taken for a failing storage")


def typed_tables() -> dict[str, bytes]:
    """Tables of the same reports with other types of columns."""
    table = pq.read_table(BytesIO(valid("parquet")))
    made = {}
    for name, column in {
        "signed": ("report_id", table["report_id"].to_numpy().view("int64")),
        "fractions": ("epoch", table["epoch"].to_numpy().astype(float)),
        "variable": ("payload", pa.array(table["payload"].to_pylist(), pa.binary())),
        "large": ("payload", pa.array(table["payload"].to_pylist(), pa.large_binary())),
        "text": ("payload", pa.array(["ab"] * table.num_rows)),
        "digits": ("report_id", pa.array([str(one) for one in table["report_id"].to_pylist()])),
        "digits once": (
            "digest",
            pa.array([str(one) for one in table["digest"].to_pylist()]).dictionary_encode(),
        ),
        "decimals": ("report_id", table["report_id"].cast(pa.decimal128(20, 0))),
        "long decimals": ("report_id", table["report_id"].cast(pa.decimal256(50, 5))),
        "rounded": ("report_id", table["report_id"].to_numpy().astype(float)),
    }.items():
        at = table.schema.get_field_index(column[0])
        sink = BytesIO()
        pq.write_table(table.set_column(at, column[0], _as_column(column[1])), sink, row_group_size=16)
        made[name] = sink.getvalue()
    return made


def _as_column(values: Any) -> Any:
    return values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)


@seeds(20)
@pytest.mark.thorough
def test_no_row_of_a_table_is_lost_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Each byte outside the pages' data changed: fewer rows than there were are never read without a word."""
    monkeypatch.setattr(StoredFile, "_drop", _never)
    data, draw = rows_in_groups(), random.Random(f"footer {seed}")
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    silent, found = [], Counter[str]()
    places = [*range(footer, len(data)), *draw.sample(range(4, footer), 200)]
    for place in places[seed % 2 :: 2]:
        changed = bytearray(data)
        changed[place] ^= draw.randrange(1, 256)
        admitted, rejected = check(tmp_path / "in", bytes(changed))
        total = admitted + rejected.total()
        if admitted < 200 and not rejected:
            silent.append((place, admitted))
        found["whole" if total == 200 else "fewer" if total < 200 else "more"] += 1
    assert silent == []
    assert found["whole"] > 100


def rows_in_groups() -> bytes:
    """Two hundred sound rows in four row groups."""
    columns = {
        "digest": pa.array([AGREED.digest] * 200, pa.uint64()),
        "epoch": pa.array([i % 5 for i in range(200)], pa.int64()),
        "report_id": pa.array([random.Random(i).getrandbits(64) for i in range(200)], pa.uint64()),
        "payload": pa.array([b"\0\3"] * 200, pa.binary(WIDTH)),
    }
    sink = BytesIO()
    pq.write_table(pa.table(columns), sink, row_group_size=50)
    return sink.getvalue()


@pytest.mark.thorough
def test_bombs_cost_little(tmp_path: Path) -> None:
    """At most 64 MiB beyond what sound files took, and time in proportion to stored bytes."""
    for name, make in BOMBS.items():
        (tmp_path / name).write_bytes(make())
    command = [sys.executable, "-m", "tests.fuzz.bombs", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert {line[0] for line in lines} == set(BOMBS)
    stopped = {line[0] for line in lines if "expansion_limit" in line[5]}
    assert stopped == {name for name in BOMBS if name not in LINEAR}
    slow = slowness()
    for name, size, seconds, memory, _, _ in lines:
        assert int(memory) <= 64 << 20, name
        assert float(seconds) < (1 + 5e-6 * int(size)) * slow, name
