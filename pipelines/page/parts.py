"""The pieces that the template lays out: figures, legends, tables, and how much of each to show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ldpbeam.pipelines.page import svg
from ldpbeam.pipelines.page.text import plural

if TYPE_CHECKING:
    from markupsafe import Markup

    from ldpbeam.pipelines.page.charts import Chart


@dataclass(frozen=True)
class Detail:
    """How much the page shows; a page that comes out too large is made again with less."""

    rows: int
    epochs: int
    bins: int
    sections: int


LEVELS = (
    Detail(rows=1500, epochs=400, bins=360, sections=12),
    Detail(rows=300, epochs=240, bins=240, sections=12),
    Detail(rows=60, epochs=120, bins=120, sections=8),
    Detail(rows=20, epochs=60, bins=60, sections=4),
)


@dataclass(frozen=True)
class Key:
    """One entry of a legend; `shape` is line, dash, band, fill, box, dot, ring, cross or tick."""

    shape: str
    colour: str
    text: str


@dataclass(frozen=True)
class Table:
    """A table of finished text; the first `names` columns are text, the others figures."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A chart in one or two widths with its sentence, legend and table."""

    title: str
    sentence: str
    wide: Markup
    narrow: Markup | None = None
    keys: Sequence[Key] = ()
    table: Table | None = None
    narrow_keys: bool = False
    """Whether the legend is for the narrow chart only, the wide one being labelled directly."""


@dataclass(frozen=True)
class Multiple:
    """One of the small charts of values over epochs."""

    label: str
    reason: str
    chart: Markup


def draw(make: Callable[[bool], Chart], summary: str, name: str) -> tuple[Markup, Markup]:
    """Render a chart for wide and for narrow windows."""
    wide, narrow = (
        svg.render(make(small), summary, f"{name}-{'n' if small else 'w'}", width)
        for small, width in ((False, "wide"), (True, "narrow"))
    )
    return wide, narrow


def shortened(total: int, shown: int, noun: str, which: str) -> str:
    """The note under a table that does not show everything."""
    if shown >= total:
        return ""
    return f"Shows the {which} {shown:,} of {plural(total, noun)}; the rest is in the Parquet files."
