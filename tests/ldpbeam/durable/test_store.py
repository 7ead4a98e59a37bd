"""The store: rows that change together, and damage that is noticed."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ldpbeam.durable import store as module
from ldpbeam.durable.errors import DamageError, HeldError, VersionError
from ldpbeam.durable.store import KEYS, RowStore


def made(path: Path, counter: int = 0) -> RowStore:
    store = RowStore(path, "a test", 3, ("one", "two"))
    with store.creation(counter) as rows:
        rows.put("one", 5, b"five")
        rows.commit()
    return store


def changed(path: Path, statement: str, *given: object) -> None:
    """By a program that knows nothing of digests."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement, given)


def test_rows_come_back_and_belong_to_their_table(tmp_path: Path) -> None:
    store = made(tmp_path / "store", 40)
    with store.transaction() as rows:
        assert rows.counter == 41
        for key in (0, 1, KEYS - 1):
            rows.put("two", key, b"two %d" % key)
        rows.put("one", 5, b"another")
        rows.remove("two", 1)
        rows.remove("two", 77)
        rows.commit()
        assert rows.counter == 42
    with RowStore(tmp_path / "store", "a test", 3, ("one", "two")).transaction() as rows:
        assert rows.rows("one") == ({5: b"another"}, 0)
        assert rows.rows("two") == ({0: b"two 0", KEYS - 1: b"two %d" % (KEYS - 1)}, 0)
        assert (rows.row("two", 0), rows.row("one", 0), rows.row("two", 5)) == (b"two 0", None, None)
        rows.clear()
        assert rows.rows("two") == rows.rows("one") == ({}, 0)
    with store.transaction() as rows:
        assert len(rows.rows("two").sound) == 2, "nothing was committed"
        assert rows.counter == 42


def test_a_store_against_a_dictionary(tmp_path: Path) -> None:
    """500 changes, some of them undone."""
    chance = random.Random(7)
    store = made(tmp_path / "store")
    model: dict[str, dict[int, bytes]] = {"one": {5: b"five"}, "two": {}}
    for _ in range(60):
        trial = {table: dict(there) for table, there in model.items()}
        with store.transaction() as rows:
            for _ in range(chance.randrange(8)):
                table, key = chance.choice(["one", "two"]), chance.randrange(9)
                match chance.randrange(8):
                    case 0:
                        rows.clear()
                        trial = {"one": {}, "two": {}}
                    case 1 | 2:
                        rows.remove(table, key)
                        trial[table].pop(key, None)
                    case _:
                        content = chance.randbytes(chance.choice([0, 3, 200, 9000]))
                        rows.put(table, key, content)
                        trial[table][key] = content
            if chance.random() < 0.7:
                rows.commit()
                model = trial
        with store.transaction() as rows:
            for table, there in model.items():
                assert rows.rows(table) == (there, 0)
                assert list(rows.rows(table).sound) == sorted(there)


def test_what_fails_is_undone(tmp_path: Path) -> None:
    store = made(tmp_path / "store")
    with pytest.raises(KeyboardInterrupt), store.transaction() as rows:
        rows.put("one", 6, b"six")
        raise KeyboardInterrupt
    with store.transaction() as rows:
        assert rows.rows("one") == ({5: b"five"}, 0)
    new = RowStore(tmp_path / "new", "a test", 3, ("one",))
    with pytest.raises(KeyboardInterrupt), new.creation() as rows:
        rows.put("one", 6, b"six")
        raise KeyboardInterrupt
    assert not new.exists()
    with pytest.raises(FileNotFoundError), new.transaction():
        pass


def left_at(moment: str, folder: Path) -> RowStore:
    """What a machine without power leaves while a store is made, or changed by more than fits in memory."""
    (folder / "left").mkdir()
    store = RowStore(folder / "store", "a test", 3, ("one", "two"))
    if moment == "changed":
        store = made(folder / "store")
    block = store.creation() if moment == "made" else store.transaction()
    with block as rows:
        rows.put("one", 5, b"another")
        rows.put("two", 0, bytes(8 << 20))
        for name in ("store", "store-journal"):
            shutil.copy(folder / name, folder / "left" / name)
    assert (folder / "left" / "store").stat().st_size > 1 << 20, "some of it is in the file already"
    return RowStore(folder / "left" / "store", "a test", 3, ("one", "two"))


