"""Report files as a collector writes them: length-delimited protobuf, or Parquet.

A length-delimited record is the message's length as a varint and then the message. Messages are put
together column by column instead of report by report; they are byte for byte what protobuf writes.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Literal, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from ldpbeam.simulators.fleet import ReportColumns
from ldpbeam.wire import report_pb2
from ldpbeam.wire.codec import framed, varint

__all__ = [
    "COMPRESSIONS",
    "FORMATS",
    "Compression",
    "Format",
    "Writer",
    "batch_message",
    "batch_record",
    "replacing",
    "report_file",
    "report_records",
    "write_batches",
    "write_parquet",
    "write_reports",
]

Format = Literal["batch", "report", "parquet"]
Compression = Literal["none", "gzip", "zstd"]

COMPRESSIONS: dict[Compression, str] = {"none": "", "gzip": ".gz", "zstd": ".zst"}
"""How a file may be compressed, and the suffix that says so. In Parquet the pages are."""

# Field number and wire type of what is assembled here (report.proto).
_REPORT_ID = b"\x19"  # 3, fixed64
_PAYLOAD = b"\x22"  # 4, bytes
_REPORT_IDS = b"\x32"  # 6, packed
_PAYLOADS = b"\x3a"  # 7, bytes


class Writer(Protocol):
    """One of the three functions that write a file of reports."""

    def __call__(
        self,
        path: Path,
        columns: Iterable[ReportColumns],
        *,
        digest: int,
        compression: Compression = "none",
    ) -> int:
        """Write ``columns`` and return the number of reports."""


def report_file(
    directory: Path,
    epoch: int,
    format: Format,  # noqa: A002 - as the command line calls it
    compression: Compression = "none",
) -> Path:
    """Where the reports of an epoch lie: ``epoch-000012`` and .pb, .pb.gz, .pb.zst or .parquet.

    Args:
        directory: the directory.
        epoch: epoch index.
        format: a key of :data:`FORMATS`.
        compression: one of :data:`COMPRESSIONS`; not part of the name of a Parquet file.

    Raises:
        ValueError: there is no such format or compression.
    """
    if format not in FORMATS or compression not in COMPRESSIONS:
        raise ValueError(
            f"there is no format {format!r} with compression {compression!r}; formats are "
            f"{', '.join(FORMATS)}, compressions {', '.join(COMPRESSIONS)}"
        )
    suffix = ".parquet" if format == "parquet" else f".pb{COMPRESSIONS[compression]}"
    return directory / f"epoch-{epoch:06d}{suffix}"


def write_batches(
    path: Path, columns: Iterable[ReportColumns], *, digest: int, compression: Compression = "none"
) -> int:
    """Write one length-delimited ``ReportBatch`` per element.

    The file appears under its name complete or not at all, replacing an older one; equal reports
    give equal bytes. Without reports there is no file, since readers take an empty one for damaged.

    Args:
        path: the file, in an existing directory.
        columns: the reports; elements without reports are skipped.
        digest: the collection's digest.
        compression: one of :data:`COMPRESSIONS`.

    Returns:
        Number of reports written.

    Raises:
        ValueError: there is no such compression.
    """
    return _write(path, columns, lambda batch: batch_record(batch, digest), compression)


def write_reports(
    path: Path, columns: Iterable[ReportColumns], *, digest: int, compression: Compression = "none"
) -> int:
    """Write one length-delimited ``Report`` per report; otherwise as :func:`write_batches`."""
    return _write(path, columns, lambda batch: report_records(batch, digest), compression)


def write_parquet(
    path: Path, columns: Iterable[ReportColumns], *, digest: int, compression: Compression = "none"
) -> int:
    """Write one row group per element; otherwise as :func:`write_batches`.

    Columns: digest uint64, epoch int64, report_id uint64, payload fixed_size_binary of the
    payload's length; none is ever null.

    Raises:
        ValueError: there is no such compression, or payloads differ in length.
    """
    if compression not in COMPRESSIONS:
        raise _no_compression(compression)
    reports = 0
    with ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        schema: pa.Schema | None = None
        for batch in columns:
            if not len(batch):
                continue
            if writer is None:
                schema = _schema(batch.payloads.shape[1])
                raw = stack.enter_context(replacing(path))
                writer = stack.enter_context(
                    pq.ParquetWriter(
                        raw,
                        schema,
                        compression=compression,
                        # Random columns only grow in a dictionary.
                        use_dictionary=["digest", "epoch"],
                        write_statistics=["digest", "epoch"],
                    )
                )
            writer.write_table(_table(batch, digest, schema), row_group_size=len(batch))
            reports += len(batch)
    return reports


FORMATS: dict[Format, Writer] = {
    "batch": write_batches,
    "report": write_reports,
    "parquet": write_parquet,
}
"""Writers by the name that the command line uses."""


def batch_message(batch: ReportColumns, digest: int) -> bytes:
    """A ``ReportBatch`` of at least one report."""
    # Protobuf writes fields in the order of their numbers: a message of the first is a prefix.
    head = report_pb2.ReportBatch(digest=digest, epoch=batch.epoch, count=len(batch)).SerializeToString()
    ids = np.ascontiguousarray(batch.report_ids, "<u8").tobytes()
    payloads = batch.payloads.tobytes()
    return b"".join((head, _REPORT_IDS, varint(len(ids)), ids, _PAYLOADS, varint(len(payloads)), payloads))


def batch_record(batch: ReportColumns, digest: int) -> bytes:
    """A ``ReportBatch`` of at least one report, behind its length."""
    return framed(batch_message(batch, digest))


def report_records(batch: ReportColumns, digest: int) -> bytes:
    """A ``Report`` behind its length for every report, end to end."""
    head = report_pb2.Report(digest=digest, epoch=batch.epoch).SerializeToString()
    width = batch.payloads.shape[1]
    ids = np.ascontiguousarray(batch.report_ids, "<u8")
    tail = _PAYLOAD + varint(width)

    def records(rows: slice) -> bytes:
        """Rows none of whose ids is 0: all records have one layout."""
        before = varint(len(head) + 9 + len(tail) + width) + head + _REPORT_ID
        start, end = len(before), len(before) + 8
        frames = np.empty((len(ids[rows]), end + len(tail) + width), np.uint8)
        frames[:, :start] = np.frombuffer(before, np.uint8)
        frames[:, start:end] = ids[rows].view(np.uint8).reshape(-1, 8)
        frames[:, end : end + len(tail)] = np.frombuffer(tail, np.uint8)
        frames[:, end + len(tail) :] = batch.payloads[rows]
        return frames.tobytes()

    pieces = []
    done = 0
    # One report in 2**64 has the id 0, which proto3 leaves out.
    for row in np.flatnonzero(ids == 0).tolist():
        pieces.append(records(slice(done, row)))
        message = head + tail + batch.payloads[row].tobytes()
        pieces.append(framed(message))
        done = row + 1
    pieces.append(records(slice(done, None)))
    return b"".join(pieces)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes the name ``path`` when the block ends; it vanishes when it fails."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as raw:
            yield raw
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _write(
    path: Path,
    columns: Iterable[ReportColumns],
    encode: Callable[[ReportColumns], bytes],
    compression: Compression,
) -> int:
    if compression not in COMPRESSIONS:
        raise _no_compression(compression)
    reports = 0
    with ExitStack() as stack:
        file: IO[bytes] | None = None
        for batch in columns:
            if not len(batch):
                continue
            if file is None:
                raw = stack.enter_context(replacing(path))
                file = stack.enter_context(_compressing(raw, compression))
            file.write(encode(batch))
            reports += len(batch)
    return reports


@contextmanager
def _compressing(raw: IO[bytes], compression: Compression) -> Iterator[IO[bytes]]:
    if compression == "gzip":
        # Neither name nor time in the header: equal reports, equal bytes. Payloads hardly compress.
        with gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as file:
            yield cast(IO[bytes], file)
    elif compression == "zstd":
        with zstandard.ZstdCompressor(write_checksum=True).stream_writer(raw, closefd=False) as file:
            yield file
    else:
        yield raw


def _no_compression(compression: Compression) -> ValueError:
    return ValueError(f"there is no compression {compression!r}; use one of {', '.join(COMPRESSIONS)}")


def _schema(width: int) -> pa.Schema:
    return pa.schema(
        [
            pa.field("digest", pa.uint64(), nullable=False),
            pa.field("epoch", pa.int64(), nullable=False),
            pa.field("report_id", pa.uint64(), nullable=False),
            pa.field("payload", pa.binary(width), nullable=False),
        ]
    )


def _table(batch: ReportColumns, digest: int, schema: pa.Schema) -> pa.Table:
    payloads = np.ascontiguousarray(batch.payloads)
    columns = [
        pa.array(np.full(len(batch), digest, np.uint64)),
        pa.array(np.full(len(batch), batch.epoch, np.int64)),
        pa.array(np.ascontiguousarray(batch.report_ids)),
        pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(payloads.shape[1]), len(batch), [None, pa.py_buffer(payloads)]
        ),
    ]
    return pa.table(columns, schema=schema)
