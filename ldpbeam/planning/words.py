"""A plan in words: what is recommended and why, what stands against it, and a table."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from ldpbeam.planning.needs import Needs
from ldpbeam.planning.plan import ALIKE, Plan, Row, devices_needed, epochs_possible, points
from ldpbeam.planning.settings import total_budget
from ldpbeam.privacy.randomiser import ASSUMPTION


def asked(needs: Needs) -> str:
    """The need in a line."""
    limits = [
        (needs.target, "error at most ±{} points", points),
        (needs.longitudinal, "ε∞ at most {}", _level),
        (needs.first, "ε1 at most {}", _level),
        (needs.cap, "all reports about values at most ε = {}", _level),
        (needs.lifetime, "all reports at most ε = {}, whatever changes", _level),
        (needs.bits, "at most {} bits", str),
    ]
    said = [text.format(write(limit)) for limit, text, write in limits if limit is not None]  # type: ignore[operator]
    rate = "" if needs.change_rate is None else f", {100 * needs.change_rate:g} % change per epoch"
    return f"{needs.values:,} values, {needs.devices:,} devices, {needs.epochs:,} epochs{rate}: " + (
        "; ".join(said) or "no limit"
    )


def recommendation(plan: Plan) -> Iterator[str]:
    """What to take and why, what to know about it, and what would meet more, a sentence or two each."""
    needs, row = plan.needs, plan.recommended
    if plan.chosen_level:
        why = "the least of the usual levels that gives the error" if needs.target else "the usual level"
        why = why if plan.meets or not needs.target else "the largest level that was tried"
        yield f"No limit on what a device may lose was given. ε∞ = {needs.longitudinal:g} is {why}."
    if row is None:
        yield "Nothing fits: every setting breaks a limit. The table says which."
        yield from _weaker(plan)
        return
    head = "Take" if plan.meets else "Nothing meets all of it. The nearest is"
    yield f"{head} {described(row)}: ±{points(row.figures.half_width)} points (95 %)."
    yield from _why(plan, row)
    yield from _worth(plan, row)
    yield from _promise(row)
    yield _mixed(row)
    if not plan.meets:
        yield from _remedies(plan)
    yield from _weaker(plan)


def described(row: Row) -> str:
    """A setting with its levels."""
    given = row.setting.parameters
    if given.epsilon is not None:
        return f"{row.setting.label} at ε = {given.epsilon:.4g} per report"
    first = "" if given.epsilon_first is None else f", ε1 = {given.epsilon_first:.4g}"
    return f"{row.setting.label} at ε∞ = {given.epsilon_longitudinal:.4g}{first}"


def _why(plan: Plan, row: Row) -> Iterator[str]:
    fit = [other for other in plan.rows if other.missed.keys() <= row.missed.keys()]
    least = min(fit, key=lambda other: other.figures.std_error)
    if least is row:
        yield "Why: of all that keep the same limits, its error is the least."
    else:
        lost = 100 * (row.figures.std_error / least.figures.std_error - 1)
        yield (
            f"Why: its error is within {lost:.1f} % of the least ({least.setting.label}; up to "
            f"{100 * (ALIKE - 1):.0f} % counts as equal), and it {_advantage(row, least)}."
        )


def _advantage(row: Row, other: Row) -> str:
    """What the taken row has over one of a little less error: the first that differs, in order of weight."""
    mine, theirs = row.figures, other.figures
    known = "shares hash functions among devices, which are identifiers otherwise"
    reasons = (
        (
            other.setting.published,
            "spends the levels that it is given, which the published calibration does not",
        ),
        (other.identified > row.identified, known),
        (
            mine.values_loss < theirs.values_loss,
            f"loses at most ε = {mine.values_loss:.4g} about values, not {_level(theirs.values_loss)}",
        ),
        (
            (mine.two_reports or 0) < (theirs.two_reports or 0),
            f"loses ε = {_level(mine.two_reports)} by two reports, not {_level(theirs.two_reports)}",
        ),
        (mine.any_loss < theirs.any_loss, "loses less to somebody who looks for changes"),
        (mine.bits < theirs.bits, f"sends {mine.bits} bits, not {theirs.bits}"),
        (True, "shares hash functions among more devices"),
    )
    return next(reason for holds, reason in reasons if holds)


def _worth(plan: Plan, row: Row) -> Iterator[str]:
    found, k = row.figures, plan.needs.values
    of = "these frequencies" if plan.needs.frequencies else "frequencies that fall like 1/rank"
    if found.against_uniform >= 1:
        yield (
            f"Not worth collecting for single epochs: answering 1/{k} for every value, without any device, "
            f"has an error {1 / found.against_uniform:.2g} times as large (of {of})."
        )
        if found.mean_30 < found.half_width / found.against_uniform:
            yield f"A mean of 30 epochs is worth it: ±{points(found.mean_30)} points."
    else:
        yield (
            f"Its error is {found.against_uniform:.2g} of that of answering 1/{k} for every value (of {of}), "
            f"and {found.std_error * k:.2g} of the mean frequency."
        )


def _promise(row: Row) -> Iterator[str]:
    found, setting = row.figures, row.setting
    if not setting.memoised:
        how = (
            f"A device reports in {setting.reports} of its {setting.epochs} epochs, drawn for life"
            if setting.participates
            else f"A device makes {setting.reports:,} reports"
        )
        yield f"{how}: all its reports together tell at most ε = {found.any_loss:.4g}, whatever changes."
        return
    sign = "" if found.any_exact else "at most "
    rest = "no bound" if found.any_loss == inf else f"{sign}ε = {found.any_loss:.4g}"
    two = "" if found.two_reports is None else f" (two reports {_level(found.two_reports)})"
    yield (
        f"Caveat: ε = {found.values_loss:.4g} is for which values a device held. When they changed is not "
        f"covered: any change pattern over {setting.reports:,} reports loses {rest}{two}."
    )


def _mixed(row: Row) -> str:
    """What a shuffler would add."""
    found = row.shuffled
    if found is None:
        return "A shuffler would add nothing that is known."
    return f"With more protection, {found}. Assumed: {ASSUMPTION}."


def _remedies(plan: Plan) -> Iterator[str]:
    devices, epochs = devices_needed(plan), epochs_possible(plan)
    if devices is not None and plan.needs.target is not None:
        also = f"; or plan {epochs:,} epochs instead of {plan.needs.epochs:,}" if epochs else ""
        yield f"It would meet ±{points(plan.needs.target)} points with {devices:,} devices{also}."


def _weaker(plan: Plan) -> Iterator[str]:
    row = plan.weaker
    if row is None:
        return
    found = row.figures
    yield (
        f"With a weaker promise: {described(row)} gives ±{points(found.half_width)} points. Its ε = "
        f"{found.values_loss:.4g} holds for which values a device held, not for when they changed: for that, "
        f"{row.setting.reports:,} reports are only bounded by {_level(found.any_loss)}."
    )


COLUMNS = (
    ("", "number in this table"),
    ("setting", "protocol; g symbols, d buckets; (m of T): a device reports in m of its T epochs"),
    ("ε", "per report, or ε∞/ε1 where answers are memoised"),
    ("± 95 %", "half-width of the interval of one epoch, in percentage points"),
    ("/uniform", "its error over that of answering 1/k for every value: 1 or more is not worth collecting"),
    ("seen", "smallest frequency told apart from zero, points"),
    ("change", "smallest change between two epochs told from none, points"),
    ("±7", "half-width for the mean of 7 epochs, points"),
    ("±30", "half-width for the mean of 30 epochs, points"),
    ("bits", "of a report"),
    ("ε values", "the most that all reports tell about which values a device held"),
    ("ε any", "the most that all reports tell, whatever changed; ≤: a bound, perhaps not reached"),
    ("sharing", "devices with the same hash function, kept for life; -: none is kept"),
    ("steps", "additions and comparisons to count an epoch"),
    ("1 fake", "points that one forged report moves a frequency by, at most"),
    ("misses", "needs that are not met"),
)
"""Columns of the table and what they mean."""


def cells(number: int, row: Row) -> tuple[str, ...]:
    """The texts of one row of the table, one for each of :data:`COLUMNS`."""
    found, given = row.figures, row.setting.parameters
    level = given.epsilon if given.epsilon is not None else given.epsilon_longitudinal
    first = "" if given.epsilon_first is None else f"/{given.epsilon_first:.3g}"
    sign = "" if found.any_exact else "≤"
    return (
        str(number),
        row.setting.label,
        f"{level:.3g}{first}",
        points(found.half_width),
        f"{found.against_uniform:.2g}",
        points(found.least_frequency),
        points(found.least_change),
        points(found.mean_7),
        points(found.mean_30),
        str(found.bits),
        f"{found.values_loss:.4g}",
        sign + _level(found.any_loss),
        "-" if found.sharing is None else "own" if found.sharing < 1 else f"{found.sharing:,.0f}",
        f"{found.server_steps:.1g}",
        points(found.fake_device),
        ", ".join(row.missed) or "",
    )


def table(rows: list[tuple[int, Row]]) -> Iterator[str]:
    """Lines of equal columns, the head first."""
    texts = [tuple(name for name, _ in COLUMNS), *(cells(number, row) for number, row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for line in texts:
        padded = [
            text.ljust(width) if position in {1, len(line) - 1} else text.rjust(width)
            for position, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()


def budget_name(needs: Needs) -> tuple[str, float]:
    """What the chart's axis is: the limit that was given, and its value."""
    if needs.lifetime is not None:
        return "lifetime ε, whatever changes", needs.lifetime
    if needs.cap is not None:
        return "cap over values, ε", needs.cap
    if needs.longitudinal is not None:
        return "ε∞", needs.longitudinal
    return "ε1", needs.first or total_budget(needs)


def _level(level: float | None) -> str:
    return "none" if level is None else "no bound" if level == inf else f"{level:.4g}"
