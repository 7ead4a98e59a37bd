"""What the server can know about forged reports: laws of the counts that no device's value changes."""

from __future__ import annotations

from typing import NamedTuple

from ldpbeam.arrays import Bytes, Ints
from ldpbeam.support import SupportProbabilities


class AddedNoise(NamedTuple):
    """What a report that is a number adds to its value 0 .. maximum.

    Attributes:
        maximum: the largest value, m.
        margin: a report is clamped to −margin .. m + margin.
        variance: of the noise before it is clamped.
    """

    maximum: int
    margin: int
    variance: float


class SupportedLaw(NamedTuple):
    """How many values a report supports, whatever its device holds: B(1, first) + B(rest, other).

    Attributes:
        first: probability.
        rest: number of further bits.
        other: probability of each of them.
    """

    first: float
    rest: int
    other: float


class ForgerySide:
    """Figures behind :mod:`ldpbeam.indicators` and :mod:`ldpbeam.promise.poisoning`."""

    domain_size: int

    @property
    def ends(self) -> SupportProbabilities | None:
        """P(a report supports a value) where all devices hold it, and where none does.

        Of a mean of bits, P(a report is 1) where all hold m, and where all hold 0. None of other means.
        """
        return None

    @property
    def added_noise(self) -> AddedNoise | None:
        """What reports add to the value where they are numbers; None elsewhere."""
        return None

    @property
    def most_supported(self) -> int:
        """Values that one admitted report can support at most, where reports support values."""
        return self.domain_size

    @property
    def asked_about(self) -> int:
        """Values that one report speaks about, where reports support values."""
        return self.domain_size

    @property
    def supported_variance(self) -> float | None:
        """A bound on the variance of the number of values that a report supports, whatever the value."""
        return None

    @property
    def supported_law(self) -> SupportedLaw | None:
        """The exact law of the number of values that a report supports, where it is that of every value."""
        return None

    # A second accumulator

    @property
    def signs_length(self) -> int:
        """Cells of a second int64 accumulator, for what the first does not show of forged reports."""
        return 0

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        """Add checked payloads (n, payload_size) into ``signs`` (signs_length,) in place."""
        return

    def part_signs(self, signs: Ints) -> tuple[Ints, ...]:
        """The cells of each attribute; empty where an earlier version did not count them."""
        return (signs,)

    @property
    def extremes(self) -> tuple[float, float] | None:
        """P(a report is counted in a cell of ``signs``) for both cells, for the value where it is largest.

        None where ``signs`` holds something else.
        """
        return None

    def seed_cells(self, counts: Ints, signs: Ints) -> tuple[Ints, float] | None:
        """How often each of some equally likely choices was made that devices draw without their value.

        Args:
            counts: int64 (counts_length,).
            signs: int64 (signs_length,).

        Returns:
            Counts int64 (cells,), and the factor by which their squared deviations exceed those of a
            multinomial; None where nothing of that kind is drawn, or it is not counted.
        """
        return None
