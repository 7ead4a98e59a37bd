"""A plan: all settings with their figures, ranked, and which one to take, with reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf
from typing import Any

from ldpbeam.planning.figures import Figures, figures
from ldpbeam.planning.needs import FREE_LEVELS, USUAL_LEVEL, FrequencyNeeds, Needs, OrderedNeeds
from ldpbeam.planning.ordered_errors import ordered_error
from ldpbeam.planning.quantity import quantity
from ldpbeam.planning.settings import Setting, settings
from ldpbeam.planning.shuffler import ShuffledPrivacy
from ldpbeam.planning.spread import WIDE, Widths, mean_error
from ldpbeam.promise.statements import epsilon
from ldpbeam.protocols import FrequencyProtocol
from ldpbeam.protocols.part_estimator import PartEstimator

ALIKE = 1.05
"""Errors that differ by less than this factor count as equal: the rest then decides."""

_SLACK = 1 + 1e-9

_HEAVY, _LIGHTER, _WORTH = 10_000, 10, 1.25
"""A report of more bits is heavy, if so many times fewer bits have an error at most so much larger."""


@dataclass(frozen=True)
class Row:
    setting: Setting
    figures: Figures
    devices: int
    missed: dict[str, str]

    @property
    def identified(self) -> bool:
        """Whether a device is known by its hash function."""
        return self.figures.sharing is not None and self.figures.sharing < 1

    @property
    def first_level(self) -> float | None:
        """ε1, also where it is what γ leaves of ε∞; None where there is none."""
        given = self.setting.parameters
        if given.epsilon_first is None and given.gamma:
            return self.figures.promise.first_report
        return given.epsilon_first

    @cached_property
    def shuffled(self) -> ShuffledPrivacy | None:
        """What a shuffler would add; looked at only where somebody asks, since it takes milliseconds."""
        setting = self.setting
        return ShuffledPrivacy.of(setting.protocol, self.devices, setting.share, setting.reports)

    def as_record(self) -> dict[str, Any]:
        parameters, protocol = self.setting.parameters, self.setting.protocol
        levels = {name: getattr(parameters, name) for name in protocol.PARAMETERS if name != "d"}
        takes = {"hash_family", "calibration"} & set(protocol.OPTIONAL)
        choices = {name: getattr(parameters, name) for name in sorted(takes)}
        return {
            "setting": self.setting.label,
            "protocol": self.setting.name,
            "parameters": levels
            | {name: getattr(choice, "value", choice) for name, choice in choices.items()}
            | protocol.resolved_parameters(),
            "participation": {"reports": self.setting.reports, "of": self.setting.epochs},
            **self.figures.as_record(),
            "behind_shuffler": None if self.shuffled is None else self.shuffled.as_record(),
            "missed": self.missed,
        }


@dataclass(frozen=True)
class Plan:
    """Rows, those that meet the needs first, by error.

    Attributes:
        needs: what was asked for, at the levels that were looked at.
        rows: every setting.
        recommended: what to take; the nearest one where nothing meets the needs; None where nothing is left.
        weaker: what meets all but the strict lifetime ε, with a smaller error; else None.
        chosen_level: whether ε∞ was chosen here, because nothing limits what a device may lose.
    """

    needs: Needs
    rows: tuple[Row, ...]
    recommended: Row | None
    weaker: Row | None
    chosen_level: bool

    @cached_property
    def meets(self) -> bool:
        return self.recommended is not None and not self.recommended.missed


def make_plan(needs: Needs) -> Plan:
    """Look at everything, and recommend."""
    if needs.limited:
        return _planned(needs, chosen_level=False)
    if needs.target is None:
        return _planned(needs.at(USUAL_LEVEL), chosen_level=True)
    for level in FREE_LEVELS:
        plan = _planned(needs.at(level), chosen_level=True)
        if plan.meets:
            break
    return plan


def _planned(needs: Needs, *, chosen_level: bool) -> Plan:
    rows = rows_of(needs)
    recommended = best(rows, needs) or best(rows, needs, allowed={"target"})
    weaker = None
    if recommended is None or recommended.missed or needs.lifetime is not None:
        weaker = best(rows, needs, allowed={"lifetime"})
    if weaker is not None and recommended is not None:
        better = weaker.figures.std_error * ALIKE < recommended.figures.std_error
        weaker = weaker if better and weaker.missed else None
    return Plan(needs, rows, recommended, weaker, chosen_level)


def rows_of(needs: Needs) -> tuple[Row, ...]:
    """Every setting with its figures, those that meet the needs first, by error."""
    rows = [_row(setting, needs) for setting in settings(needs)]
    return tuple(sorted(rows, key=lambda row: (bool(row.missed), row.figures.std_error, row.setting.label)))


def best(rows: Sequence[Row], needs: Needs, allowed: Set[str] = frozenset()) -> Row | None:
    """The row of least error among those that miss nothing but what is allowed; None where there is none.

    Heavy reports are left out (:func:`_heavy`). Among errors that are alike a hash function that is an
    identifier is avoided; then the loss decides that was asked for (:func:`loss_order`), then bits. The
    published calibration is for the papers' tables. ``allowed`` names needs that a row may miss.
    """
    fit = [row for row in rows if row.missed.keys() <= allowed]
    if not fit:
        return None
    fit = [row for row in fit if not _heavy(row, fit)]
    least = min(row.figures.std_error for row in fit)
    alike = [row for row in fit if row.figures.std_error <= least * ALIKE]
    return min(alike, key=lambda row: _preference(row, needs))


def _heavy(row: Row, rows: Sequence[Row]) -> bool:
    """Whether one of the rows has a far smaller report for an error that is not much larger."""
    bits, error = row.figures.bits, row.figures.std_error
    return bits > _HEAVY and any(
        one.figures.bits * _LIGHTER < bits and one.figures.std_error <= error * _WORTH for one in rows
    )


def loss_order(row: Row, needs: Needs) -> tuple[float, ...]:
    """The losses by which rows are compared, the one that was asked for first."""
    promise = row.figures.promise
    rest = (promise.two_reports or 0.0, promise.inputs_loss)
    if needs.inputs_cap is not None:
        return (promise.inputs_loss, promise.two_reports or 0.0, promise.any_loss)
    return (promise.any_loss, *rest)


def _preference(row: Row, needs: Needs) -> tuple[float, ...]:
    """What rows of errors that are alike are compared by, in order of weight."""
    figures = row.figures
    return (
        row.setting.published,
        row.identified,
        *loss_order(row, needs),
        -(figures.sharing or inf),
        figures.bits,
        figures.std_error,
    )


def _row(setting: Setting, needs: Needs) -> Row:
    known = figures(setting, needs)
    return Row(setting, known, needs.devices, dict(_missed(setting, known, needs)))


def _missed(setting: Setting, known: Figures, needs: Needs) -> list[tuple[str, str]]:
    guarantee, promise, about = setting.protocol.guarantee, known.promise, quantity(needs)
    level = setting.reports * guarantee.first_report if not setting.memoised else guarantee.per_memoised_input
    what = "all reports about one memoised input" if setting.memoised else "all reports"
    inputs = "all reports about memoised inputs spend up to ε = {}"
    both = min(promise.any_loss, promise.inputs_loss)
    limits: list[tuple[str, float | None, float | None, str, Callable[[Any], str]]] = [
        ("target", known.half_width, needs.target, "error ±{}", about.error),
        ("bits", known.bits, needs.bits, "{} bits per report", str),
        ("first", promise.first_report, needs.first, "a first report spends ε = {}", epsilon),
        ("longitudinal", level, needs.longitudinal, f"{what} spend up to ε = {{}}", epsilon),
        ("inputs_cap", promise.inputs_loss, needs.inputs_cap, inputs, epsilon),
        (
            "lifetime",
            promise.any_loss,
            needs.lifetime,
            "all reports spend up to ε = {}, whatever changes",
            epsilon,
        ),
        ("lifetime_inputs", both, needs.lifetime, inputs, epsilon),
    ]
    missed = [
        (name, text.format(write(number)))
        for name, number, limit, text, write in limits
        if number is not None and limit is not None and number > limit * _SLACK
    ]
    if promise.two_reports == inf and not needs.nobody_changes:
        missed.append(("change", "two reports prove that a value changed"))
    return missed


def devices_needed(plan: Plan) -> int | None:
    """With how many devices the recommended setting would meet the target error; None where it does."""
    row, target = plan.recommended, plan.needs.target
    if row is None or target is None or row.figures.half_width <= target:
        return None

    return fewest(lambda devices: half_width(row, plan.needs, devices) <= target, plan.needs.devices)


def fewest(enough: Callable[[int], bool], few: int) -> int:
    """The least number of devices that is enough, where ``few`` are not."""
    many = max(1, 2 * few)
    while not enough(many):
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


def half_width(row: Row, needs: Needs, devices: int) -> float:
    setting, share = row.setting, row.setting.share
    if isinstance(needs, FrequencyNeeds):
        assert isinstance(setting.protocol, FrequencyProtocol)  # noqa: S101 - the needs are for frequencies
        return Widths.of(setting.protocol.estimator.support.among(share), devices, needs.shares).half_width
    if isinstance(needs, OrderedNeeds):
        return WIDE * ordered_error(setting.protocol, needs, devices, share)
    return WIDE * mean_error(PartEstimator(setting.protocol, present=share), devices)


def least_reports(row: Row, needs: Needs) -> int:
    """Reports below which what is known without any device is nearer to the truth than the estimates."""
    reports, error = needs.devices * float(row.setting.share), row.figures.against_nothing
    return max(1, ceil(reports * error**2)) if error < inf else 1
