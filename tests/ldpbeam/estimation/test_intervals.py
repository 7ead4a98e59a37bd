"""Kernels of estimates and their limits, each against its definition: exact laws, roots by bisection."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, hypergeom

from ldpbeam.estimates import _SCRATCH, Chances, interval
from ldpbeam.estimation import intervals as kernels
from ldpbeam.estimation.exact_limits import limit
from ldpbeam.support import SupportProbabilities

Z = np.array([NormalDist().inv_cdf(0.975), NormalDist().inv_cdf(1 - 0.025 / 360)])
TAILS = np.array([0.025, 0.025 / 360])

ROUNDS = [(0.7, 0.05), (0.5, 0.25), (0.99, 0.6), (1.0, 0.3), (0.75, 0.0)]
"""Probabilities of support: own, other."""


def chances_of(own: float, other: float, unasked: float = 0.0) -> Chances:
    return own, other, own - other, unasked


def memory() -> tuple[np.ndarray, ...]:
    return np.full((256, 3), -1, np.int64), np.empty((256, 2)), np.empty(_SCRATCH), np.empty(_SCRATCH)


def mean_variance_third(frequency: float, chances: Chances) -> tuple[float, float, float]:
    """Of one report's support at a frequency in [0, 1], the drawing of devices included."""
    own, other, gap, unasked = chances
    f, mine, theirs = frequency, own * (1 - own), other * (1 - other)
    drawn, skewed = unasked * f * (1 - f), unasked * f * (1 - f) * (1 - 2 * f) * (2 * unasked - 1)
    second = f * mine + (1 - f) * theirs + gap**2 * drawn
    third = f * mine * (1 - 2 * own) + (1 - f) * theirs * (1 - 2 * other)
    return other + f * gap, second, third + 3 * gap * (mine - theirs) * drawn + gap**3 * skewed


def rejection(x: float, n: int, z: float, chances: Chances, skew: float) -> Callable[[float], float]:
    """How far a test's limit lies from a count, at each frequency: below for a z below 0."""

    def distance(f: float) -> float:
        mean, second, _ = mean_variance_third(f, chances)
        return x - n * mean + z * math.sqrt(n * second) - skew

    return distance


@pytest.mark.parametrize("unasked", [0.0, 0.75])
def test_a_frequency_and_its_error_are_the_formula_in_rationals(unasked: float) -> None:
    """A value without a report has neither; estimates below 0 and above 1 have the variance of 0 and of 1."""
    support, reports = np.array([40, 0, 1, 90, 0]), np.array([100, 7, 50, 100, 0])
    own, other = Fraction(3, 4), Fraction(1, 8)
    found = np.full((6, 5), 7.0)
    kernels.frequencies(support, reports, chances_of(0.75, 0.125, unasked), False, found)
    for place, (c, n) in enumerate(zip(support.tolist(), reports.tolist(), strict=True)):
        if n == 0:
            assert np.isnan(found[:2, place]).all()
            continue
        frequency = (Fraction(c, n) - other) / (own - other)
        f = min(max(frequency, Fraction(0)), Fraction(1))
        spread = (f * own * (1 - own) + (1 - f) * other * (1 - other)) / (own - other) ** 2
        square = (spread + Fraction(unasked) * f * (1 - f)) / n
        assert found[0, place] == pytest.approx(float(frequency), rel=1e-12)
        assert found[1, place] == pytest.approx(math.sqrt(square), rel=1e-12)
    assert (found[2:] == 7.0).all()


def test_errors_of_shares_that_add_up_to_1_take_the_threshold_off() -> None:
    """Estimates of 0.9, 0.5 and −0.2 lie nearest to shares of 0.7, 0.3 and 0."""
    own, other, n = 0.75, 0.25, 1000
    support = np.array([700, 500, 150])
    found, shares = np.empty((6, 3)), np.empty((6, 3))
    reports, chances = np.full(3, n), chances_of(own, other)
    kernels.frequencies(support, reports, chances, True, found)
    assert found[0] == pytest.approx([0.9, 0.5, -0.2])
    counts = np.array([n * (other + (own - other) * share) for share in (0.7, 0.3, 0.0)]).astype(np.int64)
    kernels.frequencies(counts, reports, chances, False, shares)
    assert found[1] == pytest.approx(shares[1], rel=1e-12)
    # Own and other have one variance here, so shares show only where devices are drawn.
    kernels.frequencies(support, reports, chances_of(own, other, 0.5), True, found)
    kernels.frequencies(counts, reports, chances_of(own, other, 0.5), False, shares)
    assert found[1] == pytest.approx(shares[1], rel=1e-12)
    assert shares[1, 0] > 1.05 * shares[1, 2]


