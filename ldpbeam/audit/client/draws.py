"""Reports drawn from a client, counted by the cells of the collection's model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from ldpbeam.audit.client.clients import Client, ClientHistory, slice_in
from ldpbeam.collection.collection import Collection
from ldpbeam.errors import InvalidPayload
from ldpbeam.protocols.history_model import Model, Pattern
from ldpbeam.wire import report_pb2

_BATCH = 512
"""Devices asked at once; even, since neighbours are compared."""

_MOST_CELLS = 729
"""Cells of one pattern; beyond it a pattern has two reports in place of three."""

MOST_RESPONSES = 20_000
"""Whole responses that are kept for each value."""

_FEW = 3_000
"""Draws below which nothing is drawn for tests that need more of it to see anything."""

Cell = tuple[int, tuple[int, ...]]
"""Stratum of a device, and the symbols of its reports."""


@dataclass(frozen=True)
class DrawPlan:
    draws: int = 100_000  # single reports about each of the two values, or a few more
    lasting: int = 2_000  # devices that are opened again between reports
    swept: tuple[int, int] = (128, 1_666)  # (devices, epochs) of long lives about one value
    forked: int = 64  # devices of each forked process
    pairs: int = 2_000  # devices that report to two collections
    changing: int = 96  # devices that hold every value once
    held: int = 160  # devices of one report about each value, at least
    remembering: int = 64  # devices of two blocks of reports about each value

    def held_each(self, values: int) -> int:
        return max(self.held, 2 * self.draws // max(1, values))


def plan_of(draws: int, *, slow: bool = False) -> DrawPlan:
    """What goes with that many draws; docs/audit.md says from how many on which fault is seen."""
    few = draws < _FEW
    if slow:
        return DrawPlan(
            draws,
            lasting=min(1000, max(100, draws // 10)),
            swept=(128, min(2000, max(40, draws // 20))),
            pairs=32 if few else min(2000, max(128, draws // 50)),
            changing=0 if few else 96,
            held=48,
            remembering=0 if few else min(128, draws // 300),
        )
    return DrawPlan(
        draws,
        lasting=min(2000, max(200, draws // 25)),
        swept=(128, min(2000, max(120, draws // 60))),
        pairs=96 if few else min(2000, max(128, draws // 50)),
        remembering=0 if few else min(128, draws // 300),
    )


def patterns_of(model: Model, count: int) -> tuple[Pattern, ...]:
    """Sequences of values that a device is asked about: unchanged, and changed and changed back."""
    largest = max(stratum.symbols for stratum in model.strata)
    length = min(count, 3 if largest**3 <= _MOST_CELLS else 2)
    if length == 3:
        return (0, 0, 0), (1, 1, 1), (0, 1, 0), (1, 0, 1)
    return ((0, 0), (1, 1), (0, 1), (1, 0)) if length == 2 else ((0,), (1,))


class ReportLog:
    """What the bytes of reports say, and every rule that they break."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._protocol = collection.protocol
        self._lengths: dict[int, int] = {}
        self.reports = self.refused = self.malformed = self.wrong_epoch = self.wrong_length = 0
        self.ids: list[int] = []

    def response(self, message: bytes | None, epoch: int) -> tuple[Any, int] | None:
        """(response, report id) of a report that was asked for in an epoch; None where it is none."""
        self.reports += 1
        if message is None:
            self.refused += 1
            return None
        try:
            report = report_pb2.Report.FromString(message)
            response = self._protocol.device.decode(report.payload)
        except (ValueError, InvalidPayload):  # DecodeError of protobuf is a ValueError
            self.malformed += 1
            return None
        except Exception:
            self.malformed += 1
            return None
        # Bytes that mean the same written otherwise could carry something more.
        plain = report_pb2.Report(
            digest=self._collection.slice_digest(slice_in(self._collection, epoch)),
            epoch=report.epoch,
            report_id=report.report_id,
            payload=report.payload,
        )
        self.malformed += plain.SerializeToString(deterministic=True) != message
        self.wrong_epoch += report.epoch != epoch
        self.wrong_length += self._lengths.setdefault(epoch, len(message)) != len(message)
        self.ids.append(report.report_id)
        return response, report.report_id


class Subject(NamedTuple):
    """What is audited, and how much is drawn of it."""

    client: Client
    collection: Collection
    model: Model
    plan: DrawPlan
    read: ReportLog


