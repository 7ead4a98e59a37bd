"""What a run leaves: a table and figures for each experiment, a record, and one page over all of them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ldpbeam import __version__
from ldpbeam.durable.file import PRIVATE, write_file
from ldpbeam.durable.folder import make_folder
from reproduction.data import SOURCES, stranger
from reproduction.drawing import draw
from reproduction.experiments import EXPERIMENTS
from reproduction.paper import Comparison, Settings
from reproduction.runner import Outcome, table

_HEAD = ("verdict", "claim", "published", "found", "why")


def write(output: Path, settings: Settings, outcome: Outcome) -> list[Comparison]:
    """Table (CSV) and figures (SVG) of one experiment; gives the comparisons with its paper."""
    import pyarrow.csv

    described = EXPERIMENTS[outcome.name]
    name, rows = outcome.name.replace(":", "-"), outcome.rows
    kinds = {"": rows}
    if described.summary is not None:
        kinds["-summary"] = described.summary(rows)
    for suffix, some in kinds.items():
        content = io.BytesIO()
        pyarrow.csv.write_csv(table(some), content)
        put(output / "tables" / f"{name}{suffix}.csv", content.getvalue())
    figures = described.figures(rows)
    for figure in figures:
        put(output / "figures" / f"{figure.name}.svg", draw(figure).encode())
    comparisons = list(described.compare(rows))
    record = {
        "experiment": outcome.name,
        "quick": settings.quick,
        "seed": settings.seed,
        "runs": settings.runs,
        "version": __version__,
        "inputs": outcome.inputs,
        "rows": len(rows),
        "repeatable": not described.measured,
        "figures": [[figure.name, figure.caption] for figure in figures],
        "comparisons": [vars(one) for one in comparisons],
    }
    put(output / "records" / f"{name}.json", json.dumps(record, indent=1, ensure_ascii=False).encode())
    return comparisons


def put(path: Path, content: bytes) -> None:
    """A whole file that others may read; one that holds the same is left alone."""
    if path.is_file() and path.read_bytes() == content:
        return
    make_folder(path.parent)
    path.parent.chmod(0o755)
    write_file(path, [content], PRIVATE)
    path.chmod(0o644)


def write_page(output: Path) -> Path:
    """One page in Markdown over everything that the folder holds, also of earlier calls."""
    paths = sorted((output / "records").glob("*.json"))
    records = [json.loads(path.read_text("utf-8")) for path in paths]
    page = output / "index.md"
    put(page, "\n".join(line for record in records for line in _section(record)).encode())
    return page


def _section(record: Mapping[str, Any]) -> Iterator[str]:
    described = EXPERIMENTS[record["experiment"]]
    yield f"## {described.source}: {described.title}\n"
    yield f"`{command(record)}`\n"
    if described.note:
        yield f"{described.note}\n"
    for file, digest in record["inputs"].items():
        yield f"Data: {file} ({SOURCES[file].published}). {stranger(file, digest)}\n"
    for figure, caption in record["figures"]:
        yield f"![{caption}](figures/{figure}.svg)\n"
    if record["comparisons"]:
        yield f"| {' | '.join(_HEAD)} |\n|{' --- |' * len(_HEAD)}"
        yield from claims(record["comparisons"])
    yield f"\nResults: [CSV](tables/{record['experiment'].replace(':', '-')}.csv).\n"


def claims(comparisons: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line of a Markdown table for each comparison."""
    return ["| " + " | ".join(_cell(str(one[column])) for column in _HEAD) + " |" for one in comparisons]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("*", "\\*").strip()


def command(record: Mapping[str, Any]) -> str:
    quick = " --quick" if record["quick"] else ""
    runs = "" if record["runs"] is None else f" --runs {record['runs']}"
    seed = "" if record["seed"] == 1 else f" --seed {record['seed']}"
    return f"python -m reproduction {record['experiment']}{quick}{runs}{seed}"
