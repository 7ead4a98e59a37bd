"""Where the local engine keeps what it has read: segments on disk, each whole or not there.

A segment is one draught of messages, already judged: the columns that were admitted, and the entries for the
books. It is forced to disk before the broker is told to forget the messages, so nothing is lost by a crash;
what is delivered again after one is dropped as a repeat by its report ids.

Messages with a rejected report are kept as they came beside it, in a file of reports like any other: the
table of rejects points into it, and ``ldpbeam replay`` reads it.
"""

from __future__ import annotations

import fcntl
import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from ldp.accounting import Entry
from ldp.collection import Collection, digest_hex
from ldp.errors import LdpError, Reason
from ldp.reports import Admission, ReportColumns, admit_frames
from ldp.wire import codec
from transforms.coders import ReportColumnsCoder
from transforms.files import publish
from transforms.rejects import write_rejects

__all__ = ["EpochKey", "Landing", "Segment", "read_segment"]

EpochKey = tuple[str, int]
"""(digest, epoch)."""

FOLDER = "landing"
_MAGIC = b"LDPSEG1\n"
_LENGTH = struct.Struct("<Q")
_CHECK = struct.Struct("<I")


@dataclass(frozen=True)
class Segment:
    """What a segment holds, without the columns.

    Attributes:
        number: position among the segments, from 1.
        watermark: of the engine when it was landed, microseconds since 1970.
        messages: how many.
        unstamped: how many had no readable timestamp attribute, where one was asked for.
        replayed: (segment, place) of refused messages that it takes up again.
        entries: for the books.
        blocks: (digest, epoch, reports, offset, length) of encoded columns.
        size: bytes of the file.
    """

    number: int
    watermark: int
    messages: int
    unstamped: int
    entries: tuple[Entry, ...]
    blocks: tuple[tuple[str, int, int, int, int], ...]
    size: int = 0
    replayed: tuple[tuple[int, int], ...] = ()

    @property
    def keys(self) -> frozenset[EpochKey]:
        """Epochs of which it holds reports."""
        return frozenset((digest, epoch) for digest, epoch, *_ in self.blocks)


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
        for pattern in ("*/*.tmp", "run.json.*.tmp"):
            for path in Path(self._output).glob(pattern):
                path.unlink()
        found = [read_header(path) for path in sorted(self._folder.glob("segment-*.seg"))]
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
        closed: frozenset[EpochKey] = frozenset(),
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
        blocks: list[tuple[str, int, int, int, int]] = []
        parts: list[bytes] = []
        at = 0
        for columns in together(admitted):
            encoded = coder.encode(columns)
            blocks.append((digest_hex(columns.digest), columns.epoch, len(columns), at, len(encoded)))
            parts.append(encoded)
            at += len(encoded)
        segment, body = replace(segment, blocks=tuple(blocks)), b"".join(parts)
        header = {
            "number": segment.number,
            "watermark": segment.watermark,
            "messages": segment.messages,
            "unstamped": segment.unstamped,
            "entries": [[digest, epoch, what, n] for ((digest, epoch), what), n in segment.entries],
            "blocks": segment.blocks,
            "replayed": segment.replayed,
        }
        text = json.dumps(header).encode()
        whole = b"".join([_MAGIC, _LENGTH.pack(len(text)), text, body])
        name = f"{FOLDER}/{self.path(segment.number).name}"
        publish(self._output, name, whole + _CHECK.pack(zlib.crc32(whole)), private=True)
        return replace(segment, size=len(whole) + _CHECK.size)

    def remove(self, number: int) -> None:
        """Delete a segment that nobody needs any more, and what was refused with it."""
        for suffix in ("pb", "json"):
            (self._folder / f"refused-{number:010d}.{suffix}").unlink(missing_ok=True)
        self.path(number).unlink(missing_ok=True)

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


def _leave_closed(admission: Admission, closed: frozenset[EpochKey]) -> None:
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


def _checked(path: Path) -> bytes:
    whole = path.read_bytes()
    sound = len(whole) > len(_MAGIC) + _LENGTH.size + _CHECK.size and whole.startswith(_MAGIC)
    if not sound or zlib.crc32(whole[: -_CHECK.size]) != _CHECK.unpack(whole[-_CHECK.size :])[0]:
        raise LdpError(
            "E-LANDING-DAMAGED",
            "the segment is damaged, and so are counts made from it",
            where=str(path),
            remedy="Restore it from a backup: without it its epochs cannot be counted again.",
        )
    return whole


def read_header(path: Path) -> Segment:
    """What a segment holds.

    Raises:
        LdpError: it is damaged.
    """
    return _parse(_checked(path))[0]


def _parse(whole: bytes) -> tuple[Segment, int]:
    (length,) = _LENGTH.unpack_from(whole, len(_MAGIC))
    begin = len(_MAGIC) + _LENGTH.size
    header = json.loads(whole[begin : begin + length])
    entries = tuple((((d, None if e is None else int(e)), w), n) for d, e, w, n in header["entries"])
    blocks = tuple((d, e, n, at, size) for d, e, n, at, size in header["blocks"])
    segment = Segment(
        header["number"],
        header["watermark"],
        header["messages"],
        header["unstamped"],
        entries,
        blocks,
        len(whole),
        tuple((number, place) for number, place in header["replayed"]),
    )
    return segment, begin + length


def read_segment(path: Path, keys: frozenset[EpochKey]) -> list[ReportColumns]:
    """Columns of some epochs.

    Raises:
        LdpError: the segment is damaged.
    """
    whole = _checked(path)
    segment, body = _parse(whole)
    coder = ReportColumnsCoder()
    return [
        coder.decode(whole[body + at : body + at + size])
        for digest, epoch, _, at, size in segment.blocks
        if (digest, epoch) in keys
    ]
