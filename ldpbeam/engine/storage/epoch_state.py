"""What the local engine knows about every epoch: what is published of it, and what was landed since.

The files in ``accounting/`` say what is published, and up to which segment; the segments after that say the
rest. So nothing here has to be saved: :meth:`EpochStates.recover`, and one :meth:`EpochStates.take` for each
segment, build it anew after a stop or a crash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ldpbeam.accounting import CONFLICTING, Account, Accounting, Key
from ldpbeam.engine.storage.archive import Archive
from ldpbeam.engine.storage.segment import EpochKey, Segment
from ldpbeam.errors import Reason
from ldpbeam.records.run_record import Archived
from ldpbeam.schedule import Schedule
from ldpbeam.transforms.sinks.accounting import (
    EpochAccounting,
    UnattributedAccounting,
    accounting_file_name,
    read_accounting,
    read_epoch_accounting,
    write_accounting,
)
from ldpbeam.transforms.sinks.file_record import FileRecord


@dataclass
class UnattributedState:
    """Records that belong to no epoch of a collection, or to no collection."""

    account: Account = field(default_factory=Account)  # as published
    unpublished_entries: Counter[str] = field(default_factory=Counter)  # what was landed since
    booked_segment: int = 0  # the last segment that the published account contains

    @property
    def total(self) -> Account:
        """The account with everything that is not published yet."""
        total = self.account.copy()
        for what, count in self.unpublished_entries.items():
            total.add(what, count)
        return total


@dataclass
class EpochState(UnattributedState):
    """One epoch of a collection.

    Attributes:
        segments: numbers of the segments with its reports that are still there.
        has_new_reports: whether reports were landed since the last result.
        next_revision: number of the next result.
        last_result_watermark: the engine's watermark at the last result, microseconds since 1970.
        closed: whether the epoch takes no more reports.
        files: its published tables, as run.json lists them.
        indicators: of the newest result.
    """

    segments: list[int] = field(default_factory=list)
    has_new_reports: bool = False
    next_revision: int = 0
    last_result_watermark: int = 0
    closed: bool = False
    files: list[FileRecord] = field(default_factory=list)
    indicators: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_unpublished(self) -> bool:
        """Whether something was landed that is in no result and no published account."""
        return self.has_new_reports or bool(self.unpublished_entries)

    @property
    def is_finished(self) -> bool:
        """Whether the epoch is closed, and everything about it is published."""
        return self.closed and not self.is_unpublished

    @property
    def total_without_counts(self) -> Account:
        """The same as ``total``, without what a count of all reports finds anew."""
        total = self.total
        total.counted = total.duplicate = 0
        total.add(CONFLICTING, -total.rejected[Reason.CONFLICTING_ID.value])
        return total

    def set_published(self, accounting: EpochAccounting) -> None:
        """Everything up to the position of this accounting is published, as it says."""
        position = accounting.position or {}
        self.account, self.unpublished_entries = accounting.account, Counter()
        self.booked_segment = position.get("segment", 0)
        self.last_result_watermark = position.get("watermark", 0)
        self.next_revision = accounting.newest.number + 1 if accounting.newest else 0
        self.closed = accounting.closed
        self.files = list(accounting.tables)
        self.indicators = accounting.indicators


class EpochStates:
    """All epochs with reports or accounting on one output directory.

    It is also the set of epochs that are closed, which nobody has to hold in memory: those that have long
    been closed are in the archive, and come back when something is landed of them.

    Attributes:
        epochs: states of epochs of the given collections, without those that are in the archive alone.
        unattributed: states by digest; the digest is empty for records that name no collection.
    """

    def __init__(self, output: str, schedules: Mapping[str, Schedule]) -> None:
        """Know nothing but the archive.

        Args:
            output: output directory.
            schedules: of the given collections, by digest.
        """
        self._output = output
        self._schedules = schedules
        self._archive = Archive(output)
        self.epochs: dict[EpochKey, EpochState] = {}
        self._unknown: dict[EpochKey, EpochState] = {}
        """Epochs of collections that an earlier engine was given, and this one is not."""
        self.unattributed: dict[str, UnattributedState] = {}

    def __contains__(self, key: object) -> bool:
        """Whether an epoch was published as closed."""
        assert isinstance(key, tuple)  # noqa: S101 - digest and epoch
        known = self.epochs.get(key)
        return known.closed if known is not None else self._archived_segment(key) is not None

    # --- taking up what is on disk

    def recover(self) -> tuple[int, int | None]:
        """Read the accounting.

        Returns:
            The highest number of a segment that it names, also of collections not given: a number is never
            used again, since what was refused has it too. And the newest watermark, where there is any epoch
            of a given collection.
        """
        segment, watermark = self._archive.segment, None
        for path in sorted(Path(self._output, "accounting").glob("*.json")):
            found = read_accounting(str(path))
            booked = (found.position or {}).get("segment", 0)
            segment = max(segment, booked)
            if isinstance(found, UnattributedAccounting):
                state = UnattributedState(account=found.account, booked_segment=booked)
                self.unattributed[found.digest] = state
                continue
            self._archive.shadow(found.key)
            given = found.digest in self._schedules
            known = (self.epochs if given else self._unknown).setdefault(found.key, EpochState())
            known.set_published(found)
            if given:
                watermark = max(watermark or 0, known.last_result_watermark)
        return segment, watermark

    def take(self, segment: Segment, present: Mapping[int, Segment]) -> None:
        """A segment joins what is known; entries that are in the accounting already are not taken again.

        ``present`` are all segments that are there by number, the new one among them.
        """
        for (key, what), count in segment.entries:
            state = self._state_for(key, segment.number, present)
            if state is not None and segment.number > state.booked_segment:
                state.unpublished_entries[what] += count
        for epoch_key, block in segment.by_key.items():
            known = self.epochs.get(epoch_key)
            if known is None and self._adds_to_archived(epoch_key, block.newest_segment):
                known = self._bring_back(epoch_key, present)
            if known is not None:
                if segment.number not in known.segments:
                    known.segments.append(segment.number)
                known.has_new_reports |= block.newest_segment > known.booked_segment

    def _state_for(self, key: Key, number: int, present: Mapping[int, Segment]) -> UnattributedState | None:
        """What the entries of a segment add to; None where nothing of them is new, or nobody asks."""
        digest, epoch = key
        if epoch is None:
            return self.unattributed.setdefault(digest, UnattributedState())
        known = self.epochs.get((digest, epoch))
        if known is None and self._adds_to_archived((digest, epoch), number):
            known = self._bring_back((digest, epoch), present)
        return known

    def _adds_to_archived(self, key: EpochKey, number: int) -> bool:
        """Whether what a segment has of an epoch that is not in memory is not in its accounting either."""
        return key[0] in self._schedules and number > (self._archived_segment(key) or 0)

    def _archived_segment(self, key: EpochKey) -> int | None:
        """The last segment in the archived accounting of an epoch; None where the epoch is not archived."""
        record = self._archive.find(key)
        if record is not None:
            return int(record.get("position", {}).get("segment", 0))
        return self._archive.forgotten(key) or None

    def _bring_back(self, key: EpochKey, present: Mapping[int, Segment]) -> EpochState:
        """An epoch that is not in memory: a new one, or one of the archive."""
        known = self.epochs[key] = EpochState()
        record = self._archive.find(key)
        if record is not None:
            self._archive.bring_back(key)
            known.set_published(EpochAccounting.from_record(record))
        known.segments = [number for number in sorted(present) if key in present[number].by_key]
        return known

    # --- asking

    def booked_segment(self, key: Key) -> int:
        """The last segment that the published accounting of a key contains."""
        digest, epoch = key
        known: UnattributedState | None
        if epoch is None:
            known = self.unattributed.get(digest, UnattributedState())
        else:
            known = (self.epochs if digest in self._schedules else self._unknown).get((digest, epoch))
        if known is not None:
            return known.booked_segment
        assert epoch is not None  # noqa: S101 - the case above
        return self._archived_segment((digest, epoch)) or 0

    def is_booked(self, key: Key, number: int) -> bool:
        """Whether the published accounting of a key contains a segment, and nothing is missing in it."""
        digest, epoch = key
        known = self.unattributed.get(digest) if epoch is None else self.epochs.get((digest, epoch))
        return self.booked_segment(key) >= number and not (known and known.unpublished_entries)

    def is_gone(self, key: EpochKey, horizon: int) -> bool:
        """Whether an epoch closed before ``horizon`` (microseconds) and will not be counted again."""
        if key[0] not in self._schedules or self._schedules[key[0]].close(key[1]) > horizon:
            return False
        known = self.epochs.get(key)
        return known is None or known.is_finished

    def revisions(self) -> dict[EpochKey, int]:
        """Newest revision of each epoch that has one, archived ones among them."""
        archived = (r for r in self._archive.records() if r["digest"] in self._schedules and r["revisions"])
        found = {(r["digest"], r["epoch"]): int(r["revisions"][-1]["revision"]) for r in archived}
        found.update({k: known.next_revision - 1 for k, known in self.epochs.items() if known.next_revision})
        return found

    @property
    def accounting(self) -> Accounting:
        """What is published, without the archive."""
        accounts: dict[Key, Account] = {k: known.account for k, known in self._all_epochs()}
        accounts.update({(digest, None): known.account for digest, known in self.unattributed.items()})
        return Accounting(accounts)

    @property
    def files(self) -> list[FileRecord]:
        """Published tables, without those of the archive."""
        return [file for _, known in self._all_epochs() for file in known.files]

    @property
    def archived(self) -> Archived | None:
        """What is in the archive; None where nothing was ever archived."""
        return self._archive.sums()

    @property
    def total(self) -> Account:
        """Everything that was ever landed, published or not."""
        total = self._archive.account
        for _, known in self._all_epochs():
            total.merge(known.total)
        for unattributed in self.unattributed.values():
            total.merge(unattributed.total)
        return total

    def _all_epochs(self) -> Iterator[tuple[EpochKey, EpochState]]:
        yield from self._unknown.items()
        yield from self.epochs.items()

    # --- after publishing

    def refresh(self, key: EpochKey) -> None:
        """Read what has just been published about an epoch."""
        found = read_epoch_accounting(self._output, self._schedules[key[0]].collection, key[1])
        assert found is not None  # noqa: S101 - it was published
        self.epochs[key].set_published(found)
        self.epochs[key].has_new_reports = False

    def publish_unattributed(self, segment: int) -> None:
        """Write accounts of what belongs to no epoch, where they have changed up to this last segment."""
        for digest, known in self.unattributed.items():
            if known.unpublished_entries:
                known.account, known.booked_segment = known.total, segment
                known.unpublished_entries.clear()
                position = {"segment": segment}
                write_accounting(
                    self._output, UnattributedAccounting(digest, known.account, position=position)
                )

    def replace_segments(self, parts: Iterable[Segment], merged: Segment) -> None:
        """One segment has taken the place of several."""
        old = {part.number for part in parts}
        for key in {key for part in parts for key in part.by_key} & self.epochs.keys():
            known = self.epochs[key]
            known.segments = [number for number in known.segments if number not in old]
            if key in merged.by_key:
                known.segments = sorted([*known.segments, merged.number])

    def remove_segment(self, segment: Segment) -> None:
        """A segment is no longer there."""
        for key in segment.keys & self.epochs.keys():
            self.epochs[key].segments.remove(segment.number)

    def fold(self, keep: int, forget_before: int) -> None:
        """Move the accounting of epochs that have long been closed into the archive, and out of memory.

        Args:
            keep: finished epochs that stay; only when there are twice as many, the older ones move.
            forget_before: seconds since 1970; what closed before then is kept as a sum.
        """
        done = [key for key, known in self.epochs.items() if known.is_finished]
        if len(done) <= 2 * keep:
            return
        done.sort(key=lambda key: (self._schedules[key[0]].close(key[1]), key))
        done = done[: len(done) - keep]
        self._archive.add(
            Path(self._output, accounting_file_name(self._schedules[digest].collection, epoch))
            for digest, epoch in done
        )
        for key in done:
            del self.epochs[key]
        self._archive.forget(forget_before)
