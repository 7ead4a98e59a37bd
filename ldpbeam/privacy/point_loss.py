"""What t reports of a device that memoises one bit per rounding point tell together (``one_bit_rrpm``).

The inputs are points. Each has a bit of its own, drawn once; every report flips it with the same probability.
Sequences of points h and h' are compared: given α the points follow from the values, and a mixture over α is
never told apart better than its worst part. With the two points 0 and m, α changes nothing for a device that
holds 0 or m, so that the loss is reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import inf

from ldpbeam.channels.exact import log_above
from ldpbeam.privacy.loss import require_reports
from ldpbeam.randomness import FULL


@dataclass(frozen=True)
class PointLosses:
    """Immutable and hashable: what is computed is remembered.

    Attributes:
        ones: for each point the weight of a memoised 1, over 2**64.
        flip: weight of flipping it in a report; 0 sends it as it is.
    """

    ones: tuple[int, ...]
    flip: int

    def any_changes(self, reports: int) -> float:
        """Between any two sequences of points, rounded up, exact.

        The epochs' order does not matter, so that reports are so many ones and so many zeros, shared out
        among the points. Infinite where two different reports prove that the point changed.
        """
        require_reports(reports)
        return _any_changes(self, reports)

    @property
    def round_bound(self) -> float:
        """The most that one more report tells, given all memoised bits; infinite where they are sent."""
        return inf if not self.flip else log_above(Fraction(FULL - self.flip, self.flip))


@lru_cache(256)
def _any_changes(losses: PointLosses, reports: int) -> float:
    worst = Fraction(1)
    for ones in range(reports + 1):
        low, high = _extremes(losses, (ones, reports - ones))
        if not low:
            return inf
        worst = max(worst, Fraction(high, low))
    return log_above(worst)


def _extremes(losses: PointLosses, sent: tuple[int, int]) -> tuple[int, int]:
    """The smallest and the largest likelihood of (ones, zeros) over all sequences, times a common integer."""
    keep, flip = FULL - losses.flip, losses.flip

    def under(weight: int, ones: int, zeros: int) -> int:
        """Σ over the memoised bit of its weight times that of the reports made under the point."""
        one, zero = keep**ones * flip**zeros, flip**ones * keep**zeros
        return int(weight * one + (FULL - weight) * zero)

    # best[made] = (smallest, largest) product over the points so far, with so many reports under them.
    best = {(0, 0): (1, 1)}
    for weight in losses.ones:
        factors = {made: under(weight, *made) for made in _below(sent)}
        longer: dict[tuple[int, int], tuple[int, int]] = {}
        for before, (low, high) in best.items():
            for made in _below((sent[0] - before[0], sent[1] - before[1])):
                # A point without a report has the factor 2**64, so that all products have one denominator.
                after = before[0] + made[0], before[1] + made[1]
                less, more = low * factors[made], high * factors[made]
                known = longer.get(after)
                longer[after] = (less, more) if known is None else (min(known[0], less), max(known[1], more))
        best = longer
    return best[sent]


def _below(bounds: tuple[int, int]) -> Iterator[tuple[int, int]]:
    return product(range(bounds[0] + 1), range(bounds[1] + 1))
