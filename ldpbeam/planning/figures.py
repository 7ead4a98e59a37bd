"""What a setting would give: errors, losses and costs, from the exact integers of its protocol.

The formulas are those of docs/maths.md sections 1 and 2 and of :mod:`ldpbeam.estimates`; docs/planning.md
says how each column is to be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds, Needs, OrderedNeeds
from ldpbeam.planning.ordered_errors import moved_by_fake, ordered_error
from ldpbeam.planning.repeats import Repeats
from ldpbeam.planning.settings import Setting
from ldpbeam.planning.spread import WIDE, Spread, Widths, mean_error
from ldpbeam.promise.poisoning import leverage
from ldpbeam.promise.promise import Promise
from ldpbeam.protocols import FrequencyProtocol
from ldpbeam.protocols.part_estimator import PartEstimator


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What is published of a setting; and, for further figures, ``error``, the standard error behind
    ``half_width``, and ``repeats``."""

    error: float
    repeats: Repeats
    std_error: float
    half_width: float
    least_change: float
    least_half_change: float | None
    mean_7: float
    mean_30: float
    against_nothing: float
    bits: int
    promise: Promise
    fake_device: float
    widest_frequency: float | None = None
    even_half_width: float | None = None
    rare_error: float | None = None
    least_frequency: float | None = None
    server_steps: float | None = None
    sharing: float | None = None
    of_range: float | None = None
    worst_half_width: float | None = None

    def as_record(self) -> dict[str, Any]:
        """For JSON, which has no infinity: null where there is no bound, or nothing of the kind."""
        promise, own = self.promise, vars(self)
        levels = {
            "first_report": promise.first_report,
            "loss_two_reports": promise.two_reports,
            "cap_over_inputs": promise.cap,
        }
        numbers = {name: value for name, value in own.items() if name not in _INNER} | levels
        finite = {name: None if value == inf else value for name, value in numbers.items()}
        return finite | promise.as_record()


_INNER = {"error", "repeats", "promise"}


def figures(setting: Setting, needs: Needs) -> Figures:
    protocol, devices = setting.protocol, needs.devices
    functions = protocol.device.functions_for_life
    own: dict[str, Any]
    counting = {
        "server_steps": protocol.counter.steps(devices * float(setting.share)),
        "sharing": None if functions is None else devices / functions,
    }
    if isinstance(needs, FrequencyNeeds):
        assert isinstance(protocol, FrequencyProtocol)  # noqa: S101 - the needs are for frequencies
        support = protocol.estimator.support.among(setting.share)
        spread, widths = Spread.of(support, devices), Widths.of(support, devices, needs.shares)
        error, half_width = spread.error(widths.widest), widths.half_width
        repeats = Repeats.of_frequencies(setting, needs, widths.widest)
        typical, nothing = spread.error(1 / needs.values), needs.uniform_error
        own = {
            "widest_frequency": widths.widest,
            "even_half_width": widths.even,
            "rare_error": spread.error(0.0),
            "least_frequency": spread.least_frequency,
            **counting,
        }
    elif isinstance(needs, MeanNeeds):
        estimator = PartEstimator(protocol, present=setting.share)
        error = typical = mean_error(estimator, devices)
        half_width, unit = WIDE * error, float(needs.maximum)
        worst = WIDE * mean_error(estimator, devices, worst=True)
        repeats = Repeats.of_mean(setting, needs, error**2 * devices * float(setting.share))
        nothing, own = unit / (2 * WIDE), {"of_range": half_width / unit, "worst_half_width": worst}
    elif isinstance(needs, OrderedNeeds):
        error = typical = ordered_error(protocol, needs, devices, setting.share)
        half_width, unit = WIDE * error, needs.whole
        repeats, nothing = Repeats.of_ordered(setting, needs), unit / (2 * WIDE)
        own = {"of_range": half_width / unit, **counting}
    else:
        raise TypeError(f"{type(needs).__name__} is of no kind that has figures")

    def mean(epochs: int) -> float:
        """Half-width of a mean over epochs; over one epoch it is that of the epoch."""
        most = min(epochs, needs.epochs)
        return half_width if most == 1 else repeats.half_width(error, most)

    half = needs.epochs // 2
    return Figures(
        error=error,
        repeats=repeats,
        std_error=typical,
        half_width=half_width,
        least_change=repeats.least_change(error, 1, 1),
        least_half_change=None if half < 1 else repeats.least_change(error, half, needs.epochs - half),
        mean_7=mean(7),
        mean_30=mean(30),
        against_nothing=typical / nothing if nothing else inf,
        bits=protocol.device.payload_bits,
        promise=Promise.of_protocol(
            protocol, setting.reports, setting.epochs if setting.participates else None
        ),
        fake_device=_fake_device(setting, needs),
        **own,
    )


def _fake_device(setting: Setting, needs: Needs) -> float:
    if isinstance(needs, OrderedNeeds):
        return moved_by_fake(setting.protocol, needs, needs.devices, setting.share)
    return leverage(setting.protocol, setting.share).one_value * needs.whole / needs.devices
