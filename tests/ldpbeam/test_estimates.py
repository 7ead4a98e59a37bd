"""Estimates and intervals: coverage is computed from the exact law of the counts, never sampled."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom

from ldpbeam.estimates import CONFIDENCE, FEW, Estimates, estimate, interval, tie_breakers, variance
from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol
from ldpbeam.support import SupportProbabilities
from tests.ldpbeam.binomial_limits import binomial_limits
from tests.reference import estimates as reference
from tests.reference.settings import LEVELS


@cache
def built(name: str, size: int) -> FrequencyProtocol:
    from ldpbeam.protocols import PROTOCOLS

    return protocol(name, size, Parameters(**{n: LEVELS[n] for n in PROTOCOLS[name].PARAMETERS}))


def binomial(n: int, p: float) -> tuple[int, np.ndarray]:
    """First count and probabilities of the counts that carry all but 1e-14 of B(n, p)."""
    first, last = int(binom.ppf(5e-15, n, p)), int(binom.isf(5e-15, n, p))
    first = max(first, 0)
    return first, binom.pmf(np.arange(first, last + 1), n, p)


@cache
def law(probabilities: SupportProbabilities, holders: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts and P(C = count): holders support with own, the rest with other."""
    start, mine = binomial(holders, float(probabilities.own))
    begin, theirs = binomial(n - holders, float(probabilities.other))
    pmf = np.convolve(mine, theirs)
    return np.arange(start + begin, start + begin + pmf.size), pmf


def coverage(probabilities: SupportProbabilities, holders: int, n: int, ties: float | None = None) -> float:
    """Exact probability that the interval holds the true frequency."""
    counts, pmf = law(probabilities, holders, n)
    split = None if ties is None else np.full(counts.size, ties)
    low, high = interval(counts, n, probabilities, split)
    truth = holders / n
    slack = 1e-12
    return float(pmf[(low <= truth + slack) & (truth - slack <= high)].sum())


def published(probabilities: SupportProbabilities, holders: int, n: int) -> float:
    """Exact coverage with ties uniform in (0, 1).

    Limits fall as the tie rises, so for a count the ties that cover the truth are an interval. Where both
    ends of it cover, all do; where one does, or the truth's count is so likely that ties between fail both
    ends, 400 ties are tried, which is off by 1/800 of that count's probability at most.
    """
    counts, pmf = law(probabilities, holders, n)
    truth = holders / n

    def holds(support: np.ndarray, ties: np.ndarray) -> np.ndarray:
        low, high = interval(support, n, probabilities, ties)
        assert (low < high).all()
        return (low <= truth + 1e-12) & (truth - 1e-12 <= high)

    first, last = (holds(counts, np.full(counts.size, tie)) for tie in (1e-9, 1 - 1e-9))
    covered = (first & last).astype(np.float64)
    expected = float(probabilities.other) + truth * float(probabilities.gap)
    between = ~first & ~last & (binom.pmf(counts, n, expected) > 0.8)
    ties = (np.arange(400) + 0.5) / 400
    for place in np.flatnonzero((first != last) | between):
        covered[place] = holds(np.full(400, counts[place]), ties).mean()
    return float(covered @ pmf)


def stevens(probabilities: SupportProbabilities, holders: int, n: int) -> float:
    """Coverage of the binomial limits alone, with ties uniform in (0, 1), by the midpoint rule."""
    counts, pmf = law(probabilities, holders, n)
    other, gap = float(probabilities.other), float(probabilities.gap)
    truth = other + holders / n * gap
    ties = np.repeat((np.arange(200) + 0.5) / 200, counts.size)
    many, chances = np.tile(counts, 200), np.tile(pmf, 200)
    (low, _), (high, _) = binomial_limits(many, np.full(many.size, n), ties, (0.025, 0.025))
    return float(chances[(low <= truth + 1e-12) & (truth - 1e-12 <= high)].sum()) / 200


