"""The rules of a stream, once for all that is compared with them: what arrives, and what must come out.

It is slow and shares nothing with the pipelines or the engine: messages are read by the protobuf library,
reports kept in dictionaries, payloads asked one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from google.protobuf.message import DecodeError

from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.errors import InvalidPayload
from ldpbeam.wire import report_pb2
from tests.narrow import frequencies
from tests.reference.counting import count_support

Key = tuple[str, int | None]
MICROS = 1_000_000


class Message(Protocol):
    """A serialized report or batch, and when it arrives, in microseconds since 1970."""

    @property
    def data(self) -> bytes: ...

    @property
    def arrival_micros(self) -> int: ...


@dataclass(frozen=True)
class Arrived:
    """A :class:`Message`."""

    data: bytes
    arrival_micros: int


def batch_message(digest: int, epoch: int, ids: Iterable[int], payloads: bytes) -> bytes:
    """A serialized batch."""
    names = list(ids)
    return report_pb2.ReportBatch(
        digest=digest, epoch=epoch, count=len(names), report_ids=names, payloads=payloads
    ).SerializeToString()


def parsed(data: bytes) -> tuple[int, int, int, list[int], bytes, bool] | None:
    """Digest, epoch, count, ids, payloads, whether a batch; None where it is neither message."""
    try:
        batch = report_pb2.ReportBatch.FromString(data)
        report = report_pb2.Report.FromString(data)
    except DecodeError:
        return None
    many = bool(batch.count or batch.report_ids or batch.payloads)
    if not data or (many and (report.report_id or report.payload)):
        return None
    if many:
        if batch.count != len(batch.report_ids):
            return None
        return batch.digest, batch.epoch, batch.count, list(batch.report_ids), batch.payloads, True
    return report.digest, report.epoch, 1, [report.report_id], report.payload, False


@cache
def refusal(agreed: Collection, payload: bytes) -> str:
    """Why a payload is not sound, or nothing."""
    try:
        agreed.protocol.device.decode(payload)
    except InvalidPayload as error:
        return error.reason.value
    return ""


@cache
def supported(agreed: Collection, payload: bytes) -> tuple[int, ...]:
    """What one report supports."""
    return tuple(count_support(frequencies(agreed.protocol), [payload]))


@dataclass
class Model:
    """What must come out of everything that has arrived so far."""

    deduplicate: bool = True
    lines: dict[Key, Counter[str]] = field(default_factory=dict)
    kept: dict[Key, dict[Any, bytes]] = field(default_factory=dict)
    told: dict[tuple[Key, Any], set[bytes]] = field(default_factory=dict)
    rows: Counter[tuple[str, str, int | None]] = field(default_factory=Counter)
    known: dict[str, Collection] = field(default_factory=dict)

    def land(
        self,
        messages: Iterable[Message],
        collections: Sequence[Collection],
        watermark: int = 0,
        closed: Set[Key] = frozenset(),
    ) -> None:
        """Messages that arrive, the watermark by then, what a job was given and what it had closed."""
        given = {digest: c for c in collections for digest in (c.digest, *c.said_digests)}
        self.known |= {c.digest_hex: c for c in collections}
        for message in messages:
            self._judge(message.data, max(message.arrival_micros, watermark), given, closed)

    def _judge(self, data: bytes, when: int, given: dict[int, Collection], closed: Set[Key]) -> None:
        found = parsed(data)
        if found is None:
            self._book(("", None), read=1, malformed=1)
            self.rows["malformed", "", None] += 1
            return
        digest, epoch, count, ids, payloads, batch = found
        agreed, n = given.get(digest), max(count, 1)
        if agreed is None:
            self._refuse(("", None), "unknown_collection", n, digest, epoch)
            return
        home: Key = (agreed.digest_hex, epoch)
        nowhere: Key = (agreed.digest_hex, None)
        start = agreed.epochs.origin + epoch * agreed.epochs.length
        if not 0 <= epoch < agreed.epochs.count:
            self._refuse(nowhere, "foreign_epoch", n, digest, epoch)
        elif agreed.retired is not None and start >= agreed.retired:
            self._refuse(nowhere, "retired_collection", n, digest, epoch)
        elif when < (start - agreed.epochs.length) * MICROS:
            self._refuse(nowhere, "future_epoch", n, digest, epoch)
        elif batch and count == 0:
            self._refuse(home, "malformed", 1, digest, epoch)
        elif len(payloads) != count * agreed.protocol.device.payload_size:
            self._refuse(home, "wrong_length", n, digest, epoch)
            if batch:
                could_be = (8 * count + len(payloads)) // (8 + agreed.protocol.device.payload_size)
                self._book(home, repeated=n - min(len(set(ids)), max(could_be, 1)))
        else:
            late = when >= (start + agreed.epochs.length + agreed.allowed_lateness) * MICROS
            width = agreed.protocol.device.payload_size
            for i, name in enumerate(ids):
                self._report(
                    home, agreed, name, payloads[i * width : (i + 1) * width], late or home in closed
                )
            unsound = [
                name for i, name in enumerate(ids) if refusal(agreed, payloads[i * width : (i + 1) * width])
            ]
            if batch:
                self._book(home, repeated=len(unsound) - len(set(unsound)))

    def _report(self, home: Key, agreed: Collection, name: Any, payload: bytes, late: bool) -> None:
        if reason := refusal(agreed, payload):
            self._refuse(home, reason, 1, agreed.digest, home[1])
        elif late:
            self._book(home, read=1, late=1)
        else:
            kept = self.kept.setdefault(home, {})
            name = name if self.deduplicate else (name, len(kept))
            seen = self.told.setdefault((home, name), set())
            what = "duplicate" if payload in seen else "conflicting_report_id" if seen else "counted"
            self._book(home, read=1, **{what: 1})
            seen.add(payload)
            kept[name] = min(payload, kept.get(name, payload))

    def _refuse(self, key: Key, reason: str, n: int, digest: int, epoch: int | None) -> None:
        self._book(key, read=n, **{reason: n})
        self.rows[reason, digest_hex(digest), epoch] += n

    def _book(self, key: Key, **what: int) -> None:
        self.lines.setdefault(key, Counter()).update(what)

    def line(self, key: Key) -> dict[str, Any]:
        """As the books write it."""
        return as_written(self.lines.get(key, Counter()))

    def support(self, key: Key) -> list[int]:
        agreed = self.known[key[0]]
        columns = [supported(agreed, payload) for payload in self.kept.get(key, {}).values()]
        none = [0] * frequencies(agreed.protocol).domain_size
        return [sum(column) for column in zip(none, *columns, strict=True)]

    @property
    def total(self) -> dict[str, Any]:
        return as_written(sum(self.lines.values(), Counter()))


def as_written(line: Counter[str]) -> dict[str, Any]:
    plain = ("read", "counted", "late", "duplicate")
    aside = {"repeated": line["repeated"]} if line["repeated"] else {}
    rejected = {reason: n for reason, n in sorted(line.items()) if reason not in (*plain, "repeated") and n}
    return {**{what: line[what] for what in plain}, "rejected": rejected, **aside}
