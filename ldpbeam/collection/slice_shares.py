"""How many of the devices have each label of a dimension of slices, where a plan or a simulation needs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ldpbeam.collection.slices import Dimension

_ROUNDED = 1e-9


@dataclass(frozen=True)
class SliceShares:
    """Shares of the labels of one dimension."""

    name: str
    labels: tuple[str, ...]
    shares: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of a text such as ``country=DE:50%,FR:50%``, or without labels ``country=50%,50%``."""
        name, equals, rest = text.partition("=")
        parts = [one.rpartition(":") for one in rest.split(",")]
        labels = tuple(label.strip() for label, colon, _ in parts if colon)
        try:
            shares = tuple(_share(share) for _, _, share in parts)
        except ValueError:
            shares = ()
        if not name or not equals or len(shares) < 2 or len(labels) not in {0, len(parts)}:
            raise ValueError(
                f"{text!r} is neither shares such as country=50%,30%,20% nor such of labels, as "
                "country=DE:50%,FR:30%,other:20%"
            )
        if abs(sum(shares) - 1) > _ROUNDED:
            raise ValueError(f"the shares of {name} add up to {100 * sum(shares):.10g} %, and not to 100 %")
        return cls(name, labels, shares)

    def of(self, dimension: Dimension) -> tuple[float, ...]:
        """The shares of a collection's labels, in their order."""
        labels = self.labels or dimension.labels
        if sorted(labels) != sorted(dimension.labels) or len(labels) != len(self.shares):
            raise ValueError(
                f"the shares of {self.name} are not one for each of its labels: {', '.join(dimension.labels)}"
            )
        by_label = dict(zip(labels, self.shares, strict=True))
        return tuple(by_label[label] for label in dimension.labels)


def _share(text: str) -> float:
    number = float(text.strip().removesuffix("%")) / 100
    if not text.strip().endswith("%") or not number > 0:
        raise ValueError(text)
    return number
