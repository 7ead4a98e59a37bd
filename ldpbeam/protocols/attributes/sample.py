"""Each device draws one attribute once, for life, and reports only it, with the whole ε."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

from ldpbeam.arrays import Bytes, Ints, read_only
from ldpbeam.errors import InvalidPayload, Reason
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.protocols.attributes.base import (
    AttributeProtocol,
    AttributesCounter,
    AttributesDevice,
    AttributesLaw,
    part_model,
)
from ldpbeam.protocols.counter import Counter
from ldpbeam.protocols.device import Memo, ProtocolDevice
from ldpbeam.protocols.estimator import Result
from ldpbeam.protocols.history_model import SampledModel
from ldpbeam.protocols.law import Kinds
from ldpbeam.protocols.simulation import FleetAnswers, FleetWords, Simulation, WordPlan, WordSpec
from ldpbeam.randomness import Randomness

MOST_MODELS = 8
"""Attributes that are audited one by one where a device draws one."""


class AttributeResponse(NamedTuple):
    attribute: int
    response: Any


@dataclass(frozen=True)
class SampleDevice(AttributesDevice[AttributeResponse]):
    """Draws an attribute once, and reports it by that attribute's device."""

    ENCODING = "sample"

    devices: tuple[ProtocolDevice[Any], ...]

    @property
    def payload_bits(self) -> int:
        return (len(self.devices) - 1).bit_length() + max(part.payload_bits for part in self.devices)

    @property
    def index_bytes(self) -> int:
        return 1 if len(self.devices) <= 256 else 2

    @property
    def payload_size(self) -> int:
        return self.index_bytes + max(part.payload_size for part in self.devices)

    def definition(self) -> dict[str, Any]:
        return {"index_size": self.index_bytes}

    @property
    def weights(self) -> tuple[int, ...]:
        """How many devices draw each attribute, relative to the others."""
        return (1,) * len(self.devices)

    def new_memo(self, randomness: Randomness) -> Memo:
        ends = tuple(accumulate(self.weights))
        attribute = bisect_right(ends, randomness.word(ends[-1]))
        return Memo(attribute, parts=(self.devices[attribute].new_memo(randomness.part(attribute)),))

    def _privatize(
        self, value: Sequence[int], memo: Memo, randomness: Randomness
    ) -> tuple[AttributeResponse, Memo]:
        if memo.seed is None or len(memo.parts) != 1:
            raise ValueError("a device with one attribute for life needs the memo made by new_memo")
        before, part = memo.parts[0], self.devices[memo.seed]
        response, after = part.privatize(value[memo.seed], before, randomness.part(memo.seed))
        new_memo = memo if after is before else replace(memo, parts=(after,))
        return AttributeResponse(memo.seed, response), new_memo

    def encode(self, response: AttributeResponse) -> bytes:
        """Little-endian index, the part's payload, zeros."""
        index = response.attribute.to_bytes(self.index_bytes, "little")
        payload = index + self.devices[response.attribute].encode(response.response)
        return payload.ljust(self.payload_size, b"\0")

    def decode(self, payload: bytes) -> AttributeResponse:
        self._require_length(payload)
        start = self.index_bytes
        attribute = int.from_bytes(payload[:start], "little")
        if attribute >= len(self.devices):
            raise InvalidPayload(Reason.VALUE_OUT_OF_RANGE, f"attributes end at {len(self.devices) - 1}")
        part = self.devices[attribute]
        end = start + part.payload_size
        if any(payload[end:]):
            raise InvalidPayload(Reason.UNUSED_BITS, f"attribute {attribute} ends at byte {end}")
        return AttributeResponse(attribute, part.decode(payload[start:end]))

    def responses_by_attribute(self, response: AttributeResponse) -> Mapping[int, Any]:
        return _responses_by_attribute(response)


@dataclass(frozen=True)
class SampleCounter(AttributesCounter):
    """One cell per attribute, its number of reports; then the attributes' cells."""

    counters: tuple[Counter, ...]
    sizes: tuple[int, ...]
    index_bytes: int

    @property
    def cells_before(self) -> int:  # type: ignore[override]
        return len(self.counters)

    def _groups(self, payloads: Bytes) -> Iterator[tuple[int, Ints, Bytes]]:
        """(attribute, positions, its part's payloads); positions with no such attribute are left out."""
        import numpy as np

        start = self.index_bytes
        attribute = payloads[:, 0].astype(np.int64)
        if start > 1:
            attribute += payloads[:, 1].astype(np.int64) << 8
        for index, size in enumerate(self.sizes):
            rows = np.flatnonzero(attribute == index)
            if rows.size:
                yield index, rows, read_only(payloads[rows, start : start + size])

    def check(self, payloads: Bytes) -> Bytes:
        import numpy as np

        codes = np.full(len(payloads), CheckCode.VALUE_OUT_OF_RANGE, np.uint8)
        for index, rows, some in self._groups(payloads):
            padded = payloads[rows, self.index_bytes + self.sizes[index] :].any(axis=1)
            unused = np.uint8(CheckCode.UNUSED_BITS)
            codes[rows] = np.where(padded, unused, self.counters[index].check(some))
        return codes

    def add(self, payloads: Bytes, counts: Ints) -> None:
        for index, rows, some in self._groups(payloads):
            counts[index] += rows.size
            self.counters[index].add(some, counts[self.spans[index]])

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        if signs.size:
            for index, _, some in self._groups(payloads):
                self.counters[index].add_signs(some, signs[self.sign_spans[index]])

    def seed_cells(self, counts: Ints, signs: Ints) -> tuple[Ints, float]:
        return counts[: len(self.counters)], 1.0

    def part_counts(self, counts: Ints, reports: int) -> tuple[tuple[Ints, int], ...]:
        return tuple((counts[span], int(counts[i])) for i, span in enumerate(self.spans))

    def steps(self, reports: float) -> float:
        return sum(part.steps(reports / len(self.counters)) for part in self.counters)