@pytest.mark.parametrize("digest", [b"x" * 33, 0.5])
def test_a_row_whose_digest_is_none_is_damage_when_it_is_replaced(digest: object, tmp_path: Path) -> None:
    """Also one that is longer, which no sum of digests has room for."""
    store = made(tmp_path / "store")
    changed(tmp_path / "store", "UPDATE rows SET digest = ? WHERE key % 16777216 = 5", digest)
    with store.transaction() as rows, pytest.raises(DamageError, match="no digest"):
        rows.put("one", 5, b"new")
    with store.transaction() as rows, pytest.raises(DamageError, match="no digest"):
        rows.remove("one", 5)


def test_a_row_that_damage_added_cannot_be_taken_out_of_nothing(tmp_path: Path) -> None:
    store = made(tmp_path / "store")
    added = "INSERT INTO rows SELECT key + 1, digest, content FROM rows WHERE key % 16777216 = 5"
    changed(tmp_path / "store", added)
    with store.transaction() as rows:
        rows.remove("one", 5)
        rows.remove("one", 6)
        with pytest.raises(DamageError, match="nobody wrote"):
            rows.commit()


@pytest.mark.parametrize("moment", ["made", "changed"])
def test_a_store_that_was_being_made_is_none_and_one_that_was_being_changed_is_as_before(
    moment: str, tmp_path: Path
) -> None:
    left = left_at(moment, tmp_path)
    assert left.exists() == (moment == "changed")
    if moment == "changed":
        with left.transaction() as rows:
            assert rows.rows("one") == ({5: b"five"}, 0)
    else:
        with left.creation() as rows:
            rows.put("one", 1, b"new")
            rows.commit()
        with left.transaction() as rows:
            assert rows.rows("one") == ({1: b"new"}, 0)


