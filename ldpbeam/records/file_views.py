"""What a run has written, shown to a person."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ldpbeam.errors import UsageError
from ldpbeam.records.collection_record import CollectionRecord
from ldpbeam.records.run_record import RUN_RECORD, read_record
from ldpbeam.text import clean


@dataclass(frozen=True)
class View:
    kind: str  # a word for programs: run, records
    lines: tuple[str, ...]  # for people; control characters of whatever was read are replaced
    document: Any  # the same for programs, ready for JSON


def view_of(path: Path, limit: int) -> View | None:
    """The view of a run; None of anything that is to be read as reports or rejects."""
    if path.suffix in (".yaml", ".yml"):
        raise _elsewhere(path, "ldpbeam check")
    record = path if path.name == RUN_RECORD else path / RUN_RECORD
    if record.is_file():
        return _run(record, limit)
    if path.suffix == ".json":
        raise _elsewhere(path, "python -m json.tool")
    tables = [path] if path.suffix == ".parquet" else sorted(path.glob("[!.]*.parquet"))
    if tables and _columns(tables[0]) & {"estimate", "frequency"}:
        raise _elsewhere(path, "ldpbeam export, or any reader of Parquet,")
    if (path / "estimates").is_dir() and (path / "accounting").is_dir():
        lines = (
            f"{path} holds no run.json: a run is under way there, or it was stopped before its end.",
            "Start the run again on the same --output.",
        )
        return View("run", lines, {"status": "unfinished"})
    return None


def _elsewhere(path: Path, command: str) -> UsageError:
    return UsageError(
        "E-USAGE-INPUT", f"{path} holds no reports or rejects", remedy=f"{command} shows what is in it."
    )


def unknown(path: Path, why: str) -> UsageError:
    return UsageError(
        "E-USAGE-INPUT",
        f"{path} {why}",
        remedy="If it is damaged, fetch it again. To read are reports, rejects and the output of a run.",
    )


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
    lines.append(f"the page: ldpbeam report {folder}; the numbers: ldpbeam export {folder}")
    return View("run", tuple(map(clean, lines)), record.as_record())


_IN_SHORT = {"first_report", "any_changes"}
"""Statements that stand in the line about a collection."""


def _about(record: CollectionRecord) -> str:
    levels = " ".join(one.text for one in record.guarantee.statements if one.key in _IN_SHORT)
    kind = ", ".join(filter(None, (record.protocol, record.allocation)))
    return f"{record.name} version {record.version} (digest {record.digest}): {kind}. {levels}"
