"""Admission, record by record: the column code judges as the rules read in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from ldpbeam.accounting import Account
from ldpbeam.admission import LISTED, Admission, Rejection, Written, capped
from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.collection.distinct_collections import by_wire_digest
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.slices import Slices
from ldpbeam.errors import InvalidPayload, Reason
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.protocols import Parameters
from ldpbeam.reports import admit_frames, admit_rows
from ldpbeam.wire import codec
from ldpbeam.wire.codec import Batch, Rows
from ldpbeam.wire.report_pb2 import ReportBatch
from tests.pipelines.running import collection
from tests.reference.batches import admit_batch

SLICED = replace(collection("grr", 11, "sliced"), slices=Slices.of({"arm": ["a", "b", "other"]}))
AGREED = by_wire_digest((collection("sue", 11, "bits"), collection("grr", 11, "direct"), SLICED))
"""By the digests of collections, and of the slices of one."""
Record = tuple[int, int, int, bytes]


def judge(digest: int, epoch: int, payload: bytes) -> Reason | None:
    """The rules, one report at a time."""
    known = AGREED.get(digest)
    if known is None:
        return Reason.UNKNOWN_COLLECTION
    if not 0 <= epoch < known.epochs.count:
        return Reason.FOREIGN_EPOCH
    try:
        known.protocol.device.decode(payload)
    except InvalidPayload as error:
        return error.reason
    return None


def counted(digest: int, epoch: int, name: int, payload: bytes) -> Record:
    """A sound report as it is counted: under its collection, with the digest of its slice behind."""
    known = AGREED[digest]
    return known.digest, epoch, name, payload + digest.to_bytes(8, "little") * bool(known.slices)


def line(digest: int, epoch: int, reason: Reason | None) -> tuple[str, int | None]:
    """Which line of the books a report belongs to."""
    if reason is Reason.UNKNOWN_COLLECTION:
        return ("", None)
    return (AGREED[digest].digest_hex, None if reason is Reason.FOREIGN_EPOCH else epoch)


def balanced(done: Admission) -> None:
    """read = admitted + rejected on each line."""
    fate: Counter[tuple[str, int | None]] = Counter()
    for (key, _), count in done.rejected.items():
        fate[key] += count
    assert sum(r.count for r in done.rejections) == done.rejected.total()
    for columns in done.admitted:
        fate[AGREED[columns.digest].digest_hex, columns.epoch] += len(columns)
    assert fate == done.read


def records(seed: int, n: int) -> list[Record]:
    draw = random.Random(seed)
    digests = [*AGREED, *AGREED, 5]
    return [
        (
            draw.choice(digests),
            draw.choice([0, 0, 1, 99, 100, -1, 2**63 - 1, -(2**63)]),
            draw.choice([0, 2**64 - 1, draw.getrandbits(64)]),
            draw.choice([b"", b"\0", b"\x0a", b"\x0b", b"\xff\x07", b"\xff\x08", b"abc"]),
        )
        for _ in range(n)
    ]


def as_rows(held: list[Record]) -> Rows:
    sizes = np.array([len(r[3]) for r in held], np.int64)
    return Rows(
        digest=np.array([r[0] for r in held], np.uint64),
        epoch=np.array([r[1] for r in held], np.int64),
        report_id=np.array([r[2] for r in held], np.uint64),
        buffer=np.frombuffer(b"".join(r[3] for r in held), np.uint8),
        payload_at=np.cumsum(sizes) - sizes,
        payload_length=sizes,
        place=np.arange(len(held)) * 10,
    )


@pytest.mark.parametrize("seed", range(4))
def test_single_reports_are_judged_by_the_rules(seed: int) -> None:
    held = records(seed, seed * 4)
    done = Admission()
    admit_rows(as_rows(held), AGREED, "here", done)
    balanced(done)
    wanted = Counter(counted(*one) for one in held if judge(one[0], one[1], one[3]) is None)
    found = Counter(
        (c.digest, c.epoch, int(name), row.tobytes())
        for c in done.admitted
        for name, row in zip(c.report_ids, c.payloads, strict=True)
    )
    assert found == wanted
    refused = {(r.place, r.reason, r.epoch, r.source, r.count) for r in done.rejections}
    assert refused == {
        (10 * i, reason, e, "here", 1)
        for i, (c, e, _, payload) in enumerate(held)
        if (reason := judge(c, e, payload))
    }
    keys = {line(c, e, judge(c, e, payload)) for c, e, _, payload in held}
    assert set(done.read) == keys


@pytest.mark.parametrize("epoch", [99, 100])
@pytest.mark.parametrize("digest", [next(iter(AGREED)), 5])
@pytest.mark.parametrize(("ids", "claimed"), [(3, 3), (3, 2), (0, 2**64 - 1)])
@pytest.mark.parametrize("size", [0, 6])
def test_batches_of_any_shape_balance(epoch: int, digest: int, ids: int, claimed: int, size: int) -> None:
    payloads = np.zeros(size, np.uint8)
    batch = Batch(digest, epoch, claimed, np.arange(ids, dtype=np.uint64), payloads, 7)
    done = Admission()
    admit_batch(batch, AGREED, "here", done)
    balanced(done)
    assert done.read.total() == (max(ids, 1) if ids == claimed else 1)
    assert all(r.place == 7 for r in done.rejections)
    width = AGREED[digest].protocol.device.payload_size if digest in AGREED else 0
    sound = digest in AGREED and ids == claimed > 0 and 0 <= epoch < 100 and size == ids * width
    assert bool(done.admitted) == sound


@pytest.mark.parametrize("n", [LISTED, LISTED + 1, 5000])
def test_floods_of_rejections_share_an_entry(n: int) -> None:
    held = [(1000 + i, i, i, b"\0") for i in range(n)]
    done = Admission()
    admit_rows(as_rows(held), AGREED, "here", done)
    balanced(done)
    assert len(done.rejections) == min(n, LISTED + 1)
    if n > LISTED + 1:
        last = done.rejections[-1]
        assert (last.count, last.place, last.digest, last.epoch) == (n - LISTED, 10 * LISTED, "", None)


# A sound payload, then one that breaks each rule of a payload: dBitFlip with d = 2 of 6 buckets sends
# two ascending entries 2·index + bit, one byte each.
SAMPLED = Collection("sampled", 1, Domain(6), "dbitflip", Parameters(epsilon=1.0, d=2), Epochs(3600, 0, 100))
FAULTY = {
    None: (SAMPLED, bytes([2 * 1, 2 * 4 + 1])),
    Reason.REPEATED_INDEX: (SAMPLED, bytes([2 * 4, 2 * 4 + 1])),
    Reason.VALUE_OUT_OF_RANGE: (SAMPLED, bytes([2 * 1, 2 * 6])),
    Reason.UNUSED_BITS: (collection("sue", 11, "bits"), b"\xff\x08"),
    Reason.DEGENERATE: (collection("sue", 96, "ones"), b"\xff" * 12),
}


@pytest.mark.parametrize("reason", [code.reason for code in CheckCode])
def test_every_code_of_a_check_is_booked_under_its_reason(reason: Reason | None) -> None:
    asked, payload = FAULTY[reason]
    known = {asked.digest: asked}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(AGREED, asked.digest, asked)
        for form in ("rows", "batch"):
            done = Admission()
            if form == "rows":
                admit_rows(as_rows([(asked.digest, 3, 7, payload)]), known, "source", done)
            else:
                ids, column = np.array([7], np.uint64), np.frombuffer(payload, np.uint8)
                admit_batch(Batch(asked.digest, 3, 1, ids, column, 0), known, "source", done)
            balanced(done)
            assert [r.reason for r in done.rejections] == ([] if reason is None else [reason])
            assert len(done.admitted) == (reason is None)


# --- when a record arrived

SECOND = 1_000_000
DATED = {
    c.digest: c
    for c in (
        collection("grr", 11, "dated", allowed_lateness=1800),
        collection("grr", 11, "strict", allowed_lateness=0, future_tolerance=0),
        collection("sue", 11, "over", allowed_lateness=7200, future_tolerance=600, retired=3 * 3600 + 1),
    )
}
"""Epochs of an hour from 1970 on; the last collection has its last epoch, 3, from three o'clock."""

