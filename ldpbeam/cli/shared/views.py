"""What a run, a simulation or a person has written, shown to a person: results, estimates, collections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ldpbeam.accounting import Account
from ldpbeam.cli.shared.summary import identity
from ldpbeam.collection.advice import warnings_about
from ldpbeam.collection.epochs import instant
from ldpbeam.collection.file import load_collection
from ldpbeam.durable.document import parse_document
from ldpbeam.durable.errors import DamageError
from ldpbeam.errors import UsageError
from ldpbeam.records.collection_record import CollectionRecord, GuaranteeRecord, collection_entry
from ldpbeam.records.run_record import read_record
from ldpbeam.report_page.text import LABEL_LIMIT
from ldpbeam.table_file import published_table
from ldpbeam.text import clean

_ESTIMATES, _TRUTH = {"estimate", "std_error", "epoch", "value"}, {"epoch", "value", "frequency"}


@dataclass(frozen=True)
class View:
    """What a file or folder is."""

    kind: str  # a word for programs: run, epoch, estimates, truth, simulation or collection
    lines: tuple[str, ...]  # for people; control characters of whatever was read are replaced
    document: Any  # the same for programs, ready for JSON


def view_of(path: Path, limit: int) -> View | None:
    """The view of a file or folder that is neither reports nor rejects; None of those.

    At most ``limit`` epochs or values are shown.

    Raises:
        UsageError: it is JSON of no kind that belongs to this project, or a damaged one.
        CollectionError: it is a collection with an error in it.
    """
    if path.is_dir():
        return _of_folder(path, limit)
    if path.suffix in (".yaml", ".yml"):
        return _collection(path)
    if path.suffix == ".parquet":
        names = _columns(path)
        if names >= _ESTIMATES:
            return _estimates(path, limit)
        return _truth(path) if names >= _TRUTH else None
    if path.suffix == ".json":
        return _of_json(path, limit)
    return None


def unknown(path: Path, why: str) -> UsageError:
    """The error about a file that is nothing to inspect, and why it is not."""
    return UsageError(
        "E-USAGE-INSPECT",
        f"{path} {why}",
        remedy="Give reports, rejects, estimates, the output of run or simulate, or a collection (.yaml).",
    )


def _of_folder(path: Path, limit: int) -> View | None:
    if (path / "run.json").is_file():
        return _run(path / "run.json", limit)
    if (path / "simulation.json").is_file():
        return _simulation(path / "simulation.json")
    if (path / "estimates").is_dir() and (path / "accounting").is_dir():
        lines = (
            f"{path} holds no run.json: a run is under way there, or it was stopped before its end.",
            "Start the run again on the same --output.",
        )
        return View("run", lines, {"status": "unfinished"})
    tables = sorted(p for p in path.glob("*.parquet") if not p.name.startswith("."))
    if tables and _columns(tables[0]) >= _ESTIMATES:
        return _all_estimates(tables, limit)
    if path.name == "accounting" and (path.parent / "run.json").is_file():
        return _run(path.parent / "run.json", limit)
    return None


def _of_json(path: Path, limit: int) -> View:
    record = _document(path)
    views: Mapping[str, Callable[[], View]] = {
        "ldpbeam.run/1": lambda: _run(path, limit),
        "ldpbeam.epoch/1": lambda: _epoch(path, record),
    }
    if isinstance(record, dict):
        view = views.get(str(record.get("schema")))
        if view is not None:
            return view()
        if path.name == "simulation.json":
            return _simulation(path)
        if path.name == "run.json":
            return _run(path, limit)
    raise unknown(path, "is JSON of no kind that ldpbeam writes")


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
    try:
        record = read_record(path)
    except UsageError:
        raise unknown(path, "is not the record of a run, or is damaged") from None
    total, unattributed = record.accounting.total, record.accounting.unattributed
    lines = [
        f"{path}: {record.status} (exit code {record.exit_code}), {record.runner}, "
        f"ldpbeam {record.versions.get('ldpbeam')}, {record.timings.total_seconds} s",
        *map(_about, record.collections),
        identity(total),
        *(f"  rejected {count:,}: {reason}" for reason, count in total.rejected_record().items()),
    ]
    if unattributed.read:
        lines.append(f"  {unattributed.read:,} of them belong to no known collection and epoch")
    epochs = record.accounting.epochs
    shown = epochs[-limit:]
    if len(shown) < len(epochs):
        lines.append(f"{len(epochs):,} epochs, the last {len(shown)} of them:")
    lines += [
        f"  {row.collection} epoch {row.epoch} ({row.epoch_start}): {row.account.counted:,} counted"
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


def _epoch(path: Path, record: Mapping[str, Any]) -> View:
    try:
        lines = [
            f"accounting of {record['collection']} epoch {record['epoch']}, {record['epoch_start']} to "
            f"{record['epoch_end']}, {'closed' if record['closed'] else 'open'}",
            identity(Account.from_record(record["accounting"])),
            *(
                f"  revision {r['revision']}, {r['pane']}: n = {r['n']:,}, "
                + (f"withheld: {r['withheld']}" if r["withheld"] else str(r["file"]))
                for r in record["revisions"]
            ),
        ]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise unknown(path, f"is not the accounting of an epoch ({type(error).__name__})") from None
    return View("epoch", tuple(map(clean, lines)), record)


# --- estimates


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = published_table(path).read().to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise unknown(path, f"is cut short or damaged ({type(error).__name__})") from None
    if not rows:
        raise unknown(path, "has no rows")
    return rows


def _estimates(path: Path, limit: int) -> View:
    rows = _rows(path)
    lines = [_headline(rows[0], rows)]
    for attribute in dict.fromkeys(row.get("attribute", "") for row in rows):
        mine = [row for row in rows if row.get("attribute", "") == attribute]
        known = [row for row in mine if row["estimate"] is not None]
        ranked = sorted(known, key=lambda row: -row["estimate"])[:limit]
        if attribute or len(known) > limit:
            which = f"the {len(ranked)} largest of {len(mine):,} values" if len(known) > limit else ""
            lines.append(": ".join(filter(None, (attribute, which))) + ":")
        lines += [
            f"  {_label(row)}: {row['estimate']:.6g} ± {row['std_error']:.2g} (standard error), "
            f"95 % {row['ci_low']:.6g} .. {row['ci_high']:.6g}"
            for row in ranked
        ]
    document = [{k: str(v) if hasattr(v, "isoformat") else v for k, v in row.items()} for row in rows]
    return View("estimates", tuple(map(clean, lines)), document)


def _headline(first: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    reports = max(row["n"] for row in rows)
    pane = " provisional (its epoch was not over)," if first.get("pane") == "early" else ""
    return (
        f"estimates of {first['collection']} (digest {first['digest']}), epoch {first['epoch']} "
        f"({first['epoch_start']:%Y-%m-%dT%H:%M:%SZ}), revision {first['revision']},{pane} "
        f"{reports:,} reports, {_state(rows)}"
    )


def _state(rows: Sequence[Mapping[str, Any]]) -> str:
    states = Counter(str(row["status"]) for row in rows)
    return ", ".join(states) if len(states) == 1 else ", ".join(f"{n} {state}" for state, n in states.items())


def _label(row: Mapping[str, Any]) -> str:
    label = clean(str(row["label"]), LABEL_LIMIT)
    return label if label != str(row["value"]) else f"value {label}"


def _all_estimates(tables: Sequence[Path], limit: int) -> View:
    firsts = [(path, _rows(path)) for path in tables[-limit:]]
    lines = [
        f"{len(tables):,} tables of estimates" + (f", the last {limit}:" if len(tables) > limit else ":")
    ]
    lines += [f"  {path.name}: {_headline(rows[0], rows)}" for path, rows in firsts]
    lines.append(f"one of them: ldpbeam inspect {tables[-1]}")
    return View("estimates", tuple(map(clean, lines)), [path.name for path in tables])


# --- simulations and collections


def _truth(path: Path) -> View:
    table = pq.read_table(path, columns=["epoch", "value"], partitioning=None)
    epochs = sorted(set(table.column("epoch").to_pylist()))
    document = {"epochs": len(epochs), "rows": table.num_rows}
    span = f"epochs {epochs[0]} .. {epochs[-1]}" if epochs else "no epoch"
    lines = (
        f"the truth of a simulation: {span}, {table.num_rows:,} rows of true frequencies",
        f"hold a run against it: ldpbeam report RESULTS --truth {path}",
    )
    return View("truth", tuple(map(clean, lines)), document)


def _simulation(path: Path) -> View:
    try:
        record = _document(path)
        lines = (
            f"a simulation of {record['collection']} (digest {record['digest']}), {record['protocol']}: "
            f"{record['reports']:,} reports of {record['devices']:,} devices in {record['epochs']:,} epochs "
            f"from {record['first_epoch']} on, population {record['population'] or 'not named'}, "
            f"seed {record['seed']}",
            f"count them: ldpbeam run --collection FILE --input {path.parent / 'reports'} --output RESULTS",
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise unknown(path, f"is not the record of a simulation ({type(error).__name__})") from None
    return View("simulation", tuple(map(clean, lines)), record)


def _collection(path: Path) -> View:
    collection = load_collection(path)
    record = CollectionRecord.from_record(collection_entry(collection))
    epochs = collection.epochs
    sizes = [f"{name + ': ' if name else ''}{domain.size:,} values" for name, domain in collection.histograms]
    lines = [
        f"a collection: {_about(record)}",
        f"  {'; '.join(sizes)}; results are {'a mean' if record.histograms[0].is_mean else 'frequencies'}; "
        f"{collection.protocol.device.payload_bits} bits of payload per report",
        f"  epochs of {epochs.length:,} s from {instant(epochs.origin)} on, "
        f"{epochs.count:,} planned; late reports count for {collection.allowed_lateness:,} s; "
        f"estimates from {collection.min_reports:,} reports on",
        *(f"  {advice.in_file(str(path))}" for advice in warnings_about(collection)),
    ]
    return View("collection", tuple(map(clean, lines)), collection.as_record())
