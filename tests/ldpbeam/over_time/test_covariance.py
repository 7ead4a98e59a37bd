"""Covariance of two epochs' errors: the formulas against the joint distribution of a device's two reports.

What one device says in two epochs is enumerated: all it can draw for life, all its memoised answers and both
second rounds, in rational numbers. Nothing of the formulas is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from ldpbeam.estimates import variance
from ldpbeam.over_time import DrawnAnew, memo_errors
from ldpbeam.over_time.covariance import MeanErrors, SlottedErrors, std_error_floor
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.bit_flip import BitFlip, BucketBits
from ldpbeam.protocols.direct import LGRR
from ldpbeam.protocols.hashed import Hashed
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.one_bit_mean import OneBitRRPM
from ldpbeam.protocols.part_estimator import PartEstimator
from ldpbeam.protocols.unary import Unary
from tests.narrow import present

TWO = Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0)
Joint = Iterator[tuple[Fraction, bool, bool]]
"""Probability, and whether the first and the second report support the value in question."""


def symbol(channel: Any, put_in: int, came_out: int) -> Fraction:
    return channel.own if put_in == came_out else channel.other


def coin(one: Fraction, bit: int) -> Fraction:
    return one if bit else 1 - one


def of_direct(built: LGRR, x: int, y: int, v: int) -> Joint:
    k = built.domain_size
    for first, again in product(range(k), repeat=2):
        if x == y and first != again:
            continue
        weight = symbol(built.rounds.permanent, x, first) * (
            1 if x == y else symbol(built.rounds.permanent, y, again)
        )
        for one, two in product(range(k), repeat=2):
            chance = weight * symbol(built.rounds.last, first, one) * symbol(built.rounds.last, again, two)
            yield chance, built.law.supports(one, v), built.law.supports(two, v)


def of_unary(built: Unary, x: int, y: int, v: int) -> Joint:
    # Bits are drawn independently, so the bit of v says it all.
    permanent, instant = built.rounds.permanent, built.rounds.last
    assert permanent is not None
    for first, again in product((0, 1), repeat=2):
        if x == y and first != again:
            continue
        weight = coin(permanent.own if x == v else permanent.other, first)
        weight *= 1 if x == y else coin(permanent.own if y == v else permanent.other, again)
        for one, two in product((0, 1), repeat=2):
            chance = coin(instant.own if first else instant.other, one)
            chance *= coin(instant.own if again else instant.other, two)
            yield weight * chance, built.law.supports(one << v, v), built.law.supports(two << v, v)


def of_hash(built: LocalHash, x: int, y: int, v: int) -> Joint:
    seeds, g = list(built.family.seeds()), built.g
    assert built.rounds.permanent is not None
    for seed in seeds:
        before, after = built.family.hash(seed, x), built.family.hash(seed, y)
        for first, again in product(range(g), repeat=2):
            if before == after and first != again:
                continue
            weight = Fraction(1, len(seeds)) * symbol(built.rounds.permanent, before, first)
            weight *= 1 if before == after else symbol(built.rounds.permanent, after, again)
            for one, two in product(range(g), repeat=2):
                chance = (
                    weight * symbol(built.rounds.last, first, one) * symbol(built.rounds.last, again, two)
                )
                yield (
                    chance,
                    built.law.supports(Hashed(seed, one), v),
                    built.law.supports(Hashed(seed, two), v),
                )


def of_bit_flip(built: BitFlip, x: int, y: int, v: int) -> Joint:
    """Among the devices that sampled v; what is memoised is sent as it is."""
    sets = [one for one in combinations(range(built.domain_size), built.d) if v in one]
    for indices in sets:
        before, after = built.device.memo_key(indices, x), built.device.memo_key(indices, y)
        place = indices.index(v)

        def one_bit(key: int, bit: int, place: int = place) -> Fraction:
            return coin(built.channel.own if key == place else built.channel.other, bit)

        for first, again in product((0, 1), repeat=2):
            if before == after and first != again:
                continue
            weight = Fraction(1, len(sets)) * one_bit(before, first)
            weight *= 1 if before == after else one_bit(after, again)
            said = [BucketBits(indices, bit << place) for bit in (first, again)]
            yield weight, built.law.supports(said[0], v), built.law.supports(said[1], v)


def covariance(joint: Joint) -> Fraction:
    both = first = second = total = Fraction(0)
    for chance, one, two in joint:
        total += chance
        both += chance * (one and two)
        first += chance * one
        second += chance * two
    assert total == 1
    return both - first * second


CASES: list[tuple[str, int, Parameters, Any]] = [
    ("l_grr", 4, TWO, of_direct),
    *((name, 3, TWO, of_unary) for name in ("l_sue", "l_osue", "l_oue", "l_soue")),
    ("rappor", 3, Parameters(epsilon_longitudinal=2.0), of_unary),
    ("loloha", 8, Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0, g=2), of_hash),
    ("loloha", 9, Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0, g=3), of_hash),
    ("loloha", 5, Parameters(epsilon_longitudinal=1.0, epsilon_first=0.9, g=5), of_hash),
    ("dbitflip_pm", 5, Parameters(epsilon_longitudinal=1.0, d=1), of_bit_flip),
    ("dbitflip_pm", 5, Parameters(epsilon_longitudinal=1.0, d=3), of_bit_flip),
    ("dbitflip_pm", 5, Parameters(epsilon_longitudinal=1.0, d=5), of_bit_flip),
]


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("name", "k", "parameters", "joint"),
    CASES,
    ids=lambda one: getattr(one, "__name__", None) or str(one)[:30],
)
def test_covariance_of_a_device_that_keeps_or_changes_its_value(
    name: str, k: int, parameters: Parameters, joint: Any
) -> None:
    built = protocol(name, k, parameters)
    errors = memo_errors(PartEstimator(built))
    assert errors is not None
    # What the estimator divides by, of both rounds; the formulas divide by that of the permanent round.
    scale = float(present(built.estimator.support).gap) ** 2
    drawn = 1 - float(present(built.estimator.support).sampled)

    def found(x: int, y: int, v: int) -> float:
        return float(covariance(joint(built, x, y, v))) / scale

    # Frequencies 1 and 0 are those of one device; which devices speak about v adds nothing to them.
    assert drawn >= 0
    assert found(1, 1, 1) == pytest.approx(errors.floor_variance(np.ones(1))[0], rel=1e-9)
    assert found(1, 1, 0) == pytest.approx(errors.floor_variance(np.zeros(1))[0], rel=1e-9)
    gap = float(present(built.estimator.lasting).gap) ** 2
    said = built.estimator.recurrence
    for v in (0, 1, k - 1):
        other = (v + 1) % k
        assert found(v, other, v) == pytest.approx(said.involved / gap, abs=1e-9)
        assert found(other, v, v) == pytest.approx(said.involved / gap, abs=1e-9)
    apart = [found(x, y, 0) for x, y in product(range(1, k), repeat=2) if x != y]
    assert np.mean(apart) == pytest.approx(said.apart / gap, abs=1e-9)
    assert min(apart) == pytest.approx(said.apart_least / gap, abs=1e-9)
    # Nothing goes together more than kept answers do.
    assert max(apart) <= errors.floor_variance(np.zeros(1))[0] * (1 + 1e-9)


@pytest.mark.parametrize(("gamma", "segment"), [(0.0, None), (0.2, 2), (0.2, 6)])
def test_covariance_of_a_mean(gamma: float, segment: int | None) -> None:
    """Bits of one device, over its α, the points' bits and both flips."""
    built = protocol("one_bit_rrpm", 7, Parameters(epsilon_longitudinal=2.0, gamma=gamma, segment=segment))
    assert isinstance(built, OneBitRRPM)
    errors = memo_errors(PartEstimator(built))
    assert isinstance(errors, MeanErrors)
    scale = (built.estimator.maximum / float(present(built.forgery.ends).gap)) ** 2
    flip = built.instant

    def joint(x: int, y: int) -> Joint:
        for alpha in range(built.segment):
            before, after = built.device.point(x, alpha), built.device.point(y, alpha)
            for first, again in product((0, 1), repeat=2):
                if before == after and first != again:
                    continue
                ones = [Fraction(built.bit.weight(p * built.segment), 1 << 64) for p in (before, after)]
                weight = Fraction(1, built.segment) * coin(ones[0], first)
                weight *= 1 if before == after else coin(ones[1], again)
                for one, two in product((0, 1), repeat=2):
                    if flip is None:
                        chance = Fraction(int(one == first and two == again))
                    else:
                        chance = coin(flip.own if first else flip.other, one)
                        chance *= coin(flip.own if again else flip.other, two)
                    yield weight * chance, bool(one), bool(two)

    for x, y in product(range(7), repeat=2):
        found = float(covariance(joint(x, y))) * scale
        least, most = errors.drawn_anew(np.array([float(x)]), np.array([float(y)]))
        if x == y:
            assert found == pytest.approx(errors.floor_variance(np.array([float(x)]))[0], rel=1e-9)
            assert found >= errors.least_floor_variance(np.array([float(x)]))[0] * (1 - 1e-9)
        assert least[0] * (1 - 1e-9) - 1e-9 <= found <= most[0] * (1 + 1e-9)
    assert errors.least_floor_variance(np.zeros(1))[0] == pytest.approx(errors.floor_variance(np.zeros(1))[0])


