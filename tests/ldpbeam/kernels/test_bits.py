"""Bits drawn 64 at a time have exactly the law of a word compared with a weight, and these very words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldpbeam.channels.channel import BitChannel
from ldpbeam.kernels import bits as kernels
from ldpbeam.simulators.random_words import RandomWords
from tests.reference.random_words import FULL, bit_words, randomised

WIDTH = 4
"""Binary digits of the words that are enumerated; weights are multiples of 2**60, so no others count."""

Four = Callable[[int, int], list[int]]
"""The four words of a place and a number."""


def drawn(held: NDArray[np.uint8], bits: int, channel: BitChannel, four: Four) -> NDArray[np.uint8]:
    """The kernel's own loop, uncompiled, with other words than the generator's; row i is device i."""

    def words(place: Any, number: Any, _: Any) -> list[np.uint64]:
        return [np.uint64(word) for word in four(int(place), int(number))]

    source: Any = kernels.randomise
    names = dict(source.py_func.__globals__)
    for name in ("_some", "_word"):
        inner = getattr(kernels, name).py_func
        names[name] = FunctionType(inner.__code__, names)
    names["four"] = words
    loop = FunctionType(source.py_func.__code__, names)
    out = held.copy()
    with np.errstate(over="ignore"):
        loop(out, np.arange(len(held)), bits, np.uint64(channel.one), np.uint64(channel.zero), None)
    return out


def digits_of(words: list[int], number: int) -> list[int]:
    """Digits 4·number to 4·number + 3 of neighbouring words, one integer each."""
    return [
        sum((word >> 63 - digit & 1) << i for i, word in enumerate(words))
        for digit in range(4 * number, 4 * number + 4)
    ]


@pytest.mark.parametrize(("one", "zero"), [(8, 8), (9, 4), (15, 1), (12, 3), (11, 6)])
@pytest.mark.parametrize("held", range(4))
def test_the_law_is_that_of_one_word_per_bit(held: int, one: int, zero: int) -> None:
    channel = BitChannel(one << 60, zero << 60)
    pairs = list(product(range(1 << WIDTH), repeat=2))

    def four(place: int, number: int) -> list[int]:
        assert number == 0, "weights of four digits need no fifth"
        return digits_of([word << 60 for word in pairs[place - 1]], 0)

    rows = np.full((len(pairs), 1), held, np.uint8)
    found = Counter(drawn(rows, 2, channel, four)[:, 0].tolist())

    def chance(v: int, outcome: int) -> Fraction:
        weight = channel.own if held >> v & 1 else channel.other
        return weight if outcome >> v & 1 else 1 - weight

    for outcome in range(4):
        assert Fraction(found[outcome], len(pairs)) == chance(0, outcome) * chance(1, outcome)


@pytest.mark.parametrize(
    ("one", "zero"),
    [
        ((1 << 63) + 1, 1),
        (FULL - 1, (1 << 63) - 1),
        (0xC5A7_0F10_3344_AB03, 0x1234_5678_9ABC_DEF0),
        (3 << 62, 1 << 62),
    ],
)
def test_a_bit_is_1_strictly_below_its_weight(one: int, zero: int) -> None:
    words = [(weight + step) % FULL for weight in (one, zero) for step in (-1, 0, 1)] + [0, FULL - 1]
    asked: list[int] = []

    def four(place: int, number: int) -> list[int]:
        asked.append(number)
        return digits_of(words, number)

    for held in (0b000111, 0b111000, 255, 0):
        rows = np.array([[held]], np.uint8)
        expected = randomised(rows, np.array([words], np.uint64), BitChannel(one, zero))
        assert drawn(rows, len(words), BitChannel(one, zero), four).tolist() == expected.tolist()
    # No digit is asked for beyond the last that can decide.
    lowest = min((weight & -weight).bit_length() - 1 for weight in (one, zero))
    assert max(asked) == (63 - lowest) // 4


@settings(max_examples=25)
@given(
    seed=st.integers(0, 1 << 70),
    epoch=st.integers(-(1 << 63), (1 << 63) - 1),
    bits=st.sampled_from([1, 7, 8, 9, 63, 64, 65, 128, 130, 200]),
    devices=st.lists(st.integers(0, 1 << 50), min_size=1, max_size=2),
    weights=st.tuples(st.integers(1, FULL - 1), st.integers(1, FULL - 1)),
    data=st.data(),
)
def test_the_compiled_kernel_draws_the_documented_bits(
    seed: int, epoch: int, bits: int, devices: list[int], weights: tuple[int, int], data: st.DataObject
) -> None:
    channel = BitChannel(max(weights), min(weights))
    width = (bits + 7) // 8
    raw = data.draw(st.binary(min_size=width * len(devices), max_size=width * len(devices)))
    held = np.frombuffer(raw, np.uint8).reshape(len(devices), width)
    found = RandomWords(seed).randomised("instant", epoch, np.array(devices), held, bits, channel)
    words = [bit_words(seed, "instant", epoch, device, bits) for device in devices]
    expected = randomised(held, np.array(words, np.uint64), channel)
    assert found.dtype == np.uint8
    assert np.array_equal(found, expected)


def test_every_place_of_a_fleet_has_words_of_its_own() -> None:
    channel = BitChannel(1 << 63, 1 << 63)
    held = np.zeros((20, 32), np.uint8)
    blocks = [
        RandomWords(seed).randomised(purpose, epoch, np.arange(20), held.copy(), 256, channel).reshape(-1, 8)
        for seed in (0, 1)
        for purpose in ("permanent", "instant", "0.instant", "1.instant")
        for epoch in (-1, 0, 1)
    ]
    found = np.concatenate(blocks)
    assert len(np.unique(found, axis=0)) == len(found)
    # Nor are they the words of the same purpose.
    words = RandomWords(0).words("instant", 0, 0, 20, 4).reshape(-1, 1).view(np.uint8)
    assert len(np.unique(np.concatenate([found, words, ~words]), axis=0)) == len(found) + 2 * len(words)


def test_one_hot_rows() -> None:
    assert kernels.one_hot(np.array([0, 8, 9, 10, 11]), 10).tolist() == [
        [1, 0], [0, 1], [0, 2], [0, 0], [0, 0]
    ]  # fmt: skip