def test_limits_of_many_values_and_both_levels_are_those_of_each_alone() -> None:
    """They are sought together: whatever stands beside a value must not show in its limits."""
    probabilities, n = built("grr", 100).support, 3000
    draw = np.random.default_rng(3)
    support, ties = draw.binomial(n, 0.012, 20_000), draw.random(20_000)
    together = estimate(support, n, probabilities, ties)
    everyone = 1 - 0.05 / support.size
    for place in (0, 1, 9_999, 16_383, 16_384, 19_999):
        one = slice(place, place + 1)
        for level, found in (
            (0.95, (together.low, together.high)),
            (everyone, (together.low_all, together.high_all)),
        ):
            alone = interval(support[one], n, probabilities, ties[one], level)
            # Cells for another pair of levels have other digits behind the tenth.
            assert [bound[place] for bound in found] == pytest.approx(
                [float(bound[0]) for bound in alone], rel=1e-10, abs=1e-10
            )


@pytest.mark.parametrize("size", [1, 7, 360, 1_000])
@pytest.mark.parametrize("name", ["grr", "oue", "loloha", "sampled"])
@pytest.mark.parametrize("n", [1, 50, 3_000, 1_000_000, None])
def test_every_column_is_that_of_the_formulas(name: str, n: int | None, size: int) -> None:
    """Kernels against numpy and halving; bit for bit, but for limits of a binomial test.

    With None each value has its own n, and some have none.
    """
    probabilities = built("oue" if name == "sampled" else name, 100).support
    if name == "sampled":
        probabilities = probabilities.among(Fraction(1, 3))
    draw = np.random.default_rng(size)
    reports = draw.integers(0, 5_000, size) if n is None else np.full(size, n)
    reports[0] = max(reports[0], 1)
    share = draw.choice([float(probabilities.other), float(probabilities.own)], size, p=[0.9, 0.1])
    support, ties = draw.binomial(reports, share), draw.random(size)
    found = estimate(support, reports if n is None else n, probabilities, ties)
    assert found.n.tolist() == reports.tolist()
    assert found.support.tolist() == support.tolist()
    asked = reports > 0
    counts, known = support[asked], reports[asked]
    columns = list(reference.frequencies(counts, known, probabilities))
    normal = []
    for level in (CONFIDENCE, 1 - (1 - CONFIDENCE) / size):
        columns += reference.limits(counts, known, probabilities, ties[asked], level, FEW)
        normal += reference.limits(counts, known, probabilities, ties[asked], level, 0)
    names = ("frequency", "std_error", "low", "high", "low_all", "high_all")
    for column, slow, score in zip(names, columns, columns[:2] + normal, strict=True):
        fast = getattr(found, column)
        assert np.isnan(fast[~asked]).all()
        exact = slow == score
        np.testing.assert_array_equal(fast[asked][exact], slow[exact], err_msg=column)
        slack = 1e-9 * np.maximum(1.0, np.abs(slow))
        assert (np.abs(fast[asked] - slow) <= slack).all(), column


@pytest.mark.parametrize("n", [200, 20_000, 2_000_000])
@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 3)])
def test_one_number_of_reports_is_as_many_equal_ones(n: int, share: Fraction) -> None:
    """Bit for bit, also where arrays are read-only or have gaps; and no array of the caller is changed."""
    probabilities = built("oue", 100).support.among(share)
    draw = np.random.default_rng(n)
    support, ties, reports = draw.binomial(n, 0.01, 200), draw.random(200), np.full(200, n)
    given = [array.copy() for array in (support, ties, reports)]
    one = estimate(support, n, probabilities, ties)
    wide = np.stack([support, reports], 1)
    gaps = estimate(wide[:, 0], wide[:, 1], probabilities, np.repeat(ties, 2)[::2])
    for array in (support, ties, reports):
        array.setflags(write=False)
    fixed = estimate(support, reports, probabilities, ties)
    for found in (gaps, fixed):
        assert found.numbers.tobytes() == one.numbers.tobytes()
        assert found.n.tolist() == one.n.tolist() == [n] * 200
    assert not np.shares_memory(fixed.n, reports)
    for array, before in zip((support, ties, reports), given, strict=True):
        assert np.array_equal(array, before)


