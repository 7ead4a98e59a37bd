"""Whether 95 % intervals of sums hold what is true 95 times in 100: exactly where that can be worked out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from ldpbeam.over_time import DrawnAnew, Series, difference, mean
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.part_estimator import PartEstimator
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from ldpbeam.sums.sum_errors import SumErrors, sum_errors
from tests.conftest import FALSE_ALARM_SUITE

Z = norm.ppf(0.975)
ONE, TWO = Parameters(epsilon=1.0), Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0)


def of_hash(g: int, family: str = "linear") -> Parameters:
    return Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0, g=g, hash_family=family)


# --- exactly: the law of what n reports support together


def steps(built: Any, row: Any, value: int) -> Any:
    """P(a report of this value supports a weight of j), float64 (all possible weights,), rows of integers."""
    found = np.zeros(int(row.sum()) + 1)
    seeds = 0.0
    for response in built.law.responses():
        chance = float(built.law.likelihood(response, value))
        found[int(sum(row[v] for v in range(len(row)) if built.law.supports(response, v)))] += chance
        seeds += chance
    return found / seeds


def coverage(built: Any, row: Any, inside: int, n: int) -> float:
    """Of the group of these values, where so many of n devices hold one of them: by convolution."""
    k = len(row)
    first, last = int(row.argmax()), int(row.argmin())
    size = n * int(row.sum()) + 1
    turned = [np.fft.rfft(steps(built, row, one), size) for one in (first, last)]
    law = np.fft.irfft(turned[0] ** inside * turned[1] ** (n - inside), size)
    own, other = float(built.estimator.support.own), float(built.estimator.support.other)
    estimate = (np.arange(size) / n - other * row.sum()) / (own - other)
    variances = SumErrors(built, row[None]).variance
    # A histogram with this share in the group, as the raw estimates have it, evenly within and without.
    spread = estimate[:, None] * row / row.sum() + (1 - estimate[:, None]) * (1 - row) / (k - row.sum())
    error = np.sqrt(variances(spread, np.full((size, k), n))[:, 0])
    return float(law[abs(estimate - inside / n) <= Z * error].sum())


EXACT = [
    ("grr", 6, ONE),
    ("l_grr", 6, TWO),
    ("oue", 5, ONE),
    ("l_osue", 5, TWO),
    ("loloha", 8, of_hash(2)),
    ("grr", 6, Parameters(epsilon=3.0)),
    ("oue", 5, Parameters(epsilon=3.0)),
]


@pytest.mark.parametrize(
    ("name", "k", "levels"), EXACT, ids=[f"{o[0]}-{o[2].g or o[2].epsilon}" for o in EXACT]
)
def test_coverage_is_exact_from_two_hundred_supports_on(name: str, k: int, levels: Parameters) -> None:
    """0.94 to 0.96 from 200 expected supports of a group that nobody is in, and at 1,000 too."""
    built: Any = protocol(name, k, levels)
    row = (np.arange(k) < 2).astype(np.float64)
    absent = float(built.estimator.support.other) * row.sum()
    for expected in (200, 1000) if name == "grr" else (200,):
        n = int(expected / absent)
        for share in (0.0, 0.3, 1.0):
            sizes = range(n, n + max(n // 10, 10), max(n // 50, 2))
            found = np.mean([coverage(built, row, round(share * one), one) for one in sizes])
            assert 0.94 <= found <= 0.96, (expected, share, found)


# --- by simulation: every family, with the total known, one epoch and seven

FAMILIES: list[tuple[str, Parameters]] = [
    ("grr", ONE),
    ("oue", ONE),
    ("sue", ONE),
    ("blh", ONE),
    ("olh", Parameters(epsilon=1.0, g=3, hash_family="linear")),
    ("olh", Parameters(epsilon=2.0, g=5, hash_family="affine")),
    ("binflip_plus", Parameters(epsilon=2.0)),
    ("dbitflip", Parameters(epsilon=2.0, d=3)),
    ("l_grr", TWO),
    ("l_osue", TWO),
    ("rappor", Parameters(epsilon_longitudinal=2.0)),
    ("loloha", of_hash(2)),
    ("loloha", of_hash(3)),
    ("loloha", of_hash(4, "affine")),
    ("dbitflip_pm", Parameters(epsilon_longitudinal=2.0, d=3)),
]
K, DEVICES = 12, 600
SHARES = np.array([40, 110, 90, 30, 60, 20, 15, 80, 70, 35, 25, 25]) / DEVICES
IDS = [f"{name}-{p.hash_family}-{p.g or ''}" for name, p in FAMILIES]


def asked() -> Any:
    """A group, a stretch of values, the mean: all less the mean of their weights."""
    found = np.array([np.isin(np.arange(K), (0, 3, 8)), np.arange(K) < 5, np.arange(K)], np.float64)
    return found - found.mean(axis=1, keepdims=True)


def simulated(built: Any, fleets: int, values: Any, seed: int) -> tuple[Any, Any]:
    """Raw estimates (fleets, T, k) and their n, of fleets whose devices hold values (T, devices)."""
    fleet = ProtocolFleet(built, fleets * DEVICES, RandomWords(seed))
    frequency = np.empty((fleets, len(values), K))
    n = np.empty(frequency.shape, np.int64)
    for epoch, held in enumerate(values):
        parts = [part.payloads for part in fleet.reports(epoch, np.tile(held, fleets))]
        payloads = np.concatenate(parts)
        for one in range(fleets):
            counts = np.zeros(built.counter.counts_length, np.int64)
            some = np.ascontiguousarray(payloads[one * DEVICES : (one + 1) * DEVICES])
            built.counter.add(some, counts)
            found = built.estimator.estimate(counts, DEVICES)
            frequency[one, epoch], n[one, epoch] = found.frequency, found.n
    return frequency, n


def shuffled(epochs: int, changing: float, seed: int = 5) -> Any:
    """Values (T, devices) with the same frequencies in every epoch; some devices exchange them."""
    generator = np.random.default_rng(seed)
    held = np.repeat(np.arange(K), np.rint(SHARES * DEVICES).astype(int))
    rows = [held]
    for _ in range(epochs - 1):
        held = held.copy()
        movers = np.flatnonzero(generator.random(DEVICES) < changing)
        held[movers] = held[generator.permutation(movers)]
        rows.append(held)
    return np.stack(rows)


def bounds(fleets: int, tests: int) -> tuple[float, float]:
    """Between which the share of intervals that hold lies, if each holds with 0.95, but for one in 10^7."""
    alarm = FALSE_ALARM_SUITE / 10 / tests / 2
    low, high = (float(binom.ppf(p, fleets, 0.95)) / fleets for p in (alarm, 1 - alarm))
    return low, high


@pytest.mark.cases(1)
@pytest.mark.parametrize(("name", "levels"), FAMILIES, ids=IDS)
def test_coverage_of_one_epoch(name: str, levels: Parameters) -> None:
    """Fixed fleets of 600 devices; also the mean square of error over standard error, which is 1."""
    built: Any = protocol(name, K, levels)
    weights, fleets = asked(), 2000
    frequency, n = simulated(built, fleets, shuffled(1, 0.0), seed=7)
    errors = sum_errors(PartEstimator(built), weights)
    variance = errors.variance(frequency[:, 0], n[:, 0])
    z = (frequency[:, 0] @ weights.T - SHARES @ weights.T) / np.sqrt(variance)
    low, high = bounds(fleets, 2 * 3 * len(FAMILIES))
    for sum_ in range(len(weights)):
        assert low <= np.mean(abs(z[:, sum_]) <= Z) <= high
        # The mean of 2,000 squares of normal variables: 5.7 standard deviations of 0.032 and a little.
        assert np.mean(z[:, sum_] ** 2) == pytest.approx(1, abs=0.2)


OVER_TIME = [one for one in FAMILIES if one[0] in ("l_grr", "l_osue", "loloha", "dbitflip_pm", "grr")]


@pytest.mark.cases(1)
@pytest.mark.parametrize("changing", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    ("name", "levels"), OVER_TIME, ids=[f"{n}-{p.hash_family}-{p.g or ''}" for n, p in OVER_TIME]
)
def test_coverage_of_seven_epochs(name: str, levels: Parameters, changing: float) -> None:
    """Of the mean of seven, and of the last three less the first four: at least 0.95 without a rate."""
    built: Any = protocol(name, K, levels)
    weights, fleets, epochs = asked(), 400, 7
    frequency, n = simulated(built, fleets, shuffled(epochs, changing), seed=11)
    errors = sum_errors(PartEstimator(built), weights)
    memo = None if errors.independent else errors
    late, truth = np.arange(epochs) > 3, SHARES @ weights.T
    held = {(what, rate): np.zeros(3) for what in ("mean", "difference") for rate in (None, changing)}
    naive = np.zeros(3)
    for one in range(fleets):
        error = np.sqrt(errors.variance(frequency[one], n[one]))
        sums = np.tile(errors.reports(n[one]), 3).astype(np.int64)
        values = Series(np.arange(epochs), n[one], frequency[one], np.ones_like(frequency[one]))
        series = Series(np.arange(epochs), sums, frequency[one] @ weights.T, error, values)
        for rate in (None, changing):
            known = None if rate is None else DrawnAnew(rate, rate)
            found = mean(series, memo, known)
            held["mean", rate] += abs(found.estimate - truth) <= Z * found.std_error
            found = difference(series, late, ~late, memo, known)
            # Where nobody changes, bits that are sent as they are memoised differ by rounding only.
            held["difference", rate] += abs(found.estimate) <= Z * found.std_error + 1e-9
        found = mean(series, None)
        naive += abs(found.estimate - truth) <= Z * found.std_error
    low, high = bounds(fleets, 3 * 4 * 3 * len(OVER_TIME))
    for (what, _), count in held.items():
        assert (count / fleets >= low).all(), (what, count / fleets)
    if changing == 0.0:
        assert (held["mean", 0.0] / fleets <= high).all()
        if name != "grr":
            assert (naive / fleets < low).all()
