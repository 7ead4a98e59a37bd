"""Planted bugs: a small client with one thing wrong, the collection that shows it, and the checks that do."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from ldpbeam.audit.checks.outcome import Check
from ldpbeam.channels.channel import SymbolChannel
from ldpbeam.hashing import ListedFamily
from ldpbeam.protocols import Memo
from ldpbeam.protocols.bit_flip import BucketBits
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.piecewise_mean import PiecewiseMean
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.wire import report_pb2
from tests.ldpbeam.audit.small import Small, Words


@dataclass(frozen=True)
class Planted:
    """A bug."""

    kind: type[Small]
    collection: str
    checks: tuple[Check, ...]
    draws: int


def with_round(protocol: Any, **channel: Any) -> LocalProtocol[Any]:
    """The protocol with another channel in one of its rounds."""
    changed: LocalProtocol[Any] = replace(protocol, rounds=replace(protocol.rounds, **channel))
    return changed


BUGS: list[Planted] = []


def planted(collection: str, *checks: Check, draws: int = 3000) -> Callable[[type[Small]], type[Small]]:
    """Put a bug into the list."""

    def listed(kind: type[Small]) -> type[Small]:
        BUGS.append(Planted(kind, collection, checks, draws))
        return kind

    return listed


# Channels


class Neighbour(SymbolChannel):
    """Lies with the next symbol."""

    def draw(self, symbol: int, randomness: Randomness) -> int:
        return symbol if randomness.word(self.total) < self.keep else (symbol + 1) % self.size


@planted("grr", Check.MATCH, Check.SUPPORT)
class LieIsTheNeighbour(Small):
    """Every lie is the next value: ε is lost, since others are impossible."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        c = protocol.rounds.instant
        return with_round(protocol, instant=Neighbour(c.size, c.keep, c.each))


@planted("grr", Check.BOUND, Check.MATCH)
class TwiceTheLevel(Small):
    """ε doubled."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        c = protocol.rounds.instant
        return with_round(protocol, instant=SymbolChannel.from_ratio(c.size, c.ratio**2))


# Two rounds


@planted("l_grr", Check.BOUND, Check.SEQUENCE_MATCH)
class SecondRoundSkipped(Small):
    """The permanent answer is sent as it is: ε∞ in the first report."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        c = protocol.rounds.instant
        return with_round(protocol, instant=SymbolChannel(c.size, FULL - c.size, 1))


@planted("l_grr", Check.MATCH, Check.BOUND)
class FirstRoundSkipped(Small):
    """The truth is memoised; with time the second round averages out."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        c = protocol.rounds.permanent
        return with_round(protocol, permanent=SymbolChannel(c.size, FULL - c.size, 1))


@planted("loloha", Check.BOUND, Check.MATCH)
class LevelsSwapped(Small):
    """The second round at the level that the permanent one should have."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        longer = SymbolChannel.from_epsilon(protocol.g, 6.0)
        return with_round(protocol, instant=longer)


@planted("clear", Check.SEQUENCE_BOUND, Check.SEQUENCE_MATCH)
class MemoIgnored(Small):
    """Every report draws its permanent answer again: t reports lose t·ε1."""

    def permanent_label(self, label: str, key: int) -> str:
        return f"{super().permanent_label(label, key)} in {self.epoch}"


@planted("l_grr", Check.SEQUENCE_MATCH)
class MemoOfTheFirstValueForEver(Small):
    """One permanent answer, drawn for the first value, whatever the value is later."""

    first: int | None = None

    def response(self, value: int, epoch: int) -> Any:
        if self.first is None:
            self.first = value
        return super().response(self.first, epoch)


@planted("l_osue", Check.SEQUENCE_MATCH)
class SameNoiseInEveryEpoch(Small):
    """The second round is drawn once."""

    def epoch_label(self, epoch: int) -> str:
        return "every epoch"


# Hash functions and buckets


@planted("loloha", Check.LASTING)
class HashDrawnForEveryReport(Small):
    """A new function each time: the memo is of no use, and g answers become many."""

    def response(self, value: int, epoch: int) -> Any:
        self.memo = self.protocol.device.new_memo(Words(self, f"life {epoch}"))
        return super().response(value, epoch)


@planted("loloha", Check.DEVICES, Check.SUPPORT)
class HashOfAllDevicesTheSame(Small):
    """A constant seed."""

    def key(self, label: str) -> bytes:
        return b"constant" if label == "life" else super().key(label)


@planted("loloha_affine", Check.COLLECTIONS)
class SeedReusedAcrossCollections(Small):
    """The collection is no part of the derivation: a device has one function and one noise everywhere."""

    def key(self, label: str) -> bytes:
        return self.secret


@planted("dbitflip", Check.MATCH, Check.SUPPORT)
class BucketsChosenByValue(Small):
    """The device's own bucket is always among the sampled ones."""

    def response(self, value: int, epoch: int) -> BucketBits:
        words = Words(self, self.epoch_label(epoch))
        while True:
            response: BucketBits = self.protocol.device.privatize(value, self.memo, words)[0]
            if value in response.indices:
                return response


# Means and attributes


@planted("laplace_mean", Check.BOUND, Check.MATCH)
class NoiseOfHalfTheScale(Small):
    def response(self, value: int, epoch: int) -> int:
        noisy = int(super().response(value, epoch))
        return value + (noisy - value) // 2


