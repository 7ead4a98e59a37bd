"""Rational bounds of exponentials and logarithms, so that privacy never rests on a float.

A nominal epsilon is the exact value of the float a person wrote. ``exp_below`` returns a rational that is
never above e**epsilon; every probability is rounded so that its likelihood ratio stays at or below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Context, Decimal
from fractions import Fraction
from math import inf, nextafter

_DIGITS = 60
_CONTEXT = Context(prec=_DIGITS)
# Decimal.exp and Decimal.ln are correctly rounded (half even), so one unit in the last of 60 digits is a
# strict bound in either direction.
_SLACK = Decimal(10) ** (1 - _DIGITS)
# Operators would round to the 28 digits of the thread's own context: every step names _CONTEXT.
_JUST_BELOW_ONE = _CONTEXT.subtract(Decimal(1), _SLACK)
_JUST_ABOVE_ONE = _CONTEXT.add(Decimal(1), 4 * _SLACK)


def exp_below(epsilon: float) -> Fraction:
    """A rational at most ``e**epsilon``, short of it by a relative 2e-59 at most."""
    value = Decimal(epsilon).exp(_CONTEXT)
    return Fraction(_CONTEXT.multiply(value, _JUST_BELOW_ONE))


def exp_above(exponent: Fraction) -> Fraction:
    """A rational at least ``e**exponent``, beyond it by a relative 1e-55 at most for exponents below 1000."""
    nearest = _divided(exponent)
    value = _CONTEXT.add(nearest, _log_slack(nearest)).exp(_CONTEXT)
    return Fraction(_CONTEXT.multiply(value, _JUST_ABOVE_ONE))


def _divided(ratio: Fraction) -> Decimal:
    return _CONTEXT.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))


def _log_slack(value: Decimal) -> Decimal:
    return _CONTEXT.multiply(4 * _SLACK, max(Decimal(1), abs(value)))


def product_of(factors: Iterable[Fraction]) -> Fraction:
    """Their product, 1 of none; reduced once and not at every step."""
    numerator = denominator = 1
    for factor in factors:
        numerator *= factor.numerator
        denominator *= factor.denominator
    return Fraction(numerator, denominator)


def log_above(ratio: Fraction) -> float:
    """The smallest convenient float at least ``ln(ratio)``: what a privacy figure may print."""
    return log_above_power([(ratio, 1)])


def log_above_power(factors: Iterable[tuple[Fraction, int]]) -> float:
    """:func:`log_above` of ∏ ratio^exponent, whose own digits may be too many to write down."""
    exact = Decimal(0)
    for ratio, exponent in factors:
        if ratio <= 0:
            raise ValueError(f"the logarithm of {ratio} does not exist")
        # The division adds a rounding error; the slack is larger than it.
        value = _CONTEXT.ln(_divided(ratio))
        term = _CONTEXT.multiply(Decimal(exponent), _CONTEXT.add(value, _log_slack(value)))
        total = _CONTEXT.add(exact, term)
        # The two operations above round to nearest, each by less than this.
        lost = _CONTEXT.add(abs(term), abs(total))
        exact = _CONTEXT.add(total, _CONTEXT.multiply(_SLACK, lost))
    rounded = float(exact)
    # float() rounds to nearest; step up when that went below the exact value.
    return rounded if Decimal(rounded) >= exact else nextafter(rounded, inf)


def float_above(exact: Fraction) -> float:
    """The smallest float that is not below ``exact``."""
    near = float(exact)
    return near if near >= exact else nextafter(near, inf)


def largest(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """The largest integer in ``[low, high]`` for which a downward-closed predicate holds, or None."""
    if not holds(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def smallest(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """The smallest integer in ``[low, high]`` for which an upward-closed predicate holds, or None."""
    negated = largest(-high, -low, lambda negative: holds(-negative))
    return None if negated is None else -negated
