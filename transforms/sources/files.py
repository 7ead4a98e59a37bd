"""Before stage 1, sources: files become chunks of whole records. Whatever is in a file, reading it ends well.

A chunk is a few megabytes with the places of its records, so that later steps work on columns. A file that
is empty, truncated or not readable in its format becomes a rejection, not an exception. Whatever a file
stands for, no more is read of it than :class:`ReadLimits` allows for its size, piece by piece.
"""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Iterator

import apache_beam as beam
import numpy as np
import zstandard
from apache_beam.io.filesystem import FileMetadata

from ldpbeam.admission import MICROS, Written
from ldpbeam.arrays import Bytes, read_only
from ldpbeam.errors import Reason
from ldpbeam.kernels import framing
from ldpbeam.wire.codec import bytes_missing, frames

from .chunks import FREE_BYTES, BadSource, Chunk, Piece, ReadLimits, ReportTable
from .formats import GZIP, PARQUET, SAMPLE, is_zstd, unread_format, unread_inside
from .stored_file import StoredFile, printable

_CHUNK = 4 << 20
_FED = 256  # bytes of zstd at a time: a few may stand for 30,000 times as many
_WINDOW = 8 << 20  # bytes a zstd frame may look back, as every level but the ultra ones keeps to

_progress = 0


def bytes_read() -> int:
    """Stored bytes read so far by this process, for a progress display; no result depends on it."""
    return _progress


def _count_progress(size: int) -> None:
    global _progress  # noqa: PLW0603 - a display counter, see bytes_read
    _progress += size


class _TooMuch(Exception):  # noqa: N818 - a signal inside this module
    """A file stands for more than it may."""


class _Unread(Exception):  # noqa: N818 - a signal inside this module
    """A file has a format that is not read; the text says which."""


class _TruncationError(Exception):
    """A compressed file ends before its stream does."""


class ReadFiles(beam.DoFn):
    """Paths to :class:`Chunk`, :class:`ReportTable` and :class:`BadSource`."""

    def __init__(self, limits: ReadLimits | None = None) -> None:
        self._limits = limits or ReadLimits()

    def process(self, matched: str | bytes | FileMetadata) -> Iterator[Chunk | ReportTable | BadSource]:
        path = matched.path if isinstance(matched, FileMetadata) else matched
        name = path.decode("utf-8", "surrogateescape") if isinstance(path, bytes) else path
        source = printable(name)
        try:
            stored = StoredFile(name, self._limits.attempts)
        except OSError:
            yield BadSource(source, Reason.UNREADABLE_FILE)
            return
        with stored:
            yield from self._read(source, stored)

    def _read(self, source: str, stored: StoredFile) -> Iterator[Chunk | ReportTable | BadSource]:
        written_by = self._written_by(stored)
        allowed = FREE_BYTES + self._limits.expansion * stored.size
        try:
            head = stored.read(SAMPLE)
            stored.seek(0)
            if head[:4] == PARQUET:
                from .parquet import read_tables
                from .report_columns import in_folders

                yield from read_tables(source, stored, allowed, written_by, in_folders(source))
                _count_progress(stored.size)
            elif stream := _decompressed(stored, head, allowed):
                yield from _read_records(source, stored, stream, written_by)
            elif detail := unread_format(head):
                raise _Unread(detail)
            else:
                yield from _read_records(source, stored, _StoredBytes(stored), written_by)
        except _Unread as error:
            yield BadSource(source, Reason.UNSUPPORTED_FORMAT, detail=str(error))
        except OSError:
            yield BadSource(source, Reason.UNREADABLE_FILE)

    def _written_by(self, stored: StoredFile) -> Written | None:
        # A time is known to the second: whatever was written in it counts.
        if self._limits.not_after is not None:
            return Written((self._limits.not_after + 1) * MICROS)
        if stored.modified is None:
            return None
        return Written((stored.modified + 1) * MICROS, int(time.time() + 1) * MICROS)


def read_files(limits: ReadLimits) -> beam.ParDo:
    """:class:`ReadFiles` with the type of what it gives."""
    return beam.ParDo(ReadFiles(limits)).with_output_types(Piece)


class _StoredBytes:
    """The bytes of a file as they are stored."""

    def __init__(self, stored: StoredFile) -> None:
        self._stored = stored

    def after(self, rest: Bytes) -> Bytes:
        """``rest`` and about a chunk of what follows; ``rest`` itself at the end."""
        # No more than there is: reports keep the memory that they were read into.
        data = np.empty(rest.size + min(_CHUNK, self._stored.size - self._stored.tell()), np.uint8)
        data[: rest.size] = rest
        size = self._stored.readinto(data[rest.size :].data)
        _count_progress(size)
        return read_only(data[: rest.size + size])


