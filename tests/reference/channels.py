"""Exact channels by enumeration: probabilities as Fractions, nothing sampled."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache, partial
from math import lcm
from typing import Any, NamedTuple

from ldpbeam.channels.channel import BitChannel, SymbolChannel
from ldpbeam.protocols import LocalProtocol, Memo
from ldpbeam.randomness import FULL, Randomness
from tests.reference.device_law import every_outcome, first_reports


def enumerable(protocol: LocalProtocol[Any]) -> bool:
    """Whether the protocol can list its responses."""
    try:
        next(iter(protocol.law.responses()))
    except NotImplementedError:
        return False
    return True


@cache
def weighted_responses(protocol: LocalProtocol[Any]) -> tuple[tuple[Any, Fraction], ...]:
    """Responses with the probability of the seed they carry, or with 1 where they carry none."""
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
    """P(response | value): one row per value, one column per weighted response, seed probability included."""
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


def memos(protocol: LocalProtocol[Any]) -> list[Memo]:
    """Memos of devices that never reported: one per seed (fifty of them where there are too many)."""
    laws = [every_outcome(protocol.device.new_memo, number) for number in range(50)]
    some = laws[:1] if laws[0].complete else laws
    return [Memo(seed) for seed in dict.fromkeys(seed for found in some for seed, _ in found.law)]
