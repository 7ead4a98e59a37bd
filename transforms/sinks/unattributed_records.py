"""Beside the stages of unbounded jobs: rejects minute by minute, and accounting of unattributed records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows

from ldpbeam.accounting import Entry

from ..composite import composite
from ..rows import RejectedRow, rejection_of
from ..stateful.sum_unattributed import UnattributedRecords, sum_unattributed
from . import Outputs
from .accounting import UnattributedAccounting, write_accounting
from .file_record import FileRecord
from .rejects import write_rejects

_MINUTE = 60
_FORGET_AFTER = 31 * 86400


@composite
def rejects_by_minute(
    rejected: beam.PCollection[RejectedRow], outputs: Outputs
) -> beam.PCollection[FileRecord]:
    """Rejections to one file per minute of arrival, and further ones for what comes after the watermark."""
    minutes = beam.WindowInto(
        FixedWindows(_MINUTE),
        trigger=AfterWatermark(late=AfterCount(1)),
        accumulation_mode=AccumulationMode.DISCARDING,
        allowed_lateness=_FORGET_AFTER,
    )
    return (
        rejected
        | "Minute" >> minutes
        | "OneKey" >> beam.Map(_under_one_key).with_output_types(tuple[int, RejectedRow])
        | "Together" >> beam.GroupByKey()
        | "Write" >> beam.Map(_write_minute, outputs)
    )


def _under_one_key(row: RejectedRow) -> tuple[int, RejectedRow]:
    return 0, row


def _write_minute(
    group: tuple[int, Iterable[RejectedRow]],
    outputs: Outputs,
    window: Any = beam.DoFn.WindowParam,
    pane: Any = beam.DoFn.PaneInfoParam,
) -> FileRecord:
    minute = int(window.start.micros // 1_000_000)
    name = f"rejects-{minute:011d}-{pane.index:03d}{'-' * bool(outputs.job)}{outputs.job}"
    return write_rejects(outputs.output, name, map(rejection_of, group[1]))


@composite
def write_unattributed(
    entries: beam.PCollection[Entry], outputs: Outputs, every: int
) -> beam.PCollection[FileRecord]:
    """Entries that belong to no epoch: of unknown collections, and of epochs that are not collected."""
    return entries | "Sum" >> sum_unattributed(every) | "Write" >> beam.Map(_write, outputs)


def _write(one: UnattributedRecords, outputs: Outputs) -> FileRecord:
    return write_accounting(outputs.output, UnattributedAccounting(one.digest, one.account, outputs.job))
