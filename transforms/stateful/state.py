"""What the two steps with state are keyed by, remember of a key, say to each other, and are woken up by."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from ldpbeam.errors import LdpError
from ldpbeam.schedule import Schedule
from ldpbeam.support import SupportCounter

from ..coders import SupportCoder
from ..stages.reports import EpochKey

ShardKey = tuple[str, int, int]
"""(digest, epoch, shard). One pair of steps serves all collections, so that a new one leaves a running job's
state as it is."""

Schedules = Mapping[str, Schedule]
"""When results are due, by digest."""

Update = tuple[EpochKey, bytes | tuple[str, int]]
"""What the second step takes: by epoch, a packed :class:`ShardCount`, or an entry of the accounting."""

_HEAD = struct.Struct("<BIqQQ")
_VERSION = 2


@dataclass(frozen=True)
class ShardCount:
    shard: int  # which one
    due: int  # due time that the count was made for, microseconds
    repeats: int  # reports that were left out as copies of another one
    conflicting: int  # reports that were left out because they share an id, and not the payload, with another
    support: bytes  # encoded Support of the reports that are left

    @property
    def read(self) -> int:
        """All reports that the shard has taken."""
        return SupportCoder.reports(self.support) + self.repeats + self.conflicting

    def pack(self) -> bytes:
        return _HEAD.pack(_VERSION, self.shard, self.due, self.repeats, self.conflicting) + self.support

    @classmethod
    def unpack(cls, packed: bytes) -> ShardCount:
        if packed[0] != _VERSION:
            raise _another_version("the count of a shard", packed[0], _VERSION)
        _, shard, due, repeats, conflicting = _HEAD.unpack_from(packed)
        return cls(shard, due, repeats, conflicting, packed[_HEAD.size :])


def counters(schedules: Schedules) -> dict[str, SupportCounter]:
    return {digest: schedule.collection.counter for digest, schedule in schedules.items()}


# --- what a step remembers of a key besides its bag, and the two timers that wake it up

NEVER: int = MIN_TIMESTAMP.micros
"""A time before all others."""

STATE_VERSION = 2
"""Of the fields of both steps. A field with a default may come without a new version."""

_State = TypeVar("_State")


def read_state(cell: Any, kind: type[_State]) -> _State:
    """The state of a key; the defaults of ``kind`` for a key that was never seen."""
    stored = cell.read()
    if stored is None:
        return kind()
    record = json.loads(stored)
    version = record.get("version", 1)
    if version != STATE_VERSION:
        raise _another_version(kind.__name__, version, STATE_VERSION)
    return kind(**{f.name: record[f.name] for f in fields(kind) if f.name in record})  # type: ignore[arg-type]


def _another_version(what: str, theirs: int, ours: int) -> LdpError:
    return LdpError(
        "E-STATE-VERSION",
        f"{what} has state format {theirs}, this version reads {ours}",
        remedy="Run the job to its end with the version that started it, or start a new job.",
    )


def write_state(cell: Any, state: Any) -> None:
    """What :func:`read_state` reads: JSON by field name, since state outlives the code that wrote it."""
    cell.write(json.dumps({"version": STATE_VERSION, **vars(state)}).encode())


def wake_up(schedule: Schedule, at: int, due: Any, watch: Any) -> None:
    """Set the timer of a key, and one interval later the timer that stands in should a runner lose the
    first."""
    due.set(Timestamp(micros=at))
    watch.set(Timestamp(micros=at + schedule.late_every * 1_000_000))
