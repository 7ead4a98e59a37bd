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
from itertools import pairwise, product
from math import lcm
from operator import mul
from typing import Any, NamedTuple, TypeVar

from ldpbeam.channels.channel import BitChannel, SymbolChannel
from ldpbeam.protocols import LocalProtocol, Memo
from ldpbeam.protocols.bit_flip import BitFlip
from ldpbeam.protocols.one_bit_mean import OneBitRRPM
from ldpbeam.protocols.public_string import BinFlipPlus, Verdict
from ldpbeam.randomness import FULL, Randomness

T = TypeVar("T", bound=Hashable)
Parts = list[tuple[int, int]]
"""Intervals of words, each from its first one to before the next interval's."""


@cache
def weighted_responses(
    protocol: LocalProtocol[Any],
) -> tuple[tuple[tuple[Any, Fraction], ...], bool]:
    """Responses with the probability of the seed they carry (1 without seed), and whether that is
    all.

    Families whose seeds cannot be enumerated are represented by fifty fixed ones.
    """
    try:
        found = list(protocol.law.responses())
        complete = True
    except NotImplementedError:
        draw = random.Random(20260101)
        if isinstance(protocol, BinFlipPlus):
            drawn = [draw.getrandbits(128) for _ in range(50)]
            verdicts = tuple((Verdict(s, bit), Fraction(1, 50)) for s in drawn for bit in (0, 1))
            return verdicts, False
        family = protocol.family  # type: ignore[attr-defined]
        seeds = [
            family.seed([draw.randrange(family.word_limit) for _ in range(family.SEED_WORDS)])
            for _ in range(50)
        ]
        found = [
            protocol.device.decode(family.encode(seed, symbol))
            for seed in seeds
            for symbol in range(family.g)
        ]
        complete = False
    seeds_seen = {getattr(response, "seed", None) for response in found}
    share = Fraction(1, len(seeds_seen))
    return tuple((response, share) for response in found), complete


@cache
def channel(protocol: LocalProtocol[Any]) -> tuple[tuple[Fraction, ...], ...]:
    """P(response | value): one row per value, one column per weighted response, seed probability
    included.
    """
    responses, _ = weighted_responses(protocol)
    return tuple(
        tuple(share * protocol.law.likelihood(response, value) for response, share in responses)
        for value in range(protocol.domain_size)
    )


def worst_ratio(rows: Iterable[Sequence[Fraction]]) -> Fraction:
    """Largest ratio of two entries of the same column."""
    return max(max(column) / min(column) for column in zip(*rows, strict=True))


def output_of(response: Any) -> int:
    """What the rounds made of the value: the response without its seed."""
    for part in ("symbol", "bits", "bit"):
        if hasattr(response, part):
            return int(getattr(response, part))
    return int(response)


class Rounds(NamedTuple):
    """The two rounds of a protocol; None where it has no such round."""

    permanent: SymbolChannel | BitChannel | None
    instant: SymbolChannel | BitChannel | None


def rounds_of(protocol: LocalProtocol[Any]) -> Rounds:
    """Of a protocol whose rounds are of symbols or bits, as they are where reports support values."""
    found = Rounds(*(getattr(protocol, name, None) for name in Rounds._fields))
    there = [one for one in found if one is not None]
    assert there
    assert all(isinstance(one, SymbolChannel | BitChannel) for one in there), there
    return found


def first_answer(protocol: LocalProtocol[Any], value: Any, memo: Memo, words: Any) -> Any:
    """What a device with this memo sends."""
    return protocol.device.privatize(value, memo, words)[0]


def memo_key(protocol: LocalProtocol[Any], seed: int | None, value: int) -> int:
    """What a device with this seed memoises an answer under."""
    if isinstance(protocol, OneBitRRPM) and seed is not None:
        return protocol.device.point(value, seed)
    if isinstance(protocol, BitFlip) and seed is not None:
        return protocol.device.memo_key(protocol.device.sampled_set(seed), value)
    return value if seed is None else int(protocol.family.hash(seed, value))  # type: ignore[attr-defined]


def first_rows(protocol: LocalProtocol[Any], seed: int | None) -> list[list[Fraction]]:
    """P(output of the first round | value), given the seed of a response, a row per value."""
    one_round = getattr(protocol, "permanent", None) or protocol.instant  # type: ignore[attr-defined]
    values = range(protocol.domain_size)
    if isinstance(protocol, BitFlip):
        held = [1 << memo_key(protocol, seed, v) for v in values]
        outputs = range(1 << protocol.d)
        return [[_bits(one_round, bits, o, protocol.d) for o in outputs] for bits in held]
    if isinstance(protocol, BinFlipPlus):
        assert seed is not None
        return [[_bits(one_round, protocol.device.string_bit(seed, v), o, 1) for o in (0, 1)] for v in values]
    rows = round_rows(one_round, protocol.domain_size)
    return rows if seed is None else [rows[memo_key(protocol, seed, v)] for v in values]


def seed_words(protocol: LocalProtocol[Any]) -> tuple[list[list[int]], bool]:
    """Words of per-report seeds: some for every seed where there are few, else fixed ones; and which."""
    if isinstance(protocol, BitFlip):
        # The smallest word of each place of the deck.
        steps = [
            [-(-(place << 64) // (protocol.domain_size - i)) for place in range(protocol.domain_size - i)]
            for i in range(protocol.d)
        ]
        return [list(words) for words in product(*steps)], True
    if weighted_responses(protocol)[1]:
        return [[seed - 1] for seed in protocol.family.seeds()], True  # type: ignore[attr-defined]
    return [[3, 5], [7 << 60, 11 << 50]], False


def round_rows(one_round: SymbolChannel | BitChannel, size: int) -> list[list[Fraction]]:
    """P(answer | input) of one round: symbols to symbols, or one-hot vectors to bit vectors."""
    if isinstance(one_round, SymbolChannel):
        n = one_round.size
        return [[Fraction(one_round.keep if o == i else one_round.each, one_round.total)
                 for o in range(n)] for i in range(n)]  # fmt: skip
    return [[_bits(one_round, 1 << i, o, size) for o in range(1 << size)] for i in range(size)]


def second_rows(one_round: SymbolChannel | BitChannel | None, size: int) -> list[list[Fraction]]:
    """P(report | permanent answer): as above, from every bit vector; the answer itself without a round."""
    if one_round is None:
        answers = range(1 << size)
        return [[Fraction(i == o) for o in answers] for i in answers]
    if isinstance(one_round, SymbolChannel):
        return round_rows(one_round, size)
    vectors = range(1 << size)
    return [[_bits(one_round, i, o, size) for o in vectors] for i in vectors]


def _bits(one_round: BitChannel, given: int, output: int, size: int) -> Fraction:
    weight = 1
    for v in range(size):
        one = one_round.one if given >> v & 1 else one_round.zero
        weight *= one if output >> v & 1 else FULL - one
    return Fraction(weight, FULL**size)


def compose(first: list[list[Fraction]], second: list[list[Fraction]]) -> list[list[Fraction]]:
    """Matrix product: first round, then second round."""
    (left, one), (right, other) = over_one_denominator(first), over_one_denominator(second)
    columns = list(zip(*right, strict=True))
    return [[Fraction(sum(map(mul, row, column)), one * other) for column in columns] for row in left]


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
    rounds = [getattr(protocol, name, None) for name in ("permanent", "instant")]
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
    responses, _ = weighted_responses(protocol)
    seeds = dict.fromkeys(getattr(response, "seed", None) for response, _ in responses)
    return [Memo(seed) for seed in seeds]
