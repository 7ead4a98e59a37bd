"""What a chart of a plan shows: error against ε, for each protocol. The page's room draws it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ldpbeam.errors import UsageError
from ldpbeam.planning.needs import Needs
from ldpbeam.planning.plan import Plan, Row, rows_of
from ldpbeam.planning.sentences import budget_name

MOST = 7
"""Lines of a chart: so many colours are told apart, by the colour-blind as well."""

_FACTORS = (0.125, 0.25, 0.5, 0.7071067811865476, 1.0, 1.4142135623730951, 2.0, 4.0, 8.0)


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
        """The protocol's name, with "(weaker promise)" where its settings miss the lifetime limit."""
        return f"{self.name} (weaker promise)" if self.weaker else self.name


def lines(plan: Plan) -> list[Line]:
    """The protocols with the least errors at the level that was asked for, best first; at most :data:`MOST`.

    Every limit is multiplied by the same factors. Settings that miss a need other than the error are left
    out, but for those that miss only the strict lifetime ε.
    """
    _, middle = budget_name(plan.needs)
    widths_of: dict[tuple[str, bool], dict[float, float]] = {}
    for factor in sorted(_FACTORS, key=lambda one: one != 1.0):  # the asked level first: it orders the lines
        rows = plan.rows if factor == 1.0 else _rows(plan.needs, factor)
        for row in sorted(rows, key=lambda row: row.figures.std_error):
            if row.missed.keys() <= {"target", "lifetime"}:
                key = row.setting.name, "lifetime" in row.missed
                widths_of.setdefault(key, {}).setdefault(middle * factor, row.figures.half_width)
    drawn = [Line(*key, tuple(sorted(widths.items()))) for key, widths in widths_of.items()]
    return drawn[:MOST]


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
