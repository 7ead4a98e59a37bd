"""Before stage 1, sources: files become chunks of whole records. Whatever is in a file, reading it ends well.

A chunk is a few megabytes with the places of its records, so that later steps work on columns. A file that
is empty, truncated or not readable in its format becomes a rejection, not an exception.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import apache_beam as beam
import numpy as np
import zstandard
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from ldp.errors import Reason
from ldp.kernels import framing
from ldp.wire.codec import Frames, Rows, frames

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BadSource", "Chunk", "ReadFiles", "Table", "bytes_read"]

_CHUNK = 4 << 20
_ROWS = 1 << 16

_progress = 0


def bytes_read() -> int:
    """Stored bytes read so far by this process, for a progress display; no result depends on it."""
    return _progress


def _count_progress(size: int) -> None:
    global _progress  # noqa: PLW0603 - a display counter, see bytes_read
    _progress += size


@dataclass(frozen=True, eq=False)
class Chunk:
    """Whole protobuf records from one file.

    Attributes:
        source: file.
        base: position of the buffer in the (decompressed) file.
        found: the records.
        arrivals: int64, when each record arrived, microseconds since 1970; None where nobody knows, as in
            a file.
        names: what each record is called in its source, instead of its position; none for a file.
    """

    source: str
    base: int
    found: Frames
    arrivals: NDArray[np.int64] | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Table:
    """Single reports that arrived as columns already (Parquet)."""

    source: str
    rows: Rows


@dataclass(frozen=True)
class BadSource:
    """A place where a file is not readable, and how many records that concerns."""

    source: str
    reason: Reason
    place: int = -1
    count: int = 1


class _Truncated(Exception):  # noqa: N818 - a signal inside this module
    """A compressed file ends before its stream does."""


class ReadFiles(beam.DoFn):
    """Paths to :class:`Chunk`, :class:`Table` and :class:`BadSource`.

    Formats are told apart by their first bytes, not by names: Parquet, gzip, zstd, else length-delimited
    messages.
    """

    def process(self, path: str) -> Iterator[Chunk | Table | BadSource]:
        """Read one file in chunks."""
        try:
            with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as stored:
                magic = stored.read(4)
                stored.seek(0)
                if magic == b"PAR1":
                    yield from _read_table(path, stored)
                else:
                    yield from _read_records(path, _plain_bytes(stored, magic))
        except OSError:
            yield BadSource(path, Reason.CORRUPT_FILE)


def _plain_bytes(stored: IO[bytes], magic: bytes) -> Iterator[bytes]:
    """Decompressed pieces of about a chunk.

    Raises:
        _Truncated: the compressed stream ends early.
        OSError, zlib.error, zstandard.ZstdError: it is not what its first bytes say.
    """
    if magic[:2] == b"\x1f\x8b":
        yield from _gathered(_gzip_pieces(stored))
    elif magic == b"\x28\xb5\x2f\xfd":
        yield from _gathered(_zstd_pieces(stored))
    else:
        while piece := stored.read(_CHUNK):
            _count_progress(len(piece))
            yield piece


def _gzip_pieces(stored: IO[bytes]) -> Iterator[bytes]:
    """Plain bytes of all members of a gzip file, piece by piece: trouble takes only one along."""
    try:
        with gzip.GzipFile(fileobj=stored) as plain:
            while piece := plain.read1(1 << 18):
                yield piece
    except EOFError:
        raise _Truncated from None
    _count_progress(stored.tell())


def _zstd_pieces(stored: IO[bytes]) -> Iterator[bytes]:
    """Plain bytes of all zstd frames in a file.

    Fed a kilobyte at a time: a piece of a hostile file may stand for 30,000 times as much.
    """
    decoder, inside = zstandard.ZstdDecompressor().decompressobj(), False
    while piece := stored.read(1 << 10):
        _count_progress(len(piece))
        while piece:
            inside = True
            if plain := decoder.decompress(piece):
                yield plain
            if not decoder.eof:
                break
            piece = decoder.unused_data
            decoder, inside = zstandard.ZstdDecompressor().decompressobj(), False
    if inside:
        raise _Truncated


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
    except (_Truncated, OSError, zlib.error, zstandard.ZstdError):
        if held:
            yield b"".join(held)
        raise
    if held:
        yield b"".join(held)


def _read_records(path: str, pieces: Iterator[bytes]) -> Iterator[Chunk | BadSource]:
    """Cut a stream of bytes into chunks of whole records."""
    rest = b""
    base = 0  # position of `rest` in the plain file
    skip = 0  # bytes of an oversize record still to pass over
    trouble: Reason | None = None
    seen = False
    source = iter(pieces)
    while True:
        try:
            piece = next(source, b"")
        except (_Truncated, OSError, zlib.error, zstandard.ZstdError) as error:
            cut = isinstance(error, _Truncated)
            piece, trouble = b"", Reason.TRUNCATED if cut else Reason.CORRUPT_FILE
        if not piece:
            break
        seen = True
        passed = min(skip, len(piece))
        skip -= passed
        base += passed
        piece = piece[passed:]
        data = np.frombuffer(rest + piece if rest else piece, np.uint8)
        at = 0
        while True:
            found = frames(data, at)
            if found.offsets.size:
                yield Chunk(path, base, found)
            at = found.end
            if found.status == framing.BAD_LENGTH:
                # Without a length nothing says where the next record begins.
                yield BadSource(path, Reason.MALFORMED, base + at)
                return
            if found.status == framing.OVERSIZE:
                yield BadSource(path, Reason.OVERSIZE, base + at)
                passed = min(found.size, data.size - at)
                skip = found.size - passed
                at += passed
            elif found.status == framing.EMPTIES:
                yield BadSource(path, Reason.MALFORMED, base + at - found.size, found.size)
            elif found.status == framing.NEED_MORE:
                break
        rest = data[at:].tobytes()
        base += at
    if trouble is None and rest:
        trouble = Reason.TRUNCATED
    if trouble is not None:
        yield BadSource(path, trouble, base)
    elif not seen:
        yield BadSource(path, Reason.EMPTY_FILE)


def _read_table(path: str, stored: IO[bytes]) -> Iterator[Table | BadSource]:
    """Record batches of a Parquet file with columns digest, epoch, report_id, payload."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    done = 0
    try:
        table = pq.ParquetFile(stored)
        if table.metadata.num_rows == 0:
            yield BadSource(path, Reason.EMPTY_FILE)
            return
        columns = ["digest", "epoch", "report_id", "payload"]
        for batch in table.iter_batches(_ROWS, columns=columns):
            whole = np.ones(batch.num_rows, bool)
            for name in columns:
                column = batch.column(name)
                if column.null_count:
                    whole &= np.asarray(column.is_valid())
            place = done + np.flatnonzero(whole)
            if place.size < whole.size:
                nulls = np.flatnonzero(~whole)
                yield BadSource(path, Reason.MALFORMED, done + int(nulls[0]), nulls.size)
                batch = batch.filter(pa.array(whole))  # noqa: PLW2901 - the same rows, cleaned
            yield Table(path, _columns(batch, place))
            done += whole.size
        _count_progress(stored.tell())
    except (pa.ArrowException, KeyError, ValueError, TypeError, EOFError):
        yield BadSource(path, Reason.CORRUPT_FILE, done)