@dataclass
class HistoryCounts:
    """What histories of one client were, by pattern."""

    patterns: tuple[Pattern, ...]
    cells: dict[Pattern, Counter[Cell]] = field(default_factory=dict)
    firsts: tuple[Counter[tuple[int, int]], Counter[tuple[int, int]]] = field(
        default_factory=lambda: (Counter(), Counter())
    )
    responses: tuple[Counter[Any], Counter[Any]] = field(default_factory=lambda: (Counter(), Counter()))
    pairs: Counter[Pattern] = field(default_factory=Counter)
    equal: Counter[Pattern] = field(default_factory=Counter)
    alike: int = 0
    changed: int = 0
    devices: int = 0
    first_ids: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    next_ids: list[tuple[int, int]] = field(default_factory=list)


def epochs_for(number: int, reports: int, count: int) -> tuple[int, ...]:
    """Epochs of one device, ascending: devices start in different ones, and leave some out."""
    number //= 2
    gap = 1 + number % 3 if count > 4 * reports else 1
    span = count - gap * (reports - 1)
    start = number * 31 % min(span, 5000)
    return tuple(start + gap * i for i in range(reports))


def read_histories(subject: Subject) -> HistoryCounts:
    """Histories of new devices, until each of the two values was asked about often enough."""
    client, collection, model, plan, read = subject
    patterns = patterns_of(model, collection.epochs.count)
    counts = HistoryCounts(patterns, {pattern: Counter() for pattern in patterns})
    memoised = model.memoised
    length, blocks = len(patterns[0]), 1
    # Of several strata a device draws one for life, although it memoises no answer: an attribute.
    if not memoised and len(model.strata) == 1:
        blocks = min(20, collection.epochs.count // length, max(1, plan.draws // 200))
    about_each = 2 * (length if not memoised else 1)  # in all patterns together
    devices = -(-plan.draws // (about_each * blocks))
    for start in range(0, devices, _BATCH):
        size = min(_BATCH, devices - start)
        size += size % 2
        for pattern in patterns:
            asked = [
                ClientHistory(
                    [model.pair[value] for value in pattern] * blocks,
                    epochs_for(start + i, length * blocks, collection.epochs.count),
                )
                for i in range(size)
            ]
            answered = list(zip(asked, client.reports(asked), strict=True))
            count_histories(counts, pattern, model, read, answered)
    return counts


def count_histories(
    counts: HistoryCounts,
    pattern: Pattern,
    model: Model,
    read: ReportLog,
    histories: Sequence[tuple[ClientHistory, Sequence[bytes | None]]],
) -> None:
    """Count devices that went through a pattern, or several times through it, next to their neighbours."""
    length = len(pattern)
    before: tuple[list[Cell | None], Hashable] = [], None
    for number, (history, messages) in enumerate(histories):
        counts.devices += 1
        responses = [
            read.response(message, epoch) for message, epoch in zip(messages, history.epochs, strict=True)
        ]
        shown = {model.for_life(one[0]) for one in responses if one is not None}
        counts.changed += len(shown) > 1
        passes = [responses[first : first + length] for first in range(0, len(responses), length)]
        cells = [_cell(counts, pattern, model, some) for some in passes]
        lasting = shown.pop() if len(shown) == 1 else number
        if number % 2:
            counts.alike += lasting == before[1]
            for mine, yours in zip(cells, before[0], strict=True):
                if mine is not None and yours is not None:
                    counts.pairs[pattern] += 1
                    counts.equal[pattern] += mine == yours
        before = cells, lasting


def _cell(
    counts: HistoryCounts, pattern: Pattern, model: Model, responses: Sequence[tuple[Any, int] | None]
) -> Cell | None:
    """Count one pass through a pattern; None where a report is missing, or the stratum changed."""
    known = [one for one in responses if one is not None]
    if len(known) < len(responses):
        return None
    places, memoised = [model.place(response) for response, _ in known], model.memoised
    for i, ((response, report_id), place) in enumerate(zip(known, places, strict=True)):
        value = pattern[i]
        if i:
            counts.next_ids.append((known[i - 1][1], report_id))
        if i == 0 or not memoised:  # where answers are kept, only a first report is a sample of single ones
            counts.firsts[value][place] += 1
            if len(counts.first_ids[value]) < MOST_RESPONSES:
                counts.responses[value][response] += 1
            counts.first_ids[value].append(report_id)
    if len({stratum for stratum, _ in places}) > 1:
        return None
    cell = places[0][0], tuple(symbol for _, symbol in places)
    counts.cells[pattern][cell] += 1
    return cell


def all_cells(model: Model, length: int) -> Iterator[Cell]:
    for number, stratum in enumerate(model.strata):
        for symbols in product(range(stratum.symbols), repeat=length):
            yield number, symbols
