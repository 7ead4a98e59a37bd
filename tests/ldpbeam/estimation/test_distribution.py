"""The distribution of an ordered domain: against whole matrices, and against fleets."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import exp

import numpy as np
import pytest
from scipy.optimize import isotonic_regression
from scipy.stats import binom, chi2

from ldpbeam.arrays import Floats, Ints
from ldpbeam.estimation.distribution import Distribution, WalkPosterior
from ldpbeam.estimation.stretches import Stretches
from ldpbeam.hashing.interval import FUNCTIONS, IntervalFamily
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.interval_hash import IntervalEstimator, IntervalLOLOHA
from tests.narrow import of_kind, present
from tests.reference.distribution import estimate

FALSE_ALARM = 1e-6
"""Of each test against fleets, where errors are as they say."""


def channel(epsilon: float, g: int) -> tuple[float, float]:
    """Randomised response over g symbols."""
    other = 1 / (exp(epsilon) + g - 1)
    return exp(epsilon) * other, other


def model(k: int, g: int, epsilon: float, atoms: tuple[int, ...] = ()) -> WalkPosterior:
    return WalkPosterior(Stretches(IntervalFamily(g, k).bounds(), *channel(epsilon, g)), atoms)


def reported(rng: np.random.Generator, values: Ints, of: WalkPosterior) -> Ints:
    """Counts of one report of each device, (functions·g,)."""
    stretches = of.stretches
    function = rng.integers(0, stretches.functions, values.size)
    stretch = (stretches.bounds[function, 1:-1] <= values[:, None]).sum(axis=1)
    told = np.where(rng.random(values.size) < stretches.own, stretch, -1)
    lies = (stretch + rng.integers(1, stretches.g, values.size)) % stretches.g
    answers = np.where(told < 0, lies, told)
    return np.bincount(function * stretches.g + answers, minlength=stretches.functions * stretches.g)


def hump(rng: np.random.Generator, n: int) -> Floats:
    """Two humps, the left one smaller."""
    left = rng.random(n) < 0.4
    return np.where(left, rng.normal(0.25, 0.07, n), rng.normal(0.65, 0.1, n))


def edge(rng: np.random.Generator, n: int) -> Floats:
    """Many at the least value, the others ever rarer."""
    return np.where(rng.random(n) < 0.3, 0.0, rng.exponential(0.2, n))


def few_at_none(rng: np.random.Generator, n: int) -> Floats:
    """One in twenty at the least value, which reports hardly show."""
    return np.where(rng.random(n) < 0.05, 0.0, rng.gamma(2, 0.1, n))


def steps(rng: np.random.Generator, n: int) -> Floats:
    """A staircase."""
    return (rng.choice(8, n, p=np.array([2, 6, 1, 5, 8, 3, 1, 4]) / 30) + rng.random(n)) / 8


def lump(rng: np.random.Generator, n: int) -> Floats:
    """A third of the devices at one value in the middle."""
    return np.where(rng.random(n) < 0.33, 20.5 / 64, rng.beta(2, 3, n))


def values_of(shares: Floats, k: int) -> Ints:
    """Places of the domain."""
    return np.clip((shares * k).astype(np.int64), 0, k - 1)


@dataclass(frozen=True)
class Setting:
    k: int
    g: int
    epsilon: float
    n: int
    atoms: tuple[int, ...] = ()


@pytest.mark.parametrize(
    "setting",
    [
        Setting(64, 4, 1.0, 10_000),
        Setting(48, 2, 0.5, 1_000),
        Setting(70, 6, 2.0, 20_000, (30, 31)),
        Setting(20, 16, 4.0, 3_000, (0,)),
        Setting(3, 2, 1.0, 500),
        Setting(2, 2, 1.0, 500),
    ],
)
@pytest.mark.parametrize("shape", [hump, edge])
def test_it_is_what_whole_matrices_give(setting: Setting, shape: object) -> None:
    rng = np.random.default_rng(setting.n)
    built = model(setting.k, setting.g, setting.epsilon, setting.atoms)
    counts = reported(rng, values_of(shape(rng, setting.n), setting.k), built)  # type: ignore[operator]
    found = built.estimate(counts)
    learned, cautious = estimate(
        counts, built.stretches.bounds, (built.stretches.own, built.stretches.other), setting.atoms
    )
    assert found.centre == pytest.approx(cautious.curve[1:], abs=1e-9)
    assert found.std_error == pytest.approx(cautious.std_error[1:], abs=1e-7)
    inner = learned[1:-1]
    rising = np.clip(isotonic_regression(inner).x, 0, 1) if inner.size else inner
    assert found.cumulative == pytest.approx(np.append(rising, 1.0), abs=1e-9)


@pytest.mark.thorough
def test_of_many_values_the_cosines_are_enough() -> None:
    """What they leave out moves a share by a fifth of its standard error at the most."""
    rng = np.random.default_rng(3)
    built = model(150, 4, 1.0)
    counts = reported(rng, values_of(hump(rng, 20_000), 150), built)
    found = built.estimate(counts)
    _, cautious = estimate(counts, built.stretches.bounds, (built.stretches.own, built.stretches.other))
    assert np.abs(found.centre - cautious.curve[1:])[:-1].max() < 0.2 * found.std_error[:-1].min()
    assert found.std_error[20:-20] == pytest.approx(cautious.std_error[21:-20], rel=0.05)


_PRINTED = """
import numpy as np
from tests.ldpbeam.estimation.test_distribution import model, reported, hump, values_of
rng = np.random.default_rng(8)
for k in (60, 150):
    built = model(k, 4, 1.0)
    found = built.estimate(reported(rng, values_of(hump(rng, 5000), k), built))
    means = [found.mean, found.mean_std_error]
    numbers = np.concatenate([found.cumulative, found.centre, found.std_error, means])
    print(numbers.tobytes().hex())
