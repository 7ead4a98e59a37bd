"""The comparisons of a folder of results as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_HEAD = ("verdict", "claim", "published", "found", "why")


def rows(comparisons: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line of a Markdown table for each comparison."""
    return ["| " + " | ".join(_cell(str(one[column])) for column in _HEAD) + " |" for one in comparisons]


def document(records: Sequence[Mapping[str, Any]]) -> str:
    """All comparisons, by experiment: its name is what to give to ``python -m reproduction``."""
    parts: list[str] = []
    for record in records:
        if not record["comparisons"]:
            continue
        figures = "".join(f" Figure: `{name}.svg`." for name, _ in record["figures"])
        parts.append(f"**{record['source']}**: `{command(record)}`.{figures}\n")
        parts += [f"| {' | '.join(_HEAD)} |", "|" + " --- |" * len(_HEAD), *rows(record["comparisons"]), ""]
    return "\n".join(parts)


def command(record: Mapping[str, Any]) -> str:
    """What was typed for this record."""
    options = "".join(
        text
        for text, given in (
            (" --quick", record["quick"]),
            (f" --runs {record['runs']}", record["runs"] is not None),
            (f" --seed {record['seed']}", record["seed"] != 1),
        )
        if given
    )
    return f"python -m reproduction {record['experiment']}{options}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("*", "\\*").strip()
