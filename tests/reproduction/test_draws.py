"""The fast draws of reproduction.draws have the law that a fleet of devices has."""

from typing import Any

import numpy as np
import pytest

from ldpbeam.channels.calibration import Calibration
from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol
from ldpbeam.protocols.bit_flip import BitFlip
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from reproduction.data import Sequences
from reproduction.draws import (
    bernoulli_words,
    bit_counts,
    one_bit_counts,
    one_epoch,
    permanent_bits,
    two_rounds,
)
from tests.reference.settings import Levels

DEVICES, SIZE, GROUPS = 24, 4, 700
HELD = np.array([[0] * 12 + [1] * 8 + [3] * 4, [0] * 6 + [1] * 14 + [2] * 4, [0] * 12 + [1] * 8 + [2] * 4])
"""What the devices of a group hold in three epochs: some change and come back, some do not."""

ALL_CHANGE = np.array([[0] * DEVICES, [1] * DEVICES, [2] * DEVICES])
"""All devices change in every epoch; those whose hash stays the same keep their answer."""

LEVELS: Levels = {"epsilon_longitudinal": 3.0, "epsilon_first": 2.6}
"""Little fresh noise, so that what is memoised shows from epoch to epoch."""

LIMIT = 5.2
"""Standard errors; over all comparisons of this file a correct draw exceeds it with a chance of 1e-4."""


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(seed))


def people(values: np.ndarray[Any, Any] = HELD) -> Sequences:
    keys = np.arange(DEVICES) * SIZE + values
    pairs, inverse = np.unique(keys, return_inverse=True)
    return Sequences(SIZE, inverse.reshape(values.shape).astype(np.int32), pairs // SIZE, pairs % SIZE)


def made(name: str, **more: Any) -> FrequencyProtocol[Any]:
    levels = LEVELS if name != "dbitflip_pm" else Levels(epsilon_longitudinal=3.0)
    one = protocol(name, SIZE, Parameters(**levels, **more))
    assert isinstance(one, FrequencyProtocol)
    return one


def by_devices(one: FrequencyProtocol[Any], values: np.ndarray[Any, Any] = HELD) -> np.ndarray[Any, Any]:
    """Support of every value in every epoch, of groups of devices that hold the same: (GROUPS, 3 k)."""
    fleet = ProtocolFleet(one, DEVICES * GROUPS, RandomWords(11))
    found = np.zeros((GROUPS, len(values), one.counter.counts_length), np.int64)
    for epoch, held in enumerate(values):
        parts = list(fleet.reports(epoch, np.tile(held, GROUPS)))
        payloads = np.concatenate([part.payloads for part in parts])
        for group in range(GROUPS):
            one.counter.add(payloads[group * DEVICES : (group + 1) * DEVICES], found[group, epoch])
    support = [[one.counter.support_counts(counts) for counts in group] for group in found]
    return np.array(support).reshape(GROUPS, -1)


def far_apart(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    """Largest difference of means and of covariances (also between epochs), in standard errors."""
    moments = []
    for sample in (one, other):
        centred = sample - sample.mean(axis=0)
        # Products of centred columns: their mean is the covariance, their spread gives its error.
        i, j = np.triu_indices(sample.shape[1])
        both = np.concatenate([sample, centred[:, i] * centred[:, j]], axis=1)
        moments.append((both.mean(axis=0), both.var(axis=0) / len(sample)))
    (m1, v1), (m2, v2) = moments
    spread = np.sqrt(v1 + v2)
    assert (np.abs(m1 - m2)[spread == 0] == 0).all()
    return float((np.abs(m1 - m2)[spread > 0] / spread[spread > 0]).max())


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("l_osue", {}),
        ("l_grr", {}),
        ("loloha", {"hash_family": "linear", "g": 3}),
        ("loloha", {"hash_family": "affine", "g": 3, "calibration": Calibration.PUBLISHED}),
    ],
)
@pytest.mark.cases(1)
def test_two_rounds_have_the_law_of_the_devices(name: str, more: dict[str, Any]) -> None:
    one = made(name, **more)
    rng = generator(5)
    drawn = np.array([two_rounds(rng, [one], people())[0].ravel() for _ in range(GROUPS)])
    assert far_apart(drawn, by_devices(one)) < LIMIT


@pytest.mark.parametrize("family", ["linear", "affine"])
def test_a_hash_and_not_a_value_is_what_is_memoised(family: str) -> None:
    one = made("loloha", hash_family=family, g=2)
    rng = generator(5)
    drawn = [two_rounds(rng, [one], people(ALL_CHANGE))[0].ravel() for _ in range(GROUPS)]
    assert far_apart(np.array(drawn), by_devices(one, ALL_CHANGE)) < LIMIT


@pytest.mark.parametrize("d", [1, SIZE])
def test_memoised_bits_have_the_law_of_the_devices(d: int) -> None:
    one = made("dbitflip_pm", d=d)
    assert isinstance(one, BitFlip)
    rng, drawn = generator(6), []
    for _ in range(GROUPS):
        if d == 1:
            counts, sampled, _, _ = one_bit_counts(rng, people(), one)
            assert sampled.sum() == DEVICES
        else:
            counts = bit_counts(permanent_bits(rng, people().value, SIZE, one.channel), people(), one)
        drawn.append(counts.ravel())
    assert far_apart(np.array(drawn), by_devices(one)) < LIMIT


@pytest.mark.parametrize(
    ("name", "more"), [("l_sue", {}), ("l_grr", {}), ("loloha", {"g": 3}), ("loloha", {"g": 2})]
)
def test_one_epoch_has_the_law_of_the_devices(name: str, more: dict[str, Any]) -> None:
    one = made(name, **more)
    held = np.bincount(HELD[0], minlength=SIZE)
    rng = generator(7)
    drawn = np.array([one_epoch(rng, one, held) for _ in range(GROUPS)])
    assert far_apart(drawn, by_devices(one)[:, :SIZE]) < LIMIT


def test_the_comparison_sees_answers_that_are_not_memoised() -> None:
    """Each epoch right, and the epochs independent: means agree, covariances do not."""
    one = made("l_osue")
    rng = generator(5)
    fresh = [
        np.concatenate([one_epoch(rng, one, np.bincount(row, minlength=SIZE)) for row in HELD])
        for _ in range(GROUPS)
    ]
    assert far_apart(np.array(fresh), by_devices(one)) > LIMIT


@pytest.mark.parametrize("weight", [1 << 63, 3 << 62, 0x0123456789ABCDEF, (1 << 64) - (1 << 58), 5 << 55])
def test_bits_drawn_together_are_fair_coins_of_that_weight(weight: int) -> None:
    p, count = weight / 2**64, 20_000
    words = bernoulli_words(generator(8), count, weight)
    ones = np.unpackbits(words.view(np.uint8)).reshape(count, 64)
    share = np.sqrt(p * (1 - p) / count)
    assert (np.abs(ones.mean(axis=0) - p) < LIMIT * share).all()
    # Bits of a word are independent: their number has a binomial's variance.
    expected = 64 * p * (1 - p)
    fourth = expected * (1 + (3 * 64 - 6) * p * (1 - p))
    error = np.sqrt((fourth - expected**2) / count)
    assert abs(ones.sum(axis=1).var() - expected) < LIMIT * error


def test_protocols_drawn_together_share_the_permanent_round() -> None:
    other = protocol("l_osue", SIZE, Parameters(epsilon_longitudinal=1.0, epsilon_first=0.5))
    assert isinstance(other, FrequencyProtocol)
    with pytest.raises(ValueError, match="same permanent round"):
        two_rounds(generator(1), [made("l_osue"), other], people())
