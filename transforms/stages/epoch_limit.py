"""Beside stage 2: no more epochs of a collection than a run is to have, whatever reports claim.

An epoch costs a run two files and its memory, and whoever can send a report can name one. Those with the
fewest records are left out: their reports are rejected, and their accounting becomes the collection's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from ldpbeam.accounting import CONFLICTING, CountedEpoch, Entry, Key
from ldpbeam.admission import Rejection
from ldpbeam.collection.collection import Collection
from ldpbeam.errors import Reason

from ..metrics import count_reports
from ..rows import RejectedRow, rejected_row
from .reports import ACCOUNTING, REJECTED, EpochParts

LargestEpochs = Mapping[str, frozenset[int]]
"""The epochs that a run has, by digest; collections with no more than it may have are not in it."""

_Keyed = tuple[None, LargestEpochs]
"""The largest epochs under the only key, None, which CombinePerKey needs."""

_Read = tuple[None, tuple[str, int, int]]
"""Digest, epoch, and how many records were read of it, under the key None."""

_Sizes = Counter[tuple[str, int]]

_LEFT_OUT = f"rejected.{Reason.TOO_MANY_EPOCHS.value}"
"""The entry of reports whose epoch is left out."""


def largest_epochs(entries: beam.PCollection[Entry], limit: int) -> beam.PCollection[_Keyed]:
    """Which epochs a run has: of each collection those with the most records, of equal ones the earliest."""
    read = entries | "EpochsRead" >> beam.FlatMap(_by_epoch).with_output_types(_Read)
    return read | "LargestEpochs" >> beam.CombinePerKey(_Largest(limit))


def _by_epoch(entry: Entry) -> Iterator[_Read]:
    ((digest, epoch), what), count = entry
    if epoch is not None and what == "read":
        yield None, (digest, epoch, count)


@beam.typehints.with_input_types(tuple[str, int, int])
@beam.typehints.with_output_types(Any)
class _Largest(beam.CombineFn):
    def __init__(self, limit: int) -> None:
        self._limit = limit

    def create_accumulator(self) -> _Sizes:
        return Counter()

    def add_input(self, sizes: _Sizes, read: tuple[str, int, int]) -> _Sizes:
        sizes[read[0], read[1]] += read[2]
        return sizes

    def merge_accumulators(self, many: Iterable[_Sizes]) -> _Sizes:
        total: _Sizes = Counter()
        for sizes in many:
            total.update(sizes)
        return total

    def extract_output(self, sizes: _Sizes) -> LargestEpochs:
        by_digest: dict[str, list[tuple[int, int]]] = {}
        for (digest, epoch), count in sizes.items():
            by_digest.setdefault(digest, []).append((-count, epoch))
        return {
            digest: frozenset(epoch for _, epoch in sorted(epochs)[: self._limit])
            for digest, epochs in by_digest.items()
            if len(epochs) > self._limit
        }


class LimitEpochs(beam.DoFn):
    """Columns, or counted epochs by the digest of their collection, of the epochs that a run has."""

    def __init__(self, collections: Sequence[Collection]) -> None:
        self._sources = {c.digest_hex: f"epochs of {c.name}" for c in collections}

    def process(self, element: EpochParts | tuple[str, CountedEpoch], largest: _Keyed) -> Iterator[Any]:
        (where, what), (_, by_digest) = element, largest
        if isinstance(what, CountedEpoch):
            digest, epoch, entries = str(where), what.epoch, dict(what.account.entries())
        else:
            digest, epoch, entries = where[0], int(where[1]), {_LEFT_OUT: sum(map(len, what))}
        if digest not in by_digest or epoch in by_digest[digest]:
            yield element
            if isinstance(what, CountedEpoch):
                for repeated in ("duplicate", CONFLICTING):
                    count_reports(repeated, entries.get(repeated, 0))
                entries.pop("counted", None)
                yield from _entries((digest, epoch), entries)
            return
        # Nothing of the epoch is counted, and nobody needs to know what was a copy of what.
        refused = sum(entries.pop(each, 0) for each in (_LEFT_OUT, "counted", "duplicate", CONFLICTING))
        # What the error fraction of an epoch passes over means nothing without the epoch.
        entries.pop("repeated", None)
        if refused:
            entries[_LEFT_OUT] = refused
            source = self._sources[digest]
            reason = Reason.TOO_MANY_EPOCHS
            rejection = Rejection(reason, source, -1, count=refused, digest=digest, epoch=epoch)
            count_reports(_LEFT_OUT, refused)
            yield beam.pvalue.TaggedOutput(REJECTED, rejected_row(rejection))
        yield from _entries((digest, None), entries)


def _entries(key: Key, entries: Mapping[str, int]) -> Iterator[beam.pvalue.TaggedOutput]:
    for what, count in entries.items():
        entry: Entry = ((key, what), count)
        yield beam.pvalue.TaggedOutput(ACCOUNTING, entry)


class EpochLimit:
    """Leaves epochs of some collections out, at several places of the graph, and gathers what that yields."""

    def __init__(self, collections: Sequence[Collection], largest: beam.PCollection[_Keyed]) -> None:
        self._collections = collections
        self._largest = beam.pvalue.AsSingleton(largest, default_value=(None, {}))
        self.entries: list[beam.PCollection[Entry]] = []
        self.rejections: list[beam.PCollection[RejectedRow]] = []

    def without(
        self, elements: beam.PCollection, kind: Any, of: str, *, windowed: bool = False
    ) -> beam.PCollection:
        """Leave out what belongs to epochs that the run does not have."""
        leave_out = beam.ParDo(LimitEpochs(self._collections), self._largest)
        typed = leave_out.with_output_types(kind, **{ACCOUNTING: Entry, REJECTED: RejectedRow})
        chosen = elements | f"Kept{of}" >> typed.with_outputs(ACCOUNTING, REJECTED, main="within")
        entries, rejections = chosen[ACCOUNTING], chosen[REJECTED]
        if windowed:
            entries = entries | f"LeftOut{of}" >> beam.WindowInto(GlobalWindows())
            rejections = rejections | f"Rejected{of}" >> beam.WindowInto(GlobalWindows())
        self.entries.append(entries)
        self.rejections.append(rejections)
        return chosen.within
