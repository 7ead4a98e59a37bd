"""What is said of a written file, in accounting/ and in run.json. Readers import it without Beam."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FileRecord:
    """A file that was written."""

    path: str  # relative to the output directory, with forward slashes
    size: int  # bytes
    sha256: str  # of the content, hexadecimal
    rows: int  # rows in it

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> FileRecord:
        """The file of :meth:`as_record`.

        Raises:
            LookupError, TypeError, ValueError: the record is of something else.
        """
        return cls(str(record["path"]), int(record["bytes"]), str(record["sha256"]), int(record["rows"]))

    def as_record(self) -> dict[str, object]:
        """For run.json."""
        return {"path": self.path, "bytes": self.size, "sha256": self.sha256, "rows": self.rows}
