"""What forged reports could do to a collection, and whether this run shows signs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldpbeam.pipelines.page.parts import Table, shortened
from ldpbeam.pipelines.page.text import DASH, integer, number, plural

_NAMES = {
    "seeds": "evenness of seeds",
    "support_sum": "values supported per report",
    "ones": "reports of many or few ones",
    "range": "estimate out of range",
    "conflicts": "conflicting report ids",
}


@dataclass(frozen=True)
class Poisoning:
    """The lines about forged reports of one collection, or one attribute of it."""

    leverage: str
    verdict: str
    alarm: bool
    table: Table | None


def poisoning(
    record: Mapping[str, Any], config: Mapping[str, Any], attribute: str, mean: bool, rows: int
) -> Poisoning:
    """Word ``leverage`` of the collection and ``indicators`` of the run; what is missing is left out.

    Args:
        record: content of run.json.
        config: of the collection, in it.
        attribute: which one; empty where there is only one.
        mean: whether a mean is estimated.
        rows: of a table at most.
    """
    raw = record.get("indicators")
    found: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
    listed = found.get("alarms")
    alarms = [
        one
        for one in (listed if isinstance(listed, list) else [])
        if isinstance(one, Mapping)
        and one.get("digest") == config.get("digest")
        and one.get("attribute") in ("", None, attribute)
    ]
    rate = number(found.get("false_alarm_rate"))
    return Poisoning(
        _leverage(config, attribute, mean), _verdict(alarms, rate), bool(alarms), _table(alarms, rows)
    )


def _leverage(config: Mapping[str, Any], attribute: str, mean: bool) -> str:
    raw = config.get("leverage")
    listed = [one for one in raw if isinstance(one, Mapping)] if isinstance(raw, list) else []
    one: Mapping[str, Any] = next((one for one in listed if one.get("attribute") == attribute), {})
    up, down, ten = (number(one.get(key)) for key in ("one_value", "one_value_down", "ten_values"))
    if up is None or down is None:
        return "run.json does not state what a forged report can do."
    if mean:
        return (
            "Anyone who can send reports can bias the mean: one forged report among n raises it by up to "
            f"{up:.1f} × m/n or lowers it by {down:.1f} × m/n, where m is the largest value. An honest one "
            "adds at most m/n on average."
        )
    several = f", and ten frequencies together by {ten:.1f}/n" if ten is not None else ""
    return (
        "Anyone who can send reports can bias the estimates: one forged report among n raises a frequency "
        f"by up to {up:.1f}/n or lowers it by {down:.1f}/n{several}. An honest report adds 1/n on average."
    )


def _verdict(alarms: Sequence[Mapping[str, Any]], rate: float | None) -> str:
    if rate is None:
        return "This run did not look for signs of forged reports."
    chance = f"Honest devices cause an alarm in at most {rate:g} of all results"
    if alarms:
        epochs = len({integer(one.get("epoch")) for one in alarms})
        return f"Signs of forged reports in {plural(epochs, 'epoch')}. {chance}."
    return f"No sign of forged reports. {chance}; a careful forger causes none."


def _table(alarms: Sequence[Mapping[str, Any]], rows: int) -> Table | None:
    if not alarms:
        return None
    return Table(
        title=f"Table: {plural(len(alarms), 'alarm')}",
        head=["indicator", "what it says", "epoch", "found", "expected", "chance among honest devices"],
        rows=[
            [
                _NAMES.get(str(one.get("indicator")), str(one.get("indicator"))),
                str(one.get("meaning") or ""),
                str(integer(one.get("epoch"))),
                _figure(one.get("found")),
                _figure(one.get("expected")),
                _chance(one.get("p_value")),
            ]
            for one in alarms[:rows]
        ],
        names=2,
        note=shortened(len(alarms), min(rows, len(alarms)), "alarm", "first"),
    )


def _figure(raw: object) -> str:
    value = number(raw)
    return DASH if value is None else f"{value:.5g}"


def _chance(raw: object) -> str:
    value = number(raw)
    if value is None:
        return DASH
    return "below 1e-300" if value < 1e-300 else f"{value:.1g}"
