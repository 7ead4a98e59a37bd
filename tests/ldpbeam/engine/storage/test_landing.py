"""Segments on disk: each whole or not there, whatever a crash has left beside them."""

from __future__ import annotations

import json
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import google_crc32c
import numpy as np
import pyarrow.parquet as pq
import pytest

from ldpbeam.accounting import Accounting
from ldpbeam.arrays import read_only
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import Epochs
from ldpbeam.engine.engine import LocalStream
from ldpbeam.engine.storage import landing as module
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.engine.storage.segment import Segment, read_header, read_segment
from ldpbeam.errors import LdpError
from ldpbeam.job.config import RunConfig
from ldpbeam.reports import ReportColumns
from ldpbeam.wire import report_pb2
from tests.ldpbeam.engine.broker import Broker, Clock
from tests.pipelines.running import collection, fleet, messages

HOUR = 3600
ONE = collection("grr", 4, "one", epochs=Epochs(HOUR, 0, 100), allowed_lateness=600)
TWO = collection("loloha", 5, "two", epochs=Epochs(HOUR, 0, 100), allowed_lateness=600)
BOTH = {c.digest: c for c in (ONE, TWO)}


def message(agreed: Collection, epoch: int, names: range, payload: bytes | None = None) -> bytes:
    payloads = b"".join(bytes(row) for row in fleet(agreed, 60, 1)[0].payloads[: len(names)])
    return report_pb2.ReportBatch(
        digest=agreed.digest,
        epoch=epoch,
        count=len(names),
        report_ids=names,
        payloads=payloads if payload is None else payload * len(names),
    ).SerializeToString()


def land(output: Path, *data: bytes, number: int = 1, watermark: int = 0, **more: Any) -> Segment:
    arrivals = [watermark + 1] * len(data)
    return Landing(str(output)).land(number, data, arrivals, BOTH, watermark=watermark, **more)


def found(output: Path, segment: Segment) -> dict[tuple[int, int], tuple[list[int], list[bytes]]]:
    columns = read_segment(Landing(str(output)).path(segment.number), segment.keys)
    return {(c.digest, c.epoch): (c.report_ids.tolist(), [bytes(row) for row in c.payloads]) for c in columns}


def test_what_is_landed_is_read_again(tmp_path: Path) -> None:
    sent = [message(ONE, 0, range(5)), message(TWO, 0, range(7)), message(ONE, 0, range(3, 9))]
    segment = land(tmp_path, *sent, message(ONE, 1, range(2)), unstamped=2)
    assert read_header(Landing(str(tmp_path)).path(1)) == segment
    assert (segment.number, segment.messages, segment.unstamped) == (1, 4, 2)
    assert segment.size == Landing(str(tmp_path)).path(1).stat().st_size
    assert segment.keys == {(ONE.digest_hex, 0), (ONE.digest_hex, 1), (TWO.digest_hex, 0)}
    blocks = found(tmp_path, segment)
    assert blocks[ONE.digest, 0][0] == [0, 1, 2, 3, 4, 3, 4, 5, 6, 7, 8]
    assert blocks[ONE.digest, 1][0] == [0, 1]
    one, two, three = map(report_pb2.ReportBatch.FromString, sent)
    assert blocks[ONE.digest, 0][1] == [bytes([byte]) for byte in one.payloads + three.payloads]
    assert blocks[TWO.digest, 0] == (list(range(7)), [bytes([byte]) for byte in two.payloads])
    books = Accounting.from_entries(segment.entries)
    assert books.total.read == 20
    reports = {(digest, epoch): n for digest, epoch, n, *_ in segment.blocks}
    assert reports == {(ONE.digest_hex, 0): 11, (TWO.digest_hex, 0): 7, (ONE.digest_hex, 1): 2}
    assert len(segment.blocks) == len(reports)
    only = read_segment(Landing(str(tmp_path)).path(1), frozenset([(TWO.digest_hex, 0)]))
    assert [(c.digest, c.epoch) for c in only] == [(TWO.digest, 0)]


