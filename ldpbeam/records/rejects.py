"""Rejected records that are to be counted again: the run they belong to, and what became of them.

The counts become what they would have been without the rejection.

Over files the whole input is counted again, because a repeat can only be told from a first copy beside all
others; epochs whose counts change get a further revision. A stream takes up the refused messages it has kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.record import collection_of
from ldpbeam.errors import Reason, UsageError
from ldpbeam.records.run_record import RUN_RECORD, RunRecord, read_record


@dataclass(frozen=True)
class Rejects:
    output: Path
    tables: tuple[Path, ...]
    collections: tuple[Collection, ...]
    record: RunRecord


@dataclass(frozen=True)
class Replayed:
    record: RunRecord  # the new content of run.json
    before: int  # records that were rejected
    after: int  # records that still are
    revised: tuple[tuple[str, int, int], ...]  # (collection, epoch, revision) of every result that changed


def find_rejects(rejects: Path, collections: tuple[Collection, ...] = ()) -> Rejects:
    rejects = rejects.absolute()
    folder = rejects if rejects.is_dir() else rejects.parent
    output = folder.parent
    tables = sorted(folder.glob("*.parquet")) if rejects.is_dir() else [rejects]
    if not (output / RUN_RECORD).is_file() or not all(table.is_file() for table in tables):
        raise UsageError(
            "E-USAGE-RESULTS",
            f"{rejects} is not the rejects of a finished run",
            remedy="Give OUTPUT/rejects, or a table in it, where OUTPUT/run.json exists.",
        )
    record = read_record(output / RUN_RECORD)
    return Rejects(output, tuple(tables), _with_those_of(record, collections), record)


def _with_those_of(record: RunRecord, collections: tuple[Collection, ...]) -> tuple[Collection, ...]:
    """The collections given, and all others of the run."""
    given = {collection.digest_hex for collection in collections}
    others = (collection_of(one.definition) for one in record.collections if one.digest not in given)
    return (*others, *collections)


def rejected_count(record: RunRecord) -> int:
    """Records rejected in a run, without conflicting repeats: what is replayed only makes those known."""
    rejected = record.accounting.total.rejected
    return sum(n for reason, n in rejected.items() if reason != Reason.CONFLICTING_ID.value)
