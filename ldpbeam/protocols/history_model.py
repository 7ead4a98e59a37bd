"""The exact law of a device's reports, as far as two values can be told apart by them.

A report is reduced to a *symbol*: what it says about the two audited values, and the rest lumped together. So
a history of a few reports is one of few cells, and the probability of each is a rational number of the
protocol's integers. What a device draws once for life without looking at the value, and shows in every report
(its hash function, its buckets, its attribute), decides the *stratum*.

Values are 0 and 1 here: positions in the pair. A pattern is a sequence of them, one per report. The functions
at the end make the models of protocols whose rounds are channels of symbols or bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product, zip_longest
from math import prod
from typing import Any

from ldpbeam.channels.channel import Row
from ldpbeam.channels.rounds import RowsOfRounds

Pattern = tuple[int, ...]


@dataclass(frozen=True)
class Stratum:
    """Devices, or reports, that speak about the pair in the same way."""

    name: str
    probability: Fraction
    answers: tuple[Row, Row]
    instant: tuple[Row, ...] | None = None
    one_input: bool = False
    memoised: bool = True
    groups: tuple[tuple[int, ...], ...] = ()

    @property
    def symbols(self) -> int:
        return len(self.instant[0] if self.instant else self.answers[0])

    def history(self, pattern: Pattern, symbols: Sequence[int]) -> Fraction:
        """P(these symbols, one per report | the pattern's values, this stratum)."""
        if not self.memoised:
            reports = zip(pattern, symbols, strict=True)
            return prod((self._together(value, (one,)) for value, one in reports), start=Fraction(1))
        if self.one_input:
            return self._together(pattern[0], symbols)
        under: dict[int, list[int]] = {}
        for value, one in zip(pattern, symbols, strict=True):
            under.setdefault(value, []).append(one)
        return prod((self._together(value, some) for value, some in under.items()), start=Fraction(1))

    def first_symbol(self, value: int) -> Row:
        """P(each symbol | the value, this stratum), of a first report."""
        return tuple(self.history((value,), (symbol,)) for symbol in range(self.symbols))

    def _together(self, value: int, symbols: Sequence[int]) -> Fraction:
        """Σ over answers of P(answer | value) · P(the symbols of reports made under it | answer)."""
        row = self.answers[value]
        if self.instant is None:
            return row[symbols[0]] if len(set(symbols)) == 1 else Fraction(0)
        total = Fraction(0)
        for chance, second in zip(row, self.instant, strict=True):
            total += chance * prod((second[one] for one in symbols), start=Fraction(1))
        return total

    def conditions(self) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        for group in self.groups or (tuple(range(self.symbols)),):
            yield group, sum((self.history((0,), (one,)) for one in group), Fraction(0))


class Model(ABC):
    """The law of histories for one pair of values."""

    pair: tuple[Any, Any]

    @property
    @abstractmethod
    def strata(self) -> Sequence[Stratum | ProductStratum]:
        """All of them; their probabilities add up to 1."""

    @abstractmethod
    def place(self, response: Any) -> tuple[int, int]:
        """(stratum, symbol) of a response."""

    @property
    @abstractmethod
    def same_for_life(self) -> Fraction:
        """P(two devices draw the same for life), of what their reports show; 1 where they show nothing."""

    @abstractmethod
    def for_life(self, response: Any) -> Hashable:
        """What a device has drawn for life, as the response shows it."""

    @property
    def memoised(self) -> bool:
        """Whether a device keeps answers, so that its reports depend on each other."""
        return any(_memoised(stratum) for stratum in self.strata)

    @property
    def cells(self) -> int:
        return sum(stratum.symbols for stratum in self.strata)


@dataclass(frozen=True)
class PairModel(Model):
    """One attribute."""

    pair: tuple[Any, Any]
    placed: Callable[[Any], tuple[int, int]]
    kinds: tuple[Stratum, ...]
    shown: Callable[[Any], Hashable] | None = None
    same: Fraction = Fraction(1)

    @property
    def strata(self) -> tuple[Stratum, ...]:
        return self.kinds

    def place(self, response: Any) -> tuple[int, int]:
        return self.placed(response)

    @property
    def same_for_life(self) -> Fraction:
        return self.same

    def for_life(self, response: Any) -> Hashable:
        """What the response shows of it, by ``shown``; None where a device draws nothing for life."""
        return None if self.shown is None else self.shown(response)


def single_stratum(model: PairModel) -> PairModel:
    """The same for a protocol that draws the stratum anew for every report: it becomes part of the symbol."""
    starts, groups = [], []
    rows: tuple[list[Fraction], list[Fraction]] = ([], [])
    for stratum in model.kinds:
        starts.append(len(rows[0]))
        groups.append(tuple(range(starts[-1], starts[-1] + stratum.symbols)))
        for value, row in enumerate(rows):
            row += [stratum.probability * stratum.history((value,), (one,)) for one in range(stratum.symbols)]

    def placed(response: Any) -> tuple[int, int]:
        stratum, symbol = model.placed(response)
        return 0, starts[stratum] + symbol

    whole = Stratum("", Fraction(1), (tuple(rows[0]), tuple(rows[1])), memoised=False, groups=tuple(groups))
    return PairModel(model.pair, placed, (whole,))


@dataclass(frozen=True)
class ProductStratum:
    """Strata of several attributes that are reported together, with independent noise."""

    parts: tuple[Stratum, ...]

    @property
    def name(self) -> str:
        return " and ".join(filter(None, (part.name for part in self.parts)))

    @property
    def probability(self) -> Fraction:
        return prod((part.probability for part in self.parts), start=Fraction(1))

    @property
    def symbols(self) -> int:
        return prod(part.symbols for part in self.parts)

    def split(self, symbol: int) -> tuple[int, ...]:
        symbols = []
        for part in self.parts:
            symbol, one = divmod(symbol, part.symbols)
            symbols.append(one)
        return tuple(symbols)

    def join(self, symbols: Sequence[int]) -> int:
        number = 0
        for part, one in zip(reversed(self.parts), reversed(symbols), strict=True):
            number = number * part.symbols + one
        return number

    def history(self, pattern: Pattern, symbols: Sequence[int]) -> Fraction:
        columns = zip(*map(self.split, symbols), strict=True)
        pairs = zip(self.parts, columns, strict=True)
        return prod((part.history(pattern, column) for part, column in pairs), start=Fraction(1))

    def conditions(self) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        for chosen in product(*(tuple(part.conditions()) for part in self.parts)):
            group = tuple(self.join(one) for one in product(*(group for group, _ in chosen)))
            yield group, prod((chance for _, chance in chosen), start=Fraction(1))


@dataclass(frozen=True)
class ProductModel(Model):
    """Attributes of which every report tells: those that are audited together."""

    pair: tuple[Any, Any]
    positions: tuple[int, ...]
    models: tuple[PairModel, ...]
    by_attribute: Callable[[Any], Any]

    @cached_property
    def strata(self) -> tuple[ProductStratum, ...]:
        return tuple(ProductStratum(chosen) for chosen in product(*(model.strata for model in self.models)))

    def place(self, response: Any) -> tuple[int, int]:
        responses, number = self.by_attribute(response), 0
        symbols, parts = [], []
        for position, model in zip(self.positions, self.models, strict=True):
            stratum, symbol = model.place(responses[position])
            number = number * len(model.strata) + stratum
            symbols.append(symbol)
            parts.append(model.strata[stratum])
        return number, ProductStratum(tuple(parts)).join(symbols)

    @property
    def same_for_life(self) -> Fraction:
        return prod((model.same for model in self.models), start=Fraction(1))

    def for_life(self, response: Any) -> Hashable:
        responses = self.by_attribute(response)
        return tuple(
            model.for_life(responses[position])
            for position, model in zip(self.positions, self.models, strict=True)
        )


@dataclass(frozen=True)
class SampledModel(Model):
    """Attributes of which a device reports one for life; ``shares`` of the devices report each of them."""

    pair: tuple[Any, Any]
    models: tuple[PairModel, ...]
    shares: tuple[Fraction, ...]
    by_attribute: Callable[[Any], Any]

    @cached_property
    def strata(self) -> tuple[Stratum, ...]:
        strata_of_models = [
            Stratum(
                f"attribute {index}" + (f", {one.name}" if one.name else ""),
                share * one.probability,
                one.answers,
                one.instant,
                one.one_input,
                one.memoised,
                one.groups,
            )
            for index, (model, share) in enumerate(zip(self.models, self.shares, strict=False))
            for one in model.strata
        ]
        if len(self.models) < len(self.shares):
            certain, left = (
                ((Fraction(1),), (Fraction(1),)),
                sum(self.shares[len(self.models) :], Fraction(0)),
            )
            strata_of_models.append(Stratum("another attribute", left, certain))
        return tuple(strata_of_models)

    def place(self, response: Any) -> tuple[int, int]:
        ((attribute, own),) = self.by_attribute(response).items()
        before = sum(len(model.strata) for model in self.models[:attribute])
        if attribute >= len(self.models):
            return before, 0
        stratum, symbol = self.models[attribute].place(own)
        return before + stratum, symbol

    @property
    def same_for_life(self) -> Fraction:
        each = zip_longest(self.shares, (model.same for model in self.models), fillvalue=Fraction(1))
        return sum((share**2 * same for share, same in each), Fraction(0))

    def for_life(self, response: Any) -> Hashable:
        ((attribute, own),) = self.by_attribute(response).items()
        return attribute, self.models[attribute].for_life(own) if attribute < len(self.models) else None


def _memoised(stratum: Any) -> bool:
    return any(map(_memoised, stratum.parts)) if hasattr(stratum, "parts") else stratum.memoised


# Models of rounds over symbols and bits


def stratum_of(
    inputs: tuple[int, int],
    rounds: RowsOfRounds,
    name: str = "",
    probability: Fraction = Fraction(1),
    *,
    one_input: bool = False,
) -> Stratum:
    """The stratum of a protocol of one or two rounds."""
    permanent, instant = rounds
    first = permanent or instant
    assert first is not None  # noqa: S101 - every protocol has a round
    answers = first[inputs[0]], first[inputs[1]]
    second = instant if permanent else None
    return Stratum(name, probability, answers, second, one_input, permanent is not None)


def model_of_numbers(
    pair: tuple[int, int], cuts: Sequence[int], at_least: Callable[[int, int], Fraction]
) -> PairModel:
    """Of a report that is a fresh number, by cuts; ``at_least`` is P(it reaches a cut | value)."""

    def row(value: int) -> Row:
        tails = [Fraction(1), *(at_least(cut, value) for cut in cuts), Fraction(0)]
        return tuple(a - b for a, b in pairwise(tails))

    def placed(response: int) -> tuple[int, int]:
        return 0, sum(response >= cut for cut in cuts)

    return PairModel(pair, placed, (stratum_of((0, 1), (None, (row(pair[0]), row(pair[1])))),))


def for_life(model: PairModel) -> PairModel:
    """The model itself where answers are memoised; else its strata are drawn for every report."""
    return model if model.memoised else single_stratum(model)
