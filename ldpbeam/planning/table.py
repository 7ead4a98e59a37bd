"""The table of a plan: a line for each setting, a column for each figure."""

from __future__ import annotations

from collections.abc import Iterator

from ldpbeam.planning.needs import FrequencyNeeds, Needs
from ldpbeam.planning.plan import Row
from ldpbeam.planning.quantity import quantity
from ldpbeam.planning.statements import points
from ldpbeam.promise.statements import epsilon

_FREQUENCIES = (
    ("", "number in this table"),
    ("setting", "protocol; g symbols, d buckets; (m of T): a device reports in m of its T epochs"),
    ("ε", "per report, or ε∞/ε1 where answers are memoised"),
    (
        "± 95 %",
        "half-width of the interval of one epoch in percentage points, for the value whose interval is "
        "widest: of the given frequencies, else of frequencies that fall like 1/rank",
    ),
    ("± 1/k", "the same for a value of frequency 1/k"),
    (
        "/uniform",
        "root mean square error over all values, by which rows are sorted, over that of answering 1/k for "
        "every value: 1 or more is not worth collecting",
    ),
    ("seen", "smallest frequency told apart from zero, points"),
    ("change", "smallest change of the value of ± 95 % between two epochs that differs from none, points"),
    ("±7", "half-width for the mean of 7 epochs (or of all, if they are fewer) of that value, points"),
    ("±30", "the same for the mean of 30 epochs"),
    ("bits", "of a report"),
    ("ε any", "the most that all reports tell, whatever changes; ≤: a bound, perhaps not reached"),
    (
        "ε inputs",
        "the most that all reports tell about which inputs a device memoised (values, hash symbols, buckets, "
        "rounding points) to somebody who knows when each changed and came back",
    ),
    (
        "sharing",
        "devices with the same hash function, kept for life; own: each device has its own, and is known by "
        "it; -: none is kept",
    ),
    ("steps", "additions and comparisons to count an epoch"),
    ("1 fake", "points that one forged report moves a frequency by, at most"),
    ("misses", "needs that are not met; change: two reports prove that a value changed"),
)

_MEAN = (
    ("", "number in this table"),
    (
        "setting",
        "protocol; segment: distance of the points that values are rounded to, else the whole range; "
        "gamma: the chance that a report flips its bit; (m of T): a device reports in m of its T epochs",
    ),
    ("ε", "per report, or ε∞/ε1 where bits are memoised"),
    ("± 95 %", "half-width of the interval of one epoch, in units of the counter, for the worst population"),
    ("% range", "the same in per cent of the range"),
    ("change", "smallest change between two epochs told from none, units of the counter"),
    ("±7", "half-width for the mean of 7 epochs (or of all, if they are fewer), units of the counter"),
    ("±30", "the same for the mean of 30 epochs"),
    ("bits", "of a report"),
    ("ε any", "the most that all reports tell, whatever changes; ≤: a bound, perhaps not reached"),
    (
        "ε inputs",
        "the most that all reports tell about which inputs a device memoised (values, hash symbols, buckets, "
        "rounding points) to somebody who knows when each changed and came back",
    ),
    ("1 fake", "units of the counter that one forged report moves the mean by, at most"),
    ("misses", "needs that are not met; change: two reports prove that a value changed"),
)


def columns(needs: Needs) -> tuple[tuple[str, str], ...]:
    """Columns of the table and what they mean."""
    return _FREQUENCIES if isinstance(needs, FrequencyNeeds) else _MEAN


def cells(number: int, row: Row, needs: Needs) -> tuple[str, ...]:
    """The texts of one row of the table, one for each of :func:`columns`."""
    figures, write = row.figures, quantity(needs).number
    over_time = (write(figures.least_change), write(figures.mean_7), write(figures.mean_30))
    losses = (str(figures.bits), _any_loss(row), epsilon(figures.promise.inputs_loss))
    begin = (str(number), row.setting.label, _levels(row), write(figures.half_width))
    end = (write(figures.fake_device), ", ".join(row.missed))
    if figures.of_range is not None:
        return (*begin, points(figures.of_range), *over_time, *losses, *end)
    seen = (
        write(figures.even_half_width or 0),
        f"{figures.against_nothing:.2g}",
        points(figures.least_frequency or 0),
    )
    cost = (_sharing(figures.sharing), f"{figures.server_steps:.1g}")
    return (*begin, *seen, *over_time, *losses, *cost, *end)


def _levels(row: Row) -> str:
    given = row.setting.parameters
    if given.epsilon is not None:
        return f"{given.epsilon:.3g}"
    first = given.epsilon_first
    if first is None and given.gamma:
        first = row.figures.promise.first_report  # what γ leaves of ε∞
    return f"{given.epsilon_longitudinal:.3g}" + ("" if first is None else f"/{first:.3g}")


def _any_loss(row: Row) -> str:
    promise = row.figures.promise
    return ("" if promise.any_exact else "≤") + epsilon(promise.any_loss)


def _sharing(devices: float | None) -> str:
    return "-" if devices is None else "own" if devices < 1 else f"{devices:,.0f}"


def table(rows: list[tuple[int, Row]], needs: Needs) -> Iterator[str]:
    """Lines of equal columns, the head first."""
    texts = [tuple(name for name, _ in columns(needs)), *(cells(number, row, needs) for number, row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for line in texts:
        padded = [
            text.ljust(width) if position in {1, len(line) - 1} else text.rjust(width)
            for position, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()
