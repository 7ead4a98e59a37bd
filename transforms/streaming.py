"""Stages 2 and 3 of 5 for unbounded input: one report per report id, and counts, while an epoch is open.

A shard of an epoch keeps its reports in state until the epoch closes, and counts them whenever a result is
due; only counts travel on. A second step adds the shards up and numbers the revisions.

Both live in the global window, where no runner drops anything: whether a report is late was decided when it
was admitted, from its arrival time, and what little the watermark closes too early is booked as late here.
The runner's watermark only decides when a result is told.
"""

from __future__ import annotations

import json
import secrets
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.coders import BytesCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from ldp.accounting import CONFLICTING, CountedEpoch, Entry, Line
from ldp.collection import digest_hex
from ldp.protocols.base import frozen_columns
from ldp.reports import ReportColumns
from ldp.schedule import Schedule
from ldp.support import Support
from transforms.coders import ReportColumnsCoder, SupportCoder
from transforms.epochs import EpochColumns, any_repeat, distinct_reports, keep_one_per_id, shard_columns
from transforms.support import CountSupport

__all__ = ["FORGET_AFTER", "CountEpochs", "CountShard", "Lift", "Shards", "SumShards"]

FORGET_AFTER = 31 * 86400 * 1_000_000
"""Microseconds after its close for which a shard remembers that an epoch is closed: brokers keep messages no
longer."""

_COMPACT_FROM = 1 << 16
_PIECE_BYTES = 4 << 20
_SUPPORT_WEIGHT = 1 << 10
_COUNT = struct.Struct("<BIqQ?")
_COUNT_VERSION = 1
_LATER = frozenset({"conflicting"})
_MOMENT = 1_000  # Beam's clocks tick in milliseconds

EpochKey = tuple[str, int]
"""(digest, epoch): one pair of steps serves all collections, so that a new one leaves a running job's state
as it is."""

ShardKey = tuple[str, int, int]
"""(digest, epoch, shard)."""

Schedules = Mapping[str, Schedule]
"""When results are due, by digest."""

ShardCount = tuple[int, int, bytes | None, int]
"""(shard, due time, encoded Support or None when nothing has changed, reports left out as repeats)."""

Update = tuple[EpochKey, ShardCount | tuple[str, int]]
"""What the second step takes: by epoch, counts of a shard or an entry for the books."""


class Shards(beam.DoFn):
    """Columns of an epoch to its shards, encoded once.

    Every shard hears of every batch, if only by an empty part: all of an epoch's shards then have results due
    at the same times, and the sum knows when it has them all.
    """

    def __init__(self, bits: int) -> None:
        """2**bits shards per epoch."""
        super().__init__()
        self._bits = bits
        self._coder = ReportColumnsCoder()

    def process(self, pair: EpochColumns) -> Iterator[tuple[ShardKey, bytes]]:
        """One part per shard."""
        epoch, columns = pair
        digest = digest_hex(columns.digest)
        parts = dict(shard_columns(columns, self._bits))
        for shard in range(1 << self._bits):
            part = parts.get(shard)
            yield (digest, epoch, shard), b"" if part is None else self._coder.encode(part)


class Lift(beam.DoFn):
    """Without de-duplication: counts instead of reports from here on, one per epoch and bundle.

    Runners that execute Python over their own protocol do not combine before a shuffle in streaming jobs, so
    it is done here.
    """

    def __init__(self, schedules: Schedules) -> None:
        """Count reports of these collections."""
        super().__init__()
        self._count = _counters(schedules)
        self._held: dict[EpochKey, tuple[Support, Timestamp]] = {}

    def start_bundle(self) -> None:
        """Begin with nothing."""
        self._held = {}

    def process(self, pair: EpochColumns, when: Any = beam.DoFn.TimestampParam) -> None:
        """Count in place."""
        epoch, columns = pair
        key = digest_hex(columns.digest), epoch
        count = self._count[key[0]]
        support, latest = self._held.get(key) or (count.create_accumulator(), when)
        self._held[key] = count.add_input(support, columns), max(latest, when)

    def finish_bundle(self) -> Iterator[Any]:
        """One support per epoch, at the latest arrival it holds."""
        from apache_beam.transforms.window import GlobalWindow
        from apache_beam.utils.windowed_value import WindowedValue

        for key, (support, when) in self._held.items():
            yield WindowedValue(((*key, 0), SupportCoder().encode(support)), when, [GlobalWindow()])
        self._held = {}


