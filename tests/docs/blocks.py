"""Blocks of Python in a page, and the text that follows one: what it prints."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def printed_by(source: str, names: dict[str, Any]) -> str:
    """What a block prints; the names that it makes stay for the next one."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, "page", "exec"), names)
    return out.getvalue()


def executed(page: Path, names: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Each block in order, as a person would type them: its source, what the page shows, what it prints."""
    text = page.read_text("utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) == text.count("```python") >= 4
    for source, shown in blocks:
        yield source, shown, printed_by(source, names)
