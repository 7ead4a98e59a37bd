"""What a setting would give: errors, losses and costs, from the exact integers of its protocol.

The formulas are those of docs/maths.md sections 1 and 2 and of :mod:`ldpbeam.estimates`; docs/planning.md
says how each column is to be read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, log1p
from typing import Any

from ldpbeam.planning.lost import any_loss, two_reports, values_loss
from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds, Needs
from ldpbeam.planning.repeats import Repeats
from ldpbeam.planning.settings import Setting
from ldpbeam.planning.spread import WIDE, Spread, mean_error
from ldpbeam.privacy.poisoning import leverage
from ldpbeam.protocols import FrequencyProtocol
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.server_side import PartEstimator


class Figures(ABC):
    """What is known of every setting. Errors are in the unit of the needs, losses are ε.

    Attributes:
        std_error: of one epoch.
        half_width: of its 95 % interval.
        least_change: smallest change from one epoch to the next that differs from none in 95 of 100 cases.
        mean_7, mean_30: half-width of the 95 % interval of a mean over so many epochs, or over all there are.
        bits: payload of a report.
        first_report: ε1, from the integers.
        cap: inputs times ε∞; infinite where nothing is memoised.
        values_loss: the most that all reports tell about which values a device held.
        two_reports: the most that two reports tell, whatever changed between them; infinite where they
            prove a change; None where a device makes one.
        any_loss: a bound on what all reports tell, whatever changed.
        any_exact: whether that bound is reached.
        fake_device: what one forged report moves an estimate by, at most.
        sharing: devices that have the same hash function; None where a function is not kept for life.
    """

    std_error: float
    half_width: float
    least_change: float
    mean_7: float
    mean_30: float
    bits: int
    first_report: float
    cap: float
    values_loss: float
    two_reports: float | None
    any_loss: float
    any_exact: bool
    fake_device: float
    sharing: float | None

    @property
    @abstractmethod
    def against_nothing(self) -> float:
        """The error over what is known without any device: from 1 on an epoch is not worth collecting."""

    def as_record(self) -> dict[str, Any]:
        """For JSON, which has no infinity: null where there is no bound."""
        return {name: None if value == inf else value for name, value in vars(self).items()}


@dataclass(frozen=True)
class FrequencyFigures(Figures):
    """Of all values of a domain. Errors are frequencies (0.01 is one percentage point).

    Attributes:
        std_error: root mean square over all values; it does not depend on their frequencies, except for what
            drawing the devices adds, which is taken at its most.
        rare_error: standard error of a value that nobody holds.
        half_width: of the 95 % interval, of the mean value.
        against_uniform: ``std_error`` over the error of answering 1/k for every value.
        least_frequency: smallest frequency that differs from zero in 95 of 100 epochs.
        server_steps: additions or comparisons that counting an epoch takes.
    """

    std_error: float
    rare_error: float
    half_width: float
    against_uniform: float
    least_frequency: float
    least_change: float
    mean_7: float
    mean_30: float
    bits: int
    first_report: float
    cap: float
    values_loss: float
    two_reports: float | None
    any_loss: float
    any_exact: bool
    sharing: float | None
    server_steps: float
    fake_device: float

    @property
    def against_nothing(self) -> float:
        """Nothing is an answer of 1/k for every value."""
        return self.against_uniform


@dataclass(frozen=True)
class MeanFigures(Figures):
    """Of the mean of a counter 0 .. m. Errors are in its units, and the largest over all populations.

    Attributes:
        of_range: ``half_width`` over m.
    """

    std_error: float
    half_width: float
    of_range: float
    least_change: float
    mean_7: float
    mean_30: float
    bits: int
    first_report: float
    cap: float
    values_loss: float
    two_reports: float | None
    any_loss: float
    any_exact: bool
    fake_device: float

    sharing = None  # no protocol for a mean hashes

    @property
    def against_nothing(self) -> float:
        """Nothing is an interval of the whole range."""
        return 2 * self.of_range


def figures(setting: Setting, needs: Needs) -> Figures:
    """All figures of one setting.

    Raises:
        TypeError: the needs are neither for frequencies nor for a mean.
    """
    if isinstance(needs, FrequencyNeeds):
        return _of_frequencies(setting, needs)
    if isinstance(needs, MeanNeeds):
        return _of_mean(setting, needs)
    raise TypeError(f"{type(needs).__name__} is neither for frequencies nor for a mean")


def _of_frequencies(setting: Setting, needs: FrequencyNeeds) -> FrequencyFigures:
    protocol = setting.protocol
    assert isinstance(protocol, FrequencyProtocol)  # noqa: S101 - the needs are for frequencies
    spread = Spread.of(protocol.support.among(setting.share), needs.devices)
    error, rare = spread.error(1 / needs.values), spread.error(0.0)
    repeats = Repeats.of_frequencies(setting, needs)
    loss, exact = any_loss(protocol, setting.reports)
    cap = protocol.guarantee.cap_over_values
    return FrequencyFigures(
        std_error=error,
        rare_error=rare,
        half_width=WIDE * error,
        against_uniform=error / needs.uniform_error if needs.uniform_error else inf,
        least_frequency=spread.least_frequency,
        least_change=repeats.least_change(error),
        mean_7=repeats.half_width(error, min(7, needs.epochs)),
        mean_30=repeats.half_width(error, min(30, needs.epochs)),
        bits=protocol.payload_bits,
        first_report=protocol.guarantee.first_report,
        cap=inf if cap is None else cap,
        values_loss=values_loss(protocol, setting.reports),
        two_reports=two_reports(protocol, setting.reports),
        any_loss=loss,
        any_exact=exact,
        sharing=_sharing(setting, needs),
        server_steps=_steps(setting, needs),
        fake_device=leverage(protocol, setting.share).one_value / needs.devices,
    )


def _of_mean(setting: Setting, needs: MeanNeeds) -> MeanFigures:
    protocol = setting.protocol
    error = mean_error(PartEstimator(protocol, present=setting.share), needs.devices)
    repeats = Repeats.of_mean(setting, needs, error**2 * needs.devices * float(setting.share))
    loss, exact = any_loss(protocol, setting.reports)
    cap = protocol.guarantee.cap_over_values
    return MeanFigures(
        std_error=error,
        half_width=WIDE * error,
        of_range=WIDE * error / needs.maximum,
        least_change=repeats.least_change(error),
        mean_7=repeats.half_width(error, min(7, needs.epochs)),
        mean_30=repeats.half_width(error, min(30, needs.epochs)),
        bits=protocol.payload_bits,
        first_report=protocol.guarantee.first_report,
        cap=inf if cap is None else cap,
        values_loss=values_loss(protocol, setting.reports),
        two_reports=two_reports(protocol, setting.reports),
        any_loss=loss,
        any_exact=exact,
        fake_device=leverage(protocol, setting.share).one_value * needs.maximum / needs.devices,
    )


# --- costs


def _sharing(setting: Setting, needs: Needs) -> float | None:
    protocol = setting.protocol
    if not isinstance(protocol, LocalHash) or protocol.permanent is None:
        return None
    seeds = protocol.family.definition().get("seeds", 1 << 128)
    return needs.devices / int(seeds)


def _steps(setting: Setting, needs: Needs) -> float:
    """Additions or comparisons: of every report, and once to turn what was counted into support."""
    protocol, k = setting.protocol, needs.values
    reports = needs.devices * float(setting.share)
    per_report = {"direct": 1, "unary": k, "bit_flip": protocol.asked_about, "public_string": k}
    if not isinstance(protocol, LocalHash):
        return reports * per_report[protocol.ENCODING]
    if protocol.family.NAME == "affine":
        return reports * k
    seeds = int(protocol.family.definition()["seeds"]) + 1
    return reports + seeds * protocol.g * protocol.g * max(1.0, log1p(seeds) / log1p(protocol.g))
