"""Errors as people read them: frequencies in percentage points, a mean in its counter's units."""

from __future__ import annotations

from dataclasses import dataclass

from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds, Needs, Ordered, OrderedNeeds


def points(frequency: float) -> str:
    """A frequency in percentage points, for people, in three digits."""
    number = 100 * frequency
    return f"{number:.3g}" if number < 100 else ">100" if number > 100 else "100"


def interval(about: str, widest: float, half_width: float, values: int, even: float) -> str:
    """The half-widths of the intervals of an epoch's frequencies, for the widest and for an even share."""
    return (
        f"±{points(half_width)} points (95 %) for a value of {points(widest)} %, the widest{about}; "
        f"±{points(even)} for a value of 1/{values:,}"
    )


def interval_of_mean(half_width: str, worst: str) -> str:
    """The half-width of the interval of a mean, and that of the worst values where it is larger."""
    also = "" if worst == half_width else f", up to ±{worst} where half of them are 0 and half the largest"
    return f"±{half_width} (95 %) for values spread evenly{also}"


RANKED = " where frequencies fall like 1/rank"
"""Where nobody said which frequencies to expect."""


@dataclass(frozen=True)
class Quantity:
    subject: str
    length: float | None = None

    def number(self, error: float) -> str:
        """An error without its unit, as a table has it: three digits, and all of those before the point."""
        if self.length is None:
            return points(error)
        return f"{error:.3g}" if error < 1000 else f"{error:,.0f}"

    def error(self, error: float) -> str:
        if self.length is None:
            return f"{points(error)} points"
        return f"{self.number(error)} ({points(error / self.length)} % of the range)"


def quantity(needs: Needs) -> Quantity:
    if isinstance(needs, FrequencyNeeds):
        return Quantity(f"{needs.values:,} values")
    if isinstance(needs, MeanNeeds):
        return Quantity(f"the mean of 0 .. {needs.maximum:,}", needs.whole)
    if not isinstance(needs, OrderedNeeds):
        raise TypeError(f"{type(needs).__name__} is for no quantity that there is")
    values = f"{needs.values:,} values in order"
    if needs.asked is Ordered.SHARE:
        return Quantity(f"cumulative shares of {values}")
    return Quantity(f"the {needs.asked.value} of {values}", needs.length)