"""


@pytest.mark.thorough
def test_threads_do_not_change_a_bit() -> None:
    printed = {
        subprocess.run(
            [sys.executable, "-c", _PRINTED],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
            check=True,
            capture_output=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(printed) == 1


@pytest.mark.parametrize("k, g", [(64, 2), (64, 4), (100, 16), (20, 6), (2, 2), (193, 4)])
def test_a_report_is_its_value_in_the_mean(k: int, g: int) -> None:
    """Whatever the value: so the mean of a fleet has no bias, whatever its histogram."""
    built = model(k, g, 1.0)
    numbers, chances = built.mean.numbers, answers(built)
    assert (chances * numbers[None]).sum(axis=(1, 2)) == pytest.approx(np.arange(k), abs=1e-8)


def test_values_that_no_function_tells_apart_are_the_middle_of_theirs() -> None:
    built = model(400, 2, 1.0)
    expected = (answers(built) * built.mean.numbers[None]).sum(axis=(1, 2))
    cut = np.unique(built.stretches.bounds)
    middles = np.concatenate([np.full(b - a, (a + b - 1) / 2) for a, b in pairwise(cut)])
    assert expected == pytest.approx(middles, abs=1e-7)
    assert np.abs(middles - np.arange(400)).max() <= 400 / 64 / 2


def answers(built: WalkPosterior) -> Floats:
    """P(function and answer | value), (k, functions, g)."""
    stretches, places = built.stretches, np.arange(built.stretches.domain_size)[:, None, None]
    held = (places >= stretches.bounds[:, :-1]) & (places < stretches.bounds[:, 1:])
    return np.where(held, stretches.own, stretches.other) / stretches.functions


def test_the_mean_has_the_least_variance() -> None:
    """Of even values: no other numbers with these expectations have less. One that differs has more."""
    built = model(30, 4, 1.0)
    chances = answers(built).reshape(30, -1)
    even, numbers = chances.mean(axis=0), built.mean.numbers.ravel()
    assert built.mean.even_variance == pytest.approx((even * (numbers - 14.5) ** 2).sum())
    # Lagrange: numbers are optimal where even·numbers lies in the span of the chances.
    left = np.linalg.lstsq(chances.T, even * numbers, rcond=None)[1]
    rest = even * numbers - chances.T @ np.linalg.lstsq(chances.T, even * numbers, rcond=None)[0]
    assert left.size == 0 or np.abs(rest).max() < 1e-9


@pytest.mark.parametrize(
    "shape, epsilon, g", [(hump, 1.0, 4), (edge, 4.0, 16), (steps, 1.0, 2), (lump, 2.0, 6)]
)
@pytest.mark.thorough
def test_the_mean_is_as_far_off_as_its_error_says(shape: object, epsilon: float, g: int) -> None:
    """Of the fleet's own mean. Σ z² over R fleets is χ² with R degrees of freedom: both tails are tested."""
    built, rng, fleets = model(64, g, epsilon), np.random.default_rng(11), 250
    squares = 0.0
    for _ in range(fleets):
        values = values_of(shape(rng, 4_000), 64)  # type: ignore[operator]
        found = built.estimate(reported(rng, values, built))
        squares += ((found.mean - values.mean()) / found.mean_std_error) ** 2
    assert chi2.ppf(FALSE_ALARM / 2, fleets) < squares < chi2.isf(FALSE_ALARM / 2, fleets)


