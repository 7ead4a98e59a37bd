"""Figures as SVG, by the library that draws the result page.

matplotlib would be one more dependency with a look of its own; Altair and its renderer are there already,
draw without a browser, and the page's own list of permitted elements makes their output inert.
"""

from __future__ import annotations

import math

import altair as alt

from ldpbeam.report_page.svg import document
from reproduction.paper import Figure, Panel

_COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5D3A9B", "#333333"),
    *("#8C6D31", "#7F7F7F", "#B22222", "#2F4F4F", "#6B8E23", "#BC8F8F"),
)
"""Okabe and Ito's, then others."""

_WIDTH, _HEIGHT = 300, 230
_COLUMNS = 3


def draw(figure: Figure) -> str:
    """The figure as an SVG document; panels stand three in a row, with one legend."""
    names = list(dict.fromkeys(line.name for panel in figure.panels for line in panel.lines))
    dashed = [
        name
        for name in names
        if any(line.dashed for p in figure.panels for line in p.lines if line.name == name)
    ]
    charts = [_panel(panel, names, dashed) for panel in figure.panels]
    rows = [alt.hconcat(*charts[i : i + _COLUMNS]) for i in range(0, len(charts), _COLUMNS)]
    return document(alt.vconcat(*rows), figure.caption, figure.name)


def _panel(panel: Panel, names: list[str], dashed: list[str]) -> alt.Chart:
    drawn = [
        {"x": x, "y": y, "line": line.name}
        for line in panel.lines
        for x, y in line.points
        if math.isfinite(y) and (y > 0 or not panel.log_y) and (x > 0 or not panel.log_x)
    ]
    colours = [_COLOURS[i % len(_COLOURS)] for i in range(len(names))]
    dashes = [[4, 3] if name in dashed else [1, 0] for name in names]
    y_axis = alt.Axis(format=".0e") if panel.log_y else alt.Axis()
    chart = alt.Chart(alt.InlineData(values=drawn))
    marked = chart.mark_line(aria=False, point=_points() if panel.marks else False)
    drawing: alt.Chart = marked.encode(
        x=alt.X("x:Q", title=panel.x, scale=_scale(panel.log_x)),
        y=alt.Y("y:Q", title=panel.y, scale=_scale(panel.log_y), axis=y_axis),
        color=alt.Color("line:N", title=None, scale=alt.Scale(domain=names, range=colours)),
        strokeDash=alt.StrokeDash("line:N", title=None, scale=alt.Scale(domain=names, range=dashes)),
    ).properties(width=_WIDTH, height=_HEIGHT, title=panel.title)
    return drawing


def _points() -> alt.OverlayMarkDef:
    return alt.OverlayMarkDef(size=18, aria=False)


def _scale(log: bool) -> alt.Scale:
    return alt.Scale(type="log") if log else alt.Scale(zero=False)
