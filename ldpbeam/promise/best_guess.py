"""How well a server can guess a device's value from the reports that the device sends about it.

All k values are equally likely, and the device holds one of them throughout. The best guess is the value v of
largest P(y | v), where y are all reports, with the hash function or the buckets that they name. It is right
with probability (1/k)·Σ over y of max over v of P(y | v). :func:`best_guess` computes that from the integers
of the protocol, with floats, and exactly but for

- local hashing by the ``affine`` family, of one report or of memoised symbols: an upper bound, at most a
  fifth above the truth, since how many symbols a function reaches is only known on average, and only from
  above (:func:`_reached`);
- ``blh`` and ``olh``, and ``dbitflip`` of some of the buckets, from two reports on: an approximation that
  takes the support of different values as independent. Of few values and two to four reports it is 0.94 to
  1.18 times the truth for hashing, 0.95 to 1.02 times for buckets;
- ``binflip_plus``: an approximation that takes the bits of a public string as independent. Two bits are, so
  that k = 2 is exact; one report is within a fortieth.

Those figures are enumerated in tests/ldpbeam/promise/test_best_guess.py.
"""

from __future__ import annotations

from fractions import Fraction
from functools import singledispatch
from math import exp, lgamma, sqrt
from typing import Any

import numpy as np

from ldpbeam.channels.channel import SymbolChannel
from ldpbeam.hashing import HashFamily, LinearFamily
from ldpbeam.privacy.loss import require_reports
from ldpbeam.promise.guess_laws import (
    NOTHING,
    binomial,
    choices,
    highest,
    largest,
    majority,
    quadrature,
    steps,
    sum_of,
)
from ldpbeam.protocols.attributes.base import AttributeProtocol
from ldpbeam.protocols.bit_flip import BitFlip
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.direct import Direct
from ldpbeam.protocols.laplace_mean import LaplaceMean
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.one_bit_mean import OneBitMean, OneBitRRPM
from ldpbeam.protocols.public_string import BinFlipPlus
from ldpbeam.protocols.unary import Unary
from ldpbeam.randomness import FULL


def best_guess(protocol: LocalProtocol[Any], reports: int) -> float:
    """The probability that the best guess of a device's value is right.

    With several attributes it is that of the attribute whose value is guessed best: where devices draw one
    attribute, of a device that drew this one, and where they report all, by the reports on this one alone.

    Args:
        protocol: of the collection.
        reports: of one device, all about the same value; 1 or more.

    Raises:
        TypeError: a protocol that no formula here is about.
        ValueError: no reports.
    """
    require_reports(reports)
    parts = set(protocol.parts) if isinstance(protocol, AttributeProtocol) else {protocol}
    # Sums of thousands of floats can end a little above 1.
    return min(1.0, max(_guess(part, reports) for part in parts))


@singledispatch
def _guess(protocol: object, reports: int) -> float:
    raise TypeError(f"nothing is known of guesses from reports of {type(protocol).__name__}")


@_guess.register
def _(protocol: Direct, reports: int) -> float:
    k = protocol.domain_size
    return _symbols(protocol.permanent, protocol.instant, k, reports) / k


@_guess.register
def _(protocol: LocalHash, reports: int) -> float:
    """One function for all reports, or one report; else the value that most reports support."""
    k, permanent = protocol.domain_size, protocol.permanent
    if permanent is None and reports > 1:
        own, other = (binomial(reports, p) for p in (protocol.support.own, protocol.support.other))
        return highest(own, other, k)
    reached = _reached(protocol.family, k)
    return sum(share * _symbols(permanent, protocol.instant, r, reports) for r, share in reached.items()) / k


@_guess.register
def _(protocol: Unary, reports: int) -> float:
    """A bit of its own for each value: the number of its ones decides, the more the better."""
    up, down = (binomial(reports, p) for p in (protocol.instant.own, protocol.instant.other))
    memoised = protocol.permanent
    if memoised is None:
        return highest(up, down, protocol.domain_size)
    own, other = (float(p) * up + float(1 - p) * down for p in (memoised.own, memoised.other))
    return highest(own, other, protocol.domain_size)


@_guess.register
def _(protocol: BitFlip, reports: int) -> float:
    """The ones less the zeros about a value. Memoised bits are sent as they are, so one report tells all."""
    b, d, channel = protocol.domain_size, protocol.d, protocol.channel
    own, other = channel.own, channel.other
    t = 1 if protocol.permanent is not None else reports
    if d == b:
        return highest(binomial(t, own), binomial(t, other), b)
    if t == 1:
        # A sampled bucket whose bit is 1, else one of those not sampled.
        zeros = float(1 - other) ** d
        return ((1 - zeros) * float(own / other) + zeros) / b
    return highest(steps(t, Fraction(d, b), own), steps(t, Fraction(d, b), other), b)


