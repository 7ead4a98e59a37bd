"""What became of the records of a run, in sentences; above all of one that has counted nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ldpbeam.collection.epochs import instant
from ldpbeam.errors import Reason
from ldpbeam.job.file_times import REMEDY
from ldpbeam.records.run_record import RunRecord
from ldpbeam.table_file import published_table
from ldpbeam.text import plural

_SHOWN = 5  # files, or gaps, that are named one by one
_TABLES = 100
"""Tables of rejects that are looked into for the sentence about a file."""


def cut_off_files(record: RunRecord, output: str) -> Iterator[str]:
    """A line about each of the first files that end inside a record; one more line if there are others."""
    if not record.accounting.total.rejected[Reason.TRUNCATED.value]:
        return
    shown = 0
    for rows in _rejects(record, output, ["reason", "source", "place", "missing"]):
        for row in rows:
            if row["reason"] != Reason.TRUNCATED.value:
                continue
            if shown == _SHOWN:
                yield "more files end inside a record, see rejects/. [W-RUN-TRUNCATED]"
                return
            shown += 1
            lacks = "" if row["missing"] is None else f", which lacks {plural(row['missing'], 'byte')}"
            yield (
                f"{row['source']}: the file ends inside the record at byte {row['place']:,}{lacks}: no "
                "report of it is counted. Fetch the file again. [W-RUN-TRUNCATED]"
            )


def missing_epochs(record: RunRecord) -> Iterator[str]:
    """A line about the epochs of each collection that fall out of an otherwise unbroken row."""
    if record.stream is not None:
        return
    for digest, group in groupby(record.accounting.gaps, lambda gap: gap.digest):
        gaps = list(group)
        named = [
            str(gap.first_epoch)
            if gap.first_epoch == gap.last_epoch
            else f"{gap.first_epoch}..{gap.last_epoch}"
            for gap in gaps[:_SHOWN]
        ]
        more = f" and {len(gaps) - _SHOWN} more gaps" if len(gaps) > _SHOWN else ""
        there = [
            one.epoch for one in record.accounting.epochs if one.digest == digest and one.account.counted
        ]
        yield (
            f"{gaps[0].collection}: of the epochs {there[0]}..{there[-1]} nothing was counted in "
            f"{', '.join(named)}{more}. Check that all files are there and whole. [W-RUN-GAP]"
        )


def copied_devices(record: RunRecord) -> Iterator[str]:
    """A line about each collection with more shared report ids than chance explains."""
    names = {one.digest: one.name for one in record.collections}
    found = record.indicators.alarms if record.indicators else ()
    for digest, group in groupby(
        (one for one in found if one.indicator == "conflicts"), lambda one: one.digest
    ):
        alarms = list(group)
        count = sum(int(one.observed) for one in alarms)
        yield (
            f"{names.get(digest, digest)}: {plural(count, 'report')} in {plural(len(alarms), 'epoch')} (the "
            f"first is {alarms[0].epoch}) came under the id of another one, with another payload. Look for "
            "devices that were set up from one image or restored from one backup, or for a forger: ldpbeam "
            "docs devices. [W-RUN-COPIES]"
        )


def why_nothing(record: RunRecord, details: Mapping[str, str] = MappingProxyType({})) -> str | None:
    """That nothing was counted and what is the likely cause and remedy; None where something was."""
    if record.accounting.total.counted:
        return None
    cause, remedy = _cause(record, details)
    return f"nothing was counted, no estimate was written: {cause}. {remedy}"


def _cause(record: RunRecord, details: Mapping[str, str]) -> tuple[str, str]:
    """The commonest fate of the records, with what usually mends it."""
    total = record.accounting.total
    if not total.read:
        return "no record came", "Check --input, or the subscription and that devices publish to its topic."
    fates = {"late": total.late, "duplicate": total.duplicate, **total.rejected_record()}
    fate = max(fates, key=lambda name: fates[name])
    if not fates[fate]:
        return "the epochs are not over", "Start the stream again to go on."
    part = "all" if fates[fate] == total.read else f"{fates[fate]:,} of {total.read:,}"
    if fate == "late":
        return (
            f"{part} arrived after their epochs had closed",
            "Raise allowed_lateness of the collection, check epoch.origin and the devices' clocks, or give "
            "--timestamp-attribute if a collector received them earlier.",
        )
    reason = Reason(fate)
    if reason is Reason.UNKNOWN_COLLECTION:
        return (
            f"{part} belong to a collection that was not given",
            "Give with --collection the very file that the devices have: any change of its parameters "
            "makes it another collection.",
        )
    if reason is Reason.FUTURE_EPOCH and record.stream is None:
        return (
            f"{part} were rejected as {reason.value}, since their epochs had not begun by "
            f"{time_of_files(record)}",
            f"{REMEDY}; where that time is right, devices' clocks are ahead.",
        )
    return f"{part} were rejected as {reason.value}", details.get(reason.value, reason.explanation)


def details_of_reasons(record: RunRecord, output: str) -> dict[str, str]:
    """For some reasons, "source: explanation" of the first file that has a more exact explanation."""
    special = (Reason.UNSUPPORTED_FORMAT, Reason.WRONG_COLUMNS, Reason.MALFORMED)
    general = {reason.value: reason.explanation for reason in special}
    wanted = general.keys() & record.accounting.total.rejected_record().keys()
    examples: dict[str, str] = {}
    if not wanted:
        return examples
    for rows in islice(_rejects(record, output, ["reason", "source", "explanation"]), _TABLES):
        for row in rows:
            if row["reason"] in wanted and row["explanation"] != general[row["reason"]]:
                examples.setdefault(row["reason"], f"{row['source']}: {row['explanation']}")
        if examples.keys() == wanted:
            break
    return examples


def _rejects(record: RunRecord, output: str, columns: list[str]) -> Iterator[list[dict[str, Any]]]:
    if "://" in output:
        return
    for file in record.files:
        if file.path.startswith("rejects/"):
            yield published_table(Path(output, file.path)).read(columns, use_threads=False).to_pylist()


def time_of_files(record: RunRecord) -> str:
    """The time limit that decided ``future_epoch``: the option --not-after, or the files' own times."""
    given = record.limits.get("not_after")
    return "each file's own time" if given is None else f"--not-after, {instant(int(given))}"
