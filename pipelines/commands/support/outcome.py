"""What became of the records of a run, in words; above all of one that has counted nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import click
import pyarrow.parquet as pq

from ldpbeam.accounting import Account
from ldpbeam.errors import Reason
from ldpbeam.pipelines.commands.support.console import deliver, say
from ldpbeam.pipelines.run_record import RunRecord, StreamRecord
from ldpbeam.text import clean

_TABLES = 100
"""Tables of rejects that are looked into for the sentence about a file."""


def identity(account: Account) -> str:
    """The identity that every account satisfies, with its numbers in it."""
    return (
        f"read {account.read:,} = counted {account.counted:,} + late {account.late:,} "
        f"+ duplicate {account.duplicate:,} + rejected {sum(account.rejected.values()):,}"
    )


def summary(record: RunRecord, output: str) -> None:
    """What became of every record, and where the results are."""
    say(identity(record.accounting.total))
    rejected = record.accounting.total.rejected_record()
    details = _details(record, output)
    for reason, count in rejected.items():
        click.echo(f"  rejected {count:,}: {reason}", err=True)
        if reason in details:
            click.echo(clean(f"    {details[reason]}"), err=True)
    if rejected:
        click.echo(clean(f"  where and why: ldpbeam inspect {output.rstrip('/')}/rejects"), err=True)
    nothing = why_nothing(record, details)
    if nothing is not None:
        click.echo(f"ldpbeam: {nothing} [E-RUN-NOTHING]", err=True)
    else:
        say(f"estimates in {output.rstrip('/')}/estimates after {record.timings.total_seconds} s")
    deliver(record.as_record())
    sys.stdout.flush()


def why_nothing(record: RunRecord, details: Mapping[str, str] = MappingProxyType({})) -> str | None:
    """That nothing was counted and what is the likely cause and remedy; None where something was.

    ``details`` are sentences that say more of a reason than its own.
    """
    if record.accounting.total.counted:
        return None
    cause, remedy = _cause(record, details)
    return f"nothing was counted, no estimate was written: {cause}. {remedy}"


def _cause(record: RunRecord, details: Mapping[str, str]) -> tuple[str, str]:
    """The commonest fate of the records, with what usually mends it."""
    total = record.accounting.total
    if not total.read:
        if record.stream is not None:
            return "no message came", "Check the subscription and that devices publish to its topic."
        return "the input holds no record", "Check --input."
    fates = {"late": total.late, "duplicate": total.duplicate, **total.rejected_record()}
    fate = max(fates, key=lambda name: fates[name])
    if not fates[fate]:
        return "the epochs are not over", "Start the stream again to go on."
    part = "all" if fates[fate] == total.read else f"{fates[fate]:,} of {total.read:,}"
    if fate == "late":
        return _late(part, record.stream)
    return _rejected(part, Reason(fate), details)


def _late(part: str, stream: StreamRecord | None) -> tuple[str, str]:
    if stream is not None and not stream.timestamp_attribute:
        return (
            f"{part} arrived after their epochs had closed, by the time of publication",
            "If a collector received them earlier, give its attribute with --timestamp-attribute; "
            "else raise allowed_lateness of the collection.",
        )
    return (
        f"{part} arrived after their epochs had closed",
        "Raise allowed_lateness of the collection, or check epoch.origin and the devices' clocks.",
    )


def _rejected(part: str, reason: Reason, details: Mapping[str, str]) -> tuple[str, str]:
    if reason is Reason.UNKNOWN_COLLECTION:
        return (
            f"{part} belong to a collection that was not given",
            "Give with --collection the very file that the devices have: any change of its parameters "
            "makes it another collection.",
        )
    if reason.value in details:
        return f"{part} were rejected as {reason.value}", details[reason.value]
    return f"{part} were rejected as {reason.value}", reason.explanation


def _details(record: RunRecord, output: str) -> dict[str, str]:
    """Of each reason that files as a whole were rejected for: the first file, and the sentence about it."""
    of_files = {reason.value for reason in (Reason.UNSUPPORTED_FORMAT, Reason.WRONG_COLUMNS)}
    wanted = of_files & record.accounting.total.rejected_record().keys()
    found: dict[str, str] = {}
    if "://" in output:
        return found
    tables = [file.path for file in record.files if file.path.startswith("rejects/")]
    for name in tables[:_TABLES]:
        if found.keys() == wanted:
            break
        for row in pq.read_table(Path(output, name), partitioning=None).to_pylist():
            if row["reason"] in wanted:
                found.setdefault(row["reason"], f"{row['source']}: {row['explanation']}")
    return found
