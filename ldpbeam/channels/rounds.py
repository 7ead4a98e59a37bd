"""The two rounds of a protocol, side by side: what is drawn once for life, and what for every report."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic, TypeVar

from ldpbeam.channels.channel import BitChannel, Rows, SymbolChannel

Channel = TypeVar("Channel", SymbolChannel, BitChannel)

RowsOfRounds = tuple[Rows | None, Rows | None]
"""P(output | input) of the permanent and of the instantaneous round; None for a missing round."""


@dataclass(frozen=True)
class Rounds(Generic[Channel]):
    """One round or two, of channels of one kind (docs/maths.md section 2)."""

    instant: Channel | None
    permanent: Channel | None = None

    def __post_init__(self) -> None:
        """Raises ValueError without any round."""
        if self.instant is None and self.permanent is None:
            raise ValueError("a protocol needs a permanent round, an instantaneous one, or both")

    @property
    def memoised(self) -> bool:
        """Whether a device keeps an answer for each input, so that its reports depend on each other."""
        return self.permanent is not None

    @property
    def first(self) -> Channel:
        """The round that a device's input goes through: the permanent one where there is one."""
        channel = self.permanent or self.instant
        assert channel is not None  # noqa: S101 - validated at construction
        return channel

    @property
    def last(self) -> Channel:
        """The round that makes the report: the instantaneous one, or the permanent one where it is alone."""
        channel = self.instant or self.permanent
        assert channel is not None  # noqa: S101 - validated at construction
        return channel

    @cached_property
    def composed(self) -> tuple[Fraction, Fraction]:
        """(own, other) of a whole report, exact, all rounds together; of a bit P(1 | 1) and P(1 | 0)."""
        if self.permanent is None or self.instant is None:
            return self.first.own, self.first.other
        return self.permanent.then(self.instant)

    @property
    def lasting(self) -> tuple[Fraction, Fraction] | None:
        """(own, other) of the memoised answer alone; None where nothing is memoised."""
        return None if self.permanent is None else (self.permanent.own, self.permanent.other)

    def definition(self) -> dict[str, Any]:
        """The integers of both rounds for JSON, as decimal text; None for a missing round."""
        return {
            "permanent": None if self.permanent is None else self.permanent.definition(),
            "instant": None if self.instant is None else self.instant.definition(),
        }

    def rows(self, size: int) -> RowsOfRounds:
        """P(output | input) of each round, the permanent one first; ``size`` as in the channel's ``rows``."""
        return (
            None if self.permanent is None else self.permanent.rows(size),
            None if self.instant is None else self.instant.rows(size),
        )
