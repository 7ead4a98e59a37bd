"""Whether an ordered domain's distribution changed between two epochs: its mean, and quartiles.

The share of the devices up to a quartile of the first epoch is compared with the share up to the same value
in the second. Limits of the difference follow from the published limits of both shares, uneven as they are
(MOVER: Zou and Donner, Statistics in Medicine 27, 2008). They take the errors of both for independent.
Devices that repeat what they memoised have errors that go together, which makes a difference more certain
than that. Of several epochs on a side their mean curve takes the place of a curve.

Next to an atom a share has wide limits: the counts hardly tell an atom from its neighbours. A quartile that
lies there is tested at one place before the atom and at one after it. Atoms and the first epoch alone say
which places these are, so that no place is chosen for what changed there.

Errors of two means may go apart where devices keep a function for life and change their values. So the error
of a difference within one memo takes what is kept as if it went apart wholly, as the mean over epochs takes
it as if it went together. This holds whatever devices do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

from ldpbeam.estimates import CONFIDENCE
from ldpbeam.over_time.significance import normal_limit
from ldpbeam.sums.distribution import Curve, MeanOfEpochs

QUARTILES = (0.25, 0.5, 0.75)

CLEAR = 16
"""So many times a place clear of an atom fits into the domain: limits allow that the density wanders over an
eighth of the domain, and past half of that an atom no longer widens them."""


@dataclass(frozen=True)
class ShareChange:
    place: int
    change: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        return not self.low <= 0.0 <= self.high

    @property
    def certainty(self) -> float:
        """The change in units of the limit on the side of 0; above 1 where it is clear."""
        reach = self.change - self.low if self.change > 0 else self.high - self.change
        return abs(self.change) / reach if reach > 0 else 0.0


@dataclass(frozen=True)
class QuartileChange:
    share: float
    before: tuple[int, int, int]
    after: tuple[int, int, int]
    tested: tuple[ShareChange, ...]

    @property
    def clear(self) -> bool:
        return any(one.clear for one in self.tested)

    @property
    def clearest(self) -> ShareChange:
        """The share that changed most in units of its limits."""
        return max(self.tested, key=lambda one: one.certainty)


@dataclass(frozen=True)
class MeanChange:
    before: MeanOfEpochs
    after: MeanOfEpochs
    half_width: float

    @property
    def change(self) -> float:
        return self.after.mean - self.before.mean

    @property
    def clear(self) -> bool:
        return abs(self.change) > self.half_width


def compare_means(before: MeanOfEpochs, after: MeanOfEpochs, verdicts: int, *, one_memo: bool) -> MeanChange:
    fresh = hypot(before.fresh, after.fresh)
    lasting = before.lasting + after.lasting if one_memo else hypot(before.lasting, after.lasting)
    reach = normal_limit(1 - (1 - CONFIDENCE) / verdicts)
    return MeanChange(before, after, reach * hypot(fresh, lasting))


def compare_quartiles(
    before: Curve, after: Curve, atoms: Sequence[int], verdicts: int
) -> list[QuartileChange]:
    changes = []
    for share in QUARTILES:
        quartile = before.quantile(share)
        places = compared_places(quartile[0], atoms, before.shares.size)
        rate = (1 - CONFIDENCE) / (verdicts * len(places))
        tested = tuple(_share_change(before, after, place, rate) for place in places)
        changes.append(QuartileChange(share, quartile, after.quantile(share), tested))
    return changes


def compared_places(quartile: int, atoms: Sequence[int], size: int) -> tuple[int, ...]:
    """Where shares are compared: at the quartile, or before and after the atom near which it lies."""
    reach, known = max(size // CLEAR, 1), sorted({0, *atoms, size - 1})
    for atom in atoms:
        at = known.index(atom)
        left = max((known[at - 1] + atom - 1) // 2, atom - 1 - reach) if at else -1
        right = min((atom + known[at + 1] - 1) // 2, atom + reach) if atom < size - 1 else size - 1
        if left < quartile < right or quartile == atom:
            return tuple(place for place in (left, right) if 0 <= place < size - 1)
    return (quartile,)


def _share_change(before: Curve, after: Curve, place: int, rate: float) -> ShareChange:
    """Of the share up to a place, with limits that are wrong at this rate."""
    wider = normal_limit(1 - rate) / normal_limit(CONFIDENCE)
    first, second = float(before.shares[place]), float(after.shares[place])
    change = second - first
    down = hypot(second - after.low[place], before.high[place] - first) * wider
    up = hypot(after.high[place] - second, first - before.low[place]) * wider
    return ShareChange(place, change, float(change - down), float(change + up))
