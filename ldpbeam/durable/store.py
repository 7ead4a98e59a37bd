"""Rows in one SQLite file: many change at once, and damage is noticed.

Never with a write-ahead log: one flipped bit there takes back every change behind it, and nobody hears of it.

SQLite checks nothing that it reads. So each row has a SHA-256 over its table, key and content. One more row,
the root, holds how often the store has changed, and for each table how many rows it has and the sum (xor) of
their digests. So a row that a flipped bit hides, shows twice or brings back is noticed, and so is a file of
pages from two moments.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from ldpbeam.durable.errors import DamageError, HeldError, VersionError
from ldpbeam.durable.file import PRIVATE
from ldpbeam.durable.folder import file_size, open_file, sync_folder
from ldpbeam.errors import UsageError

if TYPE_CHECKING:
    import sqlite3

_SETTINGS = (
    "PRAGMA secure_delete = ON",
    "PRAGMA synchronous = EXTRA",
    "PRAGMA temp_store = MEMORY",  # no row leaves the folder
    "PRAGMA cell_size_check = ON",
)
_WAIT = 5.0
"""Seconds to wait for another program that reads the file, such as one that copies it."""

_NO_LOCK = {"SQLITE_IOERR_LOCK", "SQLITE_IOERR_RDLOCK", "SQLITE_IOERR_CHECKRESERVEDLOCK"}

_HEAD = Struct("<HQ")
_DIGEST = 32  # bytes of a SHA-256
_SUMMARY = Struct(f"<Q{_DIGEST}s")

_KEY_BITS = 56
KEYS = 1 << _KEY_BITS
"""Keys of a table are below this."""

_ROOT = 0
"""Number of the table of the root, and key of its row. All tables of a store share one of SQLite: so a small
change touches few pages."""


class TableRows(NamedTuple):
    """What a table holds."""

    sound: dict[int, bytes]
    lost: int


class RowStore:
    """Tables of rows in a file; a row has a key, an integer from 0 on and below :data:`KEYS`, and bytes."""

    def __init__(self, path: Path, kind: str, version: int, tables: Sequence[str]) -> None:
        """Nothing is opened yet."""
        self._sqlite = _sqlite3()
        self.path = path
        self._journal = path.with_name(f"{path.name}-journal")
        # A connection without a mode would make a file that is not there, for everybody to read.
        self._address = f"{path.absolute().as_uri()}?mode=rw"
        self._kind = kind.encode() + b"\0"
        self.version = version
        self._numbers = {table: number for number, table in enumerate(tables, 1)}
        self.tables = tuple(tables)

    @contextmanager
    def creation(self, counter: int = 0) -> Iterator[Transaction]:
        """Make the store where :meth:`exists` says that there is none, with the rows that are put in."""
        if file_size(self.path) is None:
            # The journal of a file that is gone may lie here: beside an empty file SQLite removes it.
            os.close(open_file(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE rows (key INTEGER PRIMARY KEY, digest BLOB, content BLOB)")
            yield Transaction(self, connection, counter, {table: Summary() for table in self.tables})

    def exists(self) -> bool:
        """Whether there is a store; what a creation left that was cut off is none."""
        if not file_size(self.path):
            return False
        if file_size(self._journal) is None:
            return True
        with self._connection() as connection:  # plays the journal back
            return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])

    def remove(self) -> None:
        """Remove the file and its journal, whatever they hold; on disk when this returns."""
        for path in (self._journal, self.path):
            path.unlink(missing_ok=True)
        sync_folder(self.path.parent)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Read rows, and change them all at once; what was not committed when the block ends is undone."""
        if not self.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            root = next((content for _, _, content in self.sound(connection, _ROOT, _ROOT)), b"")
            if len(root) < _HEAD.size:
                raise DamageError("its first row is damaged or gone")
            version, counter = _HEAD.unpack_from(root)
            if version != self.version:
                raise VersionError(f"it has format {version}, and this program reads format {self.version}")
            yield Transaction(self, connection, counter, _unpack_summaries(self.tables, root[_HEAD.size :]))

    def rewrite(self) -> None:
        """Write the file anew, only with its rows: a page in use may still hold pieces of removed ones."""
        with self._connection() as connection:
            connection.execute("VACUUM")

    def first(self, table: str) -> int:
        """The key in the file of a table's first row."""
        return self._numbers[table] << _KEY_BITS

    def digest(self, key: int, content: bytes) -> bytes:
        """SHA-256 of a row of the file."""
        held = sha256(self._kind + key.to_bytes(8, "little", signed=True))
        held.update(content)  # without a copy of what may be large
        return held.digest()

    def sound(
        self, connection: sqlite3.Connection, first: int, last: int
    ) -> Iterator[tuple[int, bytes, bytes]]:
        """Key, digest and content of the sound rows of the file, from one key to another."""
        statement = "SELECT key, digest, content FROM rows WHERE key BETWEEN ? AND ? ORDER BY key"
        for key, digest, content in connection.execute(statement, (first, last)):
            if isinstance(content, bytes) and digest == self.digest(key, content):
                yield key, digest, content

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """The open file, with errors of SQLite as those of the operating system, or as damage."""
        with self._errors():
            connection = self._sqlite.connect(self._address, timeout=_WAIT, isolation_level=None, uri=True)
            # A flipped bit makes text of bytes: then a row is damaged, not the whole store.
            connection.text_factory = lambda text: text.decode(errors="replace")
        try:
            with self._errors():
                for setting in _SETTINGS:
                    connection.execute(setting)
                if connection.execute("PRAGMA journal_mode = DELETE").fetchone() != ("delete",):
                    raise DamageError("it asks for another journal")
                yield connection
        finally:
            connection.close()  # undoes what was not committed

    @contextmanager
    def _errors(self) -> Iterator[None]:
        sqlite = self._sqlite
        try:
            yield
        except sqlite.Error as error:
            code, name = getattr(error, "sqlite_errorcode", 0) & 0xFF, getattr(error, "sqlite_errorname", "")
            if code in (sqlite.SQLITE_BUSY, sqlite.SQLITE_LOCKED):
                raise HeldError(str(self.path)) from None
            number = {
                sqlite.SQLITE_FULL: errno.ENOSPC,
                sqlite.SQLITE_READONLY: errno.EACCES,
                sqlite.SQLITE_PERM: errno.EACCES,
                sqlite.SQLITE_CANTOPEN: errno.EACCES,
                sqlite.SQLITE_IOERR: errno.ENOLCK if name in _NO_LOCK else errno.EIO,
                sqlite.SQLITE_PROTOCOL: errno.ENOLCK,
            }.get(code)
            if number is not None:
                raise OSError(number, os.strerror(number), str(self.path)) from None
            raise DamageError(f"SQLite cannot read it ({name or type(error).__name__})") from None
        except UnicodeDecodeError:  # a message of SQLite about a name that is damaged
            raise DamageError("SQLite cannot read it") from None