def test_a_sampled_mean_includes_the_drawing() -> None:
    """Where a share s reports, (1 − s) of the variance of the values is added."""
    built, rng = model(64, 4, 2.0), np.random.default_rng(2)
    counts = reported(rng, values_of(hump(rng, 50_000), 64), built)
    whole, half = built.estimate(counts), built.estimate(counts, 0.5)
    values, frequency = np.arange(64), whole.frequency
    spread = (values**2 * frequency).sum() - (values * frequency).sum() ** 2
    assert half.mean == whole.mean
    assert half.mean_std_error**2 == pytest.approx(whole.mean_std_error**2 + 0.5 * spread / 50_000)


@pytest.mark.parametrize(("g", "share"), [(2, 1.0), (4, 1.0), (4, 0.25)])
def test_the_part_of_a_mean_that_lasts_is_what_two_reports_have_in_common(g: int, share: float) -> None:
    """Of a device with one value: over its functions and permanent answers, the second round averaged out."""
    k, levels = 12, Parameters(epsilon_longitudinal=3.0, epsilon_first=1.0, hash_family="interval", g=g)
    kind = of_kind(IntervalLOLOHA, protocol("loloha", k, levels))
    permanent, instant = present(kind.device.rounds.permanent), kind.device.rounds.last
    built = kind.estimator.posterior()
    frequency = np.random.default_rng(5).dirichlet(np.ones(k))
    numbers, bounds = built.mean.numbers, built.stretches.bounds
    first, second = (
        np.full((g, g), float(one.other)) + np.eye(g) * float(one.own - one.other)
        for one in (permanent, instant)
    )
    common = whole = 0.0
    for function, cuts in enumerate(bounds):
        stretches = np.searchsorted(cuts, np.arange(k), side="right") - 1
        answered = frequency @ (first @ second)[stretches]
        apart = numbers[function] - answered @ numbers[function]
        common += frequency @ (first[stretches] @ (second @ apart) ** 2) / len(bounds)
        whole += answered @ apart**2 / len(bounds)
    drawn = np.arange(k) ** 2 @ frequency - (np.arange(k) @ frequency) ** 2
    part = (common - drawn) / (whole - drawn + (1 - share) * drawn)
    found = kind.estimator.lasting_part_of_mean(np.cumsum(frequency), Fraction(share))
    assert 0.04 < part < 0.9
    assert found == pytest.approx(part)
    once = protocol("olh", k, Parameters(epsilon=1.0, hash_family="interval", g=g)).estimator
    assert of_kind(IntervalEstimator, once).lasting_part_of_mean(np.cumsum(frequency), Fraction(1)) == 0


@pytest.mark.parametrize(
    "shape, n, epsilon, g, atoms",
    [
        (hump, 10_000, 1.0, 4, ()),
        (edge, 1_000, 1.0, 4, ()),
        (steps, 10_000, 2.0, 2, ()),
        (lump, 10_000, 1.0, 4, (20,)),
        (edge, 100_000, 4.0, 16, ()),
        (few_at_none, 10_000, 1.0, 4, ()),
    ],
)
@pytest.mark.cases(2)
def test_limits_hold_the_share_below_each_value(
    shape: object, n: int, epsilon: float, g: int, atoms: tuple[int, ...]
) -> None:
    """At each of nine places: in 60 fleets no fewer than a coverage of 0.93 has once in a million times
    nine."""
    built, rng, fleets, k = model(64, g, epsilon, atoms), np.random.default_rng(7), 60, 64
    places = np.array([0, 5, 12, 19, 20, 31, 40, 50, 62])
    held, centres, widths = np.zeros(places.size), [], []
    for _ in range(fleets):
        values = values_of(shape(rng, n), k)  # type: ignore[operator]
        truth = np.cumsum(np.bincount(values, minlength=k)) / n
        found = built.estimate(reported(rng, values, built))
        low, high = found.limits(0.95)
        held += ((low <= truth) & (truth <= high))[places]
        centres.append((found.centre - truth)[places])
        widths.append(found.std_error[places])
    assert held.min() >= binom.ppf(FALSE_ALARM / places.size, fleets, 0.93)
    assert held.sum() / places.size >= binom.ppf(FALSE_ALARM, 3 * fleets, 0.93) / 3
    off = np.sqrt(np.mean(np.square(centres), axis=0))
    assert (np.mean(widths, axis=0) < 2.3 * off).sum() >= 5


