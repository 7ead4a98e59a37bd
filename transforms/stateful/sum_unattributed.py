"""Beside the epochs of a stream: the accounts of records that belong to none, again whenever they change."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.accounting import Account, Entry

from ..composite import composite


class UnattributedRecords(NamedTuple):
    """What is known of records without an epoch at one moment."""

    digest: str
    account: Account
    sequence: int


@composite
def sum_unattributed(entries: beam.PCollection[Entry], every: int) -> beam.PCollection[UnattributedRecords]:
    """Entries without an epoch, summed by digest; at most one account in ``every`` seconds of arrival
    time."""
    return (
        entries
        | "ByDigest" >> beam.FlatMap(_unattributed).with_output_types(tuple[str, tuple[str, int]])
        | "Sum" >> beam.ParDo(SumUnattributed(every)).with_output_types(UnattributedRecords)
    )


def _unattributed(entry: Entry) -> Iterator[tuple[str, tuple[str, int]]]:
    ((digest, epoch), what), count = entry
    if epoch is None:
        yield digest, (what, count)


class SumUnattributed(beam.DoFn):
    """Adds up what comes, and publishes it at the next due time."""

    STATE = ReadModifyWriteStateSpec("state", BytesCoder())
    DUE = TimerSpec("unattributed_due", TimeDomain.WATERMARK)

    def __init__(self, every: int) -> None:
        """``every`` is in seconds of event time."""
        self._every = every

    def process(
        self,
        element: tuple[str, tuple[str, int]],
        when: Any = beam.DoFn.TimestampParam,
        state: Any = beam.DoFn.StateParam(STATE),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> None:
        entries, pending, sequence = self._read(state)
        entries[element[1][0]] += element[1][1]
        step = self._every * 1_000_000
        wanted = max((when.micros // step + 1) * step, 0)
        if pending is None or wanted < pending:
            pending = wanted
            due.set(Timestamp(micros=wanted))
        self._write(state, entries, pending, sequence)

    @on_timer(DUE)
    def on_due(
        self, digest: str = beam.DoFn.KeyParam, state: Any = beam.DoFn.StateParam(STATE)
    ) -> Iterator[UnattributedRecords]:
        entries, _, sequence = self._read(state)
        self._write(state, entries, None, sequence + 1)
        account = Account()
        for what, count in sorted(entries.items()):
            account.add(what, count)
        yield UnattributedRecords(digest, account, sequence)

    @staticmethod
    def _read(state: Any) -> tuple[Counter[str], int | None, int]:
        stored = state.read()
        entries, pending, sequence = json.loads(stored) if stored else ({}, None, 0)
        return Counter(entries), pending, sequence

    @staticmethod
    def _write(state: Any, entries: Counter[str], pending: int | None, sequence: int) -> None:
        state.write(json.dumps([entries, pending, sequence]).encode())
