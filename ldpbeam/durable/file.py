"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from ldpbeam.durable.folder import open_file, sync_folder

PUBLIC, GROUP, PRIVATE = 0o666, 0o640, 0o600
"""Permissions of a new file, from which the process's umask is taken: as it has them, at most the group's,
the owner's."""


def temporary_name(path: Path | str) -> str:
    """A name beside a path that nobody can foretell: ``PATH.XXXXXXXX.tmp``, with eight random digits."""
    return f"{path}.{secrets.token_hex(4)}.tmp"


@contextmanager
def replacing(path: Path | str, mode: int, *, force: bool = True) -> Iterator[BinaryIO]:
    """A file that takes the name ``path`` when the block ends, and vanishes when the block fails."""
    temporary = temporary_name(path)

    def private(name: str, flags: int) -> int:
        return open_file(name, flags, mode)

    handle = open(temporary, "xb", opener=private)  # noqa: SIM115 - closed below, before the file is renamed
    try:
        with handle:
            yield cast(BinaryIO, handle)
            handle.flush()
            if force:
                os.fsync(handle.fileno())
        os.replace(temporary, path)  # noqa: PTH105 - Beam paths are text
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)  # noqa: PTH108 - as above
        raise
    if force:
        sync_folder(os.path.dirname(path) or ".")  # noqa: PTH120 - as above


def write_file(path: Path | str, parts: Iterable[Any], mode: int) -> None:
    """Put a whole file in place; on disk when this returns."""
    with replacing(path, mode) as handle:
        handle.writelines(parts)
