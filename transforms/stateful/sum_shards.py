"""The second step with state: all shards of an epoch together."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer

from ldpbeam.accounting import CONFLICTING, ON_TIME, Account, CountedEpoch
from ldpbeam.schedule import Schedule
from ldpbeam.support import Support

from ..coders import SupportCoder
from ..metrics import count_reports
from ..stages.reports import EpochKey
from .state import NEVER, Schedules, ShardCount, Update, counters, read_state, wake_up, write_state

_MOMENT = 1_000  # Beam's clocks tick in milliseconds


@dataclass(frozen=True)
class SummedEpoch:
    """What is known about an epoch besides the counts of its shards."""

    revision: int = 0  # number of the next result
    sequence: int = 0  # number of the next publication, of a result or of the accounting alone
    due: int | None = None  # pending due time; None when there is nothing to wait for
    result_at: int = NEVER  # due time of the last result
    pane: str = ON_TIME  # what it is called
    content: str = ""  # digest of what the last result has counted
    counted: int = 0  # reports in the last result
    repeats: int = 0  # left out of it as copies
    conflicting: int = 0  # left out of it: their ids have another payload
    counts: dict[int, int] = field(default_factory=dict)  # due time of the newest count of each shard
    entries: Counter[str] = field(default_factory=Counter)  # everything else that is in the accounting
    unpublished: bool = False  # whether counts or entries came since the last publication
    closed: bool = False  # whether it has been published that the epoch takes no more reports

    def __post_init__(self) -> None:
        """JSON knows neither numbers as keys nor counters."""
        object.__setattr__(self, "counts", {int(shard): due for shard, due in self.counts.items()})
        object.__setattr__(self, "entries", Counter(self.entries))

    @property
    def admitted(self) -> int:
        """Reports that were read and neither rejected nor late: those that shards count."""
        # Repeated ones are among the rejected ones too.
        aside = ("read", "repeated")
        return self.entries["read"] - sum(n for what, n in self.entries.items() if what not in aside)

    def with_entry(self, what: str, count: int) -> SummedEpoch:
        return replace(self, entries=self.entries + Counter({what: count}), unpublished=True)

    def with_count(self, count: ShardCount) -> SummedEpoch:
        return replace(self, counts={**self.counts, count.shard: count.due}, unpublished=True)

    def served(self, shards: int) -> int:
        """The newest due time that all shards have counted for; before all times while one has not at all."""
        return min(self.counts.values()) if len(self.counts) == shards else NEVER

    def reached(self, close: int) -> int:
        """The time of the last result, or of the close: nothing is published for an earlier time."""
        return max(self.result_at, close) if self.closed else self.result_at

    def count_due(self, schedule: Schedule, epoch: int, due: int) -> int:
        """When a shard's count is published: at the time it was made for, or else at the next due time."""
        reached = self.reached(schedule.close(epoch))
        return due if due > reached else schedule.due(epoch, reached)

    def entry_due(self, schedule: Schedule, epoch: int, came: int) -> int:
        """When an entry of the accounting is published: at the next due time."""
        return schedule.due(epoch, max(self.reached(schedule.close(epoch)), came))

    def is_complete(self, shards: int, close: int, now: int) -> bool:
        """Whether all that is ever counted has been: every shard has given its count at the close."""
        if self.closed:
            return True
        if not self.counts:
            return not self.admitted and now >= close
        return self.served(shards) >= close

    def with_result(
        self, total: Support, repeats: int, conflicting: int, now: int, pane: str
    ) -> tuple[SummedEpoch, Support | None]:
        counted = b"%d/%d/" % (repeats, conflicting) + SupportCoder().encode(total)
        content = hashlib.sha256(counted).hexdigest()[:16]
        if content == self.content and pane != ON_TIME:
            return self, None
        following = replace(
            self,
            revision=self.revision + 1,
            result_at=now,
            pane=pane,
            content=content,
            counted=total.reports,
            repeats=repeats,
            conflicting=conflicting,
        )
        return following, total

    def account(self) -> Account:
        account = Account(counted=self.counted, duplicate=self.repeats)
        if self.conflicting:
            account.add(CONFLICTING, self.conflicting)
        for what, count in self.entries.items():
            account.add(what, count)
        return account


