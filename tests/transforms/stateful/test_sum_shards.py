"""What the second step with state knows of an epoch: each of its small steps by itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from ldpbeam.accounting import CONFLICTING, EARLY, LATE, ON_TIME
from ldpbeam.schedule import Schedule
from ldpbeam.support import Support
from ldpbeam.transforms.stateful.state import NEVER, ShardCount
from ldpbeam.transforms.stateful.sum_shards import SummedEpoch
from tests.pipelines.running import collection

MINUTE = 60_000_000
HOUR = 60 * MINUTE
CLOSE = 3 * HOUR
SCHEDULE = Schedule(collection("grr", 3, allowed_lateness=7200), 600, 60)
"""Of epoch 0: it ends after an hour, closes two hours later, has early results every ten minutes."""


def test_entries_and_counts_that_come_wait_for_publication() -> None:
    bare = SummedEpoch()
    known = bare.with_entry("read", 5).with_entry("late", 2).with_entry("read", 1)
    assert known.entries == Counter(read=6, late=2)
    assert known.unpublished
    assert bare == SummedEpoch()
    counted = bare.with_count(ShardCount(3, 7, 0, 0, b"")).with_count(ShardCount(1, 9, 0, 0, b""))
    assert counted.counts == {3: 7, 1: 9}
    assert counted.unpublished


def test_admitted_is_what_nothing_else_has_become_of() -> None:
    entries = Counter(
        {"read": 20, "late": 3, "rejected.malformed": 4, "rejected.bad_payload": 1, "repeated": 2}
    )
    assert SummedEpoch(entries=entries).admitted == 12


@pytest.mark.parametrize(("counts", "served"), [({}, NEVER), ({0: 5}, NEVER), ({0: 5, 1: 4}, 4)])
def test_a_time_is_served_once_all_shards_have_counted_for_it(counts: dict[int, int], served: int) -> None:
    assert SummedEpoch(counts=counts).served(2) == served


@pytest.mark.parametrize(
    ("known", "now", "complete"),
    [
        (SummedEpoch(), CLOSE - 1, False),
        (SummedEpoch(), CLOSE, True),
        (SummedEpoch(closed=True), 0, True),
        (SummedEpoch(entries=Counter(read=4, late=4)), CLOSE, True),
        # An admitted report is in some shard, whose count is still to come.
        (SummedEpoch(entries=Counter(read=5, late=4)), CLOSE, False),
        (SummedEpoch(entries=Counter(read=5, late=4), closed=True), CLOSE, False),
        (SummedEpoch(counts={0: CLOSE, 1: CLOSE}), 0, True),
        (SummedEpoch(counts={0: CLOSE, 1: CLOSE - 1}), 2 * CLOSE, False),
        (SummedEpoch(counts={0: CLOSE}), 2 * CLOSE, False),
    ],
)
def test_an_epoch_is_complete_when_nothing_more_is_ever_counted(
    known: SummedEpoch, now: int, complete: bool
) -> None:
    assert known.is_complete(2, CLOSE, now) is complete


def test_nothing_is_published_for_a_time_before_the_last_result_or_the_close() -> None:
    assert SummedEpoch().reached(CLOSE) == NEVER
    assert SummedEpoch(result_at=5).reached(CLOSE) == 5
    assert SummedEpoch(result_at=5, closed=True).reached(CLOSE) == CLOSE
    assert SummedEpoch(result_at=CLOSE + 5, closed=True).reached(CLOSE) == CLOSE + 5


def test_a_count_is_published_for_its_time_or_at_the_next_one() -> None:
    fresh, known = SummedEpoch(), SummedEpoch(result_at=20 * MINUTE)
    assert fresh.count_due(SCHEDULE, 0, 10 * MINUTE) == 10 * MINUTE
    assert known.count_due(SCHEDULE, 0, 30 * MINUTE) == 30 * MINUTE
    for passed in (10, 20):
        assert known.count_due(SCHEDULE, 0, passed * MINUTE) == 30 * MINUTE
    closed = SummedEpoch(result_at=HOUR, closed=True)
    assert closed.count_due(SCHEDULE, 0, CLOSE) == CLOSE + MINUTE


def test_an_entry_is_published_at_the_next_due_time() -> None:
    known = SummedEpoch(result_at=20 * MINUTE)
    assert known.entry_due(SCHEDULE, 0, 5 * MINUTE) == 30 * MINUTE
    assert known.entry_due(SCHEDULE, 0, 31 * MINUTE) == 40 * MINUTE
    assert replace(known, closed=True).entry_due(SCHEDULE, 0, 31 * MINUTE) == CLOSE + MINUTE


def test_a_result_that_says_something_new_is_the_next_revision() -> None:
    total = Support(np.array([4, 5, 6]), 15)
    first, given = SummedEpoch().with_result(total, 2, 1, 10 * MINUTE, EARLY)
    assert given is total
    assert (first.revision, first.result_at, first.pane) == (1, 10 * MINUTE, EARLY)
    assert (first.counted, first.repeats, first.conflicting) == (15, 2, 1)
    again, given = first.with_result(total, 2, 1, 20 * MINUTE, EARLY)
    assert (again, given) == (first, None)
    for changed in ((3, 1), (2, 2)):
        second, given = first.with_result(total, *changed, 20 * MINUTE, EARLY)
        assert (second.revision, given) == (2, total)
    other = Support(np.array([4, 5, 7]), 15)
    assert first.with_result(other, 2, 1, 20 * MINUTE, EARLY)[0].revision == 2


def test_at_its_end_an_epoch_has_a_result_even_if_it_says_nothing_new() -> None:
    total = Support(np.array([4, 5, 6]), 15)
    early, _ = SummedEpoch().with_result(total, 0, 0, 10 * MINUTE, EARLY)
    on_time, given = early.with_result(total, 0, 0, HOUR, ON_TIME)
    assert (on_time.revision, on_time.pane, given) == (2, ON_TIME, total)
    assert on_time.with_result(total, 0, 0, 2 * HOUR, LATE) == (on_time, None)


def test_the_account_has_what_was_counted_and_what_was_entered() -> None:
    entries = Counter({"read": 20, "late": 3, "rejected.malformed": 4})
    known = SummedEpoch(entries=entries, counted=10, repeats=2, conflicting=1)
    account = known.account()
    assert (account.read, account.counted, account.late, account.duplicate) == (20, 10, 3, 2)
    assert account.rejected == Counter({"malformed": 4, CONFLICTING.removeprefix("rejected."): 1})
    assert account.pending == 0
