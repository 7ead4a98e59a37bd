"""More planted bugs: what is drawn for life, generators, restarts, bytes and report ids."""

from __future__ import annotations

import os
import random
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

from ldpbeam.audit.checks.outcome import Check
from ldpbeam.channels.channel import BitChannel
from ldpbeam.channels.exact import exp_below
from ldpbeam.protocols.bit_flip import BucketBits
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.randomness import FULL
from tests.ldpbeam.audit.bugs import BUGS, planted
from tests.ldpbeam.audit.small import Small, Words

__all__ = ["BUGS"]


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
            response = self.protocol.device.privatize(value, self.memo, words)[0]
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
            response: BucketBits = self.protocol.device.privatize(value, self.memo, words)[0]
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
            self.memo = self.protocol.device.new_memo(Words(self, "life"))
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


@planted("grr", Check.FORK)
class AnotherReportInEveryProcess(Small):
    """The process takes part in the derivation: forked ones send two reports of a device for one epoch."""

    def epoch_label(self, epoch: int) -> str:
        return f"{epoch} {os.getpid()}"

    def again(self, value: int, epoch: int) -> bytes | None:
        last = self.last
        if last is not None and epoch < last[0]:
            raise ValueError("an earlier epoch")
        return last[1] if last is not None and epoch == last[0] else None


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
