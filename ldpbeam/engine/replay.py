"""Take up again the refused messages of a stream: they are landed and counted as if they came now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ldpbeam.accounting import Entry, Key
from ldpbeam.admission import Admission, ReportColumns, by_epoch
from ldpbeam.collection.collection import Collection
from ldpbeam.engine.engine import LocalStream
from ldpbeam.engine.sources.source import IncomingMessage, MessageSource
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.engine.storage.segment import Place, Segment
from ldpbeam.errors import Reason
from ldpbeam.job.config import Counting, Input, LocalEngine, RunConfig
from ldpbeam.records.rejects import Rejects, Replayed, rejected_count
from ldpbeam.reports import admit_frames
from ldpbeam.transforms.sinks import Outputs
from ldpbeam.wire import codec

_FOR_GOOD = 10_000 * 366 * 86_400
"""Seconds: longer than any collection is old."""

MENDABLE = frozenset({Reason.UNKNOWN_COLLECTION, Reason.RETIRED_COLLECTION, Reason.FUTURE_EPOCH})
"""Reasons that another set of collections can do away with. The others lie in the bytes of the report."""


class _NoMessages(MessageSource[IncomingMessage]):
    """A source that is empty: a replay only looks back."""

    def pull(self, limit_messages: int, limit_bytes: int, timeout_seconds: float) -> list[IncomingMessage]:
        return []

    def acknowledge(self, messages: Sequence[IncomingMessage]) -> None:
        return None


def replay_stream(rejects: Rejects) -> Replayed:
    """Take up the rejected records of a stream, in its output."""
    output, collections, record = rejects.output, rejects.collections, rejects.record
    assert record.stream is not None  # noqa: S101 - what is replayed here is a stream
    brokers = {"subscription": record.stream.subscription, "watch": record.stream.watch}
    source = Input(brokers=brokers, timestamp_attribute=record.stream.timestamp_attribute)
    counting = Counting(record.deduplicate, record.max_error_fraction)
    # A replay removes nothing: how long a stream keeps its reports, its own options say.
    engine = LocalEngine(keep_landed=_FOR_GOOD)
    config = RunConfig(collections, source, Outputs(str(output)), counting, engine=engine)
    with Landing(str(output)).locked() as landing:
        stream = LocalStream(config, _NoMessages(), landing)
        revisions = stream.state.revisions()
        try:
            for table in rejects.tables:
                judged = _mended(int(table.stem.rpartition("-")[2]), stream)
                if judged is not None:
                    stream.take_up(judged)
        finally:
            stream.stop()
        assert stream.record is not None  # noqa: S101 - stop() writes it
        names = {c.digest_hex: c.name for c in collections}
        revised = [
            (names[digest], epoch, number)
            for (digest, epoch), number in stream.state.revisions().items()
            if number != revisions.get((digest, epoch), -1)
        ]
    before, after = map(rejected_count, (record, stream.record))
    return Replayed(stream.record, before, after, tuple(sorted(revised)))


def _mended(number: int, stream: LocalStream[IncomingMessage]) -> Segment | None:
    """A segment with the messages of one batch that are no longer refused; None when there are none."""
    places: set[Place] = set()
    total: Counter[tuple[Key, str]] = Counter()
    admitted: list[ReportColumns] = []
    for place, reason, message in stream.state.refused(number):
        if reason not in MENDABLE:
            continue
        was, now = _was(message, reason, stream.collections), _judge(message, stream.collections)
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
    return Segment(stream.watermark, entries=entries, admitted=columns, replayed=frozenset(places))


def _was(message: bytes, reason: Reason, collections: Mapping[int, Collection]) -> Counter[tuple[Key, str]]:
    """What a wholly refused message was counted as."""
    rows, batches, _ = codec.parse(codec.joined([message]))
    count = max(int(batches.ids_length[0]) >> 3, 1) if batches else 1
    digest = int(batches.digest[0]) if batches else int(rows.digest[0])
    unknown = reason is Reason.UNKNOWN_COLLECTION
    key: Key = ("" if unknown else collections[digest].digest_hex, None)
    return Counter({(key, "read"): count, (key, f"rejected.{reason.value}"): count})


def _judge(message: bytes, collections: dict[int, Collection]) -> Admission:
    """Without an arrival: a message that is replayed is neither late nor early."""
    done = Admission()
    admit_frames(codec.joined([message]), collections, "", done)
    return done
