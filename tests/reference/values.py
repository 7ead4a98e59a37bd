"""What docs/wire.md says of a value, word by word and slowly: digit strings and integers, no fractions."""

from __future__ import annotations

from math import isfinite
from typing import Any


def shortest(number: float) -> str:
    """The fewest digits that read back as the same float."""
    for digits in range(1, 18):
        text = f"{number:.{digits - 1}e}"
        if float(text) == number:
            return text
    raise ValueError("no finite float")


def digits(text: str) -> int | None:
    """The integer that decimal digits stand for, figure by figure; None for anything else."""
    total = 0
    for sign in text:
        if sign not in "0123456789":
            return None
        total = 10 * total + "0123456789".index(sign)
    return total


def signed(text: str) -> tuple[str, bool]:
    """A text without its sign, and whether that is a minus."""
    return (text[1:], text[0] == "-") if text and text[0] in "+-" else (text, False)


def ratio(text: str) -> tuple[int, int] | None:
    """A text as numerator and denominator, sign by sign; None where it is no number."""
    while text and text[0] in " \t":
        text = text[1:]
    while text and text[-1] in " \t":
        text = text[:-1]
    text, negative = signed(text) if len(text) <= 400 else ("?", False)
    mantissa, *powers = text.lower().split("e") if text.isascii() else ["?"]
    figures, below = signed(powers[0]) if powers else ("0", False)
    before, *rest = mantissa.split(".")
    after = rest[0] if rest else ""
    top, power = digits(before + after), digits(figures)
    well_formed = len(powers) < 2 and len(rest) < 2 and before + after and 1 <= len(figures) <= 4
    if not well_formed or top is None or power is None:
        return None
    bottom = 1
    for _ in after:
        bottom *= 10
    for _ in range(power):
        top, bottom = (top, bottom * 10) if below else (top * 10, bottom)
    return (-top if negative else top), bottom


def index(domain: dict[str, Any], given: Any) -> int | None:
    """The index that a value stands for, None where it is refused."""
    if isinstance(given, dict):
        at = given.get("index")
        return at if type(at) is int and 0 <= at < domain["size"] else None
    if domain["labels"] is not None:
        found: int | None = domain["other"] if isinstance(given, str) else None
        for at, label in enumerate(domain["labels"]):
            found = at if label == given else found
        return found
    if type(given) is float:
        given = shortest(given) if isfinite(given) else "nan"
    elif type(given) is int:
        given = str(given)
    number = ratio(given) if isinstance(given, str) else None
    if number is None:
        return None
    if domain["maximum"] is None:
        return next((at for at in range(domain["size"]) if at * number[1] == number[0]), None)
    return in_range(domain["size"], float(domain["maximum"]), *number)


def in_range(size: int, maximum: float, top: int, bottom: int) -> int:
    """The highest value of a range whose lower end a number reaches: found by halving, not by dividing."""
    end = ratio(shortest(maximum))
    assert end is not None
    whole = size * end[1] == end[0] + end[1]

    def beyond(value: int) -> int:
        """Above 0 where the number lies above the lower end of a value's part, 0 where it is that."""
        if whole:
            return 2 * top - (2 * value - 1) * bottom
        return top * size * end[1] - value * end[0] * bottom

    low, high = 0, size - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if beyond(middle) >= 0 else (low, middle - 1)
    half_way = whole and beyond(low) == 0
    return low - 1 if half_way and low % 2 else low