def test_limits_hold_the_estimate_and_quantiles_theirs() -> None:
    built, rng = model(64, 4, 1.0), np.random.default_rng(4)
    for shape in (hump, edge, steps, lump):
        found = built.estimate(reported(rng, values_of(shape(rng, 500), 64), built))
        low, high = found.limits(0.95)
        assert (low >= 0).all() and (high <= 1).all() and (low[-1], high[-1]) == (1, 1)
        assert (low <= found.cumulative).all() and (found.cumulative <= high).all()
        assert (found.frequency >= 0).all() and found.frequency.sum() == pytest.approx(1)
        for share in (0.25, 0.5, 0.9):
            place, first, last = found.quantile(share, 0.95)
            assert first <= place <= last
            assert found.cumulative[place] >= share and (place == 0 or found.cumulative[place - 1] < share)
            inside = np.flatnonzero((low <= share) & (share <= high))
            assert inside.size == 0 or (first <= inside[0] and inside[-1] <= last)


def test_limits_end_at_the_estimate_or_beyond() -> None:
    """The estimate is another posterior than that of the limits; both are within 0 and 1, and the values."""
    shares, error = np.array([0.0, 0.4, 0.9, 1.0]), np.array([0.01, 0.05, 0.05, 0.0])
    found = Distribution(9, shares, np.array([-0.1, 0.6, 0.7, 1.0]), error, -0.5, 0.1)
    low, high = found.limits(0.95)
    assert low == pytest.approx([0.0, 0.4, 0.602, 1.0], abs=1e-3)
    assert high == pytest.approx([0.0, 0.698, 0.9, 1.0], abs=1e-3)
    assert list(found.mean_limits(0.95)) == pytest.approx([-0.5, -0.304], abs=1e-3)
    above = Distribution(9, shares, shares, error, 3.2, 0.1)
    assert list(above.mean_limits(0.95)) == pytest.approx([3.004, 3.2], abs=1e-3)
    assert found.quantile(0.5, 0.95) == (2, 1, 2)


@pytest.mark.parametrize("k, g", [(2, 2), (3, 3), (8, 8), (64, 4), (200, 2)])
@pytest.mark.parametrize("kind", ["one", "cell", "function", "many"])
def test_strange_counts_have_a_result(k: int, g: int, kind: str) -> None:
    """One report, all in one cell, all of one function, and very many."""
    built = model(k, g, 1.0)
    counts = np.zeros(FUNCTIONS * g, np.int64)
    if kind == "one":
        counts[g] = 1
    elif kind == "cell":
        counts[-1] = 100_000
    elif kind == "function":
        counts[:g] = np.arange(g)
    else:
        counts[:] = 10**10
    found = built.estimate(counts)
    numbers = np.concatenate([found.cumulative, found.centre, found.std_error, [found.mean]])
    assert np.isfinite(numbers).all() and found.mean_std_error > 0
    assert (np.diff(found.cumulative, prepend=0) >= 0).all() and found.cumulative[-1] == 1


@pytest.mark.parametrize(
    "k, g, epsilon, n", [(64, 4, 1.0, 10_000), (200, 2, 0.5, 50_000), (64, 16, 4.0, 2_000)]
)
def test_errors_are_expected_before_any_report(k: int, g: int, epsilon: float, n: int) -> None:
    """As estimates of even values have them, whose ends could be atoms: within a tenth in the middle."""
    built, rng = model(k, g, epsilon), np.random.default_rng(5)
    expected = built.expected_errors(n)
    found = [built.estimate(reported(rng, rng.integers(0, k, n), built)) for _ in range(12)]
    middle = np.mean([one.std_error[k // 2 - 1] for one in found])
    assert expected.at_median == pytest.approx(middle, rel=0.1)
    assert expected.quantile == expected.at_median <= expected.cumulative < 1.2 * expected.at_median
    assert expected.mean * k == pytest.approx(np.mean([one.mean_std_error for one in found]), rel=0.1)
    half = built.expected_errors(n, 0.5)
    assert half.mean**2 == pytest.approx(expected.mean**2 + 0.5 * (1 - k**-2) / 12 / n)
