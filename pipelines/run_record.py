"""The record of a run (run.json): versions, books, timings, files."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ldpbeam.accounting import Account, Accounting
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import instant
from ldpbeam.collection.record import definition
from ldpbeam.errors import LdpError, UsageError
from ldpbeam.histogram import TOO_MANY_ERRORS
from ldpbeam.indicators import EXPLANATIONS, FALSE_ALARM
from ldpbeam.pipelines.config import RunConfig
from ldpbeam.transforms.sinks.accounting import EpochAccounting, read_all_accounting
from ldpbeam.transforms.sinks.atomic import publish

__all__ = [
    "DETACHED",
    "NOTHING_COUNTED",
    "RUN_RECORD",
    "STATUS",
    "Archived",
    "indicators_record",
    "last_clock",
    "read_indicators",
    "read_output",
    "read_record",
    "run_record",
    "write_record",
]

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
    """Epochs of a stream that its record does not list one by one any more.

    Attributes:
        epochs: how many have their books in the archive.
        withheld: how many of them have no estimates.
        line: the sum of their books.
    """

    epochs: int
    withheld: int
    account: Account


def read_output(output: str) -> tuple[Accounting, list[dict[str, Any]]]:
    """The accounting and the files of everything published below ``output`` so far."""
    total, files = Accounting(), []
    for found in read_all_accounting(output):
        total.accounts.setdefault(found.key, Account()).merge(found.account)
        if isinstance(found, EpochAccounting):
            files += [table.as_record() for table in found.tables]
    return total, files


def read_record(path: Path) -> dict[str, Any]:
    """The record of a run.

    Raises:
        UsageError: the file is damaged, or is something else.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        found = error
    if isinstance(found, dict) and found.get("schema") == SCHEMA:
        return found
    why = f"{type(found).__name__}" if isinstance(found, Exception) else "it has another schema"
    raise UsageError(
        "E-USAGE-RECORD",
        f"{path} is not the record of a run, or is damaged ({why})",
        remedy="Fetch it again, or run again.",
    )


def read_indicators(output: str) -> list[tuple[str, int, list[dict[str, Any]]]]:
    """Digest, epoch and indicators of the newest result of every epoch published below ``output``."""
    found = read_all_accounting(output)
    return [(*one.key, one.indicators) for one in found if isinstance(one, EpochAccounting)]


def indicators_record(noticed: Iterable[tuple[str, int, list[dict[str, Any]]]]) -> dict[str, Any]:
    """What run.json says about signs of forged reports; the books of an epoch have all of its indicators.

    Args:
        noticed: digest, epoch and indicators of the newest result of each epoch.
    """
    results = sorted(
        ((digest, epoch, found) for digest, epoch, found in noticed if found), key=lambda r: r[:2]
    )
    alarms = [
        {"digest": digest, "epoch": epoch, **one, "meaning": EXPLANATIONS[one["indicator"]]}
        for digest, epoch, found in results
        for one in found
        if one["alarm"]
    ]
    return {
        "false_alarm_rate": FALSE_ALARM,
        "results": len(results),
        "tests": sum(len(found) for *_, found in results),
        "alarms": alarms,
    }


def last_clock(output: str) -> dict[str, Any] | None:
    """What the last engine on an output knew of the time; None at first."""
    try:
        stream = json.loads(Path(output, RUN_RECORD).read_text())["stream"]
        clock = stream["clock"]
        said = {name: bool(clock[name]) for name in ("confirmed", "heard")}
        return {"boot": str(clock["boot"]), **said, **{n: float(clock[n]) for n in ("steady", "time")}}
    except (OSError, ValueError, LookupError, TypeError):
        return None  # without it messages, or time, have to confirm the clock again


def write_record(output: str, record: dict[str, Any]) -> None:
    """Publish run.json: whole, or not at all."""
    publish(output, RUN_RECORD, (json.dumps(record, indent=1) + "\n").encode())