@pytest.mark.parametrize(("own", "other"), ROUNDS)
def test_cumulants_are_those_of_the_law_of_a_count(own: float, other: float) -> None:
    """By enumeration: j of n devices hold the value. Beyond [0, 1] they are those of its ends."""
    n = 12
    for holders in (0, 3, 6, 12):
        pmf = np.convolve(
            binom.pmf(np.arange(holders + 1), holders, own),
            binom.pmf(np.arange(n - holders + 1), n - holders, other),
        )
        counts = np.arange(n + 1)
        off = counts - pmf @ counts
        second, third = kernels.cumulants(holders / n, chances_of(own, other))
        assert n * second == pytest.approx(pmf @ off**2, abs=1e-12)
        assert n * third == pytest.approx(pmf @ off**3, abs=1e-12)
    for beyond, end in ((-0.4, 0.0), (1.7, 1.0)):
        assert kernels.cumulants(beyond, chances_of(own, other, 0.5)) == kernels.cumulants(
            end, chances_of(own, other, 0.5)
        )


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("f", [0.1, 0.5, 0.8])
def test_cumulants_of_drawn_devices_are_those_of_the_hypergeometric_law(share: float, f: float) -> None:
    """A count given the holders drawn has their binomials; cumulants of a mixture add up as given here."""
    n, own, other = 900_000, 0.7, 0.05
    population = round(n / share)
    of = hypergeom(population, round(population * f), n)
    second, third = float(of.var()), float(of.stats("s")) * float(of.var()) ** 1.5
    gap, mine, theirs = own - other, own * (1 - own), other * (1 - other)
    noise = n * (f * mine + (1 - f) * theirs)
    skew = n * (f * mine * (1 - 2 * own) + (1 - f) * theirs * (1 - 2 * other))
    found = kernels.cumulants(f, chances_of(own, other, 1 - share))
    assert n * found[0] == pytest.approx(noise + gap**2 * second, rel=1e-5)
    right = skew + 3 * gap * (mine - theirs) * second + gap**3 * third
    assert n * found[1] == pytest.approx(right, abs=1e-5 * noise)


@pytest.mark.parametrize(("own", "other"), ROUNDS[:4])
@pytest.mark.parametrize("unasked", [0.0, 0.5, 0.98])
def test_score_limits_are_the_roots_of_the_test(own: float, other: float, unasked: float) -> None:
    """By bisection of the test itself, without and then with the term for skewness."""
    n, chances = 20_000, chances_of(own, other, unasked)
    counts = np.array([round(n * (other + f * (own - other))) for f in (0.08, 0.3, 0.5, 0.7, 0.92)])
    ties = np.array([0.1, 0.5, 0.9, 0.3, 0.6])
    found = np.full((6, 5), 7.0)
    kernels.score_limits(counts, np.full(5, n), ties, chances, Z, found)
    assert (found[:2] == 7.0).all()
    for row, (level, sign) in enumerate([(0, -1.0), (0, 1.0), (1, -1.0), (1, 1.0)], start=2):
        z = float(Z[level])
        for v, (count, tie) in enumerate(zip(counts.tolist(), ties.tolist(), strict=True)):
            x = count + 0.5 - tie
            centre = (x / n - other) / (own - other)

            low, high = (centre, 1.0) if sign > 0 else (0.0, centre)
            plain = brentq(rejection(x, n, sign * z, chances, 0.0), low, high, xtol=1e-14)
            _, second, third = mean_variance_third(plain, chances)
            skew = third / second * (z * z - 1) / 6
            both = brentq(rejection(x, n, sign * z, chances, skew), 0.0, 1.0, xtol=1e-14)
            assert found[row, v] == pytest.approx(both, abs=1e-11)
            if third / second > 0.1:
                assert abs(found[row, v] - plain) > 1e-9


@pytest.mark.parametrize("exponent", [3, 6, 8, 9, 10])
def test_limits_are_finite_where_all_support_what_all_hold(exponent: int) -> None:
    """With own = 1 the quadratic's discriminant is nearly 0 there, and rounding makes it negative."""
    n = np.arange(10**exponent, 10**exponent + 500)
    for other in (Fraction(1, 2), Fraction(1, 3), Fraction(2, 7)):
        low, high = interval(n.copy(), n, SupportProbabilities(Fraction(1), other))
        assert np.isfinite(low).all() and np.isfinite(high).all()


