"""What is asked of the frequencies of an attribute."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import index

from ldpbeam.collection.domain import Domain
from ldpbeam.collection.values import Index
from ldpbeam.sums.quantity import Sums, cumulative, of_groups, of_mean


class Question(ABC):
    @abstractmethod
    def sums(self, domain: Domain) -> Sums:
        """The weights of the values."""


@dataclass(frozen=True, eq=False)
class Groups(Question):
    """Which share of the devices holds a value of each group."""

    members: Mapping[str, Iterable[int | str | Index]]

    def sums(self, domain: Domain) -> Sums:
        """Raises ValueError for a label that is none of the domain's, TypeError for no index and no label."""
        members = {name: [_place(domain, value) for value in values] for name, values in self.members.items()}
        return of_groups(domain, members)


def _place(domain: Domain, value: int | str | Index) -> int:
    """The place of a value: a label's, or the one that the column ``value`` of results has."""
    if isinstance(value, Index):
        return index(value.index)  # type: ignore[arg-type]
    if not isinstance(value, str):
        return index(value)
    place = domain.place_of(value)
    if place is None:
        raise ValueError(f"{value!r} is not a label of the domain")
    return place


@dataclass(frozen=True)
class Cumulative(Question):
    """Which share of the devices holds a value or one below it, for every value of a domain in order."""

    def sums(self, domain: Domain) -> Sums:
        """One sum per value: of the share at the value and below it."""
        return cumulative(domain)


@dataclass(frozen=True)
class Quantiles(Question):
    """The values below which these shares of the devices lie."""

    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        """Raises ValueError for no shares, or some that are not between 0 and 1."""
        if not self.shares or not all(0 < share < 1 for share in self.shares):
            raise ValueError("quantiles are asked for by shares between 0 and 1, such as 0.5")

    def sums(self, domain: Domain) -> Sums:
        return cumulative(domain)


@dataclass(frozen=True)
class Mean(Question):
    def sums(self, domain: Domain) -> Sums:
        """One sum, whose weights are the values themselves, or the middles of buckets."""
        return of_mean(domain)
