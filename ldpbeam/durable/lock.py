"""One process at a time, on POSIX systems and on Windows."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ldpbeam.durable.errors import HeldError
from ldpbeam.durable.folder import open_file

try:
    from fcntl import LOCK_EX, LOCK_NB, flock

    def _lock(descriptor: int) -> bool:
        """Lock an open file, unless somebody else has it locked; whether it is locked."""
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            return False
        return True

except ImportError:  # pragma: no cover - Windows; tests run this in an interpreter without fcntl
    import msvcrt

    def _lock(descriptor: int) -> bool:
        """Lock an open file, unless somebody else has it locked; whether it is locked."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except PermissionError:
            return False
        return True


_NO_LOCK = {errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS}
"""How systems besides ENOLCK say that a file system has no locks; of other calls they say other things."""
_PAUSE = 0.005
"""Seconds between two attempts."""


class Lock:
    """A lock in a file of its own, which holds nothing; a link in its place is refused, never emptied."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self, wait: float = 0.0) -> None:
        """Take the lock; nothing happens where this object has it."""
        end = time.monotonic() + wait
        while self._descriptor is None and not self._attempt():
            left = end - time.monotonic()
            if left <= 0:
                raise HeldError(str(self._path))
            time.sleep(min(_PAUSE, left))

    def _attempt(self) -> bool:
        """Lock the file, unless somebody else has it; whether it is locked."""
        while True:
            descriptor = open_file(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if not self._locks(descriptor):
                    return False
                if self._is_file(descriptor):
                    self._descriptor = descriptor
                    return True
            finally:
                if self._descriptor is None:
                    os.close(descriptor)

    def _locks(self, descriptor: int) -> bool:
        try:
            return _lock(descriptor)
        except OSError as error:
            number = errno.ENOLCK if error.errno in _NO_LOCK else error.errno
            raise OSError(number, os.strerror(number or 0), str(self._path)) from None

    def _is_file(self, descriptor: int) -> bool:
        """Whether the locked file still has the name: its last holder may have removed it meanwhile."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(descriptor), self._path.lstat())
        return False

    def release(self, *, remove: bool = False) -> None:
        """Let others in; nothing happens where the lock is not held."""
        if self._descriptor is not None:
            if remove:
                self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    @contextmanager
    def held(self, wait: float = 0.0) -> Iterator[None]:
        """Hold the lock for a block; arguments and errors as of :meth:`acquire`."""
        self.acquire(wait)
        try:
            yield
        finally:
            self.release()
