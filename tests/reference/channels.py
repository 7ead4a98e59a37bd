"""Exact channels by enumeration: probabilities as Fractions, nothing sampled.

``outcomes`` runs device code over *every* sequence of random words, grouped into intervals on which
it cannot tell words apart, so its answer is the true distribution and not an estimate.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from math import lcm
from typing import Any, NamedTuple, TypeVar

from ldpbeam.channels.channel import BitChannel, SymbolChannel
from ldpbeam.protocols import LocalProtocol, Memo
from ldpbeam.randomness import FULL, Randomness
from tests.reference.device_law import every_outcome, first_reports

T = TypeVar("T", bound=Hashable)
Parts = list[tuple[int, int]]
"""Intervals of words, each from its first one to before the next interval's."""


def enumerable(protocol: LocalProtocol[Any]) -> bool:
    """Whether the protocol can list its responses."""
    try:
        next(iter(protocol.law.responses()))
    except NotImplementedError:
        return False
    return True


@cache
def weighted_responses(protocol: LocalProtocol[Any]) -> tuple[tuple[Any, Fraction], ...]:
    """Responses with the probability of the seed they carry, or with 1 where they carry none.

    Families whose seeds cannot be enumerated are represented by fifty fixed ones.
    """
    if enumerable(protocol):
        found = list(protocol.law.responses())
    else:
        some = (first_reports(protocol, 0, number).law for number in range(50))
        found = list(dict.fromkeys(response for law in some for response in law))
    seeds_seen = {getattr(response, "seed", None) for response in found}
    share = Fraction(1, len(seeds_seen))
    return tuple((response, share) for response in found)


@cache
def channel(protocol: LocalProtocol[Any]) -> tuple[tuple[Fraction, ...], ...]:
    """P(response | value): one row per value, one column per weighted response, seed probability
    included.
    """
    responses = weighted_responses(protocol)
    return tuple(
        tuple(share * protocol.law.likelihood(response, value) for response, share in responses)
        for value in range(protocol.domain_size)
    )


def worst_ratio(rows: Iterable[Sequence[Fraction]]) -> Fraction:
    """Largest ratio of two entries of the same column."""
    return max(max(column) / min(column) for column in zip(*rows, strict=True))


class Rounds(NamedTuple):
    """The two rounds of a protocol; None where it has no such round."""

    permanent: SymbolChannel | BitChannel | None
    instant: SymbolChannel | BitChannel | None


def round_of(protocol: LocalProtocol[Any], name: str) -> Any:
    """The round ``permanent`` or ``instant``, of whatever kind; None where the protocol has no such round."""
    return getattr(getattr(protocol, "rounds", protocol), name, None)


def rounds_of(protocol: LocalProtocol[Any]) -> Rounds:
    """Of a protocol whose rounds are of symbols or bits, as they are where reports support values."""
    found = Rounds(*(round_of(protocol, name) for name in Rounds._fields))
    there = [one for one in found if one is not None]
    assert there
    assert all(isinstance(one, SymbolChannel | BitChannel) for one in there), there
    return found


def first_answer(protocol: LocalProtocol[Any], value: Any, memo: Memo, words: Any) -> Any:
    """What a device with this memo sends."""
    return protocol.device.privatize(value, memo, words)[0]


def memo_key(protocol: LocalProtocol[Any], seed: int | None, value: int) -> int:
    """What a device with this seed memoises an answer under: the key that its code writes."""
    _, after = protocol.device.privatize(value, Memo(seed), Seeded(0))
    return next(iter(after.answers), value)


@cache
def first_rows(protocol: LocalProtocol[Any], seed: int | None) -> list[list[Fraction]]:
    """P(memoised answer | value) of a device with this seed, a row per value, by its code."""
    laws = [_answers(protocol, seed, value) for value in range(protocol.domain_size)]
    answers = sorted({answer for law in laws for answer in law})
    return [[law.get(answer, Fraction(0)) for answer in answers] for law in laws]