@dataclass(frozen=True)
class _Shard:
    """What a shard knows besides its reports.

    Attributes:
        fired: last due time that was served, or the smallest number there is.
        due: pending due time.
        changed: whether something was added since.
        stored: reports in the bag, or supports with a weight of many reports each.
        compacted: how many of them were left when the bag was last rewritten.
        repeats: reports left out by then.
        conflicting: reports that have been booked as conflicting.
    """

    fired: int = MIN_TIMESTAMP.micros
    due: int | None = None
    changed: bool = False
    stored: int = 0
    compacted: int = 0
    repeats: int = 0
    conflicting: int = 0


class CountShard(beam.DoFn):
    """One shard of an epoch: keeps the reports while they can still matter, tells their counts when due."""

    HELD = BagStateSpec("held", BytesCoder())
    MEMORY = ReadModifyWriteStateSpec("memory", BytesCoder())
    # Named apart from every other timer of the graph: FnApiRunner mixes timers of one name up.
    DUE = TimerSpec("shard_due", TimeDomain.WATERMARK)

    def __init__(self, schedules: Schedules, *, deduplicate: bool = True) -> None:
        """Serve the due times of ``schedules``; parts are columns, or supports where repeats count."""
        super().__init__()
        self._schedules = dict(schedules)
        self._deduplicate = deduplicate
        self._count = _counters(schedules)
        self._secret = 1

    def setup(self) -> None:
        """A secret key for hash tables, so that nobody can choose report ids that collide."""
        self._secret = secrets.randbits(64) | 1

    def process(
        self,
        element: tuple[ShardKey, bytes],
        when: Any = beam.DoFn.TimestampParam,
        held: Any = beam.DoFn.StateParam(HELD),
        memory: Any = beam.DoFn.StateParam(MEMORY),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> list[Update]:
        """Keep a part; nothing is read but the shard's own small memory."""
        (digest, epoch, _), part = element
        schedule = self._schedules.get(digest)
        if schedule is None:
            return []  # of a collection that an update of the job has removed
        known = _recall(memory, _Shard)
        coder = ReportColumnsCoder if self._deduplicate else SupportCoder
        reports = coder.reports(part) if part else 0
        if known.fired >= schedule.close(epoch):
            return [((digest, epoch), ("late", reports))] if reports else []
        if reports:
            held.add(part)
            stored = known.stored + (reports if self._deduplicate else _SUPPORT_WEIGHT)
            known = replace(known, stored=stored, changed=True)
            if known.stored >= max(_COMPACT_FROM, 2 * known.compacted):
                known = self._compact(digest, known, held)
        # Not before the report itself: a timer's result bears its time, and results never go back in time.
        wanted = schedule.due(epoch, max(known.fired, when.micros))
        if known.due is None or wanted < known.due:
            known = replace(known, due=wanted)
            due.set(Timestamp(micros=wanted))
        memory.write(_keep(known))
        return []

    @on_timer(DUE)
    def serve(
        self,
        key: ShardKey = beam.DoFn.KeyParam,
        held: Any = beam.DoFn.StateParam(HELD),
        memory: Any = beam.DoFn.StateParam(MEMORY),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> Iterator[Update]:
        """Tell the counts that are due, and think of the next time."""
        digest, epoch, shard = key
        known, schedule = _recall(memory, _Shard), self._schedules.get(digest)
        now = known.due
        if now is None or schedule is None or now > schedule.close(epoch):
            held.clear()
            memory.clear()
            return
        close = schedule.close(epoch)
        # At its end every epoch has a result, though an early one may have said it all.
        encoded = None
        if known.changed or now == schedule.end(epoch):
            known = self._compact(digest, known, held)
            support, conflicting = self._counted(digest, held)
            encoded = SupportCoder().encode(support)
            if news := conflicting - known.conflicting:
                known = replace(known, conflicting=conflicting)
                yield (digest, epoch), (CONFLICTING, news)
        if now == close:
            held.clear()
        following = next((t for t in (schedule.end(epoch), close) if now < t), close + FORGET_AFTER)
        memory.write(_keep(replace(known, fired=now, due=following, changed=False)))
        due.set(Timestamp(micros=following))
        yield (digest, epoch), (shard, now, encoded, known.repeats)

    def _compact(self, digest: str, known: _Shard, held: Any) -> _Shard:
        """Rewrite the bag without repeats. Different payloads of an id all stay, to be told from copies."""
        if known.stored == known.compacted:
            return known
        parts = list(held.read())
        pieces: list[bytes] = []
        left, repeats = known.stored, known.repeats
        if not self._deduplicate:
            total = self._count[digest].merge_accumulators(map(SupportCoder().decode, parts))
            pieces, left = [SupportCoder().encode(total)], _SUPPORT_WEIGHT
        elif parts:
            columns, dropped = distinct_reports(map(ReportColumnsCoder().decode, parts), self._secret)
            pieces, left, repeats = list(_in_pieces(columns)), len(columns), repeats + dropped
        held.clear()
        for piece in pieces:
            held.add(piece)
        return replace(known, stored=left, compacted=left, repeats=repeats)

    def _counted(self, digest: str, held: Any) -> tuple[Support, int]:
        """Counts of the bag, which has been rewritten, and how many of its reports conflict with another."""
        count = self._count[digest]
        total = count.create_accumulator()
        parts = list(held.read())
        if not self._deduplicate:
            for part in parts:
                total.merge(SupportCoder().decode(part))
            return total, 0
        columns = [ReportColumnsCoder().decode(part) for part in parts]
        if not columns or not any_repeat(columns, self._secret):
            for some in columns:
                count.add_input(total, _frozen(some))
            return total, 0
        found = keep_one_per_id(columns, self._secret)
        return count.add_input(total, _frozen(found.columns)), found.conflicting


def _in_pieces(columns: ReportColumns) -> Iterator[bytes]:
    """Encoded, a few megabytes each: runners limit the size of one element of state."""
    step = max(_PIECE_BYTES // (8 + columns.payloads.shape[1]), 1)
    for at in range(0, len(columns), step):
        ids, payloads = columns.report_ids[at : at + step], columns.payloads[at : at + step]
        yield ReportColumnsCoder().encode(ReportColumns(columns.digest, columns.epoch, ids, payloads))


def _frozen(columns: ReportColumns) -> ReportColumns:
    return replace(columns, payloads=frozen_columns(np.ascontiguousarray(columns.payloads)))


@dataclass(frozen=True)
class _Epoch:
    """What is known about an epoch besides the counts of its shards.

    Attributes:
        revision: number of the next result.
        told: due time of the last one.
        due: pending time of this step.
        times: last due time served by each shard.
        changed: whether a shard has new counts.
        booked: whether the books have changed.
        counted, repeats: of the last result.
        entries: everything else that is in the books.
    """

    revision: int = 0
    told: int = MIN_TIMESTAMP.micros
    due: int | None = None
    times: dict[int, int] = field(default_factory=dict)
    changed: bool = False
    booked: bool = False
    counted: int = 0
    repeats: int = 0
    entries: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """JSON knows neither numbers as keys nor counters."""
        object.__setattr__(self, "times", {int(shard): due for shard, due in self.times.items()})
        object.__setattr__(self, "entries", Counter(self.entries))


class SumShards(beam.DoFn):
    """All shards of an epoch together: results with revisions, and the books.

    A result is told when every shard has served a due time; a shard that is ahead by one takes part with what
    it has, since counts only ever grow more complete.
    """

    SHARDS = BagStateSpec("shards", BytesCoder())
    MEMORY = ReadModifyWriteStateSpec("memory", BytesCoder())
    DUE = TimerSpec("epoch_due", TimeDomain.WATERMARK)

    def __init__(self, schedules: Schedules, shards: int) -> None:
        """Wait for this many shards per epoch."""
        super().__init__()
        self._schedules = dict(schedules)
        self._shards = shards
        self._count = _counters(schedules)

    def process(
        self,
        element: Update,
        when: Any = beam.DoFn.TimestampParam,
        shards: Any = beam.DoFn.StateParam(SHARDS),
        memory: Any = beam.DoFn.StateParam(MEMORY),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> None:
        """Take note, and wake up once everything that goes with it must have come."""
        (digest, epoch), item = element
        schedule = self._schedules.get(digest)
        if schedule is None:
            return
        known = _recall(memory, _Epoch)
        if len(item) == 2:
            what, count = item
            known = replace(known, entries=known.entries + Counter({what: count}), booked=True)
            wanted = schedule.due(epoch, max(known.told, when.micros)) + _MOMENT
        else:
            shard, now, encoded, _ = item
            if now <= known.times.get(shard, MIN_TIMESTAMP.micros):
                return
            shards.add(_pack(item))
            times = {**known.times, shard: now}
            known = replace(known, times=times, changed=known.changed or encoded is not None)
            wanted = now + _MOMENT
        if known.due is None or wanted < known.due:
            known = replace(known, due=wanted)
            due.set(Timestamp(micros=max(wanted, when.micros)))
        memory.write(_keep(known))

    @on_timer(DUE)
    def tell(
        self,
        key: EpochKey = beam.DoFn.KeyParam,
        shards: Any = beam.DoFn.StateParam(SHARDS),
        memory: Any = beam.DoFn.StateParam(MEMORY),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> Iterator[beam.pvalue.TaggedOutput]:
        """A result if one is complete, else the books if they have changed."""
        digest, epoch = key
        known, schedule = _recall(memory, _Epoch), self._schedules.get(digest)
        if schedule is None:
            return
        close = schedule.close(epoch)
        # An epoch of which nothing was admitted has no shards, and only this timer to close it.
        booked = known.entries.total() - known.entries["repeated"]
        refused = 2 * known.entries["read"] == booked
        now, alone = (known.due or MIN_TIMESTAMP.micros) - _MOMENT, refused and not known.times
        known = replace(known, due=close + _MOMENT if alone and now < close else None)
        served = min(known.times.values()) if len(known.times) == self._shards else known.told
        closed = (now if alone else served) >= close
        pane = schedule.pane(epoch, served, known.told)
        support = None
        if served > known.told:
            if known.changed:
                support, repeats = self._sum(digest, shards)
                known = replace(
                    known,
                    revision=known.revision + 1,
                    counted=support.reports,
                    repeats=repeats,
                    changed=False,
                )
            known = replace(known, told=served, booked=True)
            if closed:
                shards.clear()
        if known.booked:
            line = Line(counted=known.counted, duplicate=known.repeats)
            for what, count in known.entries.items():
                line.add(what, count)
            counted = CountedEpoch(epoch, support, line, max(known.revision - 1, 0), pane, closed)
            yield beam.pvalue.TaggedOutput(digest, counted)
        if known.due is not None:
            due.set(Timestamp(micros=known.due))
        memory.write(_keep(replace(known, booked=known.due is not None)))

    def _sum(self, digest: str, shards: Any) -> tuple[Support, int]:
        """The newest counts of every shard, added; the bag is left with just those."""
        newest: dict[int, ShardCount] = {}
        for item in sorted(map(_unpack, shards.read()), key=lambda i: i[1]):
            shard, now, encoded, repeats = item
            if encoded is None and shard in newest:
                encoded = newest[shard][2]
            newest[shard] = (shard, now, encoded, repeats)
        shards.clear()
        for item in newest.values():
            shards.add(_pack(item))
        total = self._count[digest].create_accumulator()
        for _, _, encoded, _ in newest.values():
            if encoded is not None:
                total.merge(SupportCoder().decode(encoded))
        return total, sum(item[3] for item in newest.values())


def _recall(memory: Any, kind: type[Any]) -> Any:
    """A step's small memory; fresh for a key that was never seen."""
    kept = memory.read()
    if kept is None:
        return kind()
    found = json.loads(kept)
    return kind(**{f.name: found[f.name] for f in fields(kind) if f.name in found})


def _keep(known: Any) -> bytes:
    """What :func:`_recall` reads: by name, since state outlives the code that wrote it and fields come.

    A field that came later is left out at its default, as the code before it has written the rest.
    """
    return json.dumps(
        {name: value for name, value in vars(known).items() if value or name not in _LATER}
    ).encode()


def _pack(item: ShardCount) -> bytes:
    """A shard's counts as they are kept, after a byte that says how."""
    shard, now, encoded, repeats = item
    return _COUNT.pack(_COUNT_VERSION, shard, now, repeats, encoded is not None) + (encoded or b"")


def _unpack(kept: bytes) -> ShardCount:
    version, shard, now, repeats, counted = _COUNT.unpack_from(kept)
    if version != _COUNT_VERSION:
        raise ValueError(f"counts of a shard in state have format {version}, not {_COUNT_VERSION}")
    return shard, now, kept[_COUNT.size :] if counted else None, repeats


def _counters(schedules: Schedules) -> dict[str, CountSupport]:
    return {digest: CountSupport(schedule.collection) for digest, schedule in schedules.items()}


class CountEpochs(beam.PTransform):
    """Columns and entries of all collections to results, revision by revision.

    Takes ``{"columns": (epoch, ReportColumns), "entries": Entry}``, gives :class:`CountedEpoch` under the
    digest of each collection.
    """

    def __init__(
        self, schedules: Schedules, *, shard_bits: int, deduplicate: bool, label: str | None = None
    ) -> None:
        """2**shard_bits shards per epoch; one without de-duplication, where nothing but counts is kept."""
        super().__init__(label)
        self._schedules = dict(schedules)
        self._bits = shard_bits if deduplicate else 0
        self._deduplicate = deduplicate

    def expand(self, inputs: dict[str, beam.PCollection]) -> beam.pvalue.DoOutputsTuple:
        """Two steps with state, each behind a shuffle."""
        kind = f"Of{1 << self._bits}" if self._deduplicate else "OfCounts"
        if self._deduplicate:
            parts = inputs["columns"] | "ShardById" >> beam.ParDo(Shards(self._bits))
        else:
            parts = inputs["columns"] | "Lift" >> beam.ParDo(Lift(self._schedules))
        counted = (
            parts
            | "ByShard" >> beam.Map(_same).with_output_types(tuple[ShardKey, bytes])
            # Another number of shards, or another kind of parts, must not find the state of this one.
            | f"CountShard{kind}" >> beam.ParDo(CountShard(self._schedules, deduplicate=self._deduplicate))
            | "ByEpoch" >> beam.Map(_same).with_output_types(tuple[EpochKey, Any])
        )
        booked = inputs["entries"] | "Entries" >> beam.FlatMap(_of_an_epoch).with_output_types(
            tuple[EpochKey, Any]
        )
        total = SumShards(self._schedules, 1 << self._bits)
        return (
            (counted, booked)
            | "Updates" >> beam.Flatten()
            | f"SumShards{kind}" >> beam.ParDo(total).with_outputs(*self._schedules)
        )


def _same(element: Any) -> Any:
    """Nothing changes but the declared type, which chooses how keys are encoded."""
    return element


def _of_an_epoch(entry: Entry) -> Iterator[tuple[EpochKey, tuple[str, int]]]:
    ((digest, epoch), what), count = entry
    if epoch is not None:
        yield (digest, epoch), (what, count)
