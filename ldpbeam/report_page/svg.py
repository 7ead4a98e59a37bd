"""From an Altair chart to a small, inert piece of inline SVG.

The renderer's output is parsed and rewritten through a list of permitted elements and attributes,
so a label can never become an element, a link or a script, whatever the renderer does with it.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import altair as alt
import vl_convert
from markupsafe import Markup

_ELEMENTS = {"svg", "g", "path", "rect", "line", "text", "tspan", "circle", "defs", "clipPath"}
_ATTRIBUTES = {
    *("viewBox", "width", "height", "transform", "opacity", "clip-path", "id"),
    *("d", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r"),
    *("fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray"),
    *("stroke-linecap", "stroke-linejoin", "stroke-miterlimit"),
    *("text-anchor", "dy", "font-size", "font-weight", "font-style"),
}
_GEOMETRY = {"d", "transform", "x", "y", "x1", "y1", "x2", "y2", "width", "height", "cx", "cy"}
_NOT_MARKS = {"axis", "legend", "title", "header"}
_LONG = re.compile(r"-?\d+\.\d{2,}(?:e-?\d+)?|-?\d+(?:\.\d+)?e-\d+")
_IDLE = {
    ("fill-opacity", "1"),
    ("opacity", "1"),
    ("stroke-opacity", "1"),
    ("transform", "translate(0,0)"),
    ("font-weight", "normal"),
}
_ID = re.compile(r"url\(#([\w-]+)\)")
_ROLE = "aria-roledescription"
_SAYS = "data-says"
"""What a mark says under a pointer. To a screen reader a chart is one picture, whose marks have no names; the
numbers are in the table below it."""


def document(chart: alt.LayerChart | alt.VConcatChart, summary: str, name: str) -> str:
    """Draw a chart as an SVG document of its own, on white."""
    chart.config = alt.Config(
        background="white",
        font="sans-serif",
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(gridColor="#e6e6e6", titleFontWeight="normal", domainColor="#999999"),
        legend=alt.LegendConfig(labelLimit=260, symbolStrokeWidth=2),
    )
    svg = str(render(chart, summary, name))
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" ', 1)


def render(chart: alt.Chart | alt.LayerChart | alt.VConcatChart, summary: str, name: str) -> Markup:
    """Draw a chart as SVG that stands inside a page."""
    svg = vl_convert.vegalite_to_svg(chart.to_dict(validate=False), allowed_base_urls=[], show_warnings=False)
    root = ElementTree.fromstring(svg)  # noqa: S314 - the renderer's, which declares no entities
    width, height = root.get("width", "0"), root.get("height", "0")
    _rewrite(root, name, {})
    root.set("class", "chart")
    root.set("role", "img")
    root.set("aria-label", summary)
    root.set("width", width)
    root.set("height", height)
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704 - parsed, rewritten


def _rewrite(element: ElementTree.Element, name: str, seen: dict[str, str]) -> None:
    """Strip `element` and everything in it to what `_ELEMENTS` and `_ATTRIBUTES` permit."""

    def renamed(identifier: str) -> str:
        return seen.setdefault(identifier, f"{name}-{len(seen)}")

    tag = element.tag.rpartition("}")[2]
    if tag not in _ELEMENTS:
        raise ValueError(f"The chart renderer wrote <{tag}>, which a page must not contain.")
    element.tag = tag
    attributes = {
        key: _short(key, value)
        for key, value in element.attrib.items()
        if key in _ATTRIBUTES and (key, value) not in _IDLE
    }
    if element.get(_ROLE, "axis") not in _NOT_MARKS and (says := element.get("aria-label")) is not None:
        attributes[_SAYS] = says
    if "id" in attributes:
        attributes["id"] = renamed(attributes["id"])
    if "clip-path" in attributes:
        attributes["clip-path"] = _ID.sub(lambda match: f"url(#{renamed(match[1])})", attributes["clip-path"])
    element.attrib.clear()
    element.attrib.update(attributes)
    for child in list(element):
        _rewrite(child, name, seen)
        if _empty(child):
            element.remove(child)


def _short(key: str, value: str) -> str:
    """Round the coordinates in a geometry attribute to a tenth of a pixel."""
    if key not in _GEOMETRY:
        return value
    return _LONG.sub(lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), value)


def _empty(element: ElementTree.Element) -> bool:
    """Whether `element` draws nothing: Vega writes many empty groups and background paths."""
    if element.tag == "path":
        path: Any = element.get("d", "")
        return not path or (
            element.get("fill") is None and element.get("stroke") is None and element.get(_SAYS) is None
        )
    return element.tag == "g" and len(element) == 0
