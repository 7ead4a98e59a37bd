"""What the accounting of a shuffler has to know of a protocol: how a device reports, and how the others do.

For the encodings here the ratio of two values' probabilities is p, 1/p or 1 for every report. So the worst
ratio p and the largest total variation distance say how far two values' reports are apart
(:mod:`ldpbeam.shuffling.shuffle`). What hides a device are the chances with which every other device sends a
report of the same kind, **whatever the server knows of that other device**: a server that has seen other
epochs knows the permanent answers that the others repeat in all of them, so for memoising protocols these
chances are those of the second round alone. docs/privacy.md derives both statements, of one report and of
many, from this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, nextafter
from typing import Any

from ldpbeam.channels.channel import SymbolChannel
from ldpbeam.channels.exact import log_above
from ldpbeam.hashing import LinearFamily
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.direct import Direct
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.unary import Unary

DELTA = 1e-9
"""Probability with which the central ε may fail to hold."""

ASSUMPTION = (
    "a shuffler that the server does not control mixes all reports of an epoch, and drops where they came "
    "from and when"
)


_LEAST = Fraction(64, 10**10)
"""Least chance of another device's report to be of one given kind that is of use: among ten billion devices,
more than there are people, so few would hide one."""


@dataclass(frozen=True)
class Chances:
    """A randomiser in floats, each rounded to the side on which less is promised.

    Attributes:
        p: the worst ratio.
        alpha: the lesser chance of the device's report to be of one of the two kinds that tell; α.
        rest: the chance of its report to tell neither; γ = 1 − (p + 1)·α.
        each: the least chance of another device's report to be of one given kind of the two.
        neither: the least chance of another device's report to be like the device's third kind.
    """

    p: float
    alpha: float
    rest: float
    each: float
    neither: float

    @property
    def hiding(self) -> float:
        """The least chance of another device's report to be of any of the three kinds."""
        return min(1.0, 2 * self.each + self.neither)

    @property
    def speaking(self) -> float:
        """Of those, the share of the two kinds that tell."""
        return 2 * self.each / (2 * self.each + self.neither) if self.neither else 1.0

    @property
    def third(self) -> float:
        """(γ/neither)/(α/each): the weight of a report of the third kind beside those of the other two."""
        return self.rest * self.each / (max(self.neither, 1e-30) * self.alpha)


@dataclass(frozen=True)
class Randomiser:
    """What the accounting has to know of a randomiser.

    Attributes:
        ratio: p, the worst ratio of the probabilities of two values of the device.
        distance: β, the largest total variation distance of two values of the device.
        functions: devices are told apart by that many functions; only those with the same one are a crowd.
        others: the least chances of another device's report to be of one given kind of the two that tell
            the values apart, and of the third kind; None where the others draw as the device does, all of
            it afresh.
    """

    ratio: Fraction
    distance: Fraction
    functions: int = 1
    others: tuple[Fraction, Fraction] | None = None

    @property
    def local(self) -> float:
        """ε without a shuffler, rounded up."""
        return log_above(self.ratio)

    @property
    def chances(self) -> Chances:
        """Of the device, p and β rounded up; of the others, rounded down."""
        p = nextafter(float(self.ratio), inf)
        alpha = nextafter(float(self.distance), inf) / (p - 1)
        rest = max(0.0, 1 - alpha - p * alpha)
        if self.others is None:
            return Chances(p, alpha, rest, alpha, rest / p)
        each, neither = (nextafter(float(one), 0.0) if one else 0.0 for one in self.others)
        return Chances(p, alpha, rest, each, neither)