def test_who_is_asked_for_life_is_part_of_the_error() -> None:
    """Two attributes, of which a device reports one: drawing the devices is all that one round repeats."""
    parts = [protocol("grr", 4, Parameters(epsilon=1.0))] * 2
    estimator = PartEstimator(parts[0], Fraction(1, 2))
    errors = memo_errors(estimator)
    assert errors is not None
    frequency = np.array([0.0, 0.1, 0.5, 1.0])
    assert errors.floor_variance(frequency) == pytest.approx(0.5 * frequency * (1 - frequency))
    # Nobody holds twice what half of the devices hold in each epoch: the covariance is −f·f'/2.
    assert errors.opposed(frequency, errors.place(frequency))[1] ** 2 == pytest.approx(
        0.5 * np.minimum(frequency, 1 - frequency) ** 2
    )
    assert memo_errors(PartEstimator(parts[0])) is None
    mean = protocol("one_bit_mean", 11, Parameters(epsilon=1.0))
    assert memo_errors(PartEstimator(mean)) is None
    shared = memo_errors(PartEstimator(mean, Fraction(1, 4)))
    assert shared is not None
    assert shared.floor_variance(np.array([5.0]))[0] == pytest.approx(0.75 * 25)
    assert shared.opposed(np.array([5.0]), shared.place(np.array([5.0])))[0, 0] ** 2 == pytest.approx(
        0.75 * 25
    )


