"""What an audit finds: tests with their counts, rules with their breaches, and the verdict on each check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from math import inf, log
from typing import TYPE_CHECKING, Any

from ldpbeam.text import plural

if TYPE_CHECKING:
    from ldpbeam.arrays import Ints


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
    MEMO = "memo"
    REPLAY = "replay"
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
    check: Check
    what: str
    count: int
    trials: int
    probability: Fraction


@dataclass(frozen=True)
class Bound:
    """An event counted under two values, or two sequences of them, and the level that it may show at most."""

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
    """Something that holds every time."""

    check: Check
    what: str
    broken: int
    cases: int
    wrong: float = 0.0


@dataclass(frozen=True)
class EventSum:
    """A number of events in devices whose events depend on each other: a two-sided test by Chernoff."""

    check: Check
    what: str
    count: int
    devices: int
    trials: int
    law: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Coins:
    """Numbers of heads of fair coins: two-sided tests, in arrays since they are so many."""

    check: Check
    what: str
    names: Callable[[int], str]
    counts: Ints
    trials: int


@dataclass(frozen=True)
class Evidence:
    bounds: Sequence[Bound] = ()
    matches: Sequence[Match] = ()
    sums: Sequence[EventSum] = ()
    coins: Sequence[Coins] = ()
    rules: Sequence[Rule] = ()

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(
            [*self.bounds, *other.bounds],
            [*self.matches, *other.matches],
            [*self.sums, *other.sums],
            [*self.coins, *other.coins],
            [*self.rules, *other.rules],
        )


@dataclass(frozen=True)
class LevelBound:
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
        return self.bound / self.exact


@dataclass
class CheckResult:
    check: Check
    tests: int = 0
    violations: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class AuditOutcome:
    name: str
    protocol: str
    client: str
    reports: int
    false_alarm: float
    checks: tuple[CheckResult, ...]
    levels: tuple[LevelBound, ...]
    left_out: tuple[str, ...] = ()

    @property
    def violations(self) -> list[tuple[Check, str]]:
        return [(one.check, text) for one in self.checks for text in one.violations]

    @property
    def failed(self) -> set[Check]:
        return {check for check, _ in self.violations}

    def as_record(self) -> dict[str, Any]:
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


def judge(evidence: Evidence, false_alarm: float) -> tuple[tuple[CheckResult, ...], tuple[LevelBound, ...]]:
    """The verdict on each check.

    What chance makes of the rules is taken off the false alarms: the probability, in (0, 1), that an honest
    client fails any test or rule. Half of the rest is shared equally by the bounds, half by the two-sided
    tests; of that half those of report ids have a quarter, where there are any, since they are so many. How
    many tests there are follows from the collection, the plan, and what devices draw without a look at their
    values.

    Returns:
        The checks that were made, in the order of :class:`Check`, and the bound that each event gave.
    """
    by_check: dict[Check, CheckResult] = {}

    def of(check: Check) -> CheckResult:
        return by_check.setdefault(check, CheckResult(check))

    for rule in evidence.rules:
        of(rule.check).tests += 1
        if rule.broken:
            of(rule.check).violations.append(f"{rule.what}: {_broken(rule)}")
    half = max(0.0, false_alarm - sum(rule.wrong for rule in evidence.rules)) / 2
    levels = [_level(one, half / len(evidence.bounds)) for one in evidence.bounds]
    for level in levels:
        of(level.check).tests += 1
        if not level.holds:
            of(level.check).violations.append(
                f"{level.what}: the level is at least {level.bound:.4f}, and at most {level.level:.4f} is "
                "promised"
            )
    tests: list[Match | EventSum] = [*evidence.matches, *evidence.sums]
    share = (half * (1 - _IDS) if evidence.coins else half) / max(1, len(tests))
    for test, value in zip(tests, _values(evidence), strict=True):
        of(test.check).tests += 1
        if value < share:
            of(test.check).violations.append(_refuted(test, value))
    share = half * _IDS / max(1, sum(len(one.counts) for one in evidence.coins))
    for some in evidence.coins:
        of(some.check).tests += len(some.counts)
        of(some.check).violations.extend(_unfair(some, share))
    return tuple(by_check[check] for check in Check if check in by_check), tuple(levels)


def _broken(rule: Rule) -> str:
    return "it does not hold" if rule.cases == 1 else f"not in {rule.broken:,} of {rule.cases:,} cases"


_IDS = 1 / 4
"""Share of the tests of report ids in the false alarms of two-sided tests."""


def _level(bound: Bound, share: float) -> LevelBound:
    from ldpbeam.audit.law.bound import level_bound

    low = -inf
    if bound.trials and bound.other_trials:
        low = level_bound(bound.count, bound.trials, bound.other_count, bound.other_trials, share)
    return LevelBound(bound.check, bound.what, low, bound.exact, bound.level)


def _values(evidence: Evidence) -> list[float]:
    import numpy as np

    from ldpbeam.audit.law.bound import chernoff, two_sided

    matches = evidence.matches
    counts = np.array([one.count for one in matches], np.int64)
    trials = np.array([one.trials for one in matches], np.int64)
    values: list[float] = two_sided(counts, trials, [one.probability for one in matches]).tolist()
    return values + [chernoff(one.count, one.devices, one.trials, one.law) for one in evidence.sums]


def _refuted(test: Match | EventSum, value: float) -> str:
    if isinstance(test, Match):
        trials, expected = test.trials, float(test.probability) * test.trials
    else:
        trials = test.devices * test.trials
        expected = trials * sum(weight * p for weight, p in test.law)
    seen = f"{test.count:,} of {trials:,}"
    return f"{test.what}: seen {seen} times, expected {expected:,.1f} (p = {value:.1e})"


def _unfair(coins: Coins, share: float) -> list[str]:
    """One sentence about the coin that is furthest from fair, and how many others there are."""
    import numpy as np

    from ldpbeam.audit.law.bound import two_sided

    # All coins have one number of trials: only the furthest needs to be tested to know whether any is unfair.
    away = np.abs(2 * coins.counts - coins.trials)
    limits = np.unique(away)
    heads = (coins.trials + limits) // 2
    p = two_sided(heads, np.full(len(heads), coins.trials), [Fraction(1, 2)] * len(heads))
    wrong = np.isin(away, limits[p < share])
    if not wrong.any():
        return []
    worst = int(away.argmax())
    others = int(wrong.sum()) - 1
    more = f", and {plural(others, 'other')}" if others else ""
    seen = f"in {int(coins.counts[worst]):,} of {coins.trials:,} cases, expected {coins.trials / 2:,.1f}"
    return [f"{coins.names(worst)} of {coins.what} {seen} (p = {float(p[-1]):.1e}){more}"]
