"""Take up again the refused messages of a stream: they are landed and counted as if they came now."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from ldpbeam.accounting import Entry, Key
from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.engine.engine import LocalStream
from ldpbeam.engine.storage.landing import FOLDER
from ldpbeam.engine.storage.segment import Segment
from ldpbeam.errors import Reason
from ldpbeam.job.config import Counting, Input, RunConfig
from ldpbeam.records.rejects import Rejects, Replayed, rejected_count
from ldpbeam.reports import Admission, ReportColumns, admit_frames
from ldpbeam.transforms.sinks import Outputs
from ldpbeam.wire import codec

MENDABLE = frozenset({Reason.UNKNOWN_COLLECTION, Reason.RETIRED_COLLECTION, Reason.FUTURE_EPOCH})
"""Reasons that another set of collections can do away with. The others lie in the bytes of the report."""


class _Nothing:
    """A source that has no messages: a replay only looks back."""

    def pull(self, limit_messages: int, limit_bytes: int, timeout_seconds: float) -> list[Any]:
        return []

    def acknowledge(self, messages: object) -> None:
        return None


def replay_stream(rejects: Rejects) -> Replayed:
    """Take up the rejected records of a stream, in its output.

    Raises:
        LdpError: the stream or another replay is working on the output.
    """
    output, collections, record = rejects.output, rejects.collections, rejects.record
    assert record.stream is not None  # noqa: S101 - what is replayed here is a stream
    brokers = {"subscription": record.stream.subscription, "watch": record.stream.watch}
    source = Input(brokers=brokers, timestamp_attribute=record.stream.timestamp_attribute)
    counting = Counting(record.deduplicate, record.max_error_fraction)
    config = RunConfig(collections, source, Outputs(str(output)), counting)
    engine = LocalStream(config, _Nothing())
    revisions = engine.revisions()
    taken = {place for segment in engine.segments for place in segment.replayed}
    try:
        for table in rejects.tables:
            found = _mended(output, int(table.stem.rpartition("-")[2]), taken, engine)
            if found is not None:
                engine.take_up(*found)
    finally:
        engine.stop()
    assert engine.record is not None  # noqa: S101 - stop() writes it
    names = {c.digest_hex: c.name for c in collections}
    revised = [
        (names[digest], epoch, number)
        for (digest, epoch), number in engine.revisions().items()
        if number != revisions.get((digest, epoch), -1)
    ]
    before, after = map(rejected_count, (record, engine.record))
    return Replayed(engine.record, before, after, tuple(sorted(revised)))


def _mended(
    output: Path, refused: int, taken: set[tuple[int, int]], engine: LocalStream
) -> tuple[Segment, list[ReportColumns]] | None:
    """A segment with the messages of one batch that are no longer refused; None when there are none."""
    listing = output / FOLDER / f"refused-{refused:010d}.json"
    if not listing.is_file():
        return None  # nothing was refused, or it has been cleared away
    content = listing.with_suffix(".pb").read_bytes()
    places: list[tuple[int, int]] = []
    total: Counter[tuple[Key, str]] = Counter()
    admitted: list[ReportColumns] = []
    for place, length, reason in json.loads(listing.read_text()):
        if Reason(reason) not in MENDABLE or (refused, place) in taken:
            continue
        message = content[place : place + length]
        was, now = _was(message, Reason(reason)), _judge(message, engine.collections)
        if any(rejection.reason in MENDABLE for rejection in now.rejections):
            continue
        places.append((refused, place))
        total.update(dict(now.entries()))
        total.subtract(was)
        admitted += now.admitted
    if not places:
        return None
    entries: tuple[Entry, ...] = tuple((key, n) for key, n in total.items() if n)
    number = engine.next_number
    return Segment(number, engine.watermark, 0, 0, entries, (), replayed=tuple(places)), admitted


def _was(message: bytes, reason: Reason) -> Counter[tuple[Key, str]]:
    """What a wholly refused message was booked as."""
    rows, batches, _ = codec.parse(codec.joined([message]))
    count = max(int(batches.ids_length[0]) >> 3, 1) if batches else 1
    digest = int(batches.digest[0]) if batches else int(rows.digest[0])
    key: Key = ("", None) if reason is Reason.UNKNOWN_COLLECTION else (digest_hex(digest), None)
    return Counter({(key, "read"): count, (key, f"rejected.{reason.value}"): count})


def _judge(message: bytes, collections: dict[int, Collection]) -> Admission:
    """Without an arrival: a message that is replayed is neither late nor early."""
    done = Admission()
    admit_frames(codec.joined([message]), collections, "", done)
    return done