def test_the_value_with_fewest_reports_decides_whether_counts_are_few() -> None:
    """Wherever it stands."""
    probabilities = built("oue", 100).support
    for place in (0, 5, 9):
        reports, support = np.full(10, 10**6), np.full(10, 10**4)
        reports[place], support[place] = 30, 1
        mixed = estimate(support, reports, probabilities)
        one = slice(place, place + 1)
        level = 1 - (1 - CONFIDENCE) / 10
        low, high = interval(support[one], 30, probabilities, None, level)
        assert mixed.low_all[place] == pytest.approx(low[0], rel=1e-10)
        assert mixed.high_all[place] == pytest.approx(high[0], rel=1e-10)


def test_an_estimate_needs_a_report_behind_some_value() -> None:
    probabilities = built("grr", 100).support
    for nobody in (0, np.zeros(3, np.int64)):
        with pytest.raises(ValueError, match="at least one report"):
            estimate(np.zeros(3, np.int64), nobody, probabilities)
    for place in range(3):
        reports = np.zeros(3, np.int64)
        reports[place] = 4
        assert np.isfinite(estimate(np.zeros(3, np.int64), reports, probabilities).low).sum() == 1


def test_ties_are_split_in_half_unless_said_otherwise() -> None:
    counts, probabilities = np.arange(40), built("grr", 100).support
    halves = np.full(counts.size, 0.5)
    for found, asked in zip(
        interval(counts, 300, probabilities), interval(counts, 300, probabilities, halves), strict=True
    ):
        np.testing.assert_array_equal(found, asked)


def test_there_are_no_limits_without_a_report() -> None:
    found = estimate(np.array([1, 0, 2]), np.array([3, 0, 5]), built("grr", 100).support)
    assert np.isnan(found.low).tolist() == [False, True, False]


@pytest.mark.parametrize("exponent", [3, 6, 8, 9, 10])
def test_limits_are_finite_where_all_support_what_all_hold(exponent: int) -> None:
    """With own = 1 the quadratic's discriminant is nearly 0 there, and rounding makes it negative."""
    n = np.arange(10**exponent, 10**exponent + 500)
    for other in (Fraction(1, 2), Fraction(1, 3), Fraction(2, 7)):
        low, high = interval(n.copy(), n, SupportProbabilities(Fraction(1), other))
        assert np.isfinite(low).all() and np.isfinite(high).all()


FEW_SUPPORTS = [("grr", 100, 300), ("l_grr", 360, 2000), ("l_grr", 1412, 10_336)]
"""Expected supports of 2, 6 and 7 among many reports."""

MIXED = [("loloha", 8, 60), ("oue", 8, 40), ("l_osue", 8, 100)]
"""Few reports."""


@pytest.mark.parametrize("name", ["grr", "l_grr", "l_osue", "l_sue", "oue", "loloha"])
@pytest.mark.parametrize("size", [2, 8, 100])
@pytest.mark.parametrize("n", [5000, 40_000])
def test_score_intervals_cover_095(name: str, size: int, n: int) -> None:
    """Where supports are many the score limits cover 0.95 within 0.008 at f = 0, .01, .2, .5
    and 1.
    """
    probabilities = built(name, size).support
    if n * float(probabilities.other) < 200:
        n = int(260 / float(probabilities.other))
    for frequency in (0.0, 0.01, 0.2, 0.5, 1.0):
        found = coverage(probabilities, round(frequency * n), n)
        assert abs(found - 0.95) < 0.008, (frequency, found)


@pytest.mark.parametrize("name,size,n", [*FEW_SUPPORTS, *MIXED])
def test_stevens_limits_cover_095_exactly(name: str, size: int, n: int) -> None:
    """At f = 0 the binomial is the true law, and split ties make the coverage 0.95 however few
    counts.
    """
    probabilities = built(name, size).support
    assert n * float(probabilities.other) < 200
    assert abs(stevens(probabilities, 0, n) - 0.95) < 0.002


# --- what is published covers, everywhere

Case = tuple[str, int, dict[str, float], int, float]
"""Protocol, values, levels, reports, frequency."""


def two(longitudinal: float, first: float) -> dict[str, float]:
    return {"epsilon_longitudinal": longitudinal, "epsilon_first": first}


