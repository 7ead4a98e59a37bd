"""The pieces that the template lays out: figures, legends, tables, and how much of each to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ldpbeam.report_page import svg
from ldpbeam.report_page.charts import POINTED, Chart
from ldpbeam.text import plural

SECTIONS = 8
"""How many collections, or attributes of one, have a section; the others are listed."""

LISTED = 200
"""How many of those are listed."""


@dataclass(frozen=True)
class Detail:
    rows: int
    epochs: int
    bins: int
    drawn: int = 1000
    marks: int = POINTED
    octets: int = 400_000

    @classmethod
    def of(cls, sections: int) -> Detail:
        """Fixed caps: a page of up to `SECTIONS` sections stays below two megabytes, whatever the run is."""
        share = min(max(sections, 1), SECTIONS)
        return cls(
            rows=1500 // share,
            epochs=120 // share,
            bins=max(360 // share, 45),
            drawn=1000 // share,
            marks=max(POINTED // share, 15),
            octets=400_000 // (2 * share - 1),
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
    title: str
    sentence: str
    chart: Markup
    keys: Sequence[Key] = ()
    table: Table | None = None

    @classmethod
    def of(cls, chart: Chart, name: str, title: str, sentence: str, summary: str = "", **more: Any) -> Figure:
        return cls(title, sentence, svg.render(chart, summary or sentence, name), **more)


@dataclass(frozen=True)
class Multiple:
    label: str
    reason: str
    chart: Markup


def distinct(labels: Sequence[str]) -> list[str]:
    """Names of bars: labels that occur twice get their place, since bars of one name lie on each other."""
    return [
        label if labels.count(label) == 1 else f"{label} · {place}" for place, label in enumerate(labels, 1)
    ]


def shortened(total: int, shown: int, noun: str, which: str) -> str:
    """The note under a table that does not show everything."""
    if shown >= total:
        return ""
    return f"Shows the {which} {shown:,} of {plural(total, noun)}; the rest is in the Parquet files."
