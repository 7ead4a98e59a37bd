"""What the run promises about privacy, in figures that are never shown without their condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, isclose, log
from typing import Any

from ldpbeam.collection.record import collection_of
from ldpbeam.pipelines.collection_record import CollectionRecord, Curve, GuaranteeRecord
from ldpbeam.pipelines.page import charts
from ldpbeam.pipelines.page.parts import Figure, Key, Table
from ldpbeam.pipelines.page.text import figure
from ldpbeam.privacy.randomiser import ASSUMPTION, DELTA, one_epoch
from ldpbeam.privacy.shuffle import central_epsilon

_MANY = 100_000
"""Devices that the line about a shuffler speaks of."""

_UNCAPPED = "when a value changed is visible and not covered by the cap"
_EACH_AGAIN = "each report spends ε again: t reports spend t·ε"


@dataclass(frozen=True)
class Promise:
    """One line of the privacy table."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True)
class Privacy:
    """The promises of a collection, and the loss over reports where it is known."""

    promises: Sequence[Promise]
    losses: Figure | None
    meaning: str


def privacy(collection: CollectionRecord, name: str) -> Privacy:
    """Word the guarantee of a collection; what it does not state is left out."""
    guarantee = collection.guarantee
    if guarantee is None:
        nothing = Promise("Guarantee", "–", "run.json states none for this collection.")
        return Privacy([nothing], None, _meaning(None))
    word = _fresh if guarantee.per_report else _memoised
    promises = word(guarantee, collection.parameters)
    hidden = [Promise("Not hidden", "visible", sentence) for sentence in guarantee.not_hidden]
    promises = [*_for_life(guarantee), *promises]
    lines = [*promises, *hidden, *_assumed(guarantee), *_shuffled(collection)]
    return Privacy(lines, _losses(guarantee, name), _meaning(guarantee.first_report))


def _shuffled(collection: CollectionRecord) -> list[Promise]:
    """What a shuffler would add, for one report; nothing where that is not known."""
    if collection.definition is None:
        return []
    made = collection_of(collection.definition)
    found = one_epoch(made.protocol, alone=made.reports_in_life == 1)
    if found is None:
        return []
    central = central_epsilon(found, _MANY)
    own = "" if found.functions == 1 else f" that share {found.functions:,} hash functions"
    meaning = (
        f"what one report would tell a server that sees only the mixed reports of {_MANY:,} honest "
        f"devices{own}, but with probability {DELTA:g}. Assumed: {ASSUMPTION}; without one "
        "the lines above hold"
    )
    return [Promise("Behind a shuffler, ε", figure(central), meaning)]


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


def _for_life(guarantee: GuaranteeRecord) -> list[Promise]:
    """What all reports of a device tell, where it makes only a few."""
    reports = guarantee.lifetime_reports
    if reports is None:
        return []
    times = "one report" if reports == 1 else f"{reports:g} reports"
    meaning = (
        f"a device makes {times} in its life, in epochs that it drew before it had a value; together they "
        "tell no more than this, however often the value changes"
    )
    if guarantee.lifetime is None:
        meaning = f"a device makes {times} in its life; when a value changed may be seen in them all the same"
    return [Promise("For life, ε", figure(guarantee.lifetime), meaning)]


def _assumed(guarantee: GuaranteeRecord) -> list[Promise]:
    """What a report about several counters rests on, and what it spends without that."""
    without = guarantee.first_report_without_assumption
    if not guarantee.assumption or without is None:
        return []
    meaning = f"one report. Assumed: {guarantee.assumption}"
    return [Promise("If the assumption fails", figure(without), meaning)]


def _fresh(guarantee: GuaranteeRecord, parameters: Mapping[str, Any]) -> list[Promise]:
    """A one-round protocol: nothing is memoised, so nothing is capped."""
    first = guarantee.first_report
    return [
        Promise(
            "A single report, ε",
            figure(first),
            "what one report, looked at alone, tells about the value behind it"
            + _nominal(parameters, "epsilon"),
        ),
        Promise(
            "After t reports",
            f"t × {figure(first)}" if first is not None else "t × ε",
            "nothing is memoised: every further report spends the same again"
            + (
                ""
                if guarantee.lifetime_reports is None
                else f", up to the {guarantee.lifetime_reports:g} of its life"
            ),
        ),
        Promise(
            "Not capped" if guarantee.lifetime is None else "Not covered",
            "no cap" if guarantee.lifetime is None else "adds up",
            guarantee.not_capped or _EACH_AGAIN,
        ),
    ]


