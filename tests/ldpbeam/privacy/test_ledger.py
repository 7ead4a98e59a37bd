"""The ledger of a fleet against its devices, and the caps of what they spend."""

from __future__ import annotations

from fractions import Fraction
from math import inf, log

import numpy as np
import pytest

from ldpbeam.channels.exact import log_above
from ldpbeam.privacy.guarantee import Guarantee, MemoisedInputs
from ldpbeam.privacy.ledger import fleet_ledger, total_cap
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.simulators.population.specs import ABSENT
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from tests.reference.channels import memo_key
from tests.reference.script import ScriptedRandomness


def test_caps_of_collections_and_versions_add_up() -> None:
    """A new version has a memo of its own: the same input is spent again."""
    first, second = (
        Guarantee(Fraction(2), MemoisedInputs.VALUES, Fraction(3), 5),
        Guarantee(Fraction(2), MemoisedInputs.VALUES, Fraction(7), 2),
    )
    added = total_cap([first, first, second])
    assert added >= 10 * log_above(Fraction(3)) + 2 * log_above(Fraction(7))
    assert added == pytest.approx(10 * log(3) + 2 * log(7), abs=1e-13)
    assert total_cap([]) == 0.0
    assert total_cap([first]) == first.lifetime_cap
    once = Guarantee(Fraction(2), MemoisedInputs.NONE)
    assert total_cap([first, once]) == once.lifetime_cap == inf
    assert once.within(3).lifetime_cap == log_above(Fraction(8))


# --- fleets


def test_a_fleets_ledger_is_that_of_its_devices() -> None:
    guarantee = protocol("loloha", 9, Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0, g=3)).guarantee
    counts = [0, 3, 1, 1, 2, 3, 3]
    found = fleet_ledger(counts, guarantee)
    assert guarantee.memoised_ratio is not None
    single = [log_above(guarantee.memoised_ratio**n) if n else 0.0 for n in counts]
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
        held = [int(values[device]) for values in epochs if values[device] != ABSENT]
        counts.append(len({memo_key(built, memo.seed, value) for value in held}))
    (found,) = fleet.ledgers()
    assert found == fleet_ledger(counts, built.guarantee)
    assert fleet.memoised_inputs().tolist() == counts
