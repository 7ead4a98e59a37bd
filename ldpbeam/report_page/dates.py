"""When epochs begin: the dates below the charts and in the tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class Dates:
    """The beginnings of the epochs of a collection; None where nothing says when they are."""

    epoch: int = 0
    start: datetime | None = None
    seconds: int | None = None

    def of(self, epoch: int) -> datetime | None:
        if self.start is None or epoch == self.epoch:
            return self.start
        if not self.seconds:
            return None
        try:
            return self.start + timedelta(seconds=(epoch - self.epoch) * self.seconds)
        except OverflowError:
            return None

    def text(self, epoch: int) -> str:
        """When an epoch begins: `2026-01-31` for whole days, `2026-01-31 18:00` for others; may be empty."""
        start = self.of(epoch)
        if start is None:
            return ""
        whole = (
            self.seconds
            and self.seconds % 86_400 == 0
            and start == start.replace(hour=0, minute=0, second=0, microsecond=0)
        )
        seconds = "%Y-%m-%d %H:%M:%S" if start.second else "%Y-%m-%d %H:%M"
        return start.strftime("%Y-%m-%d" if whole else seconds)

    def named(self, epoch: int) -> str:
        when = self.text(epoch)
        return f"epoch {epoch} ({when})" if when else f"epoch {epoch}"

    def title(self, epoch: int) -> str:
        return self.named(epoch).capitalize()

    def line(self, first: int, last: int) -> tuple[float, float] | None:
        """When epoch 0 begins and how long each is, in milliseconds since 1970; None without dates."""
        if self.start is None or not self.seconds or None in (self.of(first), self.of(last)):
            return None
        step = 1000.0 * self.seconds
        return 1000 * self.start.timestamp() - self.epoch * step, step
