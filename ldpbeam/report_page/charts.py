"""The charts of the page as Altair specifications. Colours are Okabe and Ito's.

Text from outside (labels, reasons) only ever enters as data: never as a field name, an expression
or a title, because Vega evaluates some of those.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from ldpbeam.report_page import scales
from ldpbeam.report_page.dates import Dates

Chart = alt.Chart | alt.LayerChart

RAW, TRUTH, CONSISTENT = "#0072B2", "#D55E00", "#009E73"
UNIFORM, THEORY = "#7a7a7a", "#222222"
COUNTED, DUPLICATE, LATE = "#0072B2", "#56B4E9", "#E69F00"
REJECTED = ("#D55E00", "#CC79A7", "#5D3A9B", "#009E73", "#333333")
OTHER = "#999999"
_TEXT, _GRID = "#4a4a4a", "#e6e6e6"
_BAND = 0.2
_LETTER = 2
"""Pixels by which a letter may be wider in a reader's font than in the one that the renderer measures."""

POINTED = 120
"""At most so many epochs of a chart can be pointed at, and so many bars are drawn: more are hardly wider than
a pixel. Of a page with many collections fewer."""

PROVISIONAL, WITHHELD = "provisional", "withheld"
"""How an epoch can be marked: its estimates will change, or it has none though reports were counted."""

Row = dict[str, Any]
Line = tuple[str, str, Sequence[int], Sequence[tuple[float, float]]]
"""Name, colour, dashes and points (x, y)."""


