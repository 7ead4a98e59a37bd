"""Count rejected records again after their cause is fixed.

The counts become what they would have been without the rejection.

Over files the whole input is counted again, because a repeat can only be told from a first copy beside all
others; epochs whose counts change get a further revision. A stream takes up the refused messages it has kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from ldpbeam.accounting import Entry, Key
from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.collection.record import collection_of
from ldpbeam.errors import Reason, UsageError
from ldpbeam.reports import Admission, ReportColumns, admit_frames
from ldpbeam.tables import as_parquet
from ldpbeam.transforms.sinks import Outputs
from ldpbeam.transforms.sinks.accounting import (
    EpochAccounting,
    Revision,
    read_accounting,
    read_epoch_accounting,
    write_accounting,
)
from ldpbeam.transforms.sinks.atomic import link, publish, remove
from ldpbeam.transforms.sinks.estimates import epoch_file_name, latest_file_name
from ldpbeam.transforms.sinks.file_record import FileRecord
from ldpbeam.wire import codec

from ..config import Counting, Input, RunConfig
from ..inputs import shard_bits_for
from ..interrupt import interruptible, removed_on_interrupt
from ..output import locked
from ..published import write_record
from ..run import run
from ..run_record import RUN_RECORD, RunRecord, read_record
from .due import REPLAY
from .engine import LocalStream
from .landing import FOLDER
from .segment import Segment

MENDABLE = frozenset({Reason.UNKNOWN_COLLECTION, Reason.RETIRED_COLLECTION, Reason.FUTURE_EPOCH})
"""Reasons that another set of collections can do away with. The others lie in the bytes of the report."""


@dataclass(frozen=True)
class Replayed:
    """What a replay did."""

    record: RunRecord  # the new content of run.json
    before: int  # records that were rejected
    after: int  # records that still are
    revised: tuple[tuple[str, int, int], ...]  # (collection, epoch, revision) of every result that changed


def replay(rejects: Path, collections: tuple[Collection, ...] = ()) -> Replayed:
    """Take up rejected records again, in the output that they belong to.

    Args:
        rejects: a table of rejects, or the folder of them, in the output directory of a run.
        collections: further ones, and those of the run that have changed since without another digest. All
            others are as the run's record has them, so nothing that was counted is forgotten.

    Raises:
        UsageError: there is no run around the rejects, or its input is gone.
        CollectionError: the record's definition of a collection is damaged.
        LdpError: another run, stream or replay is working on the output.
    """
    rejects = rejects.absolute()
    folder = rejects if rejects.is_dir() else rejects.parent
    output = folder.parent
    tables = sorted(folder.glob("*.parquet")) if rejects.is_dir() else [rejects]
    if not (output / RUN_RECORD).is_file() or not all(table.is_file() for table in tables):
        raise UsageError(
            "E-USAGE-REPLAY",
            f"{rejects} is not the rejects of a finished run",
            remedy="Give OUTPUT/rejects, or a table in it, where OUTPUT/run.json exists.",
        )
    record = read_record(output / RUN_RECORD)
    collections = _with_those_of(record, collections)
    if record.stream is not None:
        return _replay_stream(output, tables, collections, record)
    with interruptible(), locked(str(output)):
        return _replay_files(output, tables, collections, read_record(output / RUN_RECORD))


def _with_those_of(record: RunRecord, collections: tuple[Collection, ...]) -> tuple[Collection, ...]:
    """The collections given, and all others of the run; UsageError where its record did not keep them."""
    given = {collection.digest_hex for collection in collections}
    missing = [kept for kept in record.collections if kept.digest not in given]
    unknown = [f"{kept.name} version {kept.version}" for kept in missing if kept.definition is None]
    if unknown:
        raise UsageError(
            "E-USAGE-REPLAY",
            f"the record of the run does not hold {', '.join(unknown)}, which it counted",
            remedy="Add its file with --collection.",
        )
    return (*(collection_of(kept.definition) for kept in missing if kept.definition), *collections)


def _rejected(record: RunRecord) -> int:
    """Records rejected in a run, without conflicting repeats: what is replayed only makes those known."""
    found = record.accounting.total.rejected
    return sum(n for reason, n in found.items() if reason != Reason.CONFLICTING_ID.value)


# --- runs over files


def _replay_files(
    output: Path, tables: list[Path], collections: tuple[Collection, ...], record: RunRecord
) -> Replayed:
    with _folder_of(record), ExitStack() as afterwards:
        inputs = record.inputs
        bits = shard_bits_for(_size_of(inputs))
        counting = Counting(record.deduplicate, record.max_error_fraction, bits)
        read = Input(files=inputs, passed_over=record.passed_over, **record.limits)
        scratch = afterwards.enter_context(
            TemporaryDirectory(prefix=".replay-", suffix=".tmp", dir=output, ignore_cleanup_errors=True)
        )
        afterwards.enter_context(removed_on_interrupt(Path(scratch)))
        done = run(RunConfig(collections, read, Outputs(scratch), counting))
        revised, files = _take_over(Path(scratch), output, collections)
    fresh = replace(done, files=tuple(files), replayed=tuple(t.name for t in tables))
    write_record(str(output), fresh)
    before, after = map(_rejected, (record, done))
    return Replayed(fresh, before, after, tuple(revised))


@contextmanager
def _folder_of(record: RunRecord) -> Iterator[None]:
    """Work where the run has worked, if paths in its record start from there and the folder still exists."""
    there = record.folder
    with chdir(there) if there and Path(there).is_dir() else nullcontext():
        yield


def _size_of(inputs: tuple[str, ...]) -> int:
    """Bytes of the files that a run has read; raises UsageError where one is gone."""
    size = 0
    gone = []
    for path in inputs:
        try:
            size += (
                FileSystems.filesystem_for(path).size(path) if "://" in path else Path(path).stat().st_size
            )
        except (OSError, BeamIOError):
            gone.append(path)
    if gone:
        raise UsageError(
            "E-USAGE-INPUT",
            f"{len(gone)} of {len(inputs)} input files of the run are gone, the first of them {gone[0]!r}",
            remedy="Put them back where they were (a relative path starts from `folder` in run.json).",
        )
    return size


def _take_over(
    scratch: Path, output: Path, collections: tuple[Collection, ...]
) -> tuple[list[tuple[str, int, int]], list[FileRecord]]:
    """Publish what the new count changes as further revisions; the accounting comes last, as always."""
    by_digest = {c.digest_hex: c for c in collections}
    revised: list[tuple[str, int, int]] = []
    files: list[FileRecord] = []
    for path in sorted((scratch / "accounting").iterdir()):
        new = read_accounting(str(path))
        assert isinstance(new, EpochAccounting)  # noqa: S101 - a run over files writes no other
        collection, epoch = by_digest[new.digest], new.epoch
        old = read_epoch_accounting(str(output), collection, epoch)
        published = list(old.revisions) if old else []
        for result in new.revisions:
            latest = published[-1] if published else None
            if latest is not None and _same(scratch, result, output, latest):
                continue
            number = latest.number + 1 if latest else 0
            pane = REPLAY if latest else result.pane
            made = None
            if result.table:
                table = pq.read_table(scratch / result.table.path)
                table = _with(table, revision=pa.scalar(number, pa.int32()), pane=pa.scalar(pane))
                table_name = epoch_file_name(collection, epoch, number)
                made = publish(str(output), table_name, as_parquet(table), table.num_rows)
            published.append(replace(result, number=number, pane=pane, table=made))
            revised.append((collection.name, epoch, number))
        if published:
            _show_latest(output, latest_file_name(collection, epoch), published[-1].table)
        accounting = replace(new, revisions=tuple(published))
        files += [write_accounting(str(output), accounting), *accounting.tables]
    files += _exchange_rejects(scratch / "rejects", output)
    return revised, sorted(files, key=lambda file: file.path)


def _show_latest(output: Path, name: str, table: FileRecord | None) -> None:
    """Have the newest revision of an epoch in ``latest/``; nothing where that is withheld."""
    if table is None:
        remove(str(output), name)
    elif not (output / name).exists() or not (output / name).samefile(output / table.path):
        link(str(output), name, table.path, (output / table.path).read_bytes())


def _exchange_rejects(fresh: Path, output: Path) -> list[FileRecord]:
    """The new tables in, then those out whose source has no rejects any more."""
    made = [
        publish(str(output), f"rejects/{path.name}", path.read_bytes(), pq.read_metadata(path).num_rows)
        for path in sorted(fresh.iterdir())
    ]
    kept = {Path(record.path).name for record in made}
    for path in (output / "rejects").glob("*.parquet"):
        if path.name not in kept:
            path.unlink()
    return made


def _same(scratch: Path, new: Revision, output: Path, old: Revision) -> bool:
    """Whether two results say the same, whatever they are called."""
    if not new.table or not old.table:
        return bool(new.table) == bool(old.table) and new.reports == old.reports
    tables = (pq.read_table(scratch / new.table.path), pq.read_table(output / old.table.path))
    # Tables of earlier versions have fewer columns.
    both = [
        n for n in tables[0].column_names if n in tables[1].column_names and n not in {"revision", "pane"}
    ]
    a, b = (table.select(both).replace_schema_metadata() for table in tables)
    return bool(a.equals(b))


def _with(table: pa.Table, **values: pa.Scalar) -> pa.Table:
    for name, value in values.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(name), pa.repeat(value, table.num_rows))
    return table


# --- streams


class _Nothing:
    """A source that has no messages: a replay only looks back."""

    def pull(self, limit_messages: int, limit_bytes: int, timeout_seconds: float) -> list[Any]:
        return []

    def acknowledge(self, messages: object) -> None:
        return None


def _replay_stream(
    output: Path, tables: list[Path], collections: tuple[Collection, ...], record: RunRecord
) -> Replayed:
    assert record.stream is not None  # noqa: S101 - what is replayed here is a stream
    brokers = {"subscription": record.stream.subscription, "watch": record.stream.watch}
    source = Input(brokers=brokers, timestamp_attribute=record.stream.timestamp_attribute)
    counting = Counting(record.deduplicate, record.max_error_fraction)
    config = RunConfig(collections, source, Outputs(str(output)), counting)
    engine = LocalStream(config, _Nothing())
    revisions = engine.revisions()
    taken = {place for segment in engine.segments for place in segment.replayed}
    try:
        for table in tables:
            found = _mended(output, int(table.stem.rpartition("-")[2]), taken, engine)
            if found is not None:
                engine.take_up(*found)
    finally:
        engine.stop()
    assert engine.record is not None  # noqa: S101 - stop() writes it
    names = {c.digest_hex: c.name for c in collections}
    revised = [
        (names[digest], epoch, number)
        for (digest, epoch), number in engine.revisions().items()
        if number != revisions.get((digest, epoch), -1)
    ]
    before, after = map(_rejected, (record, engine.record))
    return Replayed(engine.record, before, after, tuple(sorted(revised)))


def _mended(
    output: Path, refused: int, taken: set[tuple[int, int]], engine: LocalStream
) -> tuple[Segment, list[ReportColumns]] | None:
    """A segment with the messages of one batch that are no longer refused; None when there are none."""
    listing = output / FOLDER / f"refused-{refused:010d}.json"
    if not listing.is_file():
        return None  # nothing was refused, or it has been cleared away
    content = listing.with_suffix(".pb").read_bytes()
    places: list[tuple[int, int]] = []
    total: Counter[tuple[Key, str]] = Counter()
    admitted: list[ReportColumns] = []
    for place, length, reason in json.loads(listing.read_text()):
        if Reason(reason) not in MENDABLE or (refused, place) in taken:
            continue
        message = content[place : place + length]
        was, now = _was(message, Reason(reason)), _judge(message, engine.collections)
        if any(rejection.reason in MENDABLE for rejection in now.rejections):
            continue
        places.append((refused, place))
        total.update(dict(now.entries()))
        total.subtract(was)
        admitted += now.admitted
    if not places:
        return None
    entries: tuple[Entry, ...] = tuple((key, n) for key, n in total.items() if n)
    number = engine.next_number
    return Segment(number, engine.watermark, 0, 0, entries, (), replayed=tuple(places)), admitted


def _was(message: bytes, reason: Reason) -> Counter[tuple[Key, str]]:
    """What a wholly refused message was booked as."""
    rows, batches, _ = codec.parse(codec.joined([message]))
    count = max(int(batches.ids_length[0]) >> 3, 1) if batches else 1
    digest = int(batches.digest[0]) if batches else int(rows.digest[0])
    key: Key = ("", None) if reason is Reason.UNKNOWN_COLLECTION else (digest_hex(digest), None)
    return Counter({(key, "read"): count, (key, f"rejected.{reason.value}"): count})


def _judge(message: bytes, collections: dict[int, Collection]) -> Admission:
    """Without an arrival: a message that is replayed is neither late nor early."""
    done = Admission()
    admit_frames(codec.joined([message]), collections, "", done)
    return done