def test_parts_of_an_epoch_are_written_one_after_the_other(tmp_path: Path) -> None:
    """Also larger ones than what is gathered before it is written, and in any layout in memory."""
    draw = np.random.default_rng(1)
    width = TWO.protocol.device.payload_size + 1
    parts = []
    for n in (1, 200_000, 3):
        ids, rows = draw.integers(0, 1 << 64, 2 * n, np.uint64), draw.integers(0, 5, (n, width), np.uint8)
        parts.append(ReportColumns(TWO.digest, 7, ids[::2], read_only(rows[:, :-1])))
    kept = Landing(str(tmp_path)).write(Segment(3, 0, 0, 0, (), ()), parts)
    (block,) = kept.blocks
    assert (block.reports, block.epoch, block.newest_segment) == (200_004, 7, 3)
    path = Landing(str(tmp_path)).path(3)
    assert kept.size == path.stat().st_size > 1 << 20
    assert path.stat().st_mode & 0o777 == 0o600
    (back,) = read_segment(path, kept.keys)
    assert np.array_equal(back.report_ids, np.concatenate([p.report_ids for p in parts]))
    assert np.array_equal(back.payloads, np.concatenate([p.payloads for p in parts]))


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    """Any byte, also of the length, the header and the checksum itself; and a file of any other length."""
    segment = land(tmp_path, message(ONE, 0, range(3)), b"junk")
    path = Landing(str(tmp_path)).path(1)
    whole = path.read_bytes()
    begin = len(whole) - sum(block.length for block in segment.blocks)
    for at in range(len(whole)):
        for change in (1, 0x80, 0xFF):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])
            if at < begin:
                with pytest.raises(LdpError, match="E-LANDING-DAMAGED"):
                    read_header(path)
            else:  # columns are not looked at before they are asked for
                assert read_header(path) == segment
            with pytest.raises(LdpError, match="E-LANDING-DAMAGED"):
                read_segment(path, segment.keys)
    for other in (*(whole[:n] for n in range(len(whole))), whole + b"\0", whole + whole):
        path.write_bytes(other)
        with pytest.raises(LdpError, match="E-LANDING-DAMAGED"):
            read_header(path)
    path.write_bytes(whole)
    assert read_header(path) == segment


def test_a_segment_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """Its checksums are CRC-32; they are those that are compared, and nothing is read under both."""
    segment = land(tmp_path, message(ONE, 0, range(3)), message(TWO, 1, range(5)))
    path = Landing(str(tmp_path)).path(1)
    now = path.read_bytes()
    asked = [(c.digest, c.epoch, len(c)) for c in read_segment(path, segment.keys)]
    begin = len(now) - sum(block.length for block in segment.blocks)
    columns, header = now[begin:], json.loads(now[16 : begin - 4])
    for block, place in zip(header["blocks"], segment.blocks, strict=True):
        assert block[-1] == google_crc32c.value(columns[place.offset :][: place.length])
        block[-1] = zlib.crc32(columns[place.offset :][: place.length])
    text = json.dumps(header).encode()
    head = b"LDPSEG2\n" + len(text).to_bytes(8, "little") + text
    then = head + zlib.crc32(head).to_bytes(4, "little") + columns
    path.write_bytes(then)
    assert [(c.digest, c.epoch, len(c)) for c in read_segment(path, segment.keys)] == asked
    assert read_header(path).entries == segment.entries
    for damaged in (then[:-1] + b"\xff", b"LDPSEG3\n" + then[8:], b"LDPSEG2\n" + now[8:]):
        path.write_bytes(damaged)
        with pytest.raises(LdpError, match="E-LANDING-DAMAGED"):
            read_segment(path, segment.keys)