@cache
def second_rows(protocol: LocalProtocol[Any], seed: int | None) -> list[list[Fraction]]:
    """P(report | memoised answer) of a device with this seed, a row per answer in order, by its code."""
    key = memo_key(protocol, seed, 0)
    answers = sorted({a for value in range(protocol.domain_size) for a in _answers(protocol, seed, value)})
    laws = []
    for answer in answers:
        memo = Memo(seed).with_answer(key, answer)
        laws.append(every_outcome(partial(first_answer, protocol, 0, memo)).law)
    reports = sorted({report for law in laws for report in law})
    return [[law.get(report, Fraction(0)) for report in reports] for law in laws]


def _answers(protocol: LocalProtocol[Any], seed: int | None, value: int) -> dict[Any, Fraction]:
    """The law of the answer that a device of this seed memoises for a value; the report is left aside."""

    def run(randomness: Any) -> Any:
        _, after = protocol.device.privatize(value, Memo(seed), _Permanent(randomness))
        (answer,) = after.answers.values()
        return answer

    return every_outcome(run).law


class _Permanent(Randomness):
    """Words of the permanent round as they come, and any word for the round after it."""

    def __init__(self, words: Any) -> None:
        self._words = words

    def word(self, limit: int = FULL) -> int:
        return 0

    def permanent(self, key: int) -> Any:
        return self._words


class Seeded(Randomness):
    """Words of a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def word(self, limit: int = FULL) -> int:
        return self._random.randrange(limit)


def over_one_denominator(rows: Iterable[Sequence[Fraction]]) -> tuple[list[list[int]], int]:
    """Their numerators over one denominator, and that: sums of products need no fraction at each step."""
    rows = list(rows)
    whole = lcm(*(entry.denominator for row in rows for entry in row))
    return [[entry.numerator * (whole // entry.denominator) for entry in row] for row in rows], whole


class Branching(Randomness):
    """Randomness that walks one path of a tree of intervals and knows the path's probability."""

    def __init__(self, path: Sequence[int], parts: Callable[[int], Parts]) -> None:
        self._path = path
        self._parts = parts
        self.widths: list[int] = []
        self.weight = self.whole = 1
        """The path's probability is one over the other; it is not reduced at every word."""

    def word(self, limit: int = FULL) -> int:
        parts = self._parts(limit)
        depth = len(self.widths)
        low, high = parts[self._path[depth] if depth < len(self._path) else 0]
        self.widths.append(len(parts))
        self.weight *= high - low
        self.whole *= limit
        return low


def outcomes(run: Callable[[Any], T], cuts: Callable[[int], list[int]]) -> dict[T, Fraction]:
    """Exact distribution of ``run(randomness)`` when ``cuts(limit)`` holds every threshold it
    compares with.
    """

    @cache
    def parts(limit: int) -> Parts:
        return [(low, high) for low, high in pairwise([0, *cuts(limit), limit]) if low < high]

    # Weights of a response by what they are over, which is the same for most paths.
    weights: dict[T, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    path: list[int] = []
    while True:
        branch = Branching(path, parts)
        weights[run(branch)][branch.whole] += branch.weight
        path += [0] * (len(branch.widths) - len(path))
        while path and path[-1] == branch.widths[len(path) - 1] - 1:
            path.pop()
        if not path:
            return {
                response: sum((Fraction(weight, whole) for whole, weight in some.items()), Fraction(0))
                for response, some in weights.items()
            }
        path[-1] += 1


def cuts_of(protocol: LocalProtocol[Any]) -> Callable[[int], list[int]]:
    """Thresholds of both rounds by the limit that a draw names."""
    rounds = [round_of(protocol, name) for name in ("permanent", "instant")]
    by_limit: dict[int, set[int]] = defaultdict(set)
    for one_round in rounds:
        if isinstance(one_round, SymbolChannel):
            keep, each = one_round.keep, one_round.each
            by_limit[one_round.total] |= {keep + i * each for i in range(one_round.size - 1)}
        elif isinstance(one_round, BitChannel):
            by_limit[FULL] |= {one_round.zero, one_round.one}
    return lambda limit: sorted(by_limit[limit])


def memos(protocol: LocalProtocol[Any]) -> list[Memo]:
    """Memos of devices that never reported: one per seed (fifty of them where there are too
    many).
    """
    laws = [every_outcome(protocol.device.new_memo, number) for number in range(50)]
    some = laws[:1] if laws[0].complete else laws
    return [Memo(seed) for seed in dict.fromkeys(seed for found in some for seed, _ in found.law)]
