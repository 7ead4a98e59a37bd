"""Text for a terminal, a log, a page: what somebody else wrote, made safe to show; a number with its noun."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import takewhile

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


def meant(text: str, names: Iterable[str]) -> str | None:
    """The name that a text differs from by case, spaces or one letter; None where there is none."""
    plain = _plain(text)
    found = None
    for name in names:
        other = _plain(name)
        if other == plain:
            return name
        if found is None and _one_letter_apart(*sorted((plain, other), key=len)):
            found = name
    return found


def _plain(text: str) -> str:
    return "".join(text.split()).casefold()


def _one_letter_apart(short: str, long: str) -> bool:
    """Whether a letter that is no digit is changed, missing or too many, in a word of at least four."""
    if len(long) - len(short) > 1 or len(long) < 4 or re.findall(r"\d", short) != re.findall(r"\d", long):
        return False
    same = sum(takewhile(bool, map(str.__eq__, short, long)))
    return short[same + (len(short) == len(long)) :] == long[same + 1 :]


def plural(value: int, noun: str) -> str:
    """A number with its noun, which is given in the singular: `1 epoch` and `1,234 epochs`."""
    return f"{value:,} {noun if value == 1 else noun + 's'}"
