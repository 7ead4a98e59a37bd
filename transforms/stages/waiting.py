"""A value in memory, or its place: a file on this disk holds it until a later step needs it.

The local runner keeps all elements between two steps in memory. Columns of reports wait for their duplicates,
counts for the estimate of their epoch. Large ones go to a file instead, and only their place is passed on.
Only for runners whose steps share a disk.
"""

from __future__ import annotations

import io
import os
import pickle
import secrets
import zlib
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from apache_beam import coders

from ldpbeam.errors import LdpError, disk_errors
from ldpbeam.file_version import FileVersion

from ..sources.stored_file import printable

_VALUE, _PLACE = b"v", b"p"

Held = TypeVar("Held")


@dataclass(frozen=True)
class Spill:
    """When and where values wait on disk."""

    folder: str
    above: int


class Place:
    """Where a value is on this disk. It is small."""


class WaitingValue(Generic[Held]):
    """A value in memory, or its :class:`Place`."""

    __slots__ = ("held",)

    def __init__(self, held: Held) -> None:
        self.held = held


class WaitingCoder(coders.Coder):
    """A mark, then the value as its own coder encodes it, or its pickled place; no file is read."""

    values: Any
    """Coder of the values."""
    waiting: type[WaitingValue[Any]]
    """What is decoded."""

    def encode(self, value: WaitingValue[Any]) -> bytes:
        """Bytes of the value, or of its place."""
        if isinstance(value.held, Place):
            return _encoded_place(value.held)
        encoded: bytes = self.values.encode(value.held)
        return _VALUE + encoded

    def decode(self, encoded: bytes) -> Any:
        rest = encoded[1:]
        if encoded.startswith(_PLACE):
            return self.waiting(pickle.loads(rest))  # noqa: S301 - a step of the same run has written it
        return self.waiting(self.values.decode(rest))

    def estimate_size(self, value: WaitingValue[Any]) -> int:
        """Number of bytes; the value is not encoded to find it."""
        if isinstance(value.held, Place):
            return len(_encoded_place(value.held))
        size: int = self.values.estimate_size(value.held)
        return len(_VALUE) + size


def _encoded_place(place: Place) -> bytes:
    return _PLACE + pickle.dumps(place, pickle.HIGHEST_PROTOCOL)


class Contents(Enum):
    """Two parts of an error message: the kind of file, and the event until which it must not change."""

    COLUMNS = ("a file of reports", "they were counted")
    COUNTS = ("a file of counts", "its epoch was estimated")


class SpillFile(NamedTuple):
    """A file that one step has written: nobody else writes to it."""

    path: str
    contents: Contents


StoredFile: TypeAlias = SpillFile | FileVersion
"""A file of a step, or one of the input."""


class FileWriter:
    """Appends to a file of its own, which only this user may read; it is made by the first write."""

    def __init__(self, folder: str, contents: Contents) -> None:
        self.file, self.size = SpillFile(f"{folder}/{secrets.token_hex(8)}", contents), 0
        self._folder = folder
        self._descriptor: int | None = None

    def write(self, content: memoryview) -> int:
        """Append bytes; give their offset in the file."""
        begin = self.size
        with disk_errors(default=self.file.path):
            if self._descriptor is None:
                os.makedirs(self._folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - Beam paths are text
                self._descriptor = os.open(self.file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            while content:
                written = os.write(self._descriptor, content)
                self.size += written
                content = content[written:]
        return begin

    def close(self) -> None:
        """Nothing more is written; the file is read by its name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class FileReader:
    """Reads stretches of files, one file open at a time, and checks each before anybody sees it."""

    def __init__(self) -> None:
        self._file: StoredFile | None = None
        self._opened: io.FileIO | None = None

    def read(self, file: StoredFile, offset: int, into: memoryview, checksum: int) -> None:
        """Fill ``into`` with the bytes that begin at an offset."""
        opened = self._open(file)
        opened.seek(offset)
        left = into
        while left:
            count = opened.readinto(left)
            if not count:
                break
            left = left[count:]
        if isinstance(file, FileVersion):
            sound = FileVersion.of(file.path, os.fstat(opened.fileno())) == file
        else:
            sound = zlib.crc32(into) == checksum
        if left or not sound:
            raise _changed(file)

    def close(self) -> None:
        """Close what is open."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _open(self, file: StoredFile) -> io.FileIO:
        if self._opened is None or file != self._file:
            self.close()
            try:
                self._file, self._opened = file, io.FileIO(file.path)
            except OSError as error:
                if isinstance(file, FileVersion) or isinstance(error, FileNotFoundError):
                    raise _changed(file) from None
                raise
        return self._opened


def _changed(file: StoredFile) -> LdpError:
    if isinstance(file, SpillFile):
        what, when = file.contents.value
        return LdpError(
            "E-RUN-FILES",
            f"{what} was changed or taken away before {when}",
            where=printable(file.path),
            remedy="Keep others away from the output, and run again; earlier results are as they were.",
        )
    return LdpError(
        "E-RUN-FILES",
        "a file of reports was changed or taken away while the run was reading it",
        where=printable(file.path),
        remedy="Run again when nobody writes to it any more; earlier results are as they were.",
    )
