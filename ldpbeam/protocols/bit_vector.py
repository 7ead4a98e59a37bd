"""Reports of bits: a vector with one bit per value, as of unary encoding, bit flips and subset selection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from ldpbeam.arrays import Bytes, Ints, read_only, unused_bits
from ldpbeam.channels.degenerate import extremes, ones_admitted
from ldpbeam.errors import InvalidPayload, Reason
from ldpbeam.estimation.bit_counts import add_bits
from ldpbeam.protocols.counter import Counter
from ldpbeam.protocols.device import ProtocolDevice
from ldpbeam.protocols.forgery import Forgery, SupportedLaw
from ldpbeam.support import SupportProbabilities

Response = TypeVar("Response")


@dataclass(frozen=True)
class Vectors(ABC):
    """The bit vectors that devices send: bit v of a vector is bit v & 7 of byte v >> 3."""

    domain_size: int

    @property
    @abstractmethod
    def ones(self) -> tuple[int, int]:
        """The least and the largest number of ones in a report."""


class BitVectorDevice(ProtocolDevice[Response], ABC):
    """Reads vectors. Attributes: bits, the vectors that devices send."""

    bits: Vectors

    def _vector(self, payload: bytes) -> int:
        """The bits of a payload as Σ bit_v·2^v; raises InvalidPayload where no device sends them."""
        self._require_length(payload)
        bits = int.from_bytes(payload, "little")
        if bits >> self.domain_size:
            raise InvalidPayload(Reason.UNUSED_BITS, f"bits end at {self.domain_size - 1}")
        self._require_ones(bits)
        return bits

    def _require_ones(self, bits: int) -> None:
        least, most = self.bits.ones
        if not least <= bits.bit_count() <= most:
            raise InvalidPayload(Reason.DEGENERATE, f"reports have {least} to {most} ones")


class VectorDevice(BitVectorDevice[int], ABC):
    """Sends a vector and nothing else: a response is Σ bit_v·2^v."""

    def encode(self, response: int) -> bytes:
        return response.to_bytes(self.payload_size, "little")

    def decode(self, payload: bytes) -> int:
        return self._vector(payload)


def check_ones(payloads: Bytes, count: int, admitted: tuple[int, int]) -> Bytes:
    """Codes of packed rows: bits beyond the count must be 0, and ones neither very many nor very few."""
    import numpy as np

    from ldpbeam.kernels import bits

    least, most = admitted
    if least <= 0 and most >= count:  # every number of ones is admitted, as in small domains
        return bits.check_unused(read_only(payloads), unused_bits(count))
    codes, rows, width = np.empty(len(payloads), np.uint8), read_only(payloads), payloads.shape[1]
    bits.check_bits(rows.reshape(-1), width, unused_bits(count), least, most, codes)
    return codes


@dataclass(frozen=True)
class BitVectorCounter(Counter):
    """Of reports with a bit for every value: one cell per value, a column sum of bits."""

    bits: Vectors

    @property
    def counts_length(self) -> int:
        return self.bits.domain_size

    def check(self, payloads: Bytes) -> Bytes:
        return check_ones(payloads, self.bits.domain_size, self.bits.ones)

    def add(self, payloads: Bytes, counts: Ints) -> None:
        add_bits(payloads, counts)

    def steps(self, reports: float) -> float:
        return reports * self.bits.domain_size


@dataclass(frozen=True)
class RandomisedBits(Vectors):
    """What follows for reports of bits that are independent given the value."""

    asked_about: int
    support: SupportProbabilities

    @property
    def everyone(self) -> bool:
        return self.asked_about == self.domain_size

    @cached_property
    def ones(self) -> tuple[int, int]:
        """Bounds on the ones that devices send, see :mod:`ldpbeam.channels.degenerate`."""
        support = self.support
        return ones_admitted(self.asked_about, support.own, support.other, always=self.everyone)

    @cached_property
    def rare(self) -> tuple[tuple[int, int], tuple[float, float]]:
        """(few, many): numbers of ones that are rare in honest reports; and the chances of such reports."""
        return extremes(self.domain_size, self.support)

    @property
    def forgery(self) -> Forgery:
        support, d = self.support, self.asked_about
        own, other, asked = float(support.own), float(support.other), float(support.sampled)
        with_own = own * (1 - own) + (d - 1) * other * (1 - other)
        without = d * other * (1 - other)
        # One bit is the value's own with probability d/b; the other d − 1 bits never are.
        first = support.sampled * support.own + (1 - support.sampled) * support.other
        return Forgery(
            ends=support,
            most_supported=self.ones[1],
            asked_about=d,
            supported_variance=asked * with_own
            + (1 - asked) * without
            + asked * (1 - asked) * (own - other) ** 2,
            supported_law=SupportedLaw(float(first), d - 1, float(support.other)),
        )


@dataclass(frozen=True)
class RandomisedBitsCounter(BitVectorCounter):
    """Counts reports with rarely many ones in signs[0], and those with rarely few in signs[1]."""

    bits: RandomisedBits

    @property
    def signs_length(self) -> int:
        return 2 if self.bits.everyone else 0

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        if self.bits.everyone:
            from ldpbeam.kernels import bits

            (few, many), _ = self.bits.rare
            bits.count_rare(read_only(payloads).reshape(-1), payloads.shape[1], few, many, signs)

    @property
    def extremes(self) -> tuple[float, float] | None:
        return self.bits.rare[1] if self.bits.everyone else None
