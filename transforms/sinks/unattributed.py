"""Beside the stages of unbounded jobs: rejects minute by minute, and accounting of unattributed records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.accounting import Account, Entry
from ldpbeam.reports import Rejection

from ..composite import composite
from . import Outputs
from .accounting import UnattributedAccounting, write_accounting
from .file_record import FileRecord
from .rejects import write_rejects

_MINUTE = 60
_FORGET_AFTER = 31 * 86400


@composite
def rejects_by_minute(
    rejections: beam.PCollection[tuple[str, Rejection]], outputs: Outputs
) -> beam.PCollection[FileRecord]:
    """Rejections to one file per minute of arrival, and further ones for what comes after the watermark.

    The accounting has the exact counts of rejections; these files say where and why. The name of the job
    keeps the files of several jobs apart.
    """
    minutes = beam.WindowInto(
        FixedWindows(_MINUTE),
        trigger=AfterWatermark(late=AfterCount(1)),
        accumulation_mode=AccumulationMode.DISCARDING,
        allowed_lateness=_FORGET_AFTER,
    )
    return (
        rejections
        | "Minute" >> minutes
        | "OneKey" >> beam.Map(_under_one_key).with_output_types(tuple[int, Any])
        | "Together" >> beam.GroupByKey()
        | "Write" >> beam.Map(_write_minute, outputs)
    )


def _under_one_key(pair: tuple[str, Rejection]) -> tuple[int, Rejection]:
    return 0, pair[1]


def _write_minute(
    group: tuple[int, Iterable[Rejection]],
    outputs: Outputs,
    window: Any = beam.DoFn.WindowParam,
    pane: Any = beam.DoFn.PaneInfoParam,
) -> FileRecord:
    minute = int(window.start.micros // 1_000_000)
    name = f"rejects-{minute:011d}-{pane.index:03d}{'-' * bool(outputs.job)}{outputs.job}"
    return write_rejects(outputs.output, name, group[1])


@composite
def write_unattributed(
    entries: beam.PCollection[Entry], outputs: Outputs, every: int
) -> beam.PCollection[FileRecord]:
    """Entries that belong to no epoch: of unknown collections, and of epochs that are not collected.

    One file per digest and job, ``accounting/other-DIGEST-JOB.json`` (``other-unknown-…`` without a digest),
    rewritten at most once in ``every`` seconds of arrival time.
    """
    return (
        entries
        | "Others" >> beam.FlatMap(_unattributed).with_output_types(tuple[str, tuple[str, int]])
        | "Sum" >> beam.ParDo(_SumUnattributed(outputs, every))
    )


def _unattributed(entry: Entry) -> Iterator[tuple[str, tuple[str, int]]]:
    ((digest, epoch), what), count = entry
    if epoch is None:
        yield digest, (what, count)


class _SumUnattributed(beam.DoFn):
    # The names are those of running jobs.
    STATE = ReadModifyWriteStateSpec("memory", BytesCoder())
    DUE = TimerSpec("others_due", TimeDomain.WATERMARK)

    def __init__(self, outputs: Outputs, every: int) -> None:
        self._outputs, self._every = outputs, every

    def process(
        self,
        element: tuple[str, tuple[str, int]],
        when: Any = beam.DoFn.TimestampParam,
        state: Any = beam.DoFn.StateParam(STATE),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> None:
        entries, pending = self._read(state)
        entries[element[1][0]] += element[1][1]
        step = self._every * 1_000_000
        wanted = max((when.micros // step + 1) * step, 0)
        if pending is None or wanted < pending:
            pending = wanted
            due.set(Timestamp(micros=wanted))
        state.write(json.dumps([entries, pending]).encode())

    @on_timer(DUE)
    def on_due(
        self, digest: str = beam.DoFn.KeyParam, state: Any = beam.DoFn.StateParam(STATE)
    ) -> Iterator[FileRecord]:
        entries, _ = self._read(state)
        state.write(json.dumps([entries, None]).encode())
        account = Account()
        for what, count in sorted(entries.items()):
            account.add(what, count)
        yield write_accounting(
            self._outputs.output, UnattributedAccounting(digest, account, self._outputs.job)
        )

    @staticmethod
    def _read(state: Any) -> tuple[Counter[str], int | None]:
        kept = state.read()
        entries, pending = json.loads(kept) if kept else ({}, None)
        return Counter(entries), pending