def _columns(batch: Any, place: Any) -> Rows:
    """Arrow columns as numpy, payloads left where they lie.

    Raises:
        pyarrow.ArrowException, TypeError, KeyError: columns are missing or of another kind.
    """
    import pyarrow as pa

    def integers(name: str, kind: Any, dtype: str) -> Any:
        column = batch.column(name).cast(kind)
        return np.ascontiguousarray(column.to_numpy(zero_copy_only=False), dtype)

    payload = batch.column("payload")
    n = batch.num_rows
    if pa.types.is_fixed_size_binary(payload.type):
        width = payload.type.byte_width
        buffer = np.frombuffer(payload.buffers()[1] or b"", np.uint8)
        at = (np.arange(n, dtype=np.int64) + payload.offset) * width
        length = np.full(n, width, np.int64)
    else:
        payload = payload.cast(pa.large_binary())
        edges = np.frombuffer(payload.buffers()[1], np.int64)[payload.offset : payload.offset + n + 1]
        buffer = np.frombuffer(payload.buffers()[2] or b"", np.uint8)
        at, length = edges[:-1].copy(), np.diff(edges)
    return Rows(
        digest=integers("digest", pa.uint64(), "uint64"),
        epoch=integers("epoch", pa.int64(), "int64"),
        report_id=integers("report_id", pa.uint64(), "uint64"),
        buffer=buffer,
        payload_at=at,
        payload_length=length,
        place=place,
    )
