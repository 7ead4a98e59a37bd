"""Files that are wholly there or wholly not, whatever stops the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ldpbeam.errors import DeviceError, disk_error

_TEMPORARY = ".tmp"


def make_folder(path: Path) -> None:
    """Make a folder, mode 0700, and those above it; durable when this returns."""
    if exists(path):
        return
    make_folder(path.parent)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    settle(path.parent)


def exists(path: Path) -> bool:
    """Whether there is such a file or folder."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    return True


def read(path: Path) -> bytes | None:
    """A file's content; None where there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        parts = []
        while part := os.read(descriptor, 1 << 20):
            parts.append(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def write(path: Path, content: bytes) -> None:
    """Put ``content`` in place of the file, mode 0600; durable when this returns.

    One writer at a time, which holds the lock of the state folder.

    Raises:
        OSError: it could not be made durable. The old file is there, or the new one; nothing between.
    """
    temporary = path.with_name(path.name + _TEMPORARY)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)
    settle(path.parent)


def settle(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def settle_above(folder: Path) -> None:
    """Make durable that a folder is where it is.

    Another process may have made it, or one above it, and ended before it had done so. What this one may not
    open somebody else made, and what is on another file system is no name in this one.
    """
    device = os.stat(folder).st_dev
    for above in folder.absolute().parents:
        if os.stat(above).st_dev != device:
            break
        with suppress(PermissionError):
            settle(above)


def rename(path: Path, new: Path) -> None:
    """Rename a file; durable with the next :func:`settle` of its folder."""
    os.replace(path, new)


def remove(path: Path) -> None:
    """Remove a file, where it is there; durable with the next :func:`settle` of its folder."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def remove_temporary(folder: Path) -> None:
    """Remove what writers left that ended before they had put it in place."""
    for name in listed(folder):
        if name.endswith(_TEMPORARY):
            remove(folder / name)


def listed(folder: Path) -> list[str]:
    """The names in a folder."""
    return os.listdir(folder)


@contextmanager
def said(where: Path) -> Iterator[None]:
    """Say what a person can do about a disk that refuses.

    Raises:
        DeviceError: in place of such an OSError; others pass.
    """
    try:
        yield
    except OSError as error:
        found = disk_error(error, str(where))
        if found is None:
            raise
        raise DeviceError(found.code, found.message, where=found.where, remedy=found.remedy) from error
