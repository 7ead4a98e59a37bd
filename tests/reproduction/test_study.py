"""Experiments made of functions: which cells there are, what a function gets, and what draws the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from reproduction.paper import Cell, Comparison, Figure, Line, Panel, Row, Settings
from reproduction.study import curves, panels, repeated, series, study


def rows_of(data: str, settings: Settings, rng: np.random.Generator, run: int, level: float) -> list[Row]:
    return [{"data": data, "seed": settings.seed, "drawn": float(rng.random()), "run": run, "level": level}]


def compare(rows: Sequence[Row]) -> list[Comparison]:
    return [Comparison("claim", "", f"{len(rows)}", "reproduced")]


def figures(data: str, rows: Sequence[Row]) -> list[Figure]:
    return [Figure(data, f"{len(rows)}", [])]


MADE = study(
    *("paper:{data}", "Paper ({data})", "Of {data}"),
    {"run": repeated(20), "level": (0.5, 1.0)},
    rows_of,
    compare=compare,
    figures=figures,
    constants={"data": "syn", "unused": 1},
    files=("a.csv",),
    note="note",
)


def test_constants_stand_in_the_names() -> None:
    assert (MADE.name, MADE.source, MADE.title) == ("paper:syn", "Paper (syn)", "Of syn")
    assert (MADE.files, MADE.note, MADE.measured) == (("a.csv",), "note", False)


def test_cells_are_all_combinations_of_which_the_first_part_changes_least_often() -> None:
    assert MADE.cells(Settings(runs=2)) == [
        {"run": run, "level": level} for run in (0, 1) for level in (0.5, 1.0)
    ]
    assert len(MADE.cells(Settings())) == 40
    assert len(MADE.cells(Settings(quick=True))) == 4
    assert study("a", "b", "c", {}, rows_of).cells(Settings()) == [{}]
    cells: list[Cell] = [{"first": 300}]
    assert study("a", "b", "c", lambda settings: cells, rows_of).cells(Settings()) == cells


def test_functions_get_what_their_arguments_name() -> None:
    settings, cell = Settings(seed=7), {"run": 3, "level": 0.5}
    drawn = float(settings.generator("paper:syn", cell).random())
    expected: Row = {"data": "syn", "seed": 7, "drawn": drawn, "run": 3, "level": 0.5}
    assert MADE.compute(settings, cell) == [expected]
    rows = [expected, expected]
    assert MADE.compare(rows) == compare(rows)
    assert MADE.figures(rows) == figures("syn", rows)
    assert MADE.summary is None


def test_a_part_that_no_function_names_still_draws_anew() -> None:
    cells = [{"run": 3, "level": 0.5, "block": block} for block in (0, 1)]
    first, second = (MADE.compute(Settings(), cell)[0]["drawn"] for cell in cells)
    assert first != second


def test_an_argument_that_there_is_not_is_a_fault() -> None:
    with pytest.raises(KeyError, match="level"):
        MADE.compute(Settings(), {"run": 3})


def test_experiments_with_the_same_draws_draw_the_same() -> None:
    cell = {"run": 0, "level": 1.0}
    shared = [
        study(name, "", "", {}, rows_of, draws="of {data}", constants={"data": data}).compute(
            Settings(), cell
        )
        for name, data in (("a", "x"), ("b", "x"), ("a", "y"))
    ]
    first, same, other = (rows[0]["drawn"] for rows in shared)
    assert first == same != other


ROWS: list[Row] = [
    {"x": 1.0, "y": 2.0, "z": 5.0, "n": "a"},
    {"x": 1.0, "y": 4.0, "z": None, "n": "a"},
    {"x": 0.5, "y": 1.0, "z": 7.0, "n": "b"},
]


def test_lines_are_named_by_a_column_or_a_function() -> None:
    lines = [Line("a", [(1.0, 3.0)]), Line("b", [(0.5, 1.0)], dashed=True)]
    assert series(ROWS, "x", "y", "n", dashed=("b",)) == lines
    assert series(ROWS, "x", "y", lambda row: str(row["n"]), dashed=("b",)) == lines


def test_curves_are_a_line_for_each_column() -> None:
    assert curves(ROWS, "x", ("y", "z"), dashed=("z",)) == [
        Line("y", [(0.5, 1.0), (1.0, 3.0)]),
        Line("z", [(0.5, 7.0), (1.0, 5.0)], dashed=True),
    ]


def test_panels_have_the_rows_of_one_value_each() -> None:
    drawn = panels(ROWS, "n", ("n = {}", "of x", "of y"), lambda some: curves(some, "x", ("y",)), log_x=True)
    assert drawn == [
        Panel("n = a", "of x", "of y", [Line("y", [(1.0, 3.0)])], log_x=True),
        Panel("n = b", "of x", "of y", [Line("y", [(0.5, 1.0)])], log_x=True),
    ]