@dataclass(slots=True)
class Summary:
    """What all rows of a table have together: their number, and the xor of their digests."""

    count: int = 0
    xor: int = 0

    def change(self, count: int, digest: bytes) -> None:
        """Count a row more (1) or less (-1)."""
        self.count += count
        self.xor ^= int.from_bytes(digest, "little")


class Transaction:
    """Rows of a store, read and changed together; made by :meth:`RowStore.transaction`."""

    def __init__(
        self,
        store: RowStore,
        connection: sqlite3.Connection,
        counter: int,
        summaries: dict[str, Summary],
    ) -> None:
        self._store = store
        self._connection = connection
        self._summaries = summaries
        self.counter = counter

    def rows(self, table: str) -> TableRows:
        """All rows of a table; in memory."""
        first = self._store.first(table)
        sound, there = {}, Summary()
        for key, digest, content in self._store.sound(self._connection, first, first + KEYS - 1):
            there.change(1, digest)
            sound[key - first] = content
        recorded = self._summaries[table]
        lost = recorded.count - there.count
        if lost == 0 and there.xor == recorded.xor:
            return TableRows(sound, 0)
        if lost <= 0:
            raise DamageError(f"its table {table} is not the one that was written last")
        self._begin()
        self._connection.execute("DELETE FROM rows WHERE key BETWEEN ? AND ?", (first, first + KEYS - 1))
        self._summaries[table] = Summary()
        for key, content in sound.items():
            self.put(table, key, content)
        return TableRows(sound, lost)

    def row(self, table: str, key: int) -> bytes | None:
        """One row of a table; None where it is not there, or damaged: :meth:`rows` tells them apart."""
        key += self._store.first(table)
        return next((content for _, _, content in self._store.sound(self._connection, key, key)), None)

    def between(self, table: str, keys: range) -> Iterator[tuple[int, bytes]]:
        """Key and content of the sound rows of a table with keys in a range of step 1, in order."""
        first = self._store.first(table)
        rows = self._store.sound(self._connection, first + keys.start, first + keys.stop - 1)
        return ((key - first, content) for key, _, content in rows)

    def put(self, table: str, key: int, content: bytes) -> None:
        """Add a row, or replace the one with this key."""
        self.remove(table, key)
        key += self._store.first(table)
        digest = self._store.digest(key, content)
        self._connection.execute("INSERT INTO rows VALUES (?, ?, ?)", (key, digest, content))
        self._summaries[table].change(1, digest)

    def remove(self, table: str, key: int) -> None:
        """Remove a row, where it is there."""
        self._begin()
        key += self._store.first(table)
        there = self._connection.execute("SELECT digest FROM rows WHERE key = ?", (key,)).fetchone()
        if there is None:
            return
        (digest,) = there
        if not isinstance(digest, bytes) or len(digest) != _DIGEST:
            raise DamageError(f"a row of its table {table} has no digest")
        self._connection.execute("DELETE FROM rows WHERE key = ?", (key,))
        self._summaries[table].change(-1, digest)

    def clear(self) -> None:
        """Remove all rows of all tables, sound or not, and pieces of earlier rows in pages."""
        self._begin()
        self._connection.execute("DELETE FROM rows")  # without WHERE it overwrites whole pages
        self._summaries = {table: Summary() for table in self._summaries}

    def commit(self) -> None:
        """Change the rows; on disk when this returns."""
        self._begin()
        if any(one.count < 0 for one in self._summaries.values()):
            raise DamageError("it holds rows that nobody wrote")
        self.counter += 1
        content = _HEAD.pack(self._store.version, self.counter) + b"".join(
            _SUMMARY.pack(one.count, one.xor.to_bytes(_DIGEST, "little")) for one in self._summaries.values()
        )
        row = (_ROOT, self._store.digest(_ROOT, content), content)
        self._connection.execute("INSERT OR REPLACE INTO rows VALUES (?, ?, ?)", row)
        self._connection.execute("COMMIT")

    def _begin(self) -> None:
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")


def _unpack_summaries(tables: Sequence[str], content: bytes) -> dict[str, Summary]:
    if len(content) != len(tables) * _SUMMARY.size:
        raise DamageError("its first row is of other tables")
    pairs = _SUMMARY.iter_unpack(content)
    return {
        table: Summary(count, int.from_bytes(xor, "little"))
        for table, (count, xor) in zip(tables, pairs, strict=True)
    }


def _sqlite3() -> Any:
    """The module, which a Python without SQLite does not have."""
    try:
        import sqlite3
    except ImportError:
        raise UsageError(
            "E-USAGE-EXTRA",
            "this Python was built without sqlite3, and what has to outlast the process is kept with it",
            remedy="Use a Python with SQLite, as those of python.org and of most systems are.",
        ) from None
    return sqlite3
