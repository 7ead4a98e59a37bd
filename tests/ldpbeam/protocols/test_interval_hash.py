"""Local hashing over stretches of values: law, guesses and forged reports, by asking all functions."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

import ldpbeam
from ldpbeam.hashing import optimal_stretches
from ldpbeam.promise.poisoning import leverage
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.interval_hash import IntervalHash
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.wire import report_pb2
from tests.narrow import of_kind, present
from tests.reference.stretches import moves

ONE: dict[str, Any] = {"epsilon": 1.0}
TWO: dict[str, Any] = {"epsilon_longitudinal": 2.0, "epsilon_first": 1.0}


def made(name: str, size: int, **more: Any) -> IntervalHash:
    levels = TWO if name == "loloha" else ONE
    built = protocol(name, size, Parameters(hash_family="interval", **{**levels, **more}))
    return of_kind(IntervalHash, built)  # type: ignore[type-abstract]


def hashed(built: IntervalHash) -> list[tuple[int, ...]]:
    """The stretches of all values under each function."""
    return [
        tuple(built.family.hash(seed, v) for v in range(built.domain_size)) for seed in built.family.seeds()
    ]


@pytest.mark.parametrize("name", ["blh", "olh", "loloha"])
def test_each_name_has_a_protocol_over_stretches(name: str) -> None:
    """Same number, keys and channel as with other families; no probabilities of single values."""
    built, linear = (
        made(name, 60, **({} if name == "blh" else {"g": 3})),
        protocol(name, 60, Parameters(**(TWO if name == "loloha" else ONE), g=3)),
    )
    assert (built.ID, built.NAME, built.PARAMETERS, built.OPTIONAL) == (
        linear.ID,
        linear.NAME,
        linear.PARAMETERS,
        linear.OPTIONAL,
    )
    other = of_kind(LocalHash, linear)  # type: ignore[type-abstract]
    assert (built.rounds.last, built.rounds.permanent, built.guarantee) == (
        other.rounds.last,
        other.rounds.permanent,
        other.guarantee,
    )
    assert built.losses == other.losses
    assert built.estimator.support is None
    again = type(built).from_parameters(60, Parameters(hash_family="interval", **(TWO | ONE), g=3))
    assert again == built


@pytest.mark.parametrize(("size", "g"), [(2, 2), (6, 3), (9, 4), (12, 2)])
def test_a_pair_is_separated_as_often_as_functions_say(size: int, g: int) -> None:
    built, chance = made("loloha", size, g=g), Fraction(1, 64)
    own, other = built.symbol
    rows = hashed(built)
    distances = []
    for v, w in combinations(range(size), 2):
        apart = sum(chance for row in rows if row[v] != row[w])
        strata = built.law.model((v, w)).strata
        assert [one.probability for one in strata] == [apart, 1 - apart]
        distances.append(apart * (own - other))
    once = made("olh", size, g=g)
    randomiser = present(once.law.one_epoch(renamed=False, alone=True))
    assert randomiser.distance == max(distances) / (own - other) * (once.symbol[0] - once.symbol[1])
    assert built.law.model((3 % size, 3 % size)).strata[0].probability == 0


@pytest.mark.parametrize(
    ("name", "size", "g"), [("olh", 7, 3), ("loloha", 7, 5), ("loloha", 5, 5), ("blh", 4, 2)]
)
def test_the_best_guess_of_one_report_is_exact(name: str, size: int, g: int) -> None:
    built = made(name, size, **({} if name == "blh" else {"g": g}))
    assert built.estimator.size == built.law.domain_size == size
    own, other = map(float, built.symbol)
    right = sum(own if y in row else other for row in hashed(built) for y in range(g)) / 64 / size
    assert built.law.best_guess(1) == pytest.approx(right)
    assert built.law.guess_is_exact(1)
    assert built.law.guess_is_exact(5) == (name == "loloha")


@pytest.mark.parametrize(("size", "g", "epsilon"), [(6, 3, 2.0), (9, 2, 1.0), (5, 4, 3.0)])
def test_guesses_from_two_functions_are_those_of_all_pairs(size: int, g: int, epsilon: float) -> None:
    """Within four standard errors of at most 1/128: chance alone leaves them once in 16,000 runs."""
    built = made("olh", size, g=g, epsilon=epsilon)
    own, other = map(float, built.symbol)
    kinds = Counter(hashed(built))
    right = 0.0
    for (first, n), (second, m) in product(kinds.items(), repeat=2):
        for y, z in product(range(g), repeat=2):
            likelihoods = (
                (own if a == y else other) * (own if b == z else other)
                for a, b in zip(first, second, strict=True)
            )
            right += n * m / 64**2 * max(likelihoods) / size
    found = built.law.best_guess(2)
    assert found == pytest.approx(right, abs=4 / 128)
    # The posterior varies far less than a right or wrong guess: what is seen is nearer by far.
    assert found == pytest.approx(right, rel=0.02)
    assert built.law.best_guess(2) == found
    assert built.law.best_guess(40) > found


def test_many_reports_of_runs_tell_little_of_a_value() -> None:
    """The figures of docs/protocols.md."""
    assert made("olh", 360).law.best_guess(100) == pytest.approx(0.13, abs=0.005)
    linear = protocol("olh", 360, Parameters(epsilon=1.0))
    assert linear.law.best_guess(100) == pytest.approx(0.97, abs=0.005)


@pytest.mark.parametrize(("name", "g"), [("olh", 2), ("olh", 5), ("loloha", 3)])
def test_the_ends_of_the_mean_run_are_those_of_the_law(name: str, g: int) -> None:
    built = made(name, 20, g=g)
    ends = present(built.forgery.stretch_ends)
    for value, expected in ((0, ends.other), (19, ends.own)):
        mean = sum(
            Fraction(r.symbol, g - 1) * built.law.likelihood(r, value) / 64 for r in built.law.responses()
        )
        assert mean == expected
    assert present(built.forgery.ends).own == built.symbol[0]


@pytest.mark.parametrize(("size", "g", "epsilon"), [(64, 4, 1.0), (64, 2, 1.0), (40, 3, 0.5), (64, 6, 2.0)])
@pytest.mark.parametrize("reports", [10**3, 10**6])
def test_no_report_moves_a_mean_by_more_than_the_leverage(
    size: int, g: int, epsilon: float, reports: int
) -> None:
    stated = leverage(made("olh", size, g=g, epsilon=epsilon))
    moved = moves(size, g, epsilon, reports)
    assert 0.5 * stated.one_value < moved.mean_of_all <= stated.one_value * 1.001
    assert moved.mean <= 1.05 * stated.one_value
    assert stated.one_value - stated.one_value_down == pytest.approx(1)
    assert (stated.ten_values, stated.values_supported_at_most) == (None, None)


def test_optimal_is_that_of_the_first_level() -> None:
    for first in (0.5, 1.0, 2.0):
        built = made("loloha", 360, epsilon_longitudinal=5.0, epsilon_first=first)
        assert built.g == made("olh", 360, epsilon=first).g == optimal_stretches(360, first)


def test_the_information_of_a_channel_that_tells_all_is_the_entropy_of_the_stretches() -> None:
    built = made("olh", 8, g=8)
    assert built.family.information(1.0 - 7e-12, 1e-12) == pytest.approx(np.log(8))
    assert built.family.information(1 / 8, 1 / 8) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", ["olh", "loloha"])
def test_a_device_reports_a_run(name: str) -> None:
    text = (
        f"name: a\ndomain: {{range: {{max: 1440, buckets: 360}}}}\nprotocol: {name}\nhash_family: interval\n"
    )
    levels = "epsilon: 32\n" if name == "olh" else "epsilon_longitudinal: 32\nepsilon_first: 31\n"
    agreed = ldpbeam.parse_collection(text + levels + "g: 60\nepoch: {length: 1d}")
    built = of_kind(IntervalHash, agreed.protocol)  # type: ignore[type-abstract]
    report = ldpbeam.Device.ephemeral(agreed).report(480, epoch=0)
    counts = np.zeros(built.counter.counts_length, np.int64)
    payload = np.frombuffer(report_pb2.Report.FromString(present(report)).payload, np.uint8)[None]
    assert built.counter.check(payload).tolist() == [0]
    built.counter.add(payload, counts)
    # At such levels a report is the truth but once in 10^13.
    supported = np.flatnonzero(built.counter.support_counts(counts))
    assert supported.min() <= 120 <= supported.max()
    assert supported.tolist() == list(range(supported.min(), supported.max() + 1))
    assert len(supported) < 360 / 60 * 2 + 1


@pytest.mark.parametrize("renamed", [False, True])
def test_a_crowd_behind_a_shuffler_are_the_devices_with_one_function(renamed: bool) -> None:
    built = made("loloha", 40, g=3)
    rows = hashed(built)
    assert len(set(rows)) == 64
    for first, second in combinations(rows, 2):
        assert len(set(zip(first, second, strict=True))) > 3
    (one, many) = built.law.one_epoch(renamed=renamed, alone=False), built.law.many_epochs(renamed=renamed)
    assert (present(one).functions, present(many).functions) == (64, 64)
    assert present(one).distance == built.symbol[0] - built.symbol[1]
    # Linear functions hide a device as well where the crowd has as many.
    linear = protocol("loloha", 9, Parameters(**TWO, g=3))
    assert present(linear.law.one_epoch(renamed=False, alone=False)).distance == present(one).distance
