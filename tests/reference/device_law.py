"""The exact law of device code, whatever its protocol: the code runs over every word that it could draw.

A word is not a number here but an interval of numbers. Where the code compares it, divides it or asks for its
value, the interval is cut, and the code runs once for each part. So nothing is known of the encoding, and the
answer is the true distribution. Of a word with too many values to try, such as half of a 128-bit seed, one
value stands for all, and probabilities are those given that value.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from ldpbeam.protocols import LocalProtocol, Memo
from ldpbeam.randomness import FULL, Randomness

MOST = 64
"""Values of a word that are tried one by one."""

Step = Callable[[int], int]
"""A function of a word that never falls."""


def itself(word: int) -> int:
    return word


@dataclass
class Drawn:
    """A word as far as a run knows it: one of low .. high − 1, out of ``whole`` equally likely ones."""

    run: Run
    low: int
    high: int
    whole: int
    given: bool = False
    """Whether one value stands for all."""


class Number:
    """A word, or a number made of it."""

    def __init__(self, drawn: Drawn, step: Step) -> None:
        self._drawn, self._step = drawn, step

    def _first(self, least: int) -> int:
        """The first word from which on the number is at least so large, or the end of the interval."""
        low, high = self._drawn.low, self._drawn.high
        if self._step is itself:
            return min(max(least, low), high)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._step(middle) >= least else (middle + 1, high)
        return low

    def __lt__(self, other: Any) -> bool:
        cut, drawn = self._first(int(other)), self._drawn
        if drawn.low < cut < drawn.high:
            if drawn.run.choose(2):
                drawn.low = cut
            else:
                drawn.high = cut
        return drawn.high <= cut

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __le__(self, other: Any) -> bool:
        return self < int(other) + 1

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __index__(self) -> int:
        drawn = self._drawn
        low, high = self._step(drawn.low), self._step(drawn.high - 1)
        if low == high:
            return low
        if high - low < MOST:
            value = low + drawn.run.choose(high - low + 1)
            drawn.low, drawn.high = self._first(value), self._first(value + 1)
            assert drawn.low < drawn.high, "a number that the word does not reach"
            return value
        word = drawn.run.any_of(drawn.low, drawn.high)
        drawn.low, drawn.high, drawn.given = word, word + 1, True
        return self._step(word)

    __int__ = __index__

    def to_bytes(self, length: int, order: Literal["little", "big"]) -> bytes:
        return int(self).to_bytes(length, order)

    def __eq__(self, other: object) -> bool:
        return int(self) == other

    def __hash__(self) -> int:
        return hash(int(self))

    def _then(self, after: Step) -> Number:
        before = self._step
        return Number(self._drawn, lambda word: after(before(word)))

    def __add__(self, other: Any) -> Number:
        by = int(other)
        return self._then(lambda number: number + by)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Number:
        return self + -int(other)

    def __mul__(self, other: Any) -> Number:
        by = int(other)
        assert by > 0
        return self._then(lambda number: number * by)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Number:
        by = int(other)
        return self._then(lambda number: number // by)

    def __rshift__(self, other: Any) -> Number:
        return self // (1 << int(other))

    def __mod__(self, other: Any) -> Any:
        by, drawn = int(other), self._drawn
        if self._step is itself and (drawn.low, drawn.high) == (0, drawn.whole) and not drawn.whole % by:
            drawn.high = drawn.whole = by
            return self
        return int(self) % by

    def __lshift__(self, other: Any) -> int:
        return int(self) << int(other)

    def __rlshift__(self, other: int) -> int:
        return other << int(self)

    def __rrshift__(self, other: int) -> int:
        return other >> int(self)

    def __xor__(self, other: Any) -> int:
        return int(self) ^ int(other)

    def __or__(self, other: Any) -> int:
        return int(self) | int(other)

    __ror__ = __or__

    def __and__(self, other: Any) -> int:
        return int(self) & int(other)


class Run(Randomness):
    """One run of the code: the choices that it is to make first, and how many there were at each."""

    def __init__(self, path: list[int], seed: int) -> None:
        self._path = path
        self._any = random.Random(f"words that stand for all {seed}")
        self.counts: list[int] = []
        self.words_drawn: list[Drawn] = []

    def choose(self, count: int) -> int:
        depth = len(self.counts)
        self.counts.append(count)
        return self._path[depth] if depth < len(self._path) else 0

    def any_of(self, low: int, high: int) -> int:
        return self._any.randrange(low, high)

    def word(self, limit: int = FULL) -> Any:
        self.words_drawn.append(Drawn(self, 0, limit, limit))
        return Number(self.words_drawn[-1], itself)

    def words(self, count: int) -> Any:
        return [self.word() for _ in range(count)]

    @property
    def probability(self) -> tuple[int, int]:
        """Numerator and denominator, given the words that stand for all."""
        over, under = 1, 1
        for one in self.words_drawn:
            if not one.given:
                over *= one.high - one.low
                under *= one.whole
        return over, under


@dataclass
class Outcomes:
    """What code can do."""

    law: dict[Any, Fraction] = field(default_factory=dict)
    complete: bool = True


def every_outcome(run: Callable[[Any], Any], seed: int = 0) -> Outcomes:
    """The exact law of what ``run(randomness)`` returns: integers, memos, and tuples of these."""
    found = Outcomes()
    weights: dict[Any, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    path: list[int] = []
    while True:
        branch = Run(path, seed)
        outcome = plain(run(branch))
        over, under = branch.probability
        weights[outcome][under] += over
        found.complete &= not any(one.given for one in branch.words_drawn)
        path += [0] * (len(branch.counts) - len(path))
        while path and path[-1] == branch.counts[len(path) - 1] - 1:
            path.pop()
        if not path:
            break
        path[-1] += 1
    for outcome, some in weights.items():
        found.law[outcome] = sum((Fraction(over, under) for under, over in some.items()), Fraction(0))
    return found


def plain(outcome: Any) -> Hashable:
    """Numbers as integers, memos with their answers in order."""
    if isinstance(outcome, Memo):
        answers = {int(key): int(answer) for key, answer in sorted(outcome.answers.items())}
        return None if outcome.seed is None else int(outcome.seed), tuple(answers.items())
    if isinstance(outcome, tuple):
        fields: list[Any] = [plain(one) for one in outcome]
        return type(outcome)(*fields) if hasattr(outcome, "_fields") else tuple(fields)
    return outcome if outcome is None or isinstance(outcome, bytes) else int(outcome)


def first_reports(built: LocalProtocol[Any], value: Any, seed: int = 0) -> Outcomes:
    """Responses of a new device that holds a value."""

    def run(randomness: Any) -> Any:
        memo = built.device.new_memo(randomness)
        return built.device.privatize(value, memo, randomness)[0]

    return every_outcome(run, seed)


def branches(built: LocalProtocol[Any]) -> int:
    """About how many runs a first report takes."""
    plan, runs = built.simulation.word_plan, 1
    for spec in (plan.seed, plan.permanent, plan.instant):
        for limit in spec.limits if spec is not None else ():
            runs *= 2 if spec is not None and spec.bits else min(limit, built.domain_size)
    return runs
