"""What a shuffler adds to a protocol: the randomiser of one report and of many, and what is assumed."""

from __future__ import annotations

from typing import Any

from ldpbeam.privacy.randomiser import Chances, Randomiser
from ldpbeam.protocols.contract import LocalProtocol

__all__ = ["ASSUMPTION", "DELTA", "Chances", "Randomiser", "many_epochs", "one_epoch", "without_devices"]

DELTA = 1e-9
"""Probability with which the central ε may fail to hold."""

ASSUMPTION = (
    "a shuffler that the server does not control mixes all reports of an epoch, and drops where they came "
    "from and when"
)


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
    return protocol.law.one_epoch(renamed=renamed, alone=alone)


def many_epochs(protocol: LocalProtocol[Any], *, renamed: bool = False) -> Randomiser | None:
    """One of many reports of a device, whatever its values are in each epoch.

    Given what devices memoised, every epoch is a fresh second round, of the device as of the others, and
    this is what a report tells about the memoised answer. None where nothing useful is known: with one
    memoised bit per value the answers of two values differ in too many bits.
    """
    return protocol.law.many_epochs(renamed=renamed)


def without_devices(protocol: LocalProtocol[Any], *, alone: bool = False) -> str:
    """What a shuffler would add, where the number of devices is not known: what a figure needs."""
    if one_epoch(protocol, alone=alone) is None:
        return f"Nothing is stated for this protocol, even if {ASSUMPTION}."
    return (
        "At most these figures, and less where many devices report, towards a server that sees the reports "
        "of an epoch only as a set. How much less follows from the number of honest devices that report in "
        f"it: ldpbeam check --devices N states it. Assumed: {ASSUMPTION}."
    )
