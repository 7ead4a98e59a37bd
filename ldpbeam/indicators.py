"""Signs of forged reports that an epoch's counts show, each with the chance that honest devices cause it.

What devices draw without looking at their value, and how many values a report supports, have laws that do not
depend on what devices hold. Reports that were made up otherwise change them; a careful forger avoids that
(docs/poisoning.md says how). Everything is computed from the integers that are counted anyway, so a result's
indicators are the same whatever the order of the reports.

An indicator raises an alarm where its p-value is below :data:`FALSE_ALARM` divided by the number of
indicators of the result: honest devices cause an alarm in at most that share of all results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, lgamma, log
from typing import Any

import numpy as np

from ldpbeam.accounting import Account
from ldpbeam.arrays import Floats, Ints
from ldpbeam.errors import Reason
from ldpbeam.protocols.attributes.sample import Sample
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.estimator import Result
from ldpbeam.protocols.forgery import Numbers, SupportedLaw
from ldpbeam.support import Support

FALSE_ALARM = 1e-6
"""Share of the results of honest devices that have an alarm, at most."""

EXPLANATIONS = {
    "seeds": "hash functions, buckets or attributes are not drawn as evenly as devices draw them",
    "support_sum": "on average a report supports more or fewer values than a device's, whatever it holds",
    "ones": "more reports have very many or very few ones than devices send",
    "extremes": "more reports lie far outside of the range of values than the noise of devices brings there",
    "range": "an estimate lies further outside of what is possible than noise explains",
    "conflicts": "different payloads came under one report id: forged, or of copies of one device",
}
"""What an alarm of each indicator says."""

_SAFETY = 5.0
"""χ² is that much too thin, at most, at a chance of 1e-7 and with so many reports per cell."""
_LEAST_EXPECTED = 100.0
"""Reports per cell at least; cells are put together to have them."""
_BLOCKS = 64
"""Of values of a binomial number in one standard deviation, at most."""
_BEYOND, _ROUNDING = 1e-14, 1e-5
"""The chance of values that are left out, and how much rounding may take from a chance."""


@dataclass(frozen=True)
class Indicator:
    name: str
    attribute: int | None
    observed: float
    expected: float
    p_value: float
    alarm: bool = False

    def as_record(self, names: Sequence[str]) -> dict[str, Any]:
        """For the accounting of the epoch; ``names`` of the attributes."""
        return {
            "indicator": self.name,
            "attribute": "" if self.attribute is None else names[self.attribute],
            "observed": self.observed,
            "expected": self.expected,
            "p_value": self.p_value,
            "alarm": self.alarm,
        }


def indicators(
    protocol: LocalProtocol[Any], support: Support, account: Account | None = None
) -> tuple[Indicator, ...]:
    """All that can be computed for one result."""
    results: list[Indicator] = []
    attributes = protocol.SEVERAL and protocol.estimator.result is not Result.DISCOVERED
    if isinstance(protocol, Sample):
        cells = protocol.counter.seed_cells(support.counts, support.signs)
        results += _seeds(*cells, None, protocol.device.weights)
    counted = protocol.counter.part_counts(support.counts, support.reports)
    signs = protocol.counter.part_signs(support.signs)
    for index, (part, (counts, reports), some) in enumerate(zip(protocol.parts, counted, signs, strict=True)):
        results += _of_part(part, counts, some, reports, index if attributes else None)
    if account is not None:
        results += _conflicts(account.rejected[Reason.CONFLICTING_ID.value], support.reports)
    level = FALSE_ALARM / max(len(results), 1)
    return tuple(replace(one, alarm=one.p_value < level) for one in results)


def _of_part(
    kind: LocalProtocol[Any], counts: Ints, signs: Ints, reports: int, attribute: int | None
) -> list[Indicator]:
    if not reports:
        return []
    results: list[Indicator] = []
    cells = kind.counter.seed_cells(counts, signs)
    if cells is not None:
        results += _seeds(*cells, attribute)
    if kind.estimator.result is Result.DISCOVERED:
        return results  # nobody can look at all values that reports support
    support = kind.counter.support_counts(counts)
    results += _support_sum(kind, int(support.sum()), reports, attribute)
    if kind.counter.extremes is not None:
        name = "ones" if kind.forgery.numbers is None else "extremes"
        results.append(_rare_reports(name, signs, kind.counter.extremes, reports, attribute))
    if kind.forgery.ends is not None:
        own, other = float(kind.forgery.ends.own), float(kind.forgery.ends.other)
        results.append(_range(support, kind.counter.report_counts(counts, reports), own, other, attribute))
    if kind.forgery.numbers is not None:
        maximum = kind.domain_size - 1
        results.append(_noisy_mean(kind.forgery.numbers, maximum, int(support[0]), reports, attribute))
    return results


def _seeds(cells: Ints, factor: float, attribute: int | None, weights: Sequence[int] = ()) -> list[Indicator]:
    """Pearson's χ² of cells, equally likely or by weights; none where reports are too few for two cells."""
    from scipy.special import gammaincc

    total, size = int(cells.sum()), int(cells.size)
    likely = np.array(weights or [1] * size)
    groups = min(size, int(total * size * likely.min() / likely.sum() / _LEAST_EXPECTED))
    if groups < 2 or not factor:
        return []
    edges = np.arange(groups) * size // groups
    together = np.add.reduceat(cells, edges)
    expected = total * np.add.reduceat(likely, edges) / likely.sum()
    freedom = groups - 1
    statistic = float((((together - expected) ** 2) / expected).sum()) / factor
    p_value = min(1.0, _SAFETY * float(gammaincc(freedom / 2, statistic / 2)))
    return [Indicator("seeds", attribute, statistic, float(freedom), p_value)]


