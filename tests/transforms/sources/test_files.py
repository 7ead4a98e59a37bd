"""Reading files is total: any bytes end well, each record is booked once, and nothing is held for long."""

from __future__ import annotations

import gzip
import os
import random
import socket
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from apache_beam.io.filesystems import FileSystems

from ldpbeam.transforms.sources.chunks import BadSource, Chunk, ReadLimits
from ldpbeam.transforms.sources.files import ReadFiles
from ldpbeam.transforms.sources.parquet import believed
from ldpbeam.transforms.stages.reports import ACCOUNTING, REJECTED, AdmitPieces
from ldpbeam.wire.report_pb2 import Report, ReportBatch
from tests.pipelines.running import collection, frame

AGREED = collection("sue", 11, "bits")
WIDTH = 2


def read(path: Path) -> tuple[int, Counter[str], Counter[str]]:
    admitted, rejected, books = 0, Counter[str](), Counter[str]()
    admit = AdmitPieces({AGREED.digest: AGREED})
    for element in ReadFiles().process(str(path)):
        for output in admit.process(element):
            if output.tag == REJECTED:
                rejected[output.value.reason] += output.value.count
            elif output.tag == ACCOUNTING:
                (_, what), count = output.value
                books[what] += count
            else:
                key, parts = output.value
                for columns in parts:
                    assert key == (AGREED.digest_hex, columns.epoch)
                    assert columns.payloads.shape == (len(columns.report_ids), WIDTH)
                    admitted += len(columns)
    return admitted, rejected, books


def check(path: Path, data: bytes) -> tuple[int, Counter[str]]:
    path.write_bytes(data)
    admitted, rejected, books = read(path)
    assert books["read"] == admitted + rejected.total()
    assert {f"rejected.{reason}": n for reason, n in rejected.items()} == {
        what: n for what, n in books.items() if what not in {"read", "repeated"}
    }
    return admitted, rejected


def valid(kind: str) -> bytes:
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
@pytest.mark.cases(1)
def test_mutated_files_never_raise(tmp_path: Path, kind: str) -> None:
    """Hundreds of damaged files in each format: no exception, balanced books, mostly something to say."""
    draw, data = random.Random(kind), valid(kind)
    found: Counter[str] = Counter()
    for _ in range(100 if kind == "parquet" else 300):
        _, rejected = check(tmp_path / "in", mutated(data, draw))
        found.update(rejected)
    assert found.total() > 30


