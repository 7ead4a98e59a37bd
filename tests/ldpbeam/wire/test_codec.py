"""The compiled reader against the protobuf library, over messages that are nearly right."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.kernels import framing
from ldpbeam.wire import codec
from ldpbeam.wire.report_pb2 import Report, ReportBatch
from tests.reference.message_fields import gives_a_field_twice

Read = tuple[Any, ...] | None

EDGES = [0, 1, -1, 5, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63)]
WORDS = [0, 1, 127, 128, 2**32, 2**63, 2**64 - 1]


def varint(number: int, size: int = 0) -> bytes:
    """A varint, padded to ``size`` bytes with empty groups when that is longer."""
    out: list[int] = []
    while number > 127 or len(out) + 1 < size:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def by_library(message: bytes) -> Read:
    """What a message is by its documented rules, read with the protobuf library."""
    try:
        one, many = Report.FromString(message), ReportBatch.FromString(message)
    except DecodeError:
        return None
    single = bool(one.report_id or one.payload)
    batch = bool(many.count or many.report_ids or many.payloads)
    if not message or (single and batch) or gives_a_field_twice(message):
        return None
    if batch:
        ids = list(many.report_ids)
        return ("batch", many.digest, many.epoch, many.count, ids, many.payloads)
    return ("report", one.digest, one.epoch, one.report_id, one.payload)


def read_all(messages: list[bytes]) -> list[Read]:
    """What the compiled reader makes of messages that lie in one buffer, in order."""
    buffer = np.frombuffer(b"".join(messages), np.uint8)
    lengths = np.array([len(m) for m in messages], np.int64)
    offsets = np.cumsum(lengths) - lengths
    found = codec.Frames(buffer, offsets, lengths, buffer.size, framing.NEED_MORE, 0)
    # Empty messages share their place with the next one: told apart by an index as place.
    rows, batches, malformed = codec.parse(found)
    result: dict[int, list[Read]] = {}
    for i, place in enumerate(rows.place.tolist()):
        at, size = int(rows.payload_at[i]), int(rows.payload_length[i])
        payload = rows.buffer[at : at + size].tobytes()
        read = ("report", int(rows.digest[i]), int(rows.epoch[i]), int(rows.report_id[i]), payload)
        result.setdefault(place, []).append(read)
    for b in batches:
        ids = [int(x) for x in b.report_ids]
        result.setdefault(b.place, []).append(
            ("batch", b.digest, b.epoch, b.count, ids, b.payloads.tobytes())
        )
    for place in malformed.tolist():
        result.setdefault(place, []).insert(0, None)
    assert sum(map(len, result.values())) == len(messages)
    return [result[int(offset)].pop(0) for offset in offsets]


def sound(draw: random.Random) -> bytes:
    digest, epoch = draw.choice([*WORDS, draw.getrandbits(64)]), draw.choice(EDGES)
    payload = draw.randbytes(draw.choice([0, 1, 3, 8, 130]))
    if draw.random() < 0.5:
        name = draw.choice(WORDS)
        return Report(digest=digest, epoch=epoch, report_id=name, payload=payload).SerializeToString()
    ids = [draw.getrandbits(64) for _ in range(draw.choice([0, 1, 2, 20]))]
    count = draw.choice([len(ids), len(ids), draw.choice(WORDS)])
    return ReportBatch(
        digest=digest, epoch=epoch, count=count, report_ids=ids, payloads=payload
    ).SerializeToString()


def field(draw: random.Random) -> bytes:
    """A field of any number and wire type, mostly well formed, with numbers spelt too long at times."""
    number = draw.choice([1, 2, 3, 4, 5, 6, 7, 7, 6, 8, 15, 16, 2**29 - 1, 0])
    wire = draw.choice([0, 1, 2, 2, 2, 5, 3, 4, 6, 7])
    tag = varint(number << 3 | wire, draw.choice([0, 0, 0, 2, 5, 6, 10]))
    long = draw.choice([0, 0, 0, 3, 9, 10, 11])
    if wire == 0:
        return tag + varint(draw.choice([*WORDS, 2**64, 2**70 - 1]), long)
    if wire == 1:
        return tag + draw.randbytes(8)
    if wire == 2:
        size = draw.choice([0, 0, 1, 8, 16, 24, 30])
        claimed = draw.choice([size, size, size, size + 1, 2**31, 2**32, 2**63, 2**64 - 1])
        return tag + varint(claimed, long) + draw.randbytes(size)
    if wire == 3:
        inside = field(draw) if draw.random() < 0.5 else b""
        return tag + inside + varint(draw.choice([number, number, 9]) << 3 | 4)
    return tag + draw.randbytes(4 if wire == 5 else 0)


def mutated(draw: random.Random) -> bytes:
    """A message with some of: other fields, bits turned, bytes put in or left out, another message behind."""
    message = bytearray(sound(draw))
    for _ in range(draw.choice([0, 1, 1, 2, 4])):
        kind = draw.randrange(6)
        place = draw.randrange(len(message) + 1)
        if kind == 0 and message:
            message[place % len(message)] ^= 1 << draw.randrange(8)
        elif kind == 1:
            message[place:place] = draw.randbytes(draw.randrange(1, 4))
        elif kind == 2:
            del message[place : place + draw.randrange(1, 4)]
        elif kind == 3:
            del message[place:]
        elif kind == 4:
            message += sound(draw)
        else:
            end = draw.choice([0, len(message)])
            message[end:end] = field(draw)
    return bytes(message)


def test_the_compiled_reader_agrees_with_the_library() -> None:
    draw = random.Random(1)
    messages = [mutated(draw) for _ in range(20_000)]
    kinds: dict[str, int] = {}
    wrong = []
    for message, read in zip(messages, read_all(messages), strict=True):
        wanted = by_library(message)
        kinds["none" if wanted is None else wanted[0]] = kinds.get(wanted[0] if wanted else "none", 0) + 1
        if read != wanted:
            wrong.append((message.hex(), read, wanted))
    assert wrong[:5] == []
    assert min(kinds.values()) > 3000


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5))
def test_the_compiled_reader_agrees_on_any_bytes(messages: list[bytes]) -> None:
    assert read_all(messages) == [by_library(m) for m in messages]


@pytest.mark.parametrize(
    "message",
    [
        "2801" * 3,  # a field given again
        "220161220162",
        "28012800",  # though it is 0, or the same
        "2d01000000" + "2801",  # of another wire type it is another field
        "2801" + "43" + "2801" + "44",  # and within a group
        "1001" + "1002",
        "09" + "01" * 8 + "09" + "01" * 8,
        "19" + "01" * 8 + "19" + "01" * 8,
        "3a0161" + "3a0162",
        "22016132082222222222222222",
        "3a016132083333333333333333" + "32083333333333333333",
        "31" + "01" * 8,  # an id that is not packed
        "0b" + "0c",
        "a30108a401",
        "9080808000" + "01",  # tags spelt with five and with six bytes
        "908080808000" + "01",
        "10" + "ff" * 9 + "7f",
        "10" + "ff" * 10 + "01",
        "2280808080808080808000",
    ],
)
def test_the_compiled_reader_agrees_on_odd_spellings(message: str) -> None:
    raw = bytes.fromhex(message)
    assert read_all([raw]) == [by_library(raw)]


def test_two_messages_end_to_end_are_none() -> None:
    draw = random.Random(2)
    rows, batches = [], []
    for _ in range(50):
        digest, epoch, name = draw.getrandbits(64) | 1, draw.randrange(9), draw.getrandbits(64)
        rows.append(Report(digest=digest, epoch=epoch, report_id=name, payload=b"a").SerializeToString())
        batch = ReportBatch(digest=digest, epoch=epoch, count=1, report_ids=[name], payloads=b"a")
        batches.append(batch.SerializeToString())
    both = [*rows, *batches]
    assert None not in read_all(both)
    pairs = [one + other for one in both[::7] for other in both]
    assert set(read_all(pairs)) == {None}


def frame_slowly(data: bytes) -> tuple[list[bytes], str]:
    """Length-delimited messages of a buffer and how it ends, in plain Python."""
    found, at = list[bytes](), 0
    while True:
        length = shift = 0
        place = at
        while True:
            if place >= len(data):
                return found, "more"
            if shift > 56:
                return found, "bad"
            byte = data[place]
            length |= (byte & 127) << shift
            shift += 7
            place += 1
            if byte < 128:
                break
        if length > codec.MAX_RECORD:
            return found, "oversize"
        if place + length > len(data):
            return found, "more"
        found.append(data[place : place + length])
        at = place + length


@settings(max_examples=300)
@given(
    st.lists(
        st.one_of(st.binary(max_size=12), st.sampled_from([b"\xff" * 9, b"\x80" * 8 + b"\x01", b"\0" * 9])),
        max_size=30,
    )
)
def test_frames_are_those_of_a_slow_reading(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    found = codec.frames(np.frombuffer(data, np.uint8))
    got = [data[a : a + n] for a, n in zip(found.offsets, found.lengths, strict=True)]
    names = {framing.NEED_MORE: "more", framing.OVERSIZE: "oversize", framing.BAD_LENGTH: "bad"}
    assert (got, names[found.status]) == frame_slowly(data)


def test_long_runs_of_empty_messages_are_passed_over() -> None:
    data = np.frombuffer(b"\x01a" + bytes(5000) + b"\x01b", np.uint8)
    first = codec.frames(data)
    assert (first.offsets.tolist(), first.status, first.size) == ([1], framing.EMPTIES, 5000)
    rest = codec.frames(data, first.end)
    assert (rest.offsets.tolist(), rest.status) == ([5003], framing.NEED_MORE)
    short = codec.frames(np.zeros(4095, np.uint8))
    assert (short.offsets.size, short.status) == (4095, framing.NEED_MORE)


def test_many_frames_come_in_parts() -> None:
    data = np.frombuffer(b"\x01a" * 70_000, np.uint8)
    first = codec.frames(data)
    assert (first.offsets.size, first.status, first.end) == (65_536, framing.FULL, 131_072)
    rest = codec.frames(data, first.end)
    assert (rest.offsets.size, rest.status, rest.end) == (70_000 - 65_536, framing.NEED_MORE, 140_000)


def test_a_single_message_is_its_own_frame() -> None:
    message = Report(digest=3, epoch=-2, report_id=9, payload=b"xy").SerializeToString()
    rows, batches, malformed = codec.parse(codec.joined([message]), base=0)
    assert (rows.digest.tolist(), rows.epoch.tolist(), rows.report_id.tolist()) == ([3], [-2], [9])
    assert not batches
    assert not malformed.size
    assert codec.parse(codec.joined([b""]))[2].tolist() == [0]


def test_places_count_from_the_start_of_the_source() -> None:
    one = Report(digest=3, payload=b"xy").SerializeToString()
    many = ReportBatch(digest=3, count=1, report_ids=[4], payloads=b"xy").SerializeToString()
    data = b"".join(bytes([len(m)]) + m for m in (one, many, b"\x07"))
    rows, batches, malformed = codec.parse(codec.frames(np.frombuffer(data, np.uint8)), base=100)
    assert rows.place.tolist() == [101]
    assert batches.place.tolist() == [102 + len(one)]
    assert malformed.tolist() == [103 + len(one) + len(many)]


@pytest.mark.parametrize("size", [1, 127, 128, 5000, 16383, 16384, 1 << 20])
def test_the_bytes_that_a_cut_off_record_lacks(size: int) -> None:
    whole = np.frombuffer(codec.framed(bytes(size)), np.uint8)
    prefix = whole.size - size
    for cut in {1, 2, size // 2 + 1, size} - {0}:
        if cut <= size:
            assert codec.bytes_missing(whole[:-cut]) == cut
    for at in range(1, prefix):
        assert codec.bytes_missing(whole[:at]) is None
