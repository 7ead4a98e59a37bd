"""The privacy section: the sentences of run.json, the losses over reports, and the meaning of a level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from ldpbeam.collection.record import collection_of
from ldpbeam.planning.shuffler import of_collection, shuffled_words
from ldpbeam.promise.statements import epsilon
from ldpbeam.records.collection_record import CollectionRecord, Curve, GuaranteeRecord
from ldpbeam.report_page import charts
from ldpbeam.report_page.parts import Figure, Key, Table
from ldpbeam.report_page.text import DASH

_MANY = 100_000
"""Devices that the line about a shuffler speaks of."""


@dataclass(frozen=True)
class PromiseRow:
    name: str
    value: str
    meaning: str


@dataclass(frozen=True)
class Privacy:
    """The promises of a collection, and the loss over reports where it is known."""

    promises: Sequence[PromiseRow]
    losses: Figure | None
    meaning: str


def privacy(collection: CollectionRecord, name: str) -> Privacy:
    """The guarantee of a collection."""
    guarantee = collection.guarantee
    promises = [PromiseRow(one.title, one.value, one.text) for one in guarantee.statements]
    hidden = [PromiseRow("Not hidden", "visible", sentence) for sentence in guarantee.not_hidden]
    if guarantee.not_capped:
        hidden.append(PromiseRow("Not covered", "adds up", guarantee.not_capped))
    lines = [*promises, *hidden, *_assumed(guarantee), *_shuffled(collection)]
    return Privacy(lines, _losses(guarantee, name), _meaning(guarantee.first_report))


def _shuffled(collection: CollectionRecord) -> list[PromiseRow]:
    """What a shuffler would add; nothing where that is not known."""
    made = collection_of(collection.definition)
    shuffled = of_collection(made, _MANY)
    if shuffled is None:
        return []
    return [PromiseRow("Behind a shuffler, ε", epsilon(shuffled.one_report), shuffled_words(made, _MANY))]


def _meaning(first: float | None) -> str:
    """What a level of ε means to somebody who bets on a device's value."""
    words = (
        "Whatever somebody believed about a device's value before, reports with a loss of ε change the odds "
        f"of one value against another at most e^ε-fold: ε = 1 means odds at most × {odds(1.0)}, "
        f"ε = 2 at most × {odds(2.0)}."
    )
    if first is not None and first > 0:
        words += f" Here, one report: odds at most × {odds(first)}."
    return words


def odds(loss: float) -> str:
    """The factor e^ε in a few digits, rounded to the nearest: `2.7`; a power of ten where it is large."""
    if loss < 9.2:
        return f"{exp(loss):,.{1 if loss < 4 else 0}f}" if loss >= 0.1 else f"{exp(loss):.3f}"
    return f"10^{loss / log(10):.1f}"


def _assumed(guarantee: GuaranteeRecord) -> list[PromiseRow]:
    """What a report about several counters rests on, and what it spends without that."""
    without = guarantee.first_report_without_assumption
    if not guarantee.assumption or without is None:
        return []
    meaning = f"One report. Assumed: {guarantee.assumption}"
    return [PromiseRow("If the assumption fails", epsilon(without), meaning)]


def _losses(guarantee: GuaranteeRecord, name: str) -> Figure | None:
    """The loss after t reports, with and without the same change pattern."""
    same, anything, cap = guarantee.loss_same_changes, guarantee.loss_any_changes, guarantee.cap_over_inputs
    series: list[charts.Line] = []
    if anything:
        series.append(("any change pattern: not capped", charts.TRUTH, (6, 3), anything))
    if same:
        series.append(("same change pattern", charts.RAW, (), same))
    if not series:
        return None
    inputs = guarantee.inputs or "memoised inputs"
    sentence = (
        f"Largest privacy loss after t reports. Between devices whose {inputs} change, and come back, at the "
        "same epochs it stays below the cap; between others it can grow with every report."
    )
    # A cap far above, such as 360·ε∞, would flatten the curves; it stands in the table of promises.
    near = cap is not None and cap <= 3 * max(loss for *_, points in series for _, loss in points)
    level = (f"cap over {inputs} {epsilon(cap)}", cap) if cap is not None and near else None
    keys = [Key("dash" if dash else "line", colour, label) for label, colour, dash, _ in series]
    if level is not None:
        keys.append(Key("dash", charts.UNIFORM, level[0]))
    return Figure.of(
        charts.lines(series, "reports t", "~g", level=level and level[1]),
        f"{name}-loss",
        "Loss over reports",
        sentence,
        keys=keys,
        table=_table(same, anything),
    )


def _table(same: Curve, anything: Curve) -> Table:
    first, second = dict(same), dict(anything)
    return Table(
        title="Table: largest loss after t reports",
        head=["reports t", "same change pattern", "any change pattern: not capped"],
        rows=[[f"{t:g}", _loss(first.get(t)), _loss(second.get(t))] for t in sorted({*first, *second})],
    )


def _loss(level: float | None) -> str:
    return DASH if level is None else epsilon(level)