def _support_sum(
    kind: LocalProtocol[Any], supported: int, reports: int, attribute: int | None
) -> list[Indicator]:
    """How many values reports support on average: by the exact law, or else by Bernstein's inequality."""
    law, variance = kind.estimator.support, kind.forgery.supported_variance
    if law is None or variance is None:
        return []
    # Among d of b buckets the value's own is one with probability d/b.
    mean = float(law.sampled) * (float(law.own) + (kind.domain_size - 1) * float(law.other))
    if kind.forgery.supported_law is not None:
        p_value = _two_sided(supported, reports, kind.forgery.supported_law)
    else:
        away = abs(supported - reports * mean)
        p_value = _bernstein(away, reports * variance, max(kind.forgery.most_supported - mean, mean))
    return [Indicator("support_sum", attribute, supported / reports, mean, p_value)]


def _two_sided(supported: int, reports: int, law: SupportedLaw) -> float:
    """Twice the smaller tail of A + B at ``supported``, A ~ B(n, first) and B ~ B(n·rest, other), or more."""
    from scipy.special import betainc

    many, p = reports * law.rest, law.other
    starts, ends, weights = _blocks(reports, law.first)

    def at_least(least: Ints) -> Floats:
        inside = np.clip(least, 1, many)
        tail = betainc(inside.astype(np.float64), many - inside + 1.0, p) if many else np.zeros(least.size)
        return np.where(least <= 0, 1.0, np.where(least > many, 0.0, tail))

    def at_most(most: Ints) -> Floats:
        inside = np.clip(most, 0, max(many - 1, 0))
        tail = betainc(many - inside, inside + 1.0, 1 - p) if many else np.ones(most.size)
        return np.where(most < 0, 0.0, np.where(most >= many, 1.0, tail))

    above = float(weights @ at_least(supported - ends))
    below = float(weights @ at_most(supported - starts))
    # Degenerate reports are refused: that only divides chances by (1 − 2^−50)^n.
    return min(1.0, 2 * (min(above, below) * (1 + _ROUNDING) + _BEYOND) / max(1 - reports * 2.0**-50, 0.5))


