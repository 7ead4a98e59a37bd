"""Bounds that privacy rests on: never on the wrong side, also by the last of 60 digits.

Every check is against twice as many digits, and each has arguments for which rounding to nearest instead of
outwards would be on the wrong side about every second time.
"""

from __future__ import annotations

import random
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import inf, nextafter

import pytest

from ldpbeam.channels.calibration import oue_round, sue_round
from ldpbeam.channels.channel import BitChannel, SymbolChannel
from ldpbeam.channels.exact import exp_above, exp_below, log_above, log_above_power
from ldpbeam.randomness import FULL

_FINE = Context(prec=150)
_TINY = Decimal(10) ** -140


def exponential(exponent: Fraction) -> Decimal:
    """e**exponent to 140 digits or so."""
    return _FINE.exp(_FINE.divide(Decimal(exponent.numerator), Decimal(exponent.denominator)))


def logarithm(ratio: Fraction) -> Decimal:
    """ln(ratio) likewise."""
    return _FINE.ln(_FINE.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))


def levels(count: int, low: float, high: float, seed: int = 5) -> list[float]:
    draw = random.Random(seed)
    return [draw.uniform(low, high) for _ in range(count)]


def test_exponentials_lie_below() -> None:
    for epsilon in levels(60, 1e-6, 40):
        true = exponential(Fraction(epsilon))
        assert Fraction(exp_below(epsilon)) < Fraction(true)
        assert Fraction(true) / exp_below(epsilon) - 1 < Fraction(2, 10**59)


@pytest.mark.parametrize("size", [1, 30, 900])
def test_exponentials_lie_above(size: int) -> None:
    draw = random.Random(size)
    for _ in range(60):
        exponent = Fraction(draw.randrange(1, 10**30) * size, 10**30 + 57)  # digits without end
        true = Fraction(exponential(exponent))
        found = exp_above(exponent)
        assert true < found
        assert found / true - 1 < Fraction(1, 10**55)


def test_logarithms_lie_above_though_a_float_is_nearer() -> None:
    for ratio in [Fraction(a, b) for a, b in ((3, 2), (7, 3), (10**20 + 1, 10**20), (2**64 - 1, 17))]:
        assert Decimal(log_above(ratio)) > logarithm(ratio)
    draw = random.Random(8)
    for _ in range(100):
        ratio = Fraction(draw.randrange(2, FULL), draw.randrange(1, FULL))
        found = log_above(ratio)
        assert Decimal(found) > logarithm(ratio)
        assert Decimal(nextafter(nextafter(found, -inf), -inf)) < logarithm(ratio)


def test_logarithms_a_hair_beside_a_float_are_on_the_right_side_of_it() -> None:
    for epsilon in levels(60, 0.1, 9):
        above = Fraction(_FINE.multiply(exponential(Fraction(epsilon)), Decimal(1) + _TINY.scaleb(20)))
        assert log_above(above) == nextafter(epsilon, inf)
        assert log_above_power([(above, 1)]) == nextafter(epsilon, inf)
        below = Fraction(_FINE.multiply(exponential(Fraction(epsilon)), Decimal(1) - _TINY.scaleb(20)))
        assert log_above(below) in (epsilon, nextafter(epsilon, inf))


def test_logarithms_of_products_lie_above() -> None:
    draw = random.Random(3)
    for _ in range(60):
        factors = [(Fraction(draw.randrange(10**9, 10**10), 10**9), draw.randrange(10**6)) for _ in range(7)]
        true = sum((_FINE.multiply(logarithm(r), Decimal(n)) for r, n in factors), Decimal(0))
        found = log_above_power(factors)
        assert Decimal(found) > true
        assert Decimal(nextafter(nextafter(found, -inf), -inf)) < true
    for epsilon in levels(60, 0.1, 9):
        # A third of the level, cubed, a hair above the level itself.
        third = Fraction(_FINE.multiply(exponential(Fraction(epsilon) / 3), Decimal(1) + _TINY.scaleb(20)))
        assert log_above_power([(third, 3)]) == nextafter(epsilon, inf)


def ceiling(number: Decimal) -> int:
    return int(number.to_integral_value(rounding=ROUND_CEILING))


def floor(number: Decimal) -> int:
    return int(number.to_integral_value(rounding=ROUND_FLOOR))


def test_channels_have_the_best_integers_on_the_private_side() -> None:
    for epsilon in levels(80, 0.01, 12):
        e = exponential(Fraction(epsilon))
        root = exponential(Fraction(epsilon) / 2)
        total = Decimal(FULL)
        assert oue_round(epsilon) == BitChannel(FULL // 2, ceiling(_FINE.divide(total, e + 1)))
        one = floor(_FINE.divide(_FINE.multiply(total, root), root + 1))
        assert sue_round(epsilon / 2 * 2) == BitChannel(one, FULL - one)
        for size in (2, 3, 360):
            channel = SymbolChannel.from_epsilon(size, epsilon)
            assert Decimal(channel.keep) <= _FINE.multiply(e, Decimal(channel.each))
            full = channel.total > FULL - size - e
            assert full
            more = Decimal(channel.keep + 1) > _FINE.multiply(e, Decimal(channel.each))
            assert more or channel.total == FULL
