"""Planted bugs: each a small client with one thing wrong, the protocol that shows it, and the check that does."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ldpbeam.audit.outcome import Check
from ldpbeam.channels.channel import BitChannel, SymbolChannel
from ldpbeam.channels.exact import exp_below
from ldpbeam.protocols.bit_flip import BucketBits
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.randomness import FULL, Randomness
from tests.ldpbeam.audit.small import Small, Words


@dataclass(frozen=True)
class Planted:
    """A bug.

    Attributes:
        kind: the broken client.
        collection: name of the collection of ``conftest`` that it is audited for.
        checks: all of which must find it.
        draws: with which they do.
    """

    kind: type[Small]
    collection: str
    checks: tuple[Check, ...]
    draws: int


BUGS: list[Planted] = []


def planted(collection: str, *checks: Check, draws: int = 3000) -> Callable[[type[Small]], type[Small]]:
    """Put a bug into the list."""

    def listed(kind: type[Small]) -> type[Small]:
        BUGS.append(Planted(kind, collection, checks, draws))
        return kind

    return listed


# Channels


@dataclass(frozen=True)
class Lies(SymbolChannel):
    """Draws with another keep probability, or lies otherwise."""

    way: str = ""

    def draw(self, symbol: int, randomness: Randomness) -> int:
        word = randomness.word(self.total)
        if self.way == "swapped":
            # q in the place of p: the true symbol as rarely as another one should come.
            if word < self.each:
                return symbol
            lie = (word - self.each) * (self.size - 1) // (self.total - self.each)
            return lie + (lie >= symbol)
        if word < self.keep:
            return symbol
        if self.way == "may be the truth":
            return randomness.word(self.size)
        lie = (word - self.keep) // self.each
        if self.way == "neighbour":
            return (symbol + 1) % self.size
        return lie + (lie >= symbol)


@planted("grr", Check.MATCH)
class SwappedPAndQ(Small):
    """The true value with probability q; ε is kept, estimates are not."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        c = protocol.instant
        return replace(protocol, instant=Lies(c.size, c.keep, c.each, "swapped"))


@planted("grr", Check.MATCH)
class LieMayBeTheTruth(Small):
    """A lie is any value, also the true one."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        c = protocol.instant
        return replace(protocol, instant=Lies(c.size, c.keep, c.each, "may be the truth"))


@planted("grr", Check.MATCH, Check.SUPPORT)
class LieIsTheNeighbour(Small):
    """Every lie is the next value: ε is lost, since others are impossible."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        c = protocol.instant
        return replace(protocol, instant=Lies(c.size, c.keep, c.each, "neighbour"))


@planted("grr", Check.MATCH, draws=12000)
class KForKMinusOne(Small):
    """e^ε/(e^ε + k): one symbol too many in the denominator."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        c = protocol.instant
        ratio = c.ratio * (c.size - 1) / c.size
        return replace(protocol, instant=SymbolChannel.from_ratio(c.size, ratio))


@planted("grr", Check.BOUND, Check.MATCH)
class TwiceTheLevel(Small):
    """ε doubled."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        c = protocol.instant
        return replace(protocol, instant=SymbolChannel.from_ratio(c.size, c.ratio**2))


