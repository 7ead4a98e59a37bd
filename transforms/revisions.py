"""The number under which a revision is published: jobs on one output go on where the last one stopped."""

from __future__ import annotations

from ldp.collection import Collection
from ldp.histogram import EpochHistogram
from transforms.sinks import read_books

__all__ = ["published_revision"]


def published_revision(collection: Collection, histogram: EpochHistogram, output: str, job: str) -> int:
    """The number that the epoch's books give to this revision, whether they name it already or not.

    Args:
        collection: whose epoch it is.
        histogram: numbered by the job that made it.
        output: where the books are.
        job: name of an unbounded job; empty for a run over files, which is alone on its output.
    """
    known = read_books(output, collection, histogram.epoch) if job else None
    others = [int(r["revision"]) for r in known["revisions"] if r.get("job") != job] if known else []
    return max(others, default=-1) + 1 + histogram.revision
