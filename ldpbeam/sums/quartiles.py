"""Whether an ordered domain's distribution changed between two epochs, at the quartiles of the first one.

The share of the devices up to a quartile of the first epoch is compared with the share up to the same value
in the second. Limits of the difference follow from the published limits of both shares, uneven as they are
(MOVER: Zou and Donner, Statistics in Medicine 27, 2008). They take the errors of both for independent.
Devices that repeat what they memoised have errors that go together, which makes a difference more certain
than that. Of several epochs on a side the mean curve takes the place of a curve, with its wide limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

from ldpbeam.estimates import CONFIDENCE
from ldpbeam.over_time.significance import normal_limit
from ldpbeam.sums.distribution import Curve

QUARTILES = (0.25, 0.5, 0.75)
_WIDER = normal_limit(1 - (1 - CONFIDENCE) / len(QUARTILES)) / normal_limit(CONFIDENCE)
"""How much wider limits are that hold for all quartiles at once."""


@dataclass(frozen=True)
class QuartileChange:
    """One quartile before and after.

    Attributes:
        share: of the devices at or below the quartile.
        before, after: the quartile with its 95 % limits, as places of values.
        change: how much the share up to the first epoch's quartile rose.
        low, high: limits of ``change``; those of all three quartiles hold at once, at 95 %.
    """

    share: float
    before: tuple[int, int, int]
    after: tuple[int, int, int]
    change: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the share surely changed."""
        return not self.low <= 0.0 <= self.high


def compare_quartiles(before: Curve, after: Curve) -> list[QuartileChange]:
    """The quartiles of two epochs with the same values; both have a result."""
    changes = []
    for share in QUARTILES:
        place = before.quantile(share)
        at = place[0]
        first, second = float(before.shares[at]), float(after.shares[at])
        change = second - first
        down = hypot(second - after.low[at], before.high[at] - first) * _WIDER
        up = hypot(after.high[at] - second, first - before.low[at]) * _WIDER
        low, high = float(change - down), float(change + up)
        changes.append(QuartileChange(share, place, after.quantile(share), change, low, high))
    return changes