def test_an_engine_does_not_start_over_a_damaged_segment(tmp_path: Path) -> None:
    """It says which one; repaired, it starts."""
    land(tmp_path, message(ONE, 0, range(3)))
    path = Landing(str(tmp_path)).path(1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(LdpError, match=r"segment-0000000001\.seg.*E-LANDING-DAMAGED"):
        engine(tmp_path)
    path.write_bytes(whole)
    assert engine(tmp_path).messages == 1


def engine(
    output: Path, clock: Clock | None = None, broker: Broker | None = None, **more: Any
) -> LocalStream:
    clock = clock or Clock(10.0)
    config = RunConfig.parsed(
        (ONE, TWO), output=str(output), subscription="s", settle=1.0, land_every=0.5, **more
    )
    made = LocalStream(config, broker or Broker(clock), clock, clock)
    made._landing.unlock()  # as the kernel does when a process dies; these engines are never stopped
    return made


def test_what_a_crash_left_unfinished_goes(tmp_path: Path) -> None:
    """Half written files, and what was refused with a segment that never came."""
    land(tmp_path, message(ONE, 0, range(3)), b"junk")
    kept = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    with mock.patch.object(Landing, "write", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        land(tmp_path, b"more junk", number=2)
    folder = tmp_path / "landing"
    for name in ("segment-0000000002.seg", "segment-0000000001.seg", "refused-0000000001.pb"):
        (folder / f"{name}.0a1b2c3d.tmp").write_bytes(b"half")
    assert (folder / "refused-0000000002.pb").is_file()
    assert (tmp_path / "rejects" / "rejects-segment-0000000002.parquet").is_file()
    assert [s.number for s in Landing(str(tmp_path)).recover(0)] == [1]
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()) == kept


def test_what_was_refused_with_a_booked_segment_stays(tmp_path: Path) -> None:
    """The books know of it although the segment has been cleared away."""
    land(tmp_path, b"junk", number=7)
    Landing(str(tmp_path)).path(7).unlink()
    assert Landing(str(tmp_path)).recover(7) == []
    assert (tmp_path / "rejects" / "rejects-segment-0000000007.parquet").is_file()
    Landing(str(tmp_path)).recover(6)
    assert list((tmp_path / "rejects").iterdir()) == []


REFUSED = {
    "empty": (b"", "malformed"),
    "junk": (b"junk", "malformed"),
    "an empty batch": (
        report_pb2.ReportBatch(digest=ONE.digest, payloads=b"\1").SerializeToString(),
        "malformed",
    ),
    "a wrong count": (message(ONE, 0, range(3)) + b"\x28\x09", "malformed"),
    "a wrong length": (message(ONE, 0, range(3), b"\0\0"), "wrong_length"),
    "a wrong value": (message(ONE, 0, range(3), b"\xff"), "value_out_of_range"),
    "a wrong epoch": (message(ONE, 100, range(3)), "foreign_epoch"),
    "a later epoch": (message(ONE, 5, range(3)), "future_epoch"),
    "a stranger": (message(collection("grr", 4, "stranger"), 0, range(3)), "unknown_collection"),
}


@pytest.mark.parametrize("first", REFUSED)
@pytest.mark.parametrize("second", REFUSED)
def test_refused_messages_are_kept_as_they_came(tmp_path: Path, first: str, second: str) -> None:
    """Beside a sound one, before and after it, and empty ones, which all have a place of their own."""
    sent = [b"", message(ONE, 0, range(3)), REFUSED[first][0], b"", REFUSED[second][0], b""]
    segment = land(tmp_path, *sent)
    books = Accounting.from_entries(segment.entries).total
    listing = json.loads((tmp_path / "landing" / "refused-0000000001.json").read_text())
    content = (tmp_path / "landing" / "refused-0000000001.pb").read_bytes()
    kept = [message for message in sent if message != sent[1]]
    assert list(messages(content)) == kept
    assert [content[place : place + length] for place, length, _ in listing] == kept
    assert [reason for *_, reason in listing] == [
        "malformed",
        REFUSED[first][1],
        "malformed",
        REFUSED[second][1],
        "malformed",
    ]
    rows = pq.read_table(tmp_path / "rejects" / "rejects-segment-0000000001.parquet").to_pylist()
    assert {row["place"] for row in rows} == {place for place, *_ in listing}
    assert {row["source"] for row in rows} == {"landing/refused-0000000001.pb"}
    assert sum(row["count"] for row in rows) == sum(books.rejected.values()) == books.read - 3


def test_empty_messages_alone(tmp_path: Path) -> None:
    segment = land(tmp_path, b"", b"", b"")
    assert segment.entries == (((("", None), "read"), 3), ((("", None), "rejected.malformed"), 3))
    assert segment.blocks == ()
    assert read_header(Landing(str(tmp_path)).path(1)) == segment


@pytest.mark.thorough
def test_a_big_batch(tmp_path: Path) -> None:
    """Twenty thousand messages, more than a hundred refused for the same reason."""
    sent = [message(ONE, 0, range(i, i + 2)) for i in range(0, 40_000, 2)]
    sent[5::100] = [b"junk"] * len(sent[5::100])
    segment = land(tmp_path, *sent)
    ids, payloads = found(tmp_path, segment)[ONE.digest, 0]
    assert len(ids) == len(payloads) == 2 * (20_000 - 200)
    assert len(set(ids)) == len(ids)
    books = Accounting.from_entries(segment.entries).total
    assert (books.read, books.rejected["malformed"]) == (2 * 19_800 + 200, 200)
    assert list(messages((tmp_path / "landing" / "refused-0000000001.pb").read_bytes())) == [b"junk"] * 200


def test_an_epoch_of_which_nothing_was_read_is_not_booked(tmp_path: Path) -> None:
    """A single report from the future belongs to no epoch; its epoch must not haunt the books."""
    one = report_pb2.Report(digest=ONE.digest, epoch=5, report_id=1, payload=b"\0").SerializeToString()
    segment = land(tmp_path, one)
    assert {key for (key, _), _ in segment.entries} == {(ONE.digest_hex, None)}


def test_a_closed_epoch_stays_closed(tmp_path: Path) -> None:
    """Whatever its lateness is now: its reports may be gone."""
    segment = land(
        tmp_path,
        message(ONE, 0, range(3)),
        message(TWO, 0, range(4)),
        closed=frozenset([(ONE.digest_hex, 0)]),
    )
    assert segment.keys == {(TWO.digest_hex, 0)}
    assert Accounting.from_entries(segment.entries).accounts[ONE.digest_hex, 0].late == 3


def test_what_is_booked_is_not_taken_again_from_a_merged_segment(tmp_path: Path) -> None:
    """Its number is higher than what the books contain, and a part of it is in them."""
    clock = Clock(10.0)
    broker = Broker(clock)
    stream = engine(tmp_path, clock, broker, merge_segments=3, early_every=600)
    broker.publish(message(ONE, 0, range(5)))
    stream.step()
    clock.now = 700.0
    for _ in range(4):
        stream.step()
    assert stream.record is not None
    assert stream.record.accounting.total.read == 5
    for names in (range(5, 7), range(7, 8)):
        broker.publish(message(ONE, 0, names))
        stream.step()
    assert numbers(tmp_path) == [3]
    again = engine(tmp_path, clock, broker, merge_segments=3, early_every=600)
    assert (again.status.read, again.status.pending) == (8, 3)
    again.stop()
    assert again.record is not None
    assert again.record.accounting.total.counted == 8


# --- clearing away


def closed_and_kept(output: Path, keep: int) -> tuple[Clock, Broker]:
    clock = Clock(10.0)
    broker = Broker(clock)
    stream = engine(output, clock, broker, keep_landed=keep)
    broker.publish(message(ONE, 0, range(3)))
    broker.publish(b"junk")
    stream.step()
    broker.publish(message(ONE, 1, range(4)))
    stream.step()
    clock.now = HOUR + 700.0
    for _ in range(4):
        stream.step()
    return clock, broker


def numbers(output: Path) -> list[int]:
    return [int(path.stem.rpartition("-")[2]) for path in sorted((output / "landing").glob("*.seg"))]


def test_segments_go_when_nobody_needs_them_any_more(tmp_path: Path) -> None:
    """Closed for as long as asked: not earlier. A restart knows what they said; numbers go on."""
    clock, broker = closed_and_kept(tmp_path, 1000)
    assert numbers(tmp_path) == [1, 2]
    stream = engine(tmp_path, clock, broker, keep_landed=1000)
    clock.now += 800
    for _ in range(4):
        stream.step()
    assert numbers(tmp_path) == [1, 2]
    clock.now += 200
    for _ in range(4):
        stream.step()
    assert numbers(tmp_path) == [2]
    assert not list((tmp_path / "landing").glob("refused-*"))
    assert (tmp_path / "rejects" / "rejects-segment-0000000001.parquet").is_file()
    clock.now = 3 * HOUR
    for _ in range(4):
        stream.step()
    assert numbers(tmp_path) == []
    stream = engine(tmp_path, clock, broker, keep_landed=1000)
    assert stream.segments == ()
    assert stream.next_number == 3
    broker.publish(message(ONE, 0, range(3)))
    stream.step()
    assert numbers(tmp_path) == [3]
    stream.stop()
    assert stream.record is not None
    total = stream.record.accounting.total.as_record()
    assert (total["read"], total["counted"], total["late"]) == (3 + 4 + 1 + 3, 7, 3)


def test_a_number_is_not_used_again_for_want_of_a_collection(tmp_path: Path) -> None:
    """Tables of rejects have it in their name, and would be taken for leftovers, or be overwritten."""
    clock = Clock(10.0)
    broker = Broker(clock)
    stream = engine(tmp_path, clock, broker, keep_landed=0)
    broker.publish(message(ONE, 0, range(3), b"\xff"))
    stream.step()
    clock.now = 3 * HOUR
    for _ in range(4):
        stream.step()
    assert numbers(tmp_path) == []
    config = RunConfig.parsed((TWO,), output=str(tmp_path), subscription="s", settle=1.0, land_every=0.5)
    stream = LocalStream(config, broker, clock, clock)
    broker.publish(b"junk")
    stream.step()
    stream.stop()
    assert sorted(path.name for path in (tmp_path / "rejects").iterdir()) == [
        "rejects-segment-0000000001.parquet",
        "rejects-segment-0000000002.parquet",
    ]


def test_recovery_reads_no_more_than_each_header_once(tmp_path: Path) -> None:
    for number in range(1, 6):
        land(tmp_path, message(ONE, 0, range(number)), number=number)
    with (
        mock.patch.object(module, "read_header", wraps=read_header) as read,
        mock.patch.object(module, "read_segment") as columns,
    ):
        stream = engine(tmp_path)
    paths = [Landing(str(tmp_path)).path(n) for n in range(1, 6)]
    assert sorted(call.args[0] for call in read.call_args_list) == paths
    assert not columns.called
    assert stream.messages == 5
    assert np.array_equal([s.number for s in stream.segments], range(1, 6))


# --- merging


def test_merged_segments_hold_what_they_are_made_of(tmp_path: Path) -> None:
    """Reports, entries that are not booked, refused messages; in the place of the newest."""
    sent = [
        land(tmp_path, message(ONE, 0, range(3)), b"junk", number=4, watermark=10),
        land(tmp_path, message(ONE, 1, range(5)), message(TWO, 0, range(2)), number=6, watermark=20),
        land(tmp_path, message(ONE, 0, range(2, 9)), number=7, watermark=30, unstamped=1),
    ]
    through: dict[tuple[str, int | None], int] = {(ONE.digest_hex, 0): 4, (ONE.digest_hex, 1): 7}
    landing = Landing(str(tmp_path))
    merged = landing.merge(sent, lambda key: through.get(key, 0), lambda key: key == (TWO.digest_hex, 0))
    assert merged == read_header(landing.path(7))
    assert (merged.number, merged.first, merged.level, merged.watermark) == (7, 4, 1, 30)
    assert (merged.messages, merged.unstamped) == (5, 1)
    assert numbers(tmp_path) == [7]
    assert found(tmp_path, merged)[ONE.digest, 0][0] == [0, 1, 2, *range(2, 9)]
    assert merged.keys == {(ONE.digest_hex, 0), (ONE.digest_hex, 1)}
    assert [merged.by_key[ONE.digest_hex, epoch].newest_segment for epoch in (0, 1)] == [7, 6]
    books = Accounting.from_entries(merged.entries)
    assert {key: line.read for key, line in books.accounts.items()} == {
        (ONE.digest_hex, 0): 7,
        (TWO.digest_hex, 0): 2,
        ("", None): 1,
    }
    assert (tmp_path / "landing" / "refused-0000000004.pb").is_file()
    later = land(tmp_path, message(ONE, 2, range(1)), number=9, watermark=4 * HOUR * 1_000_000)
    merged = landing.merge([merged, later], lambda key: 9, lambda key: False)
    # A merged segment does not make reports newer than they are.
    assert [merged.by_key[ONE.digest_hex, epoch].newest_segment for epoch in (0, 1)] == [7, 6]
    landing.remove(merged)
    assert sorted(path.name for path in (tmp_path / "landing").iterdir()) == []


def test_what_a_merged_segment_stands_for_is_not_read_again(tmp_path: Path) -> None:
    """A crash after the rename left its parts; they go, and only they."""
    sent = [land(tmp_path, message(ONE, 0, range(n)), number=n) for n in range(1, 6)]
    landing = Landing(str(tmp_path))
    parts = {n: landing.path(n).read_bytes() for n in range(2, 4)}
    merged = landing.merge(sent[1:4], lambda key: 0, lambda key: False)
    for n, whole in parts.items():
        landing.path(n).write_bytes(whole)
    assert [s.number for s in landing.recover(0)] == [1, 4, 5]
    assert numbers(tmp_path) == [1, 4, 5]
    assert merged.first == 2


def test_many_segments_become_few(tmp_path: Path) -> None:
    """Whatever was landed: no more files than kinds of them times the number that is merged."""
    clock = Clock(10.0)
    broker = Broker(clock)
    stream = engine(tmp_path, clock, broker, merge_segments=4)
    for n in range(100):
        broker.publish(message(ONE, 0, range(10 * n, 10 * n + 3)))
        stream.step()
        assert len(numbers(tmp_path)) <= 4 * 4
        assert [s.number for s in stream.segments] == numbers(tmp_path)
    assert stream.messages == 100
    again = engine(tmp_path, clock, broker, merge_segments=4)
    assert again.segments == stream.segments
    assert again.messages == 100
    clock.now = HOUR + 100.0
    for _ in range(4):
        again.step()
    again.stop()
    assert again.record is not None
    total = again.record.accounting.total.as_record()
    assert (total["read"], total["counted"], total["duplicate"]) == (300, 300, 0)


def test_merging_takes_neighbours_only(tmp_path: Path) -> None:
    """A big segment between small ones is not merged, nor reached across: its number would be taken."""
    clock = Clock(10.0)
    broker = Broker(clock)
    with mock.patch.object(module, "_MERGED_BYTES", 4000):
        stream = engine(tmp_path, clock, broker, merge_segments=3)
        for n in range(60):
            broker.publish(message(ONE, 0, range(100 * n, 100 * n + (60 if n % 7 == 3 else 2))))
            for _ in range(4 * (n % 7 == 3)):
                broker.publish(message(ONE, 0, range(100 * n, 100 * n + 60)))
            stream.step()
        spans = [(s.first, s.number) for s in stream.segments]
        assert all(end < begin for (_, end), (begin, _) in pairwise(spans))
        assert stream.messages == broker._numbers
        again = engine(tmp_path, clock, broker, merge_segments=3)
        assert again.messages == stream.messages
        assert len(spans) < 45
        clock.now = HOUR + 100.0
        for _ in range(4):
            again.step()
        again.stop()
    assert again.record is not None
    total = again.record.accounting.total.as_record()
    assert total["counted"] == sum(60 if n % 7 == 3 else 2 for n in range(60))


def test_the_end_of_a_failed_start_lets_others_in(tmp_path: Path) -> None:
    land(tmp_path, message(ONE, 0, range(3)))
    path = Landing(str(tmp_path)).path(1)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(LdpError, match="E-LANDING-DAMAGED") as caught:
        engine(tmp_path)
    other = Landing(str(tmp_path))
    other.lock()
    other.unlock()
    assert caught.value.where
