"""After stage 5, sinks: one file per epoch, written so that a reader never sees half of it.

Beam's own file sinks lose or repeat late panes, so files are written here: the name follows from collection,
digest, epoch and revision; content goes to a temporary file, is forced to disk and renamed. Writing the same
epoch twice leaves the same file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems

from ldp.collection import Collection
from ldp.histogram import EpochHistogram
from ldp.reports import Rejection
from transforms.accounting import Entry

__all__ = [
    "FileRecord",
    "WriteEpochs",
    "WriteRejects",
    "epoch_file_name",
    "estimates_schema",
    "publish",
    "rejects_schema",
]


@dataclass(frozen=True)
class FileRecord:
    """A file that was written.

    Attributes:
        path: relative to the output directory, with forward slashes.
        size: bytes.
        sha256: of the content, hexadecimal.
        rows: rows in it.
    """

    path: str
    size: int
    sha256: str
    rows: int

    def as_record(self) -> dict[str, object]:
        """For run.json."""
        return {"path": self.path, "bytes": self.size, "sha256": self.sha256, "rows": self.rows}


def publish(output: str, name: str, content: bytes, rows: int = 0) -> FileRecord:
    """Put a whole file in place: temporary file, fsync, rename, fsync of the folder.

    Args:
        output: output directory, local or of any file system that Beam knows.
        name: path below it.
        content: bytes.
        rows: for the record.
    """
    path = FileSystems.join(output, *name.split("/"))
    folder = FileSystems.split(path)[0]
    temporary = f"{path}.{secrets.token_hex(4)}.tmp"
    if "://" in output:
        # Object stores make an object visible only when it is closed; there is nothing to sync.
        with FileSystems.create(path) as handle:
            handle.write(content)
    else:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - Beam paths are text
        try:
            with open(temporary, "wb") as handle:  # noqa: PTH123 - as above
                handle.write(content)
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(temporary, path)  # noqa: PTH105 - as above
        finally:
            if os.path.exists(temporary):  # noqa: PTH110 - as above
                os.remove(temporary)  # noqa: PTH107 - as above
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return FileRecord(name, len(content), hashlib.sha256(content).hexdigest(), rows)


def epoch_file_name(collection: Collection, epoch: int, revision: int) -> str:
    """``estimates/NAME-DIGEST-epoch-000012-r000.parquet``."""
    stem = f"{collection.name}-{collection.digest_hex}-epoch-{epoch:06d}-r{revision:03d}"
    return f"estimates/{stem}.parquet"


def estimates_schema(collection: Collection) -> Any:
    """The Arrow schema of estimates, with the collection and its privacy figures as metadata."""
    import pyarrow as pa

    record = collection.as_record()
    guarantee = collection.protocol.guarantee
    metadata = {
        "ldpbeam.collection": json.dumps(record, sort_keys=True),
        "ldpbeam.epsilon_first_report": repr(guarantee.first_report),
        "ldpbeam.epsilon_per_memoised_input": repr(guarantee.per_memoised_input),
    }
    return pa.schema(
        [
            pa.field("collection", pa.string(), nullable=False),
            pa.field("digest", pa.string(), nullable=False),
            pa.field("epoch", pa.int64(), nullable=False),
            pa.field("epoch_start", pa.timestamp("us", "UTC"), nullable=False),
            pa.field("revision", pa.int32(), nullable=False),
            pa.field("attribute", pa.string(), nullable=False),
            pa.field("value", pa.int64(), nullable=False),
            pa.field("label", pa.string(), nullable=False),
            pa.field("n", pa.int64(), nullable=False),
            pa.field("support", pa.int64(), nullable=False),
            pa.field("estimate", pa.float64()),
            pa.field("std_error", pa.float64()),
            pa.field("ci_low", pa.float64()),
            pa.field("ci_high", pa.float64()),
            pa.field("ci_low_all", pa.float64()),
            pa.field("ci_high_all", pa.float64()),
            pa.field("consistent", pa.float64()),
            pa.field("method", pa.string(), nullable=False),
            pa.field("status", pa.string(), nullable=False),
        ],
        metadata,
    )


def _fixed_columns(collection: Collection) -> dict[str, Any]:
    """Columns that are the same in every epoch."""
    import pyarrow as pa

    attributes, values, labels = [], [], []
    for (name, domain), part in zip(collection.histograms, collection.protocol.parts, strict=True):
        attributes += [name] * part.rows
        values += list(range(part.rows))
        labels += [domain.label(v) for v in range(part.rows)] if part.rows == domain.size else ["mean"]
    return {
        "schema": estimates_schema(collection),
        "attribute": pa.array(attributes, pa.string()),
        "value": pa.array(values, pa.int64()),
        "label": pa.array(labels, pa.string()),
    }


def _epoch_table(collection: Collection, histogram: EpochHistogram, fixed: dict[str, Any]) -> Any:
    import pyarrow as pa

    sizes = [part.rows for part in collection.protocol.parts]
    start = collection.epochs.start(histogram.epoch) * 1_000_000

    def integers(name: str) -> Any:
        found = [
            getattr(one.estimates, name) if one.estimates else np.full(size, one.reports)
            for one, size in zip(histogram.attributes, sizes, strict=True)
        ]
        return pa.array(np.concatenate(found), pa.int64())

    def floats(name: str, consistent: bool = False) -> Any:
        found = []
        for one, size in zip(histogram.attributes, sizes, strict=True):
            column = one.consistent if consistent else getattr(one.estimates, name, None)
            found.append(np.full(size, np.nan) if column is None else column)
        # Rows that nobody reported about hold NaN; readers get null.
        return pa.array(np.concatenate(found), pa.float64(), from_pandas=True)

    def repeated(value: Any, kind: Any) -> Any:
        return pa.repeat(pa.scalar(value, kind), sum(sizes))

    states = [[one.status] * size for one, size in zip(histogram.attributes, sizes, strict=True)]
    columns = {
        "collection": repeated(collection.name, pa.string()),
        "digest": repeated(collection.digest_hex, pa.string()),
        "epoch": repeated(histogram.epoch, pa.int64()),
        "epoch_start": pa.array(np.full(sum(sizes), start)).cast(pa.timestamp("us", "UTC")),
        "revision": repeated(histogram.revision, pa.int32()),
        "attribute": fixed["attribute"],
        "value": fixed["value"],
        "label": fixed["label"],
        "n": integers("n"),
        "support": pa.array(np.concatenate([one.support for one in histogram.attributes]), pa.int64()),
        "estimate": floats("frequency"),
        "std_error": floats("std_error"),
        "ci_low": floats("low"),
        "ci_high": floats("high"),
        "ci_low_all": floats("low_all"),
        "ci_high_all": floats("high_all"),
        "consistent": floats("", consistent=True),
        "method": repeated(collection.consistency, pa.string()),
        "status": pa.array([state for part in states for state in part], pa.string()),
    }
    return pa.table(columns, schema=fixed["schema"])


class WriteEpochs(beam.DoFn):
    """Histograms to Parquet files; gives a :class:`FileRecord` and the ``counted`` entry for each.

    What is booked as counted is what the accumulator behind the published numbers has counted.
    """

    def __init__(self, collection: Collection, output: str) -> None:
        """Write epochs of this collection below ``output``."""
        super().__init__()
        self._collection = collection
        self._output = output
        self._fixed: dict[str, Any] = {}

    def setup(self) -> None:
        """Columns that are the same for every epoch, once per worker."""
        self._fixed = _fixed_columns(self._collection)

    def process(self, histogram: EpochHistogram) -> Iterator[FileRecord | Entry]:
        """One file, one entry."""
        import pyarrow.parquet as pq

        table = _epoch_table(self._collection, histogram, self._fixed)
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="zstd")
        name = epoch_file_name(self._collection, histogram.epoch, histogram.revision)
        yield publish(self._output, name, sink.getvalue(), table.num_rows)
        entry: Entry = (
            ((self._collection.digest_hex, histogram.epoch), "counted"),
            histogram.reports,
        )
        yield entry


def rejects_schema() -> Any:
    """The Arrow schema of rejects. No column ever holds a payload."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("reason", pa.string(), nullable=False),
            pa.field("explanation", pa.string(), nullable=False),
            pa.field("source", pa.string(), nullable=False),
            pa.field("place", pa.int64(), nullable=False),
            pa.field("index", pa.int64(), nullable=False),
            pa.field("count", pa.int64(), nullable=False),
            pa.field("digest", pa.string(), nullable=False),
            pa.field("epoch", pa.int64()),
        ]
    )


class WriteRejects(beam.DoFn):
    """All rejections of one source to one Parquet file, in the order of their places."""

    def __init__(self, output: str) -> None:
        """Write below ``output``."""
        super().__init__()
        self._output = output

    def process(self, group: tuple[str, Iterable[Rejection]]) -> Iterator[FileRecord]:
        """One file per source."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        source, rejections = group
        rows = sorted(rejections, key=lambda r: (r.place, r.index, r.reason.value))
        columns = {
            "reason": [r.reason.value for r in rows],
            "explanation": [r.reason.explanation for r in rows],
            "source": [r.source for r in rows],
            "place": [r.place for r in rows],
            "index": [r.index for r in rows],
            "count": [r.count for r in rows],
            "digest": [r.digest for r in rows],
            "epoch": [r.epoch for r in rows],
        }
        sink = io.BytesIO()
        pq.write_table(pa.table(columns, schema=rejects_schema()), sink, compression="zstd")
        name = f"rejects/rejects-{hashlib.sha256(source.encode()).hexdigest()[:16]}.parquet"
        yield publish(self._output, name, sink.getvalue(), len(rows))
