"""Reading files is total: any bytes end well, each record is booked once, and nothing is held for long."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
from collections import Counter
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp.reports import Admission, admit_rows
from ldp.wire.report_pb2 import Report, ReportBatch
from tests.conftest import REPOSITORY
from tests.pipelines.running import collection, frame
from transforms.reports import ACCOUNTING, REJECTED, AdmitReports
from transforms.sources import BadSource, Chunk, ReadFiles, Table

AGREED = collection("sue", 11, "bits")
WIDTH = 2


def read(path: Path) -> tuple[int, Counter[str], Counter[str]]:
    """Admitted reports, rejections by reason, and the books, of one file."""
    admitted, rejected, books = 0, Counter[str](), Counter[str]()
    admit = AdmitReports({AGREED.digest: AGREED})
    for element in ReadFiles().process(str(path)):
        for output in admit.process(element):
            if output.tag == REJECTED:
                rejected[output.value[1].reason.value] += output.value[1].count
            elif output.tag == ACCOUNTING:
                (_, what), count = output.value
                books[what] += count
            else:
                epoch, columns = output.value
                assert epoch == columns.epoch
                assert columns.payloads.shape == (len(columns.report_ids), WIDTH)
                admitted += len(columns)
    return admitted, rejected, books


def check(path: Path, data: bytes) -> tuple[int, Counter[str]]:
    """Read ``data`` as a file; read = admitted + rejected, by reason, or it fails."""
    path.write_bytes(data)
    admitted, rejected, books = read(path)
    assert books["read"] == admitted + rejected.total()
    assert {f"rejected.{reason}": n for reason, n in rejected.items()} == {
        what: n for what, n in books.items() if what not in {"read", "repeated"}
    }
    return admitted, rejected


def valid(kind: str) -> bytes:
    """A sound file of some reports."""
    draw = random.Random(3)
    singles = [
        Report(
            digest=AGREED.digest,
            epoch=i % 5,
            report_id=draw.getrandbits(64),
            payload=draw.randbytes(1) + b"\3",
        )
        for i in range(40)
    ]
    if kind == "parquet":
        columns = {
            "digest": pa.array([r.digest for r in singles], pa.uint64()),
            "epoch": pa.array([r.epoch for r in singles], pa.int64()),
            "report_id": pa.array([r.report_id for r in singles], pa.uint64()),
            "payload": pa.array([r.payload for r in singles], pa.binary(WIDTH)),
        }
        sink = BytesIO()
        pq.write_table(pa.table(columns), sink)
        return sink.getvalue()
    if kind == "report":
        return b"".join(frame(r.SerializeToString()) for r in singles)
    batch = ReportBatch(
        digest=AGREED.digest,
        epoch=3,
        count=40,
        report_ids=[r.report_id for r in singles],
        payloads=b"".join(r.payload for r in singles),
    )
    plain = frame(batch.SerializeToString()) * 3
    return {
        "batch": plain,
        "gzip": gzip.compress(plain),
        "zstd": zstandard.ZstdCompressor(write_checksum=True).compress(plain),
    }[kind]


KINDS = ("report", "batch", "gzip", "zstd", "parquet")


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Bits turned over, bytes put in, left out, cut off, or doubled."""
    made = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5])):
        place = draw.randrange(len(made) + 1)
        match draw.randrange(5):
            case 0 if made:
                made[place % len(made)] ^= 1 << draw.randrange(8)
            case 1:
                made[place:place] = draw.randbytes(draw.randrange(1, 12))
            case 2:
                del made[place : place + draw.randrange(1, 12)]
            case 3:
                del made[place:]
            case _:
                made[place:place] = made[: draw.randrange(len(made) + 1)]
    return bytes(made)


