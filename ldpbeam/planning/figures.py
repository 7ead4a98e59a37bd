"""What a setting would give: errors, losses and costs, from the exact integers of its protocol.

The formulas are those of docs/maths.md sections 1 and 2 and of :mod:`ldpbeam.estimates`; docs/planning.md
says how each column is to be read.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from math import inf, log1p, nextafter, sqrt
from typing import Any

import numpy as np

from ldpbeam.channels.exact import log_above
from ldpbeam.estimates import variance
from ldpbeam.over_time.covariance import memo_errors
from ldpbeam.planning.needs import Needs, shares
from ldpbeam.planning.settings import Setting
from ldpbeam.planning.spread import BEYOND, WIDE, Spread
from ldpbeam.privacy.bit_loss import BitLosses
from ldpbeam.privacy.loss import CURVE_REPORTS, Losses, SymbolLosses
from ldpbeam.privacy.poisoning import leverage
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.server_side import PartEstimator


@dataclass(frozen=True)
class Figures:
    """Errors are frequencies (0.01 is one percentage point), losses are ε.

    Attributes:
        std_error: root mean square over all values; it does not depend on their frequencies, except for what
            drawing the devices adds, which is taken at its most.
        rare_error: standard error of a value that nobody holds.
        half_width: of the 95 % interval, of the mean value.
        against_uniform: ``std_error`` over the error of answering 1/k for every value.
        least_frequency: smallest frequency that differs from zero in 95 of 100 epochs.
        least_change: smallest change from one epoch to the next that differs from none, likewise.
        mean_7, mean_30: half-width of the 95 % interval of a mean over so many epochs, or over all there are.
        bits: payload of a report.
        first_report: ε1, from the integers.
        cap: inputs times ε∞; infinite where nothing is memoised.
        values_loss: the most that all reports tell about which values a device held.
        two_reports: the most that two reports tell, whatever changed between them; infinite where they
            prove a change; None where a device makes one.
        any_loss: a bound on what all reports tell, whatever changed.
        any_exact: whether that bound is reached.
        sharing: devices that have the same hash function; None where a function is not kept for life.
        server_steps: additions or comparisons that counting an epoch takes.
        fake_device: what one forged report moves a frequency by, at most.
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

    def as_record(self) -> dict[str, Any]:
        """For JSON, which has no infinity: null where there is no bound."""
        return {name: None if value == inf else value for name, value in asdict(self).items()}


def figures(setting: Setting, needs: Needs) -> Figures:
    """All figures of one setting."""
    spread = Spread.of(setting.protocol.support.among(setting.share), needs.devices)
    error, rare = spread.error(1 / needs.values), spread.error(0.0)
    repeats = Repeats.of(setting, needs)
    any_loss, exact = _any_loss(setting)
    losses, guarantee = setting.protocol.losses, setting.protocol.guarantee
    two = any_loss if setting.reports == 2 else None
    if setting.reports > 2:
        two = 2 * guarantee.first_report if losses is None else _two(losses)
    cap = guarantee.cap_over_values
    return Figures(
        std_error=error,
        rare_error=rare,
        half_width=WIDE * error,
        against_uniform=error / needs.uniform_error if needs.uniform_error else inf,
        least_frequency=spread.least_frequency,
        least_change=BEYOND * error * sqrt(repeats.difference),
        mean_7=WIDE * error * sqrt(repeats.mean(min(7, needs.epochs))),
        mean_30=WIDE * error * sqrt(repeats.mean(min(30, needs.epochs))),
        bits=setting.protocol.payload_bits,
        first_report=guarantee.first_report,
        cap=inf if cap is None else cap,
        values_loss=_values_loss(setting),
        two_reports=two,
        any_loss=any_loss,
        any_exact=exact,
        sharing=_sharing(setting, needs),
        server_steps=_steps(setting, needs),
        fake_device=leverage(setting.protocol, setting.share).one_value / needs.devices,
    )


