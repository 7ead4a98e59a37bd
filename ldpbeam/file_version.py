"""A file as it was at some moment, so that who reads it once more notices whether it is still the same."""

from __future__ import annotations

import os
from typing import NamedTuple


class FileVersion(NamedTuple):
    """A file of this machine.

    Attributes:
        path: its name; bytes that are no UTF-8 as surrogates.
        device, inode: which file it is, whatever its name.
        size: bytes.
        modified: nanoseconds since 1970.
    """

    path: str
    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, path: str, status: os.stat_result) -> FileVersion:
        """What the system says of the file at ``path``."""
        return cls(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
