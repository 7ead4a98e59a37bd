"""Each device draws one attribute once, for life, and reports only it, with the whole ε."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from ldpbeam.arrays import Bytes, Ints, read_only
from ldpbeam.errors import InvalidPayload, Reason
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.protocols.attributes.base import AttributeProtocol
from ldpbeam.protocols.contract import FleetAnswers, FleetWords, Memo, Result, WordPlan, WordSpec
from ldpbeam.randomness import Randomness


class AttributeResponse(NamedTuple):
    """The response of a device that reports one attribute: which one, and its part's response."""

    attribute: int
    response: Any


@dataclass(frozen=True)
class Sample(AttributeProtocol[AttributeResponse]):
    """One attribute per device, drawn uniformly once and kept for life in the memo's seed."""

    ID = 30
    NAME = "sample"
    TOGETHER = False
    SOURCE = "ALLOMFREE section 3 (Smp, r = 1)"
    ENCODING = "sample"

    @property
    def not_hidden(self) -> tuple[str, ...]:
        """The attribute, too, is the same in all reports."""
        drawn = f"Which of {len(self.parts)} attributes a device drew for life stands in every report."
        return (drawn, *super().not_hidden)

    @property
    def payload_bits(self) -> int:
        """Which attribute, and the longest response."""
        return (len(self.parts) - 1).bit_length() + max(part.payload_bits for part in self.parts)

    @property
    def _index_bytes(self) -> int:
        return 1 if len(self.parts) <= 256 else 2

    @property
    def payload_size(self) -> int:
        """Attribute index, then the longest payload; shorter ones are padded with zeros."""
        return self._index_bytes + max(part.payload_size for part in self.parts)

    def device_definition(self) -> dict[str, Any]:
        """Bytes of the attribute's index."""
        return {"index_size": self._index_bytes}

    def new_memo(self, randomness: Randomness) -> Memo:
        """Draws the attribute, then what its protocol keeps for life."""
        attribute = randomness.word(len(self.parts))
        return Memo(attribute, parts=(self.parts[attribute].new_memo(randomness.part(attribute)),))

    def _privatize(
        self, value: Sequence[int], memo: Memo, randomness: Randomness
    ) -> tuple[AttributeResponse, Memo]:
        """The device's attribute only; the other values are not looked at."""
        if memo.seed is None or len(memo.parts) != 1:
            raise ValueError(f"{self.NAME} needs the memo made by new_memo")
        before, part = memo.parts[0], self.parts[memo.seed]
        response, after = part.privatize(value[memo.seed], before, randomness.part(memo.seed))
        kept = memo if after is before else replace(memo, parts=(after,))
        return AttributeResponse(memo.seed, response), kept

    def encode(self, response: AttributeResponse) -> bytes:
        """Little-endian index, the part's payload, zeros."""
        index = response.attribute.to_bytes(self._index_bytes, "little")
        payload = index + self.parts[response.attribute].encode(response.response)
        return payload.ljust(self.payload_size, b"\0")

    def decode(self, payload: bytes) -> AttributeResponse:
        """Index and response."""
        self._require_length(payload)
        start = self._index_bytes
        attribute = int.from_bytes(payload[:start], "little")
        if attribute >= len(self.parts):
            raise InvalidPayload(Reason.VALUE_OUT_OF_RANGE, f"attributes end at {len(self.parts) - 1}")
        part = self.parts[attribute]
        end = start + part.payload_size
        if any(payload[end:]):
            raise InvalidPayload(Reason.UNUSED_BITS, f"attribute {attribute} ends at byte {end}")
        return AttributeResponse(attribute, part.decode(payload[start:end]))

    def said_about(self, response: AttributeResponse) -> Mapping[int, Any]:
        """The one attribute's."""
        return {response.attribute: response.response}

    def likelihood(self, response: AttributeResponse, value: Sequence[int]) -> Fraction:
        """1/d times the part's."""
        part = self.parts[response.attribute]
        return self.sampled * part.likelihood(response.response, value[response.attribute])

    def responses(self) -> Iterator[AttributeResponse]:
        """Those of every attribute."""
        return (AttributeResponse(i, r) for i, part in enumerate(self.parts) for r in part.responses())

    @property
    def cells_before(self) -> int:
        """One cell per attribute: its number of reports."""
        return len(self.parts)

    def _groups(self, payloads: Bytes) -> Iterator[tuple[int, Ints, Bytes]]:
        """(attribute, positions, its part's payloads); positions with no such attribute are left out."""
        import numpy as np

        start = self._index_bytes
        attribute = payloads[:, 0].astype(np.int64)
        if start > 1:
            attribute += payloads[:, 1].astype(np.int64) << 8
        for index, part in enumerate(self.parts):
            rows = np.flatnonzero(attribute == index)
            if rows.size:
                yield index, rows, read_only(payloads[rows, start : start + part.payload_size])

    def check(self, payloads: Bytes) -> Bytes:
        """An attribute that exists, zeros behind its payload, and a payload its part takes."""
        import numpy as np

        codes = np.full(len(payloads), CheckCode.VALUE_OUT_OF_RANGE, np.uint8)
        for index, rows, some in self._groups(payloads):
            part = self.parts[index]
            padded = payloads[rows, self._index_bytes + part.payload_size :].any(axis=1)
            unused = np.uint8(CheckCode.UNUSED_BITS)
            codes[rows] = np.where(padded, unused, part.check(some))
        return codes

    def add_support(self, payloads: Bytes, counts: Ints) -> None:
        """Reports are sorted by attribute; each part counts its own."""
        for index, rows, some in self._groups(payloads):
            counts[index] += rows.size
            self.parts[index].add_support(some, counts[self.spans[index]])

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        """Each part those of its reports."""
        if signs.size:
            for index, _, some in self._groups(payloads):
                self.parts[index].add_signs(some, signs[self.sign_spans[index]])

    def seed_cells(self, counts: Ints, signs: Ints) -> tuple[Ints, float]:
        """The attributes that devices drew."""
        return counts[: len(self.parts)], 1.0

    def part_counts(self, counts: Ints, reports: int) -> tuple[tuple[Ints, int], ...]:
        """Each attribute with the reports of the devices that drew it."""
        return tuple((counts[span], int(counts[i])) for i, span in enumerate(self.spans))

    @property
    def word_plan(self) -> WordPlan:
        """One word for the attribute; the parts draw theirs."""
        return WordPlan(WordSpec(0), seed=WordSpec(1, len(self.parts)))

    def privatize_fleet(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        """See the contract: devices that drew the same attribute go together."""
        import numpy as np

        attribute = words.seed(WordSpec(1, len(self.parts)))[:, 0]
        payloads = np.zeros((len(values), self.payload_size), np.uint8)
        for byte in range(self._index_bytes):
            payloads[:, byte] = attribute >> np.uint64(8 * byte) & np.uint64(255)
        start = self._index_bytes
        for index, part in enumerate(self.parts):
            rows = np.flatnonzero(attribute == index)
            if rows.size:
                payloads[rows, start : start + part.payload_size] = part.privatize_fleet(
                    devices[rows], values[rows, index], words.part(index, rows), memo.part(index)
                )
        return payloads


class Allomfree(Sample):
    """Sample, with the better of L-GRR and L-OSUE for each attribute."""

    ID = 32
    NAME = "allomfree"
    PARAMETERS = ("epsilon_longitudinal", "epsilon_first")
    OPTIONAL = ("calibration",)
    RESULT = Result.FREQUENCIES
    SOURCE = "ALLOMFREE Algorithm 1"