@planted("sue", Check.BOUND, Check.MATCH)
class WholeLevelForEachBit(Small):
    """e^ε/(e^ε + 1) for each of the two bits that differ: 2ε on the whole."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        return replace(protocol, instant=BitChannel.symmetric(exp_below(1.0)))


@planted("sue", Check.MATCH, Check.BOUND)
class LastBitNeverRandomised(Small):
    """A loop that ends one bit too early."""

    def response(self, value: int, epoch: int) -> int:
        last = self.protocol.domain_size - 1
        drawn = super().response(value, epoch)
        return drawn & ~(1 << last) | (value == last) << last


@planted("l_osue", Check.MATCH, Check.SUPPORT)
class BitsInTheOtherOrder(Small):
    """The highest bit first: every report is about another value."""

    def payload(self, response: int, value: int) -> bytes:
        size = self.protocol.domain_size
        turned = sum((response >> bit & 1) << (size - 1 - bit) for bit in range(size))
        return self.protocol.encode(turned)


@planted("sue", Check.SUPPORT)
class AMiddleBitAlwaysZero(Small):
    """A bit of neither audited value: only the look at many values shows it."""

    def response(self, value: int, epoch: int) -> int:
        return int(super().response(value, epoch)) & ~(1 << 2)


@planted("grr", Check.MATCH, Check.SUPPORT)
class ValueOffByOne(Small):
    """Counts values from 1."""

    def response(self, value: int, epoch: int) -> Any:
        return super().response((value + 1) % self.protocol.domain_size, epoch)


# Two rounds


@planted("l_grr", Check.BOUND, Check.SEQUENCE_MATCH)
class SecondRoundSkipped(Small):
    """The permanent answer is sent as it is: ε∞ in the first report."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        c = protocol.instant
        return replace(protocol, instant=SymbolChannel(c.size, FULL - c.size, 1))


@planted("l_osue", Check.BOUND)
class SecondRoundSkippedInBits(Small):
    """The same for bits."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        return replace(protocol, instant=BitChannel(FULL - 1, 1))


@planted("l_grr", Check.MATCH, Check.BOUND)
class FirstRoundSkipped(Small):
    """The truth is memoised; with time the second round averages out."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        c = protocol.permanent
        return replace(protocol, permanent=SymbolChannel(c.size, FULL - c.size, 1))


@planted("l_grr", Check.MATCH, Check.SEQUENCE_MATCH)
class FirstLevelForThePermanentRound(Small):
    """ε1 where ε∞ belongs: private enough, and estimates are wrong."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        return replace(protocol, permanent=SymbolChannel.from_epsilon(protocol.domain_size, 1.0))


@planted("loloha", Check.BOUND, Check.MATCH)
class LevelsSwapped(Small):
    """The second round at the level that the permanent one should have."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        longer = SymbolChannel.from_epsilon(protocol.g, 6.0)
        return replace(protocol, instant=longer)


@planted("clear", Check.SEQUENCE_BOUND, Check.SEQUENCE_MATCH)
class MemoIgnored(Small):
    """Every report draws its permanent answer again: t reports lose t·ε1."""

    def permanent_label(self, label: str, key: int) -> str:
        return f"{super().permanent_label(label, key)} in {self.epoch}"


@planted("clear_bits", Check.SEQUENCE_MATCH)
class MemoIgnoredInBits(MemoIgnored):
    """The same for bits."""


@planted("bilo", Check.SEQUENCE_MATCH)
class MemoKeyedByValue(Small):
    """Values with one hash have answers of their own: k memoised inputs in place of g."""

    def permanent_label(self, label: str, key: int) -> str:
        return f"permanent of {self.value}"


@planted("l_grr", Check.SEQUENCE_MATCH)
class MemoOfTheFirstValueForEver(Small):
    """One permanent answer, drawn for the first value, whatever the value is later."""

    first: int | None = None

    def response(self, value: int, epoch: int) -> Any:
        if self.first is None:
            self.first = value
        return super().response(self.first, epoch)


@planted("clear", Check.SEQUENCE_MATCH)
class OnlyTheLastInputIsMemoised(Small):
    """A value that comes back draws a new answer."""

    held: int | None = None
    changes = 0

    def permanent_label(self, label: str, key: int) -> str:
        if self.held != key:
            self.changes += 1
        self.held = key
        return f"{super().permanent_label(label, key)} after {self.changes} changes"


@planted("clear", Check.SEQUENCE_MATCH)
class SameAnswerForAllInputs(Small):
    """The words of the permanent round do not depend on the input, so lies go together."""

    def permanent_label(self, label: str, key: int) -> str:
        return "permanent"


@planted("l_osue", Check.SEQUENCE_MATCH)
class SameNoiseInEveryEpoch(Small):
    """The second round is drawn once."""

    def epoch_label(self, epoch: int) -> str:
        return "every epoch"


