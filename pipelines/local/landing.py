"""Where the local engine keeps what it has read: segments on disk, each whole or not there.

A segment is one draught of messages, already judged: the columns that were admitted, and the entries for the
books. It is forced to disk before the broker is told to forget the messages, so nothing is lost by a crash;
what is delivered again after one is dropped as a repeat by its report ids.

Segments are merged as they become many, so that their number grows with the logarithm of what was landed: a
merged one takes the place of the newest it is made of by one rename, and says which numbers it stands for.

Messages with a rejected report are kept as they came beside it, in a file of reports like any other: the
table of rejects points into it, and ``ldpbeam replay`` reads it.
"""

from __future__ import annotations

import fcntl
import json
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np

from ldpbeam.accounting import Entry, Key
from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.errors import LdpError, Reason
from ldpbeam.reports import Admission, ReportColumns, admit_frames
from ldpbeam.transforms.coders import ReportColumnsCoder
from ldpbeam.transforms.sinks.atomic import publish
from ldpbeam.transforms.sinks.rejects import write_rejects
from ldpbeam.wire import codec

__all__ = ["EpochKey", "Landing", "Segment", "read_segment"]

EpochKey = tuple[str, int]
"""(digest, epoch)."""

Block = tuple[str, int, int, int, int, int, int]
"""(digest, epoch, reports, offset, length, number of the newest segment with some of them, checksum)."""

FOLDER = "landing"
_MAGIC, _FIRST_MAGIC = b"LDPSEG2\n", b"LDPSEG1\n"
"""The format that is written; the one before it, with one checksum over everything, is still read."""
_LENGTH = struct.Struct("<Q")
_CHECK = struct.Struct("<I")


