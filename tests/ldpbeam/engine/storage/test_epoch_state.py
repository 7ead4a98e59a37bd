"""What the engine knows about epochs, without an engine: segments are taken, accounting is published."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.accounting import Account, Entry
from ldpbeam.collection.epochs import Epochs
from ldpbeam.engine.storage.epoch_state import EpochState, EpochStates, UnattributedState
from ldpbeam.engine.storage.segment import Block, EpochKey, Segment
from ldpbeam.errors import LdpError
from ldpbeam.schedule import Schedule
from tests.pipelines.running import collection

ONE = collection("grr", 4, "one", epochs=Epochs(3600, 0, 100), allowed_lateness=600)
KEY: EpochKey = (ONE.digest_hex, 0)
UNKNOWN = ("0123456789abcdef", None)


def segment(number: int, entries: dict[Any, int], reports: dict[int, int], newest: int = 0) -> Segment:
    """A segment with these entries by (key, what), and so many reports of these epochs."""
    blocks = tuple(Block(ONE.digest_hex, epoch, n, 0, 0, newest or number, 0) for epoch, n in reports.items())
    found: tuple[Entry, ...] = tuple(entries.items())
    return Segment(number, 0, 1, 0, found, blocks)


def states(output: Path) -> EpochStates:
    return EpochStates(str(output), {ONE.digest_hex: Schedule(ONE)})


@pytest.mark.parametrize(
    ("known", "unpublished", "finished"),
    [
        (EpochState(), False, False),
        (EpochState(closed=True), False, True),
        (EpochState(closed=True, has_new_reports=True), True, False),
        (EpochState(closed=True, unpublished_entries=Counter(late=1)), True, False),
        (EpochState(unpublished_entries=Counter(read=1)), True, False),
    ],
)
def test_an_epoch_is_finished_once_it_is_closed_and_published(
    known: EpochState, unpublished: bool, finished: bool
) -> None:
    assert (known.is_unpublished, known.is_finished) == (unpublished, finished)


def test_the_total_is_what_is_published_and_what_is_not_and_changes_neither() -> None:
    account = Account(read=5, counted=3, rejected=Counter(malformed=2))
    known = UnattributedState(account, Counter({"read": 2, "rejected.malformed": 1, "late": 1}))
    assert known.total == Account(read=7, counted=3, late=1, rejected=Counter(malformed=3))
    assert account == Account(read=5, counted=3, rejected=Counter(malformed=2))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x-{digest}-epochs-000000-000999.jsonl.gz", b"no gzip"),
        ("x-{digest}-epochs-000000-000999.jsonl.gz", gzip.compress(b'{"epoch": 1}', mtime=0)[:-9]),
        ("x-{digest}-epochs-000000-000999.jsonl.gz", gzip.compress(b'{"epoch": 1}', mtime=0)),
        ("x-{digest}-epochs-000000-000999.jsonl.gz", gzip.compress(b'{"digest": ""}', mtime=0)),
        ("forgotten-{digest}.json", b'{"segment": 1}'),
    ],
)
def test_a_damaged_archive_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "accounting" / "archive" / name.format(digest=ONE.digest_hex)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(LdpError, match="the accounting cannot be read") as caught:
        states(tmp_path)
    assert (caught.value.code, caught.value.where) == ("E-ACCOUNTING-DAMAGED", str(path))


def test_a_segment_brings_entries_and_reports(tmp_path: Path) -> None:
    found = states(tmp_path)
    first = segment(1, {(KEY, "read"): 5, (UNKNOWN, "read"): 2}, {0: 5})
    found.take(first, {1: first})
    known = found.epochs[KEY]
    assert (known.unpublished_entries, known.segments, known.has_new_reports) == ({"read": 5}, [1], True)
    assert found.unattributed[UNKNOWN[0]].unpublished_entries == {"read": 2}
    assert found.total == Account(read=7)
    # The same once more: a restart takes each segment once, a merged one stands for several.
    found.take(first, {1: first})
    assert known.segments == [1]


def test_what_the_accounting_contains_is_not_taken_again(tmp_path: Path) -> None:
    found = states(tmp_path)
    found.epochs[KEY] = EpochState(booked_segment=4)
    found.unattributed[UNKNOWN[0]] = UnattributedState(booked_segment=4)
    old, new = ({(KEY, "read"): n, (UNKNOWN, "read"): n} for n in (3, 10))
    for one in (segment(4, old, {0: 3}), segment(5, new, {0: 10}, newest=4)):
        found.take(one, {one.number: one})
    known = found.epochs[KEY]
    assert known.unpublished_entries == found.unattributed[UNKNOWN[0]].unpublished_entries == {"read": 10}
    # Reports of a merged segment are as old as the newest of its parts that has some of this epoch.
    assert (known.segments, known.has_new_reports) == ([4, 5], False)


def test_an_epoch_that_comes_back_knows_the_segments_that_are_still_there(tmp_path: Path) -> None:
    """News of it alone, as when a report is late: its reports were landed long ago."""
    present = {n: segment(n, {}, {0: 1} if n != 2 else {1: 1}) for n in (3, 1, 2)}
    late = segment(4, {(KEY, "late"): 1}, {})
    found = states(tmp_path)
    found.take(late, {**present, 4: late})
    assert found.epochs[KEY].segments == [1, 3]


def test_unattributed_accounts_are_published_once_and_recovered(tmp_path: Path) -> None:
    found = states(tmp_path)
    entries = {(UNKNOWN, "read"): 2, (UNKNOWN, "rejected.unknown_collection"): 2}
    found.take(segment(6, entries, {}), {})
    assert not found.is_booked(UNKNOWN, 6)
    found.publish_unattributed(7)
    assert found.is_booked(UNKNOWN, 6)
    assert found.booked_segment(UNKNOWN) == 7
    (path,) = tmp_path.glob("accounting/other-*.json")
    written = path.stat().st_mtime_ns
    found.publish_unattributed(8)  # nothing has changed
    assert (path.stat().st_mtime_ns, found.booked_segment(UNKNOWN)) == (written, 7)
    again = states(tmp_path)
    assert again.recover() == (7, None)
    assert again.total == found.total == Account(read=2, rejected=Counter(unknown_collection=2))
    again.take(segment(6, entries, {}), {})
    assert not again.unattributed[UNKNOWN[0]].unpublished_entries


def test_epochs_of_collections_that_are_not_given_are_left_alone(tmp_path: Path) -> None:
    found = EpochStates(str(tmp_path), {})
    one = segment(1, {(KEY, "read"): 5}, {0: 5})
    found.take(one, {1: one})
    assert not found.epochs
    assert not found.is_gone(KEY, 1 << 62)


def test_a_segment_takes_the_place_of_others(tmp_path: Path) -> None:
    found, parts = states(tmp_path), [segment(n, {(KEY, "read"): 1}, {0: 1}) for n in (1, 2)]
    for n, part in enumerate(parts, 1):
        found.take(part, dict(enumerate(parts[:n], 1)))
    merged = segment(2, {}, {0: 2})
    found.replace_segments(parts, merged)
    assert found.epochs[KEY].segments == [2]
    found.remove_segment(merged)
    assert found.epochs[KEY].segments == []
    assert KEY not in found  # it was never published as closed
