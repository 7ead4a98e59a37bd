"""Refused messages as they came, until a replay takes them up or nobody may ask for them any more.

Those of many segments lie together in a block, one row of ``content`` for each segment. One row of the small
table says where the rows of a block are, so that the small table stays small.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from struct import Struct

from ldpbeam.durable.store import Transaction
from ldpbeam.engine.storage.judged import Place, Refused, Segment
from ldpbeam.engine.storage.landing import AT_ONCE, REFUSED, Group
from ldpbeam.errors import Reason

_ROWS, _BYTES, _MICROS = 256, 4 << 20, 600 * 1_000_000
"""A block takes another segment below so many rows and bytes, and for so long after its first segment: it is
removed as a whole, so that a message stays for ten minutes more than it has to, at most."""
_LENGTH = Struct("<I")


@dataclass
class _Block:
    """Refused messages of segments that were landed one after the other."""

    group: Group  # of which each row has those of one segment
    begin: int  # when the first segment was landed, microseconds since 1970
    end: int = 0  # when the last one was
    numbers: list[int] = field(default_factory=list)  # of the segments, as the rows follow one another

    def has_room(self, time: int) -> bool:
        """Whether messages of one more segment may join."""
        small = len(self.numbers) < _ROWS and self.group.size < _BYTES
        return small and time - self.begin < _MICROS

    def put(self, rows: Transaction) -> None:
        """Write the row of the small table."""
        content = [self.begin, self.end, self.group.as_record(), self.numbers]
        rows.put(REFUSED, self.group.number, json.dumps(content).encode())

    @classmethod
    def unpack(cls, content: bytes) -> _Block:
        """The block that :meth:`put` wrote."""
        begin, end, group, numbers = json.loads(content)
        return cls(Group.from_record(group), begin, end, numbers)


class RefusedMessages:
    """All that were refused and are still there, by the number of their segment."""

    def __init__(self, blocks: Iterable[_Block] = ()) -> None:
        self._blocks = list(blocks)
        """In the order of their segments."""

    @classmethod
    def unpack(cls, contents: Iterable[bytes]) -> RefusedMessages:
        """From the rows of the small table, in the order of their keys."""
        return cls(map(_Block.unpack, contents))

    def __contains__(self, number: object) -> bool:
        """Whether there are messages of a segment, or were before a replay."""
        assert isinstance(number, int)  # noqa: S101 - of a segment
        return self._find(number) is not None

    def read(self, rows: Transaction, number: int) -> list[Refused]:
        """What was refused with a segment and not taken up; none where there is no such segment.

        Raises:
            DamageError: its block is damaged.
        """
        block = self._find(number)
        return [] if block is None else _unpack(block.group.read(rows)[block.numbers.index(number)])

    def add(
        self,
        rows: Transaction,
        number: int,
        segment: Segment,
        new_key: Callable[[], int],
    ) -> None:
        """Keep what was refused with a segment; a new block has a new key."""
        # Not the watermark alone: what comes after an outage would be removed as soon as it is overtaken.
        time = max(segment.watermark, segment.now)
        if not self._blocks or not self._blocks[-1].has_room(time):
            self._blocks.append(_Block(Group(new_key()), time))
        block = self._blocks[-1]
        block.group.add(rows, _pack(segment.refused))
        block.numbers.append(number)
        block.end = max(block.end, time)
        block.put(rows)

    def take_up(self, rows: Transaction, replayed: Collection[Place]) -> None:
        """Some are no longer refused.

        Raises:
            DamageError: a block is damaged.
        """
        for number in sorted({number for number, _ in replayed}):
            block = self._find(number)
            if block is not None:
                left = [one for one in self.read(rows, number) if (number, one.place) not in replayed]
                block.group.replace(rows, block.numbers.index(number), _pack(left))
                block.put(rows)

    def remove(self, rows: Transaction, horizon: int) -> None:
        """Remove blocks that are older; of many some, the rest later.

        Args:
            rows: of the change.
            horizon: microseconds since 1970.

        Raises:
            DamageError: a block is damaged.
        """
        removed = 0
        while self._blocks and self._blocks[0].end <= horizon and removed < AT_ONCE:
            block = self._blocks[0]
            removed += block.group.size
            # A segment may be larger than what one change should remove. It has one row.
            while not block.group.shrink(rows):
                pass
            rows.remove(REFUSED, block.group.number)
            del self._blocks[0]

    def _find(self, number: int) -> _Block | None:
        place = bisect_right(self._blocks, number, key=lambda block: block.numbers[0])
        block = self._blocks[place - 1] if place else None
        return block if block is not None and number in block.numbers else None


def _pack(refused: Iterable[Refused]) -> bytes:
    listing: list[tuple[int, int, int, str]] = []
    content: list[bytes] = []
    offset = 0
    for one in refused:
        listing.append((one.place, offset, len(one.message), one.reason.value))
        content.append(one.message)
        offset += len(one.message)
    head = json.dumps(listing).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *content])


def _unpack(content: bytes) -> list[Refused]:
    begin = _LENGTH.size + _LENGTH.unpack_from(content)[0]
    found = []
    for place, offset, length, reason in json.loads(content[_LENGTH.size : begin]):
        message = content[begin + offset : begin + offset + length]
        found.append(Refused(place, Reason(reason), message))
    return found
