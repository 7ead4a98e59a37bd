"""What t reports of a device with a memo tell together, exactly, as far as that can be enumerated.

Two comparisons, both between sequences of *memoised inputs*
(:class:`~ldpbeam.privacy.guarantee.MemoisedInputs`: values for ``l_grr`` and the unary protocols, hash
symbols for ``loloha``):

- ``same_changes``: one sequence is the other one with its inputs renamed. So both change at the same epochs
  and come back to an earlier input at the same epochs. The loss tends to at most inputs × ε∞.
- ``any_changes``: any two sequences. Nothing caps it: whoever looks for *when* an input changed, or came
  back, learns more with every report. Two reports can lose more than 2·ε1 and more than the cap: where the
  second round is weak (ε1 near ε∞), or where a report has many bits that all show a change. ``bound`` is for
  any number of reports (docs/maths.md section 2).

The likelihood of reports y given inputs h is a sum over all memo tables. As the entries of a memo are
independent it factors: ∏ over inputs i of Σ over answers a of P1(a | i) · ∏ over the reports made under i of
P2(y | a). Ratios are rational numbers of the protocol's integers, logarithms are rounded up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from math import comb, inf, nextafter, prod
from operator import itemgetter

from ldpbeam.channels.channel import SymbolChannel
from ldpbeam.channels.exact import log_above, log_above_power
from ldpbeam.channels.rounds import Rounds

CURVE_REPORTS = 10
"""Reports up to which run.json has the curves."""

_STEPS = 50_000
"""Steps of one enumeration, about 3 µs each; :meth:`SymbolLosses.any_changes` says what that allows."""

Curve = list[list[float]]


class Losses(ABC):
    """Worst-case losses of t reports. Immutable and hashable: what is computed is remembered."""

    @abstractmethod
    def same_changes(self, reports: int) -> float:
        """Between two sequences of inputs of which one is the other, renamed.

        The logarithm is rounded up; splits of the reports that differ by less than 1e-13 count as equal.
        """

    @abstractmethod
    def any_changes(self, reports: int) -> float | None:
        """Between any two sequences of inputs, not capped; None where the enumeration is too long."""

    @abstractmethod
    def bound(self, reports: int) -> float:
        """At least the loss between any two sequences; infinite where memoised answers are sent.

        The smaller of two bounds. The first is the loss of one report in the second round, times their
        number: two sequences differ in the memoised answers that reports are drawn from. For the second, some
        memoised answer fits the reports about an input best, and every input can have it: so no sequence
        makes the reports very unlikely.
        """


@dataclass(frozen=True)
class OneProtocolLosses(Losses):
    """Inputs whose permanent answers are independent.

    Attributes:
        inputs: how many different inputs a device can go through.
    """

    inputs: int

    @abstractmethod
    def constant_ratio(self, reports: int) -> Fraction:
        """Worst likelihood ratio of reports about one unchanged input, against another one."""

    def constant(self, reports: int) -> float:
        """Its logarithm, rounded up; tends to ε∞."""
        return log_above(self.constant_ratio(reports))

    def same_changes(self, reports: int) -> float:
        """The reports are split over the inputs so that the inputs' losses add up to the most.

        Given a renaming, the reports under each input have a worst case of their own. So the order of the
        inputs does not matter, only how many reports each one has.
        """
        require_reports(reports)
        return _best_split(self, reports)


@lru_cache(256)
def _best_split(losses: OneProtocolLosses, reports: int) -> float:
    ratios = [Fraction(1), *(losses.constant_ratio(t) for t in range(1, reports + 1))]
    single = [0.0, *(log_above(ratio) for ratio in ratios[1:])]
    # best[t] = (loss, reports under each input); floats choose the split, its loss is then exact.
    best: list[tuple[float, tuple[int, ...]]] = [(loss, (t,)) for t, loss in enumerate(single)]
    for _ in range(1, min(losses.inputs, reports)):
        longer = [
            max(
                [best[t], *((best[t - s][0] + single[s], (*best[t - s][1], s)) for s in range(1, t))],
                key=itemgetter(0),
            )
            for t in range(reports + 1)
        ]
        if longer == best:
            break
        best = longer
    return log_above(prod((ratios[t] for t in best[reports][1]), start=Fraction(1)))


@dataclass(frozen=True)
class SymbolLosses(OneProtocolLosses):
    """Randomised response over symbols, memoised, then again for every report (L-GRR, LOLOHA)."""

    rounds: Rounds[SymbolChannel]

    def constant_ratio(self, reports: int) -> Fraction:
        """[(e^{ε∞+t·ε_IRR}+m−1)/(e^{ε∞}+e^{t·ε_IRR}+m−2)], where the input's symbol was sent t times."""
        require_reports(reports)
        others = self.rounds.first.size - 1
        first, power = self.rounds.first.ratio, self.rounds.last.ratio**reports
        return (first * power + others) / (first + power + others - 1)

    def any_changes(self, reports: int) -> float | None:
        """By enumeration in integers, over how often each symbol was sent and under which input."""
        require_reports(reports)
        ratio = _any_ratio(self, reports)
        return None if ratio is None else log_above(ratio)

    def bound(self, reports: int) -> float:
        """The symbol that an input sent most often fits at least one in ``size`` of its reports."""
        first, ratio = self.rounds.first, self.rounds.last.ratio
        unlikely = 1 / first.other, min(self.inputs, reports)
        fitting = -(-reports // first.size)
        return min(
            log_above_power([(ratio, reports)]), log_above_power([unlikely, (ratio, reports - fitting)])
        )


@lru_cache(256)
def _any_ratio(losses: SymbolLosses, reports: int) -> Fraction | None:
    sent = list(_sent(losses, reports))
    if sum(_steps(counts, len(rows)) for counts, rows in sent) > _STEPS:
        return None
    return max(_extremes(losses, counts, rows) for counts, rows in sent)


def _sent(losses: SymbolLosses, reports: int) -> Iterator[tuple[tuple[int, ...], tuple[int | None, ...]]]:
    """How often each symbol was sent, up to renaming, and the inputs that can matter."""
    symbols = losses.rounds.first.size
    inputs = min(losses.inputs, symbols)
    for own_total in range(reports + 1):
        for own in partitions(own_total, inputs):
            for foreign in partitions(reports - own_total, symbols - inputs):
                # Inputs whose symbol was never sent are alike, and at most one is used per report.
                blank = min(inputs - len(own), reports)
                yield own + foreign, (*range(len(own)), *(None,) * blank)


def partitions(total: int, parts: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Decreasing positive numbers, at most ``parts`` of them, with that sum."""
    if total == 0:
        yield ()
    elif parts:
        for first in range(min(total, largest or total), 0, -1):
            for rest in partitions(total - first, parts - 1, first):
                yield (first, *rest)


def _steps(counts: tuple[int, ...], inputs: int) -> int:
    """Products that :func:`_extremes` forms: few at the first and the last input, all pairs between."""
    return 2 * prod(n + 1 for n in counts) + max(0, inputs - 2) * prod(comb(n + 2, 2) for n in counts)


def _extremes(losses: SymbolLosses, counts: tuple[int, ...], inputs: Sequence[int | None]) -> Fraction:
    """The largest likelihood of reports with these counts over the smallest, over all sequences of inputs."""
    first, last = losses.rounds.first, losses.rounds.last
    keep1, each1, symbols = first.keep, first.each, first.size
    total = sum(counts)
    up: list[int] = [last.keep**j for j in range(total + 1)]
    down: list[int] = [last.each**j for j in range(total + 1)]

    @cache
    def under(own: int | None, made: tuple[int, ...]) -> int:
        """Σ over answers of P1(answer) · P2(the reports made under one input | answer)."""
        size = sum(made)
        of_answer = [up[j] * down[size - j] for j in made]
        mine = down[size] if own is None else of_answer[own]
        everything = sum(of_answer) + (symbols - len(made)) * down[size]
        return keep1 * mine + each1 * (everything - mine)

    def below(bounds: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        return product(*(range(n + 1) for n in bounds))

    # best[rest] = (smallest, largest) product over the inputs from here on, with ``rest`` to be shared out.
    best = {rest: (value := under(inputs[-1], rest), value) for rest in below(counts)}
    for position in range(len(inputs) - 2, -1, -1):
        asked = [counts] if position == 0 else below(counts)
        ends = {}
        for rest in asked:
            low, high = -1, 0
            for made in below(rest):
                smallest, largest = best[tuple(r - m for r, m in zip(rest, made, strict=True))]
                factor = under(inputs[position], made)
                if low < 0 or factor * smallest < low:
                    low = factor * smallest
                high = max(high, factor * largest)
            ends[rest] = low, high
        best = ends
    low, high = best[counts]
    return Fraction(high, low)


@dataclass(frozen=True)
class SeveralLosses(Losses):
    parts: tuple[Losses, ...]
    together: bool

    def same_changes(self, reports: int) -> float:
        """Every attribute's sequence is renamed; the worst attribute, or all of them added up."""
        return self._joined([part.same_changes(reports) for part in self.parts])

    def any_changes(self, reports: int) -> float | None:
        """None where an attribute's is not known."""
        losses = [part.any_changes(reports) for part in self.parts]
        known = [loss for loss in losses if loss is not None]
        return None if len(known) < len(losses) else self._joined(known)

    def bound(self, reports: int) -> float:
        """Of reports about all attributes, or about the worst one."""
        return self._joined([part.bound(reports) for part in self.parts])

    def _joined(self, losses: Sequence[float]) -> float:
        if not self.together:
            return max(losses)
        total = 0.0
        for loss in losses:
            # A sum of two floats is off by half an ulp at most.
            total = nextafter(total + loss, inf)
        return total


@lru_cache(64)
def _curves(losses: Losses) -> tuple[tuple[float, ...], tuple[float, ...], int | None]:
    times = range(1, CURVE_REPORTS + 1)
    anything = []
    unbounded_from = None
    for t in times:
        loss = losses.any_changes(t)
        if loss == inf:
            unbounded_from = t
        if loss is None or loss == inf:
            break
        anything.append(loss)
    return tuple(losses.same_changes(t) for t in times), tuple(anything), unbounded_from


def loss_record(losses: Losses | None) -> dict[str, Curve | float | None]:
    """What run.json and the page say of several reports; null where nothing is known or memoised."""
    if losses is None:
        names = ("same_changes", "any_changes", "two_reports", "unbounded_from")
        return {f"loss_{name}": None for name in names}
    same, anything, unbounded_from = _curves(losses)

    def points(curve: Sequence[float]) -> Curve:
        return [[t, loss] for t, loss in enumerate(curve, 1)]

    # One point is no curve, and it is the first report's loss, which is said elsewhere.
    return {
        "loss_same_changes": points(same),
        "loss_any_changes": points(anything) if len(anything) > 1 else None,
        "loss_two_reports": anything[1] if len(anything) > 1 else None,
        "loss_unbounded_from": unbounded_from,
    }


def require_reports(reports: int) -> None:
    if reports < 1:
        raise ValueError(f"losses are those of 1 report or more, not {reports}")
