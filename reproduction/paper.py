"""What an experiment is: cells computed one by one, a table of their rows, figures and comparisons."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ldpbeam.simulators.random_words import RandomWords

if TYPE_CHECKING:
    import numpy as np

Value = str | int | float | bool | None
Row = dict[str, Value]
"""A row of a tidy table: every row of an experiment has the same columns."""

Cell = Mapping[str, Value]
"""Plain parameters of one part of an experiment, which is computed and stored on its own."""


@dataclass(frozen=True)
class Settings:
    """How much of an experiment is computed, and from what."""

    quick: bool = False
    seed: int = 1
    data: Path = Path("data")
    runs: int | None = None
    devices: int | None = None
    epochs: int | None = None

    def repeats(self, paper: int) -> int:
        """Independent runs: the paper's number, a tenth of it, or what was asked for."""
        if self.runs is not None:
            return self.runs
        return max(1, paper // 10) if self.quick else paper

    def generator(self, experiment: str, cell: Cell) -> np.random.Generator:
        """Randomness of one cell, which depends on nothing but the seed, the experiment and the cell."""
        import numpy as np

        words = RandomWords(self.seed).words(f"{experiment} {canonical(cell)}", 0, 0, 1, 4)
        # The fastest of numpy's generators; its words are no part of anybody's contract.
        return np.random.Generator(np.random.SFC64(words[0].tolist()))


def canonical(cell: Cell) -> str:
    """A cell as text, the same for equal cells."""
    return json.dumps(dict(cell), sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = True
    marks: bool = True


@dataclass(frozen=True)
class Figure:
    name: str
    caption: str
    panels: Sequence[Panel]


VERDICTS = (
    *("reproduced", "holds with a correction", "differs", "does not hold", "cannot be reproduced"),
    "not judged",
)
"""What can be said of a published number or claim; the last where a run is too small to say anything."""


@dataclass(frozen=True)
class Comparison:
    """A published statement or number beside what was found.

    Attributes:
        claim: what the paper says, and where.
        published: its number or words.
        found: ours.
        verdict: one of :data:`VERDICTS`.
        why: the reason where it is not simply reproduced.
    """

    claim: str
    published: str
    found: str
    verdict: str
    why: str = ""


@dataclass(frozen=True)
class Experiment:
    name: str
    source: str
    title: str
    cells: Callable[[Settings], Sequence[Cell]]
    compute: Callable[[Settings, Cell], list[Row]]
    figures: Callable[[Sequence[Row]], Sequence[Figure]] = lambda rows: ()
    compare: Callable[[Sequence[Row]], Sequence[Comparison]] = lambda rows: ()
    summary: Callable[[Sequence[Row]], Sequence[Row]] | None = None
    files: Sequence[str] = field(default_factory=tuple)
    note: str = ""
    measured: bool = False


def number(row: Row, column: str) -> float:
    """A cell of a table that is a number."""
    value = row[column]
    if value is None or isinstance(value, str):
        raise TypeError(f"column {column!r} holds {value!r}, where a number is needed")
    return float(value)


def mean(rows: Sequence[Row], column: str, **where: Value) -> float:
    chosen = [number(row, column) for row in rows if all(row[key] == value for key, value in where.items())]
    return sum(chosen) / len(chosen) if chosen else float("nan")


def distinct(rows: Sequence[Row], column: str) -> list[Value]:
    """Values of a column in order of appearance."""
    return list(dict.fromkeys(row[column] for row in rows))
