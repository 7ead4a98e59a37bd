"""Reports of independent bits: a vector with one bit per value, as in unary encoding and bit flipping."""

from __future__ import annotations

from functools import cached_property
from typing import TypeVar

from ldpbeam.arrays import Bytes, Ints, read_only, unused_bits
from ldpbeam.bit_counts import add_bits
from ldpbeam.degenerate import extremes, ones_admitted
from ldpbeam.errors import InvalidPayload, Reason
from ldpbeam.protocols.forgery_side import SupportedLaw
from ldpbeam.protocols.results import FrequencyProtocol

Response = TypeVar("Response")


class BitVector(FrequencyProtocol[Response]):
    """A bit for each of the :attr:`asked_about` values; bit v of a vector is bit v & 7 of byte v >> 3.

    Payloads and accumulator here are those of reports that ask about every value.
    """

    @property
    def _everyone(self) -> bool:
        """Whether a report has a bit for every value."""
        return self.asked_about == self.domain_size

    @cached_property
    def ones_admitted(self) -> tuple[int, int]:
        """The least and the largest number of ones that devices send, see :mod:`ldpbeam.degenerate`."""
        support = self.support
        return ones_admitted(self.asked_about, support.own, support.other, always=self._everyone)

    def _vector(self, payload: bytes) -> int:
        """The bits of a payload as Σ bit_v·2^v; raises InvalidPayload where no device sends them."""
        self._require_length(payload)
        bits = int.from_bytes(payload, "little")
        if bits >> self.domain_size:
            raise InvalidPayload(Reason.UNUSED_BITS, f"bits end at {self.domain_size - 1}")
        self._require_ones(bits)
        return bits

    def _require_ones(self, bits: int) -> None:
        least, most = self.ones_admitted
        if not least <= bits.bit_count() <= most:
            raise InvalidPayload(Reason.DEGENERATE, f"reports have {least} to {most} ones")

    def check(self, payloads: Bytes) -> Bytes:
        """Bits beyond k must be 0, and ones neither very many nor very few."""
        import numpy as np

        from ldpbeam.kernels import bits

        least, most = self.ones_admitted
        if least <= 0 and most >= self.domain_size:  # every number of ones is admitted, as in small domains
            return bits.check_unused(read_only(payloads), unused_bits(self.domain_size))
        codes, unused = np.empty(len(payloads), np.uint8), unused_bits(self.domain_size)
        rows, width = read_only(payloads).reshape(-1), payloads.shape[1]
        bits.check_bits(rows, width, unused, least, most, codes)
        return codes

    def add_support(self, payloads: Bytes, counts: Ints) -> None:
        """A column sum of bits."""
        add_bits(payloads, counts)

    @cached_property
    def _rare(self) -> tuple[int, int]:
        """Numbers of ones that are rare among honest reports: at most few, at least many."""
        return extremes(self.domain_size, self.support)[0]

    @property
    def most_supported(self) -> int:
        """As many ones as are admitted."""
        return self.ones_admitted[1]

    @property
    def supported_variance(self) -> float:
        """Of the ones of a report: its value is among the d of b that it asks about with probability d/b."""
        own, other, asked = float(self.support.own), float(self.support.other), float(self.support.sampled)
        with_own = own * (1 - own) + (self.asked_about - 1) * other * (1 - other)
        without = self.asked_about * other * (1 - other)
        return asked * with_own + (1 - asked) * without + asked * (1 - asked) * (own - other) ** 2

    @property
    def supported_law(self) -> SupportedLaw:
        """One bit is the value's own with probability d/b; the other d − 1 bits never are."""
        own, other, asked = self.support.own, self.support.other, self.support.sampled
        first = asked * own + (1 - asked) * other
        return SupportedLaw(float(first), self.asked_about - 1, float(other))

    @property
    def signs_length(self) -> int:
        """Reports with very many ones, and with very few, where every value has a bit."""
        return 2 if self._everyone else 0

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        """Count reports with rarely many ones in signs[0], and those with rarely few in signs[1]."""
        if self._everyone:
            from ldpbeam.kernels import bits

            bits.count_rare(read_only(payloads).reshape(-1), payloads.shape[1], *self._rare, signs)

    @property
    def extremes(self) -> tuple[float, float] | None:
        """What one report is counted in the cells of ``signs`` with."""
        return extremes(self.domain_size, self.support)[1] if self._everyone else None

    @property
    def answer_bytes(self) -> int | None:
        """A packed bit vector."""
        return (self.asked_about + 7) // 8
