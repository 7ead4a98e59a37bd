"""The number that a person gives, exactly: the rule of docs/wire.md, which every client follows."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any

LONGEST = 400
"""Most characters of a number's text, blanks around it left out."""

_TEXT = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,4}))?", re.ASCII)


def exact_number(given: Any) -> Fraction:
    """The number that a text, an integer or a float stands for, as a fraction."""
    if isinstance(given, str):
        return _of_text(given)
    if isinstance(given, bool):
        raise ValueError("a truth value, neither a number nor a text")
    if isinstance(given, Integral):
        return Fraction(int(given))
    if isinstance(given, float):
        return _of_text(float.__repr__(given))
    if isinstance(given, Rational):
        return Fraction(int(given.numerator), int(given.denominator))
    if isinstance(given, (Real, Decimal)):  # floats of other widths, which print their shortest decimal too
        return _of_text(str(given))
    raise ValueError(f"of type {type(given).__name__}, neither a number nor a text")


def _of_text(text: str) -> Fraction:
    trimmed = text.strip(" \t")
    match = _TEXT.fullmatch(trimmed) if len(trimmed) <= LONGEST else None
    if match is None or not (match[2] or match[3]):
        raise ValueError("not a finite number in decimal digits, such as 20, 0.5 or 1e-3")
    after = match[3] or ""
    digits = Fraction(int(match[2] + after)) * Fraction(10) ** (int(match[4] or 0) - len(after))
    return -digits if match[1] == "-" else digits
