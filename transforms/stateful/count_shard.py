"""The first step with state: one shard of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.coders import BytesCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer

from ldpbeam.admission import ReportColumns
from ldpbeam.arrays import read_only
from ldpbeam.dedup import distinct_and_one_per_id, distinct_reports, secret_key
from ldpbeam.schedule import Schedule
from ldpbeam.support import Support

from ..coders import ReportColumnsCoder, SupportCoder
from ..metrics import count_reports
from .distinct_sample import DistinctSample
from .state import NEVER, Schedules, ShardCount, ShardKey, Update, counters, read_state, wake_up, write_state

FORGET_AFTER = 31 * 86400 * 1_000_000
"""Microseconds after its close for which a shard remembers that an epoch is closed: brokers keep messages no
longer."""

_COMPACT_FROM = 1 << 16
_PIECE_BYTES = 4 << 20
_WORTH = 1 << 11
"""Reports that a part of the bag holds at least, on the average, or the parts are put together."""
_SUPPORT_WEIGHT = 1 << 10


@dataclass(frozen=True)
class ShardState:
    """What a shard knows besides its reports."""

    counted_at: int = NEVER  # due time of its last count
    due: int | None = None  # due time of the next one; when to forget everything, once it is closed
    changed: bool = False  # whether something was added since the last count
    stored: int = 0  # reports in the bag, or supports with a weight of many reports each
    compacted: int = 0  # how many of them were left when the bag was last read
    repeats: int = 0  # reports left out by then
    parts: int = 0  # how many items the bag has
    sampled_bits: int = 0  # of a sample of the report ids, which tells how many distinct ones there are
    sampled: list[int] = field(default_factory=list)

    @property
    def sample(self) -> DistinctSample:
        return DistinctSample(self.sampled_bits, self.sampled)

    def with_part(self, part: bytes, deduplicate: bool) -> ShardState:
        if not deduplicate:
            stored = self.stored + _SUPPORT_WEIGHT
            return replace(self, stored=stored, changed=True, parts=self.parts + 1)
        ids = ReportColumnsCoder().decode(part).report_ids
        stored = self.stored + ids.size
        sample = self.sample.including(ids, stored)
        return replace(
            self,
            stored=stored,
            changed=True,
            parts=self.parts + 1,
            sampled_bits=sample.bits,
            sampled=sample.names,
        )

    def is_worth_compacting(self, deduplicate: bool) -> bool:
        """Whether the bag has doubled, and would be half as large, or of far fewer items, were it read."""
        if self.stored < max(_COMPACT_FROM, 2 * self.compacted):
            return False
        return not deduplicate or self.is_scattered or self.stored > 2 * self.sample.distinct

    @property
    def is_scattered(self) -> bool:
        return self.parts > max(1, self.stored // _WORTH)


class CountShard(beam.DoFn):
    """One shard of an epoch: keeps the reports while they can still matter, gives their counts when due."""

    REPORTS = BagStateSpec("reports", BytesCoder())
    STATE = ReadModifyWriteStateSpec("state", BytesCoder())
    LAST = ReadModifyWriteStateSpec("last", BytesCoder())
    # Named apart from every other timer of the graph: FnApiRunner mixes timers of one name up.
    DUE = TimerSpec("shard_due", TimeDomain.WATERMARK)
    WATCH = TimerSpec("shard_watch", TimeDomain.WATERMARK)

    def __init__(self, schedules: Schedules, *, deduplicate: bool = True) -> None:
        """Count at the due times of ``schedules``; parts are columns, or supports where repeats count."""
        self._schedules = dict(schedules)
        self._deduplicate = deduplicate
        self._counters = counters(schedules)
        self._secret = 1

    def setup(self) -> None:
        """A secret key for hash tables, so that nobody can choose report ids that collide."""
        self._secret = secret_key()

    def process(
        self,
        element: tuple[ShardKey, bytes],
        when: Any = beam.DoFn.TimestampParam,
        reports: Any = beam.DoFn.StateParam(REPORTS),
        state: Any = beam.DoFn.StateParam(STATE),
        due: Any = beam.DoFn.TimerParam(DUE),
        watch: Any = beam.DoFn.TimerParam(WATCH),
    ) -> list[Update]:
        (digest, epoch, _), part = element
        schedule = self._schedules.get(digest)
        if schedule is None:
            return []  # of a collection that an update of the job has removed
        known = read_state(state, ShardState)
        coder = ReportColumnsCoder if self._deduplicate else SupportCoder
        size = coder.reports(part) if part else 0
        if known.counted_at >= schedule.close(epoch):
            if not size:
                return []
            count_reports("late", size)
            return [((digest, epoch), ("late", size))]
        if size:
            reports.add(part)
            known = known.with_part(part, self._deduplicate)
            if known.is_worth_compacting(self._deduplicate):
                known = self._compact(digest, known, reports)
        wanted = _due_after(schedule, epoch, known, when.micros if size else None)
        wanted = wanted if known.due is None else min(wanted, known.due)
        write_state(state, replace(known, due=wanted))
        wake_up(schedule, wanted, due, watch)
        return []

    @on_timer(DUE)
    @on_timer(WATCH)  # for a timer that was lost
    def on_due(
        self,
        key: ShardKey = beam.DoFn.KeyParam,
        fired: Any = beam.DoFn.TimestampParam,
        reports: Any = beam.DoFn.StateParam(REPORTS),
        state: Any = beam.DoFn.StateParam(STATE),
        last: Any = beam.DoFn.StateParam(LAST),
        due: Any = beam.DoFn.TimerParam(DUE),
        watch: Any = beam.DoFn.TimerParam(WATCH),
    ) -> list[Update]:
        digest, epoch, shard = key
        known, schedule = read_state(state, ShardState), self._schedules.get(digest)
        if schedule is None or known.due is None:
            _forget(reports, state, last)
            return []
        if fired.micros < known.due:
            # A timer that was set for an earlier time, or fires twice.
            wake_up(schedule, known.due, due, watch)
            return []
        now, close = known.due, schedule.close(epoch)
        if now > close:
            _forget(reports, state, last)
            return []
        updates: list[Update] = []
        if known.changed or now in (schedule.end(epoch), close):
            given = None if known.changed else last.read()
            if given is not None:
                count = replace(ShardCount.unpack(given), due=now)
            else:
                known, support, conflicting = self._counted(digest, known, reports)
                count = ShardCount(shard, now, known.repeats, conflicting, SupportCoder().encode(support))
                last.write(count.pack())
            updates = [((digest, epoch), count.pack())]
        if now == close:
            reports.clear()
            last.clear()
            known = ShardState(repeats=known.repeats)  # remembered for a month: no sample, nothing of a bag
        known = replace(known, counted_at=now, changed=False)
        following = _due_after(schedule, epoch, known, None)
        write_state(state, replace(known, due=following))
        wake_up(schedule, following, due, watch)
        return updates

    def _compact(self, digest: str, known: ShardState, reports: Any) -> ShardState:
        """The bag without repeats. Different payloads of an id all stay, to be told from copies."""
        parts = list(reports.read())
        if not parts:
            return replace(known, stored=0, compacted=0, parts=0)
        if not self._deduplicate:
            return self._rewritten(known, reports, parts, self._total(digest, parts))
        columns, repeats = distinct_reports(map(ReportColumnsCoder().decode, parts), self._secret)
        return self._rewritten(known, reports, parts, columns, repeats)

    def _counted(self, digest: str, known: ShardState, reports: Any) -> tuple[ShardState, Support, int]:
        """Counts of the bag, and how many of its reports conflict with another; the bag without repeats."""
        parts = list(reports.read())
        total = Support.zero_of(self._counters[digest])
        if not parts:
            return replace(known, stored=0, compacted=0, parts=0), total, 0
        if not self._deduplicate:
            total = self._total(digest, parts)
            return self._rewritten(known, reports, parts, total), total, 0
        columns = map(ReportColumnsCoder().decode, parts)
        (distinct, repeats), one = distinct_and_one_per_id(columns, self._secret)
        total.add(read_only(np.ascontiguousarray(one.columns.payloads)), self._counters[digest])
        return self._rewritten(known, reports, parts, distinct, repeats), total, one.conflicting

    def _total(self, digest: str, parts: list[bytes]) -> Support:
        total = Support.zero_of(self._counters[digest])
        for part in parts:
            total.merge(SupportCoder().decode(part))
        return total

    def _rewritten(
        self,
        known: ShardState,
        reports: Any,
        parts: list[bytes],
        left: ReportColumns | Support,
        repeats: int = 0,
    ) -> ShardState:
        """What is left takes the place of the parts, unless the bag would gain nothing from it."""
        stored = _SUPPORT_WEIGHT if isinstance(left, Support) else len(left)
        following = replace(
            known, stored=stored, compacted=stored, repeats=known.repeats + repeats, parts=len(parts)
        )
        if not repeats and not following.is_scattered:
            return following
        pieces = [SupportCoder().encode(left)] if isinstance(left, Support) else list(_in_pieces(left))
        reports.clear()
        for piece in pieces:
            reports.add(piece)
        return replace(following, parts=len(pieces))


def _due_after(schedule: Schedule, epoch: int, known: ShardState, arrival: int | None) -> int:
    """The next time for which a shard has something to say."""
    if arrival is not None:
        return schedule.due(epoch, max(known.counted_at, arrival))
    end, close = schedule.end(epoch), schedule.close(epoch)
    return next((t for t in (end, close) if known.counted_at < t), close + FORGET_AFTER)


def _forget(*cells: Any) -> None:
    for cell in cells:
        cell.clear()


def _in_pieces(columns: ReportColumns) -> Iterator[bytes]:
    """Encoded, a few megabytes each: runners limit the size of one element of state."""
    step = max(_PIECE_BYTES // (8 + columns.payloads.shape[1]), 1)
    for at in range(0, len(columns), step):
        ids, payloads = columns.report_ids[at : at + step], columns.payloads[at : at + step]
        yield ReportColumnsCoder().encode(ReportColumns(columns.digest, columns.epoch, ids, payloads))
