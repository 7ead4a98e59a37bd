"""Steps of several collections as one step, so that a graph does not grow with their number.

What flows through such a step is keyed by the digest of the collection that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from inspect import signature
from typing import Any

import apache_beam as beam
from apache_beam.utils.windowed_value import WindowedValue

_TIME_AND_WINDOW = frozenset({"when", "window"})
"""What a step may ask for by the names of its parameters."""


class OfEach(beam.DoFn):
    """Gives every element to the step of its collection: ``(digest, element)`` in, ``(digest, result)``
    out."""

    def __init__(self, steps: Mapping[str, beam.DoFn], *, last: bool = False) -> None:
        self._steps = dict(steps)
        self._last = last
        self._ready: dict[str, frozenset[str]] = {}  # with what a step asks for
        self._begun: list[str] = []

    def start_bundle(self) -> None:
        """Begin with no step's bundle; one that failed has left some open."""
        self._begun = []

    def process(
        self,
        pair: tuple[str, Any],
        when: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[Any]:
        digest, element = pair
        step = self._steps[digest]
        if digest not in self._ready:
            step.setup()
            self._ready[digest] = _TIME_AND_WINDOW & signature(step.process).parameters.keys()
        if digest not in self._begun:
            self._begun.append(digest)
            step.start_bundle()
        asked = self._ready[digest]
        given = {name: value for name, value in (("when", when), ("window", window)) if name in asked}
        yield from self._keyed(digest, step.process(element, **given))

    def finish_bundle(self) -> Iterator[Any]:
        for digest in self._begun:
            yield from self._keyed(digest, self._steps[digest].finish_bundle())

    def teardown(self) -> None:
        for digest in sorted(self._ready):
            self._steps[digest].teardown()
        self._ready.clear()

    def _keyed(self, digest: str, results: Iterable[Any] | None) -> Iterable[Any]:
        return (results or ()) if self._last else _with(digest, results or ())


def _with(digest: str, results: Iterable[Any]) -> Iterator[Any]:
    for result in results:
        if isinstance(result, WindowedValue):
            yield result.with_value((digest, result.value))
        else:
            yield digest, result