KNOWN: list[Case] = [
    # Where choosing by the data covered less than either choice: 0.854, 0.896, 0.901, 0.922, 0.879, 0.807.
    ("loloha", 360, two(8, 7.5), 300, 0.0),
    ("loloha", 360, two(8, 7.5), 1000, 0.0),
    # Hardly any holder fails to support its value: score limits alone cover 0.884.
    ("blh", 100, {"epsilon": 12}, 20_000, 1.0),
    ("grr", 100, {"epsilon": 3}, 10, 0.0),
    ("grr", 100, {"epsilon": 3}, 100, 0.0),
    ("oue", 100, {"epsilon": 5}, 30, 1 / 30),
    ("sue", 100, {"epsilon": 20}, 5000, 0.5),
    # Where the score limits or the binomial ones alone cover least.
    ("l_grr", 1412, two(2, 1), 1000, 0.0),
    ("sue", 100, {"epsilon": 20}, 20_000, 0.5),
    ("sue", 100, {"epsilon": 12}, 5000, 0.5),
    ("grr", 2, {"epsilon": 12}, 5000, 0.5),
    ("oue", 100, {"epsilon": 8}, 30, 1 / 30),
    ("oue", 100, {"epsilon": 5}, 10, 0.1),
    ("oue", 100, {"epsilon": 3}, 30, 0.0),
    # On either side of the expected support of 200, and at 20 and just above.
    ("blh", 100, {"epsilon": 1}, 399, 0.0),
    ("blh", 100, {"epsilon": 1}, 401, 0.0),
    ("grr", 100, {"epsilon": 1}, 2100, 0.0),
    ("grr", 100, {"epsilon": 3}, 2600, 0.05),
    ("grr", 2, {"epsilon": 0.1}, 1000, 1.0),
    ("l_grr", 10, two(1, 0.5), 5000, 0.0),
    ("grr", 2, {"epsilon": 1}, 1, 0.0),
    ("grr", 2, {"epsilon": 1}, 1, 1.0),
    ("grr", 1000, {"epsilon": 1}, 3, 1 / 3),
    ("loloha", 10, two(4, 3), 100, 0.5),
    ("l_sue", 360, two(8, 7.5), 1000, 0.05),
    ("l_osue", 360, two(8, 7.5), 300, 1 / 300),
]
"""The worst of :data:`GRID` and what was worst before."""


def grid() -> Iterator[Case]:
    """4400 settings: every kind of channel, levels from next to nothing to no noise, 1 to 20,000 reports."""
    for n in (1, 3, 10, 30, 100, 300, 1000, 5000, 20_000):
        kinds: list[tuple[str, int, dict[str, float]]] = []
        for epsilon in (1e-3, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0):
            kinds += [("grr", k, {"epsilon": epsilon}) for k in (2, 10, 100, 1000)]
            kinds += [(name, 100, {"epsilon": epsilon}) for name in ("sue", "oue", "blh", "olh")]
        for levels in (two(2, 1), two(1, 0.5), two(8, 7.5), two(4, 3)):
            kinds += [(name, k, levels) for name in ("l_grr", "loloha") for k in (10, 360, 1412)]
            kinds += [(name, 360, levels) for name in ("l_osue", "l_sue")]
        for kind in kinds:
            yield from ((*kind, n, frequency) for frequency in (0.0, 1 / n, 0.05, 0.5, 1.0))


GRID = list(grid())
LEAST = 0.93


def coverage_of(case: Case) -> float:
    name, size, levels, n, frequency = case
    kind = protocol(name, size, Parameters(**levels))  # type: ignore[arg-type]
    assert isinstance(kind, FrequencyProtocol)
    return published(kind.support, round(frequency * n), n)


@pytest.mark.parametrize("case", KNOWN, ids=str)
def test_published_intervals_cover_093_where_that_is_hardest(case: Case) -> None:
    assert coverage_of(case) >= LEAST


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
def test_published_intervals_cover_093_in_thousands_of_settings(part: int) -> None:
    """Exact, by convolution. About 2 minutes in all."""
    cases = GRID[part::40]
    assert len(cases) >= 100
    short = [(case, found) for case in cases if (found := coverage_of(case)) < LEAST]
    assert short == []


