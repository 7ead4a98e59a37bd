"""A stored file, read with patience: what cannot be read is tried again, and is not taken for damaged."""

from __future__ import annotations

import io
import os
import stat
import time
from contextlib import suppress
from typing import Any

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

_FIRST_PAUSE = 0.1  # seconds before the second attempt, five times as long before each further one


def printable(path: str) -> str:
    """A path as text that every table and message can hold: bytes that are no UTF-8 are written ``\\xff``."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class StoredFile(io.RawIOBase):
    """The bytes of a regular file."""

    def __init__(self, path: str, attempts: int) -> None:
        super().__init__()
        self._path = path
        self._attempts = max(attempts, 1)
        self._at = 0
        self._handle: Any = None
        self.unreadable = False
        self.size = 0
        self.modified: int | None = None
        self._again(self._open)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move; nothing is read."""
        at = offset + (0, self._at, self.size)[whence]
        if at < 0:
            raise ValueError("a position before the beginning")
        self._at = at
        return at

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` bytes."""
        return bytes(self._again(lambda: self._read(size)))

    def readinto(self, buffer: Any) -> int:
        """As :meth:`read`, into writable memory: fills it, or ends with the file."""
        return int(self._again(lambda: self._read_into(memoryview(buffer))))

    def close(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None
        super().close()

    def _again(self, action: Any) -> Any:
        pause = _FIRST_PAUSE
        for attempt in range(1, self._attempts + 1):
            try:
                return action()
            except OSError:
                self._drop()
                if attempt == self._attempts:
                    self.unreadable = True
                    raise
            time.sleep(pause)
            pause *= 5
        return b""

    def _drop(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(OSError):
                handle.close()

    def _open(self) -> None:
        if "://" not in self._path:
            status = os.stat(self._path)  # noqa: PTH116 - Beam paths are text
            if not stat.S_ISREG(status.st_mode):
                # A pipe or a device would be waited for, or never end.
                raise OSError(f"not a regular file: {printable(self._path)}")
            self.modified = int(status.st_mtime)
        elif self.modified is None:
            self.modified = _modified(self._path)
        self._handle = FileSystems.open(self._path, compression_type=CompressionTypes.UNCOMPRESSED)
        if not self.size:
            self.size = self._handle.seek(0, 2) or self._handle.tell()
            self._handle.seek(0)

    def _here(self) -> Any:
        """The handle, at the position; None at the end of the file."""
        if self._at >= self.size:
            return None
        if self._handle is None:
            self._open()
        if self._handle.tell() != self._at:
            self._handle.seek(self._at)
        return self._handle

    def _read(self, size: int) -> bytes:
        handle = self._here()
        if handle is None:
            return b""
        data = handle.read() if size < 0 else handle.read(size)
        self._at += len(data)
        return bytes(data)

    def _read_into(self, buffer: memoryview) -> int:
        handle, filled = self._here(), 0
        while handle is not None and filled < len(buffer):
            count = handle.readinto(buffer[filled:])
            if not count:
                break
            filled += count
        self._at += filled
        return filled


def _modified(path: str) -> int | None:
    """When an object was written, as its store says."""
    try:
        return int(FileSystems.get_filesystem(path).last_updated(path))
    except (OSError, NotImplementedError, AttributeError, TypeError, ValueError):
        return None
