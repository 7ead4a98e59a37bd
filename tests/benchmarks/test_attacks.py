"""The attacks find what there is to find: a value without a memo, and changes without a second round.

Populations are seeded, devices draw from the operating system. What a device with a memo shows is limited by
an exact binomial test at 1e-9; the other limits are far from what is measured.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest
from scipy.stats import binom

from benchmarks import attacks
from ldpbeam.audit.standard_collections import one_collection
from ldpbeam.client import Device

LEVELS = {"epsilon_longitudinal": 2.0, "epsilon_first": 1.0}


class Forgetful(attacks.Ours):
    """Our device, whose state is lost after every report."""

    def report(self, value: int, epoch: int) -> attacks.Seen:
        self._device = Device.ephemeral(self._collection)
        return super().report(value, epoch)


def made(kind: type[attacks.Ours], name: str, **more: float) -> Callable[[], attacks.Watched]:
    return partial(kind, one_collection(name, attacks.SIZE, **LEVELS, **more))


@pytest.mark.parametrize("name", ["l_osue", "loloha"])
@pytest.mark.thorough
def test_averaging_finds_values_only_where_nothing_is_memoised(name: str) -> None:
    chance = random.Random(1)
    forgetful = attacks.averaged(made(Forgetful, name), 30, 150, chance)
    kept = attacks.averaged(made(attacks.Ours, name), 30, 150, chance)
    # One permanent answer at ε∞ = 2 shows the value to at most e²/(e² + 23) of guessers.
    share = 2.7183**2 / (2.7183**2 + 23)
    assert binom.sf(round(30 * kept) - 1, 30, share) > 1e-9
    assert forgetful > 0.8


@pytest.mark.thorough
def test_lost_states_are_averaged() -> None:
    chance = random.Random(2)
    kept = attacks.averaged(made(attacks.Ours, "l_osue"), 20, 100, chance)
    lost = attacks.averaged(made(attacks.Ours, "l_osue"), 20, 100, chance, losses=49)
    assert lost > kept
    assert lost > 0.7


def test_changes_show_where_there_is_no_second_round() -> None:
    chance = random.Random(3)
    shown, complete = attacks.changes(made(attacks.Ours, "dbitflip_pm", d=attacks.SIZE), 40, 6, chance)
    hidden, none = attacks.changes(made(attacks.Ours, "loloha", g=2), 40, 6, chance)
    assert shown > 0.95
    assert complete > 0.9
    assert hidden < 0.6
    assert none < 0.5


@pytest.mark.thorough
def test_the_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert attacks.main(["--devices", "2", "--reports", "20", "--no-peers"]) == 0
    table = capsys.readouterr().out
    assert table.count("\n") == 2 + len(list(attacks.ours()))
    assert attacks.main(["--bounds", "2000"]) == 0
    assert "| `grr`, k = 2, ε = 2 | 2,0" in capsys.readouterr().out