def run_record(
    config: RunConfig,
    books: Accounting,
    files: Iterable[dict[str, Any]],
    seconds: float,
    archived: Archived | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Everything run.json says.

    Args:
        config: what was asked.
        books: of the whole run.
        files: path, bytes, sha256 and rows of everything written.
        seconds: how long it took.
        archived: what is not in ``books`` because it has been archived.
        more: further keys, or others of the same name.

    Raises:
        LdpError: the books do not balance.
    """
    total = books.total
    if archived is not None:
        total.merge(archived.account)
    open_lines = more.get("status") in ("running", "stopped", DETACHED)
    unbalanced = [key for key, account in books.accounts.items() if not (account.balanced or open_lines)]
    if unbalanced:
        raise LdpError(
            "E-RUN-BOOKS",
            f"the books of {len(unbalanced)} epochs do not balance: reports were lost or counted twice",
            where=config.output,
            remedy="Nothing was published as finished; please report this with the files beside it.",
        )
    rejected = sum(total.rejected.values())
    withheld = [
        key
        for key, account in books.accounts.items()
        if key[1] is not None and account.counted and account.error_fraction > config.max_error_fraction
    ]
    ill = bool(withheld) or bool(archived and archived.withheld) or not total.counted
    exit_code = 5 if ill else 4 if rejected else 0
    by_digest = {c.digest_hex: c for c in config.collections}
    return {
        "schema": SCHEMA,
        "status": STATUS[exit_code] if total.counted else NOTHING_COUNTED,
        "exit_code": exit_code,
        "versions": _versions(),
        "runner": config.runner,
        "deduplicate": config.deduplicate,
        "max_error_fraction": config.max_error_fraction,
        "limits": config.limits,
        "collections": [{**c.as_record(), "definition": definition(c)} for c in config.collections],
        "accounting": {
            "total": total.as_record(),
            "epochs": [
                _epoch_line(digest, by_digest.get(digest), epoch, account, (digest, epoch) in withheld)
                for (digest, epoch), account in sorted(
                    ((k, v) for k, v in books.accounts.items() if k[1] is not None),
                    key=lambda item: (item[0][0], item[0][1] or 0),
                )
                if epoch is not None
            ],
            "unattributed": _unattributed(books),
            **({"archived": {"epochs": archived.epochs, **archived.account.as_record()}} if archived else {}),
        },
        "timings": {
            "total_seconds": round(seconds, 3),
            "reports_per_second": round(total.read / seconds, 1) if seconds else None,
        },
        "folder": _started_in(config.inputs),
        "inputs": [{"path": path} for path in config.inputs],
        "files": sorted(files, key=lambda f: str(f["path"])),
        **more,
    }


def _started_in(inputs: Iterable[str]) -> str:
    """The folder that the paths of the inputs start from; empty where they all say it themselves."""
    relative = any("://" not in path and not Path(path).is_absolute() for path in inputs)
    return str(Path.cwd()) if relative else ""


@cache
def _versions() -> dict[str, str]:
    """Looked up once: a stream writes its record again and again."""
    named = ("apache-beam", "numpy", "numba", "pyarrow", "protobuf")
    return {
        "ldpbeam": version("ldpbeam"),
        "python": platform.python_version(),
        **{name.replace("-", "_"): version(name) for name in named},
    }


def _epoch_line(
    digest: str, collection: Collection | None, epoch: int, account: Account, withheld: bool
) -> dict[str, object]:
    """One line; an epoch of a collection that is no longer given has no name."""
    return {
        "collection": collection.name if collection else "",
        "digest": digest,
        "epoch": epoch,
        "epoch_start": instant(collection.epochs.start(epoch)) if collection else None,
        **account.as_record(),
        "withheld": TOO_MANY_ERRORS if withheld else "",
    }


def _unattributed(books: Accounting) -> dict[str, object]:
    """Records that belong to no epoch of a known collection."""
    account = Account()
    for (_, epoch), other in books.accounts.items():
        if epoch is None:
            account.read += other.read
            account.rejected.update(other.rejected)
    return {"read": account.read, "rejected": account.rejected_record()}