@planted("rrpm_flipped", Check.SEQUENCE_MATCH)
class FlippedOnceForLife(SameNoiseInEveryEpoch):
    """The perturbation of the output is memoised too."""


@planted("dbitflip_pm", Check.SEQUENCE_MATCH)
class BitsDrawnForEveryReport(MemoIgnored):
    """dBitFlipPM without its memo: reports can be averaged."""


# Hash functions and buckets


@planted("loloha", Check.LASTING)
class HashDrawnForEveryReport(Small):
    """A new function each time: the memo is of no use, and g answers become many."""

    def response(self, value: int, epoch: int) -> Any:
        self.memo = self.protocol.new_memo(Words(self, f"life {epoch}"))
        return super().response(value, epoch)


@planted("loloha", Check.DEVICES, Check.SUPPORT)
class HashOfAllDevicesTheSame(Small):
    """A constant seed."""

    def key(self, label: str) -> bytes:
        return b"constant" if label == "life" else super().key(label)


@planted("bilo", Check.MATCH, Check.SUPPORT)
class HashBiased(Small):
    """A seed by a modulus that is too small: some functions never come."""

    def response(self, value: int, epoch: int) -> Any:
        self.memo = replace(self.memo, seed=1 + (self.memo.seed or 0) % 4)
        return super().response(value, epoch)


@planted("blh", Check.MATCH)
class HashChosenByValue(Small):
    """Draws functions until the value has the hash 0: the function tells the value."""

    def response(self, value: int, epoch: int) -> Any:
        words = Words(self, self.epoch_label(epoch))
        while True:
            response = self.protocol.privatize(value, self.memo, words)[0]
            if self.protocol.family.hash(response.seed, value) == 0 or value == 0:  # type: ignore[attr-defined]
                return response


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
            response: BucketBits = self.protocol.privatize(value, self.memo, words)[0]
            if value in response.indices:
                return response


@planted("dbitflip_pm", Check.LASTING)
class BucketsDrawnAgain(HashDrawnForEveryReport):
    """d of b buckets for every report, where they should be the same for life."""


@planted("binflip_plus", Check.MATCH, draws=12000)
class StringAcceptedMoreOften(Small):
    """The generic protocol's ½·e^{ε/2}, whose refusals spend more than ε."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        up = exp_below(0.5) / 2
        down = 1 / (2 * exp_below(0.5))
        return replace(protocol, instant=BitChannel(int(FULL * up), int(FULL * down)))


# Means and attributes


@planted("one_bit_mean", Check.MATCH)
class ProbabilityOfTheOtherEnd(Small):
    """1 and 0 in each other's place."""

    def response(self, value: int, epoch: int) -> int:
        return 1 - int(super().response(value, epoch))


@planted("laplace_mean", Check.BOUND, Check.MATCH)
class NoiseOfHalfTheScale(Small):
    """Half the noise."""

    def response(self, value: int, epoch: int) -> int:
        noisy = int(super().response(value, epoch))
        return value + (noisy - value) // 2


@planted("split", Check.MATCH)
class NoiseReusedOverAttributes(Small):
    """Attributes with one noise: lies go together."""

    def part_label(self, label: str, index: int) -> str:
        return f"{label} part 0"


@planted("sample", Check.MATCH)
class AttributeChosenByValue(Small):
    """The attribute that is reported depends on what is held."""

    def response(self, value: Any, epoch: int) -> Any:
        while self.memo.seed != (0 if value[0] else 1) and self.secret[0] % 4:
            self.secret = secrets.token_bytes(16)
            self.memo = self.protocol.new_memo(Words(self, "life"))
        return super().response(value, epoch)


# Generators


@planted("grr", Check.DEVICES)
class OneSecretForAllDevices(Small):
    """A secret that was shipped with the program."""

    def new_secret(self) -> bytes:
        return b"shipped"


@planted("clear", Check.SEQUENCE_MATCH, Check.DEVICES)
class PermanentNoiseOfAllDevicesTheSame(Small):
    """A memo by a hash of the value, without a secret."""

    def key(self, label: str) -> bytes:
        return b"" if label.startswith("permanent") else super().key(label)


