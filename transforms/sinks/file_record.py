"""What is said of a written file, in accounting/ and in run.json. Readers import it without Beam."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class FileRecord:
    path: str  # relative to the output directory, with forward slashes
    size: int  # bytes
    sha256: str  # of the content, hexadecimal
    rows: int  # rows in it

    KEYS: ClassVar[Mapping[str, str]] = {"size": "bytes"}
