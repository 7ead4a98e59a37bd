"""What t reports of a device that memoises bits tell together; see :mod:`ldpbeam.privacy.loss`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import inf, log1p, prod

from ldpbeam.channels.channel import BitChannel
from ldpbeam.channels.exact import float_above, log_above, log_above_power
from ldpbeam.channels.rounds import Rounds
from ldpbeam.privacy.loss import OneProtocolLosses, partitions, require_reports

_BIT_REPORTS = 6
"""Reports up to which :meth:`BitLosses.any_changes` goes through all pairs of sequences: about 0.1 s."""


@dataclass(frozen=True)
class BitLosses(OneProtocolLosses):
    """One-hot vectors of independent bits, memoised, then perhaps redrawn for each report (L-UE,
    dBitFlipPM)."""

    rounds: Rounds[BitChannel]
    bits: int = 2

    def constant_ratio(self, reports: int) -> Fraction:
        """Only the two inputs' own bits matter; exact, over the number of ones of each in the reports."""
        require_reports(reports)
        one, zero = self.rounds.first.own, self.rounds.first.other
        if self.rounds.instant is None:
            ratios = [one / zero, (1 - one) / (1 - zero)]
        else:
            up, down = self.rounds.instant.own, self.rounds.instant.other
            ratios = []
            for ones in range(reports + 1):
                given_one = up**ones * (1 - up) ** (reports - ones)
                given_zero = down**ones * (1 - down) ** (reports - ones)
                held = one * given_one + (1 - one) * given_zero
                ratios.append(held / (zero * given_one + (1 - zero) * given_zero))
        if self.bits == 1:
            return max(*ratios, 1 / min(ratios))
        return max(ratios) / min(ratios)

    def any_changes(self, reports: int) -> float | None:
        """Bit by bit: given the inputs, a report's bits are independent, and so are their histories."""
        require_reports(reports)
        if reports == 1:
            return self.constant(1)
        if self.rounds.instant is None:
            return inf
        return None if reports > _BIT_REPORTS else _any_bits(self, reports)

    def bound(self, reports: int) -> float:
        """Bit by bit: ones fit a memoised one, zeros a memoised zero; at worst both cost the same."""
        if self.rounds.instant is None:
            return inf
        first, last = self.rounds.first, self.rounds.last
        one = Fraction(log_above(last.own / last.other))
        zero = Fraction(log_above((1 - last.other) / (1 - last.own)))
        used = min(self.inputs, reports)
        unlikely = [1 / min(held, 1 - held) for held in (first.own, first.other)]
        settled = log_above_power(zip(unlikely, (used, used * (self.inputs - 1)), strict=True))
        every = self.inputs * reports
        return float_above(min(every * max(one, zero), Fraction(settled) + every * one * zero / (one + zero)))


@lru_cache(256)
def _any_bits(losses: BitLosses, reports: int) -> float:
    """The largest loss over all pairs of sequences, up to the names of inputs and the order of reports."""
    histories = _Histories(losses, reports)
    best, factors = -1.0, dict[_Factor, int]()
    # No more groups than reports: all larger numbers of inputs have the same matrices.
    for shared in _shared_reports(reports, min(reports, losses.inputs)):
        loss, factors_of_loss = _worst_matching(histories, shared, losses.inputs)
        if loss > best:
            best, factors = loss, factors_of_loss
    return log_above_power((histories.ratio(*factor), times) for factor, times in factors.items())


_Shared = tuple[tuple[int, ...], ...]
"""Reports that group i of the first sequence and group j of the second have in common."""

_Factor = tuple[_Shared, int | None, int | None, _Shared]
"""Shared reports; the group, in either sequence, whose own bit this is; which of them are ones."""


@lru_cache(16)
def _shared_reports(reports: int, inputs: int) -> tuple[_Shared, ...]:
    """Every matrix of non-negative integers with that sum and no empty row or column, up to their order."""
    patterns = dict[_Shared, None]()
    for sizes in partitions(reports, inputs):
        first = [group for group, size in enumerate(sizes) for _ in range(size)]
        for second in _groupings(reports, inputs):
            counts = [[0] * (max(second) + 1) for _ in sizes]
            for i, j in zip(first, second, strict=True):
                counts[i][j] += 1
            patterns[_ordered(counts)] = None
    return tuple(patterns)


def _groupings(reports: int, groups: int) -> Iterator[tuple[int, ...]]:
    """The group of each report, groups being numbered in the order of their first report."""

    def longer(start: tuple[int, ...], used: int) -> Iterator[tuple[int, ...]]:
        if len(start) == reports:
            yield start
            return
        for group in range(min(used + 1, groups)):
            yield from longer((*start, group), max(used, group + 1))

    return longer((), 0)


def _ordered(counts: list[list[int]]) -> _Shared:
    """One of the few orders of rows and columns; that it may not be the only one costs time, nothing else."""
    rows = sorted(map(tuple, counts), key=lambda row: (sorted(row), row), reverse=True)
    columns = sorted(zip(*rows, strict=True), key=lambda column: (sorted(column), column), reverse=True)
    return tuple(sorted(zip(*columns, strict=True), reverse=True))


