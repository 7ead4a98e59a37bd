"""Refused messages as they came, until a replay admits them or their time to be kept is over."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from struct import Struct

from ldpbeam.durable.store import Transaction
from ldpbeam.engine.storage.landing import AT_ONCE, REFUSED, Group
from ldpbeam.engine.storage.segment import Place, RefusedMessage, Segment
from ldpbeam.errors import Reason

_LENGTH = Struct("<I")


class RefusedMessages:
    """All refused messages that are still kept, by the number of their segment."""

    def __init__(self, contents: Mapping[int, bytes]) -> None:
        """From the rows of the small table: for each segment when it was landed, and a group of one row."""
        self._segments: dict[int, tuple[int, Group]] = {}
        for number, content in contents.items():
            time, *group = json.loads(content)
            self._segments[number] = time, Group(*group)

    def read(self, rows: Transaction, number: int) -> list[RefusedMessage]:
        """The refused messages of a segment that no replay has admitted; none for an unknown segment."""
        return _unpack(self._segments[number][1].read(rows)[0]) if number in self._segments else []

    def add(self, rows: Transaction, number: int, segment: Segment, new_key: Callable[[], int]) -> None:
        """Keep the refused messages of a segment."""
        # Not the watermark alone: messages after an outage would be removed as soon as it has passed them.
        self._put(rows, number, max(segment.watermark, segment.now), segment.refused, Group(new_key()))

    def _put(
        self, rows: Transaction, number: int, time: int, refused: Iterable[RefusedMessage], group: Group
    ) -> None:
        group.add(rows, _pack(refused))
        self._segments[number] = time, group
        rows.put(REFUSED, number, json.dumps([time, *vars(group).values()]).encode())

    def take_up(self, rows: Transaction, replayed: Collection[Place], new_key: Callable[[], int]) -> None:
        """Remove messages that a replay has admitted."""
        for number in sorted({number for number, _ in replayed} & self._segments.keys()):
            left = [one for one in self.read(rows, number) if (number, one.place) not in replayed]
            time, _ = self._segments[number]
            self._drop(rows, number)
            if left:
                self._put(rows, number, time, left, Group(new_key()))

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(group.size for _, group in self._segments.values())

    def remove(self, rows: Transaction, horizon: int) -> int:
        """Remove segments that were landed by a time, of large ones some now; gives their bytes."""
        removed = 0
        for number in [number for number, (time, _) in self._segments.items() if time <= horizon]:
            if removed >= AT_ONCE:
                break
            removed += self._segments[number][1].size
            self._drop(rows, number)
        return removed

    def _drop(self, rows: Transaction, number: int) -> None:
        self._segments.pop(number)[1].shrink(rows)
        rows.remove(REFUSED, number)


def _pack(refused: Iterable[RefusedMessage]) -> bytes:
    listing: list[tuple[int, int, int, str]] = []
    content: list[bytes] = []
    offset = 0
    for one in refused:
        listing.append((one.place, offset, len(one.message), one.reason.value))
        content.append(one.message)
        offset += len(one.message)
    head = json.dumps(listing).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *content])


def _unpack(content: bytes) -> list[RefusedMessage]:
    begin = _LENGTH.size + _LENGTH.unpack_from(content)[0]
    refused = []
    for place, offset, length, reason in json.loads(content[_LENGTH.size : begin]):
        message = content[begin + offset : begin + offset + length]
        refused.append(RefusedMessage(place, Reason(reason), message))
    return refused
