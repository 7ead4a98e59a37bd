"""What the commands that read results over time have in common: the series of a run, and their errors."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from ldpbeam.arrays import Ints
from ldpbeam.cli.shared.console import Mode, complain, mode
from ldpbeam.cli.shared.options import named_span
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.durable.file import PUBLIC, replacing
from ldpbeam.errors import UsageError, option_error
from ldpbeam.over_time.compare import of_sample
from ldpbeam.over_time.covariance import MemoErrors, errors_of
from ldpbeam.over_time.results import Choice, History, ResultsFolder
from ldpbeam.over_time.slice_results import SLICES
from ldpbeam.records.run_record import RUN_RECORD, RunRecord, read_record
from ldpbeam.sums.series import require_listed
from ldpbeam.text import plural

SUFFIXES = (".csv", ".parquet")

_GROUP = 1 << 18
"""Rows that are written at once, from which on one does not wait for more."""


@dataclass(frozen=True, eq=False)
class ReadHistory:
    history: History
    collection: Collection
    errors: MemoErrors | None

    @property
    def domain(self) -> Domain:
        return dict(self.collection.histograms)[self.history.key.attribute]

    @property
    def of_sample(self) -> ReadHistory:
        place = [name for name, _ in self.collection.histograms].index(self.history.key.attribute)
        series = of_sample(self.history.series, self.collection.estimators[place])
        errors = errors_of(self.collection, sampled=True)[place]
        return replace(self, history=replace(self.history, series=series), errors=errors)


class Side(NamedTuple):
    folder: ResultsFolder
    read: ReadHistory
    span: tuple[int, int] | None
    place: Path

    @property
    def words(self) -> str:
        return f"{self.place} ({'all epochs' if self.span is None else f'epochs {named_span(self.span)}'})"

    def at(self, epochs: Ints) -> Side:
        history, some = self.read.history, set(epochs.tolist())
        series = history.series.rows(np.isin(history.series.epochs, epochs))
        folder = replace(self.folder, parts=tuple(part for part in self.folder.parts if part.epoch in some))
        read = replace(self.read, history=replace(history, series=series))
        return Side(folder, read, None, self.place)


Known = Mapping[str, Collection]
"""Collections by digest."""


def known_collections(results: Path, collection_files: Iterable[Path], *, by_slice: bool = False) -> Known:
    """Those that run.json describes, and those of files; a line where tables are missing."""
    from ldpbeam.cli.shared.collections import load
    from ldpbeam.collection.record import collection_of

    recorded = []
    if (results / RUN_RECORD).is_file():
        record = read_record(results / RUN_RECORD)
        remark_missing(results, record, by_slice=by_slice)
        recorded = [collection_of(one.definition) for one in record.collections]
    return {one.digest_hex: one for one in (*recorded, *map(load, collection_files))}


def read_histories(
    known: Known, results: Path, choice: Choice | None = None, slice_: Mapping[str, str] | None = None
) -> tuple[ResultsFolder, list[ReadHistory]]:
    """A run's newest results, and its attributes one by one, with those epochs that are chosen.

    Strings that nobody listed have no history; they are refused where there is nothing else.
    """
    parts = ResultsFolder.of(results, slice_)
    every = [_read(known, one, results) for one in parts.histories(choice)]
    listed = [one for one in every if not one.collection.is_discovery]
    if not listed:
        for collection in known.values():
            require_listed(collection)
    return parts, listed


def remark_missing(results: Path, record: RunRecord | None = None, *, by_slice: bool = False) -> None:
    """A line to standard error where ``latest/``, or ``slices/``, lacks the table of an epoch that the record
    has one of."""
    if record is None:
        try:
            record = read_record(results / RUN_RECORD)
        except UsageError:
            return
    place, stems = results / "latest", list(record.newest_tables)
    if by_slice:
        files = [Path(file.path) for file in record.files]
        place, stems = results / SLICES, [file.stem for file in files if file.parent.name == SLICES]
    if not place.is_dir():
        return
    withheld = {(one.digest, one.epoch) for one in record.accounting.epochs if one.withheld}
    missing = [
        stem
        for stem in stems
        if _epoch_of(stem) not in withheld and not (place / f"{stem}.parquet").is_file()
    ]
    if missing:
        first = f"{missing[0]}.parquet"
        text = f"{place}: {len(missing)} of its tables are missing, the first is {first}"
        complain(f"{text}; their epochs are left out. [W-RUN-DAMAGED]")


def remark_no_counts(place: Path, epochs: set[int]) -> None:
    """A line to standard error where the curve of several epochs is not fitted to their counts."""
    if epochs:
        lost = plural(len(epochs), "epoch")
        complain(
            f"{place}: the counts of {lost} are missing, the first is {min(epochs)}; curves of "
            "several epochs with such a one have limits as wide as those of one. [W-RUN-COUNTS]"
        )


def _epoch_of(stem: str) -> tuple[str, int]:
    """Digest and epoch of NAME-DIGEST-epoch-000012."""
    whose, _, epoch = stem.rpartition("-epoch-")
    return whose.rpartition("-")[2], int(epoch)


def _read(known: Known, history: History, results: Path) -> ReadHistory:
    key = history.key
    collection = known.get(key.digest)
    if collection is None:
        raise UsageError(
            "E-USAGE-COLLECTION",
            f"nothing says how {key.collection} (digest {key.digest}) was collected: run.json is missing",
            where=str(results),
            remedy="Give the collection with --collection FILE.",
        )
    names = [name for name, _ in collection.histograms]
    if key.attribute not in names:
        raise UsageError(
            "E-USAGE-RESULTS",
            f"the estimates name an attribute that {key.collection} does not have",
            where=str(results),
            remedy="Give the directory that was --output of a run.",
        )
    return ReadHistory(history, collection, errors_of(collection)[names.index(key.attribute)])


def require_suffix(output: Path | None) -> None:
    if output is not None and output.suffix not in SUFFIXES:
        raise option_error(f"{output} names no format", f"End its name with {' or '.join(SUFFIXES)}.")


def write_tables(tables: Iterable[Any], output: Path) -> tuple[int, list[str]]:
    """Write tables of one schema as one file, whole or not at all, as CSV or Parquet by the suffix."""
    import pyarrow.csv
    import pyarrow.parquet as pq

    output.parent.mkdir(parents=True, exist_ok=True)
    rows, names, csv = 0, list[str](), output.suffix == ".csv"
    with replacing(output, PUBLIC) as file, ExitStack() as stack:
        writer: Any = None
        for table in _some_at_once(tables):
            if writer is None:
                writer = stack.enter_context(
                    pyarrow.csv.CSVWriter(file, table.schema)
                    if csv
                    else pq.ParquetWriter(file, table.schema, compression="zstd")
                )
            writer.write_table(harmless(table) if csv else table)
            rows, names = rows + table.num_rows, table.column_names
    return rows, names


def _some_at_once(tables: Iterable[Any]) -> Iterator[Any]:
    """The same rows in tables that are neither small nor large: a row group of Parquet is made of each."""
    import pyarrow as pa

    waiting, rows = list[Any](), 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= _GROUP:
            yield pa.concat_tables(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


def show_rows(tables: Iterable[Any]) -> None:
    """Tables on standard output: CSV for people and pipes, one JSON document with ``--json``."""
    import io

    import pyarrow.csv

    if mode() is Mode.LINES:
        for place, table in enumerate(_some_at_once(tables)):
            sink = io.BytesIO()
            pyarrow.csv.write_csv(harmless(table), sink, pyarrow.csv.WriteOptions(include_header=place == 0))
            click.echo(sink.getvalue().decode(), nl=False)
    elif mode() is Mode.JSON:
        click.echo(json.dumps({"rows": [row for table in tables for row in documents(table)]}, indent=1))


def harmless(table: Any) -> Any:
    """The rows of a CSV file with an apostrophe before each text that a spreadsheet would run as a
    formula."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = table.column(place)
            begins = pc.match_substring_regex(column, r"^[=+\-@\t\r]")
            if not pc.any(begins).as_py():
                continue
            number = pc.match_substring_regex(column, r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$")
            marked = pc.binary_join_element_wise(pa.scalar("'"), column, "")
            column = pc.if_else(pc.and_(begins, pc.invert(number)), marked, column)
            table = table.set_column(place, field, column)
    return table


def documents(table: Any) -> list[dict[str, Any]]:
    """Rows ready for JSON: instants as text, null for what is not a number."""
    return [{name: _plain(cell) for name, cell in row.items()} for row in table.to_pylist()]


def _plain(cell: Any) -> Any:
    if hasattr(cell, "strftime"):
        return cell.strftime("%Y-%m-%dT%H:%M:%SZ")
    return finite(cell) if isinstance(cell, float) else cell


def finite(number: float) -> float | None:
    """A number for JSON; None where it is none."""
    return number if math.isfinite(number) else None
