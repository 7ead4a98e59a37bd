"""Text for a terminal, a log, a page: what somebody else wrote, made safe to show; a number with its noun."""

from __future__ import annotations

import unicodedata

SHOWN = 2000
"""Longest text shown, in characters."""

_JOINERS = "\u200c\u200d"


def clean(text: str, limit: int = SHOWN) -> str:
    """Make untrusted text safe to *show*: one line, bounded, no control or direction characters."""
    shown = "".join(
        "\ufffd"
        if unicodedata.category(char) in ("Cc", "Cf", "Cn", "Cs", "Zl", "Zp") and char not in _JOINERS
        else char
        for char in text[: limit + 1]
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def plural(value: int, noun: str) -> str:
    """A number with its noun, which is given in the singular: `1 epoch` and `1,234 epochs`."""
    return f"{value:,} {noun if value == 1 else noun + 's'}"
