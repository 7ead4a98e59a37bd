"""The steps with state on several subtasks of a cluster, each with a watermark of its own.

Nothing is in step here: each shard lives on one subtask, the sum on another; elements travel over channels,
in order on each and in no order between them; timers fire when the watermark of *their* subtask has passed
them, in any order, twice, or not at all; and a job goes back to an older snapshot while what it has published
stays published. All of it is drawn from one seeded generator, so a schedule that fails can be played again.
"""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.accounting import CountedEpoch
from ldpbeam.admission import ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.schedule import Schedule
from ldpbeam.support import Support
from ldpbeam.transforms.stateful.count_shard import CountShard
from ldpbeam.transforms.stateful.parts import SplitByShard
from ldpbeam.transforms.stateful.sum_shards import SumShards
from tests.narrow import of_kind
from tests.transcripts.machine import Cells, Sent, call, entries_and_parts

SECOND = 1_000_000
LONG_AGO = -(1 << 62)


@dataclass
class Subtask:
    step: Any
    cells: dict[Any, Cells] = field(default_factory=dict)
    channels: list[deque[tuple[Any, int]]] = field(default_factory=list)
    watermark: int = LONG_AGO

    def __deepcopy__(self, memo: Any) -> Subtask:
        cells, channels = copy.deepcopy(self.cells, memo), copy.deepcopy(self.channels, memo)
        return Subtask(self.step, cells, channels, self.watermark)

    def ready(self) -> list[tuple[Any, str, int]]:
        return [
            (key, method, timer.at)
            for key, cells in self.cells.items()
            for method, timer in cells.timers.items()
            if timer.at is not None and timer.at <= self.watermark
        ]


@dataclass
class Position:
    shards: list[Subtask]
    total: Subtask
    read: int = 0


class Cluster:
    def __init__(self, agreed: Collection, sent: list[Sent], *, bits: int, early: int, late: int) -> None:
        self.collection = agreed
        self.sent = sent
        self.schedule = Schedule(agreed, early, late)
        schedules = {agreed.digest_hex: self.schedule}
        self.split = SplitByShard(bits)
        steps = [CountShard(schedules) for _ in range(2)]
        for step in steps:
            step.setup()
        shards = [Subtask(step, channels=[deque()]) for step in steps]
        total = Subtask(SumShards(schedules, 1 << bits), channels=[deque() for _ in range(3)])
        self.now = Position(shards, total)
        self.results: list[CountedEpoch] = []
        self.sinks: list[Callable[[CountedEpoch], None]] = [self.results.append]

    # --- what can happen

    def read(self) -> None:
        digest, batch, arrival = self.sent[self.now.read]
        self.now.read += 1
        entries, parts = entries_and_parts({digest: self.collection}, self.split, (digest, batch, arrival))
        self.now.total.channels[2].extend((entry, arrival) for entry in entries)
        for part in parts:
            self.now.shards[part[0][2] % 2].channels[0].append((part, arrival))

    def deliver(self, subtask: Subtask, channel: int) -> None:
        element, when = subtask.channels[channel].popleft()
        cells = subtask.cells.setdefault(element[0], Cells())
        self._send(subtask, call(subtask.step, "process", cells, element, Timestamp(micros=when)), when)

    def fire(self, subtask: Subtask, key: Any, method: str, at: int) -> None:
        cells = subtask.cells[key]
        if cells.timers[method].at == at:
            cells.timers[method].at = None
        self._send(subtask, call(subtask.step, method, cells, key, Timestamp(micros=at)), at)

    def _send(self, subtask: Subtask, outputs: list[Any], when: int) -> None:
        if subtask is self.now.total:
            for output in outputs:
                for sink in self.sinks:
                    sink(output[1])
        else:
            place = next(i for i, one in enumerate(self.now.shards) if one is subtask)
            self.now.total.channels[place].extend((update, when) for update in outputs)

    def snapshot(self) -> Position:
        return copy.deepcopy(self.now)

    def restore(self, snapshot: Position) -> None:
        self.now = copy.deepcopy(snapshot)

    # --- several at once

    @property
    def subtasks(self) -> list[Subtask]:
        return [*self.now.shards, self.now.total]

    def possible(self) -> list[Callable[[], None]]:
        found: list[Callable[[], None]] = []
        for one in self.subtasks:
            for channel, items in enumerate(one.channels):
                if items:
                    found.append(partial(self.deliver, one, channel))
            for timer in one.ready():
                found.append(partial(self.fire, one, *timer))
        return found

    def settle(self, draw: random.Random) -> None:
        while found := self.possible():
            draw.choice(found)()

    def advance(self, draw: random.Random, to: int, step: int) -> None:
        while any(one.watermark < to for one in self.subtasks):
            one = draw.choice([one for one in self.subtasks if one.watermark < to])
            one.watermark = min(max(one.watermark, to - 40 * step) + draw.randrange(1, 2 * step), to)
            if draw.random() < 0.7:
                self.settle(draw)
        self.settle(draw)

    def lose(self, draw: random.Random, both: bool = False) -> None:
        for one in self.subtasks:
            for cells in one.cells.values():
                timers = list(cells.timers.values())
                if both:
                    for timer in timers:
                        timer.lose()
                elif not any(timer.lost for timer in timers) and draw.random() < 0.5:
                    draw.choice(timers).lose()

    @property
    def last(self) -> CountedEpoch:
        return self.results[-1]

    def last_support(self) -> list[int]:
        support = next(r.support for r in reversed(self.results) if r.support is not None)
        return self.collection.protocol.counter.support_counts(of_kind(Support, support).counts).tolist()


def some_messages(agreed: Collection, draw: random.Random, pool: ReportColumns, until: int) -> list[Sent]:
    sent = []
    for _ in range(draw.randrange(1, 7)):
        rows = np.array([draw.randrange(len(pool.report_ids)) for _ in range(draw.randrange(1, 9))])
        batch = ReportColumns(pool.digest, 0, pool.report_ids[rows], pool.payloads[rows])
        sent.append((agreed.digest, batch, draw.randrange(until)))
    return sent
