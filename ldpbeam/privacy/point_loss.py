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

from ldpbeam.channels.exact import log_above, log_above_power
from ldpbeam.privacy.loss import OneProtocolLosses, require_reports
from ldpbeam.randomness import FULL

POINT_REPORTS = 6
"""Reports up to which :meth:`PointLosses.any_changes` goes through all sequences: about 0.05 s."""


@dataclass(frozen=True)
class PointLosses(OneProtocolLosses):
    """Immutable and hashable: what is computed is remembered."""

    ones: tuple[int, ...]
    flip: int

    def constant_ratio(self, reports: int) -> Fraction:
        """Reports about one unchanged point against another: about the first against the last."""
        require_reports(reports)
        low, high = self.ones[0], self.ones[-1]
        ratios = []
        for ones in range(reports + 1):
            below, above = (_under(self.flip, weight, ones, reports - ones) for weight in (low, high))
            if below or above:  # bits that are sent as they are stay the same
                ratios += [Fraction(above, below), Fraction(below, above)]
        return max(ratios)

    def any_changes(self, reports: int) -> float | None:
        """Between any two sequences of points, rounded up, exact; up to :data:`POINT_REPORTS` reports."""
        require_reports(reports)
        if reports > 1 and not self.flip:
            return inf
        return None if reports > POINT_REPORTS else _any_changes(self, reports)

    def bound(self, reports: int) -> float:
        """The bit that a point sent more often fits at least half of its reports."""
        if not self.flip:
            return inf
        ratio = Fraction(FULL - self.flip, self.flip)
        unlikely = sorted((Fraction(FULL, min(one, FULL - one)) for one in self.ones), reverse=True)
        settled = [(one, 1) for one in unlikely[:reports]]
        return min(log_above_power([(ratio, reports)]), log_above_power([*settled, (ratio, reports // 2)]))


def _under(flip: int, weight: int, ones: int, zeros: int) -> int:
    """Likelihood of the reports made under one point, over a common denominator: its bit is summed out."""
    keep = FULL - flip
    one: int = keep**ones * flip**zeros
    zero: int = flip**ones * keep**zeros
    return weight * one + (FULL - weight) * zero


@lru_cache(256)
def _any_changes(losses: PointLosses, reports: int) -> float:
    worst = Fraction(1)
    for ones in range(reports + 1):
        low, high = _extremes(losses, (ones, reports - ones))
        worst = max(worst, Fraction(high, low))
    return log_above(worst)


def _extremes(losses: PointLosses, sent: tuple[int, int]) -> tuple[int, int]:
    """The smallest and the largest likelihood of (ones, zeros) over all sequences, times a common integer."""
    # best[made] = (smallest, largest) product over the points so far, with so many reports under them.
    best = {(0, 0): (1, 1)}
    for weight in losses.ones:
        factors = {made: _under(losses.flip, weight, *made) for made in _below(sent)}
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
