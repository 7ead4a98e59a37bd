"""Stages 2 and 3 as a public transform: admitted reports in, counted epochs out."""

from __future__ import annotations

from typing import Any, NamedTuple

import apache_beam as beam

from ldpbeam.errors import UsageError
from ldpbeam.schedule import Schedule
from ldpbeam.support import Accumulated, Support, UncountedReports

from .admit import Admitted
from .arguments import (
    Collections,
    OfCollections,
    at_least_one,
    late_seconds,
    read_collections,
    seconds,
    shard_bits,
)
from .rows import RejectedRow
from .stages.columns_on_disk import Spill
from .stages.count_windows import WindowOptions, count_windows
from .stages.entries import entries_without_epoch
from .stages.support import CountSupportOfEach
from .stateful.count_epochs import count_epochs


class Counted(NamedTuple):
    """The outputs of stages 2 and 3, which :class:`~ldpbeam.transforms.EstimateFrequencies` takes.

    Attributes:
        counted: (digest, :class:`~ldpbeam.accounting.CountedEpoch`): support and account of an epoch.
        rejected: :class:`~ldpbeam.transforms.RejectedRow` of the rejected records, without conflicting ones.
        entries: of the accounting, ((digest, epoch), what) and a number: over unbounded input those of
            records that belong to no epoch; over bounded input all, but for ``counted``.
    """

    counted: Any
    rejected: Any
    entries: Any


class _SupportCombineFn(CountSupportOfEach):
    """The CombineFn of stage 3 for other graphs: columns in, integer counts out; merging is addition."""

    def __init__(self, collections: Collections) -> None:
        super().__init__(read_collections(collections))

    def extract_output(self, accumulator: Accumulated | None, *_: object) -> Support | None:
        """Integer counts per cell; reports that still wait for their table are counted now."""
        if isinstance(accumulator, UncountedReports):
            return accumulator.counted(self._counters[accumulator.digest])
        return accumulator


class CountSupport(OfCollections):
    """Counts the reports of :class:`~ldpbeam.transforms.AdmitReports`: in an epoch one per report id.

    Over bounded input every epoch has one result, at the end. Over unbounded input open epochs are kept in
    state, and results come early, at the end of an epoch, after late reports and at its close
    (docs/operations.md). To count in windows of Beam, take ``CountSupport.Fn``.
    """

    Fn = _SupportCombineFn
    _spill: Spill | None = None
    _always_stream = False

    def __init__(
        self,
        collections: Collections,
        *,
        deduplicate: bool = True,
        shards: int = 8,
        early_every: str | float = 0,
        late_every: str | float | None = None,
        max_epochs: int = 10_000,
    ) -> None:
        """Say which reports are counted, and when results are published.

        Args:
            collections: a collection, the path of its file or its definition, or several.
            deduplicate: whether one report per report id counts, or every report as it comes.
            shards: into how many parts an epoch's reports are split by their ids; a power of two up to 256.
                In a stream a job with another number finds none of the state of the one that it replaces.
            early_every: seconds, or a duration like ``10m``, between results while an epoch lasts; 0 for
                none. Unbounded input only.
            late_every: at most one further result per so long when late reports come; None for ``1m``.
                Unbounded input only.
            max_epochs: of a collection, over bounded input; the epochs with the fewest records are left out.

        Raises:
            CollectionError, UsageError, TypeError: no collections, or unsound ones.
            UsageError: another argument has a value that is not allowed.
        """
        super().__init__(collections)
        self._deduplicate = deduplicate
        self._bits = shard_bits(shards)
        self._early = seconds("early_every", early_every)
        self._late = late_seconds(late_every)
        self._streams_only = [
            name for name, given in (("early_every", self._early), ("late_every", late_every)) if given
        ]
        self._max_epochs = at_least_one("max_epochs", max_epochs)

    def expand(self, admitted: Any) -> Any:
        """Count what was admitted.

        Raises:
            UsageError: the input is in windows, or an option for streams is given over bounded input.
        """
        columns, rejected, entries = Admitted(*admitted)
        if not columns.windowing.is_default():
            raise UsageError(
                "E-USAGE-TRANSFORM",
                "CountSupport counts epochs itself, and its input is in windows or has a trigger",
                remedy="Put AdmitReports right in front, or count with WindowByEpoch and CountSupport.Fn.",
            )
        inputs = (columns, entries)
        if self._always_stream or not columns.is_bounded:
            schedules = {c.digest_hex: Schedule(c, self._early, self._late) for c in self.collections}
            counted = inputs | "Count" >> count_epochs(schedules, self._bits, self._deduplicate)
            of_no_epoch = entries | "WithoutEpoch" >> entries_without_epoch()
            return Counted(counted, rejected, of_no_epoch)
        if self._streams_only:
            raise UsageError(
                "E-USAGE-TRANSFORM",
                f"{self._streams_only[0]} has no effect over bounded input, which has one result per epoch, "
                "at the end",
                remedy="Leave it out, or read from an unbounded source.",
            )
        how = WindowOptions(self._bits if self._deduplicate else None, self._max_epochs, self._spill)
        windows = inputs | "Count" >> count_windows(self.collections, how)
        all_rejected = (rejected, windows.rejected) | "Rejected" >> beam.Flatten().with_output_types(
            RejectedRow
        )
        return Counted(windows.counted, all_rejected, windows.entries)


class CountSupportOnDisk(CountSupport):
    """Counts like :class:`CountSupport`; columns wait on a disk that all steps share."""

    def __init__(self, spill: Spill | None, collections: Collections, **options: Any) -> None:
        """``spill`` names the folder, None for memory; other parameters as of :class:`CountSupport`."""
        super().__init__(collections, **options)
        self._spill = spill


class CountSupportOfStream(CountSupport):
    """Counts bounded input like a stream: results come early, on time and late."""

    _always_stream = True
