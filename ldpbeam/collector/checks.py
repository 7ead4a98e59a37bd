"""Which request bodies a collector takes: shape and size only, judged many at a time.

The compiled reader of ``ldpbeam run`` reads them, so that both agree on every spelling of a message. Payloads
are not looked into: what has the right length, and is still none that a device can send, is the pipeline's to
refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ldpbeam.admission import ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.errors import Reason
from ldpbeam.kernels import framing
from ldpbeam.reports import epoch_at_fault
from ldpbeam.wire import codec
from ldpbeam.wire.codec import Batches, Rows


@dataclass(frozen=True)
class Verdict:
    reason: Reason | None
    digest: int | None = None
    reports: int = 1


@dataclass(frozen=True)
class JudgedBodies:
    verdicts: list[Verdict]
    columns: list[ReportColumns]


REASONS_OF_A_COLLECTION = (
    Reason.FOREIGN_EPOCH,
    Reason.MALFORMED,
    Reason.RETIRED_COLLECTION,
    Reason.WRONG_LENGTH,
)
"""Why a body of a known collection is refused."""
REASONS_WITHOUT_COLLECTION = (Reason.MALFORMED, Reason.OVERSIZE, Reason.UNKNOWN_COLLECTION)
"""Why a body is refused whose collection is not known."""

_MALFORMED = Verdict(Reason.MALFORMED)

_Parts = dict[tuple[int, int], list[tuple[np.ndarray, np.ndarray]]]
"""By digest and epoch: pairs of report ids, uint64 (n,), and payloads, uint8 (n, bytes)."""


def judge(bodies: Sequence[bytes], collections: Mapping[int, Collection]) -> JudgedBodies:
    """Check bodies, each one Report or one ReportBatch; whatever they are, nothing is raised."""
    frames = codec.joined(bodies)
    rows, batches, _ = codec.parse(frames)
    verdicts = [_MALFORMED] * len(bodies)
    parts: _Parts = {}
    _judge_rows(rows, np.searchsorted(frames.offsets, rows.place), collections, verdicts, parts)
    _judge_batches(batches, np.searchsorted(frames.offsets, batches.place), collections, verdicts, parts)
    columns = [
        ReportColumns(
            digest, epoch, np.concatenate([ids for ids, _ in some]), np.concatenate([p for _, p in some])
        )
        for (digest, epoch), some in parts.items()
    ]
    return JudgedBodies(verdicts, columns)


def _judge_rows(
    rows: Rows,
    bodies: np.ndarray,
    collections: Mapping[int, Collection],
    verdicts: list[Verdict],
    parts: _Parts,
) -> None:
    """Single reports; ``bodies`` says which body each is."""
    taken: dict[tuple[int, int], list[int]] = {}
    columns = (rows.digest, rows.epoch, rows.payload_length, bodies)
    fields = zip(*(column.tolist() for column in columns), strict=True)
    for i, (digest, epoch, length, body) in enumerate(fields):
        reason = _fault(collections, digest, epoch)
        if reason is None and length != collections[digest].protocol.device.payload_size:
            reason = Reason.WRONG_LENGTH
        verdicts[body] = Verdict(reason, digest if digest in collections else None)
        if reason is None:
            taken.setdefault((digest, epoch), []).append(i)
    for key, some in taken.items():
        which = np.array(some, np.int64)
        payloads = np.empty((which.size, collections[key[0]].protocol.device.payload_size), np.uint8)
        framing.gather(rows.buffer, rows.payload_at[which], payloads)
        parts.setdefault(key, []).append((rows.report_id[which], payloads))


def _judge_batches(
    batches: Batches,
    bodies: np.ndarray,
    collections: Mapping[int, Collection],
    verdicts: list[Verdict],
    parts: _Parts,
) -> None:
    """Batches: taken whole, where their columns fit together, or not at all."""
    for batch, body in zip(batches, bodies.tolist(), strict=True):
        count = batch.report_ids.size
        digest, epoch = batch.digest, batch.epoch
        reason = _fault(collections, digest, epoch)
        if batch.count != count or not count:
            reason = Reason.MALFORMED
        elif (
            reason is None and batch.payloads.size != count * collections[digest].protocol.device.payload_size
        ):
            reason = Reason.WRONG_LENGTH
        verdicts[body] = Verdict(reason, digest if digest in collections else None, max(count, 1))
        if reason is None:
            payloads = batch.payloads.reshape(count, -1)
            parts.setdefault((digest, epoch), []).append((batch.report_ids, payloads))


def _fault(collections: Mapping[int, Collection], digest: int, epoch: int) -> Reason | None:
    collection = collections.get(digest)
    return Reason.UNKNOWN_COLLECTION if collection is None else epoch_at_fault(collection, epoch)
