"""When a result of an epoch is to be published, and which one it is. Nothing here reads or writes."""

from __future__ import annotations

from dataclasses import dataclass

from ldpbeam.accounting import REPLAY, Account, Publication
from ldpbeam.engine.storage.epoch_state import EpochState
from ldpbeam.engine.storage.segment import EpochKey
from ldpbeam.schedule import Schedule

_MICROS = 1_000_000


@dataclass(frozen=True)
class DueResult:
    """A result that is to be published."""

    key: EpochKey
    counts: bool
    account: Account
    publication: Publication


@dataclass(frozen=True)
class EpochMoment:
    """An epoch as it stands at a watermark."""

    schedule: Schedule  # of its collection
    key: EpochKey  # (digest, epoch)
    state: EpochState  # what is known about it
    watermark: int  # of the engine, microseconds since 1970

    @property
    def has_ended(self) -> bool:
        """Whether the epoch has reached its end since its last result; one that was closed had it then."""
        end = self.schedule.end(self.key[1])
        return not self.state.closed and self.state.last_result_watermark < end <= self.watermark

    @property
    def is_past_close(self) -> bool:
        """Whether the epoch takes no more reports."""
        return self.watermark >= self.schedule.close(self.key[1])

    @property
    def next_result(self) -> int:
        """When what is not published yet is due: at the end of the epoch, or at an interval after a
        result."""
        begin = self.schedule.collection.epochs.start(self.key[1]) * _MICROS
        return self.schedule.due(self.key[1], max(self.state.last_result_watermark, begin))

    def is_due(self, everything: bool) -> bool:
        """Whether something is to be published now; with ``everything`` it does not wait, as at a stop."""
        if self.has_ended or (self.is_past_close and not self.state.closed):
            return True
        return self.state.is_unpublished and (everything or self.watermark >= self.next_result)

    @property
    def needs_count(self) -> bool:
        """Whether the reports have to be counted; else the accounting alone has changed."""
        return self.state.has_new_reports or (self.has_ended and self.state.landed is not None)

    def due(self, segment: int, replaying: bool) -> DueResult:
        """The result that is to be published now."""
        state, counts = self.state, self.needs_count
        pane = self.schedule.pane(self.key[1], self.watermark, state.last_result_watermark)
        publication = Publication(
            state.next_revision if counts else max(state.next_revision - 1, 0),
            REPLAY if replaying else pane,
            # Closed for good: an engine that starts again may know of less time than the one before it.
            state.closed or self.is_past_close,
            {"segment": segment, "watermark": self.watermark},
        )
        account = state.total_without_counts if counts else state.total
        return DueResult(self.key, counts, account, publication)
