"""The rows of an engine's file, read with other means than the engine's, also while it works."""

from __future__ import annotations

import sqlite3
from pathlib import Path

ENGINE, EPOCHS, LANDED, REFUSED, CONTENT = 1, 2, 4, 5, 7
"""Numbers of tables."""


def kept(output: Path, table: int) -> dict[int, bytes]:
    """Content of the rows of a table by key, in the order of keys; none before there is a file."""
    path = output / "landing" / "engine.sqlite"
    if not path.is_file() or not path.stat().st_size:
        return {}
    base = sqlite3.connect(path, timeout=60)
    try:
        where = (table << 56, (table + 1 << 56) - 1)
        found = base.execute("SELECT key, content FROM rows WHERE key BETWEEN ? AND ? ORDER BY key", where)
        return {key - where[0]: content for key, content in found}
    finally:
        base.close()