Dated = tuple[int, int, int, bytes, int]
"""A record and its arrival in microseconds."""


def fate(digest: int, epoch: int, payload: bytes, arrival: int) -> Reason | str:
    """The rules, one report at a time: a reason, ``late`` or ``admitted``."""
    known = DATED.get(digest)
    if known is None:
        return Reason.UNKNOWN_COLLECTION
    if not 0 <= epoch < 100:
        return Reason.FOREIGN_EPOCH
    start = epoch * 3600
    if known.retired is not None and start >= known.retired:
        return Reason.RETIRED_COLLECTION
    tolerance = 3600 if known.future_tolerance is None else known.future_tolerance
    if arrival < (start - tolerance) * SECOND:
        return Reason.FUTURE_EPOCH
    try:
        known.protocol.device.decode(payload)
    except InvalidPayload as error:
        return error.reason
    return "late" if arrival >= (start + 3600 + known.allowed_lateness) * SECOND else "admitted"


def dated(seed: int, n: int) -> list[Dated]:
    """Records around every edge there is, to the microsecond."""
    draw = random.Random(seed)
    edges = [0, 3600, 5400, 2 * 3600, 3 * 3600, 4 * 3600, 6 * 3600, 3000, 10**9, -(10**9)]
    found = []
    for _ in range(n):
        digest = draw.choice([*DATED, *DATED, 5])
        epoch = draw.choice([0, 0, 1, 2, 3, 4, 99, 100, -1])
        shift = draw.choice([0, 0, epoch * 3600])
        arrival = (draw.choice(edges) + shift) * SECOND + draw.choice([-1, 0, 1])
        payload = draw.choice([b"\x03", b"\x03", b"\xff\x07", b"\xff", b""])
        found.append((digest, epoch, draw.getrandbits(64), payload, arrival))
    return found