@pytest.mark.parametrize("unasked", [0.0, 0.3, 0.98])
@pytest.mark.parametrize("n", [1, 40, 3000, 10**6])
def test_a_distance_is_the_largest_power_of_2_that_is_fine_enough(n: int, unasked: float) -> None:
    """Of devices; below one only where not everybody is asked."""
    for own, other in ROUNDS:
        least = n * min(own * (1 - own), other * (1 - other))
        fine = max(0.125, 0.0625 * math.sqrt(least))
        found = kernels.distance(n, chances_of(own, other, unasked))
        assert math.frexp(found)[0] == 0.5
        assert 2 * found * (own - other) > fine
        assert found * (own - other) <= fine or (unasked == 0.0 and found == 1.0)
        assert found >= 1.0 or unasked > 0.0


def test_exact_limits_replace_those_of_few_counts_and_no_others() -> None:
    """Each is the limit of its own value, level and side; what is no count of reports keeps what it has."""
    support = np.array([3, 28, 0, 60, 5000, -1, 9, 2])
    reports = np.array([60, 400, 60, 60, 20_000, 60, 8, 0])
    # Nodes lie closer where only some are asked, and those of 400 reports other than those of 60.
    ties, chances, few = np.linspace(0.1, 0.9, 8), chances_of(0.8, 0.1, 0.5), 50.0
    assert kernels.distance(60, chances) != kernels.distance(400, chances)
    before, found = np.empty((6, 8)), np.empty((6, 8))
    kernels.frequencies(support, reports, chances, False, before)
    kernels.score_limits(support, reports, ties, chances, Z, before)
    found[:] = before
    kernels.exact_limits((support, reports, ties), few, chances, TAILS, memory(), found)
    assert found[:2].tobytes() == before[:2].tobytes()
    assert found[2:, 4:].tobytes() == before[2:, 4:].tobytes()
    replaced = 0
    for v in range(4):
        n = int(reports[v])
        setting = kernels.distance(n, chances), chances
        for side in range(4):
            tail, upper = TAILS[side // 2], side % 2 == 1
            score = float(before[2 + side, v])
            few_counts = n * kernels.cumulants(score, chances)[0] < few
            guess = min(max(score, 0.0), 1.0) * n
            right = limit(int(support[v]), n, ties[v], tail, upper, guess, setting, memory()) / n
            assert found[2 + side, v] == (right if few_counts else score)
            replaced += few_counts
    assert replaced >= 13


@pytest.mark.parametrize(("variance", "replaced"), [(1.0, False), (1e9, True)])
def test_the_variance_at_the_limit_decides_whether_counts_are_few(variance: float, replaced: bool) -> None:
    n, chances = 300, chances_of(0.8, 0.1)
    support, reports, ties = np.array([40]), np.array([n]), np.array([0.5])
    found = np.empty((6, 1))
    kernels.frequencies(support, reports, chances, False, found)
    kernels.score_limits(support, reports, ties, chances, Z, found)
    before = found.copy()
    kernels.exact_limits((support, reports, ties), variance, chances, TAILS, memory(), found)
    assert (found[2:] != before[2:]).all() == replaced
    # Between them: only the lower limit, whose variance is the smaller one, is one of few counts.
    low, high = (n * kernels.cumulants(before[2 + side, 0], chances)[0] for side in (0, 1))
    assert low < high
    found[:] = before
    kernels.exact_limits((support, reports, ties), (low + high) / 2, chances, TAILS, memory(), found)
    assert (found[2:4, 0] != before[2:4, 0]).tolist() == [True, False]


@pytest.mark.parametrize(("own", "other", "count"), [(0.7, 0.0, 0), (1.0, 0.3, 20)])
def test_a_tie_does_not_reject_an_estimate_at_an_end(own: float, other: float, count: int) -> None:
    """No count at all where only holders support, or a full one where all holders do: the tie ends at 1/2."""
    n, chances = 20, chances_of(own, other)
    inner = 0.9999 if count == 0 else 1e-4

    def limits(tie: float) -> list[float]:
        given, found = (np.array([count]), np.array([n]), np.array([tie])), np.empty((6, 1))
        kernels.frequencies(given[0], given[1], chances, False, found)
        kernels.score_limits(*given, chances, Z, found)
        kernels.exact_limits(given, 50.0, chances, TAILS, memory(), found)
        return [float(limit) for limit in found[2:, 0]]

    assert limits(inner) == pytest.approx(limits(0.5), abs=1e-9)
    assert limits(1 - inner) != pytest.approx(limits(0.5), abs=1e-4)
