"""A segment: what the local engine has landed together, as one file with checksums.

The file begins with a header that can be read alone: who the reports are from, what was booked with them, and
where the columns of each epoch lie. Header and columns have checksums of their own, so that reading one epoch
neither reads nor trusts the others.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

import google_crc32c

from ldpbeam.accounting import Entry
from ldpbeam.collection.collection import digest_hex
from ldpbeam.errors import LdpError
from ldpbeam.reports import ReportColumns
from ldpbeam.transforms.coders import ReportColumnsCoder

EpochKey = tuple[str, int]
"""(digest, epoch)."""


def _crc32c(data: Any, before: int = 0) -> int:
    """CRC-32C of bytes that follow others: processors compute it, ten times as fast as CRC-32."""
    checksum: int = google_crc32c.extend(before, data)
    return checksum


_MAGIC = b"LDPSEG3\n"
_CHECKSUMS: dict[bytes, Callable[[Any], int]] = {_MAGIC: _crc32c, b"LDPSEG2\n": zlib.crc32}
"""By how a file begins: what an engine before this one has landed is read as well."""
_LENGTH = struct.Struct("<Q")
_CHECK = struct.Struct("<I")
_NUMBERS = ("number", "first", "level", "watermark", "messages", "unstamped")
"""Fields that the header has as they are."""


class Block(NamedTuple):
    """Where the columns of one epoch lie.

    Attributes:
        digest, epoch: whose they are.
        reports: how many.
        offset, length: bytes, from where the columns of the file begin.
        newest_segment: number of the newest segment that some of them were landed in.
        checksum: CRC-32C of the encoded columns; CRC-32 in a file of an earlier version.
    """

    digest: str
    epoch: int
    reports: int
    offset: int
    length: int
    newest_segment: int
    checksum: int


@dataclass(frozen=True)
class Segment:
    """What a segment holds, without the columns.

    Attributes:
        number: position among the segments, from 1; of a merged one the last that it is made of.
        watermark: of the engine when it was landed, microseconds since 1970.
        messages: how many.
        unstamped: how many had no readable timestamp attribute, where one was asked for.
        replayed: (segment, place) of refused messages that it takes up again.
        entries: of the accounting; in a merged one, those that were not published when it was merged.
        blocks: encoded columns, one per collection and epoch.
        size: bytes of the file.
        first: the first number that it stands for.
        level: how often it was merged.
        taken: of files, how many bytes had been taken when it was landed, by name; see
            :class:`ldpbeam.engine.sources.watched_folder.WatchedFolder`.
    """

    number: int
    watermark: int
    messages: int
    unstamped: int
    entries: tuple[Entry, ...]
    blocks: tuple[Block, ...]
    size: int = 0
    replayed: tuple[tuple[int, int], ...] = ()
    first: int = 0
    level: int = 0
    taken: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        """One that is not merged stands for itself."""
        if not self.first:
            object.__setattr__(self, "first", self.number)

    @cached_property
    def keys(self) -> frozenset[EpochKey]:
        """Epochs of which it holds reports."""
        return frozenset(self.by_key)

    @cached_property
    def by_key(self) -> dict[EpochKey, Block]:
        """Blocks by epoch."""
        return {(block.digest, block.epoch): block for block in self.blocks}

    @cached_property
    def latest(self) -> dict[str, int]:
        """The last epoch of each collection."""
        found: dict[str, int] = {}
        for digest, epoch in self.by_key:
            found[digest] = max(epoch, found.get(digest, epoch))
        return found


def encode_segment(
    segment: Segment, columns: Iterable[tuple[Sequence[ReportColumns], int]]
) -> tuple[list[Any], Segment]:
    """Content of the file of a segment in parts, and the segment with its blocks and its size.

    Args:
        segment: without blocks.
        columns: all of each epoch, and the newest segment that some of them were landed in. Parts of the
            content are views of them.
    """
    blocks: list[Block] = []
    bodies: list[Any] = []
    offset = 0
    for some, newest in columns:
        body = ReportColumnsCoder.views(some)
        length, checksum = 0, 0
        for part in body:
            length, checksum = length + len(part), _crc32c(part, checksum)
        place = digest_hex(some[0].digest), some[0].epoch, sum(map(len, some)), offset, length
        blocks.append(Block(*place, newest, checksum))
        bodies += body
        offset += length
    header = {
        **{name: getattr(segment, name) for name in _NUMBERS},
        "entries": [[digest, epoch, what, n] for ((digest, epoch), what), n in segment.entries],
        "blocks": blocks,
        "replayed": segment.replayed,
        **({"taken": segment.taken} if segment.taken else {}),
    }
    text = json.dumps(header).encode()
    head = b"".join([_MAGIC, _LENGTH.pack(len(text)), text])
    head += _CHECK.pack(_crc32c(head))
    return [head, *bodies], replace(segment, blocks=tuple(blocks), size=len(head) + offset)


def read_header(path: Path) -> Segment:
    """What a segment holds; its columns are checked when they are read.

    Raises:
        LdpError: it is damaged, or not as long as it says.
    """
    with path.open("rb") as handle:
        return _parse(path, handle)[0]


def read_segment(path: Path, keys: frozenset[EpochKey]) -> list[ReportColumns]:
    """Columns of some epochs; nothing else of the file is read.

    Raises:
        LdpError: the header or one of these columns is damaged.
    """
    coder, found = ReportColumnsCoder(), []
    with path.open("rb") as handle:
        segment, begin, checksum = _parse(path, handle)
        for block in segment.blocks:
            if (block.digest, block.epoch) in keys:
                handle.seek(begin + block.offset)
                body = handle.read(block.length)
                if checksum(body) != block.checksum:
                    raise _damaged(path)
                found.append(coder.decode(body))
    return found


def _parse(path: Path, handle: IO[bytes]) -> tuple[Segment, int, Callable[[Any], int]]:
    """The header, where the columns begin, and what their checksums are computed with."""
    magic, packed = handle.read(len(_MAGIC)), handle.read(_LENGTH.size)
    checksum = _CHECKSUMS.get(magic)
    if checksum is None or len(packed) != _LENGTH.size:
        raise _damaged(path)
    (length,) = _LENGTH.unpack(packed)
    size = path.stat().st_size
    begin = len(_MAGIC) + _LENGTH.size + length + _CHECK.size
    if begin > size:
        raise _damaged(path)
    text, check = handle.read(length), handle.read(_CHECK.size)
    if checksum(magic + packed + text) != _CHECK.unpack(check)[0]:
        raise _damaged(path)
    header = json.loads(text)
    blocks = tuple(Block(*fields) for fields in header["blocks"])
    if begin + sum(block.length for block in blocks) != size:
        raise _damaged(path)
    entries = tuple((((digest, epoch), what), n) for digest, epoch, what, n in header["entries"])
    replayed = tuple((number, place) for number, place in header["replayed"])
    taken = tuple((name, length) for name, length in header.get("taken", ()))
    numbers = {name: header[name] for name in _NUMBERS}
    segment = Segment(**numbers, entries=entries, blocks=blocks, size=size, replayed=replayed, taken=taken)
    return segment, begin, checksum


def _damaged(path: Path) -> LdpError:
    return LdpError(
        "E-LANDING-DAMAGED",
        "the segment is damaged, and so are counts made from it",
        where=str(path),
        remedy="Restore it from a backup: without it its epochs cannot be counted again.",
    )
