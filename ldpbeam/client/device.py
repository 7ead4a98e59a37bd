"""A device that turns its value of an epoch into the bytes of one report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.protocols.contract import Memo, plain_integer
from ldpbeam.randomness import Randomness, SystemRandomness
from ldpbeam.wire import report_pb2

__all__ = ["Device"]


class Device:
    """One device's side of a collection.

    The memo is what keeps the longitudinal guarantee: a device that loses it and draws again spends its
    privacy again. ``keep`` is therefore called with every new memo *before* the report that needs it is
    returned; it must not return until the memo is durable. Memo and report ids are secrets of the device.

    Args:
        collection: what the device was given.
        memo: the memo kept from earlier; None for a device that never reported.
        keep: makes a memo durable; an exception it raises leaves the device as it was, without a report.
        randomness: the operating system's generator, unless a test scripts it.
    """

    def __init__(
        self,
        collection: Collection,
        memo: Memo | None = None,
        *,
        keep: Callable[[Memo], None] = lambda memo: None,
        randomness: Randomness | None = None,
    ) -> None:
        """Start from a kept memo, or draw and keep a new one."""
        self._collection = collection
        self._keep = keep
        self._randomness = randomness if randomness is not None else SystemRandomness()
        self._sent: tuple[int, bytes] | None = None
        if memo is None:
            memo = collection.protocol.new_memo(self._randomness)
            keep(memo)
        self._memo = memo

    @property
    def memo(self) -> Memo:
        """The current memo."""
        return self._memo

    def report(self, value: Any, epoch: int) -> bytes:
        """A serialised ``Report`` about ``value`` (an index, or one per attribute) in ``epoch``.

        Asked again for the same epoch, the device returns the same bytes, whatever the value is by then: a
        second draw would spend privacy again, and be counted as another report. For the same reason an epoch
        before the last one reported is refused.

        Raises:
            TypeError: the value or the epoch is no integer.
            ValueError: the epoch is none of the collection's or lies before the last one reported, or the
                value lies outside the domain. No text contains the value.
        """
        protocol = self._collection.protocol
        value, epoch = protocol.require_value(value), plain_integer(epoch, "the epoch")
        if not self._collection.epochs.contains(epoch):
            raise ValueError(f"epoch {epoch} is none of the collection's")
        if self._sent is not None and epoch <= self._sent[0]:
            if epoch < self._sent[0]:
                raise ValueError(f"epoch {epoch} lies before epoch {self._sent[0]}, which was reported")
            return self._sent[1]
        response, memo = protocol.privatize(value, self._memo, self._randomness)
        if memo is not self._memo:
            self._keep(memo)
            self._memo = memo
        message = report_pb2.Report(
            digest=self._collection.digest,
            epoch=epoch,
            report_id=self._randomness.word(),
            payload=protocol.encode(response),
        ).SerializeToString()
        self._sent = (epoch, message)
        return message

    def __repr__(self) -> str:
        """Which collection; nothing about the device."""
        return f"Device({self._collection.name} {self._collection.digest_hex})"