def _values(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """The rows as data, with NaN as null (a gap)."""
    return alt.InlineData(
        values=[
            {
                key: None if isinstance(item, float) and not math.isfinite(item) else item
                for key, item in row.items()
            }
            for row in rows
        ]
    )


def _finish(
    layers: Sequence[alt.Chart], rows: Sequence[Row], width: int, height: int, right: int = 10
) -> alt.LayerChart:
    """Put the layers over `rows` and give them one look: quiet grid, readable type, no frame.

    `right` is the room that is left beside the axes, in pixels.
    """
    axis = alt.AxisConfig(
        domain=False,
        ticks=False,
        labelColor=_TEXT,
        labelFontSize=12,
        labelPadding=6,
        labelFlush=False,
        gridColor={"condition": {"test": "datum.value === 0", "value": "#9a9a9a"}, "value": _GRID},
        titleColor=_TEXT,
        titleFontSize=12,
        titleFontWeight="normal",
    )
    chart = alt.LayerChart(layer=list(layers))
    # What holds for the whole is set in place: every method of a chart copies all that it holds, and a layer
    # would be given a copy of the data.
    chart.data = _values(rows)
    chart.width, chart.height = width, height
    chart.autosize = alt.AutoSizeParams(type="fit", contains="padding")
    chart.padding = {"left": 4, "right": right, "top": 8, "bottom": 4}
    chart.config = alt.Config(
        background="transparent",
        font="sans-serif",
        view=alt.ViewConfig(stroke=None),
        axis=axis,
        axisX=alt.AxisConfig(grid=False, domain=True, domainColor="#999999"),
    )
    return chart


def _y(field: str, title: str, pattern: str, **more: Any) -> alt.Y:
    """A vertical axis with its title above it, read horizontally."""
    axis = {"tickCount": 5, "minExtent": 44, **more.pop("axis", {})}
    return alt.Y(
        f"{field}:Q",
        title=title or None,
        axis=alt.Axis(
            format=pattern,
            titleAngle=0,
            titleAlign="left",
            titleAnchor="end",
            titleX=-48,
            titleY=-12,
            titleBaseline="bottom",
            **axis,
        ),
        **more,
    )


def _epochs(
    domain: Sequence[float], dates: Dates, epochs: tuple[int, int], count: int, field: str = "epoch"
) -> alt.X:
    """An axis of epochs with the dates at which they begin; ``epochs`` are the first and the last."""
    ticks = dates.ticks(*epochs, count)
    places = [epoch for epoch, *_ in ticks]
    # Numbers and dates that were written here; nothing from outside is in the expression.
    words = json.dumps([[above, below] if below else above for _, above, below in ticks])
    return alt.X(
        f"{field}:Q",
        title=dates.title,
        scale=alt.Scale(zero=False, nice=False, domain=list(domain)),
        axis=alt.Axis(
            values=places,
            labelExpr=f"{words}[indexof({json.dumps(places)}, datum.value)]",
            labelOverlap=False,
        ),
    )


def multiple(
    rows: Sequence[Row],
    domain: tuple[float, float],
    uniform: float | None,
    pattern: str,
    dates: Dates,
    most: int,
) -> Chart:
    """One value over epochs: estimate with its 95 % interval, and the truth if known.

    Rows hold epoch, estimate, low, high, truth, text and mark; a row of nulls breaks the line. A row
    marked as withheld has a note instead of numbers. At most ``most`` rows can be pointed at.
    """
    width, height = 320, 190
    epochs = [row["epoch"] for row in rows]
    few = len({row["epoch"] for row in rows if row["text"]}) <= 12
    first, last = scales.span(epochs)
    edge = 0.04 * (last - first) if few else 0.0
    x = _epochs([first - edge, last + edge], dates, (min(epochs), max(epochs)), 4)
    scale = alt.Scale(domain=list(domain), nice=True, zero=False)
    y = _y("estimate", "", pattern, scale=scale, axis={"tickCount": 4})
    base = alt.Chart().encode(x=x)
    layers: list[alt.Chart] = []
    if uniform is not None:
        layers.append(_level(uniform))
    if few:
        rule = base.mark_rule(aria=False, clip=True, color=RAW, strokeWidth=5, opacity=_BAND * 1.5)
        layers.append(rule.encode(y=alt.Y("low:Q", scale=scale), y2=alt.Y2("high:Q")))
    else:
        band = base.mark_area(aria=False, clip=True, color=RAW, opacity=_BAND)
        layers.append(band.encode(y=alt.Y("low:Q", scale=scale), y2=alt.Y2("high:Q")))
    line = base.mark_line(aria=False, clip=True, color=RAW, strokeWidth=1.6)
    layers.append(line.encode(y=y))
    if few:
        layers.append(base.mark_circle(aria=False, clip=True, color=RAW, size=28, opacity=1).encode(y=y))
    if any(row["truth"] is not None and math.isfinite(row["truth"]) for row in rows):
        true = base.mark_line(aria=False, clip=True, color=TRUTH, strokeWidth=2)
        layers.append(true.encode(y=alt.Y("truth:Q", scale=scale)))
        if few:
            dots = base.mark_point(
                aria=False, clip=True, color=TRUTH, shape="diamond", size=24, filled=True, opacity=1
            )
            layers.append(dots.encode(y=alt.Y("truth:Q", scale=scale)))
    layers.append(_hover(_pointed(base, rows, most), (width - 60) / max(1, min(len(rows), most))))
    if any(row["mark"] == PROVISIONAL for row in rows):
        open_ = base.transform_filter(f"datum.mark === '{PROVISIONAL}'").mark_circle(
            aria=False, clip=True, fill="#ffffff", stroke=RAW, strokeWidth=2, size=46, opacity=1
        )
        layers.append(open_.encode(y=y))
    if any(row["mark"] == WITHHELD for row in rows):
        cross = base.transform_filter(f"datum.mark === '{WITHHELD}'").mark_point(
            shape="M-1,-1L1,1M-1,1L1,-1", stroke=UNIFORM, strokeWidth=2, size=26, opacity=1
        )
        layers.append(cross.encode(y=alt.value(height - 62), description=alt.Description("note:N")))
    return _finish(layers, rows, width, height)


def _pointed(base: alt.Chart, rows: Sequence[Row], most: int) -> alt.Chart:
    """The rows that can be pointed at: those with a text, evenly thinned where they are too many."""
    described = [row["epoch"] for row in rows if row["text"]]
    chosen = {int(epoch) for epoch in described[:: math.ceil(len(described) / most) or 1]}
    for row in rows:
        row["pointed"] = row["epoch"] in chosen
    pointed: alt.Chart = base.transform_filter("datum.pointed && datum.text")
    return pointed


def _level(value: float) -> alt.Chart:
    """A dashed horizontal line at `value`."""
    rule = alt.Chart(_values([{"level": value}])).mark_rule(
        aria=False, color=UNIFORM, strokeDash=[3, 3], strokeWidth=1
    )
    level: alt.Chart = rule.encode(y=alt.Y("level:Q"))
    return level


def _hover(base: alt.Chart, width: float) -> alt.Chart:
    """Invisible full-height lines that carry the text of the tooltip."""
    rule = base.mark_rule(opacity=0, color="#000000", strokeWidth=max(2.0, round(width, 1)))
    described: alt.Chart = rule.encode(description=alt.Description("text:N"))
    return described


def _along_domain(rows: Sequence[Row], narrow: bool, title: str) -> tuple[int, int, alt.X]:
    """Width and height of a chart over the places of a domain, and their axis."""
    width, height = (380, 260) if narrow else (1000, 320)
    places = [row["place"] for row in rows]
    x = alt.X(
        "place:Q",
        title=title,
        scale=alt.Scale(domain=[min(places), max(places)], nice=False),
        axis=alt.Axis(format=",d", tickCount=5 if narrow else 12, tickMinStep=1),
    )
    return width, height, x


def profile(rows: Sequence[Row], pattern: str, narrow: bool, title: str, uniform: float | None) -> Chart:
    """A histogram over many values (or bins of neighbours), in the order of the domain.

    Rows hold place, estimate, low, high, consistent, truth, text.
    """
    width, height, x = _along_domain(rows, narrow, title)
    y = _y("estimate", "", pattern)
    base = alt.Chart().encode(x=x)
    layers = []
    if uniform is not None:
        layers.append(_level(uniform))
    band = base.mark_area(aria=False, color=RAW, opacity=_BAND * 0.75)
    layers.append(band.encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")))
    if _has(rows, "consistent"):
        fill = base.mark_area(aria=False, color=CONSISTENT, opacity=0.45, interpolate="step")
        layers.append(fill.encode(y=alt.Y("consistent:Q")))
    dots = base.mark_circle(aria=False, color=RAW, size=7 if narrow else 14, opacity=0.9)
    layers.append(dots.encode(y=y))
    if _has(rows, "truth"):
        true = base.mark_line(aria=False, color=TRUTH, strokeWidth=1.8)
        layers.append(true.encode(y=alt.Y("truth:Q")))
    if not narrow:  # too close together to be pointed at with a finger
        layers.append(_hover(base, (width - 60) / len(rows)))
    return _finish(layers, rows, width, height)


def curve(rows: Sequence[Row], narrow: bool, title: str) -> Chart:
    """Cumulative shares with their band, in the order of the domain. Rows as for :func:`profile`."""
    width, height, x = _along_domain(rows, narrow, title)
    y = _y("estimate", "", "~%", scale=alt.Scale(domain=[0, 1], nice=False))
    base = alt.Chart().encode(x=x)
    band = base.mark_area(aria=False, clip=True, color=RAW, opacity=_BAND)
    line = base.mark_line(aria=False, clip=True, color=RAW, strokeWidth=1.8)
    layers = [band.encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")), line.encode(y=y)]
    if _has(rows, "truth"):
        true = base.mark_line(aria=False, clip=True, color=TRUTH, strokeWidth=1.8)
        layers.append(true.encode(y=alt.Y("truth:Q")))
    if not narrow:  # too close together to be pointed at with a finger
        layers.append(_hover(base, (width - 60) / len(rows)))
    return _finish(layers, rows, width, height)


def columns(rows: Sequence[Row], pattern: str, narrow: bool, title: str) -> Chart:
    """A histogram with a whisker for each of up to 60 numbered values."""
    width, height = (380, 260) if narrow else (1000, 320)
    step = (width - 60) / len(rows)
    every = max(1, math.ceil(len(rows) / (8 if narrow else 30)))
    ticks = [row["name"] for index, row in enumerate(rows) if index % every == 0]
    x = alt.X(
        "name:N",
        sort=None,
        title=title,
        axis=alt.Axis(labelAngle=0, values=ticks, labelOverlap=True),
        scale=alt.Scale(paddingInner=0.25, paddingOuter=0.1),
    )
    base = alt.Chart().encode(x=x)
    layers = _marks(base, rows, pattern, step, True, narrow)
    return _finish(layers, rows, width, height)


def bars(rows: Sequence[Row], pattern: str, narrow: bool) -> Chart:
    """A histogram lying on its side, for named values: the label is read where the bar is.

    Rows hold name (unique), estimate, low, high, consistent, truth, text.
    """
    width, step = (380 if narrow else 1000), 24
    y = alt.Y(
        "name:N",
        sort=None,
        title=None,
        axis=alt.Axis(labelLimit=110 if narrow else 260, labelFontSize=12, labelPadding=8),
        scale=alt.Scale(paddingInner=0.25, paddingOuter=0.1),
    )
    base = alt.Chart().encode(y=y)
    layers = _marks(base, rows, pattern, step, False, narrow)
    return _finish(layers, rows, width, step * len(rows) + 44)


def _marks(
    base: alt.Chart, rows: Sequence[Row], pattern: str, step: float, upright: bool, narrow: bool
) -> list[alt.Chart]:
    """Consistent bar, whisker, raw point and truth tick along one axis."""
    axis = alt.Axis(format=pattern, tickCount=4 if narrow else 6, grid=True, domain=False)
    if upright:
        axis.minExtent = 44

    def at(field: str) -> dict[str, Any]:
        scale = alt.Scale(zero=True)
        if upright:
            return {"y": alt.Y(f"{field}:Q", title=None, axis=axis, scale=scale)}
        return {"x": alt.X(f"{field}:Q", title=None, axis=axis, scale=scale)}

    far = "y2" if upright else "x2"
    layers = []
    if _has(rows, "consistent"):
        bar = base.mark_bar(aria=False, color=CONSISTENT, opacity=0.45)
        layers.append(bar.encode(**at("consistent")))
    if _has(rows, "low"):
        rule = base.mark_rule(aria=False, color=RAW, strokeWidth=2)
        layers.append(rule.encode(**at("low"), **{far: "high:Q"}))
    dot = base.mark_circle(aria=False, color=RAW, opacity=1, size=min(52, max(12, step * 4)))
    layers.append(dot.encode(**at("estimate")))
    if _has(rows, "truth"):
        tick = base.mark_tick(aria=False, color=TRUTH, opacity=1, thickness=3, size=max(5, step * 0.8))
        layers.append(tick.encode(**at("truth")))
    layers.append(_hover(base, step * 0.95))
    return layers


def _has(rows: Sequence[Row], field: str) -> bool:
    return any(row[field] is not None and math.isfinite(row[field]) for row in rows)


def stack(
    rows: Sequence[Row],
    colours: Mapping[str, str],
    domain: tuple[int, int],
    narrow: bool,
    height: int,
    dates: Dates,
    together: int = 1,
) -> Chart:
    """Reports per epoch, stacked by where they went. Rows hold epoch, part, number, text, order.

    ``together`` is how many epochs share a bar; the row's epoch is then the middle of theirs.
    """
    width = 380 if narrow else 1000
    epochs = (domain[1] - domain[0] + 1) / together
    bar = max(1.0, (width - 90) / epochs * (0.8 if epochs < 120 else 1.0))
    x = _epochs([domain[0] - 0.5, domain[1] + 0.5], dates, domain, 4 if narrow else 10)
    parts = list(colours)
    chart = (
        alt.Chart()
        .mark_bar(size=round(bar, 2))
        .encode(
            x=x,
            y=_y("number", "", ",d", axis={"tickCount": 4, "tickMinStep": 1, "minExtent": 62}, stack="zero"),
            color=alt.Color(
                "part:N", scale=alt.Scale(domain=parts, range=[colours[part] for part in parts]), legend=None
            ),
            order=alt.Order("order:Q"),
            # Bars too narrow for a finger have no text of their own.
            **({"description": alt.Description("text:N")} if not narrow or epochs <= 60 else {}),
        )
    )
    chart.mark.aria = not narrow or epochs <= 60
    return _finish([chart], rows, width, height)


def lines(
    series: Sequence[Line],
    narrow: bool,
    title: str,
    pattern: str,
    logarithmic: bool = False,
    level: tuple[str, float] | None = None,
    dates: Dates | None = None,
    most: int = POINTED,
) -> Chart:
    """Lines labelled at their right ends; each is (name, colour, dash, points).

    With ``dates`` they go over epochs, otherwise over whole numbers.
    """
    width, height = (380, 260) if narrow else (1000, 300)
    xs = [x for _, _, _, points in series for x, _ in points]
    ys = [y for _, _, _, points in series for _, y in points]
    if level is not None:
        ys.append(level[1])
    domain = scales.nice(ys, logarithmic)
    scale = alt.Scale(type="log" if logarithmic else "linear", domain=list(domain), nice=False)
    ends_at = int(min(xs)), int(max(xs))
    if dates is not None:
        x = _epochs(scales.span(ends_at), dates, ends_at, 4 if narrow else 10, field="x")
    else:
        x = alt.X(
            "x:Q",
            title=title,
            scale=alt.Scale(domain=scales.span(ends_at), nice=False, zero=False),
            axis=alt.Axis(format="d", values=scales.whole(*ends_at, 4 if narrow else 10)),
        )
    axis: dict[str, Any] = {"tickCount": 5}
    if logarithmic:
        axis["values"] = scales.ticks(domain)
    ends: list[tuple[str, str, float]] = []
    layers: list[alt.Chart] = []
    if level is not None:
        layers.append(_level(level[1]))
        ends.append((level[0], UNIFORM, level[1]))
    for name, colour, dash, points in series:
        every = math.ceil(len(points) / most)
        rows: list[Row] = []
        for index, (x_, y_) in enumerate(points):
            where = dates.named(int(x_)) if dates else f"{title} {x_:g}"
            rows.append(
                {"x": x_, "y": y_, "text": f"{name}, {where}: {y_:.4g}", "pointed": index % every == 0}
            )
        base = alt.Chart(_values(rows)).encode(x=x, y=_y("y", "", pattern, scale=scale, axis=axis))
        layers.append(base.mark_line(aria=False, color=colour, strokeWidth=2, strokeDash=list(dash)))
        if narrow and len(points) > 24:  # too close together to be pointed at with a finger
            continue
        dot = base.mark_circle(color=colour, size=36, opacity=1 if len(points) <= 24 else 0)
        layers.append(dot.transform_filter("datum.pointed").encode(description=alt.Description("text:N")))
        ends.append((name, colour, points[-1][1]))
    labels = [] if narrow else scales.apart(ends, domain, logarithmic, gap=17 / (height - 60))
    for name, colour, y_ in labels:
        text = alt.Chart(_values([{"name": name, "y": y_}])).mark_text(
            aria=False, align="left", dx=8, fontSize=12, color=colour, fontWeight=600
        )
        layers.append(text.encode(x=alt.value("width"), y=alt.Y("y:Q"), text=alt.Text("name:N")))
    # Labels beyond the picture would be cut off on paper and in windows as wide as the page.
    right = 10 + max((_LETTER * len(name) for name, _, _ in labels), default=0)
    return _finish(layers, [], width, height, right)
