"""The number under which a result is published, given once, before every sink; and an epoch's books.

After a failure a job goes on from an older state, batches the same reports differently, and makes results
that differ from those that sinks have already. So numbers are not kept in the job: a number is written down,
with a digest of what it stands for, before any sink sees it, and never stands for anything else. A result
that says what the newest number says is that revision, published once more; any other gets the next number.
Readers take the newest, so whatever a job publishes last is what they see.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems

from ldpbeam.accounting import Account
from ldpbeam.collection.collection import Collection
from ldpbeam.errors import Reason
from ldpbeam.histogram import EpochHistogram
from ldpbeam.transforms.sinks.atomic import publish

__all__ = [
    "NumberRevisions",
    "Numbered",
    "RevisionNumbers",
    "books_file_name",
    "content_digest",
    "epoch_stem",
    "named_stem",
    "newest_number",
    "number_after",
    "numbers_file_name",
    "read_books",
]

NUMBERS_SCHEMA = "ldpbeam.revision/1"


@dataclass(frozen=True)
class Numbered:
    """A number that was given.

    Attributes:
        revision: the number.
        content: :func:`content_digest` of what it stands for.
        job: who gave it.
    """

    revision: int
    content: str
    job: str


def epoch_stem(collection: Collection, epoch: int) -> str:
    """``NAME-DIGEST-epoch-000012``, which all files of an epoch begin with."""
    return named_stem(collection.name, collection.digest_hex, epoch)


def named_stem(name: str, digest: str, epoch: int) -> str:
    """The same, of a collection of which only the name and the digest are known."""
    return f"{name}-{digest}-epoch-{epoch:06d}"


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


def numbers_file_name(collection: Collection, epoch: int) -> str:
    """``accounting/NAME-DIGEST-epoch-000012.revision``: the newest number, published or not."""
    return f"accounting/{epoch_stem(collection, epoch)}.revision"


def content_digest(collection: Collection, histogram: EpochHistogram) -> str:
    """16 hexadecimal digits of all that a sink is told but the number.

    Everything else in a table or a message follows from these: the collection, the counts, and what kind of
    result it is.
    """
    account = histogram.account or Account()
    repeats = [account.duplicate, account.rejected[Reason.CONFLICTING_ID.value]]
    head = [histogram.pane, histogram.closed, histogram.withheld, histogram.reports, repeats]
    held = hashlib.sha256(json.dumps([_record(collection), *head]).encode())
    for one in histogram.attributes:
        held.update(f"/{one.reports}/".encode())
        held.update(np.ascontiguousarray(one.support, "<i8").tobytes())
    return held.hexdigest()[:16]


@cache
def _record(collection: Collection) -> str:
    return json.dumps(collection.as_record(), sort_keys=True)


def number_after(newest: Numbered | None, content: str, job: str) -> Numbered:
    """The number of a result: the newest one, if it stands for just this, else the next.

    An older number is never given again, though it may stand for the same: the result that a job set back
    makes in between is newer than that, and would be what readers take.
    """
    if newest is None:
        return Numbered(0, content, job)
    if (newest.content, newest.job) == (content, job):
        return newest
    return Numbered(newest.revision + 1, content, job)


def newest_number(output: str, collection: Collection, epoch: int) -> Numbered | None:
    """The newest number that was given, whether it is published or not; None when none was."""
    path = FileSystems.join(output, *numbers_file_name(collection, epoch).split("/"))
    if FileSystems.exists(path):
        with FileSystems.open(path) as handle:
            found = json.loads(handle.read())
        return Numbered(int(found["revision"]), found["content"], found["job"])
    # Of an epoch whose books were archived, they alone have it.
    books = read_books(output, collection, epoch)
    if not books or not books["revisions"]:
        return None
    last = books["revisions"][-1]
    return Numbered(int(last["revision"]), last["content"], last["job"])


class RevisionNumbers:
    """Numbers the results of one collection in an unbounded job: before all sinks, and once.

    Numbers of an epoch must be given one after the other. Writing the number down is what makes it given: a
    result that is made once more finds it.
    """

    def __init__(self, collection: Collection, output: str, job: str) -> None:
        """Number epochs of this collection on this output; ``job`` names who does."""
        self._collection = collection
        self._output = output
        self._job = job

    def number(self, histogram: EpochHistogram) -> EpochHistogram:
        """Give the histogram its number; one with nothing but accounting has none."""
        if not histogram.attributes and not histogram.withheld:
            return histogram
        newest = newest_number(self._output, self._collection, histogram.epoch)
        number = number_after(newest, content_digest(self._collection, histogram), self._job)
        if number != newest:
            record = {"schema": NUMBERS_SCHEMA, **asdict(number)}
            name = numbers_file_name(self._collection, histogram.epoch)
            publish(self._output, name, (json.dumps(record) + "\n").encode())
        return replace(histogram, revision=number.revision)


class NumberRevisions(beam.DoFn):
    """:class:`RevisionNumbers` as a step of a pipeline; results of an epoch come from one key, in order."""

    def __init__(self, collection: Collection, output: str, job: str) -> None:
        """Parameters as of :class:`RevisionNumbers`."""
        super().__init__()
        self._numbers = RevisionNumbers(collection, output, job)

    def process(self, histogram: EpochHistogram) -> list[EpochHistogram]:
        """Give one histogram its number."""
        return [self._numbers.number(histogram)]
