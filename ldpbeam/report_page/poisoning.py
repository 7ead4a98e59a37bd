"""What forged reports could do to a collection, and whether this run shows signs of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ldpbeam.records.collection_record import HistogramRecord
from ldpbeam.records.run_record import Alarm, Indicators
from ldpbeam.report_page.parts import Table, shortened
from ldpbeam.text import plural

_NAMES = {
    "seeds": "evenness of seeds",
    "support_sum": "values supported per report",
    "ones": "reports of many or few ones",
    "extremes": "reports far outside of the range",
    "range": "estimate out of range",
    "conflicts": "conflicting report ids",
}


@dataclass(frozen=True)
class Poisoning:
    leverage: str
    verdict: str
    alarm: bool
    table: Table | None


def poisoning(indicators: Indicators | None, digest: str, histogram: HistogramRecord, rows: int) -> Poisoning:
    """Word what one forged report can do, and the alarms of the run about one attribute of a collection."""
    alarms = [
        one
        for one in (indicators.alarms if indicators else ())
        if one.digest == digest and one.attribute in ("", histogram.attribute)
    ]
    verdict = _verdict(alarms, indicators)
    return Poisoning(_leverage(histogram), verdict, bool(alarms), _table(alarms, rows))


def _leverage(one: HistogramRecord) -> str:
    if one.up is None or one.down is None:
        return "run.json does not state what a forged report can do."
    if one.is_mean:
        return (
            "Anyone who can send reports can bias the mean: one forged report among n raises it by up to "
            f"{one.up:.1f} × m/n or lowers it by {one.down:.1f} × m/n, where m is the largest value. An "
            "honest one adds at most m/n on average."
        )
    several = f", and ten frequencies together by {one.ten:.1f}/n" if one.ten is not None else ""
    return (
        "Anyone who can send reports can bias the estimates: one forged report among n raises a frequency "
        f"by up to {one.up:.1f}/n or lowers it by {one.down:.1f}/n{several}. An honest report adds 1/n on "
        "average."
    )


def _verdict(alarms: Sequence[Alarm], indicators: Indicators | None) -> str:
    if indicators is None:
        return "This run did not look for signs of forged reports."
    chance = f"Honest devices cause an alarm in at most {indicators.false_alarm_rate:g} of all results"
    if alarms:
        epochs = len({one.epoch for one in alarms})
        return f"Signs of forged reports in {plural(epochs, 'epoch')}. {chance}."
    return f"No sign of forged reports. {chance}; a careful forger causes none."


def _table(alarms: Sequence[Alarm], rows: int) -> Table | None:
    if not alarms:
        return None
    return Table(
        title=f"Table: {plural(len(alarms), 'alarm')}",
        head=["indicator", "what it says", "epoch", "observed", "expected", "chance among honest devices"],
        rows=[
            [
                _NAMES.get(one.indicator, one.indicator),
                one.meaning,
                str(one.epoch),
                f"{one.observed:.5g}",
                f"{one.expected:.5g}",
                "below 1e-300" if one.p_value < 1e-300 else f"{one.p_value:.1g}",
            ]
            for one in alarms[:rows]
        ],
        names=2,
        note=shortened(len(alarms), rows, "alarm", "first"),
    )
