"""How YAML 1.1 and YAML 1.2 read a number, sign by sign from their specifications: without PyYAML."""

from __future__ import annotations

from fractions import Fraction

DIGITS = "0123456789"


def of(text: str, signs: str, base: int) -> int | None:
    """An integer in a base; None where another sign stands in it, or none at all."""
    total = 0
    for sign in text.lower():
        if sign not in signs:
            return None
        total = base * total + signs.index(sign)
    return total if text else None


def unsigned(text: str) -> tuple[str, int]:
    """A text without its sign, and 1 or -1."""
    if text[:1] == "-":
        return text[1:], -1
    return (text[1:] if text[:1] == "+" else text), 1


def fraction(text: str, *, signed_power: bool) -> Fraction | None:
    """A decimal with a point or a power; None for anything else."""
    mantissa, mark, power = text.lower().partition("e")
    figures, below = unsigned(power)
    if mark and (of(figures, DIGITS, 10) is None or (signed_power and power[:1] not in ("+", "-"))):
        return None
    before, point, after = mantissa.partition(".")
    digits = of(before + after, DIGITS, 10)
    if digits is None or not (point or mark):
        return None
    return Fraction(digits) * Fraction(10) ** ((int(figures) * below if mark else 0) - len(after))


def yaml_1_1(text: str) -> Fraction | None:
    """https://yaml.org/type/int.html and float.html, as PyYAML has them; None for what is no number."""
    plain, sign = unsigned(text)
    if not plain or plain[0] == "_":
        return None
    found: Fraction | int | None = None
    bare = plain.replace("_", "")
    parts = bare.split(":")
    if plain[:2] == "0b":
        found = of(bare[2:], "01", 2)
    elif plain[:2] == "0x":
        found = of(bare[2:], "0123456789abcdef", 16)
    elif len(parts) > 1:
        found = sexagesimal(parts, plain)
    elif plain[0] == "0" and len(plain) > 1 and "." not in plain:
        found = of(bare[1:], DIGITS[:8], 8)
    elif "." in plain:
        found = fraction(bare, signed_power=True) if "_" not in plain.partition("e")[2] else None
    else:
        found = of(bare, DIGITS, 10)
    return None if found is None else sign * Fraction(found)


def sexagesimal(parts: list[str], plain: str) -> Fraction | None:
    """190:20:30, and 190:20:30.15: no part but the first is above 59, and an integer begins with 1 to 9."""
    *whole, last = parts
    last, point, after = last.partition(".")
    numbers = [of(part, DIGITS, 10) for part in (*whole, last)]
    ends = [len(part) in (1, 2) and part < "6" for part in parts[1:]]
    if None in numbers or not all(ends[:-1]) or (not point and plain[0] == "0"):
        return None
    if any(number is None or number > 59 for number in numbers[1:]) or any(
        len(p) > 2 for p in (*whole[1:], last)
    ):
        return None
    total = Fraction(0)
    for number in numbers:
        total = total * 60 + (number or 0)
    tail = of(after, DIGITS, 10) if after else 0
    return None if tail is None else total + Fraction(tail, 10 ** len(after))


def yaml_1_2(text: str) -> Fraction | None:
    """https://yaml.org/spec/1.2.2/#103-core-schema; None for what is no number."""
    if text[:2] == "0o":
        found = of(text[2:], DIGITS[:8], 8)
        return None if found is None else Fraction(found)
    if text[:2] == "0x":
        found = of(text[2:], "0123456789abcdef", 16)
        return None if found is None else Fraction(found)
    plain, sign = unsigned(text)
    whole = of(plain, DIGITS, 10)
    if whole is not None:
        return Fraction(sign * whole)
    decimal = fraction(plain, signed_power=False)
    return None if decimal is None or plain[:1] == "e" else sign * decimal
