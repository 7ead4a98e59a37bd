"""What a device takes for a value: every integer type says the same, and nothing else says anything."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from ldpbeam.client import Device
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.protocols import Memo, Parameters
from ldpbeam.protocols.attributes.allocate import allocate
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.randomness import FULL, Randomness
from tests.reference.settings import Setting, settings

# One size below and one above 64 bits: shifts by 63 and more are where fixed widths wrap.
single = pytest.mark.parametrize("setting", settings((9, 100)), ids=str)
VALUES = (0, 5, 8, 40, 63, 64, 70, 99)
WIDTHS = [np.dtype(sign + str(width)).type for sign in "iu" for width in (1, 2, 4, 8)]


class Named(IntEnum):
    """What people call the values of an enumeration."""

    ZERO = 0
    FIVE = 5
    EIGHT = 8
    FORTY = 40
    LAST = 99


class Words(Randomness):
    """Seeded words that can be counted."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.drawn = 0

    def word(self, limit: int = FULL) -> int:
        self.drawn += 1
        return self._random.randrange(limit)


def composites() -> list[LocalProtocol[Any]]:
    """One composite of each kind, with several attributes of 100 values."""
    two = Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0)
    return [
        allocate("sample", "l_osue", (100, 100, 100), two),
        allocate("split", "loloha", (100, 100), two),
        allocate("allomfree", None, (100, 100), two),
        allocate("together", "one_bit_rrpm", (100, 100), Parameters(epsilon_longitudinal=1.0)),
    ]


def sent(built: LocalProtocol[Any], value: Any, seed: int) -> tuple[bytes, Memo, int]:
    """Bytes of two reports about one value, the memo afterwards, and the words that they took."""
    words = Words(seed)
    memo = built.device.new_memo(words)
    first, memo = built.device.privatize(value, memo, words)
    second, memo = built.device.privatize(value, memo, words)
    return built.device.encode(first) + built.device.encode(second), memo, words.drawn


def plain(memo: Memo) -> bool:
    """Whether a memo holds nothing but Python's own integers."""
    numbers = [memo.seed or 0, *memo.answers, *memo.answers.values()]
    return all(type(number) is int for number in numbers) and all(map(plain, memo.parts))


@pytest.mark.cases(75)  # of 740: each type with several protocols
@single
@pytest.mark.parametrize("convert", [*WIDTHS, np.array, Named], ids=lambda kind: kind.__name__)
def test_every_integer_type_is_the_integer_it_says(setting: Setting, convert: Callable[[int], Any]) -> None:
    built = setting.build()
    asked = 0
    for value in VALUES:
        if value >= built.domain_size or (convert is Named and value not in list(Named)):
            continue
        asked += 1
        expected, memo, drawn = sent(built, value, seed=value)
        found = sent(built, convert(value), seed=value)
        assert found == (expected, memo, drawn)
        assert plain(found[1])
    assert asked >= 2


NO_INTEGERS = [
    3.0,
    3.7,
    float("nan"),
    np.float64(3),
    np.float32(3),
    True,
    False,
    np.True_,
    "3",
    b"\3",
    None,
    Decimal(3),
    Fraction(3),
    3 + 0j,
    [3],
    np.array([3, 4]),
]


@single
def test_what_is_no_integer_is_refused_before_any_draw(setting: Setting) -> None:
    built = setting.build()
    words = Words(1)
    memo = built.device.new_memo(words)
    before = words.drawn
    for value in NO_INTEGERS:
        with pytest.raises(TypeError, match="the value must be an integer"):
            built.device.privatize(value, memo, words)
    assert words.drawn == before


@single
def test_what_lies_outside_the_domain_is_refused_before_any_draw(setting: Setting) -> None:
    built = setting.build()
    k = built.domain_size
    words = Words(1)
    memo = built.device.new_memo(words)
    before = words.drawn
    for beyond in (-1, k, np.int64(k), 10**30, -(10**30), np.int64(-1), np.uint64(2**64 - 1)):
        with pytest.raises(ValueError, match="outside the domain"):
            built.device.privatize(beyond, memo, words)
    assert words.drawn == before


@pytest.mark.parametrize("built", composites(), ids=lambda kind: kind.NAME)
@pytest.mark.parametrize("width", WIDTHS, ids=lambda kind: kind.__name__)
def test_attributes_may_be_any_integers(built: LocalProtocol[Any], width: Callable[[Any], Any]) -> None:
    values = [40, 2, 7][: len(built.parts)]
    for seed in range(6):  # sample draws an attribute; some seed draws each
        expected = sent(built, tuple(values), seed)
        assert sent(built, np.array([width(value) for value in values]), seed) == expected
        assert sent(built, [width(value) for value in values], seed) == expected
        assert plain(expected[1])


@pytest.mark.parametrize("built", composites(), ids=lambda kind: kind.NAME)
def test_one_attribute_that_is_no_integer_refuses_the_report(built: LocalProtocol[Any]) -> None:
    for value, at in product(NO_INTEGERS, range(len(built.parts))):
        values: list[Any] = [1] * len(built.parts)
        values[at] = value
        for seed in range(4):
            words = Words(seed)
            memo = built.device.new_memo(words)
            before = words.drawn
            with pytest.raises(TypeError, match="the value must be an integer"):
                built.device.privatize(values, memo, words)
            assert words.drawn == before


@pytest.mark.parametrize("built", composites(), ids=lambda kind: kind.NAME)
def test_attributes_are_a_sequence_of_the_right_length(built: LocalProtocol[Any]) -> None:
    memo = built.device.new_memo(Words(1))
    with pytest.raises(TypeError, match="sequence"):
        built.device.privatize(3, memo, Words(1))
    with pytest.raises(ValueError, match="one value for each"):
        built.device.privatize([1] * (len(built.parts) + 1), memo, Words(1))


@pytest.mark.parametrize("epoch", [1.0, True, np.True_, "1", np.float64(1)], ids=repr)
def test_an_epoch_is_an_integer_too(epoch: Any) -> None:
    levels = Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0, g=2)
    device = Device.ephemeral(Collection("x", 1, Domain(9), "loloha", levels, Epochs(3600, 0, 100)))
    report = device.report(3, 1)
    with pytest.raises(TypeError, match="the epoch must be an integer"):
        device.report(3, epoch)
    assert device.report(np.int8(3), np.uint16(1)) == report
