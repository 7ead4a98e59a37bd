"""When epochs begin: the dates below the charts and in the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ldpbeam.report_page import scales

Tick = tuple[int, str, str]
"""An epoch, what stands below it, and below that the day or year where it is not that of the tick before."""

_Floor = Callable[[datetime], datetime]


def _seconds(step: int) -> _Floor:
    """Down to a multiple of ``step`` seconds since midnight; a step divides the day."""

    def floor(moment: datetime) -> datetime:
        midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight + timedelta(seconds=int((moment - midnight).total_seconds()) // step * step)

    return floor


def _days(step: int) -> _Floor:
    """Down to a multiple of ``step`` days, counted from a Monday."""
    return lambda moment: _seconds(86_400)(moment) - timedelta(days=(moment.toordinal() - 1) % step)


def _months(step: int) -> _Floor:
    """Down to the first day of a month whose number is a multiple of ``step``, counted from January."""

    def floor(moment: datetime) -> datetime:
        month = (moment.month - 1) // step * step + 1
        return moment.replace(month=month, day=1, hour=0, minute=0, second=0, microsecond=0)

    return floor


def _years(step: int) -> _Floor:
    """Down to the first day of a year that is a multiple of ``step``."""
    return lambda moment: _months(12)(moment).replace(year=max(1, moment.year // step * step))


_TIME, _DAY, _MONTH, _YEAR = "%H:%M", "%d %b", "%b", "%Y"


def _say(moment: datetime, pattern: str) -> str:
    """Days without a leading zero, which not every system's ``strftime`` can leave out."""
    written = moment.strftime(pattern)
    return written.lstrip("0") if pattern == _DAY else written


_DAYS = 86_400
_STEPS: Sequence[tuple[int, _Floor, str, str]] = (
    *((step, _seconds(step), "%H:%M:%S", _DAY) for step in (1, 5, 15, 30)),
    *((60 * step, _seconds(60 * step), _TIME, _DAY) for step in (1, 5, 15, 30, 60, 180, 360, 720)),
    *((_DAYS * step, _days(step), _DAY, _YEAR) for step in (1, 2, 4, 7, 14)),
    *((28 * _DAYS * step, _months(step), _MONTH, _YEAR) for step in (1, 3, 6)),
    *((365 * _DAYS * step, _years(step), _YEAR, "") for step in (1, 2, 5, 10, 20, 50, 100)),
)
"""Seconds at least, how a moment is rounded down, how it is written, and what stands below that."""


@dataclass(frozen=True)
class Dates:
    """The beginnings of the epochs of a collection; None where nothing says when they are."""

    epoch: int = 0
    start: datetime | None = None
    seconds: int | None = None

    @property
    def title(self) -> str:
        """What the axis of epochs is called."""
        return "start of the epoch, UTC" if self.start else "epoch"

    def of(self, epoch: int) -> datetime | None:
        """When an epoch begins; only the one that somebody named, where nobody says how long they are."""
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
        whole = self.seconds and self.seconds % 86_400 == 0 and start == _seconds(86_400)(start)
        seconds = "%Y-%m-%d %H:%M:%S" if start.second else "%Y-%m-%d %H:%M"
        return start.strftime("%Y-%m-%d" if whole else seconds)

    def named(self, epoch: int) -> str:
        """`epoch 3 (2026-01-31)`, or `epoch 3`."""
        when = self.text(epoch)
        return f"epoch {epoch} ({when})" if when else f"epoch {epoch}"

    def ticks(self, low: int, high: int, count: int) -> list[Tick]:
        """At most `count` ticks between two epochs, both included, at round dates; numbers without dates."""
        if self.of(low) is None or self.of(high) is None:
            return [(epoch, str(epoch), "") for epoch in scales.whole(low, high, count)]
        finest = None
        for size, floor, pattern, below in _STEPS:
            # What is finer than the epochs would say 00:00 below each.
            if size < self._unit:
                continue
            finest = finest or (pattern, below)
            chosen = self._round(low, high, count, floor)
            if chosen is not None and (len(chosen) > 1 or low == high):
                return self._written(chosen or [low], pattern, below)
        # No round stretch of time fits: epochs evenly apart, each with its own date.
        return self._written(scales.whole(low, high, count), *(finest or (_YEAR, "")))

    @property
    def _unit(self) -> int:
        """The finest step that tells epochs apart, in seconds."""
        fits = [size for size, floor, *_ in _STEPS if size <= (self.seconds or 1) and self._on(floor)]
        return max(fits, default=1)

    def _on(self, floor: _Floor) -> bool:
        """Whether epochs begin where a round stretch of time does."""
        starts = (self.of(self.epoch), self.of(self.epoch + 1))
        return all(start is not None and floor(start) == start for start in starts)

    def _round(self, low: int, high: int, count: int, floor: _Floor) -> list[int] | None:
        """The epochs that are the first of a round stretch of time; None where they are more than `count`."""
        chosen: list[int] = []
        before = self.of(low - 1)
        for epoch in range(low, high + 1):
            start = self.of(epoch)
            if start is None:
                continue
            if before is None or floor(start) != floor(before):
                chosen.append(epoch)
                if len(chosen) > count:
                    return None
            before = start
        return chosen

    def _written(self, chosen: Sequence[int], pattern: str, below: str) -> list[Tick]:
        ticks: list[Tick] = []
        last = ""
        for epoch in chosen:
            start = self.of(epoch)
            if start is None:
                continue
            if pattern == _YEAR and (start.month, start.day) != (1, 1):
                ticks.append((epoch, _say(start, _DAY), _say(start, _YEAR)))
                continue
            context = _say(start, below)
            ticks.append((epoch, _say(start, pattern), context if context != last else ""))
            last = context
        return ticks
