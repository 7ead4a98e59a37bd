"""A device that reports in m of T epochs: its choice, what all of its reports tell together, and the errors.

The choice and the reports are those of the device's own code over every random word; the fleet's are compared
with it word by word; variances are sums over every sample of a small fleet. All in rational arithmetic.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.channels.exact import log_above
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.participation import Participation
from ldpbeam.estimates import variance
from ldpbeam.protocols import PROTOCOLS, Parameters
from ldpbeam.protocols.device import Memo
from ldpbeam.simulators import participation as fleets
from ldpbeam.simulators.population.specs import ABSENT
from ldpbeam.simulators.random_words import RandomWords
from ldpbeam.support import SupportProbabilities
from tests.reference.device_law import every_outcome
from tests.reference.script import ScriptedRandomness

SMALL = [(m, of) for of in range(1, 6) for m in range(1, of + 1)]


def collection(name: str, size: int, m: int, of: int) -> Collection:
    levels: dict[str, Any] = {"epsilon": 1.0, "epsilon_longitudinal": 2.0, "epsilon_first": 1.0}
    parameters = Parameters(**{key: levels[key] for key in PROTOCOLS[name].PARAMETERS})
    return Collection(
        "x", 1, Domain(size), name, parameters, Epochs(3600, 0, of), participation=Participation(m, of)
    )


# The choice


@pytest.mark.parametrize(("m", "of"), SMALL)
def test_every_set_of_epochs_is_equally_likely(m: int, of: int) -> None:
    asked = Participation(m, of)
    found = Counter(
        asked.chosen(ScriptedRandomness(words))
        for words in product(*(range(limit) for limit in asked.limits))
    )
    assert set(found) == set(combinations(range(of), m))
    assert len(set(found.values())) == 1


@settings(max_examples=15)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 5), st.integers(1, 400))
def test_a_fleet_chooses_as_its_devices_do(a: int, b: int, seed: int, cells: int) -> None:
    asked, words, devices = Participation(min(a, b), max(a, b)), RandomWords(seed), 9
    own = []
    for device in range(devices):
        drawn = [
            int(words.words("participation", place, device, 1, 1, limit)[0, 0])
            for place, limit in enumerate(asked.limits)
        ]
        script = ScriptedRandomness(drawn)
        own.append(asked.chosen(script))
        assert script.exhausted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleets, "_CELLS", cells)
        for epoch in {0, asked.of // 2, asked.of - 1}:
            mine = fleets.taking_part(asked, words, epoch, 2, devices - 2)
            assert mine.tolist() == [epoch in epochs for epochs in own[2:]]
            values = np.arange(devices, dtype=np.int32)
            held = fleets.silenced(asked, words, epoch, values)
            assert held.dtype == values.dtype
            assert held.tolist() == [v if epoch in own[v] else ABSENT for v in range(devices)]
            several = fleets.silenced(asked, words, epoch, np.column_stack([values, values]))
            assert several.tolist() == [[v, v] for v in held.tolist()]


# What all reports of a life tell


def transcripts(agreed: Collection, values: tuple[int, ...]) -> dict[Any, Fraction]:
    """The exact law of what a device sends in all its epochs, None where it is silent."""
    protocol, asked = agreed.protocol, agreed.participation
    assert asked is not None

    def life(words: Any) -> Any:
        own, memo = asked.chosen(words), Memo()
        sent: list[bytes | None] = []
        for epoch, value in enumerate(values):
            if epoch in own:
                response, memo = protocol.device.privatize(value, memo, words)
                sent.append(protocol.device.encode(response))
            else:
                sent.append(None)
        return tuple(sent)

    return every_outcome(life).law


@pytest.mark.parametrize(
    ("name", "size", "m", "of"),
    [
        ("grr", 3, 1, 3),
        ("grr", 2, 2, 3),
        ("grr", 3, 2, 2),
        ("sue", 2, 1, 3),
        ("oue", 2, 1, 3),
        ("oue", 2, 2, 2),
        ("l_grr", 3, 1, 2),
        ("l_grr", 2, 2, 3),
        ("l_grr", 3, 2, 2),
        ("l_osue", 2, 1, 2),
    ],
)
def test_no_change_pattern_ever_loses_more_than_a_life_is_promised(
    name: str, size: int, m: int, of: int
) -> None:
    agreed = collection(name, size, m, of)
    laws = [transcripts(agreed, values) for values in product(range(size), repeat=of)]
    assert all(sum(law.values()) == 1 for law in laws)
    assert all(set(law) == set(laws[0]) for law in laws)
    worst = max(max(law[sent] for law in laws) / min(law[sent] for law in laws) for sent in laws[0])
    promised = agreed.promise.any_loss
    assert promised is not None
    assert log_above(worst) <= promised
    assert log_above(worst) == pytest.approx(promised, rel=1e-12)
    if agreed.guarantee.memoised_ratio is None:
        assert worst == agreed.guarantee.first_ratio**m
        assert promised <= m * 1.0
    # Silence tells nothing: which epochs a device reports in has the same law for all values.
    for law in laws:
        silent = Counter[tuple[bool, ...]]()
        for sent, chance in law.items():
            silent[tuple(one is None for one in sent)] += chance  # type: ignore[assignment]
        assert set(silent.values()) == {Fraction(1, comb(of, m))}


def test_a_device_that_reported_in_every_epoch_would_break_the_promise() -> None:
    agreed = collection("grr", 2, 3, 3)
    once = collection("grr", 2, 1, 3)
    laws = [transcripts(agreed, values) for values in product(range(2), repeat=3)]
    worst = max(max(law[sent] for law in laws) / min(law[sent] for law in laws) for sent in laws[0])
    assert log_above(worst) > 2.9 * once.promise.any_loss


# Errors


@pytest.mark.parametrize(("holders", "devices"), [(0, 5), (1, 4), (2, 5), (5, 5)])
def test_the_variance_is_that_of_a_sample_of_a_finite_fleet(holders: int, devices: int) -> None:
    own, other, f = Fraction(3, 5), Fraction(1, 4), Fraction(holders, devices)
    for n in range(1, devices + 1):
        mean = square = Fraction(0)
        for sample in combinations(range(devices), n):
            for support in product((0, 1), repeat=n):
                chance = Fraction(1, comb(devices, n))
                for device, bit in zip(sample, support, strict=True):
                    p = own if device < holders else other
                    chance *= p if bit else 1 - p
                estimate = (Fraction(sum(support), n) - other) / (own - other)
                mean += chance * estimate
                square += chance * estimate**2
        assert mean == f  # the whole fleet's, not the sample's
        noise = (f * own * (1 - own) + (1 - f) * other * (1 - other)) / (n * (own - other) ** 2)
        drawn = f * (1 - f) / n * Fraction(devices - n, devices - 1)
        assert square - mean**2 == noise + drawn
        stated = variance(np.array([float(f)]), n, SupportProbabilities(own, other, Fraction(n, devices)))[0]
        assert stated == pytest.approx(float(noise + drawn * Fraction(devices - 1, devices)), rel=1e-12)


@pytest.mark.parametrize(("m", "of"), [pair for pair in SMALL if pair[1] > 1])
def test_sampling_errors_of_two_epochs_are_correlated_by_minus_one_over_t_minus_one(m: int, of: int) -> None:
    sets = list(combinations(range(of), m))
    alone = Fraction(sum(0 in one for one in sets), len(sets))
    both = Fraction(sum(0 in one and 1 in one for one in sets), len(sets))
    assert alone == Participation(m, of).share
    covariance, spread = both - alone**2, alone * (1 - alone)
    assert covariance * (of - 1) == -spread