class _DecompressedBytes:
    """The bytes that a compressed file stands for."""

    def __init__(self, pieces: Iterator[bytes], compression: str) -> None:
        self._pieces = _gathered(pieces)
        self._compression = compression
        self._begun = False

    def after(self, rest: Bytes) -> Bytes:
        size = next(self._pieces, b"")
        if not self._begun and (detail := unread_inside(size[:SAMPLE], self._compression)):
            raise _Unread(detail)
        self._begun = True
        piece = np.frombuffer(size, np.uint8)
        return read_only(np.concatenate([rest, piece])) if rest.size else piece


def _decompressed(stored: StoredFile, head: bytes, allowed: int) -> _DecompressedBytes | None:
    """What a compressed file stands for, up to ``allowed`` bytes; None of any other file."""
    if head[:2] == GZIP:
        return _DecompressedBytes(_limited(_gzip_pieces(stored), allowed), "gzip")
    if is_zstd(head):
        return _DecompressedBytes(_limited(_zstd_pieces(stored), allowed), "zstd")
    return None


def _limited(pieces: Iterator[bytes], allowed: int) -> Iterator[bytes]:
    """No more than so many bytes."""
    for piece in pieces:
        if len(piece) > allowed:
            yield piece[:allowed]
            raise _TooMuch
        allowed -= len(piece)
        yield piece


def _gzip_pieces(stored: StoredFile) -> Iterator[bytes]:
    """Plain bytes of all members of a gzip file, piece by piece: trouble takes only one along."""
    before = 0
    try:
        with gzip.GzipFile(fileobj=stored) as plain:
            while piece := plain.read1(1 << 18):
                yield piece
                _count_progress(stored.tell() - before)
                before = stored.tell()
    except EOFError:
        raise _TruncationError from None


def _zstd_pieces(stored: StoredFile) -> Iterator[bytes]:
    """Plain bytes of all zstd frames in a file."""
    context = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    decoder, inside = context.decompressobj(), False
    while block := stored.read(1 << 16):
        _count_progress(len(block))
        for at in range(0, len(block), _FED):
            piece = block[at : at + _FED]
            while piece:
                inside = True
                try:
                    plain = decoder.decompress(piece)
                except zstandard.ZstdError as error:
                    if "too much memory" in str(error):
                        raise _TooMuch from None
                    raise
                if plain:
                    yield plain
                if not decoder.eof:
                    break
                piece = decoder.unused_data
                decoder, inside = context.decompressobj(), False
    if inside:
        raise _TruncationError


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Small pieces joined to about a chunk; what came before trouble is passed on before it is raised."""
    held: list[bytes] = []
    size = 0
    try:
        for piece in pieces:
            held.append(piece)
            size += len(piece)
            if size >= _CHUNK:
                yield b"".join(held)
                held, size = [], 0
    except (_TruncationError, _TooMuch, OSError, zlib.error, zstandard.ZstdError):
        if held:
            yield b"".join(held)
        raise
    if held:
        yield b"".join(held)


def _trouble(error: Exception, stored: StoredFile) -> Reason:
    """What an error while decompressing says about the file."""
    if isinstance(error, _TruncationError):
        return Reason.TRUNCATED
    if isinstance(error, _TooMuch):
        return Reason.EXPANSION_LIMIT
    return Reason.UNREADABLE_FILE if stored.unreadable else Reason.CORRUPT_FILE


def _read_records(
    path: str, stored: StoredFile, stream: _StoredBytes | _DecompressedBytes, written_by: Written | None
) -> Iterator[Chunk | BadSource]:
    """Cut a stream of bytes into chunks of whole records."""
    rest = np.empty(0, np.uint8)
    base = 0  # position of `rest` in the plain file
    skip = 0  # bytes of an oversize record still to pass over; then there is no `rest`
    trouble: Reason | None = None
    seen = False
    while True:
        try:
            data = stream.after(rest)
        except (_TruncationError, _TooMuch, OSError, zlib.error, zstandard.ZstdError) as error:
            data, trouble = rest, _trouble(error, stored)
        if data.size == rest.size:
            break
        seen = True
        passed = min(skip, data.size)
        skip -= passed
        base += passed
        data = data[passed:]
        at = 0
        while True:
            frames_here = frames(data, at)
            if frames_here.offsets.size:
                yield Chunk(path, base, frames_here, written_by=written_by)
            at = frames_here.end
            if frames_here.status == framing.BAD_LENGTH:
                # Without a length nothing says where the next record begins.
                yield BadSource(path, Reason.MALFORMED, base + at)
                return
            if frames_here.status == framing.OVERSIZE:
                yield BadSource(path, Reason.OVERSIZE, base + at)
                passed = min(frames_here.size, data.size - at)
                skip = frames_here.size - passed
                at += passed
            elif frames_here.status == framing.EMPTIES:
                yield BadSource(path, Reason.MALFORMED, base + at - frames_here.size, frames_here.size)
            elif frames_here.status == framing.NEED_MORE:
                break
        rest = data[at:]
        base += at
    if trouble is not None:
        yield BadSource(path, trouble, base)
    elif rest.size:
        yield BadSource(path, Reason.TRUNCATED, base, missing=bytes_missing(rest))
    elif not seen:
        yield BadSource(path, Reason.EMPTY_FILE)
