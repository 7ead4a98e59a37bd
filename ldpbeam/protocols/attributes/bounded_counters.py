"""One bit about each counter, with the whole level, for counters of a bounded sum (Microsoft, Theorem 5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any

from ldpbeam.arrays import Bytes, Ints
from ldpbeam.channels.degenerate import BOUND, tail_from
from ldpbeam.errors import CollectionError, InvalidPayload, Reason
from ldpbeam.privacy.counters import CountersGuarantee, bounded_sum_epsilon, counters_guarantee
from ldpbeam.protocols import PROTOCOLS
from ldpbeam.protocols.attributes.base import AttributesCounter
from ldpbeam.protocols.attributes.split import Split, SplitDevice, SplitSimulation
from ldpbeam.protocols.bit_vector import check_ones
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.counter import Counter
from ldpbeam.protocols.one_bit_mean import OneBit, OneBitDevice
from ldpbeam.protocols.parameters import LEVELS
from ldpbeam.protocols.simulation import FleetAnswers, FleetWords, Simulation
from ldpbeam.support import SupportProbabilities

_MOST_TOGETHER = 32.0
"""Level of a report about all counters that a collection may have, as for every other level."""


@dataclass(frozen=True)
class BoundedCountersDevice(SplitDevice):
    ENCODING = "together"

    devices: tuple[OneBitDevice, ...]
    bits: CounterBits

    @property
    def sum_limit(self) -> int:
        return self.devices[0].domain_size - 1

    def definition(self) -> dict[str, Any]:
        return {"sum_limit": self.sum_limit}

    @property
    def payload_size(self) -> int:
        return (len(self.devices) + 7) // 8

    def require_value(self, value: Any) -> Any:
        """One plain int per counter; raises ValueError also where they add up to more than the limit."""
        plain = super().require_value(value)
        if sum(plain) > self.sum_limit:
            raise ValueError(_beyond(self.sum_limit))
        return plain

    def encode(self, response: tuple[int, ...]) -> bytes:
        packed = sum(bit << index for index, bit in enumerate(response))
        return packed.to_bytes(self.payload_size, "little")

    def decode(self, payload: bytes) -> tuple[int, ...]:
        self._require_length(payload)
        packed = int.from_bytes(payload, "little")
        if packed >> len(self.devices):
            raise InvalidPayload(Reason.UNUSED_BITS, f"a report has {len(self.devices)} bits")
        least, most = self.bits.ones
        if not least <= packed.bit_count() <= most:
            raise InvalidPayload(Reason.DEGENERATE, f"reports have {least} to {most} ones")
        return tuple(packed >> index & 1 for index in range(len(self.devices)))


@dataclass(frozen=True)
class CounterBits:
    count: int
    ends: SupportProbabilities

    @cached_property
    def ones(self) -> tuple[int, int]:
        """Bounds on the ones that a device ever sends, see :mod:`ldpbeam.channels.degenerate`."""
        t, ends = self.count, self.ends
        average = ends.other + ends.gap / t
        zeros = tail_from(t, None, 1 - ends.other, BOUND / 2)
        return t - zeros + 1, max(tail_from(t, None, average, BOUND / 2), ceil(t * average) + 1) - 1


@dataclass(frozen=True)
class BoundedCountersCounter(AttributesCounter):
    """One cell per counter: its ones."""

    counters: tuple[Counter, ...]
    bits: CounterBits

    def check(self, payloads: Bytes) -> Bytes:
        return check_ones(payloads, self.bits.count, self.bits.ones)

    def add(self, payloads: Bytes, counts: Ints) -> None:
        import numpy as np

        bits = np.unpackbits(payloads, axis=1, count=self.bits.count, bitorder="little")
        counts += bits.sum(axis=0, dtype=np.int64)


@dataclass(frozen=True)
class BoundedCountersSimulation(SplitSimulation):
    """One counter after the other, packed."""

    simulations: tuple[Simulation, ...]
    sum_limit: int

    def privatize(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        import numpy as np

        if (values.sum(axis=1) > self.sum_limit).any():
            raise ValueError(_beyond(self.sum_limit))
        return np.packbits(super().privatize(devices, values, words, memo), axis=1, bitorder="little")


@dataclass(frozen=True)
class BoundedCounters(Split):
    """One bit about every counter, each at the full level, for counters with Σ x_i <= m."""

    ID = 33
    NAME = "together"
    SOURCE = "Microsoft Theorem 5"

    protocols: tuple[OneBit, ...]

    @property
    def guarantee(self) -> CountersGuarantee:
        return counters_guarantee(self.protocols[0].guarantee, len(self.protocols), self.device.sum_limit)

    @cached_property
    def _bits(self) -> CounterBits:
        return CounterBits(len(self.protocols), self.protocols[0].ends)

    @cached_property
    def device(self) -> BoundedCountersDevice:
        return BoundedCountersDevice(self._each(lambda part: part.device), self._bits)

    @cached_property
    def counter(self) -> BoundedCountersCounter:
        return BoundedCountersCounter(self._each(lambda part: part.counter), self._bits)

    @cached_property
    def simulation(self) -> BoundedCountersSimulation:
        return BoundedCountersSimulation(self._each(lambda part: part.simulation), self.device.sum_limit)


def bounded_counters(parts: tuple[LocalProtocol[Any], ...]) -> BoundedCounters:
    """The protocol of several counters that are reported together."""
    bits = tuple(part for part in parts if isinstance(part, OneBit))
    if len(bits) < len(parts):
        able = [name for name, kind in PROTOCOLS.items() if issubclass(kind, OneBit)]
        raise CollectionError(
            "E-COLLECTION-VALUE",
            f"together is for one bit per counter, which {parts[0].NAME} does not send",
            key="allocation",
            remedy=f"Use one of: {', '.join(able)}; or allocation: sample.",
        )
    if len({part.domain_size for part in parts}) > 1:
        raise CollectionError(
            "E-COLLECTION-VALUE",
            "together needs the same max for all attributes: it is the bound of their sum",
            key="allocation",
            remedy="Give every attribute the largest max, or use allocation: sample.",
        )
    built = BoundedCounters(bits)
    single, counters = parts[0].guarantee.first_report, len(parts)
    spent = min(bounded_sum_epsilon(single), counters * single)
    if spent > _MOST_TOGETHER:
        level = next(name for name in bits[0].PARAMETERS if name in LEVELS)
        raise CollectionError(
            "E-COLLECTION-VALUE",
            f"a report about all {counters} counters together would spend {spent:.4g}, more than "
            f"{_MOST_TOGETHER:g}",
            key=level,
            remedy="Lower the level, or use allocation: sample.",
        )
    return built


def _beyond(limit: int) -> str:
    # Never the values: this text may reach a log on the device.
    return f"the counters of a device must add up to at most {limit}, and these add up to more"
