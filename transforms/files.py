"""Files that are there whole or not at all: what every sink writes through."""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass

from apache_beam.io.filesystems import FileSystems

__all__ = ["FileRecord", "publish", "sync_folder"]


@dataclass(frozen=True)
class FileRecord:
    """A file that was written.

    Attributes:
        path: relative to the output directory, with forward slashes.
        size: bytes.
        sha256: of the content, hexadecimal.
        rows: rows in it.
    """

    path: str
    size: int
    sha256: str
    rows: int

    def as_record(self) -> dict[str, object]:
        """For run.json."""
        return {"path": self.path, "bytes": self.size, "sha256": self.sha256, "rows": self.rows}


def sync_folder(folder: str) -> None:
    """Force to disk which names a local folder holds."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def publish(output: str, name: str, content: bytes, rows: int = 0) -> FileRecord:
    """Put a whole file in place: temporary file, fsync, rename, fsync of the folder.

    Args:
        output: output directory, local or of any file system that Beam knows.
        name: path below it.
        content: bytes.
        rows: for the record.
    """
    path = FileSystems.join(output, *name.split("/"))
    folder = FileSystems.split(path)[0]
    temporary = f"{path}.{secrets.token_hex(4)}.tmp"
    if "://" in output:
        # Object stores make an object visible only when it is closed; there is nothing to sync.
        with FileSystems.create(path) as handle:
            handle.write(content)
    else:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - Beam paths are text
        try:
            with open(temporary, "wb") as handle:  # noqa: PTH123 - as above
                handle.write(content)
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(temporary, path)  # noqa: PTH105 - as above
        finally:
            if os.path.exists(temporary):  # noqa: PTH110 - as above
                os.remove(temporary)  # noqa: PTH107 - as above
        sync_folder(folder)
    return FileRecord(name, len(content), hashlib.sha256(content).hexdigest(), rows)
