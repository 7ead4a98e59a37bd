"""Experiments made of functions that take by name what they need, and lines and panels made of their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from itertools import product
from typing import Any

from reproduction.paper import Cell, Experiment, Line, Panel, Row, Settings, Value, distinct, number

Axis = Sequence[Value] | Callable[[Settings], Sequence[Value]]
"""What one part of the cells is, in turn."""


def repeated(paper: int) -> Axis:
    """The numbers of independent runs, of which the paper has so many."""
    return lambda settings: range(settings.repeats(paper))


def study(
    name: str,
    source: str,
    title: str,
    over: Mapping[str, Axis] | Callable[[Settings], list[Cell]],
    rows: Callable[..., list[Row]],
    *,
    draws: str = "",
    constants: Mapping[str, Value] | None = None,
    **more: Any,
) -> Experiment:
    """An experiment of functions each of which gets those values that its arguments name."""
    fixed = constants or {}
    name, source, title, draws = (text.format(**fixed) for text in (name, source, title, draws or name))
    for part in {"figures", "compare", "summary"} & more.keys():
        more[part] = partial(_of_rows, more[part], fixed)

    def cells(settings: Settings) -> list[Cell]:
        if callable(over):
            return over(settings)
        axes = [axis(settings) if callable(axis) else axis for axis in over.values()]
        return [dict(zip(over, parts, strict=True)) for parts in product(*axes)]

    def compute(settings: Settings, cell: Cell) -> list[Row]:
        known = {**fixed, **cell, "settings": settings, "rng": settings.generator(draws, cell)}
        found: list[Row] = _called(rows, known)
        return found

    return Experiment(name, source, title, cells, compute, **more)


def _of_rows(function: Callable[..., Any], fixed: Mapping[str, Value], rows: Sequence[Row]) -> Any:
    return _called(function, {**fixed, "rows": rows})


def _called(function: Callable[..., Any], known: Mapping[str, Any]) -> Any:
    return function(**{name: known[name] for name in signature(function).parameters})


def series(
    rows: Sequence[Row], x: str, y: str, name: str | Callable[[Row], str], *, dashed: Sequence[str] = ()
) -> list[Line]:
    """Lines through the means of ``y`` over all rows with the same name and ``x``, in order of appearance."""
    sums: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        at, value = number(row, x), row[y]
        if value is not None:
            label = str(row[name]) if isinstance(name, str) else name(row)
            sums.setdefault(label, {}).setdefault(at, []).append(float(value))
    return [
        Line(label, [(at, sum(ys) / len(ys)) for at, ys in sorted(points.items())], label in dashed)
        for label, points in sums.items()
    ]


def curves(rows: Sequence[Row], x: str, columns: Sequence[str], *, dashed: Sequence[str] = ()) -> list[Line]:
    each = (series(rows, x, y, lambda row, y=y: y, dashed=dashed) for y in columns)  # type: ignore[misc]
    return [line for lines in each for line in lines]


def panels(
    rows: Sequence[Row], by: str, labels: Sequence[str], draw: Callable[[list[Row]], list[Line]], **more: Any
) -> list[Panel]:
    title, x, y = labels
    return [
        Panel(title.format(value), x, y, draw([row for row in rows if row[by] == value]), **more)
        for value in distinct(rows, by)
    ]
