"""Stage 2 of 5, epoch: which collection period a report belongs to.

A device knows the epoch of its report and writes only its index; clocks and time zones stay on the device.
All times are UTC, all lengths whole seconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from ldpbeam.errors import require

DEFAULT_COUNT = 1 << 20
"""Planned epochs when a collection does not say: two years of minutes, 700 years of six hours."""

LAST_SECOND = 253402300799
"""9999-12-31T23:59:59Z, seconds since 1970: the last time that can be written as text."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(frozen=True)
class Epochs:
    length: int
    origin: int
    count: int = DEFAULT_COUNT

    def __post_init__(self) -> None:
        """Raises CollectionError for a length or count below 1, or times beyond the year 9999."""
        require(
            self.length >= 1 and self.count >= 1,
            "epoch",
            "an epoch lasts at least 1 s and there is at least one",
            "Set epoch.length, for example 6h, and epoch.count above 0.",
        )
        # The last representable second; window timestamps must stay inside the engine's range as well.
        require(
            0 <= self.origin <= LAST_SECOND,
            "epoch",
            "the origin must lie between the years 1970 and 9999",
            "Set epoch.origin to when the first epoch starts, for example 2026-01-01T00:00:00Z.",
        )
        latest = LAST_SECOND - self.origin
        require(
            self.length <= latest,
            "epoch",
            "the first epoch would end after the year 9999",
            "Set epoch.length, for example 6h, and epoch.origin to a time that is near.",
        )
        if self.length * self.count > latest:
            object.__setattr__(self, "count", latest // self.length)

    def contains(self, epoch: int) -> bool:
        return 0 <= epoch < self.count

    def start(self, epoch: int) -> int:
        """First second of an epoch, since 1970."""
        return self.origin + epoch * self.length

    def end(self, epoch: int) -> int:
        """First second after an epoch, since 1970."""
        return self.start(epoch + 1)

    def index(self, seconds: float) -> int:
        """The epoch that contains a time (may lie outside the planned ones)."""
        return int((seconds - self.origin) // self.length)


def instant(seconds: int) -> str:
    """A time in whole seconds since 1970 for people and records: ``2026-01-01T00:00:00Z``."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def duration(seconds: int) -> str:
    """A duration as people write it, in the largest unit that divides it, up to days; 0 is 0s."""
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    fitting = (unit for unit, size in units.items() if seconds and seconds % size == 0)
    unit = next(fitting, "s")
    return f"{seconds // units[unit]}{unit}"


def parse_duration(text: str) -> int:
    """Seconds of a duration such as ``90s``, ``15m``, ``6h``, ``1d``, ``2w`` or ``1d12h``; 0 is allowed."""
    if re.search(r"[0-9]M", text):
        raise ValueError(
            "M may mean minutes or months: write 1m for a minute; a month has no fixed length, so write 30d "
            "or 4w for about a month"
        )
    compact = text.strip().lower()
    if compact == "0":
        return 0
    if re.fullmatch(r"[0-9]+", compact):
        raise ValueError(f"{text!r} is no duration without a unit: s, m, h, d or w, as in 6h")
    if not re.fullmatch(r"([0-9]{1,18}[smhdw])+", compact):
        raise ValueError(f"{text!r} is no duration, which is written like 90s, 15m, 6h, 1d12h or 2w")
    return sum(int(n) * _UNITS[u] for n, u in re.findall(r"([0-9]+)([smhdw])", compact))


def parse_instant(value: str | datetime) -> int:
    """Seconds since 1970 of an ISO 8601 instant with a time zone, such as ``2026-01-01T00:00:00Z``."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
    except ValueError:
        raise ValueError(f"{value!r} is no instant, which is written like 2026-01-01T00:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueError("an instant needs a time zone, as in 2026-01-01T00:00:00Z")
    if moment.microsecond:
        raise ValueError("an instant has whole seconds, without a fraction")
    return int(moment.timestamp())
