"""The draws of the Microsoft experiments against devices and against definitions."""

import itertools

import numpy as np
import pytest

from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from reproduction.experiments import EXPERIMENTS
from reproduction.microsoft import DAY, minutes, one_bit, usage
from reproduction.microsoft_histograms import DRAWS, bucketed, sampled_sets
from reproduction.microsoft_privacy import pattern_supports, worst_case
from reproduction.paper import Settings, number


def test_the_mean_of_devices_has_the_error_that_is_drawn() -> None:
    """Fleets of the protocol itself: 160 groups of 250 devices that hold noon or nothing."""
    groups, devices = 160, 250
    held = np.array([DAY // 2] * 100 + [0] * 150)
    one = one_bit(1.0, 0.1)
    fleet = ProtocolFleet(one, groups * devices, RandomWords(5))
    bits = np.concatenate([part.payloads[:, 0] for part in fleet.reports(0, np.tile(held, groups))])
    ends = one.ends
    share = bits.reshape(groups, devices).mean(axis=1)
    errors = DAY * ((share - float(ends.other)) / float(ends.gap)) - held.mean()
    p = float(ends.other) + held / DAY * float(ends.gap)
    deviation = DAY * np.sqrt((p * (1 - p)).sum()) / devices / float(ends.gap)
    assert abs(errors.mean()) < 5 * deviation / np.sqrt(groups)
    assert errors.std() == pytest.approx(deviation, rel=0.25)


@pytest.mark.parametrize(
    ("name", "kind"), [("BinFlip", "binflip"), ("KFlip", "grr"), ("BinFlip+", "binflip_plus")]
)
def test_histograms_of_one_round_have_the_law_of_the_devices(name: str, kind: str) -> None:
    groups, level = 300, 2.0
    held = bucketed("normal", 400, 1)
    built = protocol(kind, held.size, Parameters(epsilon=level))
    assert isinstance(built, FrequencyProtocol)
    values = np.repeat(np.arange(held.size), held)
    fleet = ProtocolFleet(built, groups * values.size, RandomWords(6))
    payloads = np.concatenate([part.payloads for part in fleet.reports(0, np.tile(values, groups))])
    own, other = float(built.estimator.support.own), float(built.estimator.support.other)
    found = np.empty((groups, held.size))
    for group in range(groups):
        counts = np.zeros(built.counter.counts_length, np.int64)
        built.counter.add(payloads[group * values.size : (group + 1) * values.size], counts)
        found[group] = (built.counter.support_counts(counts) / values.size - other) / (own - other)
    drawn = DRAWS[name](np.random.default_rng(7), held, level, groups)
    spread = np.sqrt(found.var(axis=0) / groups + drawn.var(axis=0) / groups)
    assert (np.abs(found.mean(axis=0) - drawn.mean(axis=0)) < 5 * spread).all()
    # The figure shows the largest error of a run.
    truth = held / held.sum()
    errors = [np.abs(one - truth).max(axis=1) for one in (found, drawn)]
    error = np.sqrt(sum(one.var() / groups for one in errors))
    assert abs(errors[0].mean() - errors[1].mean()) < 5 * error


def test_sampled_sets_are_sets_and_equally_likely() -> None:
    sets = np.sort(sampled_sets(np.random.default_rng(8), 60_000, 2), axis=1)
    assert (sets[:, 0] < sets[:, 1]).all()
    counts = np.bincount(sets[:, 0] * 32 + sets[:, 1])
    counts = counts[counts > 0]
    assert counts.size == 32 * 31 // 2
    expected = 60_000 / counts.size
    assert ((counts - expected) ** 2 / expected).sum() < counts.size + 6 * np.sqrt(2 * counts.size)


def test_sampled_histograms_get_better_with_more_bits() -> None:
    compute = EXPERIMENTS["microsoft:fig3c"].compute
    errors: dict[object, float] = {}
    for mechanism in ("1BitFlipPM", "2BitFlipPM", "4BitFlipPM", "BinFlip"):
        rows = compute(Settings(devices=20_000, seed=3), {"mechanism": mechanism, "first": 0, "runs": 12})
        errors |= {row["mechanism"]: number(row, "error") for row in rows if row["epsilon"] == 1.0}
    order = [errors[name] for name in ("BinFlip", "4BitFlipPM", "2BitFlipPM", "1BitFlipPM")]
    assert order == sorted(order)
    # V* grows with b/d: an eighth of the devices, so sqrt(8) times the error.
    assert order[1] / order[0] == pytest.approx(np.sqrt(8), rel=0.35)


def test_patterns_are_sequences_up_to_renaming() -> None:
    """Against the definition, by dictionaries: every sequence of three days over three points."""
    third = DAY // 2
    sequences = np.array(list(itertools.product((0, third, DAY), repeat=3)), np.int32).T
    alpha = np.zeros(sequences.shape[1], np.int64)

    def canonical(sequence: tuple[int, ...]) -> tuple[int, ...]:
        names: dict[int, int] = {}
        return tuple(names.setdefault(value, len(names)) for value in sequence)

    expected: dict[tuple[int, ...], int] = {}
    for column in sequences.T.tolist():
        key = canonical(tuple(column))
        expected[key] = expected.get(key, 0) + 1
    assert pattern_supports(sequences, third, alpha).tolist() == sorted(expected.values(), reverse=True)


def test_rounding_is_up_where_alpha_reaches_the_next_point() -> None:
    held = np.full((2, 4), 100, np.int32)
    held[1, :2] = 200  # with s = m: rounds up for α of m − 200 and more
    alpha = np.array([DAY - 150, DAY - 250, 0, DAY - 1])
    # Device 0 is rounded down, then up; the others stay where they are, the last one above.
    assert pattern_supports(held, DAY, alpha).tolist() == [3, 1]
    assert pattern_supports(held, DAY, alpha - [1, 0, 0, 0]).tolist() == [3, 1]
    assert pattern_supports(held, DAY, alpha - [60, 0, 0, 0]).tolist() == [4]


def test_more_days_than_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="64-bit"):
        pattern_supports(np.zeros((33, 1), np.int32), DAY // 3, np.zeros(1, np.int64))


def test_populations_are_what_they_are_called() -> None:
    for name in ("constant", "uniform", "normal", "usage"):
        held = minutes(name, 5000, 1)
        assert held.sum() == 5000
    hours = np.repeat(np.arange(1441), minutes("normal", 5000, 1)) / 60
    assert hours.mean() == pytest.approx(12, abs=0.2)
    assert hours.std() == pytest.approx(2, abs=0.2)
    days = usage(5000, 3, 1)
    assert (days == 0).all(axis=0).mean() == pytest.approx(0.6, abs=0.04)
    assert days.max() <= 1440


@pytest.mark.parametrize(("counters", "steps"), [(2, 2), (3, 2), (3, 4), (4, 3)])
def test_the_worst_case_of_several_counters_is_that_of_all_inputs(counters: int, steps: int) -> None:
    """By enumeration of all values with Σ x <= m and all answers, where t − 1 divides m."""
    level = 0.569
    r = np.exp(level)
    low = 1 / (r + 1)
    rows = [x for x in itertools.product(range(steps + 1), repeat=counters) if sum(x) <= steps]
    ones = low + np.array(rows) / steps * (1 - 2 * low)
    worst = 0.0
    for answer in itertools.product((0, 1), repeat=counters):
        likelihood = np.where(np.array(answer) == 1, ones, 1 - ones).prod(axis=1)
        worst = max(worst, float(np.log(likelihood.max() / likelihood.min())))
    assert worst == pytest.approx(worst_case(level, counters), abs=1e-9)