def test_pieces_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records across the edges of pieces: the same records and places, however small a piece is."""
    from ldpbeam.transforms.sources import files as sources

    whole = valid("report") * 2
    data = whole + frame(b"\xff" * 30) + b"\x81\x80\x80\x08" + bytes((16 << 20) + 1) + whole + b"\x05ab"
    path = tmp_path / "in"
    path.write_bytes(data)

    def places() -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for element in ReadFiles().process(str(path)):
            if isinstance(element, Chunk):
                found += [("record", element.base + int(o)) for o in element.frames.offsets]
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


def test_a_bomb_is_cut_at_the_ratio(tmp_path: Path) -> None:
    """As many bytes as the file may stand for are read, and one record says that there is more."""
    path = tmp_path / "bomb"
    for made in (gzip.compress(bytes(1 << 24), 9), zstandard.ZstdCompressor().compress(bytes(1 << 26))):
        path.write_bytes(made)
        allowed = (1 << 20) + 100 * len(made)
        _, rejected, books = read(path)
        assert rejected == {"malformed": allowed, "expansion_limit": 1}
        assert books["read"] == allowed + 1
    # A larger ratio reads on, and a sound file is far below the least.
    path.write_bytes(gzip.compress(bytes(1 << 21), 9))
    found = list(ReadFiles(ReadLimits(expansion=2000)).process(str(path)))
    assert [(e.reason.value, e.count) for e in found if isinstance(e, BadSource)] == [("malformed", 1 << 21)]
    path.write_bytes(valid("zstd"))
    assert not any(isinstance(e, BadSource) for e in ReadFiles(ReadLimits(expansion=1)).process(str(path)))


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe, a socket, a device, a folder, a link to nothing: one record each, at once."""
    from ldpbeam.transforms.sources import stored_file

    monkeypatch.setattr(stored_file, "_FIRST_PAUSE", 0.0)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nothing").symlink_to(tmp_path / "gone")
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(tmp_path)
        listening.bind("socket")
        for name in ("pipe", "nothing", "socket", ".", "/dev/zero"):
            assert read(tmp_path / name)[1] == {"unreadable_file": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_a_storage_that_fails_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Two failures in a row are nothing; a third is a file that cannot be read, not one that is damaged."""
    from ldpbeam.transforms.sources import stored_file

    path = tmp_path / "in"
    path.write_bytes(valid(kind))
    wanted = read(path)
    failures = iter([True, True, False] * 1000)
    real = stored_file.StoredFile._here

    def failing(self: stored_file.StoredFile) -> object:
        if next(failures):
            raise OSError(5, "Input/output error")
        return real(self)

    monkeypatch.setattr(stored_file, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(stored_file.StoredFile, "_here", failing)
    assert read(path) == wanted
    failures = iter([False] * 2 + [True] * 1000)
    assert read(path)[1]["unreadable_file"] == 1
    assert "corrupt_file" not in read(path)[1]


def test_a_store_that_gives_a_little_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is filled all the same; where it fails halfway, it is filled anew from where that began."""
    from ldpbeam.transforms.sources import stored_file

    class Little(BytesIO):
        calls = 0

        def readinto(self, buffer: Any) -> int:
            Little.calls += 1
            if Little.calls == 5:
                raise OSError(5, "Input/output error")
            return super().readinto(memoryview(buffer)[:7])

    monkeypatch.setattr(stored_file, "_FIRST_PAUSE", 0.0)
    path, content = tmp_path / "in", bytes(range(100))
    path.write_bytes(content)
    monkeypatch.setattr(FileSystems, "open", lambda *_, **__: Little(content))
    with stored_file.StoredFile(str(path), 2) as file:
        file.seek(3)
        buffer = bytearray(90)
        assert file.readinto(buffer) == 90
        assert buffer == content[3:93]
        assert file.tell() == 93
        assert file.readinto(buffer) == 7
        assert buffer[:7] == content[93:]
        assert file.readinto(buffer) == 0
    assert Little.calls > 5


def test_a_name_that_is_no_text_is_read_and_named(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/part-\xff.pb"
    Path(os.fsdecode(name)).write_bytes(valid("report") + b"\x05")
    elements = list(ReadFiles().process(name))
    assert {element.source for element in elements} == {f"{tmp_path}/part-\\xff.pb"}
    assert [type(element) for element in elements] == [Chunk, BadSource]


def test_a_file_is_as_old_as_it_says(tmp_path: Path) -> None:
    """Reports of epochs that had not begun when it was written are refused; --not-after says otherwise."""
    path = tmp_path / "in"
    path.write_bytes(valid("report"))
    os.utime(path, (0, 2 * 3600 - 10))  # the second epoch; the third one may be ahead by a tolerance
    assert read(path)[1] == {"future_epoch": 16}
    admit = AdmitPieces({AGREED.digest: AGREED})
    elements = ReadFiles(ReadLimits(not_after=10 * 3600)).process(str(path))
    assert not [o for e in elements for o in admit.process(e) if o.tag == REJECTED]


@pytest.mark.parametrize(
    ("claims", "wanted"),
    [
        ([49] + [50] * 8, 50),
        ([49, 50], 50),
        ([-1, -1, 7], 7),
    ],
)
def test_most_counts_of_rows_are_believed(claims: list[int], wanted: int) -> None:
    assert believed(claims) == wanted
    assert believed(claims[::-1]) == wanted


def test_a_footer_and_its_row_group_that_both_lie_lose_no_row_in_silence(tmp_path: Path) -> None:
    data = valid("parquet")
    lowered = bytearray(data)
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    places = [i for i in range(footer, len(data)) if data[i : i + 2] == b"\x16\x50"]
    assert len(places) == 6  # the file's, four columns', the row group's
    for place in (places[0], places[-1]):
        lowered[place + 1] = 0x28  # 40 becomes 20, in zigzag
    admitted, rejected = check(tmp_path / "in", bytes(lowered))
    assert (admitted, rejected) == (20, {"corrupt_file": 20})
    doubtful = bytearray(data)
    doubtful[places[2] + 1] = 0x28  # of one column: no row is missing, and the disagreement is not silent
    admitted, rejected = check(tmp_path / "in", bytes(doubtful))
    assert (admitted, rejected) == (40, {"corrupt_file": 1})
