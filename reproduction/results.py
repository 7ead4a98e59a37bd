"""What a run leaves: a table and figures for each experiment, a record, and one page over all of them."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ldpbeam import __version__
from ldpbeam.durable.file import PRIVATE, write_file
from ldpbeam.durable.folder import make_folder
from reproduction import experiment
from reproduction.claims import command, document
from reproduction.data import SOURCES, stranger
from reproduction.drawing import draw
from reproduction.paper import Comparison, Row, Settings, Value
from reproduction.runner import Outcome, table

_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;font-size:.85em;display:block;overflow-x:auto;max-height:32em}"
    "td,th{border-bottom:1px solid #ddd;padding:.2em .7em;text-align:left;white-space:nowrap}"
    "table.claims td{white-space:normal;vertical-align:top}figure{margin:1em 0;overflow-x:auto}"
    "code{background:#f3f3f3;padding:0 .3em}"
)
_SHOWN = 120
"""Rows of a table that the page shows."""


def write(output: Path, settings: Settings, outcome: Outcome) -> list[Comparison]:
    """Table (CSV and Parquet) and figures (SVG) of one experiment; gives the comparisons with its paper."""
    import pyarrow.csv as arrow_csv
    import pyarrow.parquet as pq

    described = experiment(outcome.name)
    name = outcome.name.replace(":", "-")
    kinds = {"": outcome.rows}
    if described.summary is not None:
        kinds["-summary"] = described.summary(outcome.rows)
    for suffix, rows in kinds.items():
        arrow = table(rows)
        csv, parquet = io.BytesIO(), io.BytesIO()
        arrow_csv.write_csv(arrow, csv)
        pq.write_table(arrow, parquet)
        put(output / "tables" / f"{name}{suffix}.csv", csv.getvalue())
        put(output / "tables" / f"{name}{suffix}.parquet", parquet.getvalue())
    for figure in described.figures(outcome.rows):
        put(output / "figures" / f"{figure.name}.svg", draw(figure).encode())
    comparisons = list(described.compare(outcome.rows))
    record = {
        "experiment": outcome.name,
        "source": described.source,
        "title": described.title,
        "quick": settings.quick,
        "seed": settings.seed,
        "runs": settings.runs,
        "version": __version__,
        "inputs": outcome.inputs,
        "rows": len(outcome.rows),
        "repeatable": not described.measured,
        "figures": [[figure.name, figure.caption] for figure in described.figures(outcome.rows)],
        "comparisons": [vars(one) for one in comparisons],
    }
    put(output / "records" / f"{name}.json", json.dumps(record, indent=1, ensure_ascii=False).encode())
    return comparisons


def put(path: Path, content: bytes) -> None:
    """A whole file that others may read; one that holds the same is left alone."""
    if path.is_file() and hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(content).digest():
        return
    make_folder(path.parent)
    path.parent.chmod(0o755)
    write_file(path, [content], PRIVATE)
    path.chmod(0o644)


def write_page(output: Path) -> Path:
    """One page over everything that the folder holds, also of earlier calls; its claims as Markdown too."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Reproduction</title>"
        f"<style>{_STYLE}</style><h1>The papers, reproduced</h1>"
    ]
    records = {
        path: json.loads(path.read_text("utf-8")) for path in sorted((output / "records").glob("*.json"))
    }
    parts.append("<ul>")
    for path, record in records.items():
        parts.append(f'<li><a href="#{path.stem}">{escape(record["source"])}</a>: {escape(record["title"])}')
    parts.append("</ul>")
    for path, record in records.items():
        parts += _section(output, path.stem, record)
    put(output / "claims.md", document(list(records.values())).encode())
    page = output / "index.html"
    put(page, "\n".join(parts).encode())
    return page


def _section(output: Path, name: str, record: dict[str, object]) -> list[str]:
    described = experiment(str(record["experiment"]))
    parts = [
        f'<h2 id="{name}">{escape(described.source)}: {escape(described.title)}</h2>',
        f"<p><code>{escape(command(record))}</code></p>",
    ]
    if described.note:
        parts.append(f"<p>{escape(described.note)}</p>")
    inputs = record["inputs"]
    if isinstance(inputs, dict):
        for file, digest in inputs.items():
            known = SOURCES.get(file)
            parts.append(f"<p>Data: {escape(file)} ({escape(known.published if known else 'your own')}).")
            parts.append(f"{escape(stranger(file, str(digest)))}</p>")
    figures = record["figures"]
    if isinstance(figures, list):
        for figure, caption in figures:
            parts.append(
                f'<figure><img src="figures/{escape(figure)}.svg" alt="{escape(caption)}">'
                f"<figcaption>{escape(caption)}</figcaption></figure>"
            )
    comparisons = record["comparisons"]
    if isinstance(comparisons, list) and comparisons:
        head = ("claim", "published", "found", "verdict", "why")
        parts.append(_table([dict(zip(head, one.values(), strict=True)) for one in comparisons], "claims"))
    parts.append(_stored(output, name))
    return parts


def _stored(output: Path, name: str) -> str:
    import pyarrow.parquet as pq

    folder = output / "tables"
    summary = folder / f"{name}-summary.parquet"
    path = summary if summary.is_file() else folder / f"{name}.parquet"
    rows: list[Row] = pq.read_table(path).to_pylist()
    links = f'<a href="tables/{name}.csv">CSV</a>, <a href="tables/{name}.parquet">Parquet</a>'
    more = "" if len(rows) <= _SHOWN else f" The first {_SHOWN} of {len(rows):,} rows:"
    return f"<p>Results: {links}.{more}</p>{_table(rows[:_SHOWN])}"


def _table(rows: Sequence[Row], kind: str = "") -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(str(column))}" for column in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(shown(value))}" for value in row.values()) for row in rows)
    return f'<table class="{kind}"><tr>{head}{body}</table>'


def shown(value: Value) -> str:
    """A cell of a table for people."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
