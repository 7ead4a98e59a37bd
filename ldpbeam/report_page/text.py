"""Numbers and untrusted text as the page shows them."""

from __future__ import annotations

import math
from typing import Any

from ldpbeam.text import clean

LABEL_LIMIT = 60
"""Longest label shown, in characters; a label is whatever somebody wrote."""

DASH = "–"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def clean_tree(node: Any) -> Any:
    """Apply `clean` to every string, keys included, of a parsed JSON document."""
    if isinstance(node, str):
        return clean(node)
    if isinstance(node, list):
        return [clean_tree(item) for item in node]
    if isinstance(node, dict):
        return {clean(str(key)): clean_tree(item) for key, item in node.items()}
    return node


def count(value: int) -> str:
    return f"{value:,}"


def decimals(scale: float | None) -> int:
    """How many decimals show two digits of a standard error `scale`."""
    if scale is None or not math.isfinite(scale) or scale <= 0:
        return 2
    return min(8, max(1, 1 - math.floor(math.log10(scale))))


def share(value: float | None, scale: float | None = None) -> str:
    """A frequency as a percentage, rounded to two digits of its standard error `scale`."""
    if value is None or not math.isfinite(value):
        return DASH
    digits = decimals(scale * 100 if scale else abs(value) * 10 or None)
    return f"{value * 100:,.{digits}f} %".replace("-", "−")


def points(error: float) -> str:
    """A difference of frequencies, in percentage points."""
    return share(error, error).removesuffix(" %") + " points"


def plain(value: float | None, scale: float | None = None) -> str:
    """A mean (no percentage), rounded to two digits of its standard error."""
    if value is None or not math.isfinite(value):
        return DASH
    return f"{value:,.{decimals(scale)}f}".replace("-", "−")


def power(value: float | None) -> str:
    """A small positive number as 2.3 × 10⁻⁵."""
    if value is None or not math.isfinite(value):
        return DASH
    if value == 0 or 0.1 <= abs(value) < 10_000:
        return f"{value:.3g}".replace("-", "−")
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPT)}".replace("-", "−")


def duration(seconds: float | None) -> str:
    """A length of time in the largest unit that keeps it readable."""
    if seconds is None or seconds < 0:
        return DASH
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size and (seconds / size).is_integer():
            return f"{int(seconds // size)} {unit}"
    return f"{seconds:.3g} s" if seconds < 600 else f"{seconds / 60:.3g} min"
