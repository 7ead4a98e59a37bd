"""The values a collection asks for: ``size`` of them, indexed 0..size−1, with names for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from functools import cached_property
from math import floor, isfinite

from ldpbeam.collection.number import exact_number
from ldpbeam.errors import CollectionError, require

MAX_DOMAIN = 1 << 24
"""Largest domain; beyond it per-value output stops making sense and unary reports reach 2 MiB."""

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Unicode's categories Cc, Zl, Zp and Cs."""


def require_printable(text: str, what: str, key: str) -> None:
    """Raise CollectionError for a text with a control sign, a line break or half of a surrogate pair."""
    match = _UNPRINTABLE.search(text)
    if match:
        raise CollectionError(
            "E-COLLECTION-VALUE",
            f"{what} holds U+{ord(match[0]):04X}, a control sign, a line break or half of a character",
            key=key,
            remedy="Write it without that sign.",
        )


def require_unique(names: Iterable[str], what: str, key: str) -> None:
    repeated = next((name for name, times in sorted(Counter(names).items()) if times > 1), None)
    require(repeated is None, key, f"{what} {repeated!r} more than once", "Make every one unique.")


@dataclass(frozen=True)
class Domain:
    size: int
    labels: tuple[str, ...] | None = None
    maximum: float | None = None
    other: int | None = None
    ordered: bool = field(default=False, compare=False)
    atoms: tuple[int, ...] = field(default=(), compare=False)
    _positions: dict[str, int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        """Raises CollectionError for too few or many values, repeated labels, or no positive range."""
        require(
            2 <= self.size <= MAX_DOMAIN,
            "domain",
            f"a domain has 2 to {MAX_DOMAIN} values, not {self.size}",
            "List at least two values, or merge rare ones.",
        )
        if self.labels is not None:
            require(
                len(self.labels) == self.size,
                "domain",
                f"{len(self.labels)} labels for a domain of size {self.size}",
                "Give one label per value.",
            )
            require_unique(self.labels, "labels have", "domain")
            for label in self.labels:
                require_printable(label, f"label {label[:40]!r}", "domain")
        require(
            self.maximum is None or (isfinite(self.maximum) and self.maximum > 0),
            "domain",
            f"the range must end above 0, not at {self.maximum}",
            "Set range.max to the largest value a device can hold.",
        )
        names = self.labels or ()
        require(
            self.other is None or 0 <= self.other < len(names),
            "domain",
            "other is none of the labels, and stands for all that are not listed",
            "Add a label for it, such as none of these.",
        )
        if self.atoms:
            self._require_atoms()
        object.__setattr__(self, "_positions", {label: i for i, label in enumerate(names)})

    def _require_atoms(self) -> None:
        """Refuse atoms without an order, outside the domain, twice, or not ascending."""
        require(
            self.has_order,
            "domain",
            "atoms are for values in order, and these have none",
            "Write ordered: true if the order of the values means something, or remove atoms.",
        )
        require(
            list(self.atoms) == sorted(set(self.atoms)) and 0 <= self.atoms[0] <= self.atoms[-1] < self.size,
            "domain",
            f"atoms must be different values of the domain, 0 .. {self.size - 1}, in ascending order",
            "Name each atom once; numbers of a range are one value if one bucket holds them.",
        )

    @property
    def values(self) -> int | None:
        """How many values there are; None where nobody lists them."""
        return self.size

    def __str__(self) -> str:
        return f"{self.size:,} values"

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

    @cached_property
    def scale(self) -> Fraction:
        """Buckets per unit of a range, exactly; its end is read through its shortest decimal."""
        assert self.maximum is not None  # noqa: S101 - callers ask for ranges only
        return self.size / exact_number(self.maximum)

    def place_of(self, label: str) -> int | None:
        """Where the domain lists a label; None where it does not, also where ``other`` takes its place."""
        return self._positions.get(label)

    def index_of_text(self, text: str) -> int:
        """The index of the value that a text stands for: a label, or a number in decimal digits."""
        if self.labels is None:
            return self.index_of_number(exact_number(text))
        index = self._positions.get(text, self.other)
        if index is None:
            raise ValueError(f"not one of the domain's {self.size} labels")
        return index

    def index_of_number(self, number: Fraction) -> int:
        """The index of the value that a number stands for: the rule of docs/wire.md."""
        if self.labels is not None:
            raise ValueError("a number, where the domain has labels")
        if self.maximum is not None:
            index = round(number) if self.whole else floor(number * self.scale)
            return min(max(index, 0), self.size - 1)
        if number.denominator != 1 or not 0 <= number < self.size:
            raise ValueError(f"not one of the whole numbers 0 to {self.size - 1}")
        return number.numerator

    def index_of_atom(self, text: str) -> int:
        """The index of a value that the collection file names: a listed label, or a number of the domain."""
        if self.labels is not None:
            place = self.place_of(text)
            if place is None:
                raise ValueError("none of the labels")
            return place
        try:
            number = exact_number(text)
        except ValueError:
            raise ValueError("no number") from None
        if self.maximum is not None and not 0 <= number <= exact_number(self.maximum):
            raise ValueError(f"outside the range, 0 .. {self.maximum:g}")
        return self.index_of_number(number)

    def label(self, value: int) -> str:
        """The name of a value for people: its label, its bucket's bounds, or its index."""
        if self.labels is not None:
            return self.labels[value]
        if self.maximum is not None and not self.whole:
            return f"[{self.edge(value)}, {self.edge(value + 1)})"
        return str(value)

    def edge(self, value: int) -> str:
        """The lower end of a bucket for people: exact to 15 digits, else so many that no two look alike."""
        end, scale = Decimal(value * self.scale.denominator), Decimal(self.scale.numerator)
        exact = Context(prec=15)
        quotient = exact.divide(end, scale)
        if exact.flags[Inexact]:
            whole = quotient.adjusted() + 1
            digits = max(6, len(str(self.size)) + 1, whole if whole < exact.prec else 0)
            quotient = Context(prec=digits).divide(end, scale)
        plain = quotient.normalize(exact)
        return f"{plain:f}" if plain == 0 or -5 <= plain.adjusted() < 15 else f"{plain:e}"


@dataclass(frozen=True)
class Attribute:
    """One of several things that a collection asks of every device."""

    name: str
    domain: Domain
