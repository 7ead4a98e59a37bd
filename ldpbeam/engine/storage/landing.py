"""The engine's file: landed reports, accounting and positions in one SQLite file, changed together.

A start reads the small tables whole, and checks all their rows. Reports and refused messages may be many.
They lie in a table of their own, ``content``, in groups of rows whose keys follow one another. A row of a
small table holds for each group the number of its rows; rows of ``content`` are checked when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ldpbeam.durable.errors import (
    DamageError,
    HeldError,
    LostError,
    OlderError,
    SentinelError,
    VersionError,
    Words,
    in_words,
)
from ldpbeam.durable.folder import make_folder, make_lasting_folder
from ldpbeam.durable.newest import NewestStore
from ldpbeam.durable.store import Transaction
from ldpbeam.errors import disk_errors
from ldpbeam.records.run_record import RUN_RECORD, record_before

FOLDER = "landing"
"""Folder of the engine's file, below the output directory."""

VERSION = 1
"""Version of the format; a file of another version is refused."""

ENGINE, EPOCHS, OTHERS, LANDED, REFUSED, FILES = TABLES = (
    "engine",
    "epochs",
    "others",
    "landed",
    "refused",
    "files",
)
"""The small tables, which a start reads whole."""
_CONTENT = "content"
_ROWS_BITS = 28
AT_ONCE = 64 << 20
"""Bytes that one change removes at most, about, since the journal holds all that is overwritten; and bytes of
reports and messages up to which the file is written anew after a removal."""


@dataclass
class Group:
    """Rows of ``content`` that belong together: no key is ever given to another content."""

    number: int
    rows: int = 0
    reports: int = 0
    size: int = 0

    def _key(self, row: int) -> int:
        return (self.number << _ROWS_BITS) + row

    def add(self, rows: Transaction, content: bytes, reports: int = 0) -> None:
        """Add a row behind the others."""
        rows.put(_CONTENT, self._key(self.rows), content)
        self.rows += 1
        self.reports += reports
        self.size += len(content)

    def read(self, rows: Transaction) -> list[bytes]:
        """The contents of all rows, in order."""
        keys = range(self._key(0), self._key(self.rows))
        found = list(rows.between(_CONTENT, keys))
        if [key for key, _ in found] != list(keys):
            raise DamageError(
                f"{self.rows - len(found) or 'some'} of {self.rows} rows of reports are damaged"
            )
        return [content for _, content in found]

    def shrink(self, rows: Transaction) -> bool:
        """Remove the newest rows, of about :data:`AT_ONCE` bytes; whether the group is empty then."""
        enough = self.size - AT_ONCE
        self.reports = 0  # what is left is not counted again
        while self.rows and self.size > enough:
            content = rows.row(_CONTENT, self._key(self.rows - 1))
            if content is None:
                raise DamageError(f"row {self.rows - 1} of group {self.number} is damaged")
            self.rows -= 1
            rows.remove(_CONTENT, self._key(self.rows))
            self.size -= len(content)
        return not self.rows


_WORDS = {
    HeldError: Words(
        "E-STREAM-BUSY",
        "another run or replay works on this output",
        "Stop it first (SIGTERM drains it), or choose another --output.",
    ),
    DamageError: Words(
        "E-LANDING-DAMAGED",
        "the engine's file is damaged, and its reports cannot be counted again: {error}",
        "Restore the folder from a backup; what is published stays.",
    ),
    OlderError: Words(
        "E-LANDING-OLDER",
        "the engine's file is an older copy: {error}; what was acknowledged since the copy is not in it",
        "Restore the newest file, or remove {sentinel} to go on from this one.",
    ),
    VersionError: Words(
        "E-LANDING-VERSION",
        "the engine's file cannot be read: {error}",
        "Go on with the version of ldpbeam that wrote it, or give a new --output.",
    ),
    SentinelError: Words(
        "E-LANDING-SENTINEL",
        "the sentinel is damaged, so that nothing tells an older copy of the engine's file",
        "Remove it, unless the file beside it is gone or comes from a copy.",
    ),
}


class Landing:
    """The engine's file below an output directory, and the lock that keeps other engines away."""

    def __init__(self, output: str) -> None:
        """Nothing is opened yet."""
        self.path = Path(output, FOLDER, "engine.sqlite")
        self._newest = NewestStore(self.path, "ldpbeam engine", VERSION, (*TABLES, _CONTENT))
        self._changes = 0

    @contextmanager
    def locked(self) -> Iterator[Landing]:
        """Make the folder, and keep other engines away for a block."""
        folder = self.path.parent
        make_folder(folder.parent, 0o777)
        make_lasting_folder(folder)  # else it could go with all that is in it
        folder.chmod(0o700)  # reports as they came, with their ids: for nobody else, whatever the umask
        with ExitStack() as held:
            with self._errors(folder / "lock"):
                held.enter_context(self._newest.lock().held())
            yield self

    def open(self) -> dict[str, dict[int, bytes]]:
        """All rows of the small tables, by table and key; without file and sentinel it makes both."""
        with self._errors():
            if self._newest.never_was():
                record = record_before(str(self.path.parents[1]))
                if record is not None and record.stream is not None:
                    raise LostError(f"it is gone, and {RUN_RECORD} knows of it")
                self._newest.create()
            with self._newest.transaction() as rows:
                tables = {}
                for table in TABLES:
                    tables[table], lost = rows.rows(table)
                    if lost:
                        raise DamageError(f"{lost} rows of its table {table} are damaged or gone")
                self._changes = rows.counter
                return tables

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """The rows, for a block that changes none."""
        with self._errors(), self._newest.transaction() as rows:
            if rows.counter != self._changes:
                raise DamageError("another program has changed it since this one opened it")
            yield rows

    @contextmanager
    def change(self) -> Iterator[Transaction]:
        """The rows, for a block whose changes are made all at once and are on disk when it ends."""
        with self.reading() as rows:
            yield rows
            self._newest.commit(rows)
            self._changes = rows.counter

    def rewrite(self) -> None:
        """Write the file anew: it shrinks, and no piece of a removed report is left in it."""
        with self._errors():
            self._newest.store.rewrite()

    @contextmanager
    def parsing(self) -> Iterator[None]:
        """Around code that parses rows: a row with a sound digest may still be of another format."""
        with self._errors():
            try:
                yield
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise DamageError(f"a row cannot be read ({type(error).__name__})") from None

    @contextmanager
    def _errors(self, where: Path | None = None) -> Iterator[None]:
        """What lies on the disk, and what the disk refuses (at ``where``), in words."""
        store, sentinel = self.path, self._newest.sentinel.path
        with disk_errors(str(where or store)), in_words(_WORDS, store, sentinel):
            yield
