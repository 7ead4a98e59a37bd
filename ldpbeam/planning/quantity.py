"""What is estimated, as people read it: frequencies in percentage points, a mean in its counter's units."""

from __future__ import annotations

from dataclasses import dataclass

from ldpbeam.planning.error_sentences import points
from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds, Needs, Ordered, OrderedNeeds


@dataclass(frozen=True)
class Quantity:
    """How the numbers of one kind of need are written.

    Attributes:
        subject: what is asked about.
        unit: of axes and columns.
        levels: errors that a chart marks, besides the one that is wanted.
        length: of the range of numbers that it lies in; None of a share, which is written in points.
    """

    subject: str
    unit: str
    levels: dict[str, float]
    length: float | None = None

    @property
    def scale(self) -> float:
        """Numbers of a table and of an axis per unit of :class:`Needs`."""
        return 100.0 if self.length is None else 1.0

    def number(self, error: float) -> str:
        """An error without its unit, as a table has it: three digits, and all of those before the point."""
        if self.length is None:
            return points(error)
        return f"{error:.3g}" if error < 1000 else f"{error:,.0f}"

    def error(self, error: float) -> str:
        """An error with its unit, or with its part of the range."""
        if self.length is None:
            return f"{points(error)} points"
        return f"{self.number(error)} ({points(error / self.length)} % of the range)"


def quantity(needs: Needs) -> Quantity:
    """Of a need. The levels are those that are known without any device.

    Raises:
        TypeError: it is a need of another kind.
    """
    if isinstance(needs, FrequencyNeeds):
        return Quantity(f"{needs.values:,} values", "points", {"1/k": 1 / needs.values})
    half = {"half of the range": needs.whole / 2}
    if isinstance(needs, MeanNeeds):
        return Quantity(f"the mean of 0 .. {needs.maximum:,}", "units of the counter", half, needs.whole)
    if not isinstance(needs, OrderedNeeds):
        raise TypeError(f"{type(needs).__name__} is for no quantity that there is")
    values = f"{needs.values:,} values in order"
    if needs.asked is Ordered.SHARE:
        return Quantity(f"cumulative shares of {values}", "points", {"half of all": 0.5})
    return Quantity(f"the {needs.asked.value} of {values}", "units of the values", half, needs.length)
