"""An epoch's books, and the number under which a result is published.

The books decide the number, not the job: after a failure a job goes on from an older state, batches the same
reports differently, and would publish new results under numbers that older ones already have, or below them.
So a result that says something new gets the next number, and one that says what the job has said before is
that revision. Readers take the newest: counts of an epoch only grow, so what is told again is not the last.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from apache_beam.io.filesystems import FileSystems

from ldp.accounting import Line
from ldp.collection import Collection
from ldp.errors import Reason
from ldp.histogram import EpochHistogram

__all__ = [
    "books_file_name",
    "content_digest",
    "epoch_stem",
    "published_revision",
    "read_books",
    "revision_after",
]


def epoch_stem(collection: Collection, epoch: int) -> str:
    """``NAME-DIGEST-epoch-000012``, which all files of an epoch begin with."""
    return f"{collection.name}-{collection.digest_hex}-epoch-{epoch:06d}"


def books_file_name(collection: Collection, epoch: int) -> str:
    """``accounting/NAME-DIGEST-epoch-000012.json``."""
    return f"accounting/{epoch_stem(collection, epoch)}.json"


def read_books(output: str, collection: Collection, epoch: int) -> dict[str, Any] | None:
    """What is published about an epoch so far; None when nothing is."""
    path = FileSystems.join(output, *books_file_name(collection, epoch).split("/"))
    if not FileSystems.exists(path):
        return None
    with FileSystems.open(path) as handle:
        found: dict[str, Any] = json.loads(handle.read())
    return found


def content_digest(histogram: EpochHistogram) -> str:
    """16 hexadecimal digits of what a result says: its counts, and what kind of result it is."""
    line = histogram.line or Line()
    repeats = line.duplicate + line.rejected[Reason.CONFLICTING_ID.value]
    head = f"{histogram.pane}/{histogram.withheld}/{histogram.reports}/{repeats}"
    held = hashlib.sha256(head.encode())
    for one in histogram.attributes:
        held.update(f"/{one.reports}/".encode())
        held.update(np.ascontiguousarray(one.support, "<i8").tobytes())
    return held.hexdigest()[:16]


def published_revision(collection: Collection, histogram: EpochHistogram, output: str, job: str) -> int:
    """The number of a result: its own over files, else as the books have it.

    Args:
        collection: whose epoch it is.
        histogram: a result.
        output: where the books are.
        job: name of an unbounded job; empty for a run over files, which is alone on its output.
    """
    known = read_books(output, collection, histogram.epoch) if job else None
    return revision_after(known, histogram, job)


def revision_after(known: dict[str, Any] | None, histogram: EpochHistogram, job: str) -> int:
    """The same, where the books have been read already."""
    if not job:
        return histogram.revision
    if not known or not known["revisions"]:
        return 0
    content = content_digest(histogram)
    for told in reversed(known["revisions"]):
        if (told.get("content"), told.get("job")) == (content, job):
            return int(told["revision"])
    return int(known["revisions"][-1]["revision"]) + 1
