"""The errors of two slices that are compared: of devices that are drawn, stay, or move between them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any, cast

import numpy as np
import pytest

from ldpbeam.estimates import variance
from ldpbeam.over_time import Series, mean
from ldpbeam.over_time.compare import compare_runs, of_sample, pooled
from ldpbeam.over_time.covariance import FrequencyErrors, memo_errors, slotted_errors
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.contract import FrequencyProtocol, MeanProtocol
from ldpbeam.protocols.estimator import EVERYONE
from ldpbeam.protocols.part_estimator import PartEstimator
from ldpbeam.sums.sum_errors import sum_errors
from ldpbeam.support import SupportProbabilities
from tests.narrow import present
from tests.reference.settings import settings

K, N = 6, 500
FREQUENCY = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
KINDS = [one for one in settings((K,)) if isinstance(one.build(), FrequencyProtocol)]


def of_coins(frequency: np.ndarray, n: Any, round_: SupportProbabilities) -> np.ndarray:
    """Of n devices drawn from a population: whether a report supports a value is a coin."""
    chance = float(round_.other) + frequency * float(round_.gap)
    return np.asarray(chance * (1 - chance) / n / float(round_.gap) ** 2)


@pytest.mark.cases(12)
@pytest.mark.parametrize("share", [EVERYONE, Fraction(1, 3)])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_errors_of_a_sample_are_those_of_coins(kind: Any, share: Fraction) -> None:
    """Whatever part of the devices reports, what is published and what is added make the whole."""
    part = PartEstimator(kind.build(), share, Fraction(2, 3))
    support = present(part.support)
    published = variance(FREQUENCY, N, support)
    series = Series(np.arange(1), np.full((1, K), N), FREQUENCY[None], np.sqrt(published)[None])
    wider = next(of_sample(series, part).blocks()).std_error[0] ** 2
    assert wider == pytest.approx(of_coins(FREQUENCY, N, support))
    lasting = part.protocol.estimator.lasting or SupportProbabilities(Fraction(1), Fraction(0))
    floor = present(memo_errors(part.of_sample)).floor_variance(FREQUENCY) / N
    assert floor == pytest.approx(of_coins(FREQUENCY, N, lasting))
    # Of a device that reports in 3 epochs of 10, 2 of the other 9 repeat it.
    few = slotted_errors(part.of_sample, 3, 10)
    assert few.floor_variance(FREQUENCY) / N == pytest.approx(floor * 2 / 9)
    assert few.drawn_apart(FREQUENCY) == pytest.approx(0)
    # The sum of one value alone has the errors of the value; of affine functions they differ by value.
    one = sum_errors(part.of_sample, np.eye(K)[:1])
    assert not one.independent and isinstance(part.protocol, FrequencyProtocol)
    asked = part.protocol.estimator.asked[0] if part.protocol.estimator.lasting else EVERYONE
    rel = 0.05 if "affine" in str(kind) else 1e-6
    assert one.floor_variance(FREQUENCY) == pytest.approx(floor[:1] * N / float(asked), rel=rel)


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("one_bit_mean", "epsilon"),
        ("laplace_mean", "epsilon"),
        ("piecewise_mean", "epsilon"),
        ("one_bit_rrpm", "epsilon_longitudinal"),
    ],
)
def test_means_of_a_sample_hold_the_spread_of_values_once(name: str, level: str) -> None:
    """Bits are published as coins of their mean; to other means the largest spread of values is added."""
    part = PartEstimator(protocol(name, 101, Parameters(**cast("Any", {level: 2.0}))))
    assert isinstance(part.protocol, MeanProtocol)
    spread = 20.0 * 80.0
    added = 0.0 if name.startswith("one_bit") else spread
    assert part.value_variance(np.array([20.0, 120.0])).tolist() == pytest.approx([added, 0.0])
    floor = present(memo_errors(part.of_sample)).floor_variance(np.array([20.0]))
    ends = part.protocol.estimator.lasting_ends
    assert floor == pytest.approx(spread if ends is None else 100**2 * of_coins(np.array([0.2]), 1, ends))


OWN, OTHER = Fraction(3, 4), Fraction(1, 4)
EPOCHS = 3
COUPLINGS = {"together": Fraction(1, 4), "independent": OWN * OTHER, "opposed": Fraction(0)}
"""P(both memoised answers support the value)."""


def device_variance(weights: tuple[Fraction, ...], held: tuple[int, ...], both: Fraction) -> Fraction:
    """Of Σ weight·answer of a device whose value is the first one, or is not, in even chances at first.

    Args:
        weights: of its epochs, negative in the other slice.
        held: whether it holds what it held at first, or the opposite, in each epoch.
        both: P(the answers for both are 1).
    """
    answers = {(1, 1): both, (0, 1): OWN - both, (1, 0): OTHER - both, (0, 0): 1 - OWN - OTHER + both}
    first = second = Fraction(0)
    for start, (pair, chance) in product((0, 1), answers.items()):
        total = sum((w * pair[start ^ flip] for w, flip in zip(weights, held, strict=True)), Fraction(0))
        first, second = first + chance / 2 * total, second + chance / 2 * total**2
    return (second - first**2) / (OWN - OTHER) ** 2


def test_devices_that_move_between_slices_are_within_the_stated_error() -> None:
    """Four devices, two in either slice in each of three epochs: all ways to move and to change values.

    Independent errors are reached where nobody moves. Movers that change their values, to answers that are
    opposed, take as much from the variances of both means as their covariance adds.
    """
    lasting = SupportProbabilities(OWN, OTHER)
    part = PartEstimator(protocol("grr", 2, Parameters(epsilon=1.0)))
    assert isinstance(part.protocol, FrequencyProtocol)
    one_epoch = float(np.sqrt(of_coins(np.array([0.5]), 2, lasting)[0]))
    series = Series(
        np.arange(EPOCHS), np.full((EPOCHS, 1), 2), np.full((EPOCHS, 1), 0.5), np.full((EPOCHS, 1), one_epoch)
    )
    errors = FrequencyErrors(replace(lasting, sampled=Fraction(1, 1 << 64)), part.protocol)
    sides = mean(series, errors), mean(series, errors)
    stated = float(compare_runs(*sides).std_error[0]) ** 2
    weight = Fraction(1, EPOCHS * 2)
    splits = [one for one in product((1, -1), repeat=4) if sum(one) == 0]
    worst = {}
    for name, both in COUPLINGS.items():
        held = list(product((0, 1), repeat=EPOCHS))
        most = {
            path: max(device_variance(tuple(weight * side for side in path), flips, both) for flips in held)
            for path in product((1, -1), repeat=EPOCHS)
        }
        worst[name] = [
            float(sum(most[path] for path in zip(*epochs, strict=True)))
            for epochs in product(splits, repeat=EPOCHS)
        ]
        assert max(worst[name]) == pytest.approx(stated)
    # It is reached by devices that move too, if their answers are opposed.
    moving = sum(value > stated * (1 - 1e-9) for value in worst["opposed"])
    assert moving > len(splits)


def test_comparisons_are_pooled_one_behind_the_other() -> None:
    rng = np.random.default_rng(3)
    parts = [
        compare_runs(
            *(
                mean(Series(np.arange(2), np.full((2, 3), 9), rng.random((2, 3)), rng.random((2, 3))), None)
                for _ in range(2)
            )
        )
        for _ in range(2)
    ]
    whole = pooled(parts)
    for name in ("change", "std_error", "p_value"):
        assert getattr(whole, name).tolist() == [x for one in parts for x in getattr(one, name)]
    assert whole.before.estimate.tolist() == [x for one in parts for x in one.before.estimate]
    assert whole.after.epochs.tolist() == [2] * 6
