"""A protocol run by many simulated devices at once: what each sends is the same function of the same random
words as what a device sends.

The words of a device and epoch are rows of :class:`~ldpbeam.simulators.random_words.RandomWords` under the
purposes ``seed`` (epoch −1 for a seed kept for life, else the report's epoch), ``permanent``, ``instant``
and ``report_id``; the row is the device's index. Words that only draw a bit each are those of its method
``randomised``. So nothing depends on batching or other devices.
Where devices hold several attributes, those of attribute j have the purposes ``j.seed`` and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.channels.channel import BitChannel
from ldpbeam.privacy.ledger import FleetLedger, fleet_ledger
from ldpbeam.protocols import LocalProtocol
from ldpbeam.protocols.simulation import WordSpec

from .memo import FleetMemo, memory
from .population.specs import ABSENT
from .random_words import RandomWords

_COLUMN = 4 << 20
"""Bytes of a batch's payloads, and of its report ids, at most: well below what readers refuse."""

_WORDS = 64 << 20
"""Bytes of one matrix of random words, at most (unless a single device needs more)."""


@dataclass(frozen=True, eq=False)
class DrawnReports:
    """Reports of some devices in one epoch, in the order of the devices."""

    report_ids: NDArray[np.uint64]
    payloads: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.report_ids)


@dataclass(frozen=True)
class _Words:
    """The words of one epoch for the present devices among ``rows`` from ``first`` on."""

    protocol: LocalProtocol[Any]
    random_words: RandomWords
    epoch: int
    first: int
    rows: int
    present: NDArray[np.intp] | None
    """Rows of the devices that report; None for all."""
    prefix: str = ""
    """What the purposes start with."""

    def seed(self, spec: WordSpec) -> NDArray[np.uint64]:
        epoch = self.epoch if self.protocol.simulation.word_plan.seed_per_report else -1
        return self._draw("seed", epoch, spec)

    def permanent(self, spec: WordSpec) -> NDArray[np.uint64]:
        return self._draw("permanent", self.epoch, spec)

    def instant(self, spec: WordSpec) -> NDArray[np.uint64]:
        return self._draw("instant", self.epoch, spec)

    def permanent_bits(
        self, held: NDArray[np.uint8], rows: NDArray[np.int64], spec: WordSpec, channel: BitChannel
    ) -> NDArray[np.uint8]:
        return self._bits("permanent", held, self.devices()[rows], spec, channel)

    def instant_bits(self, held: NDArray[np.uint8], spec: WordSpec, channel: BitChannel) -> NDArray[np.uint8]:
        return self._bits("instant", held, self.devices(), spec, channel)

    def devices(self) -> NDArray[np.int64]:
        return self.first + (np.arange(self.rows) if self.present is None else self.present)

    def _bits(
        self,
        purpose: str,
        held: NDArray[np.uint8],
        devices: NDArray[np.int64],
        spec: WordSpec,
        channel: BitChannel,
    ) -> NDArray[np.uint8]:
        purpose = self.prefix + purpose
        return self.random_words.randomised(purpose, self.epoch, devices, held, spec.count, channel)

    def part(self, index: int, rows: NDArray[np.int64] | None = None) -> _Words:
        present = self.present
        if rows is not None:
            present = rows if present is None else present[rows]
        prefix = f"{self.prefix}{index}."
        protocol = self.protocol.parts[index]
        return replace(self, protocol=protocol, present=present, prefix=prefix)

    def _draw(self, purpose: str, epoch: int, spec: WordSpec) -> NDArray[np.uint64]:
        purpose = self.prefix + purpose
        words = self.random_words.step(purpose, epoch, self.first, self.rows, spec)
        return words if self.present is None else words[self.present]

    def report_ids(self) -> NDArray[np.uint64]:
        return self._draw("report_id", self.epoch, WordSpec(1))[:, 0]


