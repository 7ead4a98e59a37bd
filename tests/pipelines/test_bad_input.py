"""Whatever is in a file: each record has one fate, good ones count, and no payload is written down."""

from __future__ import annotations

import base64
import gzip
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from ldpbeam.protocols import Parameters
from ldpbeam.transforms.sources import stored_file
from ldpbeam.wire.codec import MAX_RECORD
from ldpbeam.wire.report_pb2 import Report, ReportBatch
from tests.pipelines.running import Done, collection, execute, frame, varint

# Long payloads, so that finding one in an output is no coincidence: 26 bytes with 5 unused bits, and 17 bytes
# whose last one is a symbol below 3 or so.
BITS = collection("sue", 203, "bits")
HASHED = collection("olh", 11, "hashed", parameters=Parameters(epsilon=1.0, g=3, hash_family="affine"))
AGREED = (BITS, HASHED)
TEXT = (
    "name: bits\nversion: 1\nprotocol: sue\nepsilon: 1.0\ndomain: {size: 203}\n"
    "epoch: {length: 1h, count: 100}\n"
)
"""The first of them as a file."""
WIDTH = BITS.protocol.device.payload_size
_ids = count(1000)
_draw = random.Random(7)
SENT: list[bytes] = []
"""Every payload that any file holds."""


def payload() -> bytes:
    made = _draw.randbytes(WIDTH - 1) + bytes([_draw.randrange(8)])
    SENT.append(made)
    return made


def report(**changes: Any) -> bytes:
    fields = {"digest": BITS.digest, "epoch": 4, "report_id": next(_ids), "payload": payload()}
    return Report(**{**fields, **changes}).SerializeToString()


def batch(n: int = 3, **changes: Any) -> ReportBatch:
    fields = {
        "digest": BITS.digest,
        "epoch": 4,
        "count": n,
        "report_ids": [next(_ids) for _ in range(n)],
        "payloads": b"".join(payload() for _ in range(n)),
    }
    return ReportBatch(**{**fields, **changes})


def good(n: int = 2) -> bytes:
    return b"".join(frame(report()) for _ in range(n))


def between(*bad: bytes) -> bytes:
    return good() + b"".join(map(frame, bad)) + good()


def longest() -> bytes:
    """A report with an unknown field that fills the record up to the last byte."""
    known = report()
    rest = MAX_RECORD - len(known) - 5
    return known + b"\x7a" + varint(rest) + bytes(rest)


def table(n: int = 4, **changes: Any) -> pa.Table:
    columns = {
        "digest": pa.array([BITS.digest] * n, pa.uint64()),
        "epoch": pa.array([4] * n, pa.int64()),
        "report_id": pa.array([next(_ids) for _ in range(n)], pa.uint64()),
        "payload": pa.array([payload() for _ in range(n)], pa.binary(WIDTH)),
    }
    columns.update(changes)
    return pa.table({k: v for k, v in columns.items() if v is not None})


def parquet(held: pa.Table, **options: Any) -> bytes:
    sink = BytesIO()
    pq.write_table(held, sink, **options)
    return sink.getvalue()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


@dataclass(frozen=True)
class Case:
    data: bytes
    good: int
    reasons: dict[str, int]
    duplicate: int = 0


