"""When results are due: every due time by hand, and laws for any collection and interval."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.accounting import EARLY, LATE, ON_TIME
from ldpbeam.collection.epochs import Epochs
from ldpbeam.schedule import DEFAULT_LATE_EVERY, Schedule
from tests.pipelines.running import collection

SECOND = 1_000_000
MINUTE = 60 * SECOND
BEFORE = -(1 << 60)


def schedule(
    length: int = 3600, origin: int = 0, lateness: int = 1800, early: int = 0, late: int = DEFAULT_LATE_EVERY
) -> Schedule:
    agreed = collection("grr", epochs=Epochs(length, origin, 1000), allowed_lateness=lateness)
    return Schedule(agreed, early, late)


@pytest.mark.parametrize(
    ("early", "late", "after", "wanted"),
    [
        # Nothing early unless asked for.
        (0, 60, BEFORE, "60:00"),
        (0, 60, "00:00", "60:00"),
        (0, 60, "59:59", "60:00"),
        # Multiples of the interval, counted from the start; never the start itself.
        (600, 60, BEFORE, "10:00"),
        (600, 60, "-30:00", "10:00"),
        (600, 60, "00:00", "10:00"),
        (600, 60, "09:59", "10:00"),
        (600, 60, "10:00", "20:00"),
        (600, 60, "50:00", "60:00"),
        # One that does not divide the epoch, and one that is longer.
        (2520, 60, "00:00", "42:00"),
        (2520, 60, "42:00", "60:00"),
        (7200, 60, BEFORE, "60:00"),
        # After the end: multiples from there, the close at the latest.
        (600, 60, "60:00", "61:00"),
        (600, 60, "60:01", "61:00"),
        (600, 60, "61:00", "62:00"),
        (600, 60, "89:30", "90:00"),
        (600, 1080, "60:00", "78:00"),
        (600, 1080, "78:00", "90:00"),
        (600, 7200, "60:00", "90:00"),
        # After the close: books only, in the same step.
        (600, 60, "90:00", "91:00"),
        (600, 1080, "90:00", "96:00"),
        (600, 7200, "90:00", "180:00"),
    ],
)
def test_the_next_due_time(early: int, late: int, after: str | int, wanted: str) -> None:
    """An hour from 00:00, with half an hour of lateness; minutes and seconds."""
    asked = schedule(early=early, late=late)
    for epoch in (0, 3):
        shift = epoch * 3600 * SECOND
        known = after if isinstance(after, int) else clock(after) + shift
        assert asked.due(epoch, known) == clock(wanted) + shift


def clock(text: str) -> int:
    """Microseconds of minutes:seconds."""
    minutes, seconds = text.removeprefix("-").split(":")
    total = int(minutes) * MINUTE + int(seconds) * SECOND
    return -total if text.startswith("-") else total


@pytest.mark.parametrize(
    ("due", "told", "pane"),
    [
        (10, BEFORE, EARLY),
        (50, 10, EARLY),
        (60, BEFORE, ON_TIME),
        (60, 50, ON_TIME),
        (61, 60, LATE),
        (90, 61, LATE),
        # The watermark leapt over the end: the first result after it is the one of the end.
        (75, BEFORE, ON_TIME),
        (90, 50, ON_TIME),
        (95, 90, LATE),
    ],
)
def test_what_a_result_is_called(due: int, told: int, pane: str) -> None:
    assert schedule(early=600).pane(0, due * MINUTE, told * MINUTE if told >= 0 else told) == pane


SCHEDULES = st.builds(
    schedule,
    length=st.integers(1, 10**6),
    origin=st.integers(0, 2 * 10**9),
    lateness=st.integers(0, 10**6),
    early=st.integers(0, 10**6),
    late=st.integers(1, 10**6),
)


@given(SCHEDULES, st.integers(0, 999), st.integers(-(10**13), 10**13))
def test_due_times_are_later_monotone_and_pass_no_milestone(asked: Schedule, epoch: int, offset: int) -> None:
    end, close = asked.end(epoch), asked.close(epoch)
    start = end - asked.collection.epochs.length * SECOND
    after = start + offset
    due = asked.due(epoch, after)
    assert due > after
    assert due > start
    # Idempotent: nothing is due in between.
    assert asked.due(epoch, due - 1) == due
    assert asked.due(epoch, max(after, (after + due) // 2 if after >= start else after)) == due
    for milestone in (end, close):
        if after < milestone:
            assert due <= milestone


@given(SCHEDULES, st.integers(0, 999), st.integers(1, 10**7))
def test_a_shift_of_all_times_shifts_all_due_times(asked: Schedule, epoch: int, offset: int) -> None:
    length = asked.collection.epochs.length * SECOND
    start = asked.end(epoch) - length
    moved = asked.due(epoch, start + offset) - start
    assert asked.due(0, asked.end(0) - length + offset) - (asked.end(0) - length) == moved


@given(SCHEDULES, st.integers(0, 999))
def test_panes_come_in_order(asked: Schedule, epoch: int) -> None:
    told, panes = BEFORE, []
    for _ in range(40):
        due = asked.due(epoch, told)
        panes.append(asked.pane(epoch, due, told))
        told = due
    order = [(EARLY, ON_TIME, LATE).index(pane) for pane in panes]
    assert order == sorted(order)
    assert panes.count(ON_TIME) == (1 if told >= asked.end(epoch) else 0)
