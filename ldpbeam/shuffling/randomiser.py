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
    """One report of a device, from its value on; None for protocols of which nothing is known."""
    return protocol.law.one_epoch(renamed=renamed, alone=alone)


def many_epochs(protocol: LocalProtocol[Any], *, renamed: bool = False) -> Randomiser | None:
    """One of many reports of a device, whatever its values are in each epoch."""
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
