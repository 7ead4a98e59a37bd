"""Permanent answers, as a run of reports about one value shows them.

One report of a device says little about its permanent answer, and a block of reports says nearly all. So two
blocks of one device tell whether the answer was kept between them, and blocks of one device for two
collections tell whether an answer is shared. Each block is reduced to one bit by a rule that theory chooses;
how often two bits agree is an exact binomial count over devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations
from math import log
from typing import Any, NamedTuple

from ldpbeam.protocols.history_model import Model, PairModel, ProductModel, Stratum

_SIZES = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200, 256)
_ENOUGH = 45.0
"""Nats by which devices that keep their answers and those that do not are told apart; then blocks are long
enough. Tests need about 25."""

_MOST_OF_IT = 0.8
"""Share of what the longest blocks tell that is enough as well."""

_SUBSETS = 4
"""Symbols up to which all sets of them are tried."""


class ModelView(NamedTuple):
    """One attribute's part of a model, or all of a model that is not several at once."""

    name: str
    strata: Sequence[Stratum]
    place: Callable[[Any], tuple[int, int]]


def views_of(model: Model) -> Iterator[ModelView]:
    """Attributes that are reported together are looked at one by one."""
    if not isinstance(model, ProductModel):
        strata = model.strata
        yield ModelView("", [one for one in strata if isinstance(one, Stratum)], model.place)
        return
    for position, part in zip(model.positions, model.models, strict=True):
        yield ModelView(f"attribute {position}, ", part.strata, _within(model, part, position))


def _within(model: ProductModel, part: PairModel, position: int) -> Callable[[Any], tuple[int, int]]:
    return lambda response: part.place(model.by_attribute(response)[position])


@dataclass(frozen=True)
class Decision:
    """How a block of reports becomes one bit."""

    symbols: frozenset[int]
    least: int
    high: tuple[tuple[float, float], ...]

    def __call__(self, symbols: Sequence[int]) -> bool:
        return sum(symbol in self.symbols for symbol in symbols) >= self.least

    @cached_property
    def same(self) -> float:
        """P(two blocks agree), if they show one answer."""
        return min(1.0, sum(p * (h * h + (1 - h) * (1 - h)) for p, h in self.high))

    @cached_property
    def apart(self) -> float:
        """P(two blocks agree), if their answers were drawn independently."""
        h = sum(p * h for p, h in self.high)
        return min(1.0, h * h + (1 - h) * (1 - h))


def divergence(true: float, stated: float) -> float:
    """Nats per device by which the stated probability of an event is refuted, if the true one holds."""
    total = 0.0
    for p, q in ((true, stated), (1 - true, 1 - stated)):
        if p > 0:
            total += p * log(p / max(q, 1e-300))
    return total


@cache
def decide(
    answers: tuple[float, ...], rates: tuple[tuple[float, ...], ...], size: int, *, memoised: bool
) -> Decision:
    """The rule that tells kept answers best from answers that are drawn anew."""
    from numpy import arange
    from scipy.special import betainc

    symbols = range(len(rates[0]))
    most = len(symbols) if len(symbols) <= _SUBSETS else 2
    best: tuple[float, Decision] | None = None
    counts = arange(1, size + 1)
    for number in range(1, most):
        for chosen in combinations(symbols, number):
            chances = [min(1.0, sum(row[symbol] for symbol in chosen)) for row in rates]
            tails = [betainc(counts, size + 1 - counts, chance) for chance in chances]
            for least in counts.tolist():
                high = tuple((p, float(tail[least - 1])) for p, tail in zip(answers, tails, strict=True))
                one = Decision(frozenset(chosen), least, high)
                worth = divergence(one.apart, one.same) if memoised else divergence(one.same, one.apart)
                if best is None or worth > best[0] + 1e-12:
                    best = worth, one
    return best[1] if best else Decision(frozenset(), 0, tuple((p, 1.0) for p in answers))


class Blocks:
    """Rules for one view and one of the two values: of each stratum one."""

    def __init__(self, view: ModelView, value: int, size: int, *, memoised: bool) -> None:
        """``memoised`` as :func:`decide` has it."""
        self.view, self.size, self.value = view, size, value
        self._rules = [_rule(stratum, value, size, memoised=memoised) for stratum in view.strata]
        parts = [(float(one.probability), rule) for one, rule in zip(view.strata, self._rules, strict=True)]
        self.ones = min(1.0, sum(p * q * h for p, rule in parts for q, h in rule.high))
        kept = min(1.0, sum(p * rule.same for p, rule in parts))
        if memoised:
            self.probability, other = kept, min(1.0, sum(p * rule.apart for p, rule in parts))
        else:
            # Two devices draw a stratum each.
            self.probability, other = self.ones**2 + (1 - self.ones) ** 2, kept
        self.worth = divergence(other, self.probability)

    def bit(self, stratum: int, symbols: Sequence[int]) -> bool:
        return self._rules[stratum](symbols)

    def bits(self, responses: Sequence[Any]) -> list[bool] | None:
        """Of each whole block of a device's responses; None where they are of several strata."""
        places = [self.view.place(response) for response in responses]
        if len({stratum for stratum, _ in places}) > 1:
            return None
        stratum, symbols = places[0][0], [symbol for _, symbol in places]
        starts = range(0, len(symbols) - self.size + 1, self.size)
        return [self.bit(stratum, symbols[start : start + self.size]) for start in starts]


def _rule(stratum: Stratum, value: int, size: int, *, memoised: bool) -> Decision:
    """Where nothing is memoised a report is its own answer, and a block is one report."""
    answers = tuple(float(p) for p in stratum.answers[value])
    symbols = range(len(answers))
    if stratum.instant is None:
        rates = tuple(tuple(float(answer == symbol) for symbol in symbols) for answer in symbols)
    else:
        rates = tuple(tuple(float(p) for p in row) for row in stratum.instant)
    return decide(answers, rates, size, memoised=memoised)


def sized(view: ModelView, values: Sequence[int], devices: int, most: int, *, memoised: bool) -> list[Blocks]:
    """Blocks about each value, of the shortest size that tells enough."""
    fit = [size for size in _SIZES if size <= max(1, most)]
    longest = [Blocks(view, value, fit[-1], memoised=memoised) for value in values]
    wanted = min(_ENOUGH / devices, _MOST_OF_IT * min(one.worth for one in longest))
    for size in fit[:-1]:
        blocks = [Blocks(view, value, size, memoised=memoised) for value in values]
        if min(one.worth for one in blocks) >= wanted:
            return blocks
    return longest
