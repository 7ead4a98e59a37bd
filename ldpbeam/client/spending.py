"""What a device has spent, over all collections and versions of collections, and what a budget leaves.

The figures are those of the guarantee: ε∞ for each distinct memoised input of each attribute, the level of a
report for each report where nothing is memoised. They speak about *which* inputs a device held: see
:mod:`ldpbeam.privacy.loss` for what they do not cover. They add up, and are never too small.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from struct import pack, unpack
from typing import Any

from ldpbeam.channels.exact import float_above
from ldpbeam.client.derivation import Derivation
from ldpbeam.collection.collection import Collection
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.wire import device_state_pb2

MOST_MARKS = 128
"""Memoised inputs of a collection that a state tells apart. Beyond them every input counts as a new one, up
to as many as there are: the state stays small, and no figure is too small."""

_MARK = 8


@dataclass(frozen=True)
class CollectionSpending:
    """What a device has spent on one version of a collection.

    Attributes:
        name: of the collection.
        version: of the collection.
        digest: SHA-256 of the canonical collection, hexadecimal.
        times: memoised inputs so far, or reports where nothing is memoised.
        epsilon: what that adds up to, rounded up.
        stopped: whether the budget was found to be spent, so that no value is reported any more.
    """

    name: str
    version: int
    digest: str
    times: int
    epsilon: float
    stopped: bool


@dataclass(frozen=True)
class Spending:
    """What a device has spent.

    Attributes:
        collections: one entry for each version of each collection.
        epsilon: the sum, rounded up.
        budget: the most that the device may spend; None without a limit.
    """

    collections: tuple[CollectionSpending, ...]
    epsilon: float
    budget: float | None


class Costs:
    """What the reports of one collection cost, worked out once.

    Args:
        collection: the collection.
        secret: the device's; the marks of memoised inputs are made with it.
    """

    def __init__(self, collection: Collection, secret: bytes) -> None:
        """Read the guarantee."""
        derivation = Derivation(secret, collection.full_digest, b"ldpbeam marks 1\0")
        self._key = derivation.key(0, 0, 0)
        self._figures = _figures(collection)

    def charge(
        self, entry: device_state_pb2.CollectionState, inputs: Sequence[tuple[int, int]]
    ) -> tuple[Counter[float], bytes]:
        """What a report adds: how often each level is spent, and the marks with those of its inputs."""
        figures = self._figures
        if not figures.levels:
            return Counter({figures.report: 1}), entry.inputs
        known = {entry.inputs[i : i + _MARK] for i in range(0, len(entry.inputs), _MARK)}
        spent = Counter({one.epsilon: one.times for one in entry.levels})
        added: Counter[float] = Counter()
        for part, key in inputs:
            mark, level = self._mark(part, key), figures.levels[part]
            if mark not in known and spent[level] + added[level] < figures.most[level]:
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


@dataclass(frozen=True)
class _GuaranteeCosts:
    """What a guarantee says about the spending of a report.

    Attributes:
        report: of a report where nothing is memoised.
        levels: ε∞ of each attribute; none where nothing is memoised.
        most: how often each of them can be spent.
    """

    report: float
    levels: tuple[float, ...] = ()
    most: Counter[float] = field(default_factory=Counter)


_KNOWN: dict[bytes, _GuaranteeCosts] = {}
"""By digest: logarithms in 60 digits take longer than a report."""


def _figures(collection: Collection) -> _GuaranteeCosts:
    digest = collection.full_digest
    if digest not in _KNOWN:
        if len(_KNOWN) >= 64:
            _KNOWN.clear()
        _KNOWN[digest] = _worked_out(collection.protocol)
    return _KNOWN[digest]


def _worked_out(protocol: LocalProtocol[Any]) -> _GuaranteeCosts:
    guarantee = protocol.guarantee
    if guarantee.memoised_ratio is None:
        return _GuaranteeCosts(guarantee.first_report)
    # Attributes of equal domains are one and the same protocol.
    guarantees = {id(part): part.guarantee for part in protocol.parts}
    level_of = {one: figure.per_memoised_input or inf for one, figure in guarantees.items()}
    most: Counter[float] = Counter()
    for part in protocol.parts:
        most[level_of[id(part)]] += guarantees[id(part)].memoised_inputs or 0
    return _GuaranteeCosts(guarantee.first_report, tuple(level_of[id(part)] for part in protocol.parts), most)


def spent_exactly(levels: Iterable[tuple[float, int]]) -> Fraction:
    """The sum of level · times."""
    return sum((Fraction(level) * times for level, times in levels), Fraction(0))


def add_up(state: device_state_pb2.DeviceState, budget: float | None) -> Spending:
    """The spending that a state holds."""
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
