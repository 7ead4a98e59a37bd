"""One fit of several epochs: what it takes for the variance of counts, and how it weighs epochs."""

from __future__ import annotations

import numpy as np
import pytest

from ldpbeam.arrays import Floats, Ints
from ldpbeam.estimation.stretches import Repeated
from ldpbeam.over_time.period import fit_period
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.interval_hash import IntervalHash
from ldpbeam.protocols.part_estimator import PartEstimator
from tests.narrow import of_kind

K = 24


def kind(name: str = "loloha") -> IntervalHash:
    levels = Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0, hash_family="interval")
    if name == "olh":
        levels = Parameters(epsilon=1.0, hash_family="interval")
    return of_kind(IntervalHash, protocol(name, K, levels))  # type: ignore[type-abstract]


def expected_counts(of: IntervalHash, histogram: Floats, reports: int) -> Ints:
    """Without noise, rounded."""
    stretches = of.estimator.posterior().stretches
    below = np.concatenate([[0.0], np.cumsum(histogram)])
    chances = stretches.chances(stretches.shares(below))
    return np.round(reports / stretches.functions * chances).ravel().astype(np.int64)


@pytest.mark.parametrize("times", [1, 2, 7])
def test_spreads_follow_from_the_channel_and_are_never_too_small(times: int) -> None:
    """Enumerated: a device's permanent answer, and its reports of as many epochs given that."""
    of = kind()
    permanent, last = of.rounds.permanent, of.rounds.last
    assert permanent is not None
    stretches = of.estimator.posterior().stretches
    histogram = np.random.default_rng(1).dirichlet(np.ones(K))
    shares = stretches.shares(np.concatenate([[0.0], np.cumsum(histogram)]))
    spreads = stretches.spreads(shares, of.estimator.repeated(times))
    given = np.full((of.g, of.g), float(last.other)) + np.eye(of.g) * float(last.own - last.other)
    kept = np.full((of.g, of.g), float(permanent.other))
    kept += np.eye(of.g) * float(permanent.own - permanent.other)
    for share, spread in zip(shares, spreads, strict=True):
        answers = share @ kept  # of a device that is drawn
        one = answers @ given
        both = np.einsum("a,ay,az->yz", answers, given, given)  # P(y in one epoch, z in another)
        alone, together = np.diag(one) - np.outer(one, one), both - np.outer(one, one)
        truth = alone + (times - 1) * together
        contrasts = np.diag(spread) - np.outer(spread, spread) / spread.sum() - truth
        assert np.linalg.eigvalsh(contrasts).min() > -1e-12
        part = float(last.own - last.other) ** 2 * answers
        assert spread == pytest.approx(one + (times - 1) * part)
        assert np.diag(truth) == pytest.approx(spread - one**2 - (times - 1) * part * answers)


def test_a_period_of_one_epoch_is_that_epoch() -> None:
    counts = np.random.default_rng(2).integers(20, 60, kind().counter.counts_length)
    for of in (kind(), kind("olh")):
        some = counts[: of.counter.counts_length]
        one, fit = of.estimator.posterior().estimate(some), fit_period(PartEstimator(of), [some])
        assert np.array_equal(fit.cumulative, one.cumulative)
        assert np.array_equal(fit.std_error, one.std_error) and np.array_equal(fit.centre, one.centre)


def test_epochs_weigh_alike_however_many_reports_they_have() -> None:
    low, high = np.zeros(K), np.zeros(K)
    low[:12], high[12:] = 1 / 12, 1 / 12
    for of in (kind(), kind("olh")):
        few, many = expected_counts(of, low, 200_000), expected_counts(of, high, 600_000)
        fit = fit_period(PartEstimator(of), [few, many])
        assert fit.cumulative == pytest.approx(np.cumsum(low + high) / 2, abs=0.005)
        # As certain as two epochs of the harmonic mean of their reports, where nothing repeats itself.
        alike = fit_period(PartEstimator(of), [expected_counts(of, one, 300_000) for one in (low, high)])
        if of.rounds.permanent is None:
            assert fit.std_error[:-1] == pytest.approx(alike.std_error[:-1], rel=0.01)
        else:
            assert (fit.std_error[:-1] < alike.std_error[:-1]).all()


def test_reports_weigh_alike_where_that_is_asked() -> None:
    """One fit of all reports as if they were of one epoch; a memo counts (Σ√n)²/Σn = 9/5 times at most."""
    for of in (kind(), kind("olh")):
        few = np.random.default_rng(3).integers(20, 60, of.counter.counts_length)
        fit = fit_period(PartEstimator(of), [few, 4 * few], "reports")
        pooled = of.estimator.curve_of_epochs(np.float64(5) * few, 1.8, ())
        assert fit.cumulative == pytest.approx(pooled.cumulative, abs=1e-9)
        assert fit.std_error == pytest.approx(pooled.std_error, rel=1e-9)
        if of.rounds.permanent is None:
            assert np.array_equal(fit.cumulative, of.estimator.posterior().estimate(5 * few).cumulative)


def test_what_repeats_itself_is_not_averaged_away() -> None:
    even = np.full(K, 1 / K)
    for of, least, most in ((kind(), 0.5, 0.8), (kind("olh"), 0.0, 0.25)):
        epochs = [expected_counts(of, even, 100_000)] * 50
        one, fit = (fit_period(PartEstimator(of), some) for some in (epochs[:1], epochs))
        assert least < fit.std_error[K // 2] / one.std_error[K // 2] < most
    # Of a sample the values repeat themselves: half of 100,000 devices may lie below.
    drawn = fit_period(PartEstimator(kind("olh")).of_sample, epochs).std_error[K // 2]
    assert drawn**2 == pytest.approx(0.25 / 100_000 + fit.std_error[K // 2] ** 2, rel=0.01)
    assert kind("olh").estimator.repeated(7) is None
    assert isinstance(kind().estimator.repeated(7), Repeated)
