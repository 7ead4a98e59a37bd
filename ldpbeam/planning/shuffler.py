"""What a shuffler would add to a setting, with its assumption, for plans, checks and explanations."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.promise.promise import EXACT_REPORTS
from ldpbeam.promise.statements import epsilon
from ldpbeam.protocols import LocalProtocol
from ldpbeam.shuffling.randomiser import ASSUMPTION, DELTA, many_epochs, one_epoch
from ldpbeam.shuffling.shuffle_plan import planned_epsilon


@dataclass(frozen=True)
class ShuffledPrivacy:
    """ε towards a server that sees the reports of each epoch only as a set, but with probability δ."""

    devices: int
    reports: int
    functions: int
    one_report: float
    all_reports: float | None
    renaming: ShuffledPrivacy | None = None

    @classmethod
    def of(
        cls,
        protocol: LocalProtocol[Any],
        devices: int,
        share: Fraction,
        reports: int,
        *,
        renamed: bool = False,
    ) -> ShuffledPrivacy | None:
        # Where each device reports once in its life, no permanent answer is seen twice.
        alone = reports == 1
        once = one_epoch(protocol, renamed=renamed, alone=alone)
        often = once if alone else many_epochs(protocol, renamed=renamed)
        other = one_epoch(protocol, renamed=True, alone=alone)
        present = int(devices * share)
        if once is None or present < 1:
            return None
        one = planned_epsilon(once, present)
        whole = None if often is None else one if alone else planned_epsilon(often, present, reports)
        if whole is not None and protocol.losses is not None and reports <= EXACT_REPORTS:
            known = protocol.losses.any_changes(reports)
            whole = whole if known is None else min(whole, known)
        better = None
        if other is not None and other.functions < once.functions:
            better = cls.of(protocol, devices, share, reports, renamed=True)
        return cls(present, reports, once.functions, one, whole, better)

    def as_record(self) -> dict[str, Any]:
        return {
            "one_report": self.one_report,
            "all_reports": self.all_reports,
            "delta": DELTA,
            "devices": self.devices,
            "reports": self.reports,
            "hash_functions": self.functions,
            "renaming": None if self.renaming is None else self.renaming.as_record(),
            "assumption": ASSUMPTION,
        }


def of_collection(collection: Collection, devices: int) -> ShuffledPrivacy | None:
    """Of a collection: all reports of a device's life where they are few, else of at most a year's days."""
    return ShuffledPrivacy.of(collection.protocol, devices, collection.share, collection.promise.reports)


def shuffled_words(collection: Collection, devices: int) -> str:
    return behind_shuffler(of_collection(collection, devices))


def behind_shuffler(shuffled: ShuffledPrivacy | None) -> str:
    """What a server learns that sees the reports of an epoch only as a set, and what that assumes."""
    if shuffled is None:
        return (
            "Behind a shuffler: nothing is known for this collection with so many devices; the promises to "
            "a device hold as they are."
        )
    crowd = f"{shuffled.devices:,} honest devices in each epoch"
    if shuffled.functions > 1:
        crowd += f", of which about 1 in {shuffled.functions:,} has the same hash function"
    text = f"Behind a shuffler, among {crowd}: a report tells at most ε = {epsilon(shuffled.one_report)}"
    if shuffled.reports > 1:
        text += " to a server that knows the reports of all other epochs"
    if shuffled.all_reports is None:
        text += "; for several reports nothing is known"
    elif shuffled.reports > 1:
        most = epsilon(shuffled.all_reports)
        text += f"; {shuffled.reports:,} reports tell at most ε = {most}, whatever changes"
    also = shuffled.renaming
    if also is not None and also.one_report < shuffled.one_report:
        levels = [one for one in (also.one_report, also.all_reports) if one is not None]
        both = " and ".join(f"ε = {one}" for one in dict.fromkeys(map(epsilon, levels)))
        text += (
            f"; at most {both} if the shuffler also renames hash symbols, since about 1 in "
            f"{also.functions:,} of the devices is then alike"
        )
    return (
        f"{text}. This can fail with probability {DELTA:g}. It assumes that {ASSUMPTION}; without such a "
        "shuffler the promises to a device hold as they are."
    )