class SumShards(beam.DoFn):
    """All shards of an epoch together: results with revisions, and the accounting."""

    COUNTS = BagStateSpec("counts", BytesCoder())
    STATE = ReadModifyWriteStateSpec("state", BytesCoder())
    DUE = TimerSpec("epoch_due", TimeDomain.WATERMARK)
    WATCH = TimerSpec("epoch_watch", TimeDomain.WATERMARK)

    def __init__(self, schedules: Schedules, shards: int) -> None:
        self._schedules = dict(schedules)
        self._shards = shards
        self._counters = counters(schedules)

    def process(
        self,
        element: Update,
        when: Any = beam.DoFn.TimestampParam,
        counts: Any = beam.DoFn.StateParam(COUNTS),
        state: Any = beam.DoFn.StateParam(STATE),
        due: Any = beam.DoFn.TimerParam(DUE),
        watch: Any = beam.DoFn.TimerParam(WATCH),
    ) -> None:
        (digest, epoch), item = element
        schedule = self._schedules.get(digest)
        if schedule is None:
            return  # of a collection that an update of the job has removed
        known = read_state(state, SummedEpoch)
        if isinstance(item, bytes) and known.closed and not known.counts:
            # It closed without a report, and its shards do not know: the last count of each is of late ones.
            count = ShardCount.unpack(item)
            if count.due < schedule.close(epoch) or not count.read:
                return
            item = "late", count.read
            count_reports(*item)
        if isinstance(item, bytes):
            count = ShardCount.unpack(item)
            if count.due <= known.counts.get(count.shard, NEVER):
                return
            counts.add(item)
            known = known.with_count(count)
            wanted = known.count_due(schedule, epoch, count.due)
        else:
            known = known.with_entry(*item)
            wanted = known.entry_due(schedule, epoch, when.micros)
        wanted = wanted if known.due is None else min(wanted, known.due)
        write_state(state, replace(known, due=wanted))
        _wake_up(schedule, wanted, due, watch)

    @on_timer(DUE)
    @on_timer(WATCH)  # for a timer that was lost
    def on_due(
        self,
        key: EpochKey = beam.DoFn.KeyParam,
        fired: Any = beam.DoFn.TimestampParam,
        counts: Any = beam.DoFn.StateParam(COUNTS),
        state: Any = beam.DoFn.StateParam(STATE),
        due: Any = beam.DoFn.TimerParam(DUE),
        watch: Any = beam.DoFn.TimerParam(WATCH),
    ) -> Iterator[tuple[str, CountedEpoch]]:
        digest, epoch = key
        known, schedule = read_state(state, SummedEpoch), self._schedules.get(digest)
        if schedule is None:
            counts.clear()
            state.clear()
            return
        if known.due is None:
            return
        if fired.micros < known.due + _MOMENT:
            # A timer that was set for an earlier time, or fires twice.
            _wake_up(schedule, known.due, due, watch)
            return
        now, close = max(known.due, known.served(self._shards)), schedule.close(epoch)
        known, support = self._next_result(schedule, key, known, now, counts)
        if known.unpublished:
            number = max(known.revision - 1, 0)
            counted = CountedEpoch(
                epoch,
                support,
                known.account(),
                number,
                known.pane,
                known.closed,
                sequence=known.sequence,
            )
            yield digest, counted
            known = replace(known, sequence=known.sequence + 1)
        # Until its close an epoch has a timer, whatever comes; from then on only shards have more to say.
        following = close if now < close and not known.closed else None
        write_state(state, replace(known, due=following, unpublished=False))
        if following is not None:
            _wake_up(schedule, following, due, watch)

    def _next_result(
        self, schedule: Schedule, key: EpochKey, known: SummedEpoch, now: int, counts: Any
    ) -> tuple[SummedEpoch, Support | None]:
        """The state once everything is published that is due by ``now``, and the support if that is new."""
        digest, epoch = key
        complete = known.is_complete(self._shards, schedule.close(epoch), now)
        changes = complete != known.closed
        known = replace(known, closed=complete, unpublished=known.unpublished or changes)
        # Once an epoch is closed the counts are gone, and only its accounting can change.
        if not known.counts or not known.unpublished or (complete and not changes):
            return known, None
        total, repeats, conflicting = self._sum(digest, counts)
        if complete:
            counts.clear()
        count_reports("duplicate", repeats - known.repeats)
        count_reports(CONFLICTING, conflicting - known.conflicting)
        pane = schedule.pane(epoch, now, known.result_at)
        return known.with_result(total, repeats, conflicting, now, pane)

    def _sum(self, digest: str, counts: Any) -> tuple[Support, int, int]:
        """The newest counts of every shard, added, repeats and conflicts; the bag is left with just those."""
        newest: dict[int, ShardCount] = {}
        for count in map(ShardCount.unpack, counts.read()):
            if count.shard not in newest or newest[count.shard].due < count.due:
                newest[count.shard] = count
        counts.clear()
        total, repeats, conflicting = Support.zero_of(self._counters[digest]), 0, 0
        for count in newest.values():
            counts.add(count.pack())
            total.merge(SupportCoder().decode(count.support))
            repeats += count.repeats
            conflicting += count.conflicting
        return total, repeats, conflicting


def _wake_up(schedule: Schedule, at: int, due: Any, watch: Any) -> None:
    """A moment after a due time, so that the counts of that time are there where timers are in step."""
    wake_up(schedule, at + _MOMENT, due, watch)
