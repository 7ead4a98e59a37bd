"""What is estimated, as people read it: frequencies in percentage points, a mean in its counter's units."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ldpbeam.planning.error_sentences import points
from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds, Needs, Ordered, OrderedNeeds


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

    def __init__(self, needs: FrequencyNeeds | OrderedNeeds) -> None:
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


class Place(Quantity, ABC):
    """A place in a range of numbers."""

    scale = 1.0

    def __init__(self, length: float) -> None:
        self.length = length

    def number(self, error: float) -> str:
        """Three digits, and all of those before the point."""
        return f"{error:.3g}" if error < 1000 else f"{error:,.0f}"

    def error(self, error: float) -> str:
        """With what it is of the range."""
        return f"{self.number(error)} ({self.part(error)} % of the range)"

    def part(self, error: float) -> str:
        """In per cent of the range."""
        return points(error / self.length)

    @property
    def levels(self) -> dict[str, float]:
        """An interval that holds the whole range."""
        return {"half of the range": self.length / 2}


class MeanQuantity(Place):
    """Of a counter 0 .. m."""

    unit = "units of the counter"

    def __init__(self, needs: MeanNeeds) -> None:
        super().__init__(needs.maximum)

    @property
    def subject(self) -> str:
        """The range."""
        return f"the mean of 0 .. {self.length:,.0f}"


class OrderedPlace(Place):
    """A quantile or a mean of values in an order."""

    unit = "units of the values"

    def __init__(self, needs: OrderedNeeds) -> None:
        super().__init__(needs.length)
        self.values, self.asked = needs.values, needs.asked

    @property
    def subject(self) -> str:
        """How many values, and what of them."""
        return f"the {self.asked.value} of {self.values:,} values in order"


class CumulativeShare(Frequencies):
    """Of values in an order."""

    @property
    def subject(self) -> str:
        """How many values, and what of them."""
        return f"cumulative shares of {self.values:,} values in order"

    @property
    def levels(self) -> dict[str, float]:
        """An interval that holds every share."""
        return {"half of all": 0.5}


def quantity(needs: Needs) -> Quantity:
    """Of a need.

    Raises:
        TypeError: it is a need of another kind.
    """
    if isinstance(needs, FrequencyNeeds):
        return Frequencies(needs)
    if isinstance(needs, MeanNeeds):
        return MeanQuantity(needs)
    if isinstance(needs, OrderedNeeds):
        return CumulativeShare(needs) if needs.asked is Ordered.SHARE else OrderedPlace(needs)
    raise TypeError(f"{type(needs).__name__} is for no quantity that there is")