def _memoised(guarantee: GuaranteeRecord, parameters: Mapping[str, Any]) -> list[Promise]:
    """A two-round protocol: what the first report, an input and all inputs can cost."""
    promises = []
    if guarantee.first_report is not None:
        promises.append(
            Promise(
                "First report, ε₁",
                figure(guarantee.first_report),
                "exact, from the integers that devices draw with"
                + _nominal(parameters, "epsilon_first")
                + "; it holds for the first report only, later reports add to it",
            )
        )
    promises += _two_reports(guarantee)
    each = guarantee.per_memoised_input
    if each is not None:
        promises.append(
            Promise(
                "Per memoised input, ε∞",
                figure(each),
                "however many reports a device sends about one unchanged input"
                + _nominal(parameters, "epsilon_longitudinal"),
            )
        )
    cap, inputs = guarantee.cap_over_values, guarantee.memoised_inputs
    if cap is not None:
        product = f" ({inputs:g} memoised inputs × ε∞)" if inputs is not None else ""
        if inputs is not None and each is not None and not isclose(cap, inputs * each, rel_tol=1e-6):
            product = f" (the attributes' caps together, {inputs:g} memoised inputs)"
        promises.append(
            Promise(
                "Cap over values",
                figure(cap),
                f"the most that all reports together tell about which inputs a device held"
                f"{product}, between devices whose inputs change, and come back, at the same times",
            )
        )
    promises.append(Promise("Not capped", "no cap", guarantee.not_capped or _UNCAPPED))
    return promises


def _two_reports(guarantee: GuaranteeRecord) -> list[Promise]:
    """Two reports can lose far more than twice the first, if what is asked is whether an input changed."""
    if guarantee.loss_unbounded_from is not None:
        meaning = "two different reports of a device prove that an input changed"
        return [Promise(f"From {guarantee.loss_unbounded_from:g} reports on", "no bound", meaning)]
    two, first, cap = guarantee.loss_two_reports, guarantee.first_report, guarantee.cap_over_values
    if two is None:
        return []
    meaning = "between any two sequences of inputs, also when one changes where the other stays"
    if first is not None and two > 2 * first * (1 + 1e-9):
        meaning += f": more than twice the first report's {figure(first)}"
    if cap is not None and two > cap:
        meaning += ", and more than the cap over values"
    return [Promise("First two reports", figure(two), meaning)]


def _nominal(parameters: Mapping[str, Any], key: str) -> str:
    value = parameters.get(key)
    return f" (configured: {value:g})" if isinstance(value, int | float) else ""


def _losses(guarantee: GuaranteeRecord, name: str) -> Figure | None:
    """The loss after t reports, with and without the same change pattern."""
    same, anything, cap = guarantee.loss_same_changes, guarantee.loss_any_changes, guarantee.cap_over_values
    series: list[charts.Line] = []
    if anything:
        series.append(("any change pattern: not capped", charts.TRUTH, (6, 3), anything))
    if same:
        series.append(("same change pattern", charts.RAW, (), same))
    if not series:
        return None
    sentence = (
        "Largest privacy loss after t reports: between devices whose memoised inputs change, and come "
        "back, at the same times it stays below the cap; between others nothing stops it."
    )
    # A cap far above, such as 360·ε∞, would flatten the curves; it stands in the table of promises.
    near = cap is not None and cap <= 3 * max(loss for *_, points in series for _, loss in points)
    level = (f"cap over values {figure(cap)}", cap) if cap is not None and near else None
    keys = [Key("dash" if dash else "line", colour, label) for label, colour, dash, _ in series]
    if level is not None:
        keys.append(Key("dash", charts.UNIFORM, level[0]))
    return Figure.of(
        lambda small: charts.lines(series, small, "reports t", "~g", level=level),
        f"{name}-loss",
        "Loss over reports",
        sentence,
        keys=keys,
        table=_table(same, anything),
        narrow_keys=True,
    )


def _table(same: Curve, anything: Curve) -> Table:
    first, second = dict(same), dict(anything)
    return Table(
        title="Table: largest loss after t reports",
        head=["reports t", "same change pattern", "any change pattern: not capped"],
        rows=[[f"{t:g}", figure(first.get(t)), figure(second.get(t))] for t in sorted({*first, *second})],
    )