@pytest.mark.parametrize("expected", [0.2, 6.6, 21, 59, 199, 201])
@pytest.mark.parametrize("confidence", [0.95, 1 - 0.05 / 360])
def test_an_interval_is_the_hull_of_both_below_an_expected_support_of_200(
    expected: float, confidence: float
) -> None:
    """With each test's own definition: the truth at a limit is just not rejected."""
    probabilities = protocol("l_grr", 100, Parameters(**two(2, 1))).support  # type: ignore[arg-type, attr-defined]
    own, other, gap = (float(p) for p in (probabilities.own, probabilities.other, probabilities.gap))
    n = round(expected / other)
    counts = np.unique(
        np.concatenate([np.arange(5), np.round(expected + np.sqrt(expected) * np.arange(-3, 6))])
    )
    counts = counts[counts >= 0].astype(np.int64)
    ties = np.linspace(0.03, 0.97, counts.size)
    low, high = interval(counts, n, probabilities, ties, confidence)
    tail = (1 - confidence) / 2
    z = NormalDist().inv_cdf(1 - tail)

    def farther(frequency: np.ndarray, slack: float = 0.0) -> np.ndarray:
        spread = frequency * own * (1 - own) + (1 - frequency) * other * (1 - other)
        distance = counts - n * (other + frequency * gap)
        return np.asarray(distance**2 > z * z * n * spread * (1 + slack))

    def above(frequency: np.ndarray) -> np.ndarray:
        p = other + frequency * gap
        inside = np.clip(p, 0, 1)
        found = binom.sf(counts, n, inside) + ties * binom.pmf(counts, n, inside)
        # What is no probability is rejected.
        return np.where(p < -1e-12, -1.0, np.where(p > 1 + 1e-12, 2.0, found))

    # A limit is just not rejected by one of the tests, and a little beyond it both reject.
    step = 1e-6 / gap
    for limit, further, rejected in (
        (low, low - step, lambda f, slack=0.0: above(f) < tail * (1 - slack)),
        (high, high + step, lambda f, slack=0.0: above(f) > 1 - tail * (1 - slack)),
    ):
        if expected < 200:
            assert (~farther(limit, 1e-9) | ~rejected(limit, 1e-6)).all()
            assert (farther(further) & rejected(further)).all()
        else:
            assert (~farther(limit, 1e-9)).all()
            assert farther(further).all()


