"""The table of a plan: a line for each setting, a column for each figure (docs/planning.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ldpbeam.planning.needs import MeanNeeds, Needs, Ordered, OrderedNeeds
from ldpbeam.planning.plan import Row
from ldpbeam.planning.quantity import points, quantity
from ldpbeam.promise.statements import epsilon


class Column(NamedTuple):
    name: str
    cell: Callable[[int, Row], str]


def columns(needs: Needs) -> tuple[Column, ...]:
    number, mean = quantity(needs).number, isinstance(needs, MeanNeeds)

    def error(name: str, field: str) -> Column:
        """A figure in the unit of the needs; some settings lack it."""

        def cell(_: int, row: Row) -> str:
            figure = getattr(row.figures, field)
            return "-" if figure is None else number(figure)

        return Column(name, cell)

    more: tuple[Column, ...] = _WORTH
    if isinstance(needs, OrderedNeeds):
        more = () if needs.asked is Ordered.SHARE else _RANGE
    elif mean:
        more = _RANGE
    return (
        Column("", lambda place, _: str(place)),
        Column("setting", lambda _, row: row.setting.label),
        Column("ε", lambda _, row: _levels(row)),
        error("± 95 %", "half_width"),
        *more,
        error("change", "least_change"),
        error("halves", "least_half_change"),
        error("±7", "mean_7"),
        error("±30", "mean_30"),
        Column("bits", lambda _, row: str(row.figures.bits)),
        Column("ε any", lambda _, row: _any_loss(row)),
        Column("ε inputs", lambda _, row: epsilon(row.figures.promise.inputs_loss)),
        *(() if mean else _COSTS),
        error("1 fake", "fake_device"),
        Column("misses", lambda _, row: ", ".join(row.missed)),
    )


_WORTH = (
    Column("± 1/k", lambda _, row: points(row.figures.even_half_width or 0)),
    Column("/uniform", lambda _, row: f"{row.figures.against_nothing:.2g}"),
    Column("seen", lambda _, row: points(row.figures.least_frequency or 0)),
)
_RANGE = (Column("% range", lambda _, row: points(row.figures.of_range or 0)),)
_COSTS = (
    Column("sharing", lambda _, row: _sharing(row.figures.sharing)),
    Column("steps", lambda _, row: f"{row.figures.server_steps:.1g}"),
)


def _levels(row: Row) -> str:
    given, first = row.setting.parameters, row.first_level
    if given.epsilon is not None:
        return f"{given.epsilon:.3g}"
    return f"{given.epsilon_longitudinal:.3g}" + ("" if first is None else f"/{first:.3g}")


def _any_loss(row: Row) -> str:
    promise = row.figures.promise
    return ("" if promise.any_exact else "≤") + epsilon(promise.any_loss)


def _sharing(devices: float | None) -> str:
    return "-" if devices is None else "own" if devices < 1 else f"{devices:,.0f}"


def table(rows: list[tuple[int, Row]], needs: Needs) -> Iterator[str]:
    shown = columns(needs)
    texts = [[one.name for one in shown], *([one.cell(*row) for one in shown] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for line in texts:
        padded = [
            text.ljust(width) if position in {1, len(line) - 1} else text.rjust(width)
            for position, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()
