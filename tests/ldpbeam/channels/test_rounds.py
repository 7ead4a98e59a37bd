"""Rounds of symbols and bits, composed, equal the sums over all memoised answers."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from ldpbeam.channels.channel import BitChannel, SymbolChannel
from ldpbeam.channels.rounds import Rounds
from ldpbeam.randomness import FULL

SYMBOLS = SymbolChannel(5, 9, 2), SymbolChannel(5, 11, 4)
BITS = BitChannel(FULL // 4 * 3, FULL // 8), BitChannel(FULL // 2, FULL // 16)


def symbol(channel: SymbolChannel, given: int, output: int) -> Fraction:
    """P(output | given), from the weights of the channel."""
    return Fraction(channel.keep if given == output else channel.each, channel.keep + 4 * channel.each)


def bit(channel: BitChannel, given: int, output: int) -> Fraction:
    one = Fraction(channel.one if given else channel.zero, FULL)
    return one if output else 1 - one


def test_two_rounds_of_symbols_are_composed() -> None:
    first, second = SYMBOLS
    rounds = Rounds(second, first)
    for given in range(2):
        expected = sum(symbol(first, given, answer) * symbol(second, answer, 0) for answer in range(5))
        assert rounds.composed[given] == expected
    assert rounds.lasting == (symbol(first, 0, 0), symbol(first, 0, 1))
    assert (rounds.first, rounds.last, rounds.memoised) == (first, second, True)


def test_two_rounds_of_bits_are_composed() -> None:
    first, second = BITS
    rounds = Rounds(second, first)
    for place, given in enumerate((1, 0)):
        expected = sum(bit(first, given, answer) * bit(second, answer, 1) for answer in range(2))
        assert rounds.composed[place] == expected
    assert rounds.lasting == (Fraction(3, 4), Fraction(1, 8))


@pytest.mark.parametrize("memoised", [False, True])
def test_one_round_is_first_and_last(memoised: bool) -> None:
    (channel, _), name = BITS, "permanent" if memoised else "instant"
    rounds = Rounds(None, channel) if memoised else Rounds(channel)
    assert (rounds.first, rounds.last, rounds.memoised) == (channel, channel, memoised)
    assert rounds.composed == (Fraction(3, 4), Fraction(1, 8))
    assert rounds.lasting == (rounds.composed if memoised else None)
    definition = {"permanent": None, "instant": None, name: channel.definition()}
    assert rounds.definition() == definition
    assert list(rounds.definition()) == ["permanent", "instant"]
    assert rounds.rows(1) == ((channel.rows(1), None) if memoised else (None, channel.rows(1)))


def test_without_a_round_there_is_no_protocol() -> None:
    with pytest.raises(ValueError, match="needs a permanent round, an instantaneous one, or both"):
        Rounds[BitChannel](None)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_rows_of_symbols_lump_the_others(size: int) -> None:
    channel, _ = SYMBOLS
    rows = channel.rows(size)
    assert len(rows) == min(size + 1, 5)
    for given, row in enumerate(rows):
        assert row[:size] == tuple(symbol(channel, given, output) for output in range(size))
        assert sum(row) == 1


@pytest.mark.parametrize("size", [1, 2, 3])
def test_rows_of_bits_are_products(size: int) -> None:
    channel, _ = BITS
    rows = channel.rows(size)
    for given, output in product(range(1 << size), repeat=2):
        chances = [bit(channel, given >> i & 1, output >> i & 1) for i in range(size)]
        expected = Fraction(1)
        for chance in chances:
            expected *= chance
        assert rows[given][output] == expected
