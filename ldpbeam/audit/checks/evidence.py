"""Tests made of counted histories: bounds of levels, and two-sided matches with the exact probabilities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import inf, prod
from typing import Any, NamedTuple

from ldpbeam.audit.checks.outcome import Bound, Check, Match, Rule
from ldpbeam.audit.client.draws import Cell, HistoryCounts, all_cells
from ldpbeam.audit.law.bound import expected_bound
from ldpbeam.privacy.loss import Losses, SeveralLosses
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.history_model import Model, Pattern

_ASSUMED = 1e-9
"""False alarms of one bound, as far as the choice of the best event goes."""


# Exact probabilities


def cell_probability(model: Model, pattern: Pattern, cell: Cell) -> Fraction:
    """P(a device has this stratum and these symbols | the pattern's values)."""
    stratum = model.strata[cell[0]]
    return stratum.probability * stratum.history(pattern, cell[1])


def equal_probability(model: Model, pattern: Pattern) -> Fraction:
    """P(two devices have the same cell), if they draw independently."""
    cells = all_cells(model, len(pattern))
    return sum((cell_probability(model, pattern, cell) ** 2 for cell in cells), Fraction(0))


# Levels


def bounds_of(protocol: LocalProtocol[Any], model: Model, counts: HistoryCounts) -> list[Bound]:
    """Of one report, and of the sequences; each with the best event that theory knows, in both directions."""
    return [*_single(protocol, model, counts), *_sequences(protocol, model, counts)]


def _single(protocol: LocalProtocol[Any], model: Model, counts: HistoryCounts) -> Iterator[Bound]:
    level = protocol.guarantee.first_report
    cells = tuple(_as_cells(first) for first in counts.firsts)
    for one, other in ((0, 1), (1, 0)):
        what = f"one report, {_ordinal(one)} value against {_ordinal(other)}"
        sought = _Sought(Check.BOUND, what, ((one,), (other,)), level)
        yield from _best_cells(model, sought, (cells[one], cells[other]))


def _as_cells(symbols: Counter[tuple[int, int]]) -> Counter[Cell]:
    return Counter({(stratum, (symbol,)): times for (stratum, symbol), times in symbols.items()})


def _ordinal(value: int) -> str:
    return ("first", "second")[value]


def _sequences(protocol: LocalProtocol[Any], model: Model, counts: HistoryCounts) -> Iterator[Bound]:
    length = len(counts.patterns[0])
    if length == 1:
        return
    still, other_still, changing, other_changing = counts.patterns
    losses, cap = protocol.losses, protocol.guarantee.cap_over_inputs
    same, anything = cap, None
    if protocol.guarantee.memoised_ratio is None:
        same = anything = length * protocol.guarantee.first_report
    elif losses is not None:
        same, anything = losses.same_changes(length), losses.any_changes(length)
    limits = [
        ("unchanged", still, other_still, constant_limit(protocol, length)),
        ("changing together", changing, other_changing, inf if same is None else same),
        ("unchanged against changing", still, changing, inf if anything is None else anything),
    ]
    for what, one, other, level in limits:
        for a, b in ((one, other), (other, one)):
            text = f"{length} reports, {what}, {_text(a)} against {_text(b)}"
            sought = _Sought(Check.SEQUENCE_BOUND, text, (a, b), level)
            yield from _best_cells(model, sought, (counts.cells[a], counts.cells[b]))


class _Sought(NamedTuple):
    """Which two laws are compared, and what is promised about them."""

    check: Check
    what: str
    patterns: tuple[Pattern, Pattern]
    level: float


def _best_cells(model: Model, sought: _Sought, seen: tuple[Counter[Cell], Counter[Cell]]) -> Iterator[Bound]:
    """One bound per condition that no value changes: stratum, and the group of each report's symbol."""
    a, b = sought.patterns
    total = max(sum(counter.values()) for counter in seen)
    for number, stratum in enumerate(model.strata):
        for groups in product(list(stratum.conditions()), repeat=len(a)):
            chance = stratum.probability * prod((share for _, share in groups), start=Fraction(1))
            if not chance:
                continue
            size = max(1.0, total * float(chance))
            cells = [(number, symbols) for symbols in product(*(group for group, _ in groups))]
            best: tuple[float, Cell, tuple[Fraction, Fraction]] | None = None
            for cell in cells:
                p, q = (cell_probability(model, pattern, cell) / chance for pattern in (a, b))
                if p > q:
                    worth = expected_bound(float(p), float(q), size, size, _ASSUMED)
                    if best is None or worth > best[0]:
                        best = worth, cell, (p, q)
            if best is None:
                continue
            counts, others = ([counter[cell] for cell in (best[1], *cells)] for counter in seen)
            text = _event(stratum.name, _condition(stratum, groups), sought.what)
            yield Bound(
                sought.check,
                text,
                counts[0],
                sum(counts[1:]),
                others[0],
                sum(others[1:]),
                best[2],
                sought.level,
            )


def _condition(stratum: Any, groups: Sequence[tuple[tuple[int, ...], Fraction]]) -> str:
    """Symbols that the reports' groups consist of, where there is more than one group."""
    if all(len(group) == stratum.symbols for group, _ in groups):
        return ""
    return "of symbols " + ", ".join("/".join(map(str, group)) for group, _ in groups)


def _event(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _text(pattern: Pattern) -> str:
    return "".join("AB"[value] for value in pattern)


def constant_limit(protocol: LocalProtocol[Any], reports: int) -> float:
    """The most that so many reports about values that never change may lose."""
    guarantee = protocol.guarantee
    if guarantee.memoised_ratio is None:
        return reports * guarantee.first_report
    if protocol.device.sum_limit is not None:
        unchanged = protocol.guarantee.unchanged_values
        assert unchanged is not None  # noqa: S101 - as memoised bits have it
        return unchanged
    known = protocol.losses
    limit = None if known is None else _constant(known, reports)
    if limit is None:
        limit = guarantee.per_memoised_input
        assert limit is not None  # noqa: S101 - the ratio is there
    return limit


def _constant(losses: Losses, reports: int) -> float | None:
    if isinstance(losses, SeveralLosses):
        losses_of_parts = [_constant(part, reports) for part in losses.parts]
        known = [loss for loss in losses_of_parts if loss is not None]
        if len(known) < len(losses_of_parts):
            return None
        return sum(known) * (1 + 1e-12) if losses.together else max(known)
    constant = getattr(losses, "constant", None)
    return None if constant is None else float(constant(reports))


# Matches


def matches_of(model: Model, counts: HistoryCounts) -> list[Match]:
    """Single reports, sequences, and neighbouring devices, against their exact probabilities."""
    matches = []
    for value, seen in enumerate(counts.firsts):
        total = sum(seen.values())
        for cell in all_cells(model, 1):
            p = cell_probability(model, (value,), cell)
            what = _event(model.strata[cell[0]].name, f"{_ordinal(value)} value, symbol {cell[1][0]}")
            matches.append(Match(Check.MATCH, what, seen[cell[0], cell[1][0]], total, p))
    for pattern in counts.patterns:
        total = sum(counts.cells[pattern].values())
        if len(pattern) > 1:
            for cell in all_cells(model, len(pattern)):
                p = cell_probability(model, pattern, cell)
                symbols = " ".join(map(str, cell[1]))
                what = _event(model.strata[cell[0]].name, f"values {_text(pattern)}, symbols {symbols}")
                matches.append(Match(Check.SEQUENCE_MATCH, what, counts.cells[pattern][cell], total, p))
            matches += agreements(model, pattern, counts.cells[pattern])
        what = f"two devices with values {_text(pattern)} send the same"
        p = equal_probability(model, pattern)
        matches.append(Match(Check.DEVICES, what, counts.equal[pattern], counts.pairs[pattern], p))
    if model.same_for_life < 1:
        what = "two devices draw the same for life (hash function, buckets, attribute)"
        matches.append(Match(Check.DEVICES, what, counts.alike, counts.devices // 2, model.same_for_life))
    return matches


def agreements(model: Model, pattern: Pattern, seen: Counter[Cell]) -> Iterator[Match]:
    """Two reports of a device say the same: where a memo that is not kept shows most."""
    total = sum(seen.values())
    for i, j in combinations(range(len(pattern)), 2):
        cells = [cell for cell in all_cells(model, len(pattern)) if cell[1][i] == cell[1][j]]
        p = sum((cell_probability(model, pattern, cell) for cell in cells), Fraction(0))
        what = f"values {_text(pattern)}, reports {i} and {j} say the same"
        yield Match(Check.SEQUENCE_MATCH, what, sum(seen[cell] for cell in cells), total, p)


def lasting(changed: int, devices: int, how_long: str = "") -> Rule:
    what = f"what a device draws for life (hash function, buckets, attribute) stays the same{how_long}"
    return Rule(Check.LASTING, what, changed, devices)


def repeated(ids: list[int]) -> Rule:
    """No id comes twice; chance makes one pair among n ids with probability below n²/2**65."""
    twins = sum(a == b for a, b in pairwise(sorted(ids)))
    wrong = len(ids) ** 2 / 2.0**65
    # Of very many reports a few pairs are chance: this many have a probability below (wrong)^n / n!.
    allowed = 0
    chance = 1.0
    while chance * wrong / (allowed + 1) > 1e-12:
        allowed += 1
        chance *= wrong / allowed
    return Rule(Check.IDS, "no report id comes twice", max(0, twins - allowed), len(ids), wrong=1e-12)
