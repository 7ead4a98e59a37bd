"""A folder of reports as a source of the local engine: files that appear are taken once, in order of arrival.

How far each file was taken is in the segment that holds its reports, so both are on disk or neither is. A
file is whole when it appears, as ``ldpbeam collect`` writes it, and is not changed after that.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError

from ldpbeam.engine.sources.source import MessageSource
from ldpbeam.errors import UsageError
from ldpbeam.kernels import framing
from ldpbeam.records.journal import JOURNAL_PREFIX, REPORT_SUFFIX, started
from ldpbeam.wire import codec, report_pb2

_MICROS = 1_000_000
_LAST_SECOND = 253_402_300_799
_READ_BYTES = 4 << 20
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class FileRecordMessage:
    """A record of a file, as the engine takes messages."""

    data: bytes
    arrival_micros: int
    stamped: bool
    published_micros: int
    name: str
    end: int


@dataclass
class _UnfinishedFile:
    """A file that is not taken whole: its length, when it was written, and how far it was taken."""

    path: Path
    size: int
    written: int
    at: int


class WatchedFolder(MessageSource[FileRecordMessage]):
    """A folder, and the folders in it: each may be the output of a collector."""

    def __init__(
        self,
        folder: str,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Watch a folder of this machine."""
        self._folder = Path(folder)
        if not self._folder.is_dir():
            raise UsageError(
                "E-USAGE-INPUT",
                f"{folder} is no folder",
                remedy="Give --watch the folder that ldpbeam collect writes to; make it first.",
            )
        self._wall, self._steady, self._pause = wall, steady, pause
        self._began = round(wall() * _MICROS)
        self._taken: dict[str, int] = {}
        self._whole: set[str] = set()
        self._there: set[str] = set()
        self._waiting: dict[str, _UnfinishedFile] = {}
        self._missing_from = 0
        self._readable = True
        self._scanned = False

    def resume(self, taken: Mapping[str, int]) -> None:
        """Leave out what earlier engines took: bytes of each file, by its name relative to the folder."""
        self._taken = dict(taken)

    def pull(self, limit_messages: int, limit_bytes: int, timeout_seconds: float) -> list[FileRecordMessage]:
        """Records in the order of the files' names."""
        until = self._steady() + timeout_seconds
        while True:
            if not self._waiting:
                self._scan()
            some = list(self._records(limit_messages, limit_bytes))
            left = until - self._steady()
            if some or left <= 0:
                return some
            self._pause(min(left, _POLL_SECONDS))

    def acknowledge(self, messages: Sequence[FileRecordMessage]) -> None:
        """Nothing to do: the segment says what was taken."""

    def taken(self, messages: Sequence[FileRecordMessage]) -> tuple[tuple[str, int], ...]:
        """Up to the end of each file's last message."""
        return tuple({message.name: message.end for message in messages}.items())

    def exists(self, name: str) -> bool:
        """Whether a file was there when the folder was last read; where it was not, all are."""
        return name in self._there or not (self._readable and self._scanned)

    def connected(self) -> bool:
        """Whether the folder can be read."""
        return self._readable

    def missing_from(self) -> int:
        """The earliest arrival of all that is waiting."""
        return min([self._missing_from, *(self._arrivals_of(name) for name in self._waiting)])

    def _arrivals_of(self, name: str) -> int:
        second = started(name.rpartition("/")[2])
        return self._waiting[name].written if second is None else second * _MICROS

    def _scan(self) -> None:
        """Find files that were not taken. Journals first: what is finished meanwhile is found as a file."""
        missing_from = round(self._wall() * _MICROS)
        try:
            for _, names in _listed(self._folder):
                for name in names:
                    if name.startswith(JOURNAL_PREFIX) and (second := started(name)) is not None:
                        missing_from = min(missing_from, second * _MICROS)
            listed = _listed(self._folder)
        except OSError:
            self._readable = False
            return
        self._missing_from, self._readable, self._scanned = missing_from, True, True
        self._there.clear()
        files: dict[str, _UnfinishedFile] = {}
        for folder, names in listed:
            for plain in names:
                if plain.startswith(".") or not plain.endswith(REPORT_SUFFIX):
                    continue
                name = (folder / plain).relative_to(self._folder).as_posix()
                self._there.add(name)
                if name not in self._whole and (file := self._look(folder / plain, name)) is not None:
                    files[name] = file
        self._whole &= self._there
        self._waiting = dict(sorted(files.items(), key=lambda item: (item[0].rpartition("/")[2], item[0])))

    def _look(self, path: Path, name: str) -> _UnfinishedFile | None:
        """A file that is not taken whole."""
        try:
            about = path.stat()
        except FileNotFoundError:
            return None
        at = self._taken.get(name, 0)
        if not stat.S_ISREG(about.st_mode) or at >= about.st_size:
            self._whole.add(name)
            return None
        return _UnfinishedFile(path, about.st_size, about.st_mtime_ns // 1000, at)

    def _records(self, limit_messages: int, limit_bytes: int) -> Iterator[FileRecordMessage]:
        """Records of waiting files within the limits."""
        size = messages = 0
        while self._waiting:
            name, file = next(iter(self._waiting.items()))
            for data, end in self._next_records(file):
                if messages and (messages >= limit_messages or size + len(data) > limit_bytes):
                    return
                yield self._message(name, file, data, end)
                file.at = end
                messages, size = messages + 1, size + len(data)
            if file.at >= file.size:
                self._taken[name] = file.size
                self._whole.add(name)
                del self._waiting[name]

    def _next_records(self, file: _UnfinishedFile) -> list[tuple[bytes, int]]:
        """Some records of a file from where it was taken to, and where each ends; never none."""
        for wanted in (_READ_BYTES, codec.MAX_RECORD + 16):
            try:
                with file.path.open("rb") as handle:
                    handle.seek(file.at)
                    piece = handle.read(wanted)
            except FileNotFoundError:
                return [(b"", file.size)]
            frames = codec.frames(np.frombuffer(piece, np.uint8))
            records = [
                (piece[at : at + length], file.at + at + length)
                for at, length in zip(frames.offsets.tolist(), frames.lengths.tolist(), strict=True)
            ]
            if frames.status == framing.OVERSIZE:
                records.append((b"", min(file.at + frames.end + frames.size, file.size)))
            elif frames.status == framing.EMPTIES:
                records.append((b"", file.at + frames.end))
            elif frames.status == framing.BAD_LENGTH or (
                frames.status == framing.NEED_MORE
                and frames.end < len(piece)
                and file.at + len(piece) >= file.size
            ):
                records.append((b"", file.size))  # nothing says where another record begins
            if records:
                return records
        return [(b"", file.size)]

    def _message(self, name: str, file: _UnfinishedFile, data: bytes, end: int) -> FileRecordMessage:
        try:
            arrival = report_pb2.ReportBatch.FromString(data).arrival
        except DecodeError:
            arrival = 0
        stamped = 0 < arrival <= _LAST_SECOND
        return FileRecordMessage(
            data,
            arrival * _MICROS if stamped else file.written,
            stamped,
            max(file.written, self._began),
            name,
            end,
        )


def _listed(folder: Path) -> list[tuple[Path, list[str]]]:
    """The names in a folder, and in each folder in it."""
    inside = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir()]
    return [(each, [entry.name for entry in os.scandir(each)]) for each in (folder, *inside)]
