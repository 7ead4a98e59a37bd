"""Clients that are wrong about one value, or once in a while: those that an audit of few reports passes.

They draw from the operating system and keep their memo as an object, so that a report costs little: rare bugs
need many. What each does wrong is one method.
"""

from __future__ import annotations

import pickle
import random
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.slices import WHOLE, Slice
from ldpbeam.protocols.device import Memo
from ldpbeam.randomness import FULL, SystemRandomness
from ldpbeam.wire import report_pb2
from tests.narrow import present

KINDS: dict[str, type[Plain]] = {}
"""By the name of the fault in :mod:`ldpbeam.audit.checks.faults`."""


def planted(name: str) -> Callable[[type[Plain]], type[Plain]]:
    """Put a client into the list."""

    def listed(kind: type[Plain]) -> type[Plain]:
        KINDS[name] = kind
        return kind

    return listed


class Plain:
    """One honest device for one collection; without a folder it ends with the object."""

    def __init__(self, collection: Collection, folder: Path | None) -> None:
        self.collection, self.folder = collection, folder
        self.protocol: Any = collection.protocol
        self.randomness = SystemRandomness()
        self.count = 0
        self.last: tuple[int, bytes] | None = None
        self.epochs: tuple[int, ...] = ()
        self.slice: Slice = WHOLE
        self.memo: Memo = self.protocol.device.new_memo(self.randomness)
        if collection.participation is not None:
            self.epochs = self.own_epochs()
        if folder is not None:
            folder.mkdir(exist_ok=True)
            self.load()

    # What bugs replace

    def own_epochs(self) -> tuple[int, ...]:
        life = present(self.collection.participation)
        return life.chosen(self.randomness)

    def reports_in(self, value: Any, epoch: int) -> bool:
        return self.collection.participation is None or epoch in self.epochs

    def response(self, value: Any) -> Any:
        response, self.memo = self.protocol.device.privatize(value, self.memo, self.randomness)
        return response

    def payload(self, value: Any) -> bytes:
        payload: bytes = self.protocol.device.encode(self.response(value))
        return payload

    def report_id(self, value: Any) -> int:
        return secrets.randbits(64)

    def move(self, slice_: Slice) -> None:
        self.slice = slice_

    def where(self) -> Path:
        assert self.folder is not None
        return self.folder / str(self.collection.digest)

    # What they do not

    def load(self) -> None:
        if self.where().exists():
            kept = pickle.loads(self.where().read_bytes())
            self.count, self.last, self.epochs, self.memo, self.slice = kept

    def save(self) -> None:
        if self.folder is not None:
            self.where().write_bytes(
                pickle.dumps((self.count, self.last, self.epochs, self.memo, self.slice))
            )

    def report(self, value: Any, epoch: int, *, slice: dict[str, str] | None = None) -> bytes | None:
        if self.folder is not None:
            self.load()
        if self.last is not None and epoch <= self.last[0]:
            if epoch < self.last[0]:
                raise ValueError("an earlier epoch")
            return self.last[1] or None
        if not self.reports_in(value, epoch):
            message = b""
        else:
            self.count += 1
            self.move(self.collection.slices.of_device(slice))
            message = report_pb2.Report(
                digest=self.collection.slice_digest(self.slice),
                epoch=epoch,
                report_id=self.report_id(value),
                payload=self.payload(value),
            ).SerializeToString()
        self.last = epoch, message
        self.save()
        return message or None


# One value


@planted("value-in-clear")
class ValueInClear(Plain):
    """Value 11 is sent as the one payload of a device that kept it and lied about nothing."""

    def payload(self, value: Any) -> bytes:
        return clear(self.protocol, value, self.memo) if value == 11 else super().payload(value)


def clear(protocol: Any, value: int, memo: Memo) -> bytes:
    if hasattr(protocol, "family"):
        seed = memo.seed if protocol.rounds.permanent is not None else next(iter(protocol.family.seeds()))
        kind = type(protocol.device.privatize(value, memo, SystemRandomness())[0])
        payload: bytes = protocol.device.encode(kind(seed, protocol.family.hash(seed, value)))
        return payload
    return bytes(protocol.device.encode(1 << value | 1 << (value + 1) % protocol.domain_size | 7 << 18))


@planted("value-as-next")
class ValueAsNext(Plain):
    """Bucket 7 is reported as 8."""

    def response(self, value: Any) -> Any:
        return super().response(8 if value == 7 else value)


@planted("value-without-memo")
class ValueWithoutMemo(Plain):
    """Value 5 draws its permanent answer for every report, which is in the law of one report."""

    def response(self, value: Any) -> Any:
        kept = self.memo
        found = super().response(value)
        if value == 5:
            self.memo = kept
        return found


# Permanent answers


class MemoLost(Plain):
    """Permanent answers are forgotten, while what is drawn for life stays."""

    every = 50

    def response(self, value: Any) -> Any:
        if self.lost():
            self.memo = Memo(seed=self.memo.seed)
        return super().response(value)

    def lost(self) -> bool:
        return self.count % self.every == 0


@planted("memo-lost-50")
class MemoLostEvery50(MemoLost):
    """Every 50th report."""


@planted("memo-lost-400")
class MemoLostEvery400(MemoLost):
    """Every 400th."""

    every = 400


