"""Payloads that no honest device draws: which they are, from a protocol's own exact probabilities.

A payload is called degenerate when it belongs to a set that every input draws with probability below
:data:`BOUND`, and that would give a forger more weight than a report is meant to have: bit vectors of nearly
all ones or zeros, and multipliers of an affine hash that map all values alike. The server refuses them.

That costs no device its privacy: whether a report is refused follows from the report alone. Nor does it leave
a device stuck. A seed is drawn without looking at the value, so devices exchange a degenerate one before they
use it (:func:`ordinary`), and the channel given the seed stays what it is. A bit vector is sent as it was
drawn; it is lost with probability below :data:`BOUND`, and the next report is drawn anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, log, sqrt

from ldpbeam.arrays import Bytes, Flags, Ints, Uints, read_only
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.support import SupportProbabilities

BOUND = Fraction(1, 1 << 50)
"""What every input draws a degenerate payload with less than."""

REACH = 1 << 13
"""Affine multipliers a with |a| below it, as signed 64-bit integers, are degenerate: 2·REACH − 1 of 2**64,
just below :data:`BOUND`. From value to value they move the hash by less than 2**-51 of its range."""

_FULL = 1 << 64
_EXCHANGE = 0x9E3779B97F4A7C15
"""Exclusive-ored with a degenerate multiplier gives one that is not: all 2·REACH − 1 of them differ."""

CELLS = 1 << 10
"""Classes that affine seeds are counted by."""

_RARE = Fraction(1, 1 << 14)
_CONTEXT = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)
_SLACK = Decimal("1e-40")
"""Relative; more than the rounding of 60 digits adds up to over any domain."""


def is_degenerate(multiplier: int) -> bool:
    """Whether an affine hash with this multiplier, 0 .. 2**64 − 1, maps neighbouring values alike."""
    return (multiplier + REACH - 1) % _FULL < 2 * REACH - 1


def ordinary(multiplier: int) -> int:
    """The multiplier itself, or another in exchange for a degenerate one."""
    return multiplier ^ _EXCHANGE if is_degenerate(multiplier) else multiplier


def ordinary_many(multipliers: Uints) -> Uints:
    """:func:`ordinary` for an array of any shape."""
    import numpy as np

    exchanged = multipliers ^ np.uint64(_EXCHANGE)
    return np.where(_degenerate(multipliers), exchanged, multipliers)


def _degenerate(multipliers: Uints) -> Flags:
    import numpy as np

    flags: Flags = multipliers + np.uint64(REACH - 1) < np.uint64(2 * REACH - 1)
    return flags


def check_seeded(payloads: Bytes, limit: int, refused: CheckCode) -> Bytes:
    """Codes (n,) of payloads of an affine hash: its two words, then a symbol."""
    import numpy as np

    from ldpbeam.kernels import hashing

    return hashing.check_affine(read_only(payloads), np.uint64(limit), np.uint8(refused), np.uint64(REACH))


def add_seeds(payloads: Bytes, signs: Ints) -> None:
    """Count the affine hashes in payloads by :data:`CELLS` equally likely classes of seeds."""
    import numpy as np

    from ldpbeam.kernels import hashing

    shift = np.uint64(64 - CELLS.bit_length() + 1)
    hashing.add_seeds(read_only(payloads), np.uint64(_EXCHANGE), shift, signs)


def ones_admitted(
    bits: int, own: Fraction, other: Fraction, *, always: bool = True, bound: Fraction = BOUND
) -> tuple[int, int]:
    """The least and the largest number of ones in a payload of independent bits that is not degenerate."""
    each = bound / 2
    # The input with most ones has a bit of its own; the one with fewest has none, where that can be.
    most = tail_from(bits, own, other, each) - 1
    fewest = tail_from(bits, 1 - own if always else None, 1 - other, each) - 1
    return bits - fewest, most


@lru_cache(maxsize=4096)
def tail_from(bits: int, special: Fraction | None, common: Fraction, bound: Fraction) -> int:
    """The smallest t with P(X >= t) < bound, where X counts successes of independent trials."""
    limit = _CONTEXT.multiply(_decimal(bound), _CONTEXT.subtract(Decimal(1), _SLACK))
    # What is left out of the sum is less than the slack.
    ends = _followed(bits - (special is not None), common, log(bound.denominator / bound.numerator) + 104)
    return next((t + 1 for t, probability in _tails(bits, special, common, ends) if probability >= limit), 1)


@lru_cache(maxsize=4096)
def tail(bits: int, special: Fraction | None, common: Fraction, least: int) -> float:
    """P(X >= least), X as in :func:`tail_from`, to the precision of a float."""
    return next((float(probability) for t, probability in _tails(bits, special, common) if t <= least), 1.0)


def _decimal(number: Fraction) -> Decimal:
    return _CONTEXT.divide(Decimal(number.numerator), Decimal(number.denominator))


def _followed(trials: int, common: Fraction, decay: float) -> tuple[int, int]:
    """Counts of successes that hold all but a share e^-decay to either side (Bernstein's inequality)."""
    mean, variance = float(trials * common), float(trials * common * (1 - common))
    reach = decay / 3 + sqrt(decay**2 / 9 + 2 * decay * variance) + 1
    return max(0, int(mean - reach)), min(trials, ceil(mean + reach))


def _tails(
    bits: int, special: Fraction | None, common: Fraction, ends: tuple[int, int] | None = None
) -> Iterator[tuple[int, Decimal]]:
    """(t, P(X >= t)) for t = bits + 1 down to 1, each with a relative error below 1e-40."""
    yield bits + 1, Decimal(0)
    one, times, over, plus = Decimal(1), _CONTEXT.multiply, _CONTEXT.divide, _CONTEXT.add
    trials = bits - (special is not None)
    low, high = ends or (0, trials)
    odds = _decimal((1 - common) / common)
    first = _decimal(special) if special is not None else Decimal(0)
    rest = _CONTEXT.subtract(one, first)

    def before(mass: Decimal, j: int) -> Decimal:
        """P(B = j − 1) from P(B = j), for B of the common trials."""
        return times(mass, over(times(odds, Decimal(j)), Decimal(trials - j + 1)))

    mass = _CONTEXT.power(_decimal(common), trials)
    if high < trials:
        # The chance of the first count follows from that all of them add up to 1.
        mass = whole = one
        for j in range(high, low, -1):
            mass = before(mass, j)
            whole = plus(whole, mass)
        mass = over(one, whole)
    above = Decimal(0)  # P(B > j)
    for j in range(high, -1, -1):
        # P(X >= j + 1) = first·P(B >= j) + (1 − first)·P(B >= j + 1)
        reached = plus(above, mass)
        if j < bits:
            yield j + 1, plus(times(first, reached), times(rest, above))
        above = reached
        mass = before(mass, j)


@lru_cache(maxsize=4096)
def extremes(bits: int, support: SupportProbabilities) -> tuple[tuple[int, int], tuple[float, float]]:
    """(few, many): numbers of ones that are rare; and P(at least many), P(at most few), both below 2**-14."""
    own, other = support.own, support.other
    many = tail_from(bits, own, other, _RARE)
    zeros = tail_from(bits, 1 - own, 1 - other, _RARE)
    return (bits - zeros, many), (tail(bits, own, other, many), tail(bits, 1 - own, 1 - other, zeros))