def _blocks(n: int, p: float) -> tuple[Ints, Ints, Floats]:
    """Values of B(n, p) in blocks: first and last of each, and its chance, but for :data:`_BEYOND` in all."""
    from scipy.special import gammaln

    deviation = (n * p * (1 - p)) ** 0.5
    reach = 9 * deviation + 60  # by Bernstein's inequality less than 2e-15 lies further off
    first, last = max(0, int(n * p - reach)), min(n, int(n * p + reach) + 1)
    values = np.arange(first, last + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = -gammaln(values + 1.0) - gammaln(n - values + 1.0)
        logs += np.where(values > 0, values * np.log(p), 0.0)
        logs += np.where(values < n, (n - values) * np.log1p(-p), 0.0)
    chances = np.exp(logs - logs.max())
    chances /= chances.sum()
    starts = np.arange(0, values.size, max(1, int(deviation / _BLOCKS)))
    ends = np.append(starts[1:], values.size) - 1
    return values[starts], values[ends], np.add.reduceat(chances, starts)


def _bernstein(away: float, variance: float, largest: float) -> float:
    """Bound on P(|S − E S| >= away) for a sum S of independent terms, ``largest`` off their means at most."""
    if not away:
        return 1.0
    return min(1.0, 2 * exp(-away * away / 2 / (variance + largest * away / 3)))


def _rare_reports(
    name: str, signs: Ints, chances: tuple[float, float], reports: int, attribute: int | None
) -> Indicator:
    """Two kinds of reports that devices hardly send: two binomial tails, the smaller one doubled."""
    from scipy.special import bdtrc

    tails = [float(bdtrc(int(c) - 1, reports, p)) if c else 1.0 for c, p in zip(signs, chances, strict=True)]
    expected = reports * (chances[0] + chances[1])
    return Indicator(name, attribute, float(signs.sum()), expected, min(1.0, 2 * min(tails)))


def _range(support: Ints, reports: int | Ints, own: float, other: float, attribute: int | None) -> Indicator:
    """The value that is estimated furthest below 0 or above 1: an exact binomial tail, times their number."""
    from scipy.special import betainc

    some = np.arange(support.size) if isinstance(reports, np.ndarray) else _ends(support)
    n = np.broadcast_to(np.asarray(reports, np.int64), support.shape)[some].astype(np.float64)
    c = support[some].astype(np.float64)
    below = np.where(c < n, betainc(np.maximum(n - c, 1), c + 1, 1 - other), 1.0)  # P(B(n, other) <= c)
    above = np.where(c > 0, betainc(np.maximum(c, 1), n - c + 1, own), 1.0)  # P(B(n, own) >= c)
    worst = np.minimum(np.where(n > 0, below, 1.0), np.where(n > 0, above, 1.0))
    at = int(np.argmin(worst))
    frequency = (c[at] / max(n[at], 1) - other) / (own - other)
    p_value = min(1.0, 2 * support.size * float(worst[at]))
    return Indicator("range", attribute, float(frequency), float(below[at] > above[at]), p_value)


def _ends(support: Ints) -> Ints:
    """Where the least and the largest are, in order."""
    return np.unique([support.argmin(), support.argmax()])


def _noisy_mean(numbers: Numbers, maximum: int, total: int, reports: int, attribute: int | None) -> Indicator:
    """A mean outside of 0 .. m, by Bernstein's inequality for reports that are bounded numbers."""
    low, high = float(numbers.low), float(numbers.high)
    mean = total / reports
    nearest = min(max(mean, low), high)
    # Clamping Laplace noise only lowers the variance, and moves the mean by less than 2**-40 m.
    away = max(0.0, abs(total - reports * nearest) - reports * (high - low) * 2.0**-40)
    p_value = _bernstein(away, reports * numbers.variance, float(numbers.most - numbers.least))
    unit = maximum / (high - low)
    return Indicator("range", attribute, (mean - low) * unit, (nearest - low) * unit, p_value)


def _conflicts(count: int, reports: int) -> list[Indicator]:
    """Two of n random ids of 64 bits are equal with probability below n²/2**65; c pairs by Markov."""
    pairs = reports * (reports - 1) / 2.0**65
    p_value = 1.0
    if count:
        p_value = min(1.0, exp(count * log(pairs) - lgamma(count + 1))) if pairs else 0.0
    return [Indicator("conflicts", None, float(count), pairs, p_value)]