def as_batches(held: list[Dated]) -> list[Batch]:
    """Records of one kind in one batch; payloads of equal length only, since a batch has but one."""
    groups: dict[tuple[int, int, int, int], list[Dated]] = {}
    for one in held:
        groups.setdefault((one[0], one[1], one[4], len(one[3])), []).append(one)
    return [
        Batch(
            digest,
            epoch,
            len(group),
            np.array([one[2] for one in group], np.uint64),
            np.frombuffer(b"".join(one[3] for one in group), np.uint8),
            0,
            arrival,
        )
        for (digest, epoch, arrival, _), group in groups.items()
    ]


def as_message(batch: Batch) -> bytes:
    return ReportBatch(
        digest=batch.digest,
        epoch=batch.epoch,
        count=batch.count,
        report_ids=batch.report_ids.tolist(),
        payloads=batch.payloads.tobytes(),
    ).SerializeToString()


def judged(held: list[Dated], form: str) -> Admission:
    """Records by themselves, in batches one after the other, or batches of different arrivals together."""
    done = Admission()
    if form == "rows":
        rows = as_rows([one[:4] for one in held])
        admit_rows(replace(rows, arrival=np.array([one[4] for one in held], np.int64)), DATED, "here", done)
    elif form == "messages":
        batches = as_batches(held)
        arrivals = np.array([batch.arrival for batch in batches], np.int64)
        admit_frames(codec.joined([as_message(b) for b in batches]), DATED, "here", done, arrivals=arrivals)
    else:
        for batch in as_batches(held):
            admit_batch(batch, DATED, "here", done)
    return done


def fates(done: Admission) -> Counter[tuple[int | str, int | None, Reason | str]]:
    """How many records of a digest and an epoch met which fate."""
    found: Counter[tuple[int | str, int | None, Reason | str]] = Counter()
    for rejection in done.rejections:
        found[rejection.digest, rejection.epoch, rejection.reason] += rejection.count
    for (digest, epoch), count in done.late.items():
        found[digest, epoch, "late"] += count
    for columns in done.admitted:
        found[digest_hex(columns.digest), columns.epoch, "admitted"] += len(columns)
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", ["rows", "batches", "messages"])
def test_arrival_decides_what_is_late_and_what_is_too_soon(form: str, seed: int) -> None:
    held = dated(seed, 90)
    done = judged(held, form)
    wanted = Counter((digest_hex(c), e, fate(c, e, payload, at)) for c, e, _, payload, at in held)
    assert +fates(done) == +wanted
    ids = {(c.digest, c.epoch, int(name)) for c in done.admitted for name in c.report_ids}
    assert ids == {(c, e, name) for c, e, name, payload, at in held if fate(c, e, payload, at) == "admitted"}
    lines: Counter[tuple[str, int | None]] = Counter()
    for (key, what), count in done.entries():
        assert count > 0
        if what != "repeated":
            lines[key] += count if what == "read" else -count
    for columns in done.admitted:
        lines[digest_hex(columns.digest), columns.epoch] -= len(columns)
    assert set(lines.values()) <= {0}


