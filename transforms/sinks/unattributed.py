"""Beside the stages, in unbounded jobs: rejects minute by minute, and books of what belongs to no epoch."""

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
from ldpbeam.transforms.sinks.accounting import UnattributedAccounting, write_accounting
from ldpbeam.transforms.sinks.atomic import FileRecord
from ldpbeam.transforms.sinks.rejects import write_rejects

__all__ = ["WriteOtherBooks", "WriteStreamRejects"]

_MINUTE = 60
_FORGET_AFTER = 31 * 86400


class WriteStreamRejects(beam.PTransform):
    """Rejections to one file per minute of arrival, and further ones for what comes after the watermark.

    Counts of rejections are kept in the books, which are exact; these files say where and why.
    """

    def __init__(self, output: str, job: str, label: str | None = None) -> None:
        """Write below ``output``; ``job`` keeps the files of several jobs apart."""
        super().__init__(label)
        self._output = output
        self._job = job

    def expand(self, rejections: beam.PCollection[tuple[str, Rejection]]) -> beam.PCollection[FileRecord]:
        """Windows of a minute, one group each."""
        return (
            rejections
            | "Minute"
            >> beam.WindowInto(
                FixedWindows(_MINUTE),
                trigger=AfterWatermark(late=AfterCount(1)),
                accumulation_mode=AccumulationMode.DISCARDING,
                allowed_lateness=_FORGET_AFTER,
            )
            | "OneKey" >> beam.Map(_under_one_key).with_output_types(tuple[int, Any])
            | "Together" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(_WriteMinute(self._output, self._job))
        )


def _under_one_key(pair: tuple[str, Rejection]) -> tuple[int, Rejection]:
    return 0, pair[1]


class _WriteMinute(beam.DoFn):
    def __init__(self, output: str, job: str) -> None:
        super().__init__()
        self._output = output
        self._job = job

    def process(
        self,
        group: tuple[int, Iterable[Rejection]],
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[FileRecord]:
        minute = int(window.start.micros // 1_000_000)
        name = f"rejects-{minute:011d}-{pane.index:03d}{'-' * bool(self._job)}{self._job}"
        yield write_rejects(self._output, name, group[1])


class WriteOtherBooks(beam.PTransform):
    """Entries that belong to no epoch: of unknown collections, and of epochs that are not collected.

    One file per digest and job, ``accounting/other-DIGEST-JOB.json`` (``other-unknown-…`` without a digest),
    rewritten at most once per interval.
    """

    def __init__(self, output: str, job: str, every: int, label: str | None = None) -> None:
        """Write below ``output`` every so many seconds of arrival time."""
        super().__init__(label)
        self._output, self._job, self._every = output, job, every

    def expand(self, entries: beam.PCollection[Entry]) -> beam.PCollection[FileRecord]:
        """Key by digest."""
        return (
            entries
            | "Others" >> beam.FlatMap(_others).with_output_types(tuple[str, tuple[str, int]])
            | "Sum" >> beam.ParDo(_SumOthers(self._output, self._job, self._every))
        )


def _others(entry: Entry) -> Iterator[tuple[str, tuple[str, int]]]:
    ((digest, epoch), what), count = entry
    if epoch is None:
        yield digest, (what, count)


class _SumOthers(beam.DoFn):
    MEMORY = ReadModifyWriteStateSpec("memory", BytesCoder())
    DUE = TimerSpec("others_due", TimeDomain.WATERMARK)

    def __init__(self, output: str, job: str, every: int) -> None:
        super().__init__()
        self._output, self._job, self._every = output, job, every

    def process(
        self,
        element: tuple[str, tuple[str, int]],
        when: Any = beam.DoFn.TimestampParam,
        memory: Any = beam.DoFn.StateParam(MEMORY),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> None:
        entries, pending = self._recall(memory)
        entries[element[1][0]] += element[1][1]
        step = self._every * 1_000_000
        wanted = max((when.micros // step + 1) * step, 0)
        if pending is None or wanted < pending:
            pending = wanted
            due.set(Timestamp(micros=wanted))
        memory.write(json.dumps([entries, pending]).encode())

    @on_timer(DUE)
    def tell(
        self, digest: str = beam.DoFn.KeyParam, memory: Any = beam.DoFn.StateParam(MEMORY)
    ) -> Iterator[FileRecord]:
        entries, _ = self._recall(memory)
        memory.write(json.dumps([entries, None]).encode())
        account = Account()
        for what, count in sorted(entries.items()):
            account.add(what, count)
        yield write_accounting(self._output, UnattributedAccounting(digest, account, self._job))

    @staticmethod
    def _recall(memory: Any) -> tuple[Counter[str], int | None]:
        kept = memory.read()
        entries, pending = json.loads(kept) if kept else ({}, None)
        return Counter(entries), pending
