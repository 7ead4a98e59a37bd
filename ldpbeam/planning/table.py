"""The table of a plan: a line for each setting, a column for each figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds, Needs, Ordered, OrderedNeeds
from ldpbeam.planning.plan import Row
from ldpbeam.planning.quantity import points, quantity
from ldpbeam.promise.statements import epsilon


class Column(NamedTuple):
    """A column: its head, what it means, and the text of a row that has this number in the table."""

    name: str
    meaning: str
    cell: Callable[[int, Row], str]


def columns(needs: Needs) -> tuple[Column, ...]:
    about, mean = quantity(needs), isinstance(needs, MeanNeeds)
    unit, where = about.unit, _WHERE.get(type(needs), "")

    def error(name: str, field: str, meaning: str) -> Column:
        """A figure in the unit of the needs."""
        return Column(name, f"{meaning}, {unit}", lambda _, row: about.number(getattr(row.figures, field)))

    half_width = "half-width of the interval of one epoch for "
    more: tuple[Column, ...]
    if isinstance(needs, OrderedNeeds):
        moved = _ORDERED[needs.asked]
        half_width += moved
        more = () if needs.asked is Ordered.SHARE else _RANGE
    else:
        moved = _MOVED[not mean]
        half_width += _HALF_WIDTH[not mean]
        more = _RANGE if mean else _WORTH
    return (
        Column("", "number in this table", lambda number, _: str(number)),
        Column("setting", _SETTING[not mean], lambda _, row: row.setting.label),
        Column("ε", "per report, or ε∞/ε1 where answers are memoised", lambda _, row: _levels(row)),
        error("± 95 %", "half_width", half_width),
        *more,
        error("change", "least_change", f"smallest change between two epochs told from none{where}"),
        Column(
            "halves",
            "the same between the means of the first and of the last half of the epochs, " + unit,
            lambda _, row: _or_none(row.figures.least_half_change, about.number),
        ),
        error("±7", "mean_7", f"half-width for the mean of 7 epochs (or of all, if they are fewer){where}"),
        error("±30", "mean_30", "the same for the mean of 30 epochs"),
        *_LOSSES,
        *(() if mean else _COSTS),
        error("1 fake", "fake_device", f"how far one forged report moves {moved}, at most"),
        Column(
            "misses",
            "needs that are not met; change: two reports prove that a value changed",
            lambda _, row: ", ".join(row.missed),
        ),
    )


_WHERE = {FrequencyNeeds: " of that value", MeanNeeds: " for the worst population"}
_ORDERED = {
    Ordered.SHARE: "the share of the devices in the lower half of the values, all values equally frequent",
    Ordered.QUANTILE: "the median, all values equally frequent",
    Ordered.MEAN: "the mean, all values equally frequent",
}
_SETTING = (
    "protocol; segment: distance of the points that values are rounded to, else the whole range; gamma: the "
    "chance that a report flips its bit; (m of T): a device reports in m of its T epochs",
    "protocol; g symbols, d buckets; (m of T): a device reports in m of its T epochs",
)
_HALF_WIDTH = (
    "the worst population",
    "the value whose interval is widest: of the given frequencies, else of frequencies that fall like 1/rank",
)
_MOVED = ("the mean", "a frequency")
_WORTH = (
    Column(
        "± 1/k",
        "the same for a value of frequency 1/k",
        lambda _, row: points(row.figures.even_half_width or 0),
    ),
    Column(
        "/uniform",
        "root mean square error over all values, by which rows are sorted, over that of answering 1/k for "
        "every value: 1 or more is not worth collecting",
        lambda _, row: f"{row.figures.against_nothing:.2g}",
    ),
    Column(
        "seen",
        "smallest frequency told apart from zero, points",
        lambda _, row: points(row.figures.least_frequency or 0),
    ),
)
_RANGE = (
    Column("% range", "the same in per cent of the range", lambda _, row: points(row.figures.of_range or 0)),
)
_LOSSES = (
    Column("bits", "of a report", lambda _, row: str(row.figures.bits)),
    Column(
        "ε any",
        "the most that all reports tell, whatever changes; ≤: a bound, perhaps not reached",
        lambda _, row: _any_loss(row),
    ),
    Column(
        "ε inputs",
        "the most that all reports tell about which inputs a device memoised (values, hash symbols, buckets, "
        "rounding points) to somebody who knows when each changed and came back",
        lambda _, row: epsilon(row.figures.promise.inputs_loss),
    ),
)
_COSTS = (
    Column(
        "sharing",
        "devices with the same hash function, kept for life; own: each device has its own, and is known by "
        "it; -: none is kept",
        lambda _, row: _sharing(row.figures.sharing),
    ),
    Column(
        "steps",
        "additions and comparisons to count an epoch",
        lambda _, row: f"{row.figures.server_steps:.1g}",
    ),
)


def _or_none(figure: float | None, write: Callable[[float], str]) -> str:
    return "-" if figure is None else write(figure)


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
    """Lines of equal columns, the head first."""
    shown = columns(needs)
    texts = [[one.name for one in shown], *([one.cell(*row) for one in shown] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for line in texts:
        padded = [
            text.ljust(width) if position in {1, len(line) - 1} else text.rjust(width)
            for position, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()
