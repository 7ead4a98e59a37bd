"""Count the files of a run again, with rejected records taken up: epochs that change get a further revision.

The whole input is counted again, because a repeat can only be told from a first copy beside all others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from ldpbeam.accounting import REPLAY
from ldpbeam.collection.collection import Collection
from ldpbeam.errors import LdpError, UsageError
from ldpbeam.host.signals import interruptible, removed_on_interrupt
from ldpbeam.job.config import Counting, Input, RunConfig
from ldpbeam.job.inputs import shard_bits_for
from ldpbeam.records.output import locked
from ldpbeam.records.rejects import Rejects, Replayed, rejected_count
from ldpbeam.records.run_output import write_record
from ldpbeam.records.run_record import RUN_RECORD, RunRecord, read_record
from ldpbeam.table_file import as_parquet, published_table
from ldpbeam.transforms.sinks import Outputs
from ldpbeam.transforms.sinks.accounting import (
    EpochAccounting,
    Revision,
    read_accounting,
    read_epoch_accounting,
    write_accounting,
)
from ldpbeam.transforms.sinks.atomic import link, publish, refuse_writing, remove
from ldpbeam.transforms.sinks.estimates import (
    counts_file_name,
    epoch_file_name,
    latest_file_name,
    summaries_file_name,
)
from ldpbeam.transforms.sinks.file_record import FileRecord

from .run import run


def replay_files(rejects: Rejects) -> Replayed:
    """Take up the rejected records of a run over files, in its output."""
    output = rejects.output
    with interruptible(refuse_writing), locked(str(output)):
        record = read_record(output / RUN_RECORD)
        _require_results(output, record)
        return _counted_again(output, rejects.tables, rejects.collections, record)


def _require_results(output: Path, record: RunRecord) -> None:
    """Refuse results that are not whole: a revision would get a number that stands for another one."""
    for file in record.files:
        path = output / file.path
        if file.path.startswith("estimates/"):
            with suppress(OSError):
                if hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256:
                    continue
        elif path.is_file() or not file.path.startswith("accounting/"):
            continue
        raise _damaged(path)


def _counted_again(
    output: Path, tables: tuple[Path, ...], collections: tuple[Collection, ...], record: RunRecord
) -> Replayed:
    with _folder_of(record), ExitStack() as afterwards:
        inputs = tuple(one.path for one in record.inputs)
        passed_over = tuple(one.path for one in record.passed_over)
        bits = shard_bits_for(_size_of(inputs))
        counting = Counting(record.deduplicate, record.max_error_fraction, bits)
        read = Input(files=inputs, passed_over=passed_over, **record.limits)
        scratch = afterwards.enter_context(
            TemporaryDirectory(prefix=".replay-", suffix=".tmp", dir=output, ignore_cleanup_errors=True)
        )
        afterwards.enter_context(removed_on_interrupt(Path(scratch)))
        done = run(RunConfig(collections, read, Outputs(scratch), counting))
        revised, files = _take_over(Path(scratch), output, collections)
    fresh = replace(done, files=tuple(files), replayed=tuple(t.name for t in tables))
    write_record(str(output), fresh)
    before, after = map(rejected_count, (record, done))
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
                name = epoch_file_name(collection, epoch, number)
                made = _take_table(scratch / result.table.path, output, name, number, pane)
            published.append(replace(result, number=number, pane=pane, table=made))
            revised.append((collection.name, epoch, number))
        if new.revisions and (counts := new.revisions[-1].counts):
            newest = published[-1]
            name = counts_file_name(collection, epoch, newest.number)
            made = _take_table(scratch / counts.path, output, name, newest.number, newest.pane)
            published[-1] = replace(newest, counts=made)
        summaries = None
        if published:
            _show_latest(output, latest_file_name(collection, epoch), published[-1].table)
            name = summaries_file_name(collection, epoch)
            summaries = _take_summaries(scratch, output, name, published[-1])
        slices = tuple(
            _take_table(scratch / one.path, output, one.path, published[-1].number, published[-1].pane)
            for one in new.slices
        )
        accounting = replace(new, revisions=tuple(published), summaries=summaries, slices=slices)
        files += [write_accounting(str(output), accounting), *accounting.tables]
    files += _exchange_rejects(scratch / "rejects", output)
    return revised, sorted(files, key=lambda file: file.path)


def _take_summaries(scratch: Path, output: Path, name: str, newest: Revision) -> FileRecord | None:
    """Publish the mean and the quantiles of the newest revision, also where they were lost."""
    if (scratch / name).is_file():
        return _take_table(scratch / name, output, name, newest.number, newest.pane)
    remove(str(output), name)
    return None


def _take_table(path: Path, output: Path, name: str, number: int, pane: str) -> FileRecord:
    """Publish a table under the number and the pane that it has here."""
    table = _with(_table(path), revision=pa.scalar(number, pa.int32()), pane=pa.scalar(pane))
    return publish(str(output), name, as_parquet(table), table.num_rows)


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
    names = {Path(record.path).name for record in made}
    for path in (output / "rejects").glob("*.parquet"):
        if path.name not in names:
            path.unlink()
    return made


def _same(scratch: Path, new: Revision, output: Path, old: Revision) -> bool:
    """Whether two results say the same, whatever they are called."""
    if not new.table or not old.table:
        return bool(new.table) == bool(old.table) and new.reports == old.reports
    tables = (_table(scratch / new.table.path), _table(output / old.table.path))
    # Tables of earlier versions have fewer columns.
    both = [
        n for n in tables[0].column_names if n in tables[1].column_names and n not in {"revision", "pane"}
    ]
    a, b = (table.select(both).replace_schema_metadata() for table in tables)
    return bool(a.equals(b))


def _table(path: Path) -> pa.Table:
    try:
        return published_table(path).read()
    except (pa.ArrowException, OSError):
        raise _damaged(path) from None


def _damaged(path: Path) -> LdpError:
    return LdpError(
        "E-RUN-DAMAGED",
        "a file of the earlier results is missing, or is not what was written",
        where=str(path),
        remedy="Restore it from a backup, or run again on all inputs.",
    )


def _with(table: pa.Table, **values: pa.Scalar) -> pa.Table:
    for name, value in values.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(name), pa.repeat(value, table.num_rows))
    return table
