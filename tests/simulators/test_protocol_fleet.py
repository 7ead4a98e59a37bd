"""A fleet is its devices: the same bytes from the same words, however they are batched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm

from ldpbeam.protocols import PROTOCOLS, FrequencyProtocol, LocalProtocol, Memo, Parameters, protocol
from ldpbeam.protocols.simulation import WordSpec
from ldpbeam.simulators.population.specs import ABSENT
from ldpbeam.simulators.protocol_fleet import DrawnReports, ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from tests.narrow import frequencies
from tests.reference.random_words import bit_words
from tests.reference.script import ScriptedRandomness
from tests.reference.settings import Setting, settings

FALSE_ALARM = 1e-8
"""Probability that a sound fleet fails one statistical test of this file (normal approximation)."""

SETTINGS = settings((2, 3, 10), epsilon_first=0.8)
# 57 to 64 bits make 8 bytes, the size of a symbol in a memo.
WIDE = [setting for setting in settings((57, 64, 70), epsilon_first=0.8) if setting.unary]


def build(name: str, size: int, first: float = 0.8, **choices: Any) -> LocalProtocol[Any]:
    kind = PROTOCOLS[name]
    longitudinal = 2.0 if "epsilon_first" in kind.PARAMETERS else first
    levels: dict[str, Any] = {
        "epsilon": first,
        "epsilon_longitudinal": longitudinal,
        "epsilon_first": first,
        "d": 3,
    }
    chosen = {key: levels[key] for key in kind.PARAMETERS}
    return protocol(name, size, Parameters(**chosen | choices))


def history(size: int, devices: int, epochs: int, seed: int = 1) -> NDArray[np.int32]:
    """Values that change and return, with absences; shape (epochs, devices)."""
    draw = np.random.default_rng(seed)
    held = draw.integers(0, size, (2, devices))
    values = held[draw.integers(0, 2, (epochs, devices)), np.arange(devices)]
    return np.where(draw.random((epochs, devices)) < 0.2, ABSENT, values).astype(np.int32)


def joined(batches: list[DrawnReports]) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    return (
        np.concatenate([batch.report_ids for batch in batches]),
        np.concatenate([batch.payloads for batch in batches]),
    )


class Devices:
    """The same devices one by one, in plain Python, fed with their own words."""

    def __init__(self, kind: LocalProtocol[Any], devices: int, random_words: RandomWords) -> None:
        self.kind = kind
        self.random_words = random_words
        self.memos = [self._new(device) for device in range(devices)]

    def words(self, purpose: str, epoch: int, device: int, spec: WordSpec | None) -> list[int]:
        if spec is None or spec.count == 0:
            return []
        if spec.bits:
            return bit_words(self.random_words.seed, purpose, epoch, device, spec.count)
        drawn = self.random_words.step(purpose, epoch, device, 1, spec)
        return [int(word) for word in drawn[0]]

    def _new(self, device: int) -> Memo:
        lifelong = (
            None if self.kind.simulation.word_plan.seed_per_report else self.kind.simulation.word_plan.seed
        )
        script = ScriptedRandomness(self.words("seed", -1, device, lifelong))
        memo = self.kind.device.new_memo(script)
        assert script.exhausted()
        return memo

    def payload(self, epoch: int, device: int, value: int) -> bytes:
        """All words are taken in every epoch, whether or not the input is new."""
        kind, memo = self.kind, self.memos[device]
        per_report = kind.simulation.word_plan.seed if kind.simulation.word_plan.seed_per_report else None
        drawn = [
            *self.words("seed", epoch, device, per_report),
            *self.words("permanent", epoch, device, kind.simulation.word_plan.permanent),
            *self.words("instant", epoch, device, kind.simulation.word_plan.instant),
        ]
        script = ScriptedRandomness(drawn)
        response, kept = kind.device.privatize(value, memo, script)
        assert script.exhausted()
        assert (kept is memo) == (len(kept.answers) == len(memo.answers))
        self.memos[device] = kept
        return kind.device.encode(response)


@pytest.mark.parametrize("setting", SETTINGS + WIDE, ids=str)
@pytest.mark.cases(40)
def test_a_fleet_sends_what_its_devices_send(setting: Setting) -> None:
    kind, random_words, devices = setting.build(), RandomWords(7), 9
    fleet = ProtocolFleet(kind, devices, random_words, rows_per_batch=4)
    single = Devices(kind, devices, random_words)
    values = history(kind.domain_size, devices, 6)
    for epoch, row in enumerate(values, 3):
        _, payloads = joined(list(fleet.reports(epoch, row)))
        expected = [
            single.payload(epoch, device, int(value)) for device, value in enumerate(row) if value != ABSENT
        ]
        assert [payload.tobytes() for payload in payloads] == expected
    memoised = [len(memo.answers) for memo in single.memos]
    assert fleet.memoised_inputs().tolist() == memoised
    assert (sum(memoised) > 0) == (kind.simulation.word_plan.permanent is not None)


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", sorted(PROTOCOLS))
@given(rows=st.integers(1, 40), seed=st.integers(0, 3))
def test_batching_changes_no_report(name: str, rows: int, seed: int) -> None:
    kind, devices = build(name, 11), 37
    whole = ProtocolFleet(kind, devices, RandomWords(seed))
    parts = ProtocolFleet(kind, devices, RandomWords(seed), rows_per_batch=rows)
    for epoch, values in enumerate(history(11, devices, 4, seed)):
        one, many = list(whole.reports(epoch, values)), list(parts.reports(epoch, values))
        assert len(one) == 1
        assert all(0 < len(batch) <= rows for batch in many)
        (ids, payloads), (ids_of_parts, payloads_of_parts) = joined(one), joined(many)
        assert np.array_equal(ids, ids_of_parts)
        assert np.array_equal(payloads, payloads_of_parts)
        assert (ids.dtype, payloads.dtype) == (ids_of_parts.dtype, payloads_of_parts.dtype)
    assert np.array_equal(whole.memoised_inputs(), parts.memoised_inputs())


def test_a_device_does_not_depend_on_the_others() -> None:
    kind = build("loloha", 30)
    few, many = ProtocolFleet(kind, 5, RandomWords(1)), ProtocolFleet(kind, 50, RandomWords(1))
    for epoch, values in enumerate(history(30, 50, 5)):
        alone = np.where(np.arange(50) == 3, values, ABSENT).astype(np.int32)
        a = list(few.reports(epoch, alone[:5]))
        b = list(many.reports(epoch, values))
        assert (len(a) == 0) == (values[3] == ABSENT)
        if a:
            row = int((values[:3] != ABSENT).sum())
            assert a[0].payloads.tobytes() == b[0].payloads[row].tobytes()
            assert a[0].report_ids[0] == b[0].report_ids[row]


class Counting(RandomWords):
    """Streams that remember which purposes were drawn."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.purposes: list[tuple[str, int]] = []

    def words(
        self, purpose: str, epoch: int, first: int, rows: int, per_row: int, limit: int = 1 << 64
    ) -> NDArray[np.uint64]:
        self.purposes.append((purpose, epoch))
        return super().words(purpose, epoch, first, rows, per_row, limit)

    def randomised(self, purpose: str, epoch: int, *arguments: Any) -> NDArray[np.uint8]:
        self.purposes.append((purpose, epoch))
        return super().randomised(purpose, epoch, *arguments)