def test_the_journal_of_a_store_that_is_gone_is_not_played_back(tmp_path: Path) -> None:
    (tmp_path / "store-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(9000))
    store = made(tmp_path / "store")
    assert not (tmp_path / "store-journal").exists()
    (tmp_path / "store-journal").write_bytes(b"what it held")
    store.remove()
    assert list(tmp_path.iterdir()) == []
    assert not store.exists()


@pytest.mark.parametrize(
    ("statement", "given", "sound", "lost"),
    [
        ("UPDATE rows SET content = 'text' WHERE key = ?", (2,), {1, 3}, 1),
        ("UPDATE rows SET content = CAST(x'ff' AS TEXT) WHERE key = ?", (2,), {1, 3}, 1),
        ("UPDATE rows SET digest = NULL WHERE key = ?", (2,), {1, 3}, 1),
        ("UPDATE rows SET key = key + 100 WHERE key = ?", (2,), {1, 3}, 1),
        ("DELETE FROM rows WHERE key >= ?", (0,), set(), 3),
    ],
)
def test_rows_that_are_damaged_or_gone_are_counted_once(
    statement: str, given: tuple[int], sound: set[int], lost: int, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    store = made(path)
    with store.transaction() as rows:
        for key in (1, 2, 3):
            rows.put("two", key, b"content of %d" % key)
        rows.commit()
    changed(path, statement, *(key + store.first("two") for key in given))
    with store.transaction() as rows:
        there = rows.rows("two")
        assert (set(there.sound), there.lost) == (sound, lost)
        assert all(content == b"content of %d" % key for key, content in there.sound.items())
        assert rows.row("two", 2) is None
        assert rows.rows("one") == ({5: b"five"}, 0)
    with store.transaction() as rows:
        assert rows.rows("two").lost == lost, "only a commit keeps it"
        rows.commit()
    with store.transaction() as rows:
        assert rows.rows("two") == (there.sound, 0)


def test_a_row_of_an_earlier_moment_or_of_another_key_is_no_row_of_this_table(tmp_path: Path) -> None:
    """With its own digest: an older content, another table's row, one that was removed."""
    path = tmp_path / "store"
    store = made(path)
    old = store.digest(store.first("one") + 5, b"five")
    with store.transaction() as rows:
        rows.put("one", 5, b"newer")
        rows.commit()
    moved = "INSERT OR REPLACE INTO rows VALUES (?, ?, ?)"
    changed(path, moved, store.first("one") + 5, old, b"five")
    with pytest.raises(DamageError, match="table one is not the one"), store.transaction() as rows:
        rows.rows("one")
    changed(path, moved, store.first("two") + 5, old, b"five")
    with store.transaction() as rows:
        assert rows.row("two", 5) is None
        assert rows.rows("two") == ({}, 0)


@pytest.mark.parametrize("statement", ["DELETE FROM rows WHERE key = 0", "DROP TABLE rows"])
def test_without_its_root_nothing_is_believed(statement: str, tmp_path: Path) -> None:
    store = made(tmp_path / "store")
    changed(tmp_path / "store", statement)
    with pytest.raises(DamageError), store.transaction():
        pass


def test_another_format_is_told_by_kind_version_and_tables(tmp_path: Path) -> None:
    made(tmp_path / "store")
    path = tmp_path / "store"
    with pytest.raises(VersionError) as error, RowStore(path, "a test", 4, ("one", "two")).transaction():
        pass
    assert str(error.value) == "it has format 3, and this program reads format 4"
    for kind, tables in (("another", ("one", "two")), ("a test", ("one",))):
        with pytest.raises(DamageError), RowStore(path, kind, 3, tables).transaction():
            pass
    path.write_bytes(b"text")
    with pytest.raises(DamageError), RowStore(path, "a test", 3, ("one", "two")).transaction():
        pass


def test_a_write_ahead_log_is_never_kept(tmp_path: Path) -> None:
    """Not even where the file asks for one."""
    store = made(tmp_path / "store")
    changed(tmp_path / "store", "PRAGMA journal_mode = WAL")
    assert (tmp_path / "store").read_bytes()[18:20] == b"\2\2"
    with store.transaction() as rows:
        rows.put("one", 6, b"six")
        rows.commit()
        assert {one.name for one in tmp_path.iterdir()} <= {"store", "store-journal"}
    assert (tmp_path / "store").read_bytes()[18:20] == b"\1\1"
    assert [one.name for one in tmp_path.iterdir()] == ["store"]


SIZES = (24, 100, 400, 400, 900, 900, 900, 900, 900, 6000)


def worked_on(path: Path) -> tuple[RowStore, dict[int, bytes], list[bytes]]:
    """A store after many changes, its rows, and digests and pieces of all that were removed or replaced."""
    chance, store = random.Random(9), made(path)
    there: dict[int, bytes] = {}
    gone: list[bytes] = []

    def forget(key: int) -> None:
        content = there.pop(key)
        gone.append(store.digest(store.first("two") + key, content))
        gone.extend(content[at : at + 16] for at in range(0, len(content) - 15, len(content) // 4))

    for _ in range(8):
        with store.transaction() as rows:
            for key in chance.sample(range(400), 150):
                if key in there:
                    forget(key)
                there[key] = chance.randbytes(chance.choice(SIZES))
                rows.put("two", key, there[key])
            rows.commit()
        with store.transaction() as rows:
            for key in chance.sample(sorted(there), int(len(there) * chance.choice((0.3, 0.7, 1)))):
                forget(key)
                rows.remove("two", key)
            rows.commit()
    return store, there, gone


def test_of_a_removed_row_nothing_is_left_once_the_file_is_rewritten_or_cleared(tmp_path: Path) -> None:
    """SQLite overwrites what it removes, but not copies that were left where it divided a page."""
    path = tmp_path / "store"
    store, there, gone = worked_on(path)

    def left() -> int:
        content = path.read_bytes()
        return sum(each in content for each in gone)

    assert left() <= 2
    shutil.copy(path, tmp_path / "another")
    store.rewrite()
    assert left() == 0
    with store.transaction() as rows:
        assert rows.rows("two") == (there, 0)
    (tmp_path / "another").replace(path)
    with store.transaction() as rows:
        gone += there.values()
        rows.clear()
        rows.commit()
    assert left() == 0
    assert [one.name for one in tmp_path.iterdir()] == ["store"]


def test_another_program_that_holds_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAIT", 0.05)
    store = made(tmp_path / "store")
    with closing(sqlite3.connect(tmp_path / "store", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(HeldError), store.transaction():
            pass
    with store.transaction() as rows:
        assert rows.rows("one").sound
