"""A plan in words: what is recommended and why, and what stands against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ldpbeam.over_time.covariance import DrawnAnew
from ldpbeam.planning.needs import FrequencyNeeds, Needs, Ordered, OrderedNeeds
from ldpbeam.planning.plan import Plan, Row, devices_needed
from ldpbeam.planning.quantity import RANKED, interval, interval_of_mean, quantity
from ldpbeam.planning.shuffler import behind_shuffler
from ldpbeam.promise.statements import NO_TURN, bits, epsilon, statements

ROUND_NUMBERS = (
    "Round numbers that many devices hold, such as 60 minutes, belong in the domain's atoms, or limits near "
    "them miss the truth. When in doubt write atoms: {every: 60}: it makes limits about 9 % wider."
)


def _percent(rate: DrawnAnew) -> str:
    """A rate in per cent, or the range of it."""
    most = f"{100 * rate.most:g} %"
    return most if rate.least == rate.most else f"{100 * rate.least:g} to {most}"


def asked(needs: Needs) -> str:
    about = quantity(needs)
    limits: list[tuple[float | None, str, Callable[[Any], str]]] = [
        (needs.target, "error at most ±{}", about.error),
        (needs.longitudinal, "ε∞ at most {}", epsilon),
        (needs.first, "ε1 at most {}", epsilon),
        (needs.inputs_cap, "all reports about memoised inputs at most ε = {}", epsilon),
        (needs.lifetime, "all reports at most ε = {}, whatever changes", epsilon),
        (needs.bits, "at most {} bits", str),
    ]
    limits_met = [text.format(write(limit)) for limit, text, write in limits if limit is not None]
    rate = "" if needs.drawn_anew is None else f", {_percent(needs.drawn_anew)} drawn anew per epoch"
    devices = f"{needs.devices:,} devices in each epoch"
    epochs = f"{needs.epochs:,} epoch{'' if needs.epochs == 1 else 's'}"
    return f"{about.subject}, {devices}, {epochs}{rate}: " + ("; ".join(limits_met) or "no limit")


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
    yield f"{head} {described(row)}, {bits(row.figures.bits)} per report: {interval_words(row, needs)}."
    yield _why(plan, row)
    if row.identified:
        yield "Each device has its own hash function: all its reports can be told to be of one device."
    yield from _worth(plan, row)
    yield from _promise(row)
    yield behind_shuffler(row.shuffled)
    if not plan.meets:
        yield from _remedies(plan)
    yield from _weaker(plan)


def interval_words(row: Row, needs: Needs) -> str:
    """The half-widths of the intervals that a run will publish for an epoch."""
    figures = row.figures
    if isinstance(needs, OrderedNeeds):
        return f"±{quantity(needs).error(figures.half_width)} (95 %) for {_ORDERED[needs.asked]}"
    if (
        not isinstance(needs, FrequencyNeeds)
        or figures.even_half_width is None
        or figures.widest_frequency is None
    ):
        worst = figures.half_width if figures.worst_half_width is None else figures.worst_half_width
        return interval_of_mean(*map(quantity(needs).error, (figures.half_width, worst)))
    about = "" if needs.frequencies else RANKED
    return interval(
        about, figures.widest_frequency, figures.half_width, needs.values, figures.even_half_width
    )


_ORDERED = {
    Ordered.SHARE: "the share of the devices in the lower half of the values",
    Ordered.QUANTILE: "the median",
    Ordered.MEAN: "the mean",
}


def described(row: Row) -> str:
    """A setting with its levels."""
    given = row.setting.parameters
    if given.epsilon is not None:
        return f"{row.setting.label} at ε = {given.epsilon:.4g} per report"
    level = row.first_level
    first = "" if level is None else f", ε1 = {level:.4g}"
    return f"{row.setting.label} at ε∞ = {given.epsilon_longitudinal:.4g}{first}"


def _why(plan: Plan, row: Row) -> str:
    """How the error compares with the least of those that keep the same limits."""
    # The half-width above is that of one value.
    error = "its root mean square error over all values"
    if not isinstance(plan.needs, FrequencyNeeds):
        error = "its error"
    fit = [other for other in plan.rows if other.missed.keys() <= row.missed.keys()]
    least = min(fit, key=lambda other: other.figures.std_error)
    more = row.figures.std_error / least.figures.std_error - 1
    if more <= 0:
        return f"Why: of all that keep the same limits, {error} is the least."
    return (
        f"Why: {error} is within {100 * more:.1f} % of the least ({least.setting.label}, "
        f"{bits(least.figures.bits)}), and this setting is better by the next criterion "
        "(ldpbeam docs planning)."
    )


def _worth(plan: Plan, row: Row) -> Iterator[str]:
    needs, figures = plan.needs, row.figures
    if isinstance(needs, FrequencyNeeds):
        k, of = (
            needs.values,
            "these frequencies" if needs.frequencies else "frequencies that fall like 1/rank",
        )
        than = f"answering 1/{k:,} for every value"
        if figures.against_nothing < 1:
            yield (
                f"That error is {figures.against_nothing:.2g} times that of {than} (of {of}), "
                f"and {figures.std_error * k:.2g} times the mean frequency."
            )
            return
        yield (
            f"Not worth collecting for single epochs: {than}, without any device, "
            f"has an error {1 / figures.against_nothing:.2g} times as large (of {of})."
        )
    else:
        if isinstance(needs, OrderedNeeds):
            yield from _about_order(row, needs)
        elif figures.against_nothing < 1:
            yield "No population makes the interval wider than that."
        if figures.against_nothing < 1:
            return
        what = "it" if isinstance(needs, OrderedNeeds) else "a mean"
        yield (
            f"Not worth collecting for single epochs: that {what} lies in its range is known without any "
            "device, and ± two standard errors are no narrower."
        )
    if figures.mean_30 < figures.half_width / figures.against_nothing:
        yield f"A mean of 30 epochs is worth it: ±{quantity(needs).error(figures.mean_30)}."


def _about_order(row: Row, needs: OrderedNeeds) -> Iterator[str]:
    """What the errors are about, and what the recommendation does not tell."""
    yield "That is where all values are equally frequent."
    if needs.asked is Ordered.QUANTILE:
        yield (
            "Where values are twice as frequent as that, a quantile has half of this error; where they are "
            "half as frequent, twice as much."
        )
    if row.setting.parameters.hash_family == "interval":
        yield (
            "Reports name stretches of neighbouring values, so no single value is estimated. For single "
            f"values plan without --ordered. {ROUND_NUMBERS}"
        )


def _promise(row: Row) -> Iterator[str]:
    yield from (one.text for one in statements(row.figures.promise))
    if row.setting.participates:
        yield NO_TURN


def _remedies(plan: Plan) -> Iterator[str]:
    devices = devices_needed(plan)
    if devices is not None and plan.needs.target is not None:
        yield f"It would meet ±{quantity(plan.needs).error(plan.needs.target)} with {devices:,} devices."


def _weaker(plan: Plan) -> Iterator[str]:
    row = plan.weaker
    if row is None:
        return
    width = quantity(plan.needs).error(row.figures.half_width)
    yield f"With a weaker promise {described(row)} gives ±{width}:"
    keys = {"inputs", "any_changes"}
    yield from (f"  {one.text}" for one in statements(row.figures.promise) if one.key in keys)
