"""Messages become chunks: with their arrivals, under their names, whatever windows they come in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import FixedWindows, GlobalWindow, GlobalWindows, TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from ldpbeam.admission import batch_message
from ldpbeam.collection.epochs import Epochs
from ldpbeam.transforms.sources.messages import GatherMessages, gather_messages
from ldpbeam.transforms.stages.reports import ACCOUNTING, AdmitPieces
from tests.pipelines.running import collection, fleet

SECRET = "s3cret"
DECODE = "decode base64 text in front, as with base64.b64decode."
WINDOWS = {
    "default": beam.WindowInto(GlobalWindows()),
    "minutes": beam.WindowInto(FixedWindows(60)),
    "triggers": beam.WindowInto(
        GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.DISCARDING
    ),
}


Record = tuple[bytes, int | None, bool]
"""Bytes, arrival in microseconds, and whether it is in the global window."""


class _Records(beam.DoFn):
    def process(
        self, chunk: Any, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[tuple[bytes, int | None, bool]]:
        found = chunk.frames
        arrivals = [None] * len(found.offsets) if chunk.arrivals is None else chunk.arrivals.tolist()
        for start, length, arrival in zip(found.offsets, found.lengths, arrivals, strict=True):
            record = found.buffer[start : start + length].tobytes()
            yield record, arrival, isinstance(window, GlobalWindow)


@pytest.mark.parametrize("windows", WINDOWS)
def test_windows_and_triggers_of_the_input_play_no_part(windows: str) -> None:
    """Windows would take what follows apart, and no step there is made for any but the global one."""
    sent = [(b"one", 10), (b"two", 70), (b"three", 130)]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        stamped = pipeline | beam.Create([TimestampedValue(m, at) for m, at in sent], reshuffle=False)
        chunks = stamped | WINDOWS[windows] | gather_messages("here")
        assert chunks.windowing.is_default()
        wanted = [(message, at * 10**6, True) for message, at in sent]
        assert_that(chunks | beam.ParDo(_Records()), equal_to(wanted))


@pytest.mark.parametrize("arrival", [True, False])
def test_an_unknown_arrival_is_unknown(arrival: bool) -> None:
    """Beam gives elements without a time its earliest one: no report came then, and none is from the
    future."""
    sent: list[Any] = [b"bare", TimestampedValue(b"stamped", 10), b"again", TimestampedValue(b"old", -5)]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = pipeline | beam.Create(sent, reshuffle=False) | gather_messages("here", arrival=arrival)
        at: list[int | None] = [None, 10_000_000, None, -5_000_000] if arrival else [None] * 4
        names = (b"bare", b"stamped", b"again", b"old")
        wanted = [(name, when, True) for name, when in zip(names, at, strict=True)]
        assert_that(found | beam.ParDo(_Records()), equal_to(wanted))


def test_reports_of_an_unknown_arrival_are_neither_late_nor_from_the_future() -> None:
    """The same messages: counted with no time, refused as future ones a year before the epoch."""
    agreed = collection("grr", epochs=Epochs(3600, 1_767_225_600, 9))
    batch = fleet(agreed, 30, 1)[0]
    message = batch_message(batch)
    admit = AdmitPieces({agreed.digest: agreed})
    for when, what in ((MIN_TIMESTAMP, "read"), (Timestamp(10), "rejected.future_epoch")):
        gather = GatherMessages("here")
        assert not list(gather.process(message, when))
        (chunk,) = gather.finish_bundle()
        entries = {one.value[0][1] for one in admit.process(chunk.value) if one.tag == ACCOUNTING}
        assert entries == {"read", what}


@pytest.mark.parametrize(
    ("field", "wrong", "said"),
    [
        (
            "payload",
            [{"payload": SECRET}, {"device": SECRET, "paylod": b""}, SECRET],
            [
                "The element has no field 'payload'; it has device, paylod.",
                f"The field 'payload' is str and not bytes; {DECODE}",
            ],
        ),
        (
            "",
            [("key", SECRET), None, {"payload": SECRET}],
            [
                "The message is dict and not bytes; name the field that holds the message, as with "
                "field='payload'.",
                "The message is null.",
                f"The value of a pair is str and not bytes; {DECODE}",
            ],
        ),
        ("payload", [{"a" * 300: b""}], ["The element has no field 'payload'; it has " + "a" * 199 + "…."]),
    ],
)
def test_elements_without_a_message_are_one_rejection_for_each_kind_of_fault(
    field: str, wrong: list[Any], said: list[str]
) -> None:
    gather = GatherMessages("here", field=field)
    assert [one for element in wrong * 300 for one in gather.process(element, MIN_TIMESTAMP)] == []
    bad = [one.value for one in gather.finish_bundle()]
    assert sorted(one.detail for one in bad) == said
    assert sum(one.count for one in bad) == 300 * len(wrong)
    assert SECRET not in repr(bad)
