"""How a device draws a report: from its secret, or from the operating system with a memo that it keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from ldpbeam.client.derivation import (
    WHOLE,
    Derivation,
    DerivedRandomness,
    Purpose,
    ReportRandomness,
    hash_of,
)
from ldpbeam.client.state import memo_message, memo_of
from ldpbeam.collection.collection import Collection
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.device import Memo
from ldpbeam.randomness import FULL, Randomness, SystemRandomness
from ldpbeam.wire import device_state_pb2


class DrawnReport(NamedTuple):
    """A report that has been drawn and has not left."""

    payload: bytes
    report_id: int
    inputs: Sequence[tuple[int, int]] = ()
    memo: device_state_pb2.DeviceMemo | None = None
    noise: bool = False


class Draws(ABC):
    KEEPS_MEMO: ClassVar[bool]
    """Whether the device keeps its memo, since permanent responses do not follow from its secret."""

    def __init__(self, collection: Collection) -> None:
        self._protocol = collection.protocol
        self._participation = collection.participation

    @abstractmethod
    def new_memo(self) -> device_state_pb2.DeviceMemo | None:
        """What a new device has to keep of its draws for life: the memo, or nothing."""

    @abstractmethod
    def report(self, values: Any, epoch: int, memo: device_state_pb2.DeviceMemo) -> DrawnReport:
        """A report about values that the protocol has let through.

        Args:
            values: the device's value; of several attributes a sequence of them.
            epoch: of the report.
            memo: as the state has it; it is not changed.
        """

    @abstractmethod
    def noise(self, epoch: int, memo: device_state_pb2.DeviceMemo) -> DrawnReport:
        """A report that depends on no value that the device ever held.

        It is what a device would send that never reported and holds uniformly drawn values, with the hash
        function, the buckets or the attribute that this device drew for life.
        """

    @abstractmethod
    def share(self, epoch: int) -> int:
        """A word for the sending time."""

    @abstractmethod
    def new_epochs(self) -> Sequence[int]:
        """What a new device has to keep of the epochs that it reports in: all of them, or nothing."""

    @abstractmethod
    def reports_in(self, epoch: int, own: Sequence[int]) -> bool:
        """Whether the device reports in an epoch, given what it keeps of them."""


class DerivedDraws(Draws):
    """Every word follows from the device's secret: asked for again, a report is drawn the same."""

    KEEPS_MEMO = False

    def __init__(self, collection: Collection, secret: bytes) -> None:
        super().__init__(collection)
        self._derivation = Derivation(secret, collection.full_digest)
        self._root = WHOLE if self._protocol.SEVERAL else 0
        once = DerivedRandomness(self._derivation, Purpose.ONCE, 0, self._root)
        self._memo = self._protocol.device.new_memo(once)
        self._epochs: frozenset[int] | None = None
        if self._participation is not None:
            words = self._derivation.stream(Purpose.PARTICIPATION, 0, 0)
            self._epochs = frozenset(self._participation.chosen(words))

    def new_memo(self) -> None:
        """It follows from the secret."""

    def report(self, values: Any, epoch: int, memo: device_state_pb2.DeviceMemo) -> DrawnReport:
        words = ReportRandomness(self._derivation, epoch, self._root, hash_of(values))
        response, _ = self._protocol.device.privatize(values, self._memo, words)
        return DrawnReport(self._protocol.device.encode(response), self._report_id(epoch), words.inputs)

    def noise(self, epoch: int, memo: device_state_pb2.DeviceMemo) -> DrawnReport:
        words = DerivedRandomness(self._derivation, Purpose.NOISE, epoch, self._root)
        return DrawnReport(_noise(self._protocol, self._memo, words), self._report_id(epoch), noise=True)

    def share(self, epoch: int) -> int:
        return self._derivation.stream(Purpose.SENDING_TIME, 0, epoch).word()

    def new_epochs(self) -> Sequence[int]:
        return ()

    def reports_in(self, epoch: int, own: Sequence[int]) -> bool:
        return self._epochs is None or epoch in self._epochs

    def _report_id(self, epoch: int) -> int:
        return self._derivation.stream(Purpose.REPORT_ID, 0, epoch).word()


class StoredDraws(Draws):
    """Fresh words of the operating system; what is memoised has to be kept."""

    KEEPS_MEMO = True

    def __init__(self, collection: Collection) -> None:
        super().__init__(collection)
        self._system = SystemRandomness()

    def new_memo(self) -> device_state_pb2.DeviceMemo:
        return memo_message(self._protocol.device.new_memo(self._system))

    def report(self, values: Any, epoch: int, memo: device_state_pb2.DeviceMemo) -> DrawnReport:
        words = _RecordedRandomness(self._system, 0, [])
        before = memo_of(memo)
        response, after = self._protocol.device.privatize(values, before, words)
        new_memo = None if after is before else memo_message(after)
        return DrawnReport(
            self._protocol.device.encode(response), self._system.word(), words.inputs, new_memo
        )

    def noise(self, epoch: int, memo: device_state_pb2.DeviceMemo) -> DrawnReport:
        return DrawnReport(
            _noise(self._protocol, memo_of(memo), self._system), self._system.word(), noise=True
        )

    def share(self, epoch: int) -> int:
        return self._system.word()

    def new_epochs(self) -> Sequence[int]:
        return () if self._participation is None else self._participation.chosen(self._system)

    def reports_in(self, epoch: int, own: Sequence[int]) -> bool:
        return self._participation is None or epoch in own


class _RecordedRandomness(Randomness):
    """Another source's words, and which permanent answers they were for."""

    def __init__(self, source: Randomness, part: int, inputs: list[tuple[int, int]]) -> None:
        self._source = source
        self._part = part
        self.inputs = inputs

    def word(self, limit: int = FULL) -> int:
        return self._source.word(limit)

    def words(self, count: int) -> Sequence[int]:
        return self._source.words(count)

    def permanent(self, key: int) -> Randomness:
        self.inputs.append((self._part, key))
        return self._source

    def part(self, index: int) -> Randomness:
        return _RecordedRandomness(self._source, index, self.inputs)


def _noise(protocol: LocalProtocol[Any], memo: Memo, words: Randomness) -> bytes:
    """The payload about uniformly drawn values, from the memo's part that was drawn without a value."""
    parts = protocol.parts
    values: Any
    if not protocol.SEVERAL:
        values = words.word(protocol.domain_size)
    else:
        limit = protocol.device.sum_limit
        sizes = [part.domain_size if limit is None else limit // len(parts) + 1 for part in parts]
        values = tuple(words.part(index).word(size) for index, size in enumerate(sizes))
    response, _ = protocol.device.privatize(values, _without_answers(memo), words)
    return protocol.device.encode(response)


def _without_answers(memo: Memo) -> Memo:
    return Memo(memo.seed, {}, tuple(map(_without_answers, memo.parts)))
