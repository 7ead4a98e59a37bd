"""What the files in ``accounting/`` hold, and the number under which a result is published.

After a failure a job goes on from an older state, batches the same reports differently, and makes results
that differ from those that sinks have already. So numbers are not kept in the job: a number is written down,
with a digest of what it stands for, before any sink sees it, and never stands for anything else. A result
that says what the newest number says is that revision, published once more; any other gets the next number.
Readers take the newest, so whatever a job publishes last is what they see.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
from apache_beam.io.filesystems import FileSystems

from ldpbeam.accounting import Account
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import instant
from ldpbeam.durable.document import document, parse_document
from ldpbeam.durable.errors import DamageError
from ldpbeam.durable.record import read_fields, write_fields
from ldpbeam.errors import LdpError, Reason
from ldpbeam.histogram import EpochHistogram

from .atomic import listed, publish
from .file_record import FileRecord

NUMBERS_SCHEMA = "ldpbeam.revision/1"
_ABOUT = ("collection", "version", "digest", "epoch", "epoch_start", "epoch_end", "closes", "closed")
"""Fields of :class:`EpochAccounting` that its file has as they are."""


def epoch_stem(collection: Collection, epoch: int) -> str:
    """``NAME-DIGEST-epoch-000012``, which all files of an epoch begin with."""
    return named_stem(collection.name, collection.digest_hex, epoch)


def named_stem(name: str, digest: str, epoch: int) -> str:
    """The same, of a collection of which only the name and the digest are known."""
    return f"{name}-{digest}-epoch-{epoch:06d}"


# --- what the files in accounting/ hold


@dataclass(frozen=True)
class Revision:
    number: int
    pane: str
    reports: int
    withheld: str
    content: str
    job: str
    indicators: list[dict[str, Any]]
    table: FileRecord | None
    counts: FileRecord | None = None

    KEYS: ClassVar[Mapping[str, str]] = {"number": "revision", "reports": "n"}

    def as_record(self) -> dict[str, Any]:
        table = self.table
        return {
            "revision": self.number,
            "pane": self.pane,
            "n": self.reports,
            "withheld": self.withheld,
            "content": self.content,
            **({"job": self.job} if self.job else {}),
            "indicators": self.indicators,
            "file": table.path if table else None,
            **({"bytes": table.size, "sha256": table.sha256, "rows": table.rows} if table else {}),
            **({"counts": write_fields(self.counts)} if self.counts else {}),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Revision:
        table = read_fields(FileRecord, {**record, "path": record["file"]}) if record["file"] else None
        return read_fields(cls, {"job": "", **record}, table=table)


@dataclass(frozen=True)
class EpochAccounting:
    """What ``accounting/NAME-DIGEST-epoch-000012.json`` holds: an epoch's account and its revisions."""

    collection: str
    version: int
    digest: str
    epoch: int
    epoch_start: str
    epoch_end: str
    closes: str
    closed: bool
    account: Account
    revisions: tuple[Revision, ...]
    summaries: FileRecord | None = None
    slices: tuple[FileRecord, ...] = ()  # tables by slice of the newest revision
    position: Mapping[str, int] | None = None

    SCHEMA: ClassVar[str] = "ldpbeam.epoch/1"
    KEYS: ClassVar[Mapping[str, str]] = {"account": "accounting"}

    @classmethod
    def of_histogram(
        cls,
        collection: Collection,
        histogram: EpochHistogram,
        revisions: tuple[Revision, ...],
        summaries: FileRecord | None = None,
        slices: tuple[FileRecord, ...] = (),
    ) -> EpochAccounting:
        epoch, epochs = histogram.epoch, collection.epochs
        times = map(instant, (epochs.start(epoch), epochs.end(epoch), collection.closes(epoch)))
        of = (collection.name, collection.version, collection.digest_hex, epoch, *times, histogram.closed)
        about: dict[str, Any] = dict(zip(_ABOUT, of, strict=True))
        account = histogram.account or Account()
        return cls(
            **about,
            account=account,
            revisions=revisions,
            summaries=summaries,
            slices=slices,
            position=histogram.position,
        )

    @property
    def key(self) -> tuple[str, int]:
        return self.digest, self.epoch

    @property
    def file_name(self) -> str:
        return f"accounting/{named_stem(self.collection, self.digest, self.epoch)}.json"

    @property
    def newest(self) -> Revision | None:
        """The revision that readers take; None where nothing has been published."""
        return self.revisions[-1] if self.revisions else None

    @property
    def indicators(self) -> list[dict[str, Any]]:
        return self.newest.indicators if self.newest else []

    @property
    def tables(self) -> list[FileRecord]:
        """The files of estimates and of counts of all revisions, then those of the newest one alone."""
        of_revisions = [file for one in self.revisions for file in (one.table, one.counts) if file]
        return [*of_revisions, *([self.summaries] if self.summaries else ()), *self.slices]

    def as_record(self) -> dict[str, Any]:
        return {
            "schema": self.SCHEMA,
            **{name: getattr(self, name) for name in _ABOUT},
            "accounting": {**self.account.as_record(), "pending": self.account.pending},
            "error_fraction": round(self.account.error_fraction, 9),
            "revisions": [revision.as_record() for revision in self.revisions],
            **({"summaries": write_fields(self.summaries)} if self.summaries else {}),
            **({"slices": [write_fields(one) for one in self.slices]} if self.slices else {}),
            **({"position": dict(self.position)} if self.position is not None else {}),
        }


