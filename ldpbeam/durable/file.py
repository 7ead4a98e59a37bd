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

_AT_ONCE = 1 << 20
"""Parts are written so many bytes at a time, or more where a part is larger."""


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
        for part in _gathered(parts):
            handle.write(part)


def _gathered(parts: Iterable[Any]) -> Iterator[Any]:
    """The same bytes in fewer parts: small ones joined, large ones as they are."""
    small: list[Any] = []
    size = 0
    for part in parts:
        if small and size + len(part) > _AT_ONCE:
            yield small[0] if len(small) == 1 else b"".join(small)
            small, size = [], 0
        small.append(part)
        size += len(part)
    if small:
        yield small[0] if len(small) == 1 else b"".join(small)