@planted("piecewise_mean", Check.BOUND, Check.MATCH)
class WindowOfOneReport(Small):
    """The report that the window begins with stands for all of it."""

    def response(self, value: int, epoch: int) -> int:
        assert isinstance(self.protocol, PiecewiseMean)
        response: int = super().response(value, epoch)
        return value if value <= response < value + self.protocol.instant.width else response


@planted("split", Check.MATCH)
class NoiseReusedOverAttributes(Small):
    """Attributes with one noise: lies go together."""

    def part_label(self, label: str, index: int) -> str:
        return f"{label} part 0"


# Strings


planted("strings", Check.SEQUENCE_MATCH)(MemoIgnored)


@planted("strings", Check.SEQUENCE_MATCH)
class SecondRoundOfALengthSkipped(SecondRoundSkipped):
    def made(self, protocol: Any) -> LocalProtocol[Any]:
        level = super().made(protocol.parts[0])
        return replace(protocol, protocols=(level,) * len(protocol.parts))


@planted("strings", Check.LASTING)
class LengthDrawnForEveryReport(Small):
    """Prefixes of all lengths, each by a function for life."""

    def response(self, value: Any, epoch: int) -> Any:
        protocol: Any = self.protocol
        length = secrets.randbelow(len(protocol.parts))
        kept = protocol.parts[length].device.new_memo(Words(self, f"life part {length}"))
        self.memo = Memo(length, parts=(kept,))
        return super().response(value, epoch)


@planted("strings", Check.MATCH)
class LengthsDrawnEvenly(Small):
    """Weights that nobody asked for: whole texts are too rare."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        even = replace(protocol.strings, weights=(1,) * len(protocol.parts))
        return replace(protocol, strings=even)


class NextFunction(ListedFamily):
    """The function that follows in the list."""

    def hash(self, seed: int, value: int) -> int:
        return super().hash((seed + 1) % self.functions, value)


@planted("strings", Check.SUPPORT)
class FunctionOffByOne(Small):
    def made(self, protocol: Any) -> LocalProtocol[Any]:
        family = protocol.parts[0].family
        level = replace(protocol.parts[0], family=NextFunction(family.g, family.domain_size))
        return replace(protocol, protocols=(level,) * len(protocol.parts))


@planted("strings", Check.SUPPORT)
class LastSymbolLeftOut(Small):
    """Prefixes that are a symbol too short."""

    def response(self, value: Any, epoch: int) -> Any:
        strings = cast(Any, self.protocol).strings
        shorter = replace(strings, lengths=tuple(length - 1 for length in strings.lengths))
        return super().response(shorter.fingerprints(value.text), epoch)


@planted("strings", Check.IDS)
class IdOfTheText(Small):
    """Two bits of an id tell a bit of the text's fingerprint."""

    def report_id(self, value: Any, epoch: int) -> int:
        number = super().report_id(value, epoch)
        return number & ~1 | (number >> 7 ^ value[-1]) & 1


# Generators


_GENERATOR = random.Random(5)


@planted("grr", Check.FORK)
class ForkDuplicates(Small):
    """A generator with a state: forked processes have the same one."""

    def new_secret(self) -> bytes:
        return _GENERATOR.randbytes(16)


# Time, restarts, bytes


@planted("grr", Check.EPOCHS)
class TruthInOneEpochOf97(Small):
    """A debugging switch that was left in."""

    def response(self, value: int, epoch: int) -> Any:
        return value if epoch % 97 == 41 else super().response(value, epoch)


@planted("grr", Check.REPEAT)
class DrawsAgainWhenAskedAgain(Small):
    def again(self, value: int, epoch: int) -> bytes | None:
        return None

    def epoch_label(self, epoch: int) -> str:
        return f"{epoch} {secrets.token_hex(8)}"


@planted("sliced", Check.REPEAT, Check.REOPEN)
class SliceOfTheMoment(Small):
    """Asked again, it says the slice that it has by then."""

    def again(self, value: int, epoch: int) -> bytes | None:
        before = super().again(value, epoch)
        if before is None:
            return None
        message = report_pb2.Report.FromString(before)
        message.digest = self.collection.slice_digest(self.slice)
        return message.SerializeToString()


@planted("grr", Check.ORDER)
class EpochReused(Small):
    """Goes back to epochs that were reported."""

    def again(self, value: int, epoch: int) -> bytes | None:
        last = self.read_last()
        return last[1] if last is not None and last[0] == epoch else None


@planted("loloha", Check.REOPEN)
class MemoLostOnRestart(Small):
    """The state is not kept: a restart draws function and answers again."""

    def read_secret(self, kept: Path) -> bytes:
        return secrets.token_bytes(16)


@planted("grr", Check.LENGTH)
class LengthOfTheValue(Small):
    """A report id that is shorter for some values: with zeros left out, as in a varint of our own."""

    def report(self, value: int, epoch: int, **_: Any) -> bytes:
        message = super().report(value, epoch)
        return message + b"\x00" * 0 if value else message + bytes([0x78, 0x01])


@planted("grr", Check.BYTES)
class FieldThatNobodyAskedFor(Small):
    """One more field, with the value in it."""

    def report(self, value: int, epoch: int, **_: Any) -> bytes:
        return super().report(value, epoch) + bytes([0x78, value])


# Report ids


@planted("grr", Check.IDS)
class IdCountsUp(Small):
    """Ids of a device follow each other: whoever sees two knows that they are one device's."""

    def report_id(self, value: int, epoch: int) -> int:
        return (int.from_bytes(self.secret[:8], "little") + epoch) % FULL
