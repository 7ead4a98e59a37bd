"""The record of a run (run.json), typed: whoever reads one reads it here, and nobody imports Beam for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from ldpbeam.accounting import Account
from ldpbeam.durable.document import document, parse_document
from ldpbeam.durable.errors import DamageError
from ldpbeam.durable.record import read_fields, write_fields
from ldpbeam.errors import UsageError
from ldpbeam.records.collection_record import CollectionRecord
from ldpbeam.table_file import newest_revisions
from ldpbeam.transforms.sinks.file_record import FileRecord

RUN_RECORD = "run.json"
SCHEMA = "ldpbeam.run/1"
STATUS = {0: "ok", 4: "ok_with_rejects", 5: "over_error_threshold"}
"""What run.json says for each exit code of a finished run that has counted something."""
NOTHING_COUNTED = "nothing_counted"
"""What it says of one that has counted nothing, which ends with 5 as well."""
DETACHED = "detached"
"""What it says when a job was left to its cluster, which goes on to write all but run.json."""


@dataclass(frozen=True)
class Archived:
    """Epochs of a stream that its record does not list one by one any more."""

    epochs: int  # how many have their accounting in the archive
    withheld: int  # how many of them have no estimates; run.json does not say, so it is 0 in what was read
    account: Account  # the sum of their accounting

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Archived:
        return read_fields(cls, record, account=Account.from_record(record), withheld=0)


@dataclass(frozen=True)
class EpochRecord:
    collection: str  # its name; empty where the collection is no longer given
    digest: str  # of the collection
    epoch: int  # index
    epoch_start: str | None  # instant; None where the collection is no longer given
    account: Account  # what became of its records
    withheld: str  # why it has no estimates although reports were counted; empty where it has them

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> EpochRecord:
        return read_fields(cls, record, account=Account.from_record(record))

    def as_record(self) -> dict[str, object]:
        record = write_fields(self)
        account, withheld = record.pop("account"), record.pop("withheld")
        return {**record, **account, "withheld": withheld}


@dataclass(frozen=True)
class Gap:
    """Epochs in a row of which nothing was counted, though of the ones before and behind it was."""

    collection: str  # its name; empty where the collection is no longer given
    digest: str  # of the collection
    first_epoch: int
    last_epoch: int


@dataclass(frozen=True)
class RunAccounting:
    total: Account  # the sum of all else
    epochs: tuple[EpochRecord, ...]  # by digest and epoch
    unattributed: Account  # records that belong to no epoch of a known collection
    archived: Archived | None = None  # epochs that are not listed any more; None where there are none

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Epochs without a counted report within the row of those that have one, by digest and epoch."""
        between: list[Gap] = []
        for (digest, name), group in groupby(self.epochs, lambda one: (one.digest, one.collection)):
            there = [one.epoch for one in group if one.account.counted]
            if there and there[-1] - there[0] + 1 < 2 * len(there):
                between += [
                    Gap(name, digest, before + 1, after - 1)
                    for before, after in pairwise(there)
                    if after > before + 1
                ]
        return tuple(between)

    def as_record(self) -> dict[str, object]:
        rest, old, gaps = self.unattributed, self.archived, self.gaps
        return {
            "total": self.total.as_record(),
            "epochs": [epoch.as_record() for epoch in self.epochs],
            **({"gaps": [write_fields(gap) for gap in gaps]} if gaps else {}),
            "unattributed": {"read": rest.read, "rejected": rest.rejected_record()},
            **({"archived": {"epochs": old.epochs, **old.account.as_record()}} if old else {}),
        }


@dataclass(frozen=True)
class Timings:
    total_seconds: float
    reports_per_second: float | None


@dataclass(frozen=True)
class Alarm:
    """A sign of forged reports; attributes as in :class:`ldpbeam.indicators.Indicator`, with its place."""

    digest: str
    epoch: int
    indicator: str
    attribute: str
    observed: float
    expected: float
    p_value: float
    alarm: bool
    meaning: str


