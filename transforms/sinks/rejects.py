"""After stage 1: rejections as tables, which say what, where and why and never hold a payload."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq

from ldpbeam.reports import LISTED, Rejection, capped
from ldpbeam.transforms.composite import composite
from ldpbeam.transforms.sinks.atomic import publish
from ldpbeam.transforms.sinks.file_record import FileRecord

_COLUMNS = ("reason", "explanation", "source", "place", "index", "count", "digest", "epoch")
_NUMBERS = frozenset({"place", "index", "count", "epoch"})


def rejects_schema() -> Any:
    """The Arrow schema of rejects. No column ever holds a payload."""
    kinds = [(name, pa.int64() if name in _NUMBERS else pa.string()) for name in _COLUMNS]
    return pa.schema([pa.field(name, kind, nullable=name == "epoch") for name, kind in kinds])


def rejects_table(rejections: Iterable[Rejection]) -> Any:
    """Rows in the order of sources and places."""
    rows = sorted(rejections, key=lambda r: (r.source, r.place, r.index, r.reason.value))
    said = ({**vars(r), "reason": r.reason.value, "explanation": r.reason.explanation} for r in rows)
    return pa.Table.from_pylist(list(said), schema=rejects_schema())


def write_rejects(output: str, name: str, rejections: Iterable[Rejection]) -> FileRecord:
    """One Parquet file ``rejects/NAME.parquet``."""
    table = rejects_table(rejections)
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return publish(output, f"rejects/{name}.parquet", sink.getvalue(), table.num_rows)


@composite
def rejects_by_source(
    rejections: beam.PCollection[tuple[str, Rejection]], output: str
) -> beam.PCollection[FileRecord]:
    """Rejections to one Parquet file per source, of each reason as many rows as :func:`capped` leaves.

    They are capped as early as possible, by source and reason.
    """
    return (
        rejections
        | "ByReason" >> beam.Map(_by_reason).with_output_types(tuple[tuple[str, str], Rejection])
        | "Cap" >> beam.CombinePerKey(_Capped())
        | "BySource" >> beam.Map(_by_source).with_output_types(tuple[str, Any])
        | "Source" >> beam.GroupByKey()
        | "Write" >> beam.Map(_write_source, output)
    )


def _by_reason(pair: tuple[str, Rejection]) -> tuple[tuple[str, str], Rejection]:
    return (pair[0], pair[1].reason.value), pair[1]


def _by_source(pair: tuple[tuple[str, str], list[Rejection]]) -> tuple[str, list[Rejection]]:
    return pair[0][0], pair[1]


class _Capped(beam.CombineFn):
    """See :func:`capped`; what is held stays short."""

    def create_accumulator(self) -> list[Rejection]:
        return []

    def add_input(self, held: list[Rejection], rejection: Rejection) -> list[Rejection]:
        held.append(rejection)
        return held if len(held) < 4 * LISTED else capped(held)

    def merge_accumulators(self, many: Iterable[list[Rejection]]) -> list[Rejection]:
        return capped([rejection for held in many for rejection in held])

    def compact(self, held: list[Rejection]) -> list[Rejection]:
        return capped(held)

    def extract_output(self, held: list[Rejection]) -> list[Rejection]:
        return capped(held)


def _write_source(group: tuple[str, Iterable[Iterable[Rejection]]], output: str) -> FileRecord:
    """All rejections of one source to one Parquet file, in the order of their places."""
    source, rejections = group[0], (rejection for held in group[1] for rejection in held)
    digits = hashlib.sha256(source.encode()).hexdigest()[:16]
    return write_rejects(output, f"rejects-{digits}", rejections)