@pytest.mark.parametrize(("name", "epochs"), [("olh", [5, 6]), ("loloha", [-1, -1])])
def test_a_seed_for_life_is_drawn_before_the_first_epoch(name: str, epochs: list[int]) -> None:
    random_words = Counting(1)
    fleet = ProtocolFleet(build(name, 9), 20, random_words)
    for epoch in (5, 6):
        list(fleet.reports(epoch, np.zeros(20, np.int32)))
    assert [epoch for purpose, epoch in random_words.purposes if purpose == "seed"] == epochs


def test_what_is_no_value_is_refused_at_once() -> None:
    fleet = ProtocolFleet(build("grr", 4), 3, RandomWords(1))
    for bad in ([0, 1, 4], [0, -2, 1]):
        with pytest.raises(ValueError, match="epoch 0 holds values outside 0"):
            fleet.reports(0, np.array(bad, np.int32))
    with pytest.raises(ValueError, match="pass one value per device"):
        fleet.reports(0, np.zeros(4, np.int32))
    for devices, rows in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="both start at 1"):
            ProtocolFleet(build("grr", 4), devices, RandomWords(1), rows_per_batch=rows)
    with pytest.raises(ValueError, match="simulate fewer"):
        ProtocolFleet(build("l_grr", 1 << 20), 1 << 43, RandomWords(1))


# --- statistics


def z_scores(
    kind: FrequencyProtocol[Any], support: NDArray[np.int64], truth: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Support counts against their mean and exact variance: sums of independent coins."""
    # Whether a bucket is sampled is one more coin of its own.
    asked = float(kind.estimator.support.sampled)
    own, other = asked * float(kind.estimator.support.own), asked * float(kind.estimator.support.other)
    rest = truth.sum() - truth
    mean = truth * own + rest * other
    variance = truth * own * (1 - own) + rest * other * (1 - other)
    return (support - mean) / np.sqrt(variance)


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        *((name, {}) for name in sorted(PROTOCOLS) if issubclass(PROTOCOLS[name], FrequencyProtocol)),
        ("olh", {"hash_family": "affine"}),
        ("loloha", {"hash_family": "affine"}),
        ("loloha", {"hash_family": "affine", "g": 2}),
    ],
)
@pytest.mark.cases(10)
def test_support_counts_are_unbiased(name: str, choices: dict[str, Any]) -> None:
    # In every epoch the devices' reports are independent, whether their answers are new or
    # remembered. k values are tested in each of 3 epochs, so each has FALSE_ALARM / (3 k).
    size, devices, epochs = 12, 150_000, 3
    kind, wrong = (frequencies(build(name, size, first, **choices)) for first in (0.8, 1.2))
    limit = norm.isf(FALSE_ALARM / (2 * epochs * size))
    fleet = ProtocolFleet(kind, devices, RandomWords(2))
    draw = np.random.default_rng(3)
    values = np.minimum(draw.geometric(0.3, devices) - 1, size - 1).astype(np.int32)
    for epoch in range(epochs):
        counts = np.zeros(kind.counter.counts_length, np.int64)
        for batch in fleet.reports(epoch, values):
            assert not kind.counter.check(batch.payloads).any()
            kind.counter.add(batch.payloads, counts)
        support = kind.counter.support_counts(counts)
        truth = np.bincount(values[values != ABSENT], minlength=size)
        assert np.abs(z_scores(kind, support, truth)).max() < limit
        # A first report at 1.2 instead of 0.8 is told apart.
        assert np.abs(z_scores(wrong, support, truth)).max() > limit
        moves = draw.random(devices) < 0.3  # the absent ones come back with the value 0
        values = np.where(moves, (values + 1) % size, values).astype(np.int32)
        values[draw.random(devices) < 0.05] = ABSENT
