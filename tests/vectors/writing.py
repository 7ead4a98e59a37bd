"""How every folder of vectors is written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def rewrite(folder: Path, contents: Iterable[tuple[str, str]]) -> None:
    """Write every file, by name and text, and remove those of protocols that are gone."""
    folder.mkdir(exist_ok=True)
    written = dict(contents)
    for path in folder.glob("*.json"):
        if path.name not in written:
            path.unlink()
    for name, text in written.items():
        (folder / name).write_text(text, "ascii")
