"""What is shuffled: columns of an epoch by shard, or counts, where nothing is de-duplicated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.admission import put_together
from ldpbeam.dedup import shard_columns
from ldpbeam.support import Support

from ..coders import ReportColumnsCoder, SupportCoder
from ..stages.reports import EpochKey, EpochParts
from .state import Schedules, ShardKey, counters


class CountBeforeShuffle(beam.DoFn):
    """Columns to counts, one per epoch and bundle, as a part of the only shard there is then."""

    def __init__(self, schedules: Schedules) -> None:
        self._counters = counters(schedules)
        self._held: dict[EpochKey, tuple[Support, Timestamp]] = {}

    def start_bundle(self) -> None:
        self._held = {}

    def process(self, pair: EpochParts, when: Any = beam.DoFn.TimestampParam) -> None:
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


class SplitByShard(beam.DoFn):
    """Columns of an epoch to its shards, encoded once."""

    def __init__(self, bits: int) -> None:
        """2**bits shards per epoch."""
        self._bits = bits
        self._coder = ReportColumnsCoder()

    def process(self, pair: EpochParts) -> Iterator[tuple[ShardKey, bytes]]:
        (digest, epoch), some = pair
        columns = some[0] if len(some) == 1 else put_together(some)
        parts = dict(shard_columns(columns, self._bits))
        for shard in range(1 << self._bits):
            part = parts.get(shard)
            yield (digest, epoch, shard), b"" if part is None else self._coder.encode(part)
