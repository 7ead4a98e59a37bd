"""When a result is due and which one it is, step by step, without an engine."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ldpbeam.accounting import EARLY, LATE, ON_TIME, REPLAY, Account, Publication
from ldpbeam.collection.epochs import Epochs
from ldpbeam.engine.publication import EpochMoment
from ldpbeam.engine.storage.epoch_state import EpochState
from ldpbeam.engine.storage.landing import Group
from ldpbeam.schedule import Schedule
from tests.pipelines.running import collection

MICROS = 1_000_000
AGREED = collection("grr", 4, "one", epochs=Epochs(3600, 0, 100), allowed_lateness=600)
KEY = (AGREED.digest_hex, 1)
START, END, CLOSE = 3600 * MICROS, 7200 * MICROS, 7800 * MICROS
"""Of epoch 1."""


def moment(watermark: int, early_every: int = 0, **known: Any) -> EpochMoment:
    return EpochMoment(Schedule(AGREED, early_every, 60), KEY, EpochState(**known), watermark)


@pytest.mark.parametrize(
    ("watermark", "last", "ended"),
    [
        (END - 1, 0, False),
        (END, END - 1, True),
        (END + 1, END, False),  # the result at the end was made
        (CLOSE, START, True),
    ],
)
def test_an_epoch_ends_once(watermark: int, last: int, ended: bool) -> None:
    found = moment(watermark, last_result_watermark=last)
    assert found.has_ended is ended
    # That alone makes a result due, whether anything was landed or not.
    assert found.is_due(everything=False) is (ended or watermark >= CLOSE)


@pytest.mark.parametrize(("watermark", "past"), [(CLOSE - 1, False), (CLOSE, True)])
def test_the_close_is_published_once(watermark: int, past: bool) -> None:
    assert moment(watermark).is_past_close is past
    assert moment(watermark, last_result_watermark=END).is_due(everything=False) is past
    assert not moment(watermark, last_result_watermark=END, closed=True).is_due(everything=False)


@pytest.mark.parametrize(
    ("early_every", "last", "due"),
    [
        (0, START, END),
        (600, 0, START + 600 * MICROS),  # counted from the start of the epoch, not from 1970
        (600, START + 600 * MICROS, START + 1200 * MICROS),
        (0, CLOSE - 1, CLOSE),
        (0, CLOSE, CLOSE + 60 * MICROS),
    ],
)
def test_what_is_unpublished_is_due_at_the_next_interval(early_every: int, last: int, due: int) -> None:
    known: dict[str, Any] = {"last_result_watermark": last, "closed": last >= CLOSE, "has_new_reports": True}
    assert moment(due, early_every, **known).next_result == due
    assert not moment(due - 1, early_every, **known).is_due(everything=False)
    assert moment(due, early_every, **known).is_due(everything=False)
    assert moment(due - 1, early_every, **known).is_due(everything=True)
    published = {**known, "has_new_reports": False}
    assert moment(due, early_every, **published).is_due(everything=True) == (due in {END, CLOSE})


def test_entries_alone_are_something_to_publish() -> None:
    known: dict[str, Any] = {"last_result_watermark": END, "unpublished_entries": Counter(late=3)}
    assert moment(END + 60 * MICROS, **known).is_due(everything=False)
    assert not moment(END + 60 * MICROS, **known).needs_count


def test_reports_are_counted_where_there_are_new_ones_and_at_the_end() -> None:
    assert moment(START, has_new_reports=True).needs_count
    assert moment(END, landed=Group(1, 1, 5), last_result_watermark=END - 1).needs_count
    assert not moment(END, landed=None, last_result_watermark=END - 1).needs_count
    assert not moment(END + 1, landed=Group(1, 1, 5), last_result_watermark=END).needs_count


@pytest.mark.parametrize(
    ("watermark", "last", "pane"), [(END - 1, 0, EARLY), (END, 0, ON_TIME), (END + 9, END, LATE)]
)
def test_a_result_with_a_count(watermark: int, last: int, pane: str) -> None:
    """A new number, all reports, and an account without what the count finds by itself."""
    account = Account(9, 5, 1, 2, Counter(conflicting_report_id=1, malformed=3))
    entries = Counter({"read": 4, "rejected.malformed": 1})
    known = EpochState(account, entries, landed=Group(1, 1, 5), has_new_reports=True, next_revision=2)
    known.last_result_watermark = last
    found = EpochMoment(Schedule(AGREED), KEY, known, watermark).due(8, replaying=False)
    assert (found.key, found.counts) == (KEY, True)
    position = {"segment": 8, "watermark": watermark}
    assert found.publication == Publication(2, pane, closed=False, position=position)
    assert found.account == Account(13, 0, 1, 0, Counter(malformed=4))
    # Making a result changes nothing of what is known.
    assert (known.account.counted, known.account.rejected["malformed"]) == (5, 3)
    assert known.unpublished_entries == entries


def test_what_was_closed_stays_closed() -> None:
    """An engine whose closed epochs are all in the archive starts with an earlier time than theirs."""
    known = EpochState(closed=True, last_result_watermark=CLOSE, next_revision=1)
    known.unpublished_entries["late"] += 1
    found = EpochMoment(Schedule(AGREED), KEY, known, START).due(8, replaying=False)
    assert found.publication.closed
    assert (found.publication.revision, found.counts) == (0, False)
    # Its accounting names that earlier time from then on. It is not counted again: its reports may be gone.
    again = moment(CLOSE, closed=True, last_result_watermark=START, landed=Group(1, 1, 5))
    assert not again.is_due(everything=True)
    assert not again.needs_count


@pytest.mark.parametrize(("next_revision", "number"), [(0, 0), (3, 2)])
def test_accounting_alone_belongs_to_the_newest_revision(next_revision: int, number: int) -> None:
    account = Account(9, 5, 1, 2, Counter(malformed=1))
    entries = Counter(read=2, late=2)
    known = EpochState(
        account, entries, landed=Group(1, 1, 5), next_revision=next_revision, last_result_watermark=END
    )
    found = EpochMoment(Schedule(AGREED), KEY, known, CLOSE).due(8, replaying=False)
    assert not found.counts
    assert (found.publication.revision, found.publication.closed) == (number, True)
    assert found.account == Account(11, 5, 3, 2, Counter(malformed=1))


def test_a_replay_names_its_results() -> None:
    found = moment(CLOSE + 1, has_new_reports=True, landed=Group(1, 1, 5)).due(1, replaying=True)
    assert found.publication.pane == REPLAY