@pytest.mark.parametrize("form", ["rows", "batches"])
@pytest.mark.parametrize(
    ("name", "epoch", "arrival", "wanted"),
    [
        # Half an hour of lateness; an epoch of tolerance, since nothing else was said.
        ("dated", 2, 1 * 3600 * SECOND - 1, Reason.FUTURE_EPOCH),
        ("dated", 2, 1 * 3600 * SECOND, "admitted"),
        ("dated", 2, 3 * 3600 * SECOND + 1800 * SECOND - 1, "admitted"),
        ("dated", 2, 3 * 3600 * SECOND + 1800 * SECOND, "late"),
        # Neither: an epoch is open exactly while it lasts.
        ("strict", 2, 2 * 3600 * SECOND - 1, Reason.FUTURE_EPOCH),
        ("strict", 2, 2 * 3600 * SECOND, "admitted"),
        ("strict", 2, 3 * 3600 * SECOND - 1, "admitted"),
        ("strict", 2, 3 * 3600 * SECOND, "late"),
        # Retired: the epoch that had begun goes on, the next one does not begin, whenever it arrives.
        ("over", 3, 4 * 3600 * SECOND, "admitted"),
        ("over", 4, 4 * 3600 * SECOND, Reason.RETIRED_COLLECTION),
        ("over", 4, 0, Reason.RETIRED_COLLECTION),
        ("over", 4, 99 * 3600 * SECOND, Reason.RETIRED_COLLECTION),
        ("over", 100, 4 * 3600 * SECOND, Reason.FOREIGN_EPOCH),
    ],
)
def test_edges_of_an_epoch(form: str, name: str, epoch: int, arrival: int, wanted: Reason | str) -> None:
    (known,) = (c for c in DATED.values() if c.name == name)
    payload = b"\0" * known.protocol.device.payload_size
    done = judged([(known.digest, epoch, 7, payload, arrival)], form)
    assert fates(done) == {(known.digest_hex, epoch, wanted): 1}
    (line,) = done.read
    assert line == (known.digest_hex, None if isinstance(wanted, Reason) else epoch)


@pytest.mark.parametrize("form", ["rows", "batches"])
def test_a_broken_report_that_is_late_is_refused(form: str) -> None:
    (known, *_) = DATED.values()
    held = [(known.digest, 0, i, payload, 10**12) for i, payload in enumerate((b"\x03", b"\xff"))]
    done = judged(held, form)
    key = known.digest_hex
    assert fates(done) == {(key, 0, "late"): 1, (key, 0, Reason.VALUE_OUT_OF_RANGE): 1}


@pytest.mark.parametrize("form", ["rows", "batches"])
def test_without_an_arrival_nothing_is_late_or_too_soon(form: str) -> None:
    held = [(c, e, 0, b"\0" * DATED[c].protocol.device.payload_size, 0) for c in DATED for e in (0, 3, 4, 99)]
    done = Admission()
    if form == "rows":
        admit_rows(as_rows([one[:4] for one in held]), DATED, "here", done)
    else:
        for batch in as_batches(held):
            admit_batch(replace(batch, arrival=None), DATED, "here", done)
    assert not done.late
    assert Counter(r.reason for r in done.rejections) == {Reason.RETIRED_COLLECTION: 2}
    assert sum(map(len, done.admitted)) == 10


def fraction(done: Admission) -> float:
    """The error fraction of everything that was admitted or not."""
    line = Account(read=done.read.total(), rejected=Counter({"": done.rejected.total()}))
    line.add("repeated", done.repeated.total())
    return line.error_fraction


@pytest.mark.parametrize(
    ("ids", "payloads", "weight"),
    [
        (np.arange(4000), b"", 800),  # 8 bytes each, where a report takes 40
        (np.zeros(4000, np.int64), b"", 1),  # a batch of one id
        (np.arange(4000), bytes(16_000), 1200),
        (np.arange(400), bytes(64 * 400), 400),  # too long, but no more reports than ids
        (np.arange(1), b"", 1),
        (np.arange(10), b"\xff" * 320, 10),  # of the right length, and each of them bad
        (np.zeros(10, np.int64), b"\xff" * 320, 1),
    ],
)
def test_junk_weighs_what_it_would_as_reports(ids: np.ndarray, payloads: bytes, weight: int) -> None:
    wide = collection("sue", 251, "wide")
    assert wide.protocol.device.payload_size == 32
    done = Admission()
    junk = Batch(wide.digest, 0, ids.size, ids.astype(np.uint64), np.frombuffer(payloads, np.uint8), 0)
    admit_batch(junk, {wide.digest: wide}, "here", done)
    sound = np.frombuffer((b"\x51" * 31 + b"\x01") * 1000, np.uint8)
    admit_batch(
        Batch(wide.digest, 0, 1000, np.arange(1000, dtype=np.uint64), sound, 0), {wide.digest: wide}, "", done
    )
    assert done.rejected.total() == ids.size
    assert fraction(done) == weight / (1000 + weight)


