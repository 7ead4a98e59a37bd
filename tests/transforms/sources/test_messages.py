"""Messages become chunks: with their arrivals, under their names, whatever windows they come in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import FixedWindows, GlobalWindow, GlobalWindows, TimestampedValue

from ldpbeam.transforms.sources.messages import gather_messages

WINDOWS = {
    "default": beam.WindowInto(GlobalWindows()),
    "minutes": beam.WindowInto(FixedWindows(60)),
    "triggers": beam.WindowInto(
        GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.DISCARDING
    ),
}


class _Records(beam.DoFn):
    """Each record with its arrival, and whether it is in the global window."""

    def process(self, chunk: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[tuple[bytes, int, bool]]:
        found = chunk.found
        for start, length, arrival in zip(found.offsets, found.lengths, chunk.arrivals, strict=True):
            record = found.buffer[start : start + length].tobytes()
            yield record, int(arrival), isinstance(window, GlobalWindow)


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
