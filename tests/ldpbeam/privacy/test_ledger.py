"""The ledger of a device against its memo, and of a fleet against its devices."""

from __future__ import annotations

import random
from fractions import Fraction
from math import inf, log

import numpy as np
import pytest

from ldpbeam.channels.exact import log_above
from ldpbeam.privacy.guarantee import Guarantee, MemoisedInputs
from ldpbeam.privacy.ledger import Ledger, fleet_ledger, remaining, total_cap, total_spent
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.randomness import Randomness, ScriptedRandomness
from ldpbeam.simulators.population.specs import ABSENT
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from tests.reference.channels import memo_key
from tests.reference.settings import settings

MEMO = [s for s in settings((5,)) if s.build().guarantee.memoised_ratio is not None]


class Seeded(Randomness):
    """Seeded words."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def word(self, limit: int = 1 << 64) -> int:
        return self._random.randrange(limit)


@pytest.mark.parametrize("setting", MEMO, ids=str)
def test_a_ledger_counts_what_the_memo_of_a_device_holds(setting: object) -> None:
    """Replay: the device's own memo is the oracle, and it grows exactly when the ledger does."""
    built = setting.build()  # type: ignore[attr-defined]
    words = Seeded(7)
    for start in range(4):
        memo = built.device.new_memo(words)
        ledger = Ledger(built.guarantee)
        assert ledger.spent == 0.0
        for step in range(12):
            value = (start + step * step) % 5
            before = memo
            _, memo = built.device.privatize(value, memo, words)
            after = ledger.spend(memo_key(built, memo.seed, value))
            assert (after is ledger) == (memo is before)
            ledger = after
            assert len(ledger.inputs) == len(memo.answers)
            assert ledger.spent_ratio == built.guarantee.memoised_ratio ** len(memo.answers)
            assert ledger.spent >= len(memo.answers) * log(built.guarantee.memoised_ratio) * (1 - 1e-15)
        assert ledger.spent <= ledger.cap * (1 + 1e-15)


def test_one_round_protocols_spend_with_every_report() -> None:
    built = protocol("grr", 4, Parameters(epsilon=0.5))
    ledger = Ledger(built.guarantee)
    for _ in range(3):
        ledger = ledger.spend(2)
    assert ledger.spent_ratio == built.guarantee.first_ratio**3
    assert ledger.spent == pytest.approx(1.5)
    assert ledger.cap == inf


def test_what_is_spent_is_rounded_up_and_what_remains_down() -> None:
    guarantee = Guarantee(Fraction(2), MemoisedInputs.VALUES, Fraction(3), 5)
    ledger = Ledger(guarantee).spend("a").spend("b").spend("a")
    assert ledger.spent == log_above(Fraction(9))
    assert Fraction(ledger.spent) + Fraction(ledger.remaining(4.0)) <= 4
    assert ledger.remaining(4.0) == pytest.approx(4 - log(9), abs=1e-14)
    assert ledger.remaining(1.0) < 0
    assert Ledger(guarantee).remaining(4.0) == 4.0


def test_collections_and_versions_add_up() -> None:
    """A new version has a memo of its own: the same input is spent again."""
    first, second = (
        Guarantee(Fraction(2), MemoisedInputs.VALUES, Fraction(3), 5),
        Guarantee(Fraction(2), MemoisedInputs.VALUES, Fraction(7), 2),
    )
    ledgers = [Ledger(first).spend(1), Ledger(first).spend(1), Ledger(second).spend(1)]
    assert total_spent(ledgers) >= log_above(Fraction(3)) * 2 + log_above(Fraction(7))
    assert total_spent(ledgers) == pytest.approx(log(63), abs=1e-14)
    assert total_cap(ledgers) == pytest.approx(10 * log(3) + 2 * log(7), abs=1e-13)
    assert remaining(ledgers, 10.0) == pytest.approx(10 - log(63), abs=1e-14)
    assert total_spent([]) == 0.0
    assert total_spent(ledgers[:1]) == ledgers[0].spent
    assert total_cap([*ledgers, Ledger(Guarantee(Fraction(2), MemoisedInputs.NONE))]) == inf


def test_a_ledger_neither_prints_its_inputs_nor_takes_more_than_there_are() -> None:
    ledger = Ledger(Guarantee(Fraction(2), MemoisedInputs.VALUES, Fraction(3), 2)).spend(771)
    assert "771" not in repr(ledger)
    with pytest.raises(ValueError, match="3 memoised inputs are more than the 2"):
        ledger.spend(1).spend(2)


# --- fleets


def test_a_fleets_ledger_is_that_of_its_devices() -> None:
    guarantee = protocol("loloha", 9, Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0, g=3)).guarantee
    counts = [0, 3, 1, 1, 2, 3, 3]
    found = fleet_ledger(counts, guarantee)
    single = [Ledger(guarantee, frozenset(range(n))).spent for n in counts]
    assert found.mean == pytest.approx(sum(single) / 7, rel=1e-14)
    assert found.maximum == pytest.approx(max(single), rel=1e-14)
    assert dict(found.histogram) == {0: 1, 1: 2, 2: 1, 3: 3}
    for wrong in ([4], [-1], []):
        with pytest.raises(ValueError, match=r"memoises|without devices"):
            fleet_ledger(wrong, guarantee)
    once = protocol("grr", 9, Parameters(epsilon=1.0)).guarantee
    assert fleet_ledger([0, 0], once).mean == 0.0


@pytest.mark.parametrize("name", ["loloha", "l_grr", "dbitflip_pm"])
def test_a_simulated_fleet_spends_what_its_devices_would(name: str) -> None:
    """Every simulated device again, one at a time, with the same words."""
    built = protocol(name, 6, Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0, d=2))
    devices, random_words = 40, RandomWords(3)
    fleet = ProtocolFleet(built, devices, random_words)
    draw = np.random.default_rng(1)
    epochs = [draw.integers(ABSENT, 6, devices).astype(np.int32) for _ in range(5)]
    for epoch, values in enumerate(epochs):
        for _ in fleet.reports(epoch, values):
            pass
    seeds = None
    if built.simulation.word_plan.seed is not None:
        spec = built.simulation.word_plan.seed
        seeds = random_words.words("seed", -1, 0, devices, spec.count, spec.limit)
    counts = []
    for device in range(devices):
        words = ScriptedRandomness([] if seeds is None else seeds[device].tolist())
        memo = built.device.new_memo(words)
        ledger = Ledger(built.guarantee)
        for values in epochs:
            if values[device] != ABSENT:
                ledger = ledger.spend(memo_key(built, memo.seed, int(values[device])))
        counts.append(len(ledger.inputs))
    (found,) = fleet.ledgers()
    assert found == fleet_ledger(counts, built.guarantee)
    assert fleet.memoised_inputs().tolist() == counts
