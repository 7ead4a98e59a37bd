"""Take up again the refused messages of a stream: they are landed and counted as if they came now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ldpbeam.accounting import Entry, Key
from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.engine.engine import LocalStream
from ldpbeam.engine.sources.source import MessageSource
from ldpbeam.engine.storage.segment import Place, Segment
from ldpbeam.errors import Reason
from ldpbeam.job.config import Counting, Input, RunConfig
from ldpbeam.records.rejects import Rejects, Replayed, rejected_count
from ldpbeam.reports import Admission, ReportColumns, admit_frames, by_epoch
from ldpbeam.transforms.sinks import Outputs
from ldpbeam.wire import codec

MENDABLE = frozenset({Reason.UNKNOWN_COLLECTION, Reason.RETIRED_COLLECTION, Reason.FUTURE_EPOCH})
"""Reasons that another set of collections can do away with. The others lie in the bytes of the report."""


class _Nothing(MessageSource):
    """A source that has no messages: a replay only looks back."""

    def pull(self, limit_messages: int, limit_bytes: int, timeout_seconds: float) -> list[Any]:
        return []

    def acknowledge(self, messages: Sequence[Any]) -> None:
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
    try:
        for table in rejects.tables:
            judged = _mended(int(table.stem.rpartition("-")[2]), engine)
            if judged is not None:
                engine.take_up(judged)
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


def _mended(number: int, engine: LocalStream) -> Segment | None:
    """A segment with the messages of one batch that are no longer refused; None when there are none."""
    places: set[Place] = set()
    total: Counter[tuple[Key, str]] = Counter()
    admitted: list[ReportColumns] = []
    for place, reason, message in engine.refused(number):
        if reason not in MENDABLE:
            continue
        was, now = _was(message, reason), _judge(message, engine.collections)
        if any(rejection.reason in MENDABLE for rejection in now.rejections):
            continue
        places.add((number, place))
        total.update(dict(now.entries()))
        total.subtract(was)
        admitted += now.admitted
    if not places:
        return None
    entries: tuple[Entry, ...] = tuple((key, n) for key, n in total.items() if n)
    columns = tuple(by_epoch(admitted))
    return Segment(engine.watermark, entries=entries, admitted=columns, replayed=frozenset(places))


def _was(message: bytes, reason: Reason) -> Counter[tuple[Key, str]]:
    """What a wholly refused message was counted as."""
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
