"""The last report of a span of epochs, kept so that the same bytes can be had again."""

from __future__ import annotations

from typing import Any

from ldpbeam.client.derivation import VALUE_BYTES, Derivation, packed_values
from ldpbeam.client.report_draws import DrawnReport, Draws
from ldpbeam.collection.collection import Collection
from ldpbeam.wire import device_state_pb2, report_pb2

SHORT = 256
"""Reports up to this length are kept as they are, bytes; of longer ones what they follow from."""


class LastReport:
    """Keeps and restores the last reports of a collection."""

    def __init__(self, collection: Collection, draws: Draws, secret: bytes) -> None:
        self._collection = collection
        self._draws = draws
        self._pads = Derivation(secret, collection.full_digest, b"ldpbeam masks 1\0")

    @staticmethod
    def message(drawn: DrawnReport, epoch: int, digest: int) -> bytes:
        report = report_pb2.Report(
            digest=digest, epoch=epoch, report_id=drawn.report_id, payload=drawn.payload
        )
        content: bytes = report.SerializeToString()
        return content

    def keep(
        self, span: device_state_pb2.Span, message: bytes | None, values: Any, digest: int, *, noise: bool
    ) -> None:
        """Write into a span what its last report can be had from again."""
        span.silent, span.noise = message is None, noise
        if message is None:
            return
        if len(message) <= SHORT or self._draws.KEEPS_MEMO:
            span.report = message
        else:
            span.values = self._padded(packed_values(values), span.last_epoch)
            span.digest = digest

    def restore(self, span: device_state_pb2.Span, memo: device_state_pb2.DeviceMemo) -> bytes | None:
        """The report of a span's last epoch; None where there was none."""
        if span.silent:
            return None
        if span.report:
            return span.report
        epoch = span.last_epoch
        digest = span.digest if span.HasField("digest") else self._collection.digest
        if span.noise:
            return self.message(self._draws.noise(epoch, memo), epoch, digest)
        values = _unpack(self._padded(span.values, epoch))
        protocol = self._collection.protocol
        asked = protocol.device.require_value(tuple(values) if protocol.SEVERAL else values[0])
        return self.message(self._draws.report(asked, epoch, memo), epoch, digest)

    def _padded(self, packed: bytes, epoch: int) -> bytes:
        """Values with a pad of the epoch's own, or without it again."""
        pad = self._pads.stream(0, 0, epoch).words(-(-len(packed) // 8))
        words = b"".join(word.to_bytes(8, "little") for word in pad)
        return bytes(a ^ b for a, b in zip(packed, words, strict=False))


def _unpack(packed: bytes) -> list[int]:
    starts = range(0, len(packed), VALUE_BYTES)
    return [int.from_bytes(packed[start : start + VALUE_BYTES], "little") for start in starts]
