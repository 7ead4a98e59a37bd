"""What is estimated, as people read it: frequencies in percentage points, a mean in its counter's units."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds, Needs
from ldpbeam.planning.statements import points


class Quantity(ABC):
    """How the numbers of one kind of need are written.

    Attributes:
        unit: of axes and columns.
        scale: numbers of a table and of an axis per unit of :class:`Needs`.
    """

    unit: str
    scale: float

    @property
    @abstractmethod
    def subject(self) -> str:
        """What is asked about."""

    @abstractmethod
    def number(self, error: float) -> str:
        """An error without its unit, as a table has it."""

    @abstractmethod
    def error(self, error: float) -> str:
        """An error with its unit."""

    @property
    @abstractmethod
    def levels(self) -> dict[str, float]:
        """Errors that a chart marks, besides the one that is wanted."""


class Frequencies(Quantity):
    """Of k values."""

    unit = "points"
    scale = 100.0

    def __init__(self, needs: FrequencyNeeds) -> None:
        self.values = needs.values

    @property
    def subject(self) -> str:
        """How many values."""
        return f"{self.values:,} values"

    def number(self, error: float) -> str:
        """In percentage points."""
        return points(error)

    def error(self, error: float) -> str:
        """In percentage points."""
        return f"{points(error)} points"

    @property
    def levels(self) -> dict[str, float]:
        """The frequency of a value if all are alike."""
        return {"1/k": 1 / self.values}


class MeanQuantity(Quantity):
    """Of a counter 0 .. m."""

    unit = "units of the counter"
    scale = 1.0

    def __init__(self, needs: MeanNeeds) -> None:
        self.maximum = needs.maximum

    @property
    def subject(self) -> str:
        """The range."""
        return f"the mean of 0 .. {self.maximum:,}"

    def number(self, error: float) -> str:
        """Three digits, and all of those before the point."""
        return f"{error:.3g}" if error < 1000 else f"{error:,.0f}"

    def error(self, error: float) -> str:
        """With what it is of the range."""
        return f"{self.number(error)} ({self.part(error)} % of the range)"

    def part(self, error: float) -> str:
        """In per cent of the range."""
        return points(error / self.maximum)

    @property
    def levels(self) -> dict[str, float]:
        """An interval that holds the whole range."""
        return {"half of the range": self.maximum / 2}


def quantity(needs: Needs) -> Quantity:
    """Of a need.

    Raises:
        TypeError: it is a need of another kind.
    """
    if isinstance(needs, FrequencyNeeds):
        return Frequencies(needs)
    if isinstance(needs, MeanNeeds):
        return MeanQuantity(needs)
    raise TypeError(f"{type(needs).__name__} is neither for frequencies nor for a mean")
