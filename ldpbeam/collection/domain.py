"""The values a collection asks for: ``size`` of them, indexed 0..size−1, with names for people."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import isfinite

from ldpbeam.errors import CollectionError

MAX_DOMAIN = 1 << 24
"""Largest domain; beyond it per-value output stops making sense and unary reports reach 2 MiB."""


@dataclass(frozen=True)
class Domain:
    """A finite set of values.

    Attributes:
        size: number of values, 2 .. 2**24.
        labels: one name per value, when the collection lists them.
        maximum: upper end of a numeric range starting at 0 that is cut into ``size`` equal buckets; where
            size = maximum + 1, the values are the whole numbers 0..maximum themselves.
        other: the value, one of those with labels, that a device reports for a label that is not listed.
        ordered: whether the values are in an order that means something. Devices need not know: it is not
            part of the digest, and two domains that differ in it only are equal.
    """

    size: int
    labels: tuple[str, ...] | None = None
    maximum: float | None = None
    other: int | None = None
    ordered: bool = field(default=False, compare=False)
    _positions: dict[str, int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        """Raises CollectionError for too few or many values, repeated labels, or no positive range."""
        if not 2 <= self.size <= MAX_DOMAIN:
            raise CollectionError(
                "E-COLLECTION-DOMAIN",
                f"a domain has 2 to {MAX_DOMAIN} values, not {self.size}",
                key="domain",
                remedy="List at least two values, or merge rare ones.",
            )
        if self.labels is not None:
            if len(self.labels) != self.size:
                raise CollectionError(
                    "E-COLLECTION-DOMAIN",
                    f"{len(self.labels)} labels for a domain of size {self.size}",
                    key="domain",
                    remedy="Give one label per value.",
                )
            repeated = sorted(label for label, times in Counter(self.labels).items() if times > 1)
            if repeated:
                raise CollectionError(
                    "E-COLLECTION-DOMAIN",
                    f"label {repeated[0]!r} appears more than once",
                    key="domain",
                    remedy="Make every label unique.",
                )
        if self.maximum is not None and not (isfinite(self.maximum) and self.maximum > 0):
            raise CollectionError(
                "E-COLLECTION-DOMAIN",
                f"the range must end above 0, not at {self.maximum}",
                key="domain",
                remedy="Set range.max to the largest value a device can hold.",
            )
        names = self.labels or ()
        if self.other is not None and not 0 <= self.other < len(names):
            raise CollectionError(
                "E-COLLECTION-DOMAIN",
                "other is none of the labels, and stands for all that are not listed",
                key="domain",
                remedy="Add a label for it, such as none of these.",
            )
        object.__setattr__(self, "_positions", {label: i for i, label in enumerate(names)})

    @property
    def whole(self) -> bool:
        """Whether the values are the whole numbers of a range."""
        return self.maximum is not None and self.size == self.maximum + 1

    @property
    def has_order(self) -> bool:
        """Whether cumulative shares and quantiles mean something; every range is in order."""
        return self.ordered or self.maximum is not None

    @property
    def numeric(self) -> bool:
        """Whether a value is the number that it stands for, so that values have a mean."""
        return self.whole or (self.labels is None and self.maximum is None)

    def index(self, raw: str) -> int:
        """The value a raw text stands for.

        A label is looked up, and stands for the domain's ``other`` where it is not listed; a range takes a
        number and returns its bucket, or the nearest whole number (the even one of two), with numbers beyond
        the range in the first or last one, as a device would send them; a plain size takes the index itself.

        Raises:
            ValueError: no such value. The text says what is expected and does not repeat ``raw``.
        """
        if self.labels is not None:
            found = self._positions.get(raw, self.other)
            if found is None:
                raise ValueError(f"not one of the domain's {self.size} labels")
            return found
        if self.maximum is not None:
            number = float(raw)
            if not isfinite(number):
                raise ValueError("not a finite number")
            bucket = round(number) if self.whole else int(number / self.maximum * self.size)
            return min(max(bucket, 0), self.size - 1)
        index = int(raw)
        if not 0 <= index < self.size:
            raise ValueError(f"not an index of a domain of size {self.size}")
        return index

    def label(self, value: int) -> str:
        """The name of a value for people: its label, its bucket's bounds, or its index."""
        if self.labels is not None:
            return self.labels[value]
        if self.maximum is not None and not self.whole:
            width = self.maximum / self.size
            return f"[{value * width:g}, {(value + 1) * width:g})"
        return str(value)


@dataclass(frozen=True)
class Attribute:
    """One of several things that a collection asks of every device.

    Attributes:
        name: unique in its collection, of the same characters as a collection's name.
        domain: its values.
    """

    name: str
    domain: Domain
