"""From privacy levels to the integer probabilities of both rounds (docs/maths.md section 2, correction 1).

The permanent round is set by ε∞, the instantaneous round by what must remain for the first report to be
ε1. ``exact`` solves the composed channel as it is; ``published`` uses the papers' formula, which ignores the
other m−2 symbols and wastes budget for m > 2 (kept because published tables need it).
"""

from __future__ import annotations

from enum import Enum
from fractions import Fraction

from ldpbeam.channels.channel import BitChannel, SymbolChannel, unary_ratio
from ldpbeam.channels.exact import exp_below, largest, log_above, smallest
from ldpbeam.errors import CollectionError
from ldpbeam.randomness import FULL

_FAIR = FULL // 2


class Calibration(Enum):
    """Which formula sets the second round of direct and local-hash protocols."""

    EXACT = "exact"
    PUBLISHED = "published"


def symbol_second_round(
    first: SymbolChannel, epsilon_first: float, calibration: Calibration
) -> SymbolChannel:
    """The instantaneous round over the symbols of ``first`` that leaves the first report at ε1."""
    target, ratio = exp_below(epsilon_first), first.ratio
    if target >= ratio:
        raise _not_below(epsilon_first)
    extra = first.size - 2 if calibration is Calibration.EXACT else 0
    second = (target * (ratio + extra) - extra - 1) / (ratio - target)
    return SymbolChannel.from_ratio(first.size, second)


def sue_round(epsilon: float) -> BitChannel:
    """Symmetric bits: p = e^{ε/2}/(e^{ε/2}+1), q = 1 − p."""
    return BitChannel.symmetric(exp_below(epsilon / 2))


def oue_round(epsilon: float) -> BitChannel:
    """Optimised bits: p = 1/2, q = 1/(e^ε+1), q rounded up."""
    return BitChannel(_FAIR, -int(-FULL // (exp_below(epsilon) + 1)))


def symmetric_second_round(first: BitChannel, epsilon_first: float) -> BitChannel:
    """The symmetric instantaneous round (p2, 1−p2) with the largest integer p2 that keeps ε1."""
    target = exp_below(epsilon_first)
    if target >= unary_ratio(first.own, first.other):
        raise _not_below(epsilon_first)
    one = largest(_FAIR, FULL - 1, lambda p: _keeps(first, BitChannel(p, FULL - p), target))
    assert one is not None  # noqa: S101 - p2 = 1/2 has ratio 1, which every ε1 > 0 allows
    return BitChannel(one, FULL - one)


def half_second_round(first: BitChannel, epsilon_first: float, name: str) -> BitChannel:
    """The instantaneous round (1/2, q2) of L-OUE and L-SOUE with the smallest integer q2 that keeps ε1."""
    target = exp_below(epsilon_first)
    if target >= unary_ratio(first.own, first.other):
        raise _not_below(epsilon_first)

    reach = unary_ratio(*first.then(BitChannel(_FAIR, 1)))
    if reach < target:
        raise CollectionError(
            "E-COLLECTION-INFEASIBLE",
            f"{name} cannot reach epsilon_first = {epsilon_first}: with p2 = 1/2 the first report "
            f"spends at most {log_above(reach):.6f}",
            key="epsilon_first",
            remedy="Lower epsilon_first below that limit, or use l_osue, which reaches every level.",
        )
    zero = smallest(1, _FAIR, lambda q2: _keeps(first, BitChannel(_FAIR, q2), target))
    assert zero is not None  # noqa: S101 - q2 = 1/2 has ratio 1, which every ε1 > 0 allows
    return BitChannel(_FAIR, zero)


def _keeps(first: BitChannel, second: BitChannel, target: Fraction) -> bool:
    """Whether the ratio of both rounds is at most ``target``: what ``unary_ratio(*first.then(second))``
    says."""
    whole = FULL * FULL
    own = first.one * second.one + (FULL - first.one) * second.zero
    other = first.zero * second.one + (FULL - first.zero) * second.zero
    return own * (whole - other) * target.denominator <= target.numerator * (whole - own) * other


def _not_below(epsilon_first: float) -> CollectionError:
    return CollectionError(
        "E-COLLECTION-VALUE",
        f"epsilon_first = {epsilon_first} is not below epsilon_longitudinal, so the first report would "
        "spend all that is kept for a lifetime",
        key="epsilon_first",
        remedy="Lower epsilon_first or raise epsilon_longitudinal.",
    )
