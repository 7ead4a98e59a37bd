"""What a row of a table is worth as a report: decided for each value as Python has it, one by one."""

from __future__ import annotations

from typing import Any


def whole(value: Any) -> int | None:
    """The whole number that a value is or spells; None for anything else."""
    if isinstance(value, str):
        digits = value[1:] if value[:1] == "-" else value
        return int(value) if 0 < len(digits) <= 38 and all(sign in "0123456789" for sign in digits) else None
    return None if value is None else int(value)


def word(value: Any) -> int | None:
    """An id: 64 bits, which a number with a sign has as well."""
    number = whole(value)
    return number % 2**64 if number is not None and -(2**63) <= number < 2**64 else None


def epoch(value: Any) -> int | None:
    """An epoch: 64 bits with a sign."""
    number = whole(value)
    return number if number is not None and -(2**63) <= number < 2**63 else None


def row(values: dict[str, Any]) -> tuple[int, int, int, bytes] | None:
    """(digest, epoch, report id, payload); None where one of them is missing."""
    found = word(values["digest"]), epoch(values["epoch"]), word(values["report_id"]), values["payload"]
    return None if None in found else found  # type: ignore[return-value]
