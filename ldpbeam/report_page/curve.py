"""The cumulative curve of an ordered domain, of estimates that were added up and of distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ldpbeam.report_page import charts
from ldpbeam.report_page.data import CollectionData
from ldpbeam.report_page.estimates import Snapshot
from ldpbeam.report_page.parts import Figure, Key, Table
from ldpbeam.report_page.text import share

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
MEDIAN = QUANTILES.index(0.5)


def drawn_places(size: int, most: int) -> list[int]:
    """Every few of many values, and the last: each point is a share, so that none has to be averaged."""
    step = math.ceil(size / most)
    return sorted({*range(step - 1, size, step), size - 1})


@dataclass(frozen=True)
class CurveText:
    reports: str
    band: str
    line_key: str
    band_key: str


def curve_figure(
    data: CollectionData,
    snapshot: Snapshot,
    rows: Sequence[charts.Row],
    marks: Sequence[tuple[float, int, int, int]],
    text: CurveText,
    name: str,
) -> Figure:
    """The share of the devices at each value or below it, with a table of quantiles."""
    labels = snapshot.labels
    _, middle, low, high = marks[MEDIAN]
    keys = [Key("line", charts.RAW, text.line_key), Key("band", charts.RAW, text.band_key)]
    return Figure.of(
        charts.curve(rows),
        f"{name}-curve",
        f"{data.dates.title(snapshot.epoch)}: cumulative shares",
        f"The share of the devices at each value or below it{text.reports}. Half of them are at "
        f"{labels[middle]} or below (95 %: {labels[low]} to {labels[high]}). {text.band}",
        keys=[*keys, *([Key("line", charts.TRUTH, "truth")] if snapshot.simulated else [])],
        table=Table(
            title=f"Table: quantiles of epoch {snapshot.epoch}",
            head=["share of the devices", "at this value or below", "95 % low", "95 % high"],
            rows=[[share(part, 0.01), *(labels[at] for at in of)] for part, *of in marks],
            names=4,
        ),
    )
