"""Bounds and tests err as rarely as they say, and see what they should: computed, not simulated."""

from __future__ import annotations

from fractions import Fraction
from math import inf, log

import numpy as np
import pytest
from scipy.stats import binom

from ldpbeam.audit.checks.outcome import Bound, Check, Evidence, Match, Rule, judge
from ldpbeam.audit.law.bound import level_bound, lower_limit, two_sided, upper_limit


@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("alpha", [1e-3, 1e-9])
def test_limits_miss_the_truth_as_rarely_as_they_say(p: float, alpha: float) -> None:
    """Over every possible count, by its exact probability."""
    n = 200
    counts = np.arange(n + 1)
    weights = binom.pmf(counts, n, p)
    low = np.array([lower_limit(int(c), n, alpha) for c in counts])
    high = np.array([upper_limit(int(c), n, alpha) for c in counts])
    assert weights[low > p].sum() <= alpha * (1 + 1e-9)
    assert weights[high < p].sum() <= alpha * (1 + 1e-9)
    # And no wider than they have to be: the next count would be too many.
    assert lower_limit(0, n, alpha) == 0
    assert upper_limit(n, n, alpha) == 1
    assert binom.sf(119, n, lower_limit(120, n, alpha)) == pytest.approx(alpha, rel=1e-6)


def test_a_bound_is_wrong_as_rarely_as_it_says() -> None:
    """All pairs of counts under p/q = e: those whose bound exceeds 1 have a probability of at most alpha."""
    n, alpha, q = 60, 1e-3, 0.2
    p = q * float(np.e)
    wrong = sum(
        binom.pmf(i, n, p) * binom.pmf(j, n, q)
        for i in range(n + 1)
        for j in range(n + 1)
        if level_bound(i, n, j, n, alpha) > 1
    )
    assert 0 < wrong <= alpha
    assert level_bound(0, n, 5, n, alpha) == -inf
    # Either limit has half: by Bonferroni that is enough, whatever the other one does.
    low, high = lower_limit(40, n, alpha / 2), upper_limit(5, n, alpha / 2)
    assert level_bound(40, n, 5, n, alpha) == pytest.approx(log(low / high), rel=1e-12)


@pytest.mark.parametrize("p", [Fraction(1, 1000), Fraction(1, 2), Fraction(0), Fraction(1)])
def test_two_sided_tests_refuse_the_truth_as_rarely_as_they_say(p: Fraction) -> None:
    n, alpha = 500, 1e-4
    counts = np.arange(n + 1)
    values = two_sided(counts, np.full(n + 1, n), [p] * (n + 1))
    tails = np.minimum(binom.cdf(counts, n, float(p)), binom.sf(counts - 1, n, float(p)))
    np.testing.assert_allclose(values, np.minimum(1, 2 * tails), rtol=1e-9, atol=1e-300)
    assert binom.pmf(counts, n, float(p))[values < alpha].sum() <= alpha
    if p in (0, 1):
        # What cannot happen is refuted by a single count.
        assert (values < alpha).sum() == n
    assert two_sided(np.array([0]), np.array([0]), [p]).tolist() == [1.0]


def test_false_alarms_are_shared_by_all_tests_of_a_call() -> None:
    """The same count is refused alone and not among a thousand."""
    match = Match(Check.MATCH, "x", 70, 100, Fraction(1, 2))
    (value,) = two_sided(np.array([70]), np.array([100]), [Fraction(1, 2)])
    alone, _ = judge(Evidence(matches=[match]), 2.1 * float(value))
    assert alone[0].violations
    assert "70 of 100" in alone[0].violations[0]
    many, _ = judge(Evidence(matches=[match] * 1000), 2.1 * float(value))
    assert not many[0].violations


def test_a_rule_and_a_bound_are_judged() -> None:
    bound = Bound(Check.BOUND, "b", 900, 1000, 100, 1000, (Fraction(9, 10), Fraction(1, 10)), 1.0)
    rule = Rule(Check.ORDER, "r", 1, 8)
    checks, levels = judge(Evidence(bounds=[bound], rules=[rule]), 1e-6)
    assert {one.check for one in checks if one.violations} == {Check.BOUND, Check.ORDER}
    assert levels[0].bound > 1.5
    assert levels[0].exact == pytest.approx(log(9))
    checks, _ = judge(Evidence(rules=[Rule(Check.ORDER, "r", 0, 8)]), 1e-6)
    assert not checks[0].violations