def one_epoch(
    protocol: LocalProtocol[Any], *, renamed: bool = False, alone: bool = False
) -> Randomiser | None:
    """One report of a device, from its value on; None for protocols of which nothing is known.

    The device's report has both rounds in it. Of the others only the second round counts, since the server
    may know their permanent answers from other epochs. With one bit per value a permanent answer of many
    bits tells its device, so that nothing is stated there.

    Args:
        protocol: of the collection.
        renamed: whether the shuffler renames the symbols of every report (docs/privacy.md).
        alone: whether every device sends one report in its life. Then no permanent answer is seen twice,
            and the protocol is a one-round one at ε1.
    """
    if not isinstance(protocol, Direct | Unary | LocalHash):
        return None
    ratio = protocol.guarantee.first_ratio
    if alone or protocol.permanent is None:
        return Randomiser(ratio, protocol.support.gap)
    if isinstance(protocol, Unary):
        others = _bits(protocol)
        return Randomiser(ratio, protocol.support.gap, 1, others) if others[0] >= _LEAST else None
    if isinstance(protocol, Direct):
        return Randomiser(ratio, protocol.support.gap, 1, _symbols(protocol.instant))
    # The function is the device's own, and stands in the report.
    functions = _functions(protocol, renamed=renamed)
    if functions is None:
        return None
    own, other = protocol.permanent.then(protocol.instant)
    return Randomiser(ratio, own - other, functions, _symbols(protocol.instant))


def many_epochs(protocol: LocalProtocol[Any], *, renamed: bool = False) -> Randomiser | None:
    """One of many reports of a device, whatever its values are in each epoch.

    Given what devices memoised, every epoch is a fresh second round, of the device as of the others, and
    this is what a report tells about the memoised answer. None where nothing useful is known: with one
    memoised bit per value the answers of two values differ in too many bits.
    """
    if isinstance(protocol, Unary) and protocol.permanent is not None:
        return None
    first = one_epoch(protocol, renamed=renamed)
    if first is None or first.others is None or not isinstance(protocol, Direct | LocalHash):
        return first
    instant = protocol.instant
    return replace(first, ratio=instant.ratio, distance=instant.own - instant.other)


def _symbols(instant: SymbolChannel) -> tuple[Fraction, Fraction]:
    """Whatever symbol another device memoised, its report names each symbol with at least this chance.

    The third kind is any symbol but two, and evenly so for the device as in this least part.
    """
    return instant.other, (instant.size - 2) * instant.other


def _bits(protocol: Unary) -> tuple[Fraction, Fraction]:
    """The same of a report of k bits, whatever bits another device memoised.

    A report tells two values apart by their two bits: 10 and 01 are the two kinds, 11 and 00 the third. The
    other k − 2 bits of the device are 1 with the composed chance. Those of another device follow from bits
    that the server may know; each agrees with such a bit with at least ``alike``.
    """
    own, other = protocol.support.own, protocol.support.other
    one, zero = protocol.instant.own, protocol.instant.other
    alike = min(zero / other, (1 - one) / (1 - other))
    # The power is off by far less than a billionth for as many bits as a domain may have.
    further = Fraction(float(alike) ** (protocol.domain_size - 2) * (1 - 1e-9))
    rest = own * other + (1 - own) * (1 - other)
    third = rest * min(zero**2 / (own * other), (1 - one) ** 2 / ((1 - own) * (1 - other)))
    return zero * (1 - one) * further, third * further


def _functions(protocol: LocalHash, *, renamed: bool) -> int | None:
    """How many hash functions there are; None where no two devices share one."""
    if not isinstance(protocol.family, LinearFamily):
        return None
    return protocol.family.classes if renamed else protocol.family.points - 1


def without_devices(protocol: LocalProtocol[Any], *, alone: bool = False) -> str:
    """What a shuffler would add, where the number of devices is not known: what a figure needs."""
    if one_epoch(protocol, alone=alone) is None:
        return f"Nothing is stated for this protocol, even if {ASSUMPTION}."
    return (
        "At most these figures, and less where many devices report, towards a server that sees the reports "
        "of an epoch only as a set. How much less follows from the number of honest devices that report in "
        f"it: ldpbeam check --devices N states it. Assumed: {ASSUMPTION}."
    )
