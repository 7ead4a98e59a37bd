"""One chart: error against ε for each protocol, as plain SVG that fetches nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from math import ceil, floor, log10

from ldpbeam.errors import UsageError
from ldpbeam.planning.needs import Needs
from ldpbeam.planning.plan import Plan, Row, rows_of
from ldpbeam.planning.quantity import Quantity, quantity
from ldpbeam.planning.words import asked, budget_name

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b", "#555555")
"""Told apart by the colour-blind as well (after Okabe and Ito); so many protocols are drawn."""

_FACTORS = (0.125, 0.25, 0.5, 0.7071067811865476, 1.0, 1.4142135623730951, 2.0, 4.0, 8.0)
_WIDTH, _HEIGHT = 880, 500
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 210, 64, 56
_LABEL = 15  # between the names of two lines


@dataclass(frozen=True)
class Line:
    """One protocol: (ε, half-width) of its best setting at each level.

    Attributes:
        name: the protocol.
        weaker: whether its settings miss the strict lifetime ε.
        points: ascending in ε.
    """

    name: str
    weaker: bool
    points: tuple[tuple[float, float], ...]

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.name} (weaker promise)" if self.weaker else self.name


def lines(plan: Plan) -> list[Line]:
    """The protocols with the least errors at the level that was asked for, best first.

    Every limit is multiplied by the same factors. Settings that miss a need other than the error are left
    out, but for those that miss only the strict lifetime ε.
    """
    _, middle = budget_name(plan.needs)
    found: dict[tuple[str, bool], dict[float, float]] = {}
    for factor in sorted(_FACTORS, key=lambda one: one != 1.0):  # the asked level first: it orders the lines
        rows = plan.rows if factor == 1.0 else _rows(plan.needs, factor)
        for row in sorted(rows, key=lambda row: row.figures.std_error):
            if row.missed.keys() <= {"target", "lifetime"}:
                key = row.setting.name, "lifetime" in row.missed
                found.setdefault(key, {}).setdefault(middle * factor, row.figures.half_width)
    drawn = [Line(*key, tuple(sorted(widths.items()))) for key, widths in found.items()]
    return drawn[: len(_COLOURS)]


def _rows(needs: Needs, factor: float) -> Sequence[Row]:
    """What there is with all limits multiplied; nothing where they leave the permitted range."""
    limits = {
        name: limit * factor
        for name in ("longitudinal", "first", "inputs_cap", "lifetime")
        if (limit := getattr(needs, name)) is not None
    }
    try:
        return rows_of(replace(needs, **limits))
    except UsageError:
        return ()


def svg(plan: Plan) -> str:
    """The chart, with what was asked for as its title and every line named at its end."""
    drawn = lines(plan)
    name, middle = budget_name(plan.needs)
    heights = [width for line in drawn for _, width in line.points]
    needs, about = plan.needs, quantity(plan.needs)
    level = about.levels | ({"wanted": needs.target} if needs.target else {})
    x = _Axis([e for line in drawn for e, _ in line.points] or [middle], _LEFT, _WIDTH - _RIGHT)
    y = _Axis([*heights, *level.values()], _HEIGHT - _BOTTOM, _TOP)
    body = [*_grid(x, y, name, about), *_levels(level, y, about), *_curves(drawn, x, y)]
    here = x.at(middle)
    body.append(
        f'<line x1="{here:.1f}" y1="{_TOP}" x2="{here:.1f}" y2="{_HEIGHT - _BOTTOM}" stroke="#999" '
        'stroke-dasharray="2 3"/>'
    )
    title = f"Error of one epoch against {name}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" font-family="sans-serif" font-size="12" role="img" '
        f'aria-label="{escape(title)}">\n<rect width="100%" height="100%" fill="#fff"/>\n'
        f'<text x="{_LEFT}" y="22" font-size="15" font-weight="bold">{escape(title)}</text>\n'
        f'<text x="{_LEFT}" y="42" fill="#444">{escape(asked(needs))}</text>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


class _Axis:
    """A logarithmic axis that has room for all numbers, drawn from one place to another."""

    def __init__(self, numbers: Sequence[float], begin: float, end: float) -> None:
        self.low, self.high = log10(min(numbers)) - 0.05, log10(max(numbers)) + 0.05
        self.begin, self.end = begin, end

    def at(self, number: float) -> float:
        """Where a number lies."""
        return self.begin + (log10(number) - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self) -> list[float]:
        """1, 2 and 5 times powers of ten; powers alone where there are many."""
        steps = (1, 2, 5) if self.high - self.low < 3.5 else (1,)
        powers = range(floor(self.low), ceil(self.high) + 1)
        found = [step * 10.0**power for power in powers for step in steps]
        return [tick for tick in found if self.low <= log10(tick) <= self.high]


def _grid(x: _Axis, y: _Axis, name: str, about: Quantity) -> Iterator[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for tick in x.ticks():
        at = x.at(tick)
        yield f'<line x1="{at:.1f}" y1="{_TOP}" x2="{at:.1f}" y2="{bottom}" stroke="#eee"/>'
        yield f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>'
    for tick in y.ticks():
        at = y.at(tick)
        yield f'<line x1="{_LEFT}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}" stroke="#eee"/>'
        yield f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{about.scale * tick:g}</text>'
    middle = (_LEFT + right) / 2
    yield f'<text x="{middle}" y="{_HEIGHT - 14}" text-anchor="middle">{escape(name)}</text>'
    middle = (_TOP + bottom) / 2
    yield (
        f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">'
        f"half-width of the 95 % interval, {about.unit}</text>"
    )


def _levels(levels: dict[str, float], y: _Axis, about: Quantity) -> Iterator[str]:
    for name, level in levels.items():
        at = y.at(level)
        yield (
            f'<line x1="{_LEFT}" y1="{at:.1f}" x2="{_WIDTH - _RIGHT}" y2="{at:.1f}" stroke="#444" '
            f'stroke-dasharray="6 4"/><text x="{_LEFT + 4}" y="{at - 4:.1f}" fill="#444">{name}: '
            f"{about.error(level)}</text>"
        )


def _curves(drawn: Sequence[Line], x: _Axis, y: _Axis) -> Iterator[str]:
    """The lines, and their names from top to bottom in the order in which they end, none over another."""
    ends = sorted(zip(drawn, _COLOURS, strict=False), key=lambda pair: y.at(pair[0].points[-1][1]))
    below = float(_TOP)
    for line, colour in ends:
        places = " ".join(f"{x.at(level):.1f},{y.at(width):.1f}" for level, width in line.points)
        dashes = ' stroke-dasharray="7 3"' if line.weaker else ""
        yield f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
        at = max(y.at(line.points[-1][1]) + 4, below)
        below = at + _LABEL
        yield f'<text x="{_WIDTH - _RIGHT + 8}" y="{at:.1f}" fill="{colour}">{escape(line.label)}</text>'
