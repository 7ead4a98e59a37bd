"""Refused messages as they came, until a replay admits them or their time to be kept is over.

The refused messages of many segments lie together in a block, which has one row of ``content`` for each
segment. The small table has one row for each block, and stays small.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from struct import Struct

from ldpbeam.durable.record import read_fields, write_fields
from ldpbeam.durable.store import Transaction
from ldpbeam.engine.storage.landing import AT_ONCE, REFUSED, Group
from ldpbeam.engine.storage.segment import Place, RefusedMessage, Segment
from ldpbeam.errors import Reason

_ROWS, _BYTES, _OPEN_MICROS = 256, 4 << 20, 600 * 1_000_000
"""A block takes another segment while it has fewer rows and bytes, and for so many microseconds after its
first segment. A block is removed as a whole, so a message may stay ten minutes longer than it has to."""
_LENGTH = Struct("<I")


@dataclass
class _MessageBlock:
    """Refused messages of segments that were landed one after the other."""

    group: Group  # each row has the messages of one segment
    begin: int  # when the first segment was landed, microseconds since 1970
    end: int = 0  # when the last segment was landed
    numbers: list[int] = field(default_factory=list)  # of the segments, as the rows follow one another

    def has_room(self, time: int) -> bool:
        """Whether messages of one more segment may join, at a time in microseconds since 1970."""
        small = len(self.numbers) < _ROWS and self.group.size < _BYTES
        return small and time - self.begin < _OPEN_MICROS

    def put(self, rows: Transaction) -> None:
        """Write the row of the small table."""
        rows.put(REFUSED, self.group.number, json.dumps(write_fields(self)).encode())


class RefusedMessages:
    """All refused messages that are still kept, by the number of their segment."""

    def __init__(self, contents: Iterable[bytes]) -> None:
        """From the rows of the small table, in the order of their keys."""
        self._blocks = [read_fields(_MessageBlock, json.loads(content)) for content in contents]
        """In the order of their segments."""

    def read(self, rows: Transaction, number: int) -> list[RefusedMessage]:
        """The refused messages of a segment that no replay has admitted; none for an unknown segment."""
        block = self._find(number)
        return [] if block is None else _unpack(block.group.read(rows)[block.numbers.index(number)])

    def add(
        self,
        rows: Transaction,
        number: int,
        segment: Segment,
        new_key: Callable[[], int],
    ) -> None:
        """Keep the refused messages of a segment."""
        # Not the watermark alone: messages after an outage would be removed as soon as it has passed them.
        time = max(segment.watermark, segment.now)
        if not self._blocks or not self._blocks[-1].has_room(time):
            self._blocks.append(_MessageBlock(Group(new_key()), time))
        block = self._blocks[-1]
        block.group.add(rows, _pack(segment.refused))
        block.numbers.append(number)
        block.end = max(block.end, time)
        block.put(rows)

    def take_up(self, rows: Transaction, replayed: Collection[Place]) -> None:
        """Remove messages that a replay has admitted."""
        for number in sorted({number for number, _ in replayed}):
            block = self._find(number)
            if block is not None:
                left = [one for one in self.read(rows, number) if (number, one.place) not in replayed]
                block.group.replace(rows, block.numbers.index(number), _pack(left))
                block.put(rows)

    def remove(self, rows: Transaction, horizon: int) -> None:
        """Remove blocks that ended by a time; if they are large, some now and the others later."""
        removed = 0
        while self._blocks and self._blocks[0].end <= horizon and removed < AT_ONCE:
            block = self._blocks[0]
            removed += block.group.size
            # A segment may be larger than what one change should remove. It has one row.
            while not block.group.shrink(rows):
                pass
            rows.remove(REFUSED, block.group.number)
            del self._blocks[0]

    def _find(self, number: int) -> _MessageBlock | None:
        place = bisect_right(self._blocks, number, key=lambda block: block.numbers[0])
        block = self._blocks[place - 1] if place else None
        return block if block is not None and number in block.numbers else None


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