@pytest.mark.parametrize("order", range(3))
def test_capping_in_parts_is_capping_at_once(order: int) -> None:
    draw = random.Random(order)
    digests = ["aa"] * 3 + ["bb"]
    every = [
        Rejection(Reason.WRONG_LENGTH, "here", i // 3, i % 3, 1 + i % 5, draw.choice(digests), i % 2)
        for i in range(1000)
    ]
    wanted = capped(every)
    assert len(wanted) == LISTED + 1
    assert sum(r.count for r in wanted) == sum(r.count for r in every)
    assert wanted[:LISTED] == every[:LISTED]
    assert (wanted[-1].place, wanted[-1].digest, wanted[-1].epoch) == (LISTED // 3, "", None)
    draw.shuffle(every)
    held: list[Rejection] = []
    while every:
        part, every = every[: (n := draw.randrange(1, 300))], every[n:]
        held = capped(capped(part) + held)
    assert held == wanted


def small_batches(n: int) -> list[bytes]:
    """Messages of up to three reports of several collections and epochs, among them all kinds of faults."""
    draw = random.Random(n)
    made = []
    for _ in range(n):
        digest = draw.choice([*AGREED, *AGREED, 5])
        epoch = draw.choice([0, 1, 99, 100, -1])
        count = draw.choice([0, 1, 1, 2, 3])
        width = AGREED[digest].protocol.device.payload_size if digest in AGREED else 1
        size = count * width + draw.choice([0, 0, 0, 1])
        payloads = bytes(size) if draw.choice([True, True, False]) else draw.randbytes(size)
        ids = [draw.getrandbits(64) | 1 for _ in range(count)]
        claimed = count + draw.choice([0, 0, 0, 1])
        message = ReportBatch(digest=digest, epoch=epoch, count=claimed, report_ids=ids, payloads=payloads)
        made.append(message.SerializeToString() + (b"\x32\x08" + bytes(8) if draw.random() < 0.1 else b""))
    return made


def test_small_batches_together_are_as_one_by_one() -> None:
    messages = small_batches(3000)
    found = codec.joined(messages)
    together, single = Admission(), Admission()
    admit_frames(found, AGREED, "here", together)
    _, batches, malformed = codec.parse(found)
    single.reject_places(Reason.MALFORMED, "here", malformed)
    for batch in batches:
        admit_batch(batch, AGREED, "here", single)
    rows, _, _ = codec.parse(found)
    admit_rows(rows, AGREED, "here", single)
    assert (together.read, together.rejected) == (single.read, single.rejected)
    assert +together.repeated == +single.repeated
    assert together.repeated.total() > 0
    assert Counter(_reports(together)) == Counter(_reports(single))
    places = [{(p, r) for r, at in done.rejected_places for p in at.tolist()} for done in (together, single)]
    assert places[0] == places[1]
    ours, theirs = (sorted(map(repr, done.rejections)) for done in (together, single))
    assert ours == theirs
    assert len(together.admitted) < 10
    assert len(single.admitted) > 300


def _reports(done: Admission) -> list[tuple[int, int, int, bytes]]:
    return [
        (c.digest, c.epoch, int(name), row.tobytes())
        for c in done.admitted
        for name, row in zip(c.report_ids, c.payloads, strict=True)
    ]


def test_what_was_written_before_an_epoch_began_holds_none_of_its_reports() -> None:
    held = [(c, e, 0, b"\0" * DATED[c].protocol.device.payload_size, 0) for c in DATED for e in (0, 3)]
    for form in ("rows", "batches"):
        done = Admission(written_by=Written(3600 * SECOND))
        if form == "rows":
            admit_rows(as_rows([one[:4] for one in held]), DATED, "here", done)
        else:
            for batch in as_batches(held):
                admit_batch(replace(batch, arrival=None), DATED, "here", done)
        assert not done.late
        assert {r.reason for r in done.rejections} == {Reason.FUTURE_EPOCH}
        assert {r.epoch for r in done.rejections} == {3}
        assert {c.epoch for c in done.admitted} == {0}