def test_the_floor_is_never_more_than_the_error() -> None:
    errors = memo_errors(PartEstimator(protocol("l_osue", 4, TWO)))
    assert errors is not None
    known, n = np.array([0.0, 0.4, np.nan]), np.array([100, 100, 0])
    floor = std_error_floor(errors, known, n, np.array([1e-3, 1.0, np.nan]))
    assert floor[0] == 1e-3
    assert floor[1] == pytest.approx((errors.floor_variance(np.array([0.3, 0.7]))[1] / 100) ** 0.5)
    assert np.isnan(floor[2])
    assert std_error_floor(None, known, n, known).tolist()[:2] == [0.0, 0.0]


@pytest.mark.parametrize(("reports", "of"), [(1, 2), (2, 4), (3, 3)])
@pytest.mark.parametrize("share", [1, 2])
def test_devices_that_report_in_some_epochs_only(reports: int, of: int, share: int) -> None:
    """Covariance of two epochs from all sets of epochs that a device may have drawn, values kept."""
    built = protocol("l_osue", 4, TWO)
    whole = memo_errors(PartEstimator(built, Fraction(1, share)))
    errors = SlottedErrors(whole, 1, reports, of, 1 / share)
    sets = list(combinations(range(of), reports))
    both = sum({0, 1} <= set(one) for one in sets) / len(sets) / share
    one = sum(0 in some for some in sets) / len(sets) / share
    f = np.array([0.3])
    noise = variance(f, 1, present(built.estimator.lasting))
    # n = one·N reports each; errors of answers, and of who was drawn: f(1−f)·(both/one² − 1)/N.
    answers, drawn = noise * both / one, f * (1 - f) * (both / one**2 - 1) * one
    found = float((answers + drawn)[0])
    assert (
        -(errors.opposed(f, errors.place(f)) ** 2).sum() - 1e-12
        <= found
        <= errors.floor_variance(f)[0] + 1e-12
    )
    if share == 1:
        assert errors.floor_variance(f) == pytest.approx(answers)
        assert (errors.opposed(f, errors.place(f)) ** 2).sum() == pytest.approx(-drawn[0])
    alone = SlottedErrors(None, 1, reports, of)
    assert alone.floor_variance(f).tolist() == [0.0]
    assert (alone.drawn_anew(f, f)[0] == 0).all()


def test_rates_that_values_are_drawn_anew_at() -> None:
    few, many = DrawnAnew(0.1, 0.5).unchanged(np.array([0, 2]))
    assert few == pytest.approx([1, 0.25])
    assert many == pytest.approx([1, 0.81])
    for least, most in [(0.5, 0.4), (-0.1, 0.2), (0.2, 1.1)]:
        with pytest.raises(ValueError, match="least <= most"):
            DrawnAnew(least, most)