@dataclass(frozen=True)
class UnattributedAccounting:
    digest: str  # of the collection that they name; empty where they name none
    account: Account  # of which ``read`` and ``rejected`` alone mean something
    job: str = ""  # the unbounded job that has read them; empty in a local engine
    position: Mapping[str, int] | None = None  # as in :class:`EpochAccounting`

    SCHEMA: ClassVar[str] = "ldpbeam.other/1"
    KEYS: ClassVar[Mapping[str, str]] = {"account": "accounting"}

    @property
    def key(self) -> tuple[str, None]:
        return self.digest, None

    @property
    def file_name(self) -> str:
        return f"accounting/{'-'.join(filter(None, ('other', self.digest or 'unknown', self.job)))}.json"

    def as_record(self) -> dict[str, Any]:
        return {
            "schema": self.SCHEMA,
            "digest": self.digest,
            **({"job": self.job} if self.job else {}),
            "accounting": {"read": self.account.read, "rejected": self.account.rejected_record()},
            **({"position": dict(self.position)} if self.position is not None else {}),
        }


def write_accounting(output: str, accounting: EpochAccounting | UnattributedAccounting) -> FileRecord:
    return publish(output, accounting.file_name, accounting_content(accounting))


def accounting_content(accounting: EpochAccounting | UnattributedAccounting) -> bytes:
    return document(accounting.as_record())


def read_accounting(path: str) -> EpochAccounting | UnattributedAccounting:
    with FileSystems.open(path) as handle, whole_accounting(path):
        record = parse_document(handle.read())
        if record["schema"] == UnattributedAccounting.SCHEMA:
            return read_fields(UnattributedAccounting, record)
        return read_fields(EpochAccounting, record)


@contextmanager
def whole_accounting(path: str) -> Iterator[None]:
    """Around what parses a file below ``accounting/``."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, DamageError) as error:
        why = str(error) if isinstance(error, DamageError) else type(error).__name__
        raise LdpError(
            "E-RUN-DAMAGED",
            f"the accounting is not what was written ({why})",
            where=path,
            remedy="Restore the file from a backup: it says what is published of its epochs.",
        ) from None


def read_all_accounting(output: str) -> Iterator[EpochAccounting | UnattributedAccounting]:
    """What all files of ``accounting/`` hold, in the order of their names."""
    for path in sorted(file.path for file in listed(output, "accounting")):
        if path.endswith(".json"):
            yield read_accounting(path)


def accounting_file_name(collection: Collection, epoch: int) -> str:
    """``accounting/NAME-DIGEST-epoch-000012.json``."""
    return f"accounting/{epoch_stem(collection, epoch)}.json"


def read_epoch_accounting(output: str, collection: Collection, epoch: int) -> EpochAccounting | None:
    """What is published about an epoch so far; None when nothing is."""
    path = FileSystems.join(output, *accounting_file_name(collection, epoch).split("/"))
    accounting = read_accounting(path) if FileSystems.exists(path) else None
    return accounting if isinstance(accounting, EpochAccounting) else None


# --- numbers of revisions


@dataclass(frozen=True)
class Numbered:
    revision: int  # the number
    content: str  # :func:`content_digest` of what it stands for
    job: str  # who gave it


def numbers_file_name(collection: Collection, epoch: int) -> str:
    """``accounting/NAME-DIGEST-epoch-000012.revision``: the newest number, published or not."""
    return f"accounting/{epoch_stem(collection, epoch)}.revision"


def content_digest(collection: Collection, histogram: EpochHistogram) -> str:
    """16 hexadecimal digits of all that a sink gets of a result, except its number."""
    account = histogram.account or Account()
    repeats = [account.duplicate, account.rejected[Reason.CONFLICTING_ID.value]]
    head = [histogram.pane, histogram.closed, histogram.withheld, histogram.reports, repeats]
    held = hashlib.sha256(json.dumps([_record(collection), *head]).encode())
    for one in (*histogram.attributes, *(one for part in histogram.slices for one in part.attributes)):
        held.update(f"/{one.reports}/".encode())
        held.update(np.ascontiguousarray(one.support, "<i8").tobytes())
        if one.counts is not None:
            held.update(np.ascontiguousarray(one.counts, "<i8").tobytes())
    return held.hexdigest()[:16]


@cache
def _record(collection: Collection) -> str:
    return json.dumps(collection.as_record(), sort_keys=True)


def number_after(newest: Numbered | None, content: str, job: str) -> Numbered:
    """The number of a result: the newest one, if it stands for just this, else the next."""
    if newest is None:
        return Numbered(0, content, job)
    if (newest.content, newest.job) == (content, job):
        return newest
    return Numbered(newest.revision + 1, content, job)


def newest_number(output: str, collection: Collection, epoch: int) -> Numbered | None:
    path = FileSystems.join(output, *numbers_file_name(collection, epoch).split("/"))
    if FileSystems.exists(path):
        with FileSystems.open(path) as handle, whole_accounting(path):
            return read_fields(Numbered, parse_document(handle.read()))
    # Of an archived epoch, its accounting alone has the number.
    accounting = read_epoch_accounting(output, collection, epoch)
    newest = accounting.newest if accounting else None
    return Numbered(newest.number, newest.content, newest.job) if newest else None


class RevisionNumbers:
    """Numbers the results of one collection in an unbounded job: before all sinks, and once."""

    def __init__(self, collection: Collection, output: str, job: str) -> None:
        self._collection = collection
        self._output = output
        self._job = job

    def number(self, histogram: EpochHistogram) -> EpochHistogram:
        """Give the histogram its number; one with nothing but accounting has none."""
        if not histogram.attributes and not histogram.withheld:
            return histogram
        newest = newest_number(self._output, self._collection, histogram.epoch)
        number = number_after(newest, content_digest(self._collection, histogram), self._job)
        if number != newest:
            record = {"schema": NUMBERS_SCHEMA, **asdict(number)}
            name = numbers_file_name(self._collection, histogram.epoch)
            publish(self._output, name, document(record, indent=None))
        return replace(histogram, revision=number.revision)