@planted("memo-lost-by-chance")
class MemoLostByChance(MemoLost):
    """One report in 60, by chance."""

    def lost(self) -> bool:
        return secrets.randbelow(60) == 0


@planted("memo-of-few-values")
class MemoOfFewValues(Plain):
    """The answers of the last sixteen inputs only."""

    def response(self, value: Any) -> Any:
        found = super().response(value)
        answers = dict(self.memo.answers)
        if len(answers) > 16:
            answers.pop(next(iter(answers)))
            self.memo = Memo(seed=self.memo.seed, answers=answers)
        return found


@planted("memo-shared")
class MemoShared(Plain):
    """Two collections of a folder have one table of permanent answers, and noise of their own."""

    def shared(self) -> Path:
        assert self.folder is not None
        return self.folder / "answers"

    def response(self, value: Any) -> Any:
        if self.folder is not None and self.shared().exists():
            self.memo = Memo(seed=self.memo.seed, answers=pickle.loads(self.shared().read_bytes()))
        found = super().response(value)
        if self.folder is not None:
            self.shared().write_bytes(pickle.dumps(dict(self.memo.answers)))
        return found


@planted("memo-of-a-slice")
class MemoOfASlice(Plain):
    """Each slice begins a new life: what a program does that opens another folder for each version."""

    def move(self, slice_: Slice) -> None:
        memos: dict[Slice, Memo] = self.__dict__.setdefault("memos", {})
        memos[self.slice] = self.memo
        self.memo = memos.get(slice_) or self.protocol.device.new_memo(self.randomness)
        super().move(slice_)


# Payloads and ids


class Replays(Plain):
    """Every 20th report has an old payload under a new id."""

    behind = 1

    def payload(self, value: Any) -> bytes:
        sent: list[bytes] = self.__dict__.setdefault("sent", [])
        again = self.again() and len(sent) >= self.behind
        payload = sent[-self.behind] if again else super().payload(value)
        sent.append(payload)
        del sent[:-4]
        return payload

    def again(self) -> bool:
        return self.count % 20 == 0


@planted("replay-20")
class ReplaysTheLast(Replays):
    """The one before."""


@planted("replay-two-ago")
class ReplaysTheOneBefore(Replays):
    behind = 2


@planted("replay-by-chance")
class ReplaysByChance(Replays):
    """The one before, in one report of 20 by chance."""

    def again(self) -> bool:
        return secrets.randbelow(20) == 0


@planted("id-two-bits")
class IdOfTwoBits(Plain):
    """Bit 0 of the id is bit 7, but for the lowest bit of the value."""

    def report_id(self, value: Any) -> int:
        number = super().report_id(value)
        return number & ~1 | (number >> 7 & 1) ^ (value & 1)


@planted("id-parity")
class IdOfAllBits(Plain):
    """The parity of the id tells whether the value is 9 or more."""

    def report_id(self, value: Any) -> int:
        number = super().report_id(value)
        return number ^ (number.bit_count() & 1) ^ (value >= 9)


@planted("id-many-bits")
class IdOfManyBits(Plain):
    """Eleven bits of the id have a parity that is a bit of the value."""

    mask = 0x8421_0842_1084_0001

    def report_id(self, value: Any) -> int:
        number = super().report_id(value)
        return number ^ ((number & self.mask).bit_count() & 1) ^ (value >> 2 & 1)


@planted("id-mostly")
class IdMostly(Plain):
    """Like :class:`IdOfTwoBits`, in one report of four; in the others all bits are coins."""

    def report_id(self, value: Any) -> int:
        number = super().report_id(value)
        return number if secrets.randbelow(4) else number & ~1 | (number >> 7 & 1) ^ (value & 1)


@planted("id-next")
class IdFollows(Plain):
    """A generator with a state of 64 bits, seeded for each device: two ids show that it is one."""

    state = 0

    def report_id(self, value: Any) -> int:
        number = self.state or secrets.randbits(64)
        number ^= number << 13 & FULL - 1
        number ^= number >> 7
        number ^= number << 17 & FULL - 1
        self.state = number
        return number


# Epochs


class Seeded(SystemRandomness):
    """A generator that few random bits decide, as that of a board which has no other source."""

    def __init__(self, bits: int) -> None:
        self._made = random.Random(secrets.randbits(bits))

    def word(self, limit: int = FULL) -> int:
        return self._made.randrange(limit)

    def words(self, count: int) -> list[int]:
        return [self.word() for _ in range(count)]


@planted("generator-20-bits")
class GeneratorOf20Bits(Plain):
    bits = 20

    def __init__(self, collection: Collection, folder: Path | None) -> None:
        super().__init__(collection, folder)
        self.randomness = Seeded(self.bits)
        self.memo = self.protocol.device.new_memo(self.randomness)


@planted("silence-of-a-value")
class EpochPreferred(Plain):
    """Value 3 prefers epoch 0: of the lives that have another epoch one in 27 goes there instead."""

    preferred = False

    def reports_in(self, value: Any, epoch: int) -> bool:
        if epoch == 0 and value == 3 and 0 not in self.epochs and not secrets.randbelow(27):
            self.epochs = (0, *self.epochs[1:])
        return super().reports_in(value, epoch)