# --- errors over epochs


@dataclass(frozen=True)
class Repeats:
    """What the errors of two epochs have in common, as shares of the variance of one (docs/over-time.md).

    Attributes:
        kept: where no device changes its value.
        anew: where every device draws its value anew; 0 where nobody asks.
        opposed: how far below 0 it can be, whatever devices do.
        change_rate: of one epoch to the next; None where it is not known.
    """

    kept: float
    anew: float
    opposed: float
    change_rate: float | None

    @classmethod
    def of(cls, setting: Setting, needs: Needs) -> Repeats:
        """At the mean frequency; what returns of itself depends on all frequencies."""
        errors = memo_errors(PartEstimator(setting.protocol))
        if errors is None:
            return cls(0.0, 0.0, 0.0, needs.change_rate)
        middle = np.array([1 / needs.values])
        whole = float(variance(middle, 1, setting.protocol.support)[0])
        anew = 0.0
        if needs.change_rate is not None:
            frequencies = shares(needs)
            anew = float(errors.drawn_anew(frequencies, frequencies)[1].mean())
        kept, opposed = float(errors.kept(middle)[0]), float((errors.opposed(middle) ** 2).sum())
        return cls(min(kept / whole, 1.0), anew / whole, opposed / whole, needs.change_rate)

    def common(self, lag: int) -> float:
        """Of two epochs so far apart; at most, where no rate is known."""
        same = (1 - (self.change_rate or 0.0)) ** lag
        return same * self.kept + (1 - same) * self.anew

    def mean(self, epochs: int) -> float:
        """Variance of a mean over epochs: (1/T)·[1 + 2·Σ (1 − l/T)·common(l)], l = 1 .. T − 1."""
        pairs = sum((1 - lag / epochs) * self.common(lag) for lag in range(1, epochs))
        return max(0.0, (1 + 2 * pairs) / epochs)

    @property
    def difference(self) -> float:
        """Variance of the difference of two successive epochs; at most, where no rate is known."""
        common = -self.opposed if self.change_rate is None else self.common(1)
        return 2 * max(0.0, 1 - common)


# --- losses


def _two(losses: Losses) -> float:
    found = losses.any_changes(2)
    return inf if found is None else found


def _values_loss(setting: Setting) -> float:
    """What all reports tell about which values a device held, when it changed being known."""
    losses, guarantee = setting.protocol.losses, setting.protocol.guarantee
    cap = guarantee.cap_over_values
    if losses is None or cap is None:
        return setting.reports * guarantee.first_report
    return min(cap, losses.same_changes(setting.reports)) if setting.reports <= CURVE_REPORTS else cap


EXACT_REPORTS = 4
"""Reports up to which the loss of any two sequences is enumerated here; it takes milliseconds."""


@lru_cache(512)
def _round_bound(losses: Losses) -> float | None:
    """A bound on what one more report tells, given everything that is memoised: ε of the second round.

    All that two sequences of inputs change is which memoised answers the reports are drawn from, and the
    ratio of one report under two answers is at most this. None where there is no second round.
    """
    if isinstance(losses, SymbolLosses):
        return log_above(losses.instant.ratio)
    if isinstance(losses, BitLosses) and losses.instant is not None:
        own, other = losses.instant.own, losses.instant.other
        bit = max(own / other, (1 - other) / (1 - own))
        return nextafter(losses.inputs * log_above(bit), inf)
    return None


def _any_loss(setting: Setting) -> tuple[float, bool]:
    """(a bound on what all reports tell, whether it is reached), whatever changed."""
    losses, reports = setting.protocol.losses, setting.reports
    if losses is None:
        return reports * setting.protocol.guarantee.first_report, True
    if reports <= EXACT_REPORTS:
        found = losses.any_changes(reports)
        if found is not None:
            return found, True
    bound = _round_bound(losses)
    return (inf, True) if bound is None else (reports * bound, False)


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
