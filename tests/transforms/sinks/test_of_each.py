"""Steps of several collections as one: each of them has a life of its own, as if it were alone in a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, IntervalWindow, TimestampedValue
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.transforms.sinks.of_each import OfEach


class Plain(beam.DoFn):
    def __init__(self, name: str) -> None:
        self.name = name
        self.diary: list[str] = []

    def setup(self) -> None:
        self.diary.append("setup")

    def start_bundle(self) -> None:
        self.diary.append("start")

    def process(self, element: int) -> list[int]:
        self.diary.append(f"{element}")
        return [element, element]

    def finish_bundle(self) -> None:
        self.diary.append("finish")

    def teardown(self) -> None:
        self.diary.append("teardown")


class Holds(beam.DoFn):
    def start_bundle(self) -> None:
        self.held: list[WindowedValue] = []

    def process(
        self, element: int, when: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
    ) -> None:
        self.held.append(WindowedValue(element, when, (window,)))

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield from self.held


def test_a_step_lives_as_if_it_were_alone() -> None:
    """It is set up once, has a bundle where it has elements, and is taken down if it was used."""
    steps = {name: Plain(name) for name in "abc"}
    each = OfEach(steps)
    each.setup()
    for bundle in ([("a", 1), ("b", 2), ("a", 3)], [], [("b", 4)]):
        each.start_bundle()
        found = [out for pair in bundle for out in each.process(pair, None, None)]
        assert found == [pair for pair in bundle for _ in range(2)]
        assert list(each.finish_bundle()) == []
    each.teardown()
    assert steps["a"].diary == ["setup", "start", "1", "3", "finish", "teardown"]
    assert steps["b"].diary == ["setup", "start", "2", "finish", "start", "4", "finish", "teardown"]
    assert steps["c"].diary == []


def test_what_a_failed_bundle_has_left_open_is_not_finished_with_the_next() -> None:
    steps = {name: Plain(name) for name in "ab"}
    each = OfEach(steps)
    each.start_bundle()
    assert list(each.process(("a", 1), None, None)) == [("a", 1)] * 2
    each.start_bundle()
    assert list(each.process(("b", 2), None, None)) == [("b", 2)] * 2
    assert list(each.finish_bundle()) == []
    assert steps["a"].diary == ["setup", "start", "1"]
    assert steps["b"].diary == ["setup", "start", "2", "finish"]


def test_windows_stay_and_keys_are_given_back() -> None:
    """In a pipeline, for a step that answers at once and for one that answers when its bundle ends."""
    sent = [("a", 1), ("b", 2), ("a", 70), ("b", 80)]

    class InWindow(beam.DoFn):
        def process(self, pair: tuple[str, int], window: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
            assert isinstance(window, IntervalWindow)
            yield pair, int(window.start.micros) // 10**6

    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = (
            pipeline
            | beam.Create(sent, reshuffle=False)
            | beam.Map(lambda pair: TimestampedValue(pair, pair[1]))
            | "Minutes" >> beam.WindowInto(FixedWindows(60))
            | beam.ParDo(OfEach({"a": Plain("a"), "b": Holds()}))
            | "InWindow" >> beam.ParDo(InWindow())
            | beam.WindowInto(beam.window.GlobalWindows())
        )
        wanted = [(("a", 1), 0)] * 2 + [(("a", 70), 60)] * 2 + [(("b", 2), 0), (("b", 80), 60)]
        assert_that(found, equal_to(wanted))
