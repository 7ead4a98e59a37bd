"""Where the local engine keeps what it has read: segments on disk, each whole or not there.

A segment is one batch of messages, already judged: the columns that were admitted, and the entries of the
accounting. It is forced to disk before the messages are acknowledged, so a crash loses nothing;
what is delivered again after a crash is dropped as a repeat, by its report ids.

Segments are merged as they become many, so that their number grows with the logarithm of what was landed: a
merged one takes the place of the newest it is made of by one rename, and says which numbers it stands for.

Messages with a rejected report are kept as they came beside it, in a file of reports like any other: the
table of rejects points into it, and ``ldpbeam replay`` reads it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ldpbeam.accounting import Key
from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.durable.errors import HeldError
from ldpbeam.durable.folder import sync_above
from ldpbeam.durable.lock import Lock
from ldpbeam.engine.storage.segment import EpochKey, Segment, encode_segment, read_header, read_segment
from ldpbeam.errors import LdpError, Reason, disk_error
from ldpbeam.reports import Admission, ReportColumns, admit_frames, by_epoch
from ldpbeam.transforms.sinks.atomic import keep_private
from ldpbeam.transforms.sinks.rejects import write_rejects
from ldpbeam.wire import codec

FOLDER = "landing"
"""Where it is, below the output directory."""
_TAKEN = "taken.json"
_MERGED_BYTES = 64 << 20
"""Size of a merged segment, at most: what has to be held while it is made."""


class Landing:
    """The segments below an output directory."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._folder = Path(output, FOLDER)
        self._lock = Lock(self._folder / "lock")

    def lock(self) -> None:
        """Keep other engines away for as long as this process lives, or until :meth:`unlock`.

        Raises:
            LdpError: another engine works here.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        sync_above(self._folder)  # else the folder could go with all that is in it
        self._folder.chmod(0o700)  # reports as they came, with their ids: for nobody else, whatever the umask
        try:
            self._lock.acquire()
        except OSError as error:
            raise disk_error(error, str(self._folder / "lock")) or error from None
        except HeldError:
            raise LdpError(
                "E-STREAM-BUSY",
                "another run or replay works on this output",
                where=self._output,
                remedy="Stop it first (SIGTERM drains it), or choose another --output.",
            ) from None

    def unlock(self) -> None:
        """Let others in."""
        self._lock.release()

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

        ``booked`` is the highest number that the accounting names.

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
        taken: tuple[tuple[str, int], ...] = (),
    ) -> Segment:
        """Judge messages and keep the outcome; on return it is on disk.

        Args:
            number: of the new segment.
            messages: each one Report or ReportBatch.
            arrivals: when each arrived, microseconds since 1970.
            collections: by digest.
            watermark: epochs that closed by then are closed for these messages, whenever they arrived.
            closed: epochs that were published as closed; they stay so if the lateness allowed grows later.
            unstamped, taken: for the record.
        """
        found = codec.joined(messages)
        when = np.maximum(np.array(arrivals, np.int64), watermark)
        admission = Admission()
        admit_frames(found, collections, "", admission, arrivals=when)
        _leave_closed(admission, closed)
        self._keep_refused(number, messages, found, admission)
        # Without the empty ones: an epoch of which nothing was read has no accounting.
        entries = tuple(entry for entry in admission.entries() if entry[1])
        segment = Segment(number, watermark, len(messages), unstamped, entries, (), taken=taken)
        return self.write(segment, admission.admitted)

    def write(self, segment: Segment, admitted: Sequence[ReportColumns]) -> Segment:
        """Put a segment with these columns in place; on return it is on disk."""
        return self._put(segment, [(columns, segment.number) for columns in by_epoch(admitted)])

    def _put(self, segment: Segment, columns: Iterable[tuple[Sequence[ReportColumns], int]]) -> Segment:
        parts, segment = encode_segment(segment, columns)
        keep_private(self._output, f"{FOLDER}/{self.path(segment.number).name}", parts)
        return segment

    def merge(
        self,
        parts: Sequence[Segment],
        booked_segment: Callable[[Key], int],
        is_gone: Callable[[EpochKey], bool],
    ) -> Segment:
        """One segment in place of several that follow one another.

        Args:
            parts: two or more, in order, with none between them.
            booked_segment: the last segment that the published accounting of a key contains. Entries that it
                contains are left out: nobody asks for them again.
            is_gone: whether an epoch will not be counted again; its reports are left out.
        """
        last = parts[-1]
        entries: Counter[tuple[Key, str]] = Counter()
        pieces: dict[EpochKey, list[ReportColumns]] = {}
        newest: dict[EpochKey, int] = {}
        for part in parts:
            for (key, what), count in part.entries:
                if part.number > booked_segment(key):
                    entries[key, what] += count
            kept = frozenset(key for key in part.by_key if not is_gone(key))
            for columns in read_segment(self.path(part.number), kept):
                key = (digest_hex(columns.digest), columns.epoch)
                pieces.setdefault(key, []).append(columns)
                newest[key] = part.by_key[key].newest_segment
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
        merged = self._put(merged, ((some, newest[key]) for key, some in sorted(pieces.items())))
        for part in parts[:-1]:
            self.path(part.number).unlink(missing_ok=True)
        return merged

    def _refused(self, number: int) -> bool:
        return (self._folder / f"refused-{number:010d}.json").is_file()

    def taken(self) -> dict[str, int]:
        """What :meth:`keep_taken` has noted last.

        Raises:
            LdpError: it is damaged.
        """
        path = self._folder / _TAKEN
        try:
            return {str(name): int(end) for name, end in json.loads(path.read_text())["taken"].items()}
        except FileNotFoundError:
            return {}
        except (ValueError, LookupError, AttributeError, TypeError):
            raise LdpError(
                "E-LANDING-DAMAGED",
                "the list of the files that were taken is damaged",
                where=str(path),
                remedy="Restore it from a backup: without it files would be read again.",
            ) from None

    def keep_taken(self, taken: Mapping[str, int]) -> None:
        """Note how far files of reports were taken, bytes by name, before segments that say so go."""
        keep_private(self._output, f"{FOLDER}/{_TAKEN}", [json.dumps({"taken": taken}).encode()])

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
        for reason, places in admission.rejected_places:
            reasons.update(dict.fromkeys(index_of(places).tolist(), reason))
        begins: dict[int, int] = {}
        content: list[bytes] = []
        at = 0
        for index in sorted(reasons):
            framed = codec.framed(messages[index])
            begins[index] = at + len(framed) - len(messages[index])
            content.append(framed)
            at += len(framed)
        keep_private(self._output, name, content)
        listing = [[begins[index], len(messages[index]), reasons[index].value] for index in sorted(reasons)]
        keep_private(self._output, name.replace(".pb", ".json"), [json.dumps(listing).encode()])
        moved = [replace(r, source=name, place=begins[int(index_of(r.place))]) for r in admission.rejections]
        write_rejects(self._output, f"rejects-segment-{number:010d}", moved)


def _leave_closed(admission: Admission, closed: Container[EpochKey]) -> None:
    """Count as late what was admitted of closed epochs, whose reports may be gone already."""
    for columns in admission.admitted:
        key = (digest_hex(columns.digest), columns.epoch)
        if key in closed:
            admission.late[key] += len(columns)
    admission.admitted = [c for c in admission.admitted if (digest_hex(c.digest), c.epoch) not in closed]


def mergeable(segments: Iterable[Segment], at_least: int) -> list[Segment]:
    """The oldest segments, in order, that follow one another and were merged equally often.

    As many as make one segment of a size that can be held in memory; none where there are not ``at_least``.
    """
    best: list[Segment] = []
    run: list[Segment] = []
    for segment in (*segments, None):
        fits = segment is not None and segment.size < _MERGED_BYTES // 2
        if segment is not None and fits and (not run or run[-1].level == segment.level):
            run.append(segment)
            continue
        if len(run) >= at_least and (not best or run[0].level < best[0].level):
            best = run
        run = [segment] if segment is not None and fits else []
    size, chosen = 0, []
    for segment in best:
        size += segment.size
        if size > _MERGED_BYTES:
            break
        chosen.append(segment)
    return chosen
