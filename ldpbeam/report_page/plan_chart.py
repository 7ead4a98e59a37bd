"""The chart of a plan: error against ε, a line for each protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from ldpbeam.planning.chart import Line, lines
from ldpbeam.planning.plan import Plan
from ldpbeam.planning.quantity import quantity
from ldpbeam.planning.sentences import asked, budget_name
from ldpbeam.report_page.svg import document

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#B8860B", "#555555")
"""After Okabe and Ito; as many as a chart has lines."""

_Row = dict[str, Any]

_ROOM = 1.12
"""By which an axis goes on behind the largest number, and before the least."""


def draw(plan: Plan) -> str:
    """The chart as an SVG document, with what was asked for below its title.

    Lines of a weaker promise are dashed. A dotted line marks the level that was asked for; dashed ones mark
    errors to compare with, each with its name.
    """
    about, drawn = quantity(plan.needs), lines(plan)
    name, middle = budget_name(plan.needs)
    marked = about.levels | ({"wanted": plan.needs.target} if plan.needs.target else {})
    levels: list[_Row] = [
        {"text": f"{what}: {about.error(error)}", "error": about.scale * error}
        for what, error in marked.items()
    ]
    places: list[_Row] = [
        {"level": level, "error": about.scale * width, "line": line.label}
        for line in drawn
        for level, width in line.points
    ]
    x = _axis("level", name, [row["level"] for row in [*places, {"level": middle}]])
    y = _axis(
        "error",
        f"half-width of the 95 % interval, {about.unit}",
        [row["error"] for row in [*places, *levels]],
    )
    level = _over(levels)
    chart = alt.LayerChart(
        layer=[
            _over([{"level": middle}]).mark_rule(color="#999999", strokeDash=[2, 3]).encode(alt.X(**x)),
            level.mark_rule(color="#444444", strokeDash=[6, 4]).encode(alt.Y(**y)),
            level.mark_text(color="#444444", align="left", dx=4, dy=-6).encode(
                alt.Y(**y), alt.Text("text:N"), x=alt.value(0)
            ),
            _over(places).mark_line(aria=False).encode(alt.X(**x), alt.Y(**y), *_by_line(drawn)),
        ]
    )
    chart.width, chart.height = 600, 380
    title = f"Error of one epoch against {name}"
    chart.title = alt.TitleParams(title, subtitle=asked(plan.needs), anchor="start", fontSize=15)
    return document(chart, title, "plan")


def _over(rows: Sequence[_Row]) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=list(rows)))


def _axis(field: str, title: str, numbers: Sequence[float]) -> dict[str, Any]:
    """A logarithmic axis that has room for all numbers."""
    domain = [min(numbers) / _ROOM, max(numbers) * _ROOM]
    scale = alt.Scale(type="log", domain=domain, nice=False)
    return {
        "shorthand": f"{field}:Q",
        "title": title,
        "scale": scale,
        "axis": alt.Axis(format="~r", tickCount=8),
    }


def _by_line(drawn: Sequence[Line]) -> tuple[alt.Color, alt.StrokeDash]:
    """A colour for each line, best first, and dashes for those of a weaker promise."""
    names = [line.label for line in drawn]
    dashes = [[7, 3] if line.weaker else [1, 0] for line in drawn]
    colours = list(_COLOURS[: len(drawn)])
    return (
        alt.Color("line:N", title=None, scale=alt.Scale(domain=names, range=colours)),
        alt.StrokeDash("line:N", title=None, scale=alt.Scale(domain=names, range=dashes)),
    )
