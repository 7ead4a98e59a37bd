"""Formats of other programs: each is named with what to do, once, and nothing sound is taken for one."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from ldpbeam.errors import Reason
from ldpbeam.transforms.sources.chunks import BadSource
from ldpbeam.transforms.sources.files import ReadFiles
from ldpbeam.transforms.sources.formats import SAMPLE, is_zstd, unread_format, unread_inside
from ldpbeam.wire.codec import varint
from ldpbeam.wire.report_pb2 import Report, ReportBatch
from tests.pipelines.running import frame
from tests.transforms.sources.test_files import AGREED, check, valid

LZ4 = b"\x04\x22\x4d\x18" + bytes(60)


def skippable(content: bytes, which: int = 0) -> bytes:
    return bytes([0x50 + which]) + b"\x2a\x4d\x18" + struct.pack("<I", len(content)) + content


MADE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "bzip2": ("bzip2", lambda: bz2.compress(valid("batch"))),
    "xz": ("xz", lambda: lzma.compress(valid("batch"))),
    "lz4": ("lz4", lambda: LZ4),
    "lz4 behind a skippable frame": ("lz4", lambda: skippable(b"abc", 3) + LZ4),
    "avro": ("Avro", lambda: b"Obj\x01" + bytes(60)),
    "parquet in gzip": ("Parquet inside gzip", lambda: gzip.compress(valid("parquet"))),
    "parquet in zstd": ("Parquet inside zstd", lambda: zstandard.compress(valid("parquet"))),
    "zstd in gzip": ("compressed twice", lambda: gzip.compress(zstandard.compress(valid("batch")))),
    "zip": ("a zip archive", lambda: b"PK\x03\x04" + bytes(60)),
    "arrow file": ("Arrow IPC (Feather)", lambda: b"ARROW1\0\0" + bytes(60)),
    "sqlite": ("an SQLite database", lambda: b"SQLite format 3\0" + bytes(60)),
    "csv": ("text", lambda: b"device,epoch,value\n1,0,red\n"),
    "csv in UTF-16": ("text", lambda: "device,value\n".encode("utf-16")),
    "csv in gzip": ("text", lambda: gzip.compress(b"device,value\n1,red\n")),
    "json": ("JSON text", lambda: b' {"digest": 1}\n'),
}


@pytest.mark.parametrize("name", MADE)
def test_a_format_is_named_once_with_the_remedy(tmp_path: Path, name: str) -> None:
    """Whatever wrote it: one record rejected, in a sentence with the format and what to do."""
    named, make = MADE[name]
    data = make()
    assert check(tmp_path / "in", data) == (0, {"unsupported_format": 1})
    (bad,) = ReadFiles().process(str(tmp_path / "in"))
    assert isinstance(bad, BadSource)
    assert bad.reason is Reason.UNSUPPORTED_FORMAT
    assert f"The file is {named}" in bad.detail or f"The file was {named}" in bad.detail
    assert ";" in bad.detail
    assert bad.explanation == bad.detail
    assert bad.detail.endswith(".")


def record(draw: random.Random) -> bytes:
    digest, epoch = draw.getrandbits(64), draw.choice([0, draw.randrange(-9, 10**6)])
    made: Report | ReportBatch
    if draw.random() < 0.5:
        size = draw.choice([0, 1, 2, draw.randrange(300)])
        made = Report(report_id=draw.getrandbits(64), payload=draw.randbytes(size))
    else:
        n = draw.randrange(1, 60)
        ids = [draw.getrandbits(64) for _ in range(n)]
        made = ReportBatch(count=n, report_ids=ids, payloads=draw.randbytes(n * 2))
    made.digest, made.epoch = digest, epoch
    more = b"" if draw.random() < 0.7 else b"\x7a\x03" + draw.randbytes(3)
    return frame(made.SerializeToString() + more)


@pytest.mark.thorough
def test_no_sound_file_is_taken_for_another_format() -> None:
    draw = random.Random(5)
    for _ in range(20_000):
        data = b"".join(record(draw) for _ in range(draw.choice([1, 1, 2, 30])))
        head = data[:SAMPLE]
        assert unread_format(head) is None, data.hex()
        assert unread_inside(head, "gzip") is None, data.hex()
        assert not is_zstd(head), data.hex()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        "naïve\x01".encode(),
        b"\xff\xfea",
    ],
)
def test_a_likeness_is_not_enough(data: bytes) -> None:
    assert unread_format(data) is None


@pytest.mark.parametrize("where", ["twice", "between", "long"])
def test_skippable_frames_are_passed_over(tmp_path: Path, where: str) -> None:
    """pzstd begins with one, and others put theirs anywhere: what is compressed is read whole."""
    plain = valid("batch")
    whole = check(tmp_path / "in", plain)
    a, b = (zstandard.compress(part) for part in (plain[:200], plain[200:]))
    data = {
        "twice": skippable(b"") + skippable(b"x", 15) + a + b,
        "between": a + skippable(b"12") + b,
        "long": skippable(bytes(10_000)) + a + b,
    }[where]
    assert check(tmp_path / "in", data) == whole
    assert whole[0] == 120


def test_skippable_frames_that_are_cut_or_alone(tmp_path: Path) -> None:
    assert check(tmp_path / "in", skippable(b"1234"))[1] == {"empty_file": 1}
    assert check(tmp_path / "in", skippable(b"1234")[:-1])[1] == {"truncated": 1}
    assert check(tmp_path / "in", skippable(b"1234") + b"\x04reports")[1] == {"corrupt_file": 1}


def test_only_the_beginning_tells_the_format(tmp_path: Path) -> None:
    long = b"\x7a" + varint(10 << 20) + b"a" * (10 << 20)
    data = frame(Report(digest=AGREED.digest, report_id=1, payload=b"a\3").SerializeToString() + long)
    assert check(tmp_path / "in", data) == (1, {})
    assert check(tmp_path / "in", gzip.compress(data, 1) + bytes(200_000)) == (1, {})