@pytest.mark.parametrize("kind", KINDS)
def test_valid_files_are_read_whole(tmp_path: Path, kind: str) -> None:
    """What the mutations below start from is sound."""
    admitted, rejected = check(tmp_path / "in", valid(kind))
    assert (admitted, rejected.total()) == (120 if kind in {"batch", "gzip", "zstd"} else 40, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_files_never_raise(tmp_path: Path, kind: str) -> None:
    """Hundreds of damaged files in each format: no exception, balanced books, mostly something to say."""
    draw, data = random.Random(kind), valid(kind)
    found: Counter[str] = Counter()
    for _ in range(100 if kind == "parquet" else 300):
        _, rejected = check(tmp_path / "in", mutated(data, draw))
        found.update(rejected)
    assert found.total() > 30


@settings(max_examples=150)
@given(
    st.sampled_from([b"", b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"PAR1", b"\x05"]),
    st.binary(max_size=300),
)
def test_any_bytes_never_raise(tmp_path_factory: pytest.TempPathFactory, magic: bytes, rest: bytes) -> None:
    """Whatever follows the first bytes of a format."""
    path = tmp_path_factory.getbasetemp() / "any-bytes"
    admitted, rejected = check(path, magic + rest)
    assert admitted + rejected.total() >= 1


def test_pieces_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records across the edges of pieces: the same records and places, however small a piece is."""
    from transforms import sources

    whole = valid("report") * 2
    data = whole + frame(b"\xff" * 30) + b"\x81\x80\x80\x08" + bytes((16 << 20) + 1) + whole + b"\x05ab"
    path = tmp_path / "in"
    path.write_bytes(data)

    def places() -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for element in ReadFiles().process(str(path)):
            if isinstance(element, Chunk):
                found += [("record", element.base + int(o)) for o in element.found.offsets]
            else:
                assert isinstance(element, BadSource)
                found.append((element.reason.value, element.place))
        return found

    wanted = places()
    assert Counter(name for name, _ in wanted) == {"record": 161, "oversize": 1, "truncated": 1}
    for size in (1 << 20, 9973, 4099):
        monkeypatch.setattr(sources, "_CHUNK", size)
        assert places() == wanted
    short = valid("report")[:500]
    path.write_bytes(short)
    wanted = places()
    for size in (1, 2, 3, 7, 64):
        monkeypatch.setattr(sources, "_CHUNK", size)
        assert places() == wanted


def test_rows_of_a_table_keep_their_places(tmp_path: Path) -> None:
    """Places are row numbers of the whole file, also across row groups and beside nulls."""
    columns = {
        "digest": pa.array([AGREED.digest] * 6, pa.uint64()),
        "epoch": pa.array([0, None, -1, 1, -2, None], pa.int64()),
        "report_id": pa.array(range(6), pa.uint64()),
        "payload": pa.array([b"ab"] * 6, pa.binary()),
    }
    pq.write_table(pa.table(columns), tmp_path / "in", row_group_size=2)
    done = Admission()
    bad = []
    for element in ReadFiles().process(str(tmp_path / "in")):
        if isinstance(element, Table):
            admit_rows(element.rows, {AGREED.digest: AGREED}, element.source, done)
        else:
            bad.append((element.reason.value, element.place, element.count))
    assert sorted(r.place for r in done.rejections if r.reason.value == "foreign_epoch") == [2, 4]
    assert sum(count for _, _, count in bad) == 2
    assert bad[0][1] == 1


BOMB = """
import resource, sys, time
sys.path.insert(0, sys.argv[2])
from tests.transforms.test_sources import read
from pathlib import Path
warm = Path(sys.argv[1] + ".warm"); warm.write_bytes(sys.argv[3].encode() * 9); read(warm)
import pyarrow.parquet
with open("/proc/self/statm") as f: used = int(f.read().split()[0]) * resource.getpagesize()
limit = used + (128 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
begun = time.process_time()
admitted, rejected, books = read(Path(sys.argv[1]))
print(admitted, books["read"], *sorted(rejected.items()), round(time.process_time() - begun, 1))
"""


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
@pytest.mark.parametrize("what", ["zeros", "letters"])
def test_bombs_are_refused_in_little_memory(tmp_path: Path, kind: str, what: str) -> None:
    """A gibibyte in a megabyte: refused within 128 MiB of memory and a few seconds.

    Zeros are a billion empty records; letters are eight million messages of a byte (a shorter file).
    """
    block = bytes(1 << 22) if what == "zeros" else b"\x01a" * (1 << 21)
    times = 256 if what == "zeros" else 4
    path = tmp_path / "bomb"
    with path.open("wb") as raw:
        if kind == "gzip":
            with gzip.GzipFile("", "wb", 1, raw) as sink:
                for _ in range(times):
                    sink.write(block)
        else:
            with zstandard.ZstdCompressor().stream_writer(raw, closefd=False) as sink:
                for _ in range(times):
                    sink.write(block)
    assert path.stat().st_size < 6 << 20
    command = [sys.executable, "-c", BOMB, str(path), str(REPOSITORY), "a"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    admitted, booked, *_ = done.stdout.split()
    records = times * len(block) // (1 if what == "zeros" else 2)
    assert (int(admitted), int(booked)) == (0, records)
    assert f"('malformed', {records})" in done.stdout
    assert float(done.stdout.split()[-1]) < 20
