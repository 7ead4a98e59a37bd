"""Report files as a collector writes them: length-delimited protobuf, or Parquet.

A length-delimited record is the message's length as a varint and then the message.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from ldpbeam.admission import ReportColumns, batch_message
from ldpbeam.durable.file import PUBLIC, replacing
from ldpbeam.wire import report_pb2
from ldpbeam.wire.codec import framed

Format = Literal["batch", "report", "parquet"]
Compression = Literal["none", "gzip", "zstd"]
_Put = Callable[[ReportColumns], object]
"""Writes one element of the reports, which has some."""

COMPRESSIONS: dict[Compression, str] = {"none": "", "gzip": ".gz", "zstd": ".zst"}
"""How a file may be compressed, and the suffix that says so. In Parquet the pages are."""

ROW_GROUP = 1 << 18
"""Rows of a group in a Parquet file: a reader pays for each group, and has to hold one."""


def report_file(
    directory: Path,
    epoch: int,
    format: Format,  # noqa: A002 - as the command line calls it
    compression: Compression = "none",
) -> Path:
    """Where the reports of an epoch lie: ``epoch-000012`` and .pb, .pb.gz, .pb.zst or .parquet."""
    _require(format, compression)
    suffix = ".parquet" if format == "parquet" else f".pb{COMPRESSIONS[compression]}"
    return directory / f"epoch-{epoch:06d}{suffix}"


def write_reports(
    format: Format,  # noqa: A002 - as above
    path: Path,
    columns: Iterable[ReportColumns],
    *,
    compression: Compression = "none",
) -> int:
    _require(format, compression)
    reports = 0
    with ExitStack() as stack:
        put: _Put | None = None
        for batch in columns:
            if not len(batch):
                continue
            if put is None:
                raw = stack.enter_context(replacing(path, PUBLIC, force=False))
                put = stack.enter_context(FORMATS[format](raw, batch.payloads.shape[1], compression))
            put(batch)
            reports += len(batch)
    return reports


def batch_record(batch: ReportColumns) -> bytes:
    return framed(batch_message(batch))


def report_records(batch: ReportColumns) -> bytes:
    """A ``Report`` behind its length for every report, end to end."""
    report = report_pb2.Report(digest=batch.digest, epoch=batch.epoch)
    pieces = []
    for report.report_id, payload in zip(batch.report_ids.tolist(), batch.payloads, strict=True):
        report.payload = payload.tobytes()
        pieces.append(framed(report.SerializeToString()))
    return b"".join(pieces)


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


@contextmanager
def _messages(
    encode: Callable[[ReportColumns], bytes],
    raw: IO[bytes],
    _: int,
    compression: Compression,
) -> Iterator[_Put]:
    with _compressing(raw, compression) as file:
        yield lambda batch: file.write(encode(batch))


@contextmanager
def _parquet(raw: IO[bytes], width: int, compression: Compression) -> Iterator[_Put]:
    schema = pa.schema(
        [
            pa.field("digest", pa.uint64(), nullable=False),
            pa.field("epoch", pa.int64(), nullable=False),
            pa.field("report_id", pa.uint64(), nullable=False),
            pa.field("payload", pa.binary(width), nullable=False),
        ]
    )
    # Random columns only grow in a dictionary.
    constant = ["digest", "epoch"]
    with pq.ParquetWriter(
        raw, schema, compression=compression, use_dictionary=constant, write_statistics=constant
    ) as writer:
        groups = _RowGroups(writer)
        yield lambda batch: groups.add(_table(batch, schema), batch.epoch)
        groups.end()


class _RowGroups:
    """Rows in groups of :data:`ROW_GROUP`, however they come; one group has one epoch."""

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer, self._rows, self._epoch = writer, 0, -1
        self._held: list[pa.Table] = []

    def add(self, table: pa.Table, epoch: int) -> None:
        if epoch != self._epoch:
            self.end()
            self._epoch = epoch
        while self._rows + len(table) >= ROW_GROUP:
            room = ROW_GROUP - self._rows
            self._held.append(table.slice(0, room))
            self.end()
            table = table.slice(room)
        if len(table):
            self._held.append(table)
            self._rows += len(table)

    def end(self) -> None:
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held), row_group_size=ROW_GROUP)
        self._held, self._rows = [], 0


FORMATS: dict[Format, Callable[[IO[bytes], int, Compression], AbstractContextManager[_Put]]] = {
    "batch": partial(_messages, batch_record),
    "report": partial(_messages, report_records),
    "parquet": _parquet,
}
"""What opens a file for payloads of so many bytes, by the name that the command line uses."""


def _require(format: str, compression: str) -> None:  # noqa: A002 - as above
    if format not in FORMATS or compression not in COMPRESSIONS:
        raise ValueError(
            f"there is no format {format!r} with compression {compression!r}; formats are "
            f"{', '.join(FORMATS)}, compressions {', '.join(COMPRESSIONS)}"
        )


def _table(batch: ReportColumns, schema: pa.Schema) -> pa.Table:
    payloads = np.ascontiguousarray(batch.payloads)
    columns = [
        pa.array(np.full(len(batch), batch.digest, np.uint64)),
        pa.array(np.full(len(batch), batch.epoch, np.int64)),
        pa.array(np.ascontiguousarray(batch.report_ids)),
        pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(payloads.shape[1]), len(batch), [None, pa.py_buffer(payloads)]
        ),
    ]
    return pa.table(columns, schema=schema)
