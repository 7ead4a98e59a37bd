"""Where a collector keeps reports before it answers a device: a journal on disk, or a topic.

One commit takes whatever has gathered, with one fdatasync for all of it. A journal becomes a finished file
(:mod:`~ldpbeam.records.journal`) when it is old or large enough, in another thread.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ldpbeam.admission import ReportColumns
from ldpbeam.durable.errors import HeldError
from ldpbeam.durable.file import GROUP, PRIVATE, write_file
from ldpbeam.durable.folder import file_size, make_lasting_folder, open_file, sync_folder
from ldpbeam.durable.lock import Lock
from ldpbeam.errors import LdpError, UsageError, disk_error
from ldpbeam.records.journal import (
    COMMITTED,
    JOURNALS,
    Entries,
    committed_content,
    committed_name,
    committed_size,
    damaged_name,
    entry,
    file_content,
    finished_name,
    journal_name,
    journal_of,
    read_entries,
)

_LOCK = ".lock"
_RESERVE = ".reserve"
_STEP = 1 << 16
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


class Store(Protocol):
    """What makes reports safe. Commits come from one thread, publications from another.

    Attributes:
        damaged: journals since the start that were damaged, cut or deleted.
    """

    damaged: int

    def open(self) -> None:
        """Begin; nobody else works here from now on."""
        ...

    def commit(self, columns: Sequence[ReportColumns]) -> None:
        """On return the reports are safe.

        Raises:
            OSError, LdpError: they are not, and may be sent again.
        """
        ...

    def publish(self) -> None: ...

    def close(self) -> None:
        """Make all committed reports readable, and release the store to other collectors."""
        ...


@dataclass
class _Journal:
    path: Path
    descriptor: int  # of the open file
    committed: int  # descriptor of the file that holds the size after the last commit
    began: float  # steady seconds when it was opened
    second: int  # of its first arrival, seconds since 1970
    size: int = 0  # bytes of whole entries


class FileStore:
    def __init__(
        self,
        folder: Path,
        every_seconds: float,
        every_bytes: int,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        notice: Callable[[LdpError], None] = lambda _: None,
    ) -> None:
        """Use a folder, which :meth:`open` makes where it is missing."""
        self._folder = folder
        self._every_seconds, self._every_bytes = every_seconds, every_bytes
        self._wall, self._steady, self._notice = wall, steady, notice
        self._lock = Lock(folder / _LOCK)
        self._journal: _Journal | None = None
        self._changing = threading.Lock()
        """Held while the journal is written or taken out of use: a moment, or as long as a disk takes."""
        self._publishing = threading.Lock()
        self._reserved = 0
        """Bytes of the reserve: as many as the journal has."""
        self._unfinished = 0
        """Bytes of the largest journal that the disk had no room to finish."""
        self.files = 0
        """Number of files finished since the start."""
        self.damaged = 0
        """Journals since the start that were damaged, cut or deleted."""

    def open(self) -> None:
        """Take the folder, and finish what an earlier collector left in it."""
        try:
            make_lasting_folder(self._folder, 0o750)  # else it could go with all that is in it
            self._lock.acquire()
        except HeldError:
            raise LdpError(
                "E-COLLECT-BUSY",
                "another collector works on this folder",
                where=str(self._folder),
                remedy="Stop it first (SIGTERM drains it), or give each collector its own --output.",
            ) from None
        except OSError as error:
            raise disk_error(error, str(error.filename or self._folder)) or UsageError(
                "E-USAGE-OUTPUT",
                f"{self._folder} cannot be used as a directory: {error.strerror}",
                remedy="Give an empty or new directory to --output.",
            ) from None
        try:
            for path in self._folder.glob("reports-*.pb.*.tmp"):
                path.unlink()
            # A collector that was killed may have left one.
            self._reserved = file_size(self._folder / _RESERVE) or 0
            self.publish()
        except OSError as error:
            refusal = disk_error(error, str(error.filename or self._folder))
            if refusal is None or error.errno not in _NO_ROOM:
                self._lock.release()
                raise refusal or error from None
            self._notice(refusal)  # devices hear 503 until there is room

    def commit(self, columns: Sequence[ReportColumns]) -> None:
        with self._changing:
            second = int(self._wall())
            content = entry(second, columns)
            journal = self._journal
            if journal is None or second < journal.second:
                # A clock that was set back must not put arrivals before the start in a journal's name.
                self._seal()
                journal = self._begin(second)
            self._reserve(max(journal.size + len(content), self._unfinished))
            try:
                journal.size += _write(journal.descriptor, content)
                os.fdatasync(journal.descriptor)
                # Not forced to disk: after a power cut the size may be too small, never too large. The
                # reports are safe without it.
                with suppress(OSError):
                    os.pwrite(journal.committed, committed_content(journal.size), 0)
            except OSError:
                # What the kernel has of it is not known after a failed write or sync. The entries before
                # stay; a part of this one does not have its checksum.
                self._seal()
                raise
            if journal.size >= self._every_bytes:
                self._seal()

    def _begin(self, second: int) -> _Journal:
        path = self._folder / journal_name(second)
        flags, beside = os.O_WRONLY | os.O_CREAT | os.O_EXCL, self._folder / committed_name(path.name)
        committed = open_file(beside, flags, PRIVATE)
        try:
            _write(committed, committed_content(0))  # takes its room on disk; later sizes replace it
            descriptor = open_file(path, flags | os.O_APPEND, PRIVATE)
        except OSError:
            os.close(committed)
            beside.unlink(missing_ok=True)
            raise
        self._journal = _Journal(path, descriptor, committed, self._steady(), second)
        try:
            sync_folder(self._folder)
        except OSError:
            self._seal()
            raise
        return self._journal

    def _seal(self) -> None:
        """Nothing more is written to the journal; :meth:`publish` does the rest."""
        journal, self._journal = self._journal, None
        if journal is not None:
            for descriptor in (journal.descriptor, journal.committed):
                with suppress(OSError):
                    os.close(descriptor)

    def publish(self) -> None:
        """Make files of all journals that are old or large enough, and of those that were left."""
        with self._publishing:
            with self._changing:
                journal = self._journal
                if journal is not None and self._steady() - journal.began >= self._every_seconds:
                    self._seal()
                current = self._journal.path if self._journal is not None else None
                left = [path for path in sorted(self._folder.glob(JOURNALS)) if path != current]
                sizes = {self._folder / journal_of(path.name): path for path in self._folder.glob(COMMITTED)}
            refused: OSError | None = None
            unfinished = 0
            for path in left:
                try:
                    self._finish_somehow(path)
                except OSError as error:
                    refused = error  # what is empty can go all the same, and makes room
                    unfinished = max(unfinished, file_size(path) or 0)
            self._unfinished = unfinished
            if refused is not None:
                raise refused
            for path in sorted(set(sizes) - {*left, current}):
                self._report_deleted(path, sizes[path])

    def _finish_somehow(self, path: Path) -> None:
        """In the room of the reserve, where there is no other; nothing is taken until it is there again."""
        try:
            self._finish(path)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            with self._changing:
                self._unfinished = max(self._unfinished, file_size(path) or 0)
                self._reserved = 0
                (self._folder / _RESERVE).unlink(missing_ok=True)
            self._finish(path)

    def _reserve(self, size: int) -> None:
        """Hold back room for the file of one journal: journals alone must not fill the disk."""
        if size > self._reserved:
            size = -(-size // _STEP) * _STEP
            reserve = open_file(self._folder / _RESERVE, os.O_WRONLY | os.O_CREAT, PRIVATE)
            try:
                os.posix_fallocate(reserve, 0, size)
            finally:
                os.close(reserve)
            self._reserved = size

    def _finish(self, path: Path) -> None:
        """The finished file takes the journal's place. After a crash at any point it is done again."""
        name, committed = finished_name(path.name), self._folder / committed_name(path.name)
        entries = read_entries(path.read_bytes(), _size_in(committed))
        if not (self._folder / name).exists():
            content = file_content(entries.whole)
            if content:
                write_file(self._folder / name, [content], GROUP)
                self.files += 1
        if entries.damaged:
            aside = self._folder / damaged_name(path.name)
            path.rename(aside)
            self.damaged += 1
            self._notice(_damaged(aside, entries))
            committed.unlink(missing_ok=True)
        else:
            committed.unlink(missing_ok=True)
            path.unlink()
        # Else a power cut could bring the journal back after somebody has taken the file away.
        sync_folder(self._folder)

    def _report_deleted(self, path: Path, committed: Path) -> None:
        """Remove a size that has no journal; warn unless the journal was finished, set aside or empty."""
        size = _size_in(committed)
        names = (finished_name(path.name), damaged_name(path.name))
        finished = any((self._folder / name).exists() for name in names)
        committed.unlink(missing_ok=True)
        if size and not finished:
            self.damaged += 1
            self._notice(_deleted(path, size))

    def close(self) -> None:
        try:
            with self._changing:
                self._seal()
            self.publish()
            (self._folder / _RESERVE).unlink(missing_ok=True)
        finally:
            self._lock.release()


def _size_in(committed: Path) -> int:
    """The size in a ``.committed-…`` file; 0 if the file is missing, damaged or cannot be read."""
    try:
        with os.fdopen(open_file(committed, os.O_RDONLY, PRIVATE), "rb") as file:
            return committed_size(file.read())
    except OSError:
        return 0


def _damaged(aside: Path, entries: Entries) -> LdpError:
    return LdpError(
        "W-COLLECT-DAMAGED",
        f"a journal is damaged: {entries.damaged:,} of its bytes are gone or cannot be read, and the reports "
        f"in them are lost; {len(entries.whole):,} commits of it were kept",
        where=str(aside),
        remedy="Look after the disk. The file stays as it was found, and nothing reads it.",
    )


def _deleted(path: Path, size: int) -> LdpError:
    return LdpError(
        "W-COLLECT-DAMAGED",
        f"a journal is gone, and the reports in it are lost; it had {size:,} bytes",
        where=str(path),
        remedy="Find out who deletes files here. Nobody but the collector may delete a journal.",
    )


def _write(descriptor: int, content: bytes) -> int:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    return len(content)
