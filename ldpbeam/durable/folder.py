"""Folders, and files opened at exactly the path that was given."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

_FLAGS = sum(getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"))
"""A process that is started does not inherit the file, a link is not followed, a pipe is not waited for."""

_REFUSES_LINKS = hasattr(os, "O_NOFOLLOW")

_FOLDERS_OPEN = hasattr(os, "O_DIRECTORY")
"""Whether a folder can be opened. Windows has no such call, and keeps names durable by itself."""


def make_folder(path: Path, mode: int = 0o700) -> None:
    """Make a folder and those above it; those that this call makes are durable when it returns."""
    if path.is_dir():
        return
    make_folder(path.parent, mode)
    with suppress(FileExistsError):
        path.mkdir(mode)
    if not path.is_dir():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    sync_folder(path.parent)


def sync_folder(folder: Path | str) -> None:
    """Force to disk which names a folder holds."""
    if not _FOLDERS_OPEN:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_lasting_folder(path: Path, mode: int = 0o700) -> None:
    """Make a folder, as :func:`make_folder` does; it and those above it are durable, whoever made them."""
    make_folder(path, mode)
    device = path.stat().st_dev
    for above in path.absolute().parents:
        if above.stat().st_dev != device:
            break
        with suppress(PermissionError):
            sync_folder(above)


def open_file(path: Path | str, flags: int, mode: int) -> int:
    """A descriptor of the regular file at a path; a link is not followed."""
    if not _REFUSES_LINKS and os.path.islink(path):  # noqa: PTH114 - Beam paths are text
        raise _no_file(path)
    try:
        descriptor = os.open(path, flags | _FLAGS, mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.ENXIO):
            raise _no_file(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _no_file(path)
    return descriptor


def file_size(path: Path) -> int | None:
    """Bytes of the regular file at a path; None where there is nothing."""
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(there.st_mode):
        raise _no_file(path)
    return there.st_size


def _no_file(path: Path | str) -> OSError:
    return OSError(errno.ELOOP, "a link or something else that is no file lies there", str(path))
