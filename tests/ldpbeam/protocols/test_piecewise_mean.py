"""The piecewise mechanism on integers: exact ε and mean, honest errors, and less of them than others have."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from ldpbeam.channels.exact import exp_below
from ldpbeam.channels.window import WindowChannel
from ldpbeam.errors import InvalidPayload
from ldpbeam.planning.needs import MeanNeeds
from ldpbeam.planning.plan import make_plan
from ldpbeam.promise.best_guess import best_guess
from ldpbeam.promise.poisoning import leverage
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.piecewise_mean import PiecewiseMean
from ldpbeam.randomness import FULL
from tests.narrow import present
from tests.reference.script import ScriptedRandomness


def built(size: int, epsilon: float = 1.0) -> PiecewiseMean:
    return PiecewiseMean.from_parameters(size, Parameters(epsilon=epsilon))


def enumerated(kind: PiecewiseMean) -> list[list[Fraction]]:
    return [[kind.law.likelihood(y, x) for y in kind.law.responses()] for x in range(kind.domain_size)]


# --- the channel


@pytest.mark.parametrize("epsilon", [1e-6, 0.5, 2.0, 8.0, 32.0])
@pytest.mark.parametrize("maximum", [1, 2, 7, 30])
def test_a_report_spends_epsilon_and_its_mean_is_linear(maximum: int, epsilon: float) -> None:
    kind = built(maximum + 1, epsilon)
    channel, rows = kind.instant, enumerated(kind)
    assert [sum(row) for row in rows] == [1] * (maximum + 1)
    worst = max(max(column) / min(column) for column in zip(*rows, strict=True))
    assert worst == kind.guarantee.first_ratio <= exp_below(epsilon)
    middle = Fraction(maximum, 2)
    for x, row in enumerate(rows):
        mean = sum((y * p for y, p in enumerate(row)), Fraction(0))
        assert mean == channel.low + channel.gain * x
        spread = sum(((y - mean) ** 2 * p for y, p in enumerate(row)), Fraction(0))
        assert spread == channel.spread + (channel.gain - channel.gain**2) * (x - middle) ** 2
        assert spread <= Fraction(present(kind.forgery.numbers).variance) * (1 + Fraction(1, 1 << 50))


@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 8.0, 32.0])
@pytest.mark.parametrize("maximum", [1, 86_400, (1 << 24) - 1])
def test_large_ranges_spend_all_of_epsilon(maximum: int, epsilon: float) -> None:
    channel = WindowChannel.from_epsilon(maximum, epsilon)
    assert channel.total <= FULL
    assert exp_below(epsilon) * (1 - Fraction(1, 1000)) < channel.ratio <= exp_below(epsilon)
    assert epsilon < 1e-5 or exp_below(epsilon) * (1 - Fraction(1, 10**6)) < channel.ratio


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 12.0])
@pytest.mark.parametrize("maximum", [1, 2, 3, 6, 15, 100])
def test_no_other_width_has_much_less_variance(maximum: int, epsilon: float) -> None:
    def error(width: int) -> float:
        ratio = exp_below(epsilon)
        each = int(FULL / (ratio * width + maximum))
        channel = WindowChannel(maximum, width, int(each * ratio), each)
        even = Fraction(maximum * (maximum + 2), 12)
        return float(channel.spread / channel.gain**2 + (1 / channel.gain - 1) * even)

    chosen = WindowChannel.from_epsilon(maximum, epsilon).width
    assert error(chosen) <= 1.03 * min(map(error, range(1, maximum + 2)))


@pytest.mark.parametrize("maximum", [1, 6, (1 << 24) - 1])
def test_arrays_draw_the_same_reports_at_every_threshold(maximum: int) -> None:
    channel, draw = WindowChannel.from_epsilon(maximum, 1.0), random.Random(maximum)
    inside = channel.keep * channel.width
    values = [0, maximum // 2, maximum, *(draw.randint(0, maximum) for _ in range(20))]
    pairs = []
    for value in values:
        edges = [0, channel.keep, inside, inside + channel.each * value, channel.total]
        words = [edge + step for edge in edges for step in (-1, 0, 1)]
        words += [draw.randrange(channel.total) for _ in range(10)]
        pairs += [(value, word) for word in words if 0 <= word < channel.total]
    expected = [channel.draw(value, ScriptedRandomness([word])) for value, word in pairs]
    columns = np.array([value for value, _ in pairs]), np.array([word for _, word in pairs], np.uint64)
    assert channel.draw_many(*columns).tolist() == expected
    assert {0, channel.size - 1} <= set(expected)


@pytest.mark.parametrize("weights", [(0, 1, 2, 1), (3, 0, 2, 1), (3, 1, 1, 1), (3, 1, 2, 0), (3, 1, FULL, 1)])
def test_unsound_weights_are_refused(weights: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="1 <= each < keep"):
        WindowChannel(*weights)


# --- counts and estimates


@pytest.mark.parametrize("size", [2, 300, 86_401, 1 << 24])
def test_counts_are_sums_of_reports_and_squares(size: int) -> None:
    kind, draw = built(size, 2.0), random.Random(size)
    last = kind.instant.size - 1
    reports = [0, last, *(draw.randint(0, last) for _ in range(50))]
    payloads = np.frombuffer(b"".join(map(kind.device.encode, reports)), np.uint8)
    counts = np.zeros(2, np.int64)
    kind.counter.add(payloads.reshape(len(reports), -1), counts)
    assert counts.tolist() == [sum(reports), sum((2 * y - last) ** 2 >> kind.counter.shift for y in reports)]
    assert (last**2 >> kind.counter.shift) << 30 < 1 << 63
    assert 1 << kind.counter.shift <= last**2 / (1 << 29) or kind.counter.shift == 0
    beyond = (last + 1).to_bytes(kind.device.payload_size + 1, "little")[:-1]
    if int.from_bytes(beyond, "little") > last:
        assert kind.counter.check(np.frombuffer(beyond, np.uint8)[None]).tolist() == [1]
        with pytest.raises(InvalidPayload, match="value_out_of_range"):
            kind.device.decode(beyond)


def held(kind: PiecewiseMean, name: str, n: int) -> np.ndarray:
    m = kind.estimator.maximum
    draw = np.random.default_rng(1)
    return {
        "even": np.arange(n) % (m + 1),
        "middle": np.full(n, m // 2),
        "ends": np.arange(n) % 2 * m,
        "low": np.minimum(draw.exponential(m / 15, n), m).round(),
    }[name].astype(np.int64)


POPULATIONS = ("even", "middle", "ends", "low")


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 3)])
def test_the_error_is_that_of_the_population(population: str, share: Fraction) -> None:
    """From the exact means of both sums over all reports."""
    kind, n = built(101, 4.0), 4000
    values, rows = held(kind, population, n), enumerated(kind)
    y = np.arange(kind.instant.size)
    law = np.array([[float(p) for p in row] for row in rows])
    first, second = law @ y, law @ (2 * y - kind.instant.size + 1) ** 2
    counts = np.array([first[values].sum(), second[values].sum()])
    found = kind.estimator.estimate(counts, n, share=share)
    assert found.frequency[0] == pytest.approx(values.mean())
    noise = (law @ y**2 - first**2) / float(kind.instant.gain) ** 2
    true = (noise[values].mean() + float(1 - share) * values.var()) / n
    assert found.std_error[0] ** 2 == pytest.approx(true, rel=1e-9)
    if population == "even":
        assert kind.estimator.even_variance(float(share)) == pytest.approx(true * n, rel=0.01)
    worst = kind.estimator.worst_variance(float(share))
    assert true * n <= worst * (1 + 1e-9)
    if population == "ends":
        assert worst == pytest.approx(true * n)


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 5)])
@pytest.mark.parametrize("epsilon", [2.0, 8.0])
def test_intervals_cover_at_their_level(population: str, share: Fraction, epsilon: float) -> None:
    """Of 2,000 fleets, always the same; 0.017 is 3.5 standard deviations of the share that is covered."""
    kind, n, fleets = built(1001, epsilon), 1500, 2000
    draw, values = np.random.default_rng(7), held(kind, population, n)
    last, covered = kind.instant.size - 1, 0
    for _ in range(fleets):
        present_values = values[draw.random(n) < float(share)]
        words = draw.integers(kind.instant.total, size=present_values.size, dtype=np.uint64)
        y = kind.instant.draw_many(present_values, words)
        counts = np.array([y.sum(), ((2 * y - last) ** 2 >> kind.counter.shift).sum()])
        found = kind.estimator.estimate(counts, y.size, share=share)
        assert found.low[0] <= found.frequency[0] <= found.high[0]
        covered += bool(found.low[0] <= values.mean() <= found.high[0])
    # Of equal values the plug-in variance between values is not negative, so too large on average.
    assert 0.933 <= covered / fleets <= (1 if population == "middle" and share < 1 else 0.967)


def test_intervals_end_at_the_range_or_at_the_estimate() -> None:
    kind = built(101, 4.0)
    for y in range(kind.instant.size):
        counts = np.array([y, (2 * y - kind.instant.size + 1) ** 2 >> kind.counter.shift])
        found = kind.estimator.estimate(counts, 1)
        mean = float(found.frequency[0])
        assert min(mean, 0.0) <= found.low[0] <= mean <= found.high[0] <= max(mean, 100.0)


# --- what it is for


@pytest.mark.parametrize(("epsilon", "times"), [(2.0, 1.2), (4.0, 1.4), (8.0, 2.4)])
def test_the_error_is_lower_than_that_of_bits_and_of_laplace_noise(epsilon: float, times: float) -> None:
    """Also of the population that is worst for it, half at either end of the range."""
    kind = built(86_401, epsilon)
    others = [
        protocol(name, 86_401, Parameters(epsilon=epsilon)).estimator.even_variance(1.0) ** 0.5  # type: ignore[attr-defined]
        for name in ("one_bit_mean", "laplace_mean")
    ]
    worst = present(kind.forgery.numbers).variance ** 0.5 / float(kind.instant.gain)
    assert min(others) / worst >= times
    assert min(others) / kind.estimator.even_variance(1.0) ** 0.5 >= times


@pytest.mark.parametrize("epochs", [1, 30])
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 2.0, 4.0, 8.0])
def test_plans_take_it_for_one_report(epsilon: float, epochs: int) -> None:
    plan = make_plan(MeanNeeds(86_401, 20_000, epochs, lifetime=epsilon))
    row = present(plan.recommended)
    least = min(one.figures.std_error for one in plan.rows if not one.missed)
    assert row.figures.std_error <= 1.05 * least
    assert epsilon < 2 or row.setting.name == "piecewise_mean"


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_forged_report_moves_a_mean_by_its_leverage(epsilon: float) -> None:
    kind = built(101, epsilon)
    ends = [
        kind.estimator.estimate(np.array([y, 0]), 1).frequency[0] / 100 for y in (0, kind.instant.size - 1)
    ]
    stated = leverage(kind)
    assert [-stated.one_value_down, stated.one_value] == pytest.approx(ends)
    assert stated.one_value < 2.6


@pytest.mark.parametrize(("size", "epsilon"), [(2, 1.0), (5, 1.0), (6, 4.0)])
def test_the_best_guess_is_right_as_often_as_enumerated(size: int, epsilon: float) -> None:
    kind = built(size, epsilon)
    rows = np.array([[float(p) for p in row] for row in enumerated(kind)])
    sent = rows
    assert best_guess(kind, 1) == pytest.approx(float(sent.max(axis=0).sum()) / size)
    for reports in (2, 3, 4):
        sent = (sent[:, :, None] * rows[:, None, :]).reshape(size, -1)
        truth = float(sent.max(axis=0).sum()) / size
        assert best_guess(kind, reports) == pytest.approx(truth, rel=0.02)
    assert best_guess(kind, 20_000) == pytest.approx(1.0)
