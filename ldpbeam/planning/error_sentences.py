"""The sentences about errors, each written once; promise/statements.py has those about promises."""

from __future__ import annotations


def points(frequency: float) -> str:
    """A frequency in percentage points, for people, in three digits."""
    number = 100 * frequency
    return f"{number:.3g}" if number < 100 else ">100" if number > 100 else "100"


def interval(about: str, widest: float, half_width: float, values: int, even: float) -> str:
    """The half-widths of the intervals of an epoch's frequencies, for the widest and for an even share.

    Args:
        about: what is assumed about the frequencies: :data:`RANKED`, or empty.
        widest: frequency of the value with the widest interval, in [0, 1].
        half_width: of its 95 % interval, a frequency.
        values: k, how many values the domain has.
        even: half-width for a value of frequency 1/k, a frequency.
    """
    return (
        f"±{points(half_width)} points (95 %) for a value of {points(widest)} %, the widest{about}; "
        f"±{points(even)} for a value of 1/{values:,}"
    )


RANKED = " where frequencies fall like 1/rank"
"""Where nobody said which frequencies to expect."""
