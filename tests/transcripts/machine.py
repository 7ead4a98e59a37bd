"""The steps with state, driven directly: state, timers and the watermark are plain Python objects.

No runner decides the order of anything here; a test does, and runners may do whatever a test can do. What is
in state between two calls is bytes, as in a real job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.accounting import CountedEpoch
from ldpbeam.admission import Admission, Parts, ReportColumns
from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.schedule import Schedule
from ldpbeam.support import Support, Uncounted
from ldpbeam.transforms.stateful.count_shard import CountShard
from ldpbeam.transforms.stateful.parts import CountBeforeShuffle, SplitByShard
from ldpbeam.transforms.stateful.sum_shards import SumShards
from ldpbeam.wire.codec import Batch
from tests.reference.batches import admit_batch
from tests.reference.stream import Arrived, Model, batch_message

FOREVER = 1 << 62

Sent = tuple[int, ReportColumns, int]
"""Digest, batch, arrival in microseconds."""


@dataclass
class FakeBag:
    items: list[bytes] = field(default_factory=list)
    largest: int = 0
    reads: int = 0
    in_order: bool = False

    def add(self, item: bytes) -> None:
        """Bytes only: anything else would be a coder's affair."""
        assert type(item) is bytes
        self.items.append(item)
        self.largest = max(self.largest, sum(map(len, self.items)))

    def read(self) -> list[bytes]:
        """In any order."""
        self.reads += 1
        return self.items[:] if self.in_order else self.items[::-1]

    def clear(self) -> None:
        """Nothing is left."""
        self.items = []


@dataclass
class FakeCell:
    """A value."""

    value: bytes | None = None

    def read(self) -> bytes | None:
        """What was written, or None."""
        return self.value

    def write(self, value: bytes) -> None:
        """Bytes only."""
        assert type(value) is bytes
        self.value = value

    def clear(self) -> None:
        """As if it had never been written."""
        self.value = None


@dataclass
class FakeTimer:
    """An event-time timer: one time, or none; ``lost`` when a runner has dropped it since it was set."""

    at: int | None = None
    lost: bool = False

    def set(self, when: Timestamp) -> None:
        """Replaces what was set."""
        self.at, self.lost = when.micros, False

    def lose(self) -> None:
        """As a restore might."""
        self.at, self.lost = None, True


@dataclass
class Cells:
    """All state of one key."""

    bag: FakeBag = field(default_factory=FakeBag)
    state: FakeCell = field(default_factory=FakeCell)
    last: FakeCell = field(default_factory=FakeCell)
    due: FakeTimer = field(default_factory=FakeTimer)
    watch: FakeTimer = field(default_factory=FakeTimer)

    @property
    def timers(self) -> dict[str, FakeTimer]:
        """By name."""
        return {"on_due": self.due, "on_watch": self.watch}


def call(step: Any, method: str, cells: Cells, *args: Any) -> list[Any]:
    """A method of a step with a key's state in the place of Beam's parameters, or what a timer calls."""
    bag = "reports" if isinstance(step, CountShard) else "counts"
    names = {bag: cells.bag, "state": cells.state, "last": cells.last, "due": cells.due, "watch": cells.watch}
    timer = {"on_due": step.DUE, "on_watch": step.WATCH}.get(method)
    bound = getattr(step, timer._attached_callback.__name__ if timer else method)
    taken = bound.__code__.co_varnames[: bound.__code__.co_argcount]
    return list(bound(*args, **{n: v for n, v in names.items() if n in taken}) or ())


def admission_of(collections: Mapping[int, Collection], sent: Sent) -> Admission:
    """What becomes of a ReportBatch message."""
    digest, batch, arrival = sent
    payloads = np.ascontiguousarray(batch.payloads).reshape(-1)
    message = Batch(digest, batch.epoch, len(batch.report_ids), batch.report_ids, payloads, 0, arrival)
    done = Admission()
    admit_batch(message, collections, "here", done)
    return done


def entries_and_parts(
    collections: Mapping[int, Collection], split: SplitByShard, sent: Sent
) -> tuple[list[Any], list[Any]]:
    """What a message sends to the sum, and what to the shards."""
    done = admission_of(collections, sent)
    entries = [
        ((name, epoch), (what, count)) for ((name, epoch), what), count in done.entries() if epoch is not None
    ]
    keyed = [((digest_hex(c.digest), c.epoch), Parts([c])) for c in done.admitted]
    return entries, [part for pair in keyed for part in split.process(pair)]


