"""The charts of the page as Altair specifications. Colours are Okabe and Ito's.

Text from outside (labels, reasons) only ever enters as data: never as a field name, an expression
or a title, because Vega evaluates some of those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from ldpbeam.report_page.dates import Dates

Chart = alt.Chart | alt.LayerChart

RAW, TRUTH, CONSISTENT = "#0072B2", "#D55E00", "#009E73"
UNIFORM, THEORY = "#7a7a7a", "#222222"
COUNTED, DUPLICATE, LATE = "#0072B2", "#56B4E9", "#E69F00"
REJECTED = ("#D55E00", "#CC79A7", "#5D3A9B", "#009E73", "#333333")
OTHER = "#999999"
_TEXT, _GRID = "#4a4a4a", "#e6e6e6"
_BAND = 0.2
_WIDTH, _HEIGHT, _STACKED, _LYING = 720, 290, 170, 24
"""Pixels of a chart, of one of stacked bars, and of one bar that lies. The page scales a chart to the window,
but never below what can be read: in a narrow window a reader moves it sideways."""

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
    layers: Sequence[alt.Chart], rows: Sequence[Row], height: int = _HEIGHT, width: int = _WIDTH
) -> alt.LayerChart:
    """Put the layers over `rows`, if any, and give them one look: quiet grid, readable type, no frame."""
    axis = alt.AxisConfig(
        domain=False,
        ticks=False,
        labelColor=_TEXT,
        labelFontSize=13,
        labelPadding=6,
        labelFlush=False,
        gridColor={"condition": {"test": "datum.value === 0", "value": "#9a9a9a"}, "value": _GRID},
        titleColor=_TEXT,
        titleFontSize=13,
        titleFontWeight="normal",
    )
    chart = alt.LayerChart(layer=list(layers))
    # What holds for the whole is set in place: every method of a chart copies all that it holds, and a layer
    # would be given a copy of the data.
    if rows:  # else each layer has data of its own, which Altair lifts out of the layers where all share it
        chart.data = _values(rows)
    chart.width, chart.height = width, height
    chart.autosize = alt.AutoSizeParams(type="fit", contains="padding")
    chart.padding = {"left": 12, "right": 14, "top": 8, "bottom": 4}
    chart.config = alt.Config(
        background="transparent",
        font="sans-serif",
        view=alt.ViewConfig(stroke=None),
        axis=axis,
        axisX=alt.AxisConfig(grid=False, domain=True, domainColor="#999999"),
    )
    return chart


def _y(field: str, pattern: str, **more: Any) -> alt.Y:
    """A vertical axis without a title: the sentence above the chart says what it is of."""
    axis = {"tickCount": 5, "minExtent": 44, **more.pop("axis", {})}
    return alt.Y(f"{field}:Q", title=None, axis=alt.Axis(format=pattern, **axis), **more)


_TIMES: Any = {
    **{
        "year": "%Y",
        "quarter": "%b %Y",
        "month": "%b %Y",
        "week": "%-d %b",
        "date": "%-d %b",
        "day": "%-d %b",
    },
    **{"hours": "%H:%M", "minutes": "%H:%M", "seconds": "%H:%M:%S"},
}
"""How a tick is written, by the coarsest unit of time that it begins."""


class _Epochs:
    """A horizontal axis of epochs: of time where all of them have a date, else of whole numbers."""

    def __init__(self, dates: Dates, first: int, last: int, edge: float = 0.0) -> None:
        """``edge`` is the room before the first and behind the last, in epochs."""
        self._line, self._epochs = dates.line(first, last), range(first, last + 1)
        if first == last:
            edge = max(edge, 0.5)
        self._ends = [self.at(first - edge), self.at(last + edge)]

    def at(self, epoch: float) -> float:
        """Where an epoch is: milliseconds since 1970, or its number."""
        begin, step = self._line or (0.0, 1.0)
        return begin + epoch * step

    def x(self, count: int, title: str = "epoch") -> alt.X:
        """The axis, with about ``count`` ticks; ``title`` is that of whole numbers."""
        # Nothing between epochs: of few, each has its tick.
        few = [self.at(epoch) for epoch in self._epochs] if len(self._epochs) <= count else alt.Undefined
        if self._line is None:
            scale = alt.Scale(zero=False, nice=False, domain=self._ends)
            return alt.X("at:Q", title=title, scale=scale, axis=_whole(count, few))
        scale = alt.Scale(type="utc", nice=False, domain=self._ends)
        axis = alt.Axis(values=few, tickCount=count, labelOverlap=True, format=_TIMES)
        return alt.X("at:T", title="start of the epoch, UTC", scale=scale, axis=axis)


def _whole(count: int, values: Any = alt.Undefined) -> alt.Axis:
    return alt.Axis(format=",d", values=values, tickCount=count, tickMinStep=1, labelOverlap=True)


def multiple(
    rows: Sequence[Row],
    domain: tuple[float, float],
    uniform: float | None,
    pattern: str,
    dates: Dates,
    most: int,
) -> Chart:
    """One value over epochs: estimate with its 95 % interval, and the truth if known."""
    width, height = 320, 190
    epochs = [row["epoch"] for row in rows]
    few = len({row["epoch"] for row in rows if row["text"]}) <= 12
    first, last = min(epochs), max(epochs)
    axis = _Epochs(dates, first, last, 0.04 * (last - first) if few else 0.0)
    rows = [{**row, "at": axis.at(row["epoch"])} for row in rows]
    scale = alt.Scale(domain=list(domain), nice=True, zero=False)
    y = _y("estimate", pattern, scale=scale, axis={"tickCount": 4})
    base = alt.Chart().encode(x=axis.x(4))
    layers: list[alt.Chart] = []
    if uniform is not None:
        layers.append(_level(uniform))
    limits = base.mark_area(aria=False, clip=True, color=RAW, opacity=_BAND)
    if few:
        limits = base.mark_rule(aria=False, clip=True, color=RAW, strokeWidth=5, opacity=_BAND * 1.5)
    layers.append(limits.encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"))
    line = base.mark_line(aria=False, clip=True, color=RAW, strokeWidth=1.6)
    layers.append(line.encode(y=y))
    if few:
        layers.append(base.mark_circle(aria=False, clip=True, color=RAW, size=28, opacity=1).encode(y=y))
    if _has(rows, "truth"):
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
    return _finish(layers, rows, height, width)


def _pointed(base: alt.Chart, rows: Sequence[Row], most: int) -> alt.Chart:
    """The rows that can be pointed at: those with a text, evenly thinned where they are too many."""
    described = [row["epoch"] for row in rows if row["text"]]
    chosen = {int(epoch) for epoch in described[:: math.ceil(len(described) / most) or 1]}
    for row in rows:
        row["pointed"] = row["epoch"] in chosen
    pointed: alt.Chart = base.transform_filter("datum.pointed && datum.text")
    return pointed


def _level(value: float) -> alt.Chart:
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


def _along_domain(rows: Sequence[Row]) -> alt.X:
    """The axis of a chart over the places of a domain."""
    places = [row["place"] for row in rows]
    scale = alt.Scale(domain=[min(places), max(places)], nice=False)
    return alt.X("place:Q", title="value", scale=scale, axis=_whole(10))


def profile(rows: Sequence[Row], pattern: str, uniform: float | None) -> Chart:
    """A histogram over many values (or bins of neighbours), in the order of the domain."""
    y = _y("estimate", pattern)
    base = alt.Chart().encode(x=_along_domain(rows))
    layers = []
    if uniform is not None:
        layers.append(_level(uniform))
    band = base.mark_area(aria=False, color=RAW, opacity=_BAND * 0.75)
    layers.append(band.encode(y=alt.Y("low:Q"), y2="high:Q"))
    if _has(rows, "consistent"):
        fill = base.mark_area(aria=False, color=CONSISTENT, opacity=0.45, interpolate="step")
        layers.append(fill.encode(y=alt.Y("consistent:Q")))
    dots = base.mark_circle(aria=False, color=RAW, size=12, opacity=0.9)
    layers.append(dots.encode(y=y))
    if _has(rows, "truth"):
        true = base.mark_line(aria=False, color=TRUTH, strokeWidth=1.8)
        layers.append(true.encode(y=alt.Y("truth:Q")))
    layers.append(_hover(base, (_WIDTH - 60) / len(rows)))
    return _finish(layers, rows)


def curve(rows: Sequence[Row]) -> Chart:
    """Cumulative shares with their band, in the order of the domain. Rows as for :func:`profile`."""
    y = _y("estimate", "~%", scale=alt.Scale(domain=[0, 1], nice=False))
    base = alt.Chart().encode(x=_along_domain(rows))
    band = base.mark_area(aria=False, clip=True, color=RAW, opacity=_BAND)
    line = base.mark_line(aria=False, clip=True, color=RAW, strokeWidth=1.8)
    layers = [band.encode(y=alt.Y("low:Q"), y2="high:Q"), line.encode(y=y)]
    if _has(rows, "truth"):
        true = base.mark_line(aria=False, clip=True, color=TRUTH, strokeWidth=1.8)
        layers.append(true.encode(y=alt.Y("truth:Q")))
    layers.append(_hover(base, (_WIDTH - 60) / len(rows)))
    return _finish(layers, rows)


def columns(rows: Sequence[Row], pattern: str) -> Chart:
    """A histogram with a whisker for each of up to 60 numbered values."""
    every = max(1, math.ceil(len(rows) / 20))
    ticks = [row["name"] for index, row in enumerate(rows) if index % every == 0]
    x = alt.X(
        "name:N",
        sort=None,
        title="value",
        axis=alt.Axis(labelAngle=0, values=ticks, labelOverlap=True),
        scale=alt.Scale(paddingInner=0.25, paddingOuter=0.1),
    )
    layers = _marks(alt.Chart().encode(x=x), rows, pattern, (_WIDTH - 60) / len(rows), True)
    return _finish(layers, rows)


def bars(rows: Sequence[Row], pattern: str) -> Chart:
    """A histogram lying on its side, for named values: the label is read where the bar is."""
    y = alt.Y(
        "name:N",
        sort=None,
        title=None,
        axis=alt.Axis(labelLimit=200, labelFontSize=13, labelPadding=8),
        scale=alt.Scale(paddingInner=0.25, paddingOuter=0.1),
    )
    layers = _marks(alt.Chart().encode(y=y), rows, pattern, _LYING, False)
    return _finish(layers, rows, _LYING * len(rows) + 44)


def _marks(base: alt.Chart, rows: Sequence[Row], pattern: str, step: float, upright: bool) -> list[alt.Chart]:
    """Consistent bar, whisker, raw point and truth tick along one axis."""
    axis = alt.Axis(format=pattern, tickCount=6, grid=True, domain=False)
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
    return any(row.get(field) is not None and math.isfinite(row[field]) for row in rows)


def stack(
    rows: Sequence[Row],
    colours: Mapping[str, str],
    domain: tuple[int, int],
    dates: Dates,
    together: int = 1,
) -> Chart:
    epochs = (domain[1] - domain[0] + 1) / together
    bar = max(1.0, (_WIDTH - 90) / epochs * (0.8 if epochs < 120 else 1.0))
    axis, parts = _Epochs(dates, *domain, edge=0.5), list(colours)
    y = _y("number", ",d", axis={"tickCount": 4, "tickMinStep": 1, "minExtent": 62}, stack="zero")
    colour = alt.Scale(domain=parts, range=list(colours.values()))
    chart = alt.Chart().mark_bar(size=round(bar, 2))
    chart = chart.encode(
        x=axis.x(8),
        y=y,
        color=alt.Color("part:N", scale=colour, legend=None),
        order=alt.Order("order:Q"),
        description=alt.Description("text:N"),
    )
    return _finish([chart], [{**row, "at": axis.at(row["epoch"])} for row in rows], _STACKED)


def lines(
    series: Sequence[Line],
    title: str,
    pattern: str,
    logarithmic: bool = False,
    level: float | None = None,
    dates: Dates | None = None,
    most: int = POINTED,
) -> Chart:
    xs = [int(x) for _, _, _, points in series for x, _ in points]
    ys = [y for _, _, _, points in series for _, y in points] + ([] if level is None else [level])
    domain = [min(ys) / 1.6, max(ys) * 1.6] if logarithmic else [0.0, max(ys) * 1.06 or 1.0]
    scale = alt.Scale(type="log" if logarithmic else "linear", domain=domain, nice=False)
    axis = _Epochs(dates or Dates(), min(xs), max(xs))
    x, y = axis.x(8, title), _y("y", pattern, scale=scale, axis={"labelOverlap": True})
    layers: list[alt.Chart] = [] if level is None else [_level(level)]
    for name, colour, dash, points in series:
        every = math.ceil(len(points) / most)
        rows: list[Row] = []
        for index, (x_, y_) in enumerate(points):
            where = dates.named(int(x_)) if dates else f"{title} {x_:g}"
            text = f"{name}, {where}: {y_:.4g}"
            rows.append({"at": axis.at(x_), "y": y_, "text": text, "pointed": index % every == 0})
        base = alt.Chart(_values(rows)).encode(x=x, y=y)
        layers.append(base.mark_line(aria=False, color=colour, strokeWidth=2, strokeDash=list(dash)))
        dot = base.mark_circle(color=colour, size=36, opacity=1 if len(points) <= 24 else 0)
        layers.append(dot.transform_filter("datum.pointed").encode(description=alt.Description("text:N")))
    return _finish(layers, [])
