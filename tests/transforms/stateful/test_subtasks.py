"""Shards that are out of step: every report is published in time, and the last result is exact."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pytest

from ldpbeam.accounting import CountedEpoch
from ldpbeam.admission import ReportColumns
from ldpbeam.collection.epochs import Epochs
from ldpbeam.histogram import estimate_counted
from ldpbeam.support import Support
from ldpbeam.transforms.sinks.accounting import Numbered, content_digest, number_after
from tests.narrow import of_kind
from tests.pipelines.running import collection, fleet
from tests.transcripts.machine import Sent, expected_of
from tests.transforms.stateful.subtasks import SECOND, Cluster, some_messages

LATE = 5
AGREED = collection("grr", 4, "steps", epochs=Epochs(60, 0, 100), allowed_lateness=600)
END, CLOSE = 60 * SECOND, 660 * SECOND
INTERVAL = LATE * SECOND
"""How long it takes at most, in event time of its own watermark, until a shard gives the count of what it has
got, and again until the sum publishes what it has got; twice that where a timer was lost, for the one that
stands in for it is an interval behind."""
MOMENT = 1_000


@cache
def pool() -> ReportColumns:
    (batch,) = fleet(AGREED, 30, 1)
    ids = np.concatenate([batch.report_ids, batch.report_ids[:10]])
    return ReportColumns(batch.digest, 0, ids, np.concatenate([batch.payloads, batch.payloads[10:20]]))


def reference(sent: list[Sent]) -> tuple[int, list[int], dict[str, object]]:
    return expected_of([AGREED], sent)[AGREED.digest_hex, 0]


def is_exact(job: Cluster, sent: list[Sent]) -> None:
    counted, support, books = reference(sent)
    assert (job.last.account.counted, job.last.account.pending) == (counted, 0)
    assert job.last.account.as_record() == books
    assert job.last_support() == support


class Published:
    def __init__(self) -> None:
        self.newest: Numbered | None = None
        self.contents: dict[int, str] = {}
        self.last: list[int] = []

    def take(self, counted: CountedEpoch) -> None:
        if counted.support is None:
            return
        content = content_digest(AGREED, estimate_counted(AGREED, counted))
        number = number_after(self.newest, content, "job")
        assert self.newest is None or number.revision >= self.newest.revision
        assert self.contents.setdefault(number.revision, content) == content
        self.newest = number
        self.last = AGREED.protocol.counter.support_counts(of_kind(Support, counted.support).counts).tolist()


def publishes_in_time(job: Cluster, draw: random.Random, interval: int = INTERVAL) -> None:
    job.settle(draw)
    reached = max([END, *(one.watermark for one in job.subtasks), *(arrival for _, _, arrival in job.sent)])
    job.advance(draw, reached + interval, INTERVAL)
    job.advance(draw, reached + 2 * interval + 2 * MOMENT, INTERVAL)
    is_exact(job, job.sent)


# --- any schedule


def any_schedule(seed: int, *, restores: bool = True, **changes: Any) -> Cluster:
    draw = random.Random(seed)
    sent = some_messages(AGREED, draw, pool(), until=CLOSE // 3)
    job = Cluster(
        AGREED, sent, bits=draw.choice([0, 1, 1, 2]), early=draw.choice([0, 20]), late=LATE, **changes
    )
    published = Published()
    job.sinks.append(published.take)
    lossy = draw.random() < 0.5
    snapshots = [job.snapshot()]
    left = 4 if restores else 0
    while job.now.read < len(sent) or draw.random() < 0.5:
        what = draw.random()
        if what < 0.15 and job.now.read < len(sent):
            job.read()
        elif what < 0.35:
            one = draw.choice(job.subtasks)
            one.watermark = max(one.watermark, draw.randrange(CLOSE // 2))
        elif what < 0.4:
            snapshots.append(job.snapshot())
        elif what < 0.43 and left:
            left -= 1
            job.restore(draw.choice(snapshots))
            if lossy:
                job.lose(draw)
        elif what < 0.45 and lossy:
            job.lose(draw)
        elif what < 0.5 and (timers := [(one, t) for one in job.subtasks for t in one.ready()]):
            one, timer = draw.choice(timers)
            job.fire(one, *timer)
            job.fire(one, *timer)
        elif found := job.possible():
            draw.choice(found)()
    if lossy and draw.random() < 0.5:
        job.lose(draw)
    publishes_in_time(job, draw, 2 * INTERVAL if lossy else INTERVAL)
    if lossy:
        job.lose(draw)
    job.advance(draw, CLOSE + 4 * INTERVAL, 60 * SECOND)
    is_exact(job, sent)
    assert job.last.closed
    assert published.last == reference(sent)[1]
    assert sum(len(c.bag.items) for one in job.subtasks for c in one.cells.values()) == 0
    return job


AT_ONCE = 50
FEW = 300


def play(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        try:
            any_schedule(seed)
        except AssertionError as error:
            raise AssertionError(f"schedule {seed}") from error


@pytest.mark.cases(1)
@pytest.mark.parametrize("first", range(0, FEW, AT_ONCE))
def test_any_schedule_publishes_in_time_and_ends_exact(first: int) -> None:
    play(first)


@pytest.mark.parametrize("seed", range(4))
def test_both_timers_lost_heal_with_the_next_message(seed: int) -> None:
    draw = random.Random(seed)
    sent = some_messages(AGREED, draw, pool(), until=CLOSE // 3)
    job = Cluster(AGREED, sent, bits=2, early=0, late=LATE)
    while job.now.read < len(sent) - 1:
        job.read()
        if draw.random() < 0.5:
            job.settle(draw)
    job.settle(draw)
    job.lose(draw, both=True)
    job.advance(draw, END + 100 * SECOND, INTERVAL)
    before = len(job.results)
    job.read()
    publishes_in_time(job, draw)
    assert len(job.results) > before


@pytest.mark.parametrize("seed", range(4))
def test_without_a_restore_numbers_are_those_of_the_state(seed: int) -> None:
    job = any_schedule(seed, restores=False)
    numbers = [result.revision for result in job.results if result.support is not None]
    assert numbers == list(range(len(numbers)))
