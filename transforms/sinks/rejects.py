"""After stage 1: rejections as tables, which say what, where and why and never hold a payload."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa

from ldpbeam.admission import LISTED, Rejection, capped
from ldpbeam.table_file import as_parquet

from ..composite import composite
from ..rows import RejectedRow, arrow_schema, rejection_of
from .atomic import publish
from .file_record import FileRecord


def rejects_table(rejections: Iterable[Rejection]) -> Any:
    rows = sorted(rejections, key=lambda r: (r.source, r.place, r.index, r.reason.value))
    records = ({**vars(r), "reason": r.reason.value, "explanation": r.explanation} for r in rows)
    return pa.Table.from_pylist(list(records), schema=arrow_schema(RejectedRow))


def write_rejects(output: str, name: str, rejections: Iterable[Rejection]) -> FileRecord:
    """One Parquet file ``rejects/NAME.parquet``."""
    table = rejects_table(rejections)
    return publish(output, f"rejects/{name}.parquet", as_parquet(table), table.num_rows)


@composite
def rejects_by_source(rejected: beam.PCollection[RejectedRow], output: str) -> beam.PCollection[FileRecord]:
    """Rejections to one Parquet file per source, of each reason as many rows as :func:`capped` leaves."""
    return (
        rejected
        | "BySource" >> beam.Map(_by_source).with_output_types(tuple[str, Rejection])
        | "Cap" >> beam.CombinePerKey(_CappedByReason())
        | "Write" >> beam.Map(_write_source, output)
    )


def _by_source(row: RejectedRow) -> tuple[str, Rejection]:
    return row.source, rejection_of(row)


_ByReason = dict[str, list[Rejection]]


@beam.typehints.with_input_types(Rejection)
@beam.typehints.with_output_types(Any)
class _CappedByReason(beam.CombineFn):
    """Rejections of one source by reason, of each as many as :func:`capped` leaves."""

    def create_accumulator(self) -> _ByReason:
        return {}

    def add_input(self, held: _ByReason, rejection: Rejection) -> _ByReason:
        own = held.setdefault(rejection.reason.value, [])
        own.append(rejection)
        if len(own) >= 4 * LISTED:
            own[:] = capped(own)
        return held

    def merge_accumulators(self, many: Iterable[_ByReason]) -> _ByReason:
        together: _ByReason = {}
        for held in many:
            for reason, own in held.items():
                together[reason] = capped([*together.get(reason, ()), *own])
        return together

    def compact(self, held: _ByReason) -> _ByReason:
        return {reason: capped(own) for reason, own in held.items()}

    def extract_output(self, held: _ByReason) -> _ByReason:
        return self.compact(held)


def _write_source(group: tuple[str, _ByReason], output: str) -> FileRecord:
    """All rejections of one source to one Parquet file, in the order of their places."""
    source, rejections = group[0], (rejection for held in group[1].values() for rejection in held)
    digits = hashlib.sha256(source.encode()).hexdigest()[:16]
    return write_rejects(output, f"rejects-{digits}", rejections)
