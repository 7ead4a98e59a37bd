"""The table of faults: for each kind of fault the check that sees it, and from how many draws on.

One row is one planted client of tests/ldpbeam/audit/rare_bugs.py, of 24 values at ε∞ = 2 and ε1 = 1. The
command says from this table what an audit can miss, and docs/audit.md shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ldpbeam.audit.checks.outcome import Check


@dataclass(frozen=True)
class Fault:
    name: str
    what: str
    check: Check | None = None
    draws: int | None = None

    def seen_with(self, draws: int) -> bool:
        return self.draws is not None and self.draws <= draws


MEASURED = (2_000, 30_000)
"""Draws at which the planted clients were audited."""

FAULTS = (
    Fault("value-in-clear", "one value that is sent in clear", Check.SUPPORT, 2_000),
    Fault("value-as-next", "one value that is reported as the next one", Check.SUPPORT, 30_000),
    Fault(
        "value-without-memo", "one value whose permanent answer is drawn for every report", Check.MEMO, 30_000
    ),
    Fault("memo-lost-50", "permanent answers that are lost in every 50th report", Check.MEMO, 2_000),
    Fault("memo-lost-by-chance", "permanent answers that are lost in one report of 60", Check.MEMO, 2_000),
    Fault("memo-lost-400", "permanent answers that are lost in every 400th report", Check.MEMO, 30_000),
    Fault("memo-of-few-values", "permanent answers of the last sixteen values only", Check.MEMO, 2_000),
    Fault("memo-of-a-slice", "permanent answers that start anew in each slice", Check.SEQUENCE_MATCH, 2_000),
    Fault("memo-shared", "permanent answers that two collections share", Check.COLLECTIONS, 2_000),
    Fault("replay-20", "every 20th payload is the last one again, under a new id", Check.REPLAY, 2_000),
    Fault("replay-two-ago", "every 20th payload is the one before the last again", Check.REPLAY, 2_000),
    Fault("replay-by-chance", "one payload of 20 is the last one again, by chance", Check.REPLAY, 30_000),
    Fault("id-two-bits", "two bits of an id that tell a bit of the value", Check.IDS, 2_000),
    Fault("id-parity", "the parity of an id that tells whether the value is below a limit", Check.IDS, 2_000),
    Fault(
        "id-many-bits", "any exclusive or of bits of an id that tells a bit of the value", Check.IDS, 2_000
    ),
    Fault(
        "id-mostly", "two bits of an id that tell a bit of the value in one report of four", Check.IDS, 2_000
    ),
    Fault(
        "id-next", "ids that follow from the device's id before by exclusive ors of bits", Check.IDS, 2_000
    ),
    Fault(
        "silence-of-a-value",
        "an epoch that one value prefers with participation, 0.157 where it should be 0.125",
        Check.PARTICIPATION,
        30_000,
    ),
    Fault("generator-20-bits", "a random generator with 20 bits of entropy", Check.DEVICES, 30_000),
    Fault("device-in-clear", "one device of 97 that sends its value in clear"),
    Fault("restart", "permanent answers that are lost at one restart of many"),
    Fault("generator", "a random generator with more entropy, or one that others can predict"),
    Fault("id-hashed", "ids made of the value by a hash, an encryption or a product"),
    Fault("time", "the time that a report takes"),
)
"""All kinds, those that no audit sees last."""


def unseen(draws: int) -> Iterator[Fault]:
    return (fault for fault in FAULTS if not fault.seen_with(draws))


def warning(draws: int) -> str:
    if draws < MEASURED[0]:
        return f"{draws:,} draws are too few to be sure of any fault in the table of ldpbeam docs audit"
    faults = "; ".join(fault.what for fault in unseen(draws))
    return f"{draws:,} draws can miss, of the faults in the table of ldpbeam docs audit: {faults}"
