"""When an epoch's results are published: provisionally, at its end, after late reports, and at its close.

All times are arrival times: the time at which reports reached the collector, microseconds since 1970. What is
due when follows from the collection and two intervals alone, so every engine publishes the same results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ldpbeam.accounting import EARLY, LATE, ON_TIME

if TYPE_CHECKING:  # the command line knows intervals before it needs a collection, and protobuf with it
    from ldpbeam.collection.collection import Collection

_MICROS = 1_000_000
DEFAULT_LATE_EVERY = 60
"""Seconds between two results of an epoch that late reports can cause."""


@dataclass(frozen=True)
class Schedule:
    collection: Collection
    early_every: int = 0
    late_every: int = DEFAULT_LATE_EVERY

    def end(self, epoch: int) -> int:
        """When the result of an epoch is due."""
        return self.collection.epochs.end(epoch) * _MICROS

    def close(self, epoch: int) -> int:
        return self.collection.closes(epoch) * _MICROS

    def due(self, epoch: int, after: int) -> int:
        """The first due time later than ``after``; past the close the accounting may still change."""
        start, end = self.collection.epochs.start(epoch) * _MICROS, self.end(epoch)
        if after < end:
            if not self.early_every:
                return end
            return min(_step(start, self.early_every, after), end)
        late = _step(end, self.late_every, after)
        close = self.close(epoch)
        return min(late, close) if after < close else late

    def pane(self, epoch: int, due: int, published: int) -> str:
        """The pane of a result that is due at ``due``, where the last one was published at ``published``."""
        end = self.end(epoch)
        return EARLY if due < end else ON_TIME if published < end else LATE


def _step(origin: int, every: int, after: int) -> int:
    """The first of origin + every, origin + 2·every, … later than ``after``."""
    step = every * _MICROS
    return origin + max((after - origin) // step + 1, 1) * step