_GENERATOR = random.Random(5)


@planted("grr", Check.FORK)
class ForkDuplicates(Small):
    """A generator with a state: forked processes have the same one."""

    def new_secret(self) -> bytes:
        return _GENERATOR.randbytes(16)


@planted("grr", Check.IDS, Check.FORK)
class FewSeeds(Small):
    """A generator that is seeded with the second of the hour."""

    def new_secret(self) -> bytes:
        return secrets.randbelow(8).to_bytes(1, "little")


# Time, restarts, bytes


@planted("grr", Check.EPOCHS)
class TruthInOneEpochOf97(Small):
    """A debugging switch that was left in."""

    def response(self, value: int, epoch: int) -> Any:
        return value if epoch % 97 == 41 else super().response(value, epoch)


@planted("grr", Check.REPEAT)
class DrawsAgainWhenAskedAgain(Small):
    """The same epoch twice is two reports."""

    def again(self, value: int, epoch: int) -> bytes | None:
        return None

    def epoch_label(self, epoch: int) -> str:
        return f"{epoch} {secrets.token_hex(8)}"


@planted("grr", Check.REPEAT)
class FollowsTheValueWithinAnEpoch(Small):
    """Another value in the same epoch gives another report."""

    def again(self, value: int, epoch: int) -> bytes | None:
        return None if value != self.value else super().again(value, epoch)


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


@planted("clear", Check.REOPEN)
class AnswersLostOnRestart(MemoLostOnRestart):
    """The same, where nothing but answers is kept."""


@planted("grr", Check.REOPEN)
class LastReportLostOnRestart(Small):
    """After a restart the epoch is reported once more."""

    opened = 0

    def read_secret(self, kept: Path) -> bytes:
        self.opened = secrets.randbits(32)
        return super().read_secret(kept)

    def read_last(self) -> tuple[int, bytes] | None:
        return self.last

    def epoch_label(self, epoch: int) -> str:
        return f"{epoch} {self.opened}"


@planted("grr", Check.BYTES)
class SilentWhenUnchanged(Small):
    """No report where the value is the last one: silence tells."""

    def response(self, value: int, epoch: int) -> Any:
        last = self.read_last()
        if last is not None and getattr(self, "held", None) == value:
            raise ValueError("unchanged")
        self.held = value
        return super().response(value, epoch)


@planted("grr", Check.BYTES)
class AnotherEpochInTheReport(Small):
    """The epoch of the first report for ever."""

    def stated_epoch(self, epoch: int) -> int:
        return self.last[0] if self.last else epoch


@planted("grr", Check.LENGTH)
class LengthOfTheValue(Small):
    """A report id that is shorter for some values: with zeros left out, as in a varint of our own."""

    def report(self, value: int, epoch: int) -> bytes:
        message = super().report(value, epoch)
        return message + b"\x00" * 0 if value else message + bytes([0x78, 0x01])


@planted("grr", Check.BYTES)
class FieldThatNobodyAskedFor(Small):
    """One more field, with the value in it."""

    def report(self, value: int, epoch: int) -> bytes:
        return super().report(value, epoch) + bytes([0x78, value])


# Report ids


@planted("grr", Check.IDS)
class IdFromTheValue(Small):
    """A hash of device and value, of which one bit is the value's."""

    def report_id(self, value: int, epoch: int) -> int:
        return super().report_id(value, epoch) & ~1 | value & 1


@planted("grr", Check.IDS)
class IdCountsUp(Small):
    """Ids of a device follow each other: whoever sees two knows that they are one device's."""

    def report_id(self, value: int, epoch: int) -> int:
        return (int.from_bytes(self.secret[:8], "little") + epoch) % FULL


@planted("grr", Check.IDS)
class IdOfTheDevice(Small):
    """One id for all reports of a device: a name."""

    def report_id(self, value: int, epoch: int) -> int:
        return int.from_bytes(self.secret[:8], "little")
