"""What a collection promises to a device, in numbers, for as many reports as the device is to make.

`plan`, `check`, `explain`, the page and run.json all read these numbers here, and the sentences about them in
:mod:`ldpbeam.promise.statements`, so that no two of them can say different things.

Which epochs a device reports in follows from no value, so that only the values in those epochs count. A
device that was absent in some of its epochs made fewer reports, and lost no more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

from ldpbeam.channels.exact import log_above_power
from ldpbeam.privacy.guarantee import MemoisedInputs
from ldpbeam.privacy.loss import CURVE_REPORTS
from ldpbeam.protocols.estimator import Result

if TYPE_CHECKING:
    from ldpbeam.protocols.contract import LocalProtocol

YEAR = 365
"""Reports that the numbers are about where a collection has more epochs than that."""

EXACT_REPORTS = 4
"""Reports up to which the loss of any two sequences is enumerated here; it takes milliseconds."""


@dataclass(frozen=True)
class Guess:
    """How often the best guess of a value is right, all values being equally likely."""

    values: int
    from_one: float
    from_all: float


@dataclass(frozen=True)
class Promise:
    """Losses are ε, rounded up; infinite where nothing limits them."""

    reports: int
    of: int | None
    attributes: int
    inputs: MemoisedInputs
    first_report: float
    two_reports: float | None
    unchanged: float | None
    cap: float | None
    inputs_loss: float
    any_loss: float
    any_exact: bool
    protocol: LocalProtocol[Any] = field(repr=False)

    @classmethod
    def of_protocol(cls, protocol: LocalProtocol[Any], reports: int, of: int | None = None) -> Promise:
        guarantee = protocol.guarantee if of is None else protocol.guarantee.within(reports)
        loss, exact = any_loss(protocol, reports)
        return cls(
            reports=reports,
            of=of,
            attributes=1 if protocol.RESULT is Result.DISCOVERED else len(protocol.parts),
            inputs=guarantee.inputs,
            first_report=guarantee.first_report,
            two_reports=None if reports < 2 else any_loss(protocol, 2)[0],
            unchanged=guarantee.unchanged_values,
            cap=guarantee.cap_over_inputs,
            inputs_loss=_inputs_loss(protocol, reports, loss),
            any_loss=loss,
            any_exact=exact,
            protocol=protocol,
        )

    @cached_property
    def guess(self) -> Guess:
        """How well a server guesses a device's value."""
        from ldpbeam.promise.best_guess import best_guess  # needs numpy, which a device does not

        guesses = [
            Guess(part.domain_size, best_guess(part, 1), best_guess(part, self.reports))
            for part in set(self.protocol.parts)
        ]
        return max(guesses, key=lambda one: (one.from_all, one.from_one))

    @property
    def memoised(self) -> bool:
        """Whether anything is memoised."""
        return self.inputs is not MemoisedInputs.NONE

    def as_record(self) -> dict[str, object]:
        """For JSON, which has no infinity: null where nothing limits a loss."""
        life = (
            {} if self.of is None else {"lifetime_reports": self.reports, "lifetime": _finite(self.any_loss)}
        )
        return {
            **life,
            "reports": self.reports,
            "loss_inputs": _finite(self.inputs_loss),
            "loss_any": _finite(self.any_loss),
            "loss_any_exact": self.any_exact,
            "guess_one_report": self.guess.from_one,
            "guess_all_reports": self.guess.from_all,
        }


def any_loss(protocol: LocalProtocol[Any], reports: int) -> tuple[float, bool]:
    """(a bound on what so many reports tell, whether it is reached), whatever changed."""
    if reports < 1:
        raise ValueError(f"losses are those of 1 report or more, not {reports}")
    guarantee, losses = protocol.guarantee, protocol.losses
    if losses is None or reports == 1:
        return log_above_power([(guarantee.first_ratio, reports)]), True
    bound = losses.bound(reports)
    if reports <= EXACT_REPORTS or bound == inf:
        loss = losses.any_changes(reports)
        if loss is not None:
            return loss, True
    return bound, False


def _inputs_loss(protocol: LocalProtocol[Any], reports: int, anything: float) -> float:
    """Between sequences of inputs that are each other's renaming: the least that is known to bound it."""
    guarantee, losses = protocol.guarantee, protocol.losses
    cap, level = guarantee.cap_over_inputs, guarantee.per_memoised_input
    if losses is None or cap is None or level is None:
        return anything
    known = [cap, nextafter(reports * level, inf), anything]
    if reports == 1:
        known.append(guarantee.first_report)
    elif reports <= CURVE_REPORTS:
        known.append(losses.same_changes(reports))
    return min(known)


def _finite(loss: float) -> float | None:
    return None if loss == inf else loss
