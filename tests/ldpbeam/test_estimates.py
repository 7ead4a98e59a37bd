"""Estimates and intervals: coverage is computed from the exact law of the counts, never sampled."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom

from ldpbeam.estimates import (
    CONFIDENCE,
    FEW,
    estimate,
    expected_half_width,
    interval,
    nearest_shares,
    tie_breakers,
    variance,
)
from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol
from ldpbeam.support import SupportProbabilities
from tests.narrow import frequencies, present
from tests.reference import estimates as reference
from tests.reference.settings import levels_of


@cache
def built(name: str, size: int) -> FrequencyProtocol[Any]:
    from ldpbeam.protocols import PROTOCOLS

    return frequencies(protocol(name, size, Parameters(**levels_of(PROTOCOLS[name]))))


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


def test_limits_of_many_values_and_both_levels_are_those_of_each_alone() -> None:
    probabilities, n = built("grr", 100).estimator.support, 3000
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
            assert [bound[place] for bound in found] == [float(bound[0]) for bound in alone]


@pytest.mark.parametrize("size", [1, 360])
@pytest.mark.parametrize("name", ["grr", "oue", "loloha", "sampled"])
@pytest.mark.parametrize("n", [1, 3_000, None])
def test_every_column_is_that_of_the_formulas(name: str, n: int | None, size: int) -> None:
    """Kernels against numpy, bit for bit; limits of few counts have the tests of test_exact_limits.py."""
    probabilities = built("oue" if name == "sampled" else name, 100).estimator.support
    if name == "sampled":
        probabilities = probabilities.among(Fraction(1, 3))
    draw = np.random.default_rng(size)
    reports = draw.integers(0, 5_000, size) if n is None else np.full(size, n)
    reports[0] = max(reports[0], 1)
    share = draw.choice([float(probabilities.other), float(probabilities.own)], size, p=[0.9, 0.1])
    support, ties = draw.binomial(reports, share), draw.random(size)
    given = support, reports if n is None else n, probabilities, ties
    found = estimate(*given, sum_to_one=size > 1)
    assert found.n.tolist() == reports.tolist()
    assert found.support.tolist() == support.tolist()
    asked = reports > 0
    counts, known = support[asked], reports[asked]
    frequency, error = reference.frequencies(counts, known, probabilities)
    clipped = estimate(*given)
    assert clipped.std_error[asked].tolist() == error.tolist()
    assert clipped.numbers[2:].tobytes() == found.numbers[2:].tobytes()
    assert found.frequency[asked].tolist() == frequency.tolist()
    if size > 1:
        error = reference.frequencies(counts, known, probabilities, sum_to_one=True)[1]
        # Sums of thousands of numbers, in another order.
        assert found.std_error[asked] == pytest.approx(error, rel=1e-12)
    assert np.isnan(found.numbers[:, ~asked]).all()
    many = 0
    for place, level in ((2, CONFIDENCE), (4, 1 - (1 - CONFIDENCE) / size)):
        z = NormalDist().inv_cdf(0.5 + level / 2)
        sides = reference.score_limits(counts, known, probabilities.chances, ties[asked], z)
        ends = reference.end_within(*sides, frequency)
        for side, end, row in zip(sides, ends, found.numbers[place : place + 2, asked], strict=True):
            score = known * reference.cumulants(side, probabilities.chances)[0] >= FEW
            assert row[score].tolist() == end[score].tolist()
            many += int(np.count_nonzero(score))
    assert many or n is None or n < 100_000


def test_an_estimate_needs_a_report_behind_some_value() -> None:
    probabilities = built("grr", 100).estimator.support
    for nobody in (0, np.zeros(3, np.int64)):
        with pytest.raises(ValueError, match="at least one report"):
            estimate(np.zeros(3, np.int64), nobody, probabilities)
    for place in range(3):
        reports = np.zeros(3, np.int64)
        reports[place] = 4
        assert np.isfinite(estimate(np.zeros(3, np.int64), reports, probabilities).low).sum() == 1


FEW_SUPPORTS = [("grr", 100, 300), ("l_grr", 360, 2000), ("l_grr", 1412, 10_336)]
"""Expected supports of 2, 6 and 7 among many reports."""

MIXED = [("loloha", 8, 60), ("oue", 8, 40), ("l_osue", 8, 100)]
"""Few reports."""


@pytest.mark.parametrize("name,size,n", [*FEW_SUPPORTS, *MIXED, ("l_osue", 8, 3000), ("sue", 3, 500)])
def test_limits_rise_with_the_support_and_hold_the_estimate(name: str, size: int, n: int) -> None:
    probabilities = built(name, size).estimator.support
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


@pytest.mark.parametrize("name", ["grr", "l_grr", "sue", "oue", "l_osue", "l_soue", "loloha", "blh"])
@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_degenerate_counts_give_finite_ordered_limits(name: str, n: int) -> None:
    probabilities = built(name, 8).estimator.support
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


@pytest.mark.parametrize("name", ["grr", "l_grr", "l_osue", "oue", "loloha"])
@pytest.mark.parametrize("n", [1, 10, 60])
def test_the_variance_is_that_of_the_exact_law(name: str, n: int) -> None:
    probabilities = built(name, 8).estimator.support
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
    """Where a share of the population reports, who is drawn is random too: exact mixture."""
    from fractions import Fraction

    base = present(protocol("grr", 2, Parameters(epsilon=1.5)).estimator.support)
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
        # A frequency of 0 is missed from below only.
        assert covered == pytest.approx(0.95 if holders else 0.975, abs=0.004)


def test_tie_breakers_are_reproducible_prefix_stable_and_inside() -> None:
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


@pytest.mark.parametrize("name", ["grr", "l_osue", "loloha"])
def test_all_rows_are_covered_at_once(name: str) -> None:
    """The simultaneous interval misses a row with at most its share of the 5 %, by the exact law of a row."""
    size, n = 50, 4000
    channel = built(name, size)
    for holders in (0, 40, 2000):
        counts, pmf = law(channel.estimator.support, holders, n)
        told = np.resize(counts, -(-counts.size // size) * size).reshape(-1, size)
        found = [estimate(row, n, channel.estimator.support) for row in told]
        low = np.concatenate([f.low_all for f in found])[: counts.size]
        high = np.concatenate([f.high_all for f in found])[: counts.size]
        missed = pmf[(low > holders / n) | (high < holders / n)].sum()
        # 1.5: tails of the score test at this level, where counts are few, are not exactly nominal.
        assert missed <= 1.5 * 0.05 / size
        assert missed >= 0.2 * 0.05 / size


SUM_TO_ONE = [
    ("l_grr", 1684, (2.0, 1.0), 9_123, True),
    ("l_grr", 1412, (2.0, 1.0), 10_336, True),
    ("grr", 100_000, (1.0,), 1_000_000, True),
    ("grr", 360, (3.0,), 20_000, True),
    ("oue", 5_000, (8.0,), 2_000, True),
    ("loloha", 1_000, (2.0, 1.0), 3_000, False),
]
"""Protocol, values, levels, reports, and whether estimates clipped one by one show in the errors."""


@pytest.mark.parametrize(("name", "size", "levels", "n", "shows"), SUM_TO_ONE)
def test_published_variances_of_a_histogram_add_up_to_the_true_ones(
    name: str, size: int, levels: tuple[float, ...], n: int, shows: bool
) -> None:
    """Whatever the counts are, as a sum over all values of a variance that is linear in f needs only Σ f =
    1."""
    names = ("epsilon",) if len(levels) == 1 else ("epsilon_longitudinal", "epsilon_first")
    built = protocol(name, size, Parameters(**dict(zip(names, levels, strict=True))))  # type: ignore[arg-type]
    assert isinstance(built, FrequencyProtocol)
    true = variance(np.full(size, 1 / size), n, built.estimator.support).sum()
    draw = np.random.default_rng(size)
    for zipf in (0.0, 1.0):
        shares = np.arange(1, size + 1) ** -zipf
        p = float(built.estimator.support.other) + shares / shares.sum() * float(built.estimator.support.gap)
        counts = draw.binomial(n, p)
        found = estimate(counts, n, built.estimator.support, sum_to_one=True)
        if name != "loloha":  # whose accumulator is no row of counts
            assert built.estimator.estimate(counts, n).std_error.tolist() == found.std_error.tolist()
        assert (found.std_error**2).sum() / true == pytest.approx(1, abs=1e-9)
        clipped = estimate(counts, n, built.estimator.support)
        if shows and not zipf:
            assert (clipped.std_error**2).sum() / true > 1.02


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=30))
def test_nearest_shares_are_the_projection_onto_the_simplex(estimates: list[float]) -> None:
    given = np.array(estimates)
    found = nearest_shares(given)
    assert found == pytest.approx(reference.nearest_shares(given), abs=1e-12)
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
    # Row by row, and without what is not known.
    both = nearest_shares(np.stack([np.append(given, np.nan), np.append(-given, np.nan)]))
    assert both[0, :-1].tolist() == found.tolist()
    assert np.isnan(both[:, -1]).all()
    assert both[1, :-1] == pytest.approx(reference.nearest_shares(-given), abs=1e-12)


HALF_WIDTHS = [
    ("grr", 50, (8.0,), 100, 0.0, Fraction(1)),
    ("grr", 50, (8.0,), 100, 0.02, Fraction(1)),
    ("grr", 50, (8.0,), 100, 0.3, Fraction(1)),
    ("grr", 4, (6.0,), 700, 0.25, Fraction(1)),
    ("grr", 1412, (1.0,), 10_000, 0.001, Fraction(1)),
    ("l_osue", 100, (4.0, 2.0), 1_000, 0.01, Fraction(1)),
    ("oue", 100, (1.0,), 5_000, 0.0, Fraction(1)),
    ("oue", 100, (1.0,), 5_000, 0.5, Fraction(1)),
    ("oue", 100, (1.0,), 2_000, 0.25, Fraction(1, 4)),
    ("grr", 7, (2.0,), 60, 0.1, Fraction(1, 2)),
    ("grr", 2, (1.0,), 1, 0.0, Fraction(1)),
    ("grr", 2, (1.0,), 1_000, 0.0, Fraction(1)),
]


@pytest.mark.parametrize(("name", "size", "levels", "n", "frequency", "share"), HALF_WIDTHS)
def test_expected_half_widths_are_those_of_intervals(
    name: str, size: int, levels: tuple[float, ...], n: int, frequency: float, share: Fraction
) -> None:
    """All counts by their exact law, and 64 places of the ties of each."""
    names = ("epsilon",) if len(levels) == 1 else ("epsilon_longitudinal", "epsilon_first")
    built = protocol(name, size, Parameters(**dict(zip(names, levels, strict=True))))  # type: ignore[arg-type]
    assert isinstance(built, FrequencyProtocol)
    probabilities, population = built.estimator.support.among(share), round(n / share)
    chances = np.zeros(n + 1)
    held = hypergeom(population, round(frequency * population), n)
    for holders in range(int(held.ppf(1e-12)), int(held.isf(1e-12)) + 1):
        counts, pmf = law(probabilities, holders, n)
        chances[counts] += held.pmf(holders) * pmf
    counts = np.flatnonzero(chances)
    for level in (0.95, 0.999):
        widths = np.zeros(counts.size)
        for tie in (np.arange(64) + 0.5) / 64:
            low, high = interval(counts, n, probabilities, np.full(counts.size, tie), level)
            widths += (high - low) / 128
        found = float(expected_half_width(frequency, n, probabilities, level))
        assert found == pytest.approx(widths @ chances[counts], rel=1e-3)