class _Histories:
    """Likelihoods of one bit's history over the reports of one group, all made under the same input."""

    def __init__(self, losses: BitLosses, reports: int) -> None:
        first, last = losses.rounds.first, losses.rounds.last
        one, zero = first.own, first.other
        up, down = last.own, last.other
        # exact[own][size][ones] = P(a given history with that many ones)
        self._exact = [
            [
                [
                    held * up**ones * (1 - up) ** (size - ones)
                    + (1 - held) * down**ones * (1 - down) ** (size - ones)
                    for ones in range(size + 1)
                ]
                for size in range(reports + 1)
            ]
            for held in (zero, one)
        ]
        single = self._exact[0][1]
        # Logarithms of ratios near 1, taken so that nothing cancels: against independent reports of another
        # input's bit, whose likelihood is the same for every grouping; and own against other.
        self.other = [
            [
                log1p(float(likelihood / (single[1] ** ones * single[0] ** (size - ones)) - 1))
                for ones, likelihood in enumerate(row)
            ]
            for size, row in enumerate(self._exact[0])
        ]
        self.own = [
            [log1p(float(mine / other - 1)) for mine, other in zip(*rows, strict=True)]
            for rows in zip(self._exact[1], self._exact[0], strict=True)
        ]

    def ratio(self, shared: _Shared, own: int | None, mine: int | None, ones: _Shared) -> Fraction:
        """Likelihood of a history under the first sequence over that under the second."""

        def likelihood(sizes: _Shared, ones: _Shared, owner: int | None) -> Fraction:
            groups = enumerate(zip(sizes, ones, strict=True))
            return prod(
                (self._exact[group == owner][sum(size)][sum(some)] for group, (size, some) in groups),
                start=Fraction(1),
            )

        turned = tuple(zip(*shared, strict=True)), tuple(zip(*ones, strict=True))
        return likelihood(shared, ones, own) / likelihood(*turned, mine)


@lru_cache(1024)
def _patterns(shared: _Shared) -> tuple[tuple[_Shared, list[int], list[int]], ...]:
    """Which of the shared reports can be ones, and how many of each group of either sequence that are."""
    width = len(shared[0])
    by_sums = dict[tuple[tuple[int, ...], tuple[int, ...]], _Shared]()
    for flat in product(*(range(size + 1) for row in shared for size in row)):
        ones = tuple(flat[i : i + width] for i in range(0, len(flat), width))
        by_sums.setdefault((tuple(map(sum, ones)), tuple(map(sum, zip(*ones, strict=True)))), ones)
    return tuple((ones, list(in_rows), list(in_columns)) for (in_rows, in_columns), ones in by_sums.items())


def _worst_matching(histories: _Histories, shared: _Shared, inputs: int) -> tuple[float, dict[_Factor, int]]:
    """The loss when the groups of two sequences have the inputs that tell most, and what it is made of."""
    rows, columns = [sum(row) for row in shared], [sum(column) for column in zip(*shared, strict=True)]
    first, second = range(len(rows)), range(len(columns))
    owners = [(i, j) for i in (None, *first) for j in (None, *second)]
    highest, where = [-inf] * len(owners), [shared] * len(owners)
    for ones, in_rows, in_columns in _patterns(shared):
        neither = sum(histories.other[n][c] for n, c in zip(rows, in_rows, strict=True))
        neither -= sum(histories.other[n][c] for n, c in zip(columns, in_columns, strict=True))
        yours = [0.0, *(histories.own[n][c] for n, c in zip(columns, in_columns, strict=True))]
        place = 0  # among the owners
        for mine in (0.0, *(histories.own[n][c] for n, c in zip(rows, in_rows, strict=True))):
            for other in yours:
                loss = neither + mine - other
                if loss > highest[place]:
                    highest[place], where[place] = loss, ones
                place += 1
    worst = dict(zip(owners, zip(highest, where, strict=True), strict=True))
    blank = worst[None, None][0]
    # best[taken columns] = (gain over groups that share no input, pairs); as many pairs as taken columns.
    best: dict[int, tuple[float, tuple[tuple[int, int], ...]]] = {0: (0.0, ())}
    for i in first:
        longer = dict(best)
        for taken, (gain, pairs) in best.items():
            for j in second:
                if not taken >> j & 1:
                    more = gain + worst[i, j][0] + blank - worst[i, None][0] - worst[None, j][0]
                    key = taken | 1 << j
                    if key not in longer or more > longer[key][0]:
                        longer[key] = more, (*pairs, (i, j))
        best = longer
    # Groups that share no input need inputs of their own.
    needed = len(rows) + len(columns) - inputs
    _, pairs = max(matching for matching in best.values() if len(matching[1]) >= needed)
    alone = [(i, None) for i in first if i not in {pair[0] for pair in pairs}]
    alone += [(None, j) for j in second if j not in {pair[1] for pair in pairs}]  # type: ignore[misc]
    weights: dict[tuple[int | None, int | None], int] = dict.fromkeys((*pairs, *alone), 1)
    weights[None, None] = inputs - len(weights)
    loss = sum(times * worst[owner][0] for owner, times in weights.items())
    return loss, {(shared, *owner, worst[owner][1]): times for owner, times in weights.items()}
