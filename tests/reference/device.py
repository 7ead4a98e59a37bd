"""A device that is nothing but a table of its words: what it must send, from the words that it drew.

The payload comes from the simulator's array code, one device at a time, composites from their parts; the
message from the protobuf library. Nothing of the device's own code is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.channels.channel import BitChannel
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.device_definition import device_definition
from ldpbeam.protocols.attributes.base import AttributeProtocol
from ldpbeam.protocols.attributes.bounded_counters import BoundedCounters
from ldpbeam.protocols.attributes.sample import Sample
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.simulation import WordSpec
from ldpbeam.wire import report_pb2
from tests.reference import strings
from tests.reference.random_words import randomised

__all__ = ["ReferenceDevice"]


class _Row:
    """One device's words in the order seed, permanent, instant; satisfies ``FleetWords``."""

    def __init__(self, seed: list[int] | None, words: Iterator[int]) -> None:
        self._seed = seed
        self._words = words
        self._permanent: NDArray[np.uint64] | None = None

    def _next(self, spec: WordSpec) -> NDArray[np.uint64]:
        return np.array([list(islice(self._words, spec.count))], np.uint64).reshape(1, spec.count)

    def seed(self, spec: WordSpec) -> NDArray[np.uint64]:
        return self._next(spec) if self._seed is None else np.array([self._seed], np.uint64)

    def take_permanent(self, spec: WordSpec) -> None:
        """Fleets ask only for new inputs; a device has drawn them in any case."""
        self._permanent = self._next(spec)

    def permanent(self, spec: WordSpec) -> NDArray[np.uint64]:
        assert self._permanent is not None
        return self._permanent

    def instant(self, spec: WordSpec) -> NDArray[np.uint64]:
        return self._next(spec)

    def permanent_bits(
        self, held: NDArray[np.uint8], rows: NDArray[np.int64], spec: WordSpec, channel: BitChannel
    ) -> NDArray[np.uint8]:
        return randomised(held, self.permanent(spec)[rows], channel)

    def instant_bits(self, held: NDArray[np.uint8], spec: WordSpec, channel: BitChannel) -> NDArray[np.uint8]:
        return randomised(held, self.instant(spec), channel)


class _Memo:
    """Permanent answers by key; satisfies ``FleetAnswers``."""

    def __init__(self) -> None:
        self.answers: dict[int, Any] = {}

    def recall(
        self, keys: NDArray[np.int64], draw: Callable[[NDArray[np.int64]], NDArray[Any]]
    ) -> NDArray[Any]:
        key = int(keys[0])
        if key not in self.answers:
            self.answers[key] = draw(np.array([0]))[0]
        return np.array([self.answers[key]])


class _Part:
    """One protocol without parts."""

    def __init__(self, kind: LocalProtocol[Any], words: Iterator[int]) -> None:
        self._kind = kind
        self._memo = _Memo()
        self._seed: list[int] | None = []
        if kind.simulation.word_plan.seed is not None:
            self._seed = None
            if not kind.simulation.word_plan.seed_per_report:
                self._seed = [next(words) for _ in range(kind.simulation.word_plan.seed.count)]

    def payload(self, value: int, words: Iterator[int]) -> bytes:
        kind = self._kind
        seed = self._seed
        if seed is None:
            assert kind.simulation.word_plan.seed is not None
            seed = [next(words) for _ in range(kind.simulation.word_plan.seed.count)]
        row = _Row(seed, words)
        if kind.simulation.word_plan.permanent is not None:
            row.take_permanent(kind.simulation.word_plan.permanent)
        sent = kind.simulation.privatize(np.zeros(1, np.int64), np.array([value]), row, self._memo)  # type: ignore[arg-type]
        return sent[0].tobytes()


class ReferenceDevice:
    """What a device of a collection must send."""

    def __init__(self, collection: Collection, words: Sequence[int]) -> None:
        self._collection = collection
        kind = collection.protocol
        drawn = iter(words)
        self._chosen: list[int] = [0]
        if isinstance(kind, Sample):
            self._chosen = [strings.drawn(kind.device.weights, next(drawn))]
        elif isinstance(kind, AttributeProtocol):
            self._chosen = list(range(len(kind.parts)))
        self._parts = [_Part(kind.parts[i], drawn) for i in self._chosen]
        assert not list(drawn), "more words than the memo needs"

    def report(self, value: Any, epoch: int, words: Sequence[int]) -> bytes:
        """The report that follows from the words drawn for it, each of which is used."""
        kind, drawn = self._collection.protocol, iter(words)
        if isinstance(value, str):
            value = strings.fingerprints(device_definition(self._collection)["domain"]["strings"], value)
        values = [value[i] for i in self._chosen] if isinstance(kind, AttributeProtocol) else [value]
        parts = [part.payload(v, drawn) for part, v in zip(self._parts, values, strict=True)]
        payload = b"".join(parts)
        if isinstance(kind, Sample):
            width = 1 if len(kind.parts) <= 256 else 2
            payload = (self._chosen[0].to_bytes(width, "little") + payload).ljust(
                kind.device.payload_size, b"\0"
            )
        elif isinstance(kind, BoundedCounters):
            payload = sum(part[0] << i for i, part in enumerate(parts)).to_bytes(
                kind.device.payload_size, "little"
            )
        message = report_pb2.Report(
            digest=self._collection.digest, epoch=epoch, report_id=next(drawn), payload=payload
        )
        assert not list(drawn), "more words than the report needs"
        return message.SerializeToString()
