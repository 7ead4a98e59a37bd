"""What goes wrong between devices and a pipeline, made on purpose: one file of faulty records."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ldpbeam.collection.collection import Collection
from ldpbeam.wire import codec, report_pb2

DUPLICATE, LATE = 25, 12
MALFORMED, FOREIGN_EPOCH, UNKNOWN_COLLECTION = 4, 3, 5
WRONG_LENGTH, OUT_OF_RANGE = 2, 2
"""How many records have each fault; one more is cut short."""


def write_faults(collection: Collection, reports: Path) -> Path:
    """Add ``reports/late-and-faulty.pb``, made from what the first file of ``reports`` holds."""
    first = min(p for p in reports.iterdir() if p.suffix == ".pb")
    buffer = np.frombuffer(first.read_bytes(), np.uint8)
    _, batches, _ = codec.parse(codec.frames(buffer))
    width = collection.protocol.device.payload_size
    payloads, ids, came_with = list[bytes](), list[int](), list[tuple[int, int]]()
    for batch in batches:  # one of each slice
        payloads += [bytes(row) for row in batch.payloads.reshape(-1, width)]
        ids += batch.report_ids.tolist()
        came_with += [(batch.digest, batch.epoch)] * batch.count
        if len(ids) >= DUPLICATE:
            break

    def report(row: int, **changes: object) -> bytes:
        message = report_pb2.Report(report_id=ids[row], payload=payloads[row])
        message.digest, message.epoch = came_with[row]
        for field, value in changes.items():
            setattr(message, field, value)
        return message.SerializeToString()

    def fresh(row: int) -> int:
        # Not a device's id: made from one, so that simulations stay reproducible.
        return ids[row] ^ 0x5DEECE66D

    records = [report(i) for i in range(DUPLICATE)]
    records += [report(i, report_id=fresh(i)) for i in range(LATE)]
    records += [bytes([0xFF] * (5 + i)) for i in range(MALFORMED)]
    records += [report(i, report_id=fresh(i), epoch=-1 - i) for i in range(FOREIGN_EPOCH)]
    records += [report(i, report_id=fresh(i), digest=came_with[i][0] ^ 1) for i in range(UNKNOWN_COLLECTION)]
    records += [report(i, report_id=fresh(i), payload=payloads[i] + b"\0") for i in range(WRONG_LENGTH)]
    records += [report(i, report_id=fresh(i), payload=b"\xff" * width) for i in range(OUT_OF_RANGE)]
    content = b"".join(codec.framed(record) for record in records)
    content += codec.framed(report(0, report_id=fresh(0)))[:-1]
    path = reports / "late-and-faulty.pb"
    path.write_bytes(content)
    return path