@dataclass(frozen=True)
class SampleSimulation(Simulation):
    """Devices that drew the same attribute go together."""

    device: SampleDevice
    simulations: tuple[Simulation, ...]

    @property
    def word_plan(self) -> WordPlan:
        """One word for the attribute; the parts draw theirs."""
        return WordPlan(WordSpec(0), seed=WordSpec(1, sum(self.device.weights)))

    def privatize(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        import numpy as np

        ends = np.cumsum(np.array(self.device.weights, np.uint64))
        drawn = words.seed(WordSpec(1, int(ends[-1])))[:, 0]
        attribute = np.searchsorted(ends, drawn, "right").astype(np.uint64)
        payloads = np.zeros((len(values), self.device.payload_size), np.uint8)
        for byte in range(self.device.index_bytes):
            payloads[:, byte] = attribute >> np.uint64(8 * byte) & np.uint64(255)
        start = self.device.index_bytes
        for index, part in enumerate(self.simulations):
            rows = np.flatnonzero(attribute == index)
            if rows.size:
                payloads[rows, start : start + self.device.devices[index].payload_size] = part.privatize(
                    devices[rows], values[rows, index], words.part(index, rows), memo.part(index)
                )
        return payloads


@dataclass(frozen=True)
class SampleLaw(AttributesLaw[AttributeResponse]):
    @property
    def shares(self) -> tuple[Fraction, ...]:
        """Of the devices, by the attribute that they drew."""
        return (Fraction(1, len(self.laws)),) * len(self.laws)

    def likelihood(self, response: AttributeResponse, value: Sequence[int]) -> Fraction:
        part, index = self.laws[response.attribute], response.attribute
        return part.likelihood(response.response, value[index]) * self.shares[index]

    def equal_responses(self, value: Sequence[int]) -> Kinds | None:
        each = [law.equal_responses(one) for law, one in zip(self.laws, value, strict=True)]
        known = [kinds for kinds in each if kinds is not None]
        if len(known) < len(each):
            return None
        pairs = zip(map(float, self.shares), known, strict=True)
        return tuple((share * p, equal) for share, kinds in pairs for p, equal in kinds)

    def responses(self) -> Iterator[AttributeResponse]:
        return (AttributeResponse(i, r) for i, part in enumerate(self.laws) for r in part.responses())

    def model(self, pair: tuple[Any, Any]) -> SampledModel:
        models = tuple(
            part_model(part, values)
            for part, values in zip(self.laws[:MOST_MODELS], zip(*pair, strict=True), strict=False)
        )
        return SampledModel(pair, models, self.shares, _responses_by_attribute)


def _responses_by_attribute(response: AttributeResponse) -> Mapping[int, Any]:
    return {response.attribute: response.response}


@dataclass(frozen=True)
class Sample(AttributeProtocol[AttributeResponse]):
    """One attribute per device, drawn uniformly once and kept for life in the memo's seed."""

    ID = 30
    NAME = "sample"
    TOGETHER = False
    SOURCE = "ALLOMFREE section 3 (Smp, r = 1)"

    @property
    def not_hidden(self) -> tuple[str, ...]:
        drawn = f"Which of {len(self.parts)} attributes a device drew for life stands in every report."
        return (drawn, *super().not_hidden)

    @cached_property
    def device(self) -> SampleDevice:
        return SampleDevice(self._each(lambda part: part.device))

    @cached_property
    def counter(self) -> SampleCounter:
        sizes = self._each(lambda part: part.device.payload_size)
        return SampleCounter(self._each(lambda part: part.counter), sizes, self.device.index_bytes)

    @cached_property
    def simulation(self) -> SampleSimulation:
        return SampleSimulation(self.device, self._each(lambda part: part.simulation))

    @cached_property
    def law(self) -> SampleLaw:
        return SampleLaw(self._each(lambda part: part.law))


class Allomfree(Sample):
    """Sample, with the better of L-GRR and L-OSUE for each attribute."""

    ID = 32
    NAME = "allomfree"
    PARAMETERS = ("epsilon_longitudinal", "epsilon_first")
    OPTIONAL = ("calibration",)
    RESULT = Result.FREQUENCIES
    SOURCE = "ALLOMFREE Algorithm 1"
