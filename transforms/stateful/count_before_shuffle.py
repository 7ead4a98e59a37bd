"""Without de-duplication: counts instead of reports, before anything is shuffled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.support import Support

from ..coders import SupportCoder
from ..stages.reports import EpochKey, EpochParts
from .state import Schedules, counters


class CountBeforeShuffle(beam.DoFn):
    """Columns to counts, one per epoch and bundle, as a part of the only shard there is then."""

    def __init__(self, schedules: Schedules) -> None:
        self._counters = counters(schedules)
        self._held: dict[EpochKey, tuple[Support, Timestamp]] = {}

    def start_bundle(self) -> None:
        """Forget counts of a bundle that was not finished."""
        self._held = {}

    def process(self, pair: EpochParts, when: Any = beam.DoFn.TimestampParam) -> None:
        """Add the reports of one epoch to what the bundle has counted of it."""
        key, parts = pair
        counter = self._counters[key[0]]
        support, latest = self._held.get(key) or (Support.zero_of(counter), when)
        for columns in parts:
            support.add(columns.payloads, counter)
        self._held[key] = support, max(latest, when)

    def finish_bundle(self) -> Iterator[Any]:
        """One support per epoch, at the latest arrival it holds."""

        for key, (support, when) in self._held.items():
            yield WindowedValue(((*key, 0), SupportCoder().encode(support)), when, [GlobalWindow()])
        self._held = {}
