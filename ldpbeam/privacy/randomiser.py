"""What the accounting of a shuffler has to know of a protocol: how far two values' reports are apart.

For the encodings here the ratio of two values' probabilities is p, 1/p or 1 for every report. So the worst
ratio p and the largest total variation distance say all (:mod:`ldpbeam.privacy.shuffle`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
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


@dataclass(frozen=True)
class Randomiser:
    """What the accounting has to know of a randomiser.

    Attributes:
        ratio: p, the worst ratio of the probabilities of two values.
        distance: β, the largest total variation distance of two values.
        functions: devices are told apart by that many functions; only those with the same one are a crowd.
    """

    ratio: Fraction
    distance: Fraction
    functions: int = 1

    @property
    def local(self) -> float:
        """ε without a shuffler, rounded up."""
        return log_above(self.ratio)


def one_epoch(protocol: LocalProtocol[Any], *, renamed: bool = False) -> Randomiser | None:
    """One report of a device, from its value on; None for protocols that this page does not speak about.

    Args:
        protocol: of the collection.
        renamed: whether the shuffler renames the symbols of every report (:mod:`ldpbeam.privacy.renaming`).
    """
    if not isinstance(protocol, Direct | Unary | LocalHash):
        return None
    guarantee = protocol.guarantee
    if isinstance(protocol, LocalHash) and guarantee.memoised_ratio is not None:
        # The function is the device's own, and stands in the report.
        functions = _functions(protocol, renamed=renamed)
        inner = _composed(protocol)
        return None if functions is None else Randomiser(guarantee.first_ratio, inner, functions)
    return Randomiser(guarantee.first_ratio, protocol.support.gap)


def many_epochs(protocol: LocalProtocol[Any], *, renamed: bool = False) -> Randomiser | None:
    """One of many reports of a device, whatever its values are in each epoch.

    Given what devices memoised, every epoch is a fresh second round, and this is what a report tells about
    the memoised answer. None where nothing useful is known: with one memoised bit per value the answers of
    two values differ in too many bits.
    """
    if protocol.guarantee.memoised_ratio is None:
        return one_epoch(protocol, renamed=renamed)
    instant = getattr(protocol, "instant", None)
    if not isinstance(instant, SymbolChannel) or not isinstance(protocol, Direct | LocalHash):
        return None
    functions = _functions(protocol, renamed=renamed) if isinstance(protocol, LocalHash) else 1
    if functions is None:
        return None
    return Randomiser(instant.ratio, _distance(instant), functions)


def _functions(protocol: LocalHash, *, renamed: bool) -> int | None:
    """How many hash functions there are; None where no two devices share one."""
    if not isinstance(protocol.family, LinearFamily):
        return None
    return protocol.family.classes if renamed else protocol.family.points - 1


def _distance(channel: SymbolChannel) -> Fraction:
    """Total variation distance of two symbols."""
    return Fraction(channel.keep - channel.each, channel.total)


def _composed(protocol: LocalHash) -> Fraction:
    """Total variation distance of two hash symbols over both rounds."""
    assert isinstance(protocol.permanent, SymbolChannel)  # noqa: S101 - the caller's condition
    return _distance(protocol.permanent) * _distance(protocol.instant)


def without_devices(protocol: LocalProtocol[Any]) -> str:
    """What a shuffler would add, where the number of devices is not known: what a figure needs."""
    if one_epoch(protocol) is None:
        return (
            f"Nothing is stated for this protocol. It would need {ASSUMPTION}, and devices that are a crowd."
        )
    return (
        "Less than these figures, towards a server that sees the reports of an epoch only as a set. How much "
        "less follows from the number of honest devices that report in it: ldpbeam check --devices N states "
        f"it. Assumed: {ASSUMPTION}."
    )
