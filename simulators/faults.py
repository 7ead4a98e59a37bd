"""What goes wrong between devices and a pipeline, made on purpose: one file of faulty records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ldpbeam.collection.collection import Collection
from ldpbeam.wire import codec, report_pb2


@dataclass(frozen=True)
class Faults:
    duplicate: int = 25
    late: int = 12
    malformed: int = 4
    foreign_epoch: int = 3
    unknown_collection: int = 5
    wrong_length: int = 2
    value_out_of_range: int = 2
    truncated: bool = True


def write_faults(collection: Collection, reports: Path, faults: Faults = Faults()) -> Path:
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
        if len(ids) >= max(vars(faults).values()):
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

    records = [report(i) for i in range(faults.duplicate)]
    records += [report(i, report_id=fresh(i)) for i in range(faults.late)]
    records += [bytes([0xFF] * (5 + i)) for i in range(faults.malformed)]
    records += [report(i, report_id=fresh(i), epoch=-1 - i) for i in range(faults.foreign_epoch)]
    records += [
        report(i, report_id=fresh(i), digest=came_with[i][0] ^ 1) for i in range(faults.unknown_collection)
    ]
    records += [
        report(i, report_id=fresh(i), payload=payloads[i] + b"\0") for i in range(faults.wrong_length)
    ]
    records += [
        report(i, report_id=fresh(i), payload=b"\xff" * width) for i in range(faults.value_out_of_range)
    ]
    content = b"".join(codec.framed(record) for record in records)
    if faults.truncated:
        content += codec.framed(report(0, report_id=fresh(0)))[:-1]
    path = reports / "late-and-faulty.pb"
    path.write_bytes(content)
    return path