def _cases() -> dict[str, Callable[[], Case]]:
    same, other = next(_ids), next(_ids)
    twice = report(report_id=same)
    hashed = bytearray(_draw.randbytes(17))
    hashed[16] = 0
    bad_symbol = bytes(hashed[:16]) + b"\xfe"
    SENT.extend([bytes(hashed[:16]), bad_symbol])
    big = varint(MAX_RECORD + 1)
    many = b"".join(frame(report(epoch=8)) for _ in range(4000))
    nulls = pa.array([payload(), None, payload(), payload()], pa.binary(WIDTH))

    return {
        "empty": lambda: Case(b"", 0, {"empty_file": 1}),
        "empty gzip": lambda: Case(gzip.compress(b""), 0, {"empty_file": 1}),
        "truncated": lambda: Case(good(3)[:-1], 2, {"truncated": 1}),
        "garbage messages": lambda: Case(
            between(b"\xff" * 9, b"\x07", b"\x22\x05abc", b"\x0c", b"\x02\0"), 4, {"malformed": 5}
        ),
        "bad length": lambda: Case(good(2) + b"\x81" * 10 + good(2), 2, {"malformed": 1}),
        "text": lambda: Case(b"~" * 126 + b"\n", 0, {"unsupported_format": 1}),
        "unknown digest": lambda: Case(
            between(report(digest=BITS.digest ^ 1), batch(5, digest=3).SerializeToString()),
            4,
            {"unknown_collection": 6},
        ),
        "out of range": lambda: Case(
            between(
                report(digest=HASHED.digest, payload=bad_symbol),
                report(digest=HASHED.digest, payload=bytes(hashed)),
            ),
            5,
            {"value_out_of_range": 1},
        ),
        "wrong length": lambda: Case(
            between(report(payload=payload() + b"\0"), report(payload=payload()[:-1]), report(payload=b"")),
            4,
            {"wrong_length": 3},
        ),
        "unused bits": lambda: Case(
            between(
                report(payload=payload()[:-1] + b"\x08"),
                batch(2, payloads=payload() + payload()[:-1] + b"\xff").SerializeToString(),
            ),
            5,
            {"unused_bits": 2},
        ),
        "duplicates": lambda: Case(
            between(twice, twice, report(report_id=same), report(report_id=other), report(report_id=0)),
            7,
            {},
            duplicate=2,
        ),
        "oversize": lambda: Case(good(2) + big + bytes(MAX_RECORD + 1) + good(2), 4, {"oversize": 1}),
        "longest allowed": lambda: Case(good(2) + frame(longest()), 3, {}),
        "truncated gzip": lambda: Case(gzip.compress(many)[:-20], -3700, {"truncated": 1}),
        "gzip, cut checksum": lambda: Case(gzip.compress(good(3))[:-3], 3, {"truncated": 1}),
        "corrupt zstd": lambda: Case(zstd(many)[:-1] + b"?", -2000, {"corrupt_file": 1}),
        "gzip, bad second member": lambda: Case(gzip.compress(good(3)) + b"not gzip", 3, {"corrupt_file": 1}),
        "gzip members, record in both": lambda: Case(
            b"".join(gzip.compress(part) for part in (many[:777], many[777:])), 4000, {}
        ),
        "zstd frames": lambda: Case(zstd(many[:777]) + zstd(many[777:]), 4000, {}),
        "gzip header only": lambda: Case(b"\x1f\x8b", 0, {"truncated": 1}),
        "parquet": lambda: Case(parquet(table()), 4, {}),
        "parquet, cut": lambda: Case(parquet(table())[:-9], 0, {"corrupt_file": 1}),
        "parquet, no payload": lambda: Case(parquet(table(payload=None)), 0, {"wrong_columns": 4}),
        "parquet, no rows": lambda: Case(parquet(table(0)), 0, {"empty_file": 1}),
        "parquet, null payload": lambda: Case(parquet(table(payload=nulls)), 3, {"malformed": 1}),
        "parquet, epochs as doubles": lambda: Case(
            parquet(table(epoch=pa.array([4.0, 4.5, 4.0, 5.0]))), 0, {"wrong_columns": 4}
        ),
        "batch": lambda: Case(between(batch(3).SerializeToString()), 7, {}),
        "batch, count too high": lambda: Case(
            between(batch(3, count=4).SerializeToString()), 4, {"malformed": 1}
        ),
        "both kinds": lambda: Case(
            between(report() + batch().SerializeToString(), batch().SerializeToString() + report()),
            4,
            {"malformed": 2},
        ),
    }


CASES = _cases()


@dataclass(frozen=True)
class Ran:
    done: Done
    cases: dict[str, Case]
    paths: dict[str, Path]
    rejects: dict[str, list[dict[str, Any]]]