@_guess.register
def _(protocol: BinFlipPlus, reports: int) -> float:
    """The value with whose bits most verdicts agree, given how many strings were accepted.

    Where those numbers have a standard deviation of 4 or more they are summed over in steps of half of it: a
    sum of the shape of a bell does not change by that.
    """
    k, agree, one = protocol.domain_size, protocol.instant.own, Fraction(protocol.threshold, 1 << 32)
    accepted = agree * one + (1 - agree) * (1 - one)
    chances = binomial(reports, accepted)
    likely = np.flatnonzero(chances > exp(NOTHING))
    step = max(1, int(sqrt(reports * float(accepted * (1 - accepted))) / 2))
    right = 0.0
    for a in range(int(likely[0]), int(likely[-1]) + 1, step):
        own = sum_of(
            binomial(a, agree * one / accepted), binomial(reports - a, agree * (1 - one) / (1 - accepted))
        )
        other = sum_of(binomial(a, one), binomial(reports - a, 1 - one))
        right += step * float(chances[a]) * highest(own, other, k)
    return right


@_guess.register
def _(protocol: OneBitMean, reports: int) -> float:
    """The value whose chance of a 1 is nearest to the share of ones, on either side of it."""
    bit, maximum = protocol.bit, protocol.domain_size - 1
    ones = np.arange(reports + 1.0)
    below = np.floor((ones / reports * FULL - bit.zero) / bit.step)
    best = np.full(reports + 1, -np.inf)
    for value in (below, below + 1):
        inside = np.clip(value, 0, maximum)
        # Each weight from its own end, so that neither is a difference of nearly equal numbers.
        one, zero = bit.zero + inside * bit.step, bit.zero + (maximum - inside) * bit.step
        best = np.maximum(best, ones * np.log(one / FULL) + (reports - ones) * np.log(zero / FULL))
    return float(np.exp(choices(reports) + best).sum()) / protocol.domain_size


@_guess.register
def _(protocol: OneBitRRPM, reports: int) -> float:
    """0 or m, by the bit that most reports show: as α is secret, P(y | value) is linear in the value."""
    kept = majority(reports, 1 - Fraction(protocol.flip, FULL))
    one, zero = protocol.bit.one / FULL, protocol.bit.zero / FULL
    return 2 * (one * kept + zero * (1 - kept)) / protocol.domain_size


@_guess.register
def _(protocol: LaplaceMean, reports: int) -> float:
    """The median report, the lower one of two, moved into 0 .. m: it is right where its noise is 0.

    P(the j-th of t noises is 0) is the integral of a beta density, a polynomial, over the part of [0, 1] that
    a noise of 0 takes. Where the guess is 0 or m, noise beyond it is right as well.
    """
    noise, k, j = protocol.instant, protocol.domain_size, (reports + 1) // 2
    wide, nodes, weights = float(noise.probability(0)), *quadrature(reports - 1)
    below, above = float(noise.below(-1)) + wide * nodes, float(noise.above(1)) + wide * (1 - nodes)
    factor = lgamma(reports + 1) - lgamma(j) - lgamma(reports - j + 1)
    density = np.exp(factor + (j - 1) * np.log(below) + (reports - j) * np.log(above))
    zero = wide * float(weights @ density)
    return zero + (1 - zero) / k


def _reached(family: HashFamily, k: int) -> dict[int, float]:
    """How many symbols a hash function reaches from k values, with the probability of each number.

    Exact for the linear family: a seed whose digits but the highest are 0 reaches as many symbols as the
    values have highest digits, every other seed all of them.

    Else two numbers that give no less than the truth. Each of k − 1 values collides with the first one with
    probability c, so k − (k−1)c symbols at most are reached on average, and never more than g. The sum of
    largest likelihoods over a set of symbols grows with the set, and by less with each further symbol.
    """
    if isinstance(family, LinearFamily):
        few = (k - 1) // (family.points // family.g) + 1
        share = (family.g - 1) / (family.points - 1)
        return {few: share, family.g: 1 - share} if few < family.g and share < 1 else {few: 1.0}
    most = min(float(family.g), k - (k - 1) * float(family.collision))
    whole = int(most)
    return {whole: 1 - (most - whole), whole + 1: most - whole} if most > whole else {whole: 1.0}


def _symbols(permanent: SymbolChannel | None, instant: SymbolChannel, reached: int, reports: int) -> float:
    """Σ over reports y of the largest likelihood among ``reached`` of the symbols: of the one sent most.

    A memoised answer that is another of these symbols is right as often as each of the others is sent most;
    one that is none of them favours no symbol.
    """
    free = instant.size - reached
    right = largest(float(instant.own), float(instant.other), reached - 1, free, reports)
    if permanent is None:
        return reached * right
    own, other = float(permanent.own), float(permanent.other)
    return reached * (own * right + other * (1 - right)) + free * other
