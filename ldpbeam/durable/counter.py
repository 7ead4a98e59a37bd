"""A number in a file, which only grows.

The file has two places, of one block of a disk each. A new number goes to the place that does not hold the
newest one, so that a write that is cut off leaves the number before. A new number is not waited for: a loss
of power may leave the number before, which is never too large.

bytes   content of a place
8       the number, little-endian
32      SHA-256 of a label and the number
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from struct import pack, unpack

from ldpbeam.durable.errors import DamageError
from ldpbeam.durable.file import PRIVATE, write_file
from ldpbeam.durable.folder import open_file

_BLOCK = 4096
_SIZE = 40


class FileCounter:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._newest = 1
        """The place of the newest number."""

    def read(self) -> int | None:
        """The number; None where there is no file."""
        try:
            descriptor = open_file(self.path, os.O_RDONLY, PRIVATE)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as handle:
            content = handle.read(2 * _BLOCK)
        numbers = [(number, place) for place in (0, 1) if (number := _number(content, place)) is not None]
        if not numbers:
            raise DamageError("neither of its two places holds a number")
        number, self._newest = max(numbers)
        return number

    def write(self, number: int) -> None:
        """Put a larger number in, after :meth:`read`; it outlasts a kill, and the file a loss of power."""
        place, content = 1 - self._newest, _packed(number)
        with suppress(FileNotFoundError):
            descriptor = open_file(self.path, os.O_WRONLY, PRIVATE)
            try:
                os.lseek(descriptor, place * _BLOCK, os.SEEK_SET)
                os.write(descriptor, content)
            finally:
                os.close(descriptor)
            self._newest = place
            return
        blocks = [bytes(_BLOCK), bytes(_BLOCK)]
        blocks[place] = content.ljust(_BLOCK, b"\0")
        write_file(self.path, blocks, PRIVATE)
        self._newest = place


def _packed(number: int) -> bytes:
    content = pack("<Q", number)
    return content + sha256(b"ldpbeam counter\0" + content).digest()


def _number(content: bytes, place: int) -> int | None:
    packed = content[place * _BLOCK : place * _BLOCK + _SIZE]
    if len(packed) < _SIZE:
        return None
    (number,) = unpack("<Q", packed[:8])
    return int(number) if _packed(number) == packed else None
