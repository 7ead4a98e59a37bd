"""The record of a run (run.json): versions, books, timings, files."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from typing import Any

from apache_beam.io.filesystems import FileSystems

from ldp.accounting import Books, Line
from ldp.collection import Collection
from ldp.epochs import instant
from ldp.errors import LdpError
from ldp.histogram import TOO_MANY_ERRORS
from pipelines.options import RunConfig
from transforms.files import publish

__all__ = [
    "DETACHED",
    "NOTHING_COUNTED",
    "RUN_RECORD",
    "STATUS",
    "read_output",
    "run_record",
    "table_records",
    "write_record",
]

RUN_RECORD = "run.json"
STATUS = {0: "ok", 4: "ok_with_rejects", 5: "over_error_threshold"}
"""What run.json says for each exit code of a finished run that has counted something."""
NOTHING_COUNTED = "nothing_counted"
"""What it says of one that has counted nothing, which ends with 5 as well."""
DETACHED = "detached"
"""What it says when a job was left to its cluster, which goes on to write all but run.json."""


def read_output(output: str) -> tuple[Books, list[dict[str, Any]]]:
    """Books and files of everything published below ``output`` so far, from accounting/."""
    books, files = Books(), []
    found = FileSystems.match([FileSystems.join(output, "accounting", "*.json")])[0].metadata_list
    for path in sorted(m.path for m in found):
        with FileSystems.open(path) as handle:
            record = json.loads(handle.read())
        line = Line()
        for what, count in record["accounting"].items():
            if what == "rejected":
                line.rejected.update(count)
            elif what != "pending":
                line.add(what, count)
        kept = books.lines.setdefault((record["digest"], record.get("epoch")), Line())
        kept.merge(line)
        files += table_records(record)
    return books, files


def table_records(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The published tables that an epoch's books name."""
    return [
        {"path": r["file"], "bytes": r["bytes"], "sha256": r["sha256"], "rows": r["rows"]}
        for r in record.get("revisions", ())
        if r["file"]
    ]


def write_record(output: str, record: dict[str, Any]) -> None:
    """Publish run.json: whole, or not at all."""
    publish(output, RUN_RECORD, (json.dumps(record, indent=1) + "\n").encode())


def run_record(
    config: RunConfig,
    books: Books,
    files: Iterable[dict[str, Any]],
    seconds: float,
    **more: Any,
) -> dict[str, Any]:
    """Everything run.json says.

    Args:
        config: what was asked.
        books: of the whole run.
        files: path, bytes, sha256 and rows of everything written.
        seconds: how long it took.
        more: further keys, or others of the same name.

    Raises:
        LdpError: the books do not balance.
    """
    total = books.total
    open_lines = more.get("status") in ("running", "stopped", DETACHED)
    unbalanced = [key for key, line in books.lines.items() if not (line.balanced or open_lines)]
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
        for key, line in books.lines.items()
        if key[1] is not None and line.counted and line.error_fraction > config.max_error_fraction
    ]
    exit_code = 5 if withheld or not total.counted else 4 if rejected else 0
    by_digest = {c.digest_hex: c for c in config.collections}
    return {
        "schema": "ldpbeam.run/1",
        "status": STATUS[exit_code] if total.counted else NOTHING_COUNTED,
        "exit_code": exit_code,
        "versions": _versions(),
        "runner": config.runner,
        "deduplicate": config.deduplicate,
        "max_error_fraction": config.max_error_fraction,
        "collections": [c.as_record() for c in config.collections],
        "accounting": {
            "total": total.as_record(),
            "epochs": [
                _epoch_line(digest, by_digest.get(digest), epoch, line, (digest, epoch) in withheld)
                for (digest, epoch), line in sorted(
                    ((k, v) for k, v in books.lines.items() if k[1] is not None),
                    key=lambda item: (item[0][0], item[0][1] or 0),
                )
                if epoch is not None
            ],
            "unattributed": _unattributed(books),
        },
        "timings": {
            "total_seconds": round(seconds, 3),
            "reports_per_second": round(total.read / seconds, 1) if seconds else None,
        },
        "inputs": [{"path": path} for path in config.inputs],
        "files": sorted(files, key=lambda f: str(f["path"])),
        **more,
    }


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
    digest: str, collection: Collection | None, epoch: int, line: Line, withheld: bool
) -> dict[str, object]:
    """One line; an epoch of a collection that is no longer given has no name."""
    return {
        "collection": collection.name if collection else "",
        "digest": digest,
        "epoch": epoch,
        "epoch_start": instant(collection.epochs.start(epoch)) if collection else None,
        **line.as_record(),
        "withheld": TOO_MANY_ERRORS if withheld else "",
    }


def _unattributed(books: Books) -> dict[str, object]:
    """Records that belong to no epoch of a known collection."""
    line = Line()
    for (_, epoch), other in books.lines.items():
        if epoch is None:
            line.read += other.read
            line.rejected.update(other.rejected)
    return {"read": line.read, "rejected": line.rejected_record()}
