"""Report ids: what is a fair coin, and which ids depend on each other; enumerated where that is possible."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from ldpbeam.audit.checks.ids import affine_rank, coins_of
from ldpbeam.audit.checks.outcome import Check, judge
from ldpbeam.audit.law.bound import two_sided

BITS = 64


def drawn(count: int, seed: int) -> list[int]:
    chance = random.Random(seed)
    return [chance.getrandbits(BITS) for _ in range(count)]


def test_every_mask_is_counted() -> None:
    """Against a loop over masks and ids."""
    ids = drawn(50, 1)
    (coins, *_) = coins_of([(0, ids), (1, drawn(50, 2))], []).coins
    masks = [
        *(1 << bit for bit in range(BITS)),
        *(1 << i | 1 << j for i, j in combinations(range(BITS), 2)),
        2**BITS - 1,
    ]
    assert len(masks) == 2081
    for number, mask in enumerate(masks):
        assert coins.counts[number] == sum((one & mask).bit_count() & 1 for one in ids)
        name = coins.names(number)
        inside = [bit for bit in range(BITS) if mask >> bit & 1]
        assert name == ("the parity" if number == 2080 else "bit " + " ^ bit ".join(map(str, inside)))


def test_counts_against_bits_and_limits_of_the_value_are_sums_over_values() -> None:
    held = [(value, drawn(20 + value, value)) for value in range(6)]
    found = {one.what: one for one in coins_of(held, []).coins}
    told: dict[str, Callable[[int], int]] = {
        "bit 1 of the value": lambda value: value >> 1 & 1,
        "the parity of the value": lambda value: value.bit_count() & 1,
        "1 just where the value is below 4": lambda value: value < 4,
    }
    for what, mark in told.items():
        coins = found[f"report ids is {what}"]
        heads = sum((one & 1) == mark(value) for value, ids in held for one in ids)
        assert coins.counts[0] == heads
        assert coins.trials == sum(len(ids) for _, ids in held)
    assert sum("is below" in what for what in found) == 5
    assert sum("of the value" in what for what in found) == 4


def test_the_rank_is_that_of_elimination_over_all_affine_maps() -> None:
    """For vectors of three bits: the dimensions are those that no constant exclusive or takes away."""
    for chosen in combinations(range(8), 4):
        constant = sum(
            len({(mask & one).bit_count() & 1 for one in chosen}) == 1 for mask in range(8)
        )  # a group of masks
        assert 2 ** (3 - affine_rank(chosen)) == constant
    assert affine_rank([5]) == 0


@pytest.mark.parametrize("mask", [0b11, 2**64 - 1, 0x8421_0842_1084_0001])
def test_any_constant_exclusive_or_is_found(mask: int) -> None:
    ids = [number ^ ((number & mask).bit_count() & 1) for number in drawn(140, 3)]
    (broken,) = [rule for rule in coins_of([(0, ids), (1, drawn(140, 4))], []).rules if rule.broken]
    assert broken.check is Check.IDS
    assert (broken.broken, broken.cases, broken.wrong) == (1, 1, 2.0**-64)


def test_one_unfair_coin_of_many_is_found_and_named_and_fair_ones_are_not() -> None:
    """A false alarm has probability 1e-9."""
    held = [(value, drawn(200, 10 + value)) for value in range(8)]
    fair = coins_of(held, list(zip(drawn(200, 30), drawn(200, 31), strict=True)))
    assert not judge(fair, 1e-9)[0][0].violations
    wrong = [one & ~(1 << 9) | (one >> 33 & 1) << 9 for one in held[3][1]]
    unfair = coins_of([*held[:3], (3, wrong), *held[4:]], [])
    ((found,), _) = judge(unfair, 1e-9)
    said = "bit 9 ^ bit 33 of report ids about value 3 is 1 in 0 of 200 cases, expected 100.0"
    assert any(said in one for one in found.violations)
    # The limit is the exact one: the same count, but for one id, is refused or not by its p-value.
    least = two_sided(np.arange(101), np.full(101, 200), [1 / 2] * 101)  # type: ignore[list-item]
    assert least[0] < 1e-9 / 2 < least[100]