def _file(folder: Path, name: str) -> Path:
    return folder / (name.replace(" ", "-").replace(",", "") + ".pb")


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    base = tmp_path_factory.mktemp("bad")
    (base / "in").mkdir()
    cases = {name: make() for name, make in CASES.items()}
    paths = {name: _file(base / "in", name) for name in cases}
    for name, case in cases.items():
        paths[name].write_bytes(case.data)
    (base / "folder").mkdir()
    unreadable = {"a folder": base / "folder", "no file": base / "gone.pb"}
    with pytest.MonkeyPatch.context() as patch:  # nobody waits for what is no file to become one
        patch.setattr(stored_file, "_FIRST_PAUSE", 0.0)
        done = execute(AGREED, [*paths.values(), *unreadable.values()], base / "out", max_error_fraction=1.0)
    rejects: dict[str, list[dict[str, Any]]] = {}
    for row in done.rejects():
        rejects.setdefault(row["source"], []).append(row)
    for name, path in unreadable.items():
        cases[name], paths[name] = Case(b"", 0, {"unreadable_file": 1}), path
    return Ran(done, cases, paths, rejects)


@pytest.mark.parametrize("name", [*CASES, "a folder", "no file"])
def test_each_fault_has_its_reason(ran: Ran, name: str) -> None:
    """A file's rejects are listed under its name with the right reasons, counts and sensible places."""
    rows = ran.rejects.get(str(ran.paths[name]), [])
    found: Counter[str] = Counter()
    for row in rows:
        found[row["reason"]] += row["count"]
        assert -1 <= row["place"] <= max(len(ran.cases[name].data), 1 << 20)
        assert row["explanation"].endswith(".")
    assert found == ran.cases[name].reasons


def test_the_books_balance_over_all_faults(ran: Ran) -> None:
    """run.json adds up: every reason with its total, duplicates, and all good reports counted once."""
    wanted: Counter[str] = Counter()
    for case in ran.cases.values():
        wanted.update(case.reasons)
    # One of the "duplicates" has another payload; no table of rejects lists it.
    wanted["conflicting_report_id"] += 1
    assert Counter(ran.done.total["rejected"]) == wanted
    assert ran.done.exit_code == 4
    assert ran.done.record["status"] == "ok_with_rejects"
    # Some files hold the same 4000 reports; they count once, in an epoch of their own.
    few = sum(c.good for c in ran.cases.values() if 0 <= c.good < 4000)
    assert ran.done.total["counted"] == few + 4000
    repeated = ran.done.total["duplicate"] + 1 - sum(c.duplicate for c in ran.cases.values())
    assert 3700 + 2000 <= repeated <= 3 * 4000


def test_rejects_say_where(ran: Ran) -> None:
    data = ran.cases["unknown digest"].data
    rows = ran.rejects[str(ran.paths["unknown digest"])]
    first = min(rows, key=lambda row: row["place"])
    assert Report.FromString(data[first["place"] : first["place"] + data[first["place"] - 1]]).digest == (
        BITS.digest ^ 1
    )
    (row,) = ran.rejects[str(ran.paths["parquet, null payload"])]
    assert row["place"] == 1
    (row,) = [r for r in ran.rejects[str(ran.paths["unused bits"])] if r["index"] >= 0]
    assert row["index"] == 1


@pytest.mark.thorough
def test_nothing_written_holds_a_payload(ran: Ran) -> None:
    """Neither rejects nor run.json contain payload bytes, raw, in hex or in base64."""
    texts = []
    written = [*(ran.done.output / "rejects").iterdir(), ran.done.output / "run.json"]
    for path in sorted(written):
        texts.append(path.read_bytes())
        if path.suffix == ".parquet":
            texts.append(repr(pq.read_table(path).to_pydict()).encode())
            texts.append(repr(pq.read_schema(path).metadata).encode())
    everything = b"\n".join(texts).lower()
    raw = b"\n".join(texts)
    assert len(SENT) > 4000
    # A twelfth of the payloads, among them all of the first and last cases: the search is long.
    for sent in [*SENT[:100], *SENT[100::12], *SENT[-300:]]:
        part = sent[:16]
        assert part not in raw
        assert part.hex().encode() not in everything
        assert base64.b64encode(sent[:15]) not in raw
