"""What the run promises about privacy, in figures that are never shown without their condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

from ldpbeam.pipelines.page import charts
from ldpbeam.pipelines.page.parts import Figure, Key, Table, draw
from ldpbeam.pipelines.page.text import figure, number

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


def privacy(config: Mapping[str, Any], name: str) -> Privacy:
    """Word the `guarantee` of a collection; keys that are missing are left out."""
    raw = config.get("guarantee")
    guarantee: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
    if not guarantee:
        nothing = Promise("Guarantee", "–", "run.json states none for this collection.")
        return Privacy([nothing], None)
    fresh = guarantee.get("per_report") is True
    promises = _fresh(config, guarantee) if fresh else _memoised(config, guarantee)
    return Privacy(
        [*promises, *_not_hidden(guarantee), *_assumed(guarantee)],
        _losses(guarantee, name),
    )


def _not_hidden(guarantee: Mapping[str, Any]) -> list[Promise]:
    """What reports show whatever the levels are."""
    shown = guarantee.get("not_hidden")
    sentences = shown if isinstance(shown, list) else []
    return [Promise("Not hidden", "visible", str(sentence)) for sentence in sentences]


def _assumed(guarantee: Mapping[str, Any]) -> list[Promise]:
    """What a report about several counters rests on, and what it spends without that."""
    assumption = guarantee.get("assumption")
    without = number(guarantee.get("first_report_without_assumption"))
    if not assumption or without is None:
        return []
    return [Promise("If the assumption fails", figure(without), f"one report. Assumed: {assumption}")]


def _fresh(config: Mapping[str, Any], guarantee: Mapping[str, Any]) -> list[Promise]:
    """A one-round protocol: nothing is memoised, so nothing is capped."""
    first = number(guarantee.get("first_report"))
    return [
        Promise(
            "A single report, ε",
            figure(first),
            "what one report, looked at alone, tells about the value behind it" + _nominal(config, "epsilon"),
        ),
        Promise(
            "After t reports",
            f"t × {figure(first)}" if first is not None else "t × ε",
            "nothing is memoised: every further report spends the same again",
        ),
        Promise("Not capped", "no cap", str(guarantee.get("not_capped") or _EACH_AGAIN)),
    ]


def _memoised(config: Mapping[str, Any], guarantee: Mapping[str, Any]) -> list[Promise]:
    """A two-round protocol: what the first report, an input and all inputs can cost."""
    promises = []
    first = number(guarantee.get("first_report"))
    if first is not None:
        promises.append(
            Promise(
                "First report, ε₁",
                figure(first),
                "exact, from the integers that devices draw with"
                + _nominal(config, "epsilon_first")
                + "; it holds for the first report only, later reports add to it",
            )
        )
    promises += _two_reports(guarantee)
    each = number(guarantee.get("per_memoised_input"))
    if each is not None:
        promises.append(
            Promise(
                "Per memoised input, ε∞",
                figure(each),
                "however many reports a device sends about one unchanged input"
                + _nominal(config, "epsilon_longitudinal"),
            )
        )
    cap, inputs = number(guarantee.get("cap_over_values")), number(guarantee.get("memoised_inputs"))
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
    promises.append(Promise("Not capped", "no cap", str(guarantee.get("not_capped") or _UNCAPPED)))
    return promises


def _two_reports(guarantee: Mapping[str, Any]) -> list[Promise]:
    """Two reports can lose far more than twice the first, if what is asked is whether an input changed."""
    start = number(guarantee.get("loss_unbounded_from"))
    if start is not None:
        meaning = "two different reports of a device prove that an input changed"
        return [Promise(f"From {start:g} reports on", "no bound", meaning)]
    two = number(guarantee.get("loss_two_reports"))
    if two is None:
        return []
    meaning = "between any two sequences of inputs, also when one changes where the other stays"
    first, cap = number(guarantee.get("first_report")), number(guarantee.get("cap_over_values"))
    if first is not None and two > 2 * first * (1 + 1e-9):
        meaning += f": more than twice the first report's {figure(first)}"
    if cap is not None and two > cap:
        meaning += ", and more than the cap over values"
    return [Promise("First two reports", figure(two), meaning)]


def _nominal(config: Mapping[str, Any], key: str) -> str:
    parameters = config.get("parameters")
    value = number(parameters.get(key)) if isinstance(parameters, Mapping) else None
    return f" (configured: {value:g})" if value is not None else ""


def _losses(guarantee: Mapping[str, Any], name: str) -> Figure | None:
    """The loss after t reports, with and without the same change pattern."""
    same = _curve(guarantee.get("loss_same_changes"))
    anything = _curve(guarantee.get("loss_any_changes"))
    cap = number(guarantee.get("cap_over_values"))
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
    wide, narrow = draw(
        lambda small: charts.lines(series, small, "reports t", "~g", level=level),
        sentence,
        f"{name}-loss",
    )
    keys = [Key("dash" if dash else "line", colour, label) for label, colour, dash, _ in series]
    if level is not None:
        keys.append(Key("dash", charts.UNIFORM, level[0]))
    table = _table(same, anything)
    return Figure("Loss over reports", sentence, wide, narrow, keys, table, narrow_keys=True)


def _table(same: Sequence[tuple[float, float]], anything: Sequence[tuple[float, float]]) -> Table:
    first, second = dict(same), dict(anything)
    return Table(
        title="Table: largest loss after t reports",
        head=["reports t", "same change pattern", "any change pattern: not capped"],
        rows=[[f"{t:g}", figure(first.get(t)), figure(second.get(t))] for t in sorted({*first, *second})],
    )


def _curve(raw: object) -> list[tuple[float, float]]:
    """Pairs (t, loss) in order; anything else in the list is skipped."""
    if not isinstance(raw, list):
        return []
    points = []
    for item in raw:
        if isinstance(item, list) and len(item) == 2:
            t, loss = number(item[0]), number(item[1])
            if t is not None and loss is not None:
                points.append((t, loss))
    return sorted(points)
