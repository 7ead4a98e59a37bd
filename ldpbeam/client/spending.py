"""What a device has spent, over all collections and versions of collections, and what a budget leaves.

The figures are those of the guarantee: ε∞ for each distinct memoised input of each attribute, the level of a
report for each report where nothing is memoised. They speak about *which* inputs a device held: see
:mod:`ldpbeam.privacy.loss` for what they do not cover. They add up, and are never too small.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from struct import pack, unpack
from typing import Literal

from ldpbeam.channels.exact import float_above
from ldpbeam.client.derivation import Derivation
from ldpbeam.client.storage import Records
from ldpbeam.collection.collection import Collection
from ldpbeam.errors import DeviceError
from ldpbeam.wire import device_state_pb2

MOST_MARKS = 128
"""Memoised inputs of a collection that a state tells apart. Beyond them every input counts as a new one, up
to as many as there are: the state stays small, and no figure is too small."""

_MARK = 8


@dataclass(frozen=True)
class CollectionSpending:
    """What a device has spent on one version of a collection."""

    name: str
    version: int
    digest: str
    times: int
    epsilon: float
    stopped: bool


@dataclass(frozen=True)
class Spending:
    collections: tuple[CollectionSpending, ...]
    epsilon: float
    budget: float | None


@dataclass(frozen=True)
class Budget:
    """A limit to what a device spends, over all collections of its folder."""

    limit: float | None = None
    at_cap: Literal["stop", "noise"] = "stop"


class Costs:
    """What the reports of one collection cost, and whether the budget allows them."""

    def __init__(self, collection: Collection, secret: bytes, budget: Budget) -> None:
        derivation = Derivation(secret, collection.full_digest, b"ldpbeam marks 1\0")
        self._key = derivation.key(0, 0, 0)
        self._prices = collection.prices
        self._most: Counter[float] = Counter()
        for level, inputs in self._prices.parts:
            self._most[level] += inputs
        self._budget = budget

    def charge(
        self,
        records: Records,
        entry: device_state_pb2.CollectionState,
        inputs: Sequence[tuple[int, int]],
    ) -> bool:
        """Charge a report to the collection; False, and nothing is charged, where the budget is spent."""
        added, marks = self.price(entry, inputs)
        limit = self._budget.limit
        if limit is not None and _exceeds(records.state, entry, added, limit):
            larger = not entry.HasField("spent_budget") or entry.spent_budget < limit
            if larger:
                entry.spent_budget = limit
            if self._budget.at_cap == "noise":
                return False
            if larger:
                records.save()
            raise _budget_error(limit)
        entry.ClearField("spent_budget")
        entry.inputs = marks
        for level, times in added.items():
            known = next((one for one in entry.levels if one.epsilon == level), None)
            if known is None:
                known = entry.levels.add(epsilon=level)
            known.times += times
        return True

    def price(
        self, entry: device_state_pb2.CollectionState, inputs: Sequence[tuple[int, int]]
    ) -> tuple[Counter[float], bytes]:
        """By how much a report raises the count of each level, and all marks of the entry after it."""
        prices = self._prices
        if not prices.parts:
            return Counter({prices.report: 1}), entry.inputs
        known = {entry.inputs[i : i + _MARK] for i in range(0, len(entry.inputs), _MARK)}
        spent = Counter({one.epsilon: one.times for one in entry.levels})
        added: Counter[float] = Counter()
        for part, key in inputs:
            mark, level = self._mark(part, key), prices.parts[part].epsilon
            if mark not in known and spent[level] + added[level] < self._most[level]:
                added[level] += 1
                if len(known) < MOST_MARKS:
                    known.add(mark)
        # Sorted, so that their order does not say when an input was new.
        return added, b"".join(sorted(known))

    def _mark(self, part: int, key: int) -> bytes:
        """A keyed permutation of (attribute, input): two inputs never share a mark (four Feistel rounds)."""
        left, right = part, key
        for number in range(4):
            tag = hmac.digest(self._key, pack("<BI", number, right), "sha256")
            (drawn,) = unpack("<I", tag[:4])
            left, right = right, left ^ drawn
        return pack("<II", left, right)


def _exceeds(
    state: device_state_pb2.DeviceState,
    entry: device_state_pb2.CollectionState,
    added: Counter[float],
    limit: float,
) -> bool:
    """Whether the report exceeds the limit, or an earlier one exceeded it or a larger one."""
    if entry.HasField("spent_budget") and limit <= entry.spent_budget:
        return True
    if not added:
        return False
    spent = ((one.epsilon, one.times) for other in state.collections for one in other.levels)
    return spent_exactly([*spent, *added.items()]) > Fraction(limit)


def _budget_error(limit: float) -> DeviceError:
    return DeviceError(
        "E-DEVICE-BUDGET",
        f"the device has spent its budget of {limit:g}, and reports no value of this collection any more; "
        "whoever knows that it reported until now sees by its silence that the budget is spent",
        remedy="Raise the budget, or open the device with at_cap='noise'.",
    )


def spent_exactly(levels: Iterable[tuple[float, int]]) -> Fraction:
    return sum((Fraction(level) * times for level, times in levels), Fraction(0))


def add_up(state: device_state_pb2.DeviceState, budget: float | None) -> Spending:
    spent = []
    for entry in state.collections:
        times = sum(one.times for one in entry.levels)
        epsilon = float_above(spent_exactly((one.epsilon, one.times) for one in entry.levels))
        stopped = entry.HasField("spent_budget") and budget is not None and budget <= entry.spent_budget
        spent.append(
            CollectionSpending(entry.name, entry.version, entry.digest.hex(), times, epsilon, stopped)
        )
    total = spent_exactly((one.epsilon, one.times) for entry in state.collections for one in entry.levels)
    return Spending(tuple(spent), float_above(total), budget)