@dataclass(frozen=True)
class Indicators:
    """What a run found when it looked for signs of forged reports."""

    false_alarm_rate: float  # most of all results of honest devices that cause an alarm
    results: int  # how many were looked at
    tests: int  # how many indicators they have
    alarms: tuple[Alarm, ...]  # by digest and epoch


@dataclass(frozen=True)
class ClockRecord:
    """What an engine knew of the time, for the next engine on the machine."""

    boot: str  # name of the time since the machine started, during which its steady clock goes on
    steady: float  # seconds of the steady clock
    time: float  # seconds since 1970 that were believed
    confirmed: bool  # whether anything besides the wall clock has said so
    heard: bool  # whether it was messages that confirmed it


@dataclass(frozen=True)
class StreamRecord:
    """How far the local engine has come."""

    subscription: str
    timestamp_attribute: str
    watermark_micros: int
    segments: int
    landed_now: int
    unstamped: int
    clock: ClockRecord | None
    watch: str = ""


@dataclass(frozen=True)
class InputRecord:
    """A file or folder that a run was given."""

    path: str


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    status: str  # one of :data:`STATUS`, ``nothing_counted``, ``detached``, ``running`` or ``stopped``
    exit_code: int  # 0, 4 when records were rejected, 5 when nothing was counted or an epoch was withheld
    versions: Mapping[str, str]  # of this package, of Python and of libraries, by name
    runner: str  # Beam's name of it
    deduplicate: bool  # as asked, like the next two
    max_error_fraction: float
    limits: Mapping[str, Any]
    collections: tuple[CollectionRecord, ...]  # what reports could belong to
    accounting: RunAccounting  # what became of them
    timings: Timings  # how long it took
    folder: str  # where relative paths of the inputs start from; empty where all are absolute
    inputs: tuple[InputRecord, ...]
    passed_over: tuple[InputRecord, ...] = ()  # those among the inputs that were not taken for reports
    files: tuple[FileRecord, ...]  # everything written, by path
    indicators: Indicators | None = None  # None where nobody looked for forged reports
    stream: StreamRecord | None = None  # None of all but the local engine
    job: Mapping[str, str] | None = None  # names of a job that was left to its cluster; None of all else
    replayed: tuple[str, ...] = ()  # tables of rejects that were taken up again

    @classmethod
    def parse(cls, content: str | bytes, name: str) -> RunRecord:
        try:
            record = parse_document(content)
            if record.get("schema") != SCHEMA:
                raise damaged(name, "it has another schema")
            return read_fields(cls, record)
        except DamageError as error:
            raise damaged(name, str(error)) from None
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise damaged(name, type(error).__name__) from None

    @property
    def newest_tables(self) -> dict[str, str]:
        """Paths of the newest table of estimates of each epoch, by NAME-DIGEST-epoch-000012."""
        folder = "estimates/"
        paths = (file.path for file in self.files if file.path.startswith(folder))
        newest = newest_revisions(path.removeprefix(folder) for path in paths)
        return {stem: f"{folder}{name}" for stem, name in newest.items()}

    def as_record(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **write_fields(self)}

    def content(self) -> bytes:
        return document(self.as_record())


def damaged(name: str, why: str) -> UsageError:
    return UsageError(
        "E-USAGE-RESULTS",
        f"{name} is not the record of a run, or is damaged ({why})",
        remedy="Fetch it again, or run again.",
    )


def read_record(path: Path) -> RunRecord:
    if path.exists() and not path.is_file():  # reading a pipe waits for somebody who writes
        raise damaged(str(path), "it is no file")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise damaged(str(path), type(error).__name__) from None
    return RunRecord.parse(content, str(path))


def record_before(output: str) -> RunRecord | None:
    """The record that an engine goes on from; None where there is none, or a damaged one."""
    try:
        return read_record(Path(output, RUN_RECORD))
    except UsageError:
        return None
