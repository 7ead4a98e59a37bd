"""Exact channels by enumeration: probabilities as Fractions, nothing sampled.

``outcomes`` runs device code over *every* sequence of random words, grouped into intervals on which
it cannot tell words apart, so its answer is the true distribution and not an estimate.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

from ldp.channel import BitChannel, SymbolChannel
from ldp.protocols import FrequencyProtocol, Memo
from ldp.randomness import FULL

T = TypeVar("T", bound=Hashable)


@cache
def weighted_responses(
    protocol: FrequencyProtocol[Any],
) -> tuple[tuple[tuple[Any, Fraction], ...], bool]:
    """Responses with the probability of the seed they carry (1 without seed), and whether that is
    all.

    Families whose seeds cannot be enumerated are represented by fifty fixed ones.
    """
    try:
        found = list(protocol.responses())
        complete = True
    except NotImplementedError:
        family = protocol.family  # type: ignore[attr-defined]
        draw = random.Random(20260101)
        seeds = [
            family.seed([draw.randrange(family.word_limit) for _ in range(family.SEED_WORDS)])
            for _ in range(50)
        ]
        found = [
            protocol.decode(family.encode(seed, symbol))
            for seed in seeds
            for symbol in range(family.g)
        ]
        complete = False
    seeds_seen = {getattr(response, "seed", None) for response in found}
    share = Fraction(1, len(seeds_seen))
    return tuple((response, share) for response in found), complete


@cache
def channel(protocol: FrequencyProtocol[Any]) -> tuple[tuple[Fraction, ...], ...]:
    """P(response | value): one row per value, one column per weighted response, seed probability
    included.
    """
    responses, _ = weighted_responses(protocol)
    return tuple(
        tuple(share * protocol.likelihood(response, value) for response, share in responses)
        for value in range(protocol.domain_size)
    )


def worst_ratio(rows: Iterable[Sequence[Fraction]]) -> Fraction:
    """Largest ratio of two entries of the same column."""
    return max(max(column) / min(column) for column in zip(*rows, strict=True))


def round_rows(one_round: SymbolChannel | BitChannel, size: int) -> list[list[Fraction]]:
    """P(answer | input) of one round: symbols to symbols, or one-hot vectors to bit vectors."""
    if isinstance(one_round, SymbolChannel):
        n = one_round.size
        return [[Fraction(one_round.keep if o == i else one_round.each, one_round.total)
                 for o in range(n)] for i in range(n)]  # fmt: skip
    return [[_bits(one_round, 1 << i, o, size) for o in range(1 << size)] for i in range(size)]


def second_rows(one_round: SymbolChannel | BitChannel, size: int) -> list[list[Fraction]]:
    """P(report | permanent answer): as above, from every bit vector."""
    if isinstance(one_round, SymbolChannel):
        return round_rows(one_round, size)
    vectors = range(1 << size)
    return [[_bits(one_round, i, o, size) for o in vectors] for i in vectors]


def _bits(one_round: BitChannel, given: int, output: int, size: int) -> Fraction:
    probability = Fraction(1)
    for v in range(size):
        one = Fraction(one_round.one if given >> v & 1 else one_round.zero, FULL)
        probability *= one if output >> v & 1 else 1 - one
    return probability


def compose(first: list[list[Fraction]], second: list[list[Fraction]]) -> list[list[Fraction]]:
    """Matrix product: first round, then second round."""
    columns = list(zip(*second, strict=True))
    return [
        [sum((a * b for a, b in zip(row, column, strict=True)), Fraction(0)) for column in columns]
        for row in first
    ]


class Branching:
    """Randomness that walks one path of a tree of intervals and knows the path's probability."""

    def __init__(self, path: Sequence[int], cuts: Callable[[int], list[int]]) -> None:
        self._path = path
        self._cuts = cuts
        self.widths: list[int] = []
        self.weight = Fraction(1)

    def word(self, limit: int = FULL) -> int:
        edges = [0, *self._cuts(limit), limit]
        parts = [(low, high) for low, high in pairwise(edges) if low < high]
        depth = len(self.widths)
        low, high = parts[self._path[depth] if depth < len(self._path) else 0]
        self.widths.append(len(parts))
        self.weight *= Fraction(high - low, limit)
        return low


def outcomes(run: Callable[[Any], T], cuts: Callable[[int], list[int]]) -> dict[T, Fraction]:
    """Exact distribution of ``run(randomness)`` when ``cuts(limit)`` holds every threshold it
    compares with.
    """
    found: dict[T, Fraction] = defaultdict(Fraction)
    path: list[int] = []
    while True:
        branch = Branching(path, cuts)
        found[run(branch)] += branch.weight
        path += [0] * (len(branch.widths) - len(path))
        while path and path[-1] == branch.widths[len(path) - 1] - 1:
            path.pop()
        if not path:
            return dict(found)
        path[-1] += 1


def cuts_of(protocol: FrequencyProtocol[Any]) -> Callable[[int], list[int]]:
    """Thresholds of both rounds by the limit that a draw names."""
    rounds = [getattr(protocol, name, None) for name in ("permanent", "instant")]
    by_limit: dict[int, set[int]] = defaultdict(set)
    for one_round in rounds:
        if isinstance(one_round, SymbolChannel):
            keep, each = one_round.keep, one_round.each
            by_limit[one_round.total] |= {keep + i * each for i in range(one_round.size - 1)}
        elif isinstance(one_round, BitChannel):
            by_limit[FULL] |= {one_round.zero, one_round.one}
    return lambda limit: sorted(by_limit[limit])


def memos(protocol: FrequencyProtocol[Any]) -> list[Memo]:
    """Memos of devices that never reported: one per seed (fifty of them where there are too
    many).
    """
    responses, _ = weighted_responses(protocol)
    seeds = dict.fromkeys(getattr(response, "seed", None) for response, _ in responses)
    return [Memo(seed) for seed in seeds]
