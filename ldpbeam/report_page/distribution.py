"""The distribution of the last epoch: the cumulative curve with its limits first, the histogram second."""

from __future__ import annotations

import math

import numpy as np

from ldpbeam.report_page import charts
from ldpbeam.report_page.data import CollectionData
from ldpbeam.report_page.estimates import Snapshot
from ldpbeam.report_page.parts import Detail, Figure, Key, Table, distinct, shortened
from ldpbeam.report_page.text import share
from ldpbeam.text import plural

_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_BARS = 60


def distribution(data: CollectionData, snapshot: Snapshot, detail: Detail, name: str) -> list[Figure]:
    """The figures of an epoch that has a distribution."""
    return [_curve(data, snapshot, detail, name), _histogram(data, snapshot, detail, name)]


def _curve(data: CollectionData, snapshot: Snapshot, detail: Detail, name: str) -> Figure:
    """The share of the devices at each value or below it, with a table of quantiles."""
    labels = snapshot.labels
    marks = {part: snapshot.quantile(part) for part in _QUANTILES}
    middle, low, high = (labels[at] for at in marks[0.5])
    band = "The band holds the share at one value in 95 of 100 cases, not all of the curve at once."
    if not data.declares_atoms:
        band += " No atoms are declared: near a round number that many devices hold it is too narrow."
    keys = [Key("line", charts.RAW, "share up to the value"), Key("band", charts.RAW, "95 % limits")]
    return Figure.of(
        charts.curve([_row(snapshot, at) for at in drawn_places(len(labels), detail.bins)]),
        f"{name}-curve",
        f"{data.dates.title(snapshot.epoch)}: cumulative shares",
        f"The share of the devices at each value or below it, from {plural(snapshot.n, 'report')}. Half of "
        f"them are at {middle} or below (95 %: {low} to {high}). {band}",
        keys=[*keys, *([Key("line", charts.TRUTH, "truth")] if snapshot.simulated else [])],
        table=Table(
            title=f"Table: quantiles of epoch {snapshot.epoch}",
            head=["share of the devices", "at this value or below", "95 % low", "95 % high"],
            rows=[[share(part, 0.01), *(labels[at] for at in places)] for part, places in marks.items()],
            names=4,
        ),
    )


def drawn_places(size: int, most: int) -> list[int]:
    """Every few of many values, and the last: each point is a share, so that none has to be averaged."""
    step = math.ceil(size / most)
    return sorted({*range(step - 1, size, step), size - 1})


def _row(snapshot: Snapshot, at: int) -> charts.Row:
    row = snapshot.numbers(at)
    error = float(snapshot.std_error[at])
    text = f"up to {snapshot.labels[at]}: {share(row['estimate'], error or None)}"
    if error:
        text += f" ({share(row['low'], error)} to {share(row['high'], error)})"
    return {**row, "text": text, "place": int(snapshot.values[at])}


def _histogram(data: CollectionData, snapshot: Snapshot, detail: Detail, name: str) -> Figure:
    """Shares of the values, or of stretches of values where they are many: differences of the curve."""
    k = len(snapshot.values)
    width = math.ceil(k / _BARS)
    edges = np.arange(0, k, width)
    shares = np.add.reduceat(snapshot.consistent, edges)
    truth = np.add.reduceat(np.diff(snapshot.truth, prepend=0.0), edges)
    names, labels = [], snapshot.labels
    for first in edges.tolist():
        last = min(first + width, k) - 1
        names.append(labels[first] if first == last else f"{labels[first]} … {labels[last]}")
    rows, lines = list[charts.Row](), []
    for at, unique in enumerate(distinct(names)):
        one, true = float(shares[at]), float(truth[at])
        line = [names[at], *(share(number, 0.001) for number in (one, true))]
        text = f"{line[0]}: {line[1]}" + (f", truth {line[2]}" if snapshot.simulated else "")
        rows.append({"name": unique, "consistent": one, "truth": true, "text": text})
        lines.append(line[: 2 + snapshot.simulated])
    known = ["truth"] if snapshot.simulated else []
    of_each = "each value" if width == 1 else f"each {width} neighbouring values"
    keys = [Key("fill", charts.CONSISTENT, "share")]
    return Figure.of(
        charts.columns(rows, "~%"),
        f"{name}-bars",
        f"{data.dates.title(snapshot.epoch)}: histogram",
        f"The share of the devices in {of_each}, as the curve rises over it. What the curve cannot tell "
        "is smooth here: a bar has no limits of its own.",
        keys=[*keys, *([Key("tick", charts.TRUTH, "truth")] if known else [])],
        table=Table(
            title=f"Table: epoch {snapshot.epoch} by {'value' if width == 1 else 'stretch of values'}",
            head=["values", "share", *known],
            rows=lines[: detail.rows],
            note=shortened(len(lines), detail.rows, "row", "first"),
        ),
    )
