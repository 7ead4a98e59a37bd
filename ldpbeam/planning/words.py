"""A plan in words: what is recommended and why, and what stands against it."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from ldpbeam.planning.figures import FrequencyFigures
from ldpbeam.planning.needs import FrequencyNeeds, Needs
from ldpbeam.planning.plan import ALIKE, Plan, Row, devices_needed, epochs_possible
from ldpbeam.planning.quantity import quantity
from ldpbeam.planning.settings import total_budget
from ldpbeam.privacy.randomiser import ASSUMPTION


def asked(needs: Needs) -> str:
    """The need in a line."""
    about = quantity(needs)
    limits = [
        (needs.target, "error at most ±{}", about.error),
        (needs.longitudinal, "ε∞ at most {}", level_words),
        (needs.first, "ε1 at most {}", level_words),
        (needs.cap, "all reports about values at most ε = {}", level_words),
        (needs.lifetime, "all reports at most ε = {}, whatever changes", level_words),
        (needs.bits, "at most {} bits", str),
    ]
    said = [text.format(write(limit)) for limit, text, write in limits if limit is not None]  # type: ignore[operator]
    rate = "" if needs.change_rate is None else f", {100 * needs.change_rate:g} % change per epoch"
    return f"{about.subject}, {needs.devices:,} devices, {needs.epochs:,} epochs{rate}: " + (
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
    width = quantity(needs).error(row.figures.half_width)
    yield f"{head} {described(row)}: ±{width} (95 %)."
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
    level = given.epsilon_first
    if level is None and given.gamma:
        level = row.figures.first_report  # what γ leaves of ε∞
    first = "" if level is None else f", ε1 = {level:.4g}"
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
            f"loses at most ε = {mine.values_loss:.4g} about values, not {level_words(theirs.values_loss)}",
        ),
        (
            (mine.two_reports or 0) < (theirs.two_reports or 0),
            f"loses ε = {level_words(mine.two_reports)} by two reports, not "
            f"{level_words(theirs.two_reports)}",
        ),
        (mine.any_loss < theirs.any_loss, "loses less to somebody who looks for changes"),
        (mine.bits < theirs.bits, f"sends {_bits(mine.bits)}, not {theirs.bits}"),
        (True, "shares hash functions among more devices"),
    )
    return next(reason for holds, reason in reasons if holds)


def _worth(plan: Plan, row: Row) -> Iterator[str]:
    needs, found = plan.needs, row.figures
    if isinstance(needs, FrequencyNeeds) and isinstance(found, FrequencyFigures):
        k, of = needs.values, "these frequencies"
        of = of if needs.frequencies else "frequencies that fall like 1/rank"
        than = f"answering 1/{k} for every value"
        if found.against_nothing < 1:
            yield (
                f"Its error is {found.against_uniform:.2g} of that of {than} (of {of}), "
                f"and {found.std_error * k:.2g} of the mean frequency."
            )
            return
        yield (
            f"Not worth collecting for single epochs: {than}, without any device, "
            f"has an error {1 / found.against_uniform:.2g} times as large (of {of})."
        )
    elif found.against_nothing < 1:
        yield "No population has a larger error than that."
        return
    else:
        yield (
            "Not worth collecting for single epochs: that a mean lies in its range is known without any "
            "device, and the interval is no shorter."
        )
    if found.mean_30 < found.half_width / found.against_nothing:
        yield f"A mean of 30 epochs is worth it: ±{quantity(needs).error(found.mean_30)}."


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
    if setting.participates:
        yield (
            f"A device reports in {setting.reports} of its {setting.epochs} epochs, drawn for life: all its "
            f"reports together tell at most ε = {level_words(found.any_loss)}, whatever changes, and ε = "
            f"{found.values_loss:.4g} about which values it held."
        )
        return
    sign = "" if found.any_exact else "at most "
    rest = "no bound" if found.any_loss == inf else f"{sign}ε = {found.any_loss:.4g}"
    two = "" if found.two_reports is None else f" (two reports {level_words(found.two_reports)})"
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
        target = quantity(plan.needs).error(plan.needs.target)
        yield f"It would meet ±{target} with {devices:,} devices{also}."


def _weaker(plan: Plan) -> Iterator[str]:
    row = plan.weaker
    if row is None:
        return
    found = row.figures
    width = quantity(plan.needs).error(found.half_width)
    yield (
        f"With a weaker promise: {described(row)} gives ±{width}. Its ε = "
        f"{found.values_loss:.4g} holds for which values a device held, not for when they changed: for that, "
        f"{row.setting.reports:,} reports are only bounded by {level_words(found.any_loss)}."
    )


def budget_name(needs: Needs) -> tuple[str, float]:
    """What the chart's axis is: the limit that was given, and its value."""
    if needs.lifetime is not None:
        return "lifetime ε, whatever changes", needs.lifetime
    if needs.cap is not None:
        return "cap over values, ε", needs.cap
    if needs.longitudinal is not None:
        return "ε∞", needs.longitudinal
    return "ε1", needs.first or total_budget(needs)


def level_words(level: float | None) -> str:
    """A loss for people."""
    return "none" if level is None else "no bound" if level == inf else f"{level:.4g}"


def _bits(number: int) -> str:
    return "1 bit" if number == 1 else f"{number} bits"
