"""What an audit finds: tests with their counts, rules with their breaches, and the verdict on each check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from math import inf, log
from typing import Any


class Check(Enum):
    """What an audit looks at; docs/audit.md has a row for each."""

    CERTIFICATE = "certificate"
    BYTES = "bytes"
    LENGTH = "length"
    BOUND = "bound"
    MATCH = "match"
    SUPPORT = "support"
    SEQUENCE_BOUND = "sequence-bound"
    SEQUENCE_MATCH = "sequence-match"
    LASTING = "lasting"
    EPOCHS = "epochs"
    DEVICES = "devices"
    IDS = "ids"
    REPEAT = "repeat"
    ORDER = "order"
    REOPEN = "reopen"
    FORK = "fork"
    COLLECTIONS = "collections"
    PARTICIPATION = "participation"


@dataclass(frozen=True)
class Match:
    """How often an event was seen, and its exact probability: a two-sided test.

    Attributes:
        check: that it belongs to.
        what: the event, for people; it names no value of a person, since the audit made all of them up.
        count, trials: seen, of how many.
        probability: exact.
    """

    check: Check
    what: str
    count: int
    trials: int
    probability: Fraction


@dataclass(frozen=True)
class Bound:
    """An event counted under two values, or two sequences of them, and the level that it may show at most.

    Attributes:
        check: that it belongs to.
        what: the event.
        count, trials: under the one.
        other_count, other_trials: under the other.
        probabilities: exact, under the one and under the other.
        level: which the bound must not exceed; infinite where nothing is promised.
    """

    check: Check
    what: str
    count: int
    trials: int
    other_count: int
    other_trials: int
    probabilities: tuple[Fraction, Fraction]
    level: float

    @property
    def exact(self) -> float:
        """What the event shows of an honest client, in the limit."""
        p, q = self.probabilities
        return inf if q == 0 else log(p / q) if p else -inf


@dataclass(frozen=True)
class Rule:
    """Something that holds every time.

    Attributes:
        check: that it belongs to.
        what: the rule.
        broken, cases: how often it did not hold, of how many times that it was tried.
        wrong: probability that an honest client breaks it.
    """

    check: Check
    what: str
    broken: int
    cases: int
    wrong: float = 0.0


@dataclass(frozen=True)
class LevelFound:
    """The lower bound that an event gave."""

    check: Check
    what: str
    bound: float
    exact: float
    level: float

    @property
    def holds(self) -> bool:
        """Whether the bound is no higher than the level."""
        return self.bound <= self.level

    @property
    def share(self) -> float:
        """Of the event's exact level."""
        return self.bound / self.exact


@dataclass
class Judged:
    """One check.

    Attributes:
        check: which.
        tests: how many tests and rules it consists of.
        violations: what is wrong, in sentences; none for a client that passes.
    """

    check: Check
    tests: int = 0
    violations: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """The audit of one client for one collection.

    Attributes:
        name: of the collection.
        protocol: as people know it.
        client: which.
        reports: drawn.
        false_alarm: probability that an honest client fails any of the tests.
        checks: in the order of :class:`Check`; those that could not be made are missing.
        levels: bounds found.
        left_out: what could not be audited, and why, in sentences.
    """

    name: str
    protocol: str
    client: str
    reports: int
    false_alarm: float
    checks: tuple[Judged, ...]
    levels: tuple[LevelFound, ...]
    left_out: tuple[str, ...] = ()

    @property
    def violations(self) -> list[tuple[Check, str]]:
        """Of all checks."""
        return [(one.check, text) for one in self.checks for text in one.violations]

    @property
    def failed(self) -> set[Check]:
        """Checks with a violation."""
        return {check for check, _ in self.violations}

    def as_record(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "collection": self.name,
            "protocol": self.protocol,
            "client": self.client,
            "reports": self.reports,
            "false_alarm": self.false_alarm,
            "violations": len(self.violations),
            "checks": [
                {"check": one.check.value, "tests": one.tests, "violations": one.violations}
                for one in self.checks
            ],
            "levels": [
                {
                    "check": one.check.value,
                    "event": one.what,
                    "lower_bound": _finite(one.bound),
                    "exact": _finite(one.exact),
                    "level": _finite(one.level),
                }
                for one in self.levels
            ],
            "not_audited": list(self.left_out),
        }


def _finite(number: float) -> float | None:
    return number if abs(number) < inf else None


def judge(
    bounds: Sequence[Bound], matches: Sequence[Match], rules: Sequence[Rule], false_alarm: float
) -> tuple[tuple[Judged, ...], tuple[LevelFound, ...]]:
    """The verdict on each check.

    Half of the false alarms is shared equally by the bounds, half by the two-sided tests. How many there are
    of each follows from the collection and the plan, not from what was drawn.
    """
    import numpy as np

    from ldpbeam.audit.bound import level_bound, two_sided

    found: dict[Check, Judged] = {}

    def of(check: Check) -> Judged:
        return found.setdefault(check, Judged(check))

    for rule in rules:
        of(rule.check).tests += 1
        if rule.broken:
            of(rule.check).violations.append(f"{rule.what}: not in {rule.broken:,} of {rule.cases:,} cases")
    share = false_alarm / 2 / max(1, len(bounds))
    levels = []
    for one in bounds:
        of(one.check).tests += 1
        low = -inf
        if one.trials and one.other_trials:
            low = level_bound(one.count, one.trials, one.other_count, one.other_trials, share)
        levels.append(LevelFound(one.check, one.what, low, one.exact, one.level))
        if not levels[-1].holds:
            of(one.check).violations.append(
                f"{one.what}: the level is at least {low:.4f}, and at most {one.level:.4f} is promised"
            )
    share = false_alarm / 2 / max(1, len(matches))
    counts = np.array([one.count for one in matches], np.int64)
    trials = np.array([one.trials for one in matches], np.int64)
    values = two_sided(counts, trials, [one.probability for one in matches])
    for match, value in zip(matches, values.tolist(), strict=True):
        of(match.check).tests += 1
        if value < share:
            seen = f"{match.count:,} of {match.trials:,}"
            expected = float(match.probability) * match.trials
            of(match.check).violations.append(
                f"{match.what}: seen {seen} times, expected {expected:,.1f} (p = {value:.1e})"
            )
    return tuple(found[check] for check in Check if check in found), tuple(levels)