class ProtocolFleet:
    """Devices with a memo each, which run one protocol epoch after epoch; of no collection."""

    def __init__(
        self,
        protocol: LocalProtocol[Any],
        devices: int,
        random_words: RandomWords,
        *,
        rows_per_batch: int = 65_536,
    ) -> None:
        if devices < 1 or rows_per_batch < 1:
            raise ValueError(
                f"a fleet of {devices} devices in batches of {rows_per_batch} cannot report; both start at 1"
            )
        parts = protocol.parts
        self._inputs = [part.guarantee.memoised_inputs or 1 for part in parts]
        if devices * max(self._inputs) >= 1 << 63:
            raise ValueError(
                f"{devices} devices with {max(self._inputs)} inputs each exceed 2**63; simulate fewer"
            )
        self.protocol = protocol
        self.devices = devices
        self._random_words = random_words
        self._shape = (devices, len(parts)) if protocol.SEVERAL else (devices,)
        pairs = zip(parts, self._inputs, strict=True)
        memos = [memory(part.simulation.answer_bytes, inputs, devices) for part, inputs in pairs]
        self._memo = FleetMemo(None, memos) if protocol.SEVERAL else memos[0]
        plans = [part.simulation.word_plan for part in parts]
        specs = [spec for plan in plans for spec in (plan.seed, plan.permanent, plan.instant)]
        widest = max((spec.count for spec in specs if spec is not None and not spec.bits), default=0)
        self._rows = max(
            1,
            min(
                rows_per_batch,
                _COLUMN // max(protocol.device.payload_size, 8),  # a report id has 8 bytes
                _WORDS // (8 * max(widest, 1)),
            ),
        )

    def reports(self, epoch: int, values: NDArray[np.integer[Any]]) -> Iterator[DrawnReports]:
        """The reports of one epoch, in the order of the devices; call once per epoch, in order."""
        if values.shape != self._shape:
            raise ValueError(
                f"the fleet has {self.devices} devices, the values have shape {values.shape}; "
                f"pass one value per device{' and attribute' if len(self._shape) > 1 else ''}"
            )
        columns = values.reshape(self.devices, -1)
        for part, column in zip(self.protocol.parts, columns.T, strict=True):
            if column.min() < ABSENT or column.max() >= part.domain_size:
                raise ValueError(
                    f"epoch {epoch} holds values outside 0 .. {part.domain_size - 1}; "
                    f"use {ABSENT} for an absent device"
                )
        absent = columns == ABSENT if columns.shape[1] > 1 else None
        if absent is not None and (absent != absent[:, :1]).any():
            raise ValueError(
                f"epoch {epoch} holds devices without some attributes; a device is present with "
                "all of them or absent"
            )
        return self._batches(epoch, values)

    def _batches(self, epoch: int, values: NDArray[np.integer[Any]]) -> Iterator[DrawnReports]:
        for first in range(0, self.devices, self._rows):
            chunk = values[first : first + self._rows].astype(np.int64)
            rows = np.flatnonzero(_first(chunk) != ABSENT)
            if not rows.size:
                continue
            present = None if rows.size == len(chunk) else rows
            words = _Words(self.protocol, self._random_words, epoch, first, len(chunk), present)
            held = chunk if present is None else chunk[present]
            payloads = self.protocol.simulation.privatize(words.devices(), held, words, self._memo)
            yield DrawnReports(words.report_ids(), payloads)

    def memoised_inputs(self) -> NDArray[np.int64]:
        """Inputs each device has memoised so far, int64 (devices,); 0 for one-round protocols."""
        counts: NDArray[np.int64] = np.sum(self._counts(), axis=0)
        return counts

    def ledgers(self) -> list[FleetLedger]:
        """What the devices have spent, per attribute: attributes may differ in their level."""
        parts = self.protocol.parts
        return [
            fleet_ledger(counts.tolist(), part.guarantee)
            for part, counts in zip(parts, self._counts(), strict=True)
        ]

    def _counts(self) -> list[NDArray[np.int64]]:
        memos: list[Any] = [self._memo]
        if len(self._shape) > 1:
            memos = [self._memo.part(index) for index in range(self._shape[1])]
        pairs = zip(memos, self._inputs, strict=True)
        return [memo.inputs_per_device(inputs, self.devices) for memo, inputs in pairs]


def _first(chunk: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first attribute's values, or the only one's."""
    return chunk if chunk.ndim == 1 else chunk[:, 0]
