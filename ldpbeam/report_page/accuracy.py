"""The error section: how far off the run is, and whether it beats answering 1/k."""

from __future__ import annotations

from collections.abc import Sequence

from ldpbeam.report_page import charts
from ldpbeam.report_page.data import CollectionData, EpochSummary
from ldpbeam.report_page.parts import Detail, Figure, Key, Table, shortened
from ldpbeam.report_page.text import DASH, count, power, share

_CURVES: Sequence[tuple[str, str, tuple[int, ...], str]] = (
    ("raw", charts.RAW, (), "mse_raw"),
    ("consistent", charts.CONSISTENT, (), "mse_consistent"),
    ("theory: mean variance", charts.THEORY, (2, 2), "variance"),
    ("answering 1/k", charts.UNIFORM, (6, 3), "mse_uniform"),
)


def average(data: CollectionData, name: str) -> float | None:
    """The mean over usable epochs of one number of `EpochSummary`."""
    numbers = [getattr(epoch, name) for epoch in data.epochs if epoch.usable]
    known = [value for value in numbers if value is not None]
    return sum(known) / len(known) if known else None


def error_figure(data: CollectionData, detail: Detail, name: str) -> Figure | None:
    """Mean squared errors per epoch, theory, and the error of answering 1/k."""
    epochs = [epoch for epoch in data.epochs[-detail.drawn :] if epoch.usable and epoch.variance]
    if not epochs:
        return None
    series: list[charts.Line] = []
    for label, colour, dash, attribute in _CURVES:
        points = [(float(e.epoch), getattr(e, attribute)) for e in epochs]
        known = [(x, y) for x, y in points if y is not None and y > 0]
        if known:
            series.append((label, colour, dash, known))
    several = len(series) > 1
    pattern = ".1~e" if several else "~g"
    sentence = (
        "Mean squared error that theory expects of the raw estimates; their true error is unknown without "
        "the truth."
    )
    if several:
        what = "Squared error of the mean" if data.mean else "Mean squared error over all values"
        if data.distribution:
            what = "Mean squared error of the shares up to all values"
        sentence = f"{what}, on a logarithmic scale: raw estimates should lie on the theory"
        if data.uniform is not None:
            sentence += ", and whatever lies above the line of answering 1/k is worth less than no data"
        sentence += "."
    return Figure.of(
        charts.lines(series, "epoch", pattern, logarithmic=several, dates=data.dates, most=detail.marks),
        f"{name}-error",
        "",
        sentence,
        keys=[Key("dash" if dash else "line", colour, label) for label, colour, dash, _ in series],
        table=_table(data, epochs, detail),
    )


def _table(data: CollectionData, epochs: Sequence[EpochSummary], detail: Detail) -> Table:
    rows, dates = list(epochs)[-detail.epochs :], data.dates
    dated = dates.start is not None
    head, lines = ["epoch", *(["starts, UTC"] if dated else []), "reports", "theory"], []
    if data.truth is not None:
        head += ["raw", "consistent", "1/k", "95 % intervals hit"]
    for e in rows:
        line = [str(e.epoch), *([dates.text(e.epoch)] if dated else []), count(e.n), power(e.variance)]
        if data.truth is not None:
            line += [power(v) for v in (e.mse_raw, e.mse_consistent, e.mse_uniform)]
            line.append(share(e.coverage, 0.005) if e.coverage is not None else DASH)
        lines.append(line)
    note = shortened(len(data.epochs), len(rows), "epoch", "last")
    return Table("Table: mean squared errors per epoch", head, lines, names=1 + dated, note=note)


def answer(data: CollectionData) -> tuple[str, str]:
    """Whether the run beats answering 1/k, in a sentence, and the numbers behind it."""
    raw, consistent = average(data, "mse_raw"), average(data, "mse_consistent")
    uniform, theory = average(data, "mse_uniform"), average(data, "variance")
    if theory is None:
        return "Unknown: no epoch has estimates.", ""
    if data.distribution:
        return _of_shares(data, raw, theory)
    if raw is None:
        each = "" if data.mean else " per value"
        return "Unknown without the truth.", f"Theory expects a mean squared error of {power(theory)}{each}."
    numbers = f"Averaged over epochs, the raw estimates' mean squared error is {power(raw)}"
    if consistent is not None:
        numbers += f" and the consistent ones' {power(consistent)}"
    numbers += f"; theory expects {power(theory)} of the raw ones."
    hit = average(data, "coverage")
    if hit is not None:
        numbers += f" The 95 % intervals held the truth {share(hit, 0.005)} of the time."
    if uniform is None:
        return "The result is one mean, so there is no 1/k to beat.", numbers
    beaten = f"answering 1/k for everything (mean squared error {power(uniform)})"
    said = f"No: this run does not beat {beaten}."
    if raw < uniform:
        said = f"Yes: the raw estimates beat {beaten}, {_less(uniform, raw)}."
    elif consistent is not None and consistent < uniform:
        said = (
            f"Only after post-processing: the raw estimates do not beat {beaten}, the consistent "
            f"ones do, {_less(uniform, consistent)}."
        )
    return said, numbers


def _of_shares(data: CollectionData, error: float | None, theory: float | None) -> tuple[str, str]:
    """What the result is, and what is known of the error of the shares up to values."""
    words = f"By their limits, the shares up to values have a mean squared error of about {power(theory)}."
    hit = average(data, "coverage")
    if error is not None:
        words += f" Averaged over epochs it is {power(error)}."
    if hit is not None:
        words += f" The 95 % limits held the truth {share(hit, 0.005)} of the time."
    return "The result is a distribution, so there is no 1/k to beat.", words


def _less(more: float, less: float) -> str:
    return f"by a factor of {more / less:,.3g}" if less > 0 else "without any error"