class Machine:
    """Admission, both steps, and what they told."""

    def __init__(
        self,
        collections: Sequence[Collection],
        *,
        bits: int = 0,
        early: int = 0,
        late: int = 60,
        deduplicate: bool = True,
        count_shard: type[CountShard] = CountShard,
    ) -> None:
        self.collections = {c.digest: c for c in collections}
        schedules = {c.digest_hex: Schedule(c, early, late) for c in collections}
        self.deduplicate = deduplicate
        self.bits = bits if deduplicate else 0
        self.split = SplitByShard(self.bits)
        self.lift = CountBeforeShuffle(schedules)
        self.count = count_shard(schedules, deduplicate=deduplicate)
        self.count.setup()
        self.sum = SumShards(schedules, 1 << self.bits)
        self.shards: dict[tuple[str, int, int], Cells] = {}
        self.epochs: dict[tuple[str, int], Cells] = {}
        self.told: list[tuple[str, CountedEpoch]] = []
        self.watermark = -FOREVER

    def arrive(self, digest: int, batch: ReportColumns, arrival: int) -> None:
        """A ReportBatch message that arrived at so many microseconds, processed now."""
        done = admission_of(self.collections, (digest, batch, arrival))
        when = Timestamp(micros=arrival)
        for ((name, epoch), what), count in done.entries():
            if epoch is not None:
                self.note(((name, epoch), (what, count)), when)
        if not self.deduplicate:
            self.lift.start_bundle()
        for columns in done.admitted:
            if self.deduplicate:
                for part in self.split.process(
                    ((digest_hex(columns.digest), columns.epoch), Parts([columns]))
                ):
                    self.part(part, when)
            else:
                self.lift.process(((digest_hex(columns.digest), columns.epoch), Parts([columns])), when)
        if not self.deduplicate:
            for lifted in self.lift.finish_bundle():
                self.part(lifted.value, lifted.timestamp)

    def part(self, part: tuple[tuple[str, int, int], bytes], when: Timestamp) -> None:
        """A part of a shard."""
        cells = self.shards.setdefault(part[0], Cells())
        for update in call(self.count, "process", cells, part, when):
            self.note(update, when)

    def note(self, update: Any, when: Timestamp) -> None:
        """What the second step takes."""
        call(self.sum, "process", self.epochs.setdefault(update[0], Cells()), update, when)

    def advance(self, watermark: int = FOREVER) -> None:
        """Move the watermark, and fire what is due by then."""
        self.watermark = max(self.watermark, watermark)
        tables: tuple[dict[Any, Cells], ...] = (self.shards, self.epochs)
        while found := [
            (timer.at, rank, key, method)
            for rank, table in enumerate(tables)
            for key, cells in table.items()
            for method, timer in cells.timers.items()
            if timer.at is not None and timer.at <= self.watermark
        ]:
            # With holds, the first step serves all that is due before the second one hears of the time.
            self._fire(*min(found, key=lambda f: (f[1], f[0])))

    def _fire(self, at: int, rank: int, key: Any, method: str) -> None:
        cells = (self.shards, self.epochs)[rank][key]
        cells.timers[method].at = None
        fired = Timestamp(micros=at)
        if rank:
            self.told += call(self.sum, method, cells, key, fired)
        else:
            for update in call(self.count, method, cells, key, fired):
                self.note(update, fired)

    def final(self) -> dict[tuple[str, int], tuple[Support | Uncounted, dict[str, object]]]:
        """Last support and last books by digest and epoch."""
        supports = {(d, r.epoch): r.support for d, r in self.told if r.support is not None}
        lines = {(d, r.epoch): r.account.as_record() for d, r in self.told}
        return {key: (support, lines[key]) for key, support in supports.items()}

    def stored(self) -> int:
        """Bytes in all bags, and of counts that are kept to be given again."""
        cells = [c for table in (self.shards, self.epochs) for c in table.values()]
        return sum(len(item) for c in cells for item in (*c.bag.items, c.last.value or b""))


def expected_of(
    collections: Iterable[Collection], sent: Iterable[Sent], deduplicate: bool = True
) -> dict[tuple[str, int], tuple[int, list[int], dict[str, Any]]]:
    """(counted, support, accounting) of every epoch, by :mod:`tests.reference.stream`."""
    model = Model(deduplicate)
    messages = [
        Arrived(batch_message(digest, one.epoch, one.report_ids.tolist(), one.payloads.tobytes()), arrival)
        for digest, one, arrival in sent
    ]
    model.land(messages, list(collections))
    return {
        (digest, epoch): (line["counted"], model.support((digest, epoch)), model.line((digest, epoch)))
        for (digest, epoch), line in model.lines.items()
        if epoch is not None
    }