@dataclass(frozen=True)
class Segment:
    """What a segment holds, without the columns.

    Attributes:
        number: position among the segments, from 1; of a merged one the last that it is made of.
        watermark: of the engine when it was landed, microseconds since 1970.
        messages: how many.
        unstamped: how many had no readable timestamp attribute, where one was asked for.
        replayed: (segment, place) of refused messages that it takes up again.
        entries: for the books; in a merged one, those that were not booked when it was merged.
        blocks: encoded columns, one per collection and epoch.
        size: bytes of the file.
        first: the first number that it stands for.
        level: how often it was merged.
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
        return {(block[0], block[1]): block for block in self.blocks}

    @cached_property
    def latest(self) -> dict[str, int]:
        """The last epoch of each collection."""
        found: dict[str, int] = {}
        for digest, epoch in self.by_key:
            found[digest] = max(epoch, found.get(digest, epoch))
        return found


class Landing:
    """The segments below an output directory."""

    def __init__(self, output: str) -> None:
        """Use OUTPUT/landing."""
        self._output = output
        self._folder = Path(output, FOLDER)
        self._lock: IO[bytes] | None = None

    def lock(self) -> None:
        """Keep other engines away for as long as this process lives, or until :meth:`unlock`.

        Raises:
            LdpError: another engine works here.
        """
        if self._lock is not None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)  # reports as they came, with their ids: for nobody else, whatever the umask
        self._lock = (self._folder / "lock").open("wb")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.unlock()
            raise LdpError(
                "E-STREAM-BUSY",
                "another run or replay works on this output",
                where=self._output,
                remedy="Stop it first (SIGTERM drains it), or choose another --output.",
            ) from None

    def unlock(self) -> None:
        """Let others in."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other engines away for a block."""
        self.lock()
        try:
            yield
        finally:
            self.unlock()

    def path(self, number: int) -> Path:
        """File of a segment."""
        return self._folder / f"segment-{number:010d}.seg"

    def recover(self, booked: int) -> list[Segment]:
        """All segments in order, after what a crash left of an unfinished one has been removed.

        Args:
            booked: the highest number that the books know.

        Raises:
            LdpError: a segment is damaged.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        for pattern in ("*/*.tmp", "*/*/*.tmp", "run.json.*.tmp"):
            for path in Path(self._output).glob(pattern):
                path.unlink()
        found: list[Segment] = []
        for path in sorted(self._folder.glob("segment-*.seg"), reverse=True):
            number = int(path.stem.rpartition("-")[2])
            if found and number >= found[-1].first:
                path.unlink()  # a merged segment has taken its place
            else:
                found.append(read_header(path))
        found.reverse()
        last = max([booked, *(segment.number for segment in found)])
        for folder, pattern in (
            (self._folder, "refused-*.pb"),
            (self._folder, "refused-*.json"),
            (Path(self._output, "rejects"), "rejects-segment-*.parquet"),
        ):
            for path in folder.glob(pattern):
                if int(path.stem.rpartition("-")[2]) > last:
                    path.unlink()
        return found

    def land(
        self,
        number: int,
        messages: Sequence[bytes],
        arrivals: Sequence[int],
        collections: Mapping[int, Collection],
        *,
        watermark: int,
        closed: Container[EpochKey] = frozenset(),
        unstamped: int = 0,
    ) -> Segment:
        """Judge messages and keep the outcome; on return it is on disk.

        Args:
            number: of the new segment.
            messages: each one Report or ReportBatch.
            arrivals: when each arrived, microseconds since 1970.
            collections: by digest.
            watermark: epochs that closed by then are closed for these messages, whenever they arrived.
            closed: epochs that were published as closed; they stay so if the lateness allowed grows later.
            unstamped: for the record.
        """
        found = codec.joined(messages)
        when = np.maximum(np.array(arrivals, np.int64), watermark)
        admission = Admission()
        admit_frames(found, collections, "", admission, arrivals=when)
        _leave_closed(admission, closed)
        self._keep_refused(number, messages, found, admission)
        # Without the empty ones: an epoch of which nothing was read has no books.
        entries = tuple(entry for entry in admission.entries() if entry[1])
        segment = Segment(number, watermark, len(messages), unstamped, entries, ())
        return self.write(segment, admission.admitted)

    def write(self, segment: Segment, admitted: Sequence[ReportColumns]) -> Segment:
        """Put a segment with these columns in place; on return it is on disk."""
        coder = ReportColumnsCoder()
        whole = [
            (digest_hex(columns.digest), columns.epoch, segment.number, coder.encode(columns))
            for columns in together(admitted)
        ]
        return self._put(segment, whole)

    def _put(self, segment: Segment, whole: Sequence[tuple[str, int, int, bytes]]) -> Segment:
        """A file of (digest, epoch, newest number, encoded columns)."""
        blocks: list[Block] = []
        at = 0
        for digest, epoch, last, encoded in whole:
            reports = ReportColumnsCoder.reports(encoded)
            blocks.append((digest, epoch, reports, at, len(encoded), last, zlib.crc32(encoded)))
            at += len(encoded)
        header = {
            "number": segment.number,
            "first": segment.first,
            "level": segment.level,
            "watermark": segment.watermark,
            "messages": segment.messages,
            "unstamped": segment.unstamped,
            "entries": [[digest, epoch, what, n] for ((digest, epoch), what), n in segment.entries],
            "blocks": blocks,
            "replayed": segment.replayed,
        }
        text = json.dumps(header).encode()
        head = b"".join([_MAGIC, _LENGTH.pack(len(text)), text])
        content = b"".join([head, _CHECK.pack(zlib.crc32(head)), *(encoded for *_, encoded in whole)])
        publish(self._output, f"{FOLDER}/{self.path(segment.number).name}", content, private=True)
        return replace(segment, blocks=tuple(blocks), size=len(content))

    def merge(
        self,
        parts: Sequence[Segment],
        through: Callable[[Key], int],
        gone: Callable[[EpochKey], bool],
    ) -> Segment:
        """One segment in place of several that follow one another.

        Args:
            parts: two or more, in order, with none between them.
            through: the last segment that published books of a key contain. Entries that they contain are
                left out: nobody asks for them again.
            gone: whether an epoch will not be counted again; its reports are left out.
        """
        last = parts[-1]
        entries: Counter[tuple[Key, str]] = Counter()
        pieces: dict[EpochKey, list[ReportColumns]] = {}
        newest: dict[EpochKey, int] = {}
        for part in parts:
            for (key, what), count in part.entries:
                if part.number > through(key):
                    entries[key, what] += count
            kept = frozenset(key for key in part.by_key if not gone(key))
            for columns in read_segment(self.path(part.number), kept):
                key = (digest_hex(columns.digest), columns.epoch)
                pieces.setdefault(key, []).append(columns)
                newest[key] = part.by_key[key][5]
        merged = Segment(
            last.number,
            max(part.watermark for part in parts),
            sum(part.messages for part in parts),
            sum(part.unstamped for part in parts),
            tuple((key, count) for key, count in entries.items() if count),
            (),
            replayed=tuple(place for part in parts for place in part.replayed if self._refused(place[0])),
            first=parts[0].first,
            level=max(part.level for part in parts) + 1,
        )
        coder = ReportColumnsCoder()
        whole = [
            (*key, newest[key], coder.encode(columns))
            for key, some in sorted(pieces.items())
            for columns in together(some)
        ]
        merged = self._put(merged, whole)
        for part in parts[:-1]:
            self.path(part.number).unlink(missing_ok=True)
        return merged

    def _refused(self, number: int) -> bool:
        return (self._folder / f"refused-{number:010d}.json").is_file()

    def remove(self, segment: Segment) -> None:
        """Delete a segment that nobody needs any more, and what was refused with it."""
        if segment.first == segment.number:
            for suffix in ("pb", "json"):
                (self._folder / f"refused-{segment.number:010d}.{suffix}").unlink(missing_ok=True)
        else:
            for path in sorted(self._folder.glob("refused-*")):
                if segment.first <= int(path.stem.rpartition("-")[2]) <= segment.number:
                    path.unlink()
        self.path(segment.number).unlink(missing_ok=True)

    def _keep_refused(
        self, number: int, messages: Sequence[bytes], found: codec.Frames, admission: Admission
    ) -> None:
        """Messages with a rejection into a file of reports, rejections pointing into it into a table."""
        if not admission.rejections:
            return
        name = f"{FOLDER}/refused-{number:010d}.pb"

        def index_of(places: Any) -> Any:
            return np.searchsorted(found.offsets, places, "right") - 1

        reasons: dict[int, Reason] = {}
        for reason, places in admission.refused:
            reasons.update(dict.fromkeys(index_of(places).tolist(), reason))
        begins: dict[int, int] = {}
        content: list[bytes] = []
        at = 0
        for index in sorted(reasons):
            framed = codec.framed(messages[index])
            begins[index] = at + len(framed) - len(messages[index])
            content.append(framed)
            at += len(framed)
        publish(self._output, name, b"".join(content), private=True)
        listing = [[begins[index], len(messages[index]), reasons[index].value] for index in sorted(reasons)]
        publish(self._output, name.replace(".pb", ".json"), json.dumps(listing).encode(), private=True)
        moved = [replace(r, source=name, place=begins[int(index_of(r.place))]) for r in admission.rejections]
        write_rejects(self._output, f"rejects-segment-{number:010d}", moved)


def _leave_closed(admission: Admission, closed: Container[EpochKey]) -> None:
    """Book as late what was admitted of closed epochs, whose reports may be gone already."""
    for columns in admission.admitted:
        key = (digest_hex(columns.digest), columns.epoch)
        if key in closed:
            admission.late[key] += len(columns)
    admission.admitted = [c for c in admission.admitted if (digest_hex(c.digest), c.epoch) not in closed]


def together(admitted: Sequence[ReportColumns]) -> list[ReportColumns]:
    """One block of columns per collection and epoch."""
    groups: dict[tuple[int, int], list[ReportColumns]] = {}
    for columns in admitted:
        groups.setdefault((columns.digest, columns.epoch), []).append(columns)
    return [
        some[0]
        if len(some) == 1
        else ReportColumns(
            digest,
            epoch,
            np.concatenate([c.report_ids for c in some]),
            np.concatenate([c.payloads for c in some]),
        )
        for (digest, epoch), some in groups.items()
    ]


def _damaged(path: Path) -> LdpError:
    return LdpError(
        "E-LANDING-DAMAGED",
        "the segment is damaged, and so are counts made from it",
        where=str(path),
        remedy="Restore it from a backup: without it its epochs cannot be counted again.",
    )


def read_header(path: Path) -> Segment:
    """What a segment holds; its columns are checked when they are read.

    Raises:
        LdpError: it is damaged, or not as long as it says.
    """
    with path.open("rb") as handle:
        return _parse(path, handle)[0]


def _parse(path: Path, handle: IO[bytes]) -> tuple[Segment, int]:
    """The header, and where the columns begin."""
    magic = handle.read(len(_MAGIC))
    if magic == _FIRST_MAGIC:
        return _parse_first(path, magic + handle.read())
    packed = handle.read(_LENGTH.size)
    if magic != _MAGIC or len(packed) != _LENGTH.size:
        raise _damaged(path)
    (length,) = _LENGTH.unpack(packed)
    size = path.stat().st_size
    begin = len(_MAGIC) + _LENGTH.size + length + _CHECK.size
    if begin > size:
        raise _damaged(path)
    text, check = handle.read(length), handle.read(_CHECK.size)
    if zlib.crc32(magic + packed + text) != _CHECK.unpack(check)[0]:
        raise _damaged(path)
    header = json.loads(text)
    blocks = tuple((d, e, n, at, long, last, crc) for d, e, n, at, long, last, crc in header["blocks"])
    if begin + sum(block[4] for block in blocks) != size:
        raise _damaged(path)
    return _segment(header, blocks, size), begin


def _parse_first(path: Path, whole: bytes) -> tuple[Segment, int]:
    """A segment of the format before: one checksum at the end, over everything."""
    sound = len(whole) > len(_MAGIC) + _LENGTH.size + _CHECK.size
    if not sound or zlib.crc32(whole[: -_CHECK.size]) != _CHECK.unpack(whole[-_CHECK.size :])[0]:
        raise _damaged(path)
    (length,) = _LENGTH.unpack_from(whole, len(_MAGIC))
    begin = len(_MAGIC) + _LENGTH.size
    header = json.loads(whole[begin : begin + length])
    body = begin + length
    blocks = tuple(
        (d, e, n, at, long, header["number"], zlib.crc32(whole[body + at : body + at + long]))
        for d, e, n, at, long in header["blocks"]
    )
    return _segment(header, blocks, len(whole)), body


def _segment(header: Mapping[str, Any], blocks: tuple[Block, ...], size: int) -> Segment:
    return Segment(
        header["number"],
        header["watermark"],
        header["messages"],
        header["unstamped"],
        tuple((((d, None if e is None else int(e)), w), n) for d, e, w, n in header["entries"]),
        blocks,
        size,
        tuple((number, place) for number, place in header["replayed"]),
        header.get("first", header["number"]),
        header.get("level", 0),
    )


def read_segment(path: Path, keys: frozenset[EpochKey]) -> list[ReportColumns]:
    """Columns of some epochs; nothing else of the file is read.

    Raises:
        LdpError: the header or one of these columns is damaged.
    """
    coder, found = ReportColumnsCoder(), []
    with path.open("rb") as handle:
        segment, body = _parse(path, handle)
        for digest, epoch, _, at, length, _, check in segment.blocks:
            if (digest, epoch) in keys:
                handle.seek(body + at)
                encoded = handle.read(length)
                if zlib.crc32(encoded) != check:
                    raise _damaged(path)
                found.append(coder.decode(encoded))
    return found
