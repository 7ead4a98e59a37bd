"""Stage 1 as a step: what of a piece becomes elements, and under which output."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpbeam.admission import Parts
from ldpbeam.collection.epochs import Epochs
from ldpbeam.transforms.sources.chunks import Chunk
from ldpbeam.transforms.stages.reports import ACCOUNTING, COLUMNS, REJECTED, AdmitPieces
from ldpbeam.wire import codec
from ldpbeam.wire.report_pb2 import ReportBatch
from tests.pipelines.running import collection

AGREED = {c.digest: c for c in (collection("grr", 11, n, epochs=Epochs(3600, 0, 9)) for n in ("one", "two"))}
ONE, TWO = AGREED
SENT = [(ONE, 0, 2000), (ONE, 1, 3), (TWO, 0, 1500), (ONE, 0, 1100), (ONE, 0, 5), (ONE, 1, 1024)]
"""Batches, large ones and small ones, of two collections and two epochs."""


def chunk(sent: list[tuple[int, int, int]]) -> Chunk:
    messages, first = [], 0
    for digest, epoch, n in sent:
        ids = range(first, first + n)
        payloads = bytes(i % 11 for i in ids)
        message = ReportBatch(digest=digest, epoch=epoch, count=n, report_ids=ids, payloads=payloads)
        messages.append(message.SerializeToString())
        first += n
    arrivals = np.full(len(sent), 3599 * 1_000_000)  # the last second of one epoch, an early one of the next
    return Chunk("here", 0, codec.joined(messages), arrivals)


def elements(piece: Chunk) -> tuple[list[Any], list[Any]]:
    found, entries = [], []
    for output in AdmitPieces(AGREED).process(piece):
        if output.tag == ACCOUNTING:
            entries.append(output.value)
        else:
            assert output.tag == COLUMNS
            found.append(output.value)
    return found, entries


def test_batches_of_an_epoch_are_one_element_however_many_came() -> None:
    found, entries = elements(chunk(SENT))
    keys = [key for key, _ in found]
    assert len(keys) == len(set(keys)) == 3
    at = np.cumsum([0, *(n for _, _, n in SENT)])
    for (digest, epoch), parts in found:
        assert isinstance(parts, Parts)
        own = AGREED[parts[0].digest]
        assert {(own.digest_hex, epoch)} == {(AGREED[p.digest].digest_hex, p.epoch) for p in parts}
        assert own.digest_hex == digest
        ids = [
            i
            for (sent, when, n), first in zip(SENT, at, strict=False)
            if (sent, when) == (own.digest, epoch)
            for i in range(first, first + n)
        ]
        assert sorted(i for part in parts for i in part.report_ids.tolist()) == ids
        for part in parts:
            assert (part.payloads[:, 0] == part.report_ids % 11).all()
            assert not part.payloads.flags.writeable
    assert dict(entries) == {
        ((AGREED[digest].digest_hex, epoch), "read"): sum(n for d, e, n in SENT if (d, e) == (digest, epoch))
        for digest, epoch, _ in SENT
    }


def _batch(n: int, *, wrong: int = 0, parts: int = 1, digest: int = ONE) -> bytes:
    draw = np.random.Generator(np.random.Philox(n))
    payloads = draw.integers(0, 11, n, np.uint8)
    payloads[:wrong] = 11
    ids = draw.integers(0, 1 << 64, n, np.uint64).tolist()
    first = ReportBatch(digest=digest, epoch=0, count=n, payloads=payloads.tobytes())
    each = [ReportBatch(report_ids=some.tolist()) for some in np.array_split(np.array(ids, np.uint64), parts)]
    return b"".join(message.SerializeToString() for message in (first, *each))


def test_a_rejected_message_is_known_by_its_name_or_else_by_its_place() -> None:
    messages = [_batch(3), b"\xff\xff", _batch(4), b"\xfe\xff", b"\xfd\xff"]
    piece = Chunk("here", 0, codec.joined(messages), names=("a", "b", "", "", "e"))
    found = [one.value for one in AdmitPieces(AGREED).process(piece) if one.tag == REJECTED]
    assert sorted((one.source, one.place) for one in found) == [
        ("here", int(piece.frames.offsets[3])),
        ("here/messages/b", 0),
        ("here/messages/e", 0),
    ]
