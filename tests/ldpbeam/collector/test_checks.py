"""Which bodies are taken, against the protobuf library: whatever the bytes are, whatever came beside them."""

from __future__ import annotations

from collections import Counter

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.collector.checks import judge
from ldpbeam.errors import Reason
from ldpbeam.wire import report_pb2
from tests.ldpbeam.collector.serving import ONE, TWO, batch, report
from tests.pipelines.running import collection
from tests.reference.message_fields import gives_a_field_twice

RETIRED = collection("grr", 4, "retired", version=9, retired=7200)
KNOWN = {agreed.digest: agreed for agreed in (ONE, TWO, RETIRED)}
SOUND = [
    report(7),
    report(8, 99),
    report(2**64 - 1, 3, b"\3"),
    report(1, 0, bytes(TWO.protocol.device.payload_size), TWO.digest),
    batch(range(1)),
    batch(range(5, 20), 3),
]
Read = tuple[Reason | None, list[tuple[int, int, int, bytes]]]


def slowly(body: bytes) -> Read:  # noqa: PLR0911 - a rule each
    """What should become of a body, and the reports in it, by the protobuf library."""
    try:
        many, one = report_pb2.ReportBatch.FromString(body), report_pb2.Report.FromString(body)
    except DecodeError:
        return Reason.MALFORMED, []
    if not body or gives_a_field_twice(body):
        return Reason.MALFORMED, []
    single, whole = one.report_id or one.payload, many.count or many.report_ids or many.payloads
    if whole and (single or many.count != len(many.report_ids) or not many.count):
        return Reason.MALFORMED, []
    agreed = KNOWN.get(many.digest)
    if agreed is None:
        return Reason.UNKNOWN_COLLECTION, []
    if not 0 <= many.epoch < agreed.epochs.count:
        return Reason.FOREIGN_EPOCH, []
    if agreed.retired is not None and agreed.epochs.start(many.epoch) >= agreed.retired:
        return Reason.RETIRED_COLLECTION, []
    width = agreed.protocol.device.payload_size
    ids, payloads = (many.report_ids, many.payloads) if whole else ([one.report_id], one.payload)
    if len(payloads) != width * len(ids):
        return Reason.WRONG_LENGTH, []
    key = (many.digest, many.epoch)
    return None, [(*key, name, payloads[i * width : (i + 1) * width]) for i, name in enumerate(ids)]


def taken(bodies: list[bytes]) -> tuple[list[Reason | None], Counter[tuple[int, int, int, bytes]]]:
    judged = judge(bodies, KNOWN)
    reports = [
        (columns.digest, columns.epoch, int(name), payload.tobytes())
        for columns in judged.columns
        for name, payload in zip(columns.report_ids, columns.payloads, strict=True)
    ]
    return [verdict.reason for verdict in judged.verdicts], Counter(reports)


def mutated(draw: st.DrawFn) -> bytes:
    body = bytearray(draw(st.sampled_from(SOUND)))
    for _ in range(draw(st.integers(0, 3))):
        how = draw(st.sampled_from(["flip", "cut", "add", "insert", "join"]))
        at = draw(st.integers(0, max(len(body) - 1, 0)))
        if how == "flip" and body:
            body[at] ^= 1 << draw(st.integers(0, 7))
        elif how == "cut":
            del body[at:]
        elif how == "add":
            body += draw(st.binary(max_size=9))
        elif how == "insert":
            body[at:at] = draw(st.binary(max_size=4))
        else:
            body += draw(st.sampled_from(SOUND))
    return bytes(body)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.composite(mutated)() | st.binary(max_size=40), min_size=1, max_size=6))
@pytest.mark.thorough
def test_mutated_bodies_are_judged_as_the_protobuf_library_reads_them(bodies: list[bytes]) -> None:
    reasons, reports = taken(bodies)
    expected = [slowly(body) for body in bodies]
    assert reasons == [reason for reason, _ in expected]
    assert reports == Counter(one for _, some in expected for one in some)


def test_sound_bodies_are_taken_whatever_is_beside_them() -> None:
    bodies = [
        b"",
        *SOUND,
        b"\xff",
        report(5, 100),
        report(5, -1),
        report(5, 0, b"\1\1"),
        report(5, 0, b"\1", 3),
    ]
    reasons, reports = taken(bodies)
    assert reasons == [
        Reason.MALFORMED,
        *[None] * len(SOUND),
        Reason.MALFORMED,
        *[Reason.FOREIGN_EPOCH] * 2,
        Reason.WRONG_LENGTH,
        Reason.UNKNOWN_COLLECTION,
    ]
    assert reports == Counter(one for body in SOUND for one in slowly(body)[1])
    assert sum(reports.values()) == 4 + 1 + 15


def test_epochs_of_a_retired_collection_are_refused() -> None:
    bodies = [report(1, 1, b"\1", RETIRED.digest), report(1, 2, b"\1", RETIRED.digest)]
    assert taken(bodies)[0] == [None, Reason.RETIRED_COLLECTION]


def test_an_arrival_that_a_device_claims_is_dropped() -> None:
    columns = judge([batch(range(3), arrival=5)], KNOWN).columns
    assert [len(some) for some in columns] == [3]
