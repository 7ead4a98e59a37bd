"""What the two steps with state are keyed by, and what the first one says to the second."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from ldpbeam.errors import LdpError
from ldpbeam.schedule import Schedule
from ldpbeam.transforms.stages.support import CountSupport

EpochKey = tuple[str, int]
"""(digest, epoch): one pair of steps serves all collections, so that a new one leaves a running job's state
as it is."""

ShardKey = tuple[str, int, int]
"""(digest, epoch, shard)."""

Schedules = Mapping[str, Schedule]
"""When results are due, by digest."""

Update = tuple[EpochKey, bytes | tuple[str, int]]
"""What the second step takes: by epoch, a packed :class:`ShardCount`, or an entry of the accounting."""

_HEAD = struct.Struct("<BIqQQ")
_VERSION = 2


@dataclass(frozen=True)
class ShardCount:
    """Everything one shard has counted up to a due time: a total, so the newest one replaces all before it.

    Attributes:
        shard: which one.
        due: due time that the count was made for, microseconds.
        repeats: reports that were left out as copies of another one.
        conflicting: reports that were left out because they share an id, and not the payload, with another.
        support: encoded Support of the reports that are left.
    """

    shard: int
    due: int
    repeats: int
    conflicting: int
    support: bytes

    def pack(self) -> bytes:
        """As it travels and as it is kept, after a byte that says how."""
        return _HEAD.pack(_VERSION, self.shard, self.due, self.repeats, self.conflicting) + self.support

    @classmethod
    def unpack(cls, packed: bytes) -> ShardCount:
        """Read it again.

        Raises:
            LdpError: another version of the code has written it.
        """
        if packed[0] != _VERSION:
            raise LdpError(
                "E-STATE-VERSION",
                f"the count of a shard has state format {packed[0]}, this version reads {_VERSION}",
                remedy="Run the job to its end with the version that started it, or start a new job.",
            )
        _, shard, due, repeats, conflicting = _HEAD.unpack_from(packed)
        return cls(shard, due, repeats, conflicting, packed[_HEAD.size :])


def counters(schedules: Schedules) -> dict[str, CountSupport]:
    """What counts the support of each collection, by digest."""
    return {digest: CountSupport(schedule.collection) for digest, schedule in schedules.items()}
