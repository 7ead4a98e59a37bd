"""Files that are there whole or not at all: what every sink writes through."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems

from ldpbeam.durable.file import PUBLIC, temporary_name, write_file
from ldpbeam.durable.folder import make_folder, sync_folder
from ldpbeam.errors import disk_error, disk_errors

from ..wildcards import at_least
from .file_record import FileRecord


class _Gate:
    """Lets a process that was told to end wait for the files that it is writing, and write no others."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._open = True

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Around a file; once the gate is closed nobody comes in, nor back."""
        with self._changed:
            while not self._open:
                self._changed.wait()
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def close(self, patience: float) -> None:
        """Wait until nobody is inside, at most so many seconds."""
        deadline = time.monotonic() + patience
        with self._changed:
            self._open = False
            while self._inside and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)


_GATE = _Gate()


def refuse_writing(patience: float) -> None:
    """Finish the files that are being written and begin no other, for the rest of this process's life."""
    _GATE.close(patience)


def publish(output: str, name: str, content: bytes, rows: int = 0) -> FileRecord:
    """Put a whole file in place: temporary file, fsync, rename, fsync of the folder."""
    path = FileSystems.join(output, *name.split("/"))
    if "://" in output:
        # Object stores make an object visible only when it is closed; there is nothing to sync.
        with FileSystems.create(path) as handle:
            handle.write(content)
    else:
        _put(path, content)
    return FileRecord(name, len(content), hashlib.sha256(content).hexdigest(), rows)


def _put(path: str, content: bytes) -> None:
    with _GATE.passing(), disk_errors(path):
        make_folder(Path(FileSystems.split(path)[0]), 0o777)
        write_file(path, [content], PUBLIC)


def link(output: str, name: str, target: str, content: bytes, *, sync: bool = True) -> None:
    """Let a further name stand for a file that was published, in place of what it stood for before."""
    if "://" in output:
        publish(output, name, content)
        return
    path, existing = (FileSystems.join(output, *part.split("/")) for part in (name, target))
    folder = FileSystems.split(path)[0]
    temporary = temporary_name(path)
    with _GATE.passing():
        make_folder(Path(folder), 0o777)
        try:
            os.link(existing, temporary)
            os.replace(temporary, path)  # noqa: PTH105 - as above
            if sync:
                sync_folder(folder)
            return
        except OSError as error:
            refusal = disk_error(error, path)
            if refusal is not None and refusal.code == "E-DISK-FULL":
                raise refusal from None
        finally:
            # Also where both names stood for one file already: renaming then does nothing at all.
            with suppress(FileNotFoundError):
                os.remove(temporary)  # noqa: PTH107 - as above
    publish(output, name, content)


def listed(output: str, folder: str) -> list[FileMetadata]:
    """The files in a folder of an output, whatever the path of the output; none where there is no folder."""
    if "://" in output:
        inside = FileSystems.join(output, folder, "*").removesuffix("*")
        matches = FileSystems.match([f"{at_least(inside)}*"])[0].metadata_list
        return [file for file in matches if file.path.startswith(inside)]
    try:
        with os.scandir(FileSystems.join(output, folder)) as entries:
            return [FileMetadata(entry.path, entry.stat().st_size) for entry in entries if entry.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def remove(output: str, name: str) -> None:
    """Take a file away; nothing happens where there is none."""
    path = FileSystems.join(output, *name.split("/"))
    if "://" in output:
        if FileSystems.exists(path):
            FileSystems.delete([path])
        return
    with suppress(FileNotFoundError):
        os.remove(path)  # noqa: PTH107 - as above
        sync_folder(FileSystems.split(path)[0])
