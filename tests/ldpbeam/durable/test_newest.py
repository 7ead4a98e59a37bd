"""A store with a sentinel: an older copy, a loss and a damaged sentinel are each noticed."""

from __future__ import annotations

from errno import ENOSPC
from pathlib import Path

import pytest

from ldpbeam.durable.errors import (
    HeldError,
    LostError,
    OlderError,
    SentinelError,
)
from ldpbeam.durable.newest import NewestStore
from ldpbeam.durable.store import Transaction


def store(folder: Path, **more: Path) -> NewestStore:
    return NewestStore(folder / "store", "a test", 1, ("one",), **more)


def put(newest: NewestStore, content: bytes) -> None:
    with newest.transaction() as rows:
        rows.put("one", 0, content)
        newest.commit(rows)


@pytest.fixture
def made(tmp_path: Path) -> NewestStore:
    newest = store(tmp_path)
    assert newest.never_was()
    newest.create(lambda rows: rows.put("one", 0, b"first"))
    assert not newest.never_was()
    return newest


def test_each_change_is_known_to_the_sentinel(made: NewestStore) -> None:
    for number in (1, 2, 3):
        assert made.sentinel.read() == number
        put(made, b"next")


def test_the_sentinel_knows_of_no_change_that_was_not_made(
    made: NewestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a process that ends between the two would leave a store that seems older than it is."""

    def full(rows: Transaction) -> None:
        raise OSError(ENOSPC, "full")

    monkeypatch.setattr(Transaction, "commit", full)
    with pytest.raises(OSError, match="full"):
        put(made, b"second")
    assert made.sentinel.read() == 1
    with made.transaction() as rows:
        assert rows.row("one", 0) == b"first"


def test_an_older_copy_is_refused_and_says_by_how_much(made: NewestStore) -> None:
    copy = made.store.path.read_bytes()
    put(made, b"second")
    made.store.path.write_bytes(copy)
    with pytest.raises(OlderError, match="changed 1 times, and the sentinel knows of 2"), made.transaction():
        pass


def test_a_store_or_folder_that_is_gone_is_missed(made: NewestStore, tmp_path: Path) -> None:
    made.store.path.unlink()
    assert not made.never_was()
    with pytest.raises(LostError), made.transaction():
        pass
    elsewhere = store(tmp_path / "gone", sentinel=tmp_path / "sentinel")
    with pytest.raises(LostError), elsewhere.transaction(0.0):
        pass


def test_a_damaged_sentinel_is_told_from_a_damaged_store(made: NewestStore) -> None:
    made.sentinel.path.write_bytes(bytes(8192))
    with pytest.raises(SentinelError), made.transaction():
        pass
    with pytest.raises(SentinelError):
        made.never_was()


@pytest.mark.parametrize("behind", [True, False], ids=["behind", "removed"])
def test_a_sentinel_learns_of_changes_that_it_does_not_know(
    made: NewestStore, behind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is on disk before: its process may have ended right after the change."""
    known = made.sentinel.path.read_bytes()
    put(made, b"second")
    made.sentinel.path.unlink()
    if behind:
        made.sentinel.path.write_bytes(known)
    done: list[str] = []
    monkeypatch.setattr("ldpbeam.durable.newest.sync_folder", lambda _: done.append("folder"))
    monkeypatch.setattr(made.sentinel, "write", lambda number: done.append(f"sentinel {number}"))
    with made.transaction():
        assert done == ["folder", "sentinel 2"]


def test_a_transaction_with_a_wait_holds_the_lock(made: NewestStore) -> None:
    with made.transaction(0.0), pytest.raises(HeldError), made.lock().held():
        pass
    with made.lock().held(), pytest.raises(HeldError), made.transaction(0.0):
        pass
