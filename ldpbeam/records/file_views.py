"""What a run, a simulation or a person has written, shown to a person: results, estimates, collections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ldpbeam.collection.advice import warnings_about
from ldpbeam.collection.epochs import instant
from ldpbeam.collection.file import load_collection
from ldpbeam.durable.document import parse_document
from ldpbeam.durable.errors import DamageError
from ldpbeam.errors import UsageError
from ldpbeam.protocols.estimator import Result
from ldpbeam.records.collection_record import CollectionRecord, GuaranteeRecord, collection_entry
from ldpbeam.records.run_record import SCHEMA as RUN_SCHEMA
from ldpbeam.records.run_record import read_record
from ldpbeam.table_file import published_table
from ldpbeam.text import clean, plural

_ESTIMATES, _TRUTH = {"estimate", "std_error", "epoch", "value"}, {"epoch", "value", "frequency"}


@dataclass(frozen=True)
class View:
    """What a file or folder is."""

    kind: str  # a word for programs: run, epoch, estimates, truth, simulation, collection
    lines: tuple[str, ...]  # for people; control characters of whatever was read are replaced
    document: Any  # the same for programs, ready for JSON


def view_of(path: Path, limit: int) -> View | None:
    """The view of a file or folder that is neither reports nor rejects; None of those."""
    if path.is_dir():
        return _of_folder(path, limit)
    if path.suffix in (".yaml", ".yml"):
        return _collection(path)
    if path.suffix == ".parquet":
        names = _columns(path)
        return _table(path) if names >= _ESTIMATES or names >= _TRUTH else None
    if path.suffix == ".json":
        return _of_json(path, limit)
    return None


def unknown(path: Path, why: str) -> UsageError:
    """The error about a file that is nothing to inspect, and why it is not."""
    return UsageError(
        "E-USAGE-INPUT",
        f"{path} {why}",
        remedy="If it is damaged, fetch it again. To read are reports, rejects, estimates, collections "
        "(.yaml) and the outputs of run and simulate.",
    )


def _of_folder(path: Path, limit: int) -> View | None:
    if (path / "run.json").is_file():
        return _run(path / "run.json", limit)
    if (path / "simulation.json").is_file():
        return _of_json(path / "simulation.json", limit)
    if (path / "estimates").is_dir() and (path / "accounting").is_dir():
        lines = (
            f"{path} holds no run.json: a run is under way there, or it was stopped before its end.",
            "Start the run again on the same --output.",
        )
        return View("run", lines, {"status": "unfinished"})
    tables = sorted(p for p in path.glob("*.parquet") if not p.name.startswith("."))
    if tables and _columns(tables[0]) >= _ESTIMATES:
        return _tables(tables)
    if path.name == "accounting" and (path.parent / "run.json").is_file():
        return _run(path.parent / "run.json", limit)
    return None


def _of_json(path: Path, limit: int) -> View:
    """A run, or what the first level of any other document says."""
    if path.name == "run.json":
        return _run(path, limit)
    record = _document(path)
    schema = str(record.get("schema", path.stem))
    if schema == RUN_SCHEMA:
        return _run(path, limit)
    named = (*record.items(), *record.get("accounting", {}).items())
    plain = [f"{name} {value}" for name, value in named if isinstance(value, str | int | float)]
    lines = (f"{path}: {', '.join(plain)}", f"all of it: python -m json.tool {path}")
    kind = schema.removeprefix("ldpbeam.").partition("/")[0]
    return View(kind, tuple(map(clean, lines)), record)


def _document(path: Path) -> dict[str, Any]:
    try:
        return parse_document(path.read_bytes())
    except (OSError, ValueError):
        raise unknown(path, "is not readable as JSON: it is cut short or damaged") from None
    except DamageError as error:
        raise unknown(
            path, f"is JSON of no kind that ldpbeam writes, or not what was written ({error})"
        ) from None


def _columns(path: Path) -> set[str]:
    try:
        return set(pq.read_schema(path).names)
    except (pa.ArrowException, OSError):
        return set()  # read as reports, where it is said what is wrong with it


# --- a run


def _run(path: Path, limit: int) -> View:
    record = read_record(path)
    total, unattributed = record.accounting.total, record.accounting.unattributed
    lines = [
        f"{path}: {record.status} (exit code {record.exit_code}), {record.runner}, "
        f"ldpbeam {record.versions.get('ldpbeam')}, {record.timings.total_seconds} s",
        *map(_about, record.collections),
        total.identity,
        *(f"  rejected {count:,}: {reason}" for reason, count in total.rejected_record().items()),
    ]
    if unattributed.read:
        lines.append(f"  {unattributed.read:,} of them belong to no known collection and epoch")
    names = Counter(one.name for one in record.collections)
    versions = {one.digest: one.version for one in record.collections if names[one.name] > 1}
    epochs = sorted(
        record.accounting.epochs, key=lambda row: (row.epoch_start or "", versions.get(row.digest, 0))
    )
    shown = epochs[-limit:]
    if len(shown) < len(epochs):
        lines.append(f"{len(epochs):,} epochs, the last {len(shown)} of them:")
    lines += [
        f"  {row.collection}"
        + (f" version {versions[row.digest]}" if row.digest in versions else "")
        + f" epoch {row.epoch} ({row.epoch_start}): {row.account.counted:,} counted"
        + (f", {row.account.pending:,} pending" if row.account.pending else "")
        + (f", withheld: {row.withheld}" if row.withheld else "")
        for row in shown
    ]
    folder = path.parent
    lines.append(f"the page: ldpbeam report {folder}; the numbers: ldpbeam inspect {folder}/estimates")
    return View("run", tuple(map(clean, lines)), record.as_record())


_IN_SHORT = {"first_report", "any_changes"}
"""Statements that stand in the line about a collection."""


def _about(record: CollectionRecord) -> str:
    guarantee = record.guarantee or GuaranteeRecord()
    levels = " ".join(one.text for one in guarantee.statements if one.key in _IN_SHORT)
    kind = ", ".join(filter(None, (record.protocol, record.allocation)))
    return f"{record.name} version {record.version} (digest {record.digest}): {kind}. {levels}"


# --- tables and collections


def _table(path: Path) -> View:
    """What all rows share, and which columns tell them apart."""
    try:
        table = published_table(path).read()
    except (pa.ArrowException, OSError) as error:
        raise unknown(path, f"is cut short or damaged ({type(error).__name__})") from None
    if not table.num_rows:
        raise unknown(path, "has no rows")
    first = table.slice(0, 1).to_pylist()[0]
    kind = "estimates" if set(table.column_names) >= _ESTIMATES else "truth"
    shared = [name for name in first if len(table.column(name).unique()) == 1]
    others = [name for name in first if name not in shared]
    lines = (
        f"{path}: {kind}, {table.num_rows:,} rows",
        f"  in every row: {', '.join(f'{name} {first[name]}' for name in shared)}",
        f"  in each row: {', '.join(others)}",
        _hint(str(path)),
    )
    document = {
        "rows": table.num_rows,
        "shared": {name: str(first[name]) for name in shared},
        "columns": others,
    }
    return View(kind, tuple(clean(line) for line in lines), document)


def _tables(tables: Sequence[Path]) -> View:
    """How many tables there are, and the last of them."""
    last = _table(tables[-1])
    lines = (f"{plural(len(tables), 'table')} of {last.kind}, the last of them:", *last.lines[:-1])
    hint = _hint(str(tables[-1].parent / "*.parquet"))
    return View(last.kind, (*lines, clean(hint)), [path.name for path in tables])


def _hint(path: str) -> str:
    quoted = path.replace("'", "''")
    return f"its rows: ldpbeam export, any reader of Parquet, or duckdb -c \"FROM '{quoted}'\""


_RESULTS = {
    Result.FREQUENCIES: "frequencies",
    Result.MEAN: "a mean",
    Result.DISTRIBUTION: "a distribution",
}


def _collection(path: Path) -> View:
    collection = load_collection(path)
    record = CollectionRecord.from_record(collection_entry(collection))
    epochs = collection.epochs
    sizes = [f"{name + ': ' if name else ''}{domain.size:,} values" for name, domain in collection.histograms]
    lines = [
        f"a collection: {_about(record)}",
        f"  {'; '.join(sizes)}; results are {_RESULTS[record.histograms[0].result]}; "
        f"{collection.protocol.device.payload_bits} bits of payload per report",
        f"  epochs of {epochs.length:,} s from {instant(epochs.origin)} on, "
        f"{epochs.count:,} planned; late reports count for {collection.allowed_lateness:,} s; "
        f"estimates from {collection.min_reports:,} reports on",
        *(f"  {advice.in_file(str(path))}" for advice in warnings_about(collection)),
    ]
    return View("collection", tuple(map(clean, lines)), collection.as_record())