@pytest.mark.parametrize("size", [2, 3, 50])
def test_the_simultaneous_interval_shares_the_5_percent_among_all_values(size: int) -> None:
    """Exact miss probability of a value, in a setting with many counts: 0.05/k, and not 0.05/(k − 1)."""
    n, kind = 40_000, built("oue", size)
    counts, pmf = law(kind.support, 0, n)
    told = np.resize(counts, -(-counts.size // size) * size).reshape(-1, size)
    found = [estimate(row, n, kind.support) for row in told]
    low = np.concatenate([f.low_all for f in found])[: counts.size]
    high = np.concatenate([f.high_all for f in found])[: counts.size]
    missed = float(pmf[(low > 0) | (high < 0)].sum())
    assert missed == pytest.approx(0.05 / size, rel=0.05)
    if size < 50:
        assert missed < 0.8 * 0.05 / (size - 1)
    shared = interval(told[0], n, kind.support, None, 1 - 0.05 / size)
    np.testing.assert_array_equal(found[0].low_all, shared[0])
    np.testing.assert_array_equal(found[0].high_all, shared[1])


@pytest.mark.parametrize("name,size,n", [*FEW_SUPPORTS, *MIXED])
def test_mid_p_limits_cover_about_095(name: str, size: int, n: int) -> None:
    """Without random ties coverage stays in [.94, .98] at f = 0, the extra being discreteness."""
    found = coverage(built(name, size).support, 0, n)
    assert 0.94 <= found <= 0.98


@pytest.mark.parametrize("holders", [1, 5, 20])
def test_stevens_limits_are_not_below_095_for_small_true_frequencies(holders: int) -> None:
    """The true law of a fixed population is narrower than the binomial: coverage is at least
    nominal.
    """
    probabilities = built("l_grr", 1412).support
    assert 0.948 <= stevens(probabilities, holders, 10_336) <= 0.96
    assert 0.948 <= published(probabilities, holders, 10_336) <= 0.97


def test_wald_intervals_would_fail_where_supports_are_a_handful() -> None:
    """L-GRR, k = 1412, n = 10336 (DB_MT): estimate ± 1.96 standard errors misses by far, ours does
    not.
    """
    probabilities = built("l_grr", 1412).support
    n = 10_336
    counts, pmf = law(probabilities, 0, n)
    frequency = (counts / n - float(probabilities.other)) / float(probabilities.gap)
    error = NormalDist().inv_cdf(0.975) * np.sqrt(variance(frequency, n, probabilities))
    wald = float(pmf[np.abs(frequency) <= error].sum())
    assert abs(wald - 0.95) > 0.015
    # Its two tails should be 0.025 each and are nowhere near each other.
    too_high = float(pmf[frequency - error > 0].sum())
    too_low = float(pmf[frequency + error < 0].sum())
    assert max(too_high, too_low) > 2.5 * min(too_high, too_low)
    assert 0.948 <= published(probabilities, 0, n) <= 0.97


@pytest.mark.parametrize("name,size,n", [*FEW_SUPPORTS, *MIXED, ("l_osue", 8, 3000), ("sue", 3, 500)])
def test_limits_rise_with_the_support_and_hold_the_estimate(name: str, size: int, n: int) -> None:
    """More support never lowers a limit; the estimate lies inside for mid-p and score limits."""
    probabilities = built(name, size).support
    counts = np.arange(n + 1)
    low, high = interval(counts, n, probabilities)
    frequency = (counts / n - float(probabilities.other)) / float(probabilities.gap)
    grain = 1e-9 / float(probabilities.gap)
    assert np.isfinite(low).all() and np.isfinite(high).all()
    assert (low <= frequency + grain).all()
    assert (frequency <= high + grain).all()
    assert (low < high).all()
    for limit in (low, high):
        assert (np.diff(limit) >= -grain).all()


@pytest.mark.parametrize("tie", [0.03, 0.5, 0.97])
def test_split_ties_keep_the_estimate_inside_from_the_first_support_on(tie: float) -> None:
    """Random ties move a limit by less than one count; only C = 0 with an extreme tie may exclude
    it.
    """
    probabilities = built("l_grr", 360).support
    counts = np.arange(0, 60)
    low, high = interval(counts, 2000, probabilities, np.full(60, tie))
    frequency = (counts / 2000 - float(probabilities.other)) / float(probabilities.gap)
    assert (low <= frequency + 1e-9).all()
    assert (frequency[1:] <= high[1:] + 1e-9).all()


@pytest.mark.parametrize("name", ["grr", "l_grr", "sue", "oue", "l_osue", "l_soue", "loloha", "blh"])
@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_degenerate_counts_give_finite_ordered_limits(name: str, n: int) -> None:
    """No support at all, full support, a single report: finite, ordered, and never a warning."""
    probabilities = built(name, 8).support
    counts = np.array([0, n, n // 2])
    for ties in (None, np.array([1e-16, 1 - 1e-16, 0.5])):
        low, high = interval(counts, n, probabilities, ties)
        assert np.isfinite(low).all() and np.isfinite(high).all()
        assert (low < high).all()
    found = estimate(counts, n, probabilities)
    assert (found.n == n).all()
    assert (found.low_all <= found.low).all() and (found.high <= found.high_all).all()
    assert (found.std_error > 0).all()
    # Plugged-in frequencies are clipped, and a single report never has variance 0.
    assert np.isfinite(found.std_error).all()


def test_no_report_is_not_an_estimate() -> None:
    """With n = 0 there is nothing to estimate, and dividing by it must not happen."""
    with pytest.raises(ValueError, match="at least one report"):
        estimate(np.zeros(3, np.int64), 0, built("grr", 3).support)


@given(st.integers(0, 500), st.integers(1, 500))
def test_estimates_are_the_formula(count: int, n: int) -> None:
    """f̂ = (C/n − other)/(own − other) in floats, against the same in rationals."""
    from fractions import Fraction

    probabilities = built("l_osue", 8).support
    count = min(count, n)
    exact = (Fraction(count, n) - probabilities.other) / probabilities.gap
    found = estimate(np.array([count, 0]), n, probabilities)
    assert found.frequency[0] == pytest.approx(float(exact), rel=1e-12, abs=1e-12)
    assert found.std_error[0] == pytest.approx(float(np.sqrt(variance(found.frequency, n, probabilities))[0]))


@pytest.mark.parametrize("name", ["grr", "l_grr", "l_osue", "oue", "loloha"])
@pytest.mark.parametrize("n", [1, 10, 60])
def test_the_variance_is_that_of_the_exact_law(name: str, n: int) -> None:
    """Variance by enumeration of all counts, for every number of holders."""
    probabilities = built(name, 8).support
    for holders in {0, 1, n // 2, n}:
        counts, pmf = law(probabilities, holders, n)
        values = (counts / n - float(probabilities.other)) / float(probabilities.gap)
        mean = float((pmf * values).sum())
        truth = float((pmf * (values - mean) ** 2).sum())
        assert mean == pytest.approx(holders / n, abs=1e-11)
        found = float(variance(np.array([holders / n]), n, probabilities)[0])
        assert found == pytest.approx(truth, rel=1e-9)
    outside = variance(np.array([-3.0, 0.0, 1.0, 7.0]), n, probabilities)
    assert outside[0] == outside[1] and outside[2] == outside[3]


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
@pytest.mark.thorough
def test_sampling_devices_adds_its_own_variance(share: float) -> None:
    """Where a share of the population reports, who is drawn is random too: exact mixture.

    Variance and coverage of the limits, at a level whose noise does not hide the sampling.
    """
    from fractions import Fraction

    base = protocol("grr", 2, Parameters(epsilon=1.5)).support
    sampled = SupportProbabilities(base.own, base.other, Fraction(share))
    population, n = 4_000, int(4_000 * share)
    for holders in (0, 1200, 2000):
        drawn = hypergeom(population, holders, n)
        chosen = [m for m in range(min(n, holders) + 1) if drawn.pmf(m) > 1e-9]
        mean = covered = square = 0.0
        for m in chosen:
            counts, pmf = law(base, m, n)
            weight = float(drawn.pmf(m)) * pmf
            values = (counts / n - float(base.other)) / float(base.gap)
            low, high = interval(counts, n, sampled)
            truth = holders / population
            mean += float((weight * values).sum())
            square += float((weight * (values - truth) ** 2).sum())
            covered += float(weight[(low <= truth) & (truth <= high)].sum())
        assert mean == pytest.approx(holders / population, abs=1e-5)
        stated = float(variance(np.array([holders / population]), n, sampled)[0])
        assert stated == pytest.approx(square, rel=2e-3)
        # Two limits of 0.25 have n·other = 182, so that they hold the binomial ones, too.
        assert -0.008 < covered - 0.95 < (0.015 if n * float(base.other) < 200 else 0.008)


def test_tie_breakers_are_reproducible_prefix_stable_and_inside() -> None:
    """The same counts always give the same interval, whatever the domain's size or the platform's
    words.
    """
    long = tie_breakers(0xFFFFFFFFFFFFFFFF, 5, 10_000)
    assert np.array_equal(long, tie_breakers(0xFFFFFFFFFFFFFFFF, 5, 10_000))
    for size in (0, 1, 2, 3, 4, 5, 127):
        assert np.array_equal(long[:size], tie_breakers(0xFFFFFFFFFFFFFFFF, 5, size))
    assert ((long > 0) & (long < 1)).all()
    assert abs(long.mean() - 0.5) < 0.03
    for digest, epoch in ((1, 5), (0xFFFFFFFFFFFFFFFF, 6), (0, 0), (3, -1), (3, 1 << 20)):
        other = tie_breakers(digest, epoch, 100)
        assert not np.isin(other, long).any()
        assert ((other > 0) & (other < 1)).all()
    # Golden values: a change here changes published intervals.
    assert tie_breakers(0x4821436B7221B763, 3, 2).tolist() == GOLDEN_TIES


GOLDEN_TIES = [0.16229251826913588, 0.6191968541086865]


def largest_error_bound(n: int, size: int, beta: float, probabilities: SupportProbabilities) -> float:
    """What the largest error of a histogram stays below with probability at least 1 − ``beta``.

    The bound is sqrt(k/(4 n β (own − other)²)): Proposition 3.6 of LOLOHA with the squares that its print
    misses (docs/maths.md correction 3). It is Chebyshev's inequality summed over the values, with own(1−own)
    and other(1−other) at most 1/4, so it is safe and wide; ``interval`` at level 1 − β/k is far narrower.

    Args:
        n: number of reports, at least 1.
        size: k, number of values.
        beta: probability that the bound may fail, in (0, 1).
        probabilities: own and other, everyone being asked.
    """
    return float(np.sqrt(size / (4 * n * beta)) / float(probabilities.gap))


@pytest.mark.parametrize("beta", [0.05, 0.2])
def test_the_printed_bound_of_the_largest_error_fails_where_the_squared_one_holds(beta: float) -> None:
    """Proposition 3.6 of LOLOHA misses squares (correction 3): exact failure probabilities at k = 2."""
    n, size = 4000, 2
    levels = Parameters(epsilon_longitudinal=0.2, epsilon_first=0.1)
    channel = protocol("l_grr", size, levels)
    assert isinstance(channel, FrequencyProtocol)
    support = channel.support
    counts, pmf = law(support, n // 2, n)
    # Of two exclusive values the errors are equal and opposite: the largest error is that of either.
    error = np.abs((counts / n - float(support.other)) / float(support.gap) - 0.5)
    right = largest_error_bound(n, size, beta, support)
    printed = right * np.sqrt(float(support.gap))
    assert pmf[error >= right].sum() <= beta
    assert pmf[error >= printed].sum() > beta


@pytest.mark.parametrize("name", ["grr", "l_osue", "loloha"])
def test_all_rows_are_covered_at_once(name: str) -> None:
    """The simultaneous interval misses a row with at most its share of the 5 %, by the exact law of a row."""
    size, n = 50, 4000
    channel = built(name, size)
    for holders in (0, 40, 2000):
        counts, pmf = law(channel.support, holders, n)
        told = np.resize(counts, -(-counts.size // size) * size).reshape(-1, size)
        found = [estimate(row, n, channel.support) for row in told]
        low = np.concatenate([f.low_all for f in found])[: counts.size]
        high = np.concatenate([f.high_all for f in found])[: counts.size]
        missed = pmf[(low > holders / n) | (high < holders / n)].sum()
        # 1.5: tails of the score test at this level, where counts are few, are not exactly nominal.
        assert missed <= 1.5 * 0.05 / size
        assert missed >= 0.2 * 0.05 / size


def test_rows_and_their_joining_keep_every_column() -> None:
    """Pieces of a result, put together again, are the result; each column is unlike all others."""
    counts = np.arange(10, 34, dtype=np.int64).reshape(8, 3)
    whole = Estimates(counts[0], counts[1], counts[2:] / 7)
    pieces = [whole.rows(slice(0, 1)), whole.rows(slice(1, 3))]
    again = Estimates.joined(pieces)
    names = ("n", "support", "frequency", "std_error", "low", "high", "low_all", "high_all")
    for row, name in enumerate(names):
        column = getattr(whole, name)
        assert column.tolist() == (counts[row] / (7 if row > 1 else 1)).tolist()
        assert getattr(pieces[1], name).tolist() == column[1:].tolist()
        assert getattr(again, name).tolist() == column.tolist()
        assert getattr(again, name).dtype == column.dtype
    unknown = Estimates.unknown(2)
    assert unknown.n.tolist() == unknown.support.tolist() == [0, 0]
    assert all(
        np.isnan(getattr(unknown, name)).all() for name in ("frequency", "std_error", "low", "high_all")
    )
