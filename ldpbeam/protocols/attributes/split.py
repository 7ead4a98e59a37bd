"""Every report tells about every attribute, with ε/d for each of the d."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from ldpbeam.arrays import Bytes, Ints, read_only
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.protocols.attributes.base import (
    AttributeProtocol,
    AttributesCounter,
    AttributesDevice,
    AttributesLaw,
    part_model,
    slices,
)
from ldpbeam.protocols.counter import Counter
from ldpbeam.protocols.device import Memo, ProtocolDevice
from ldpbeam.protocols.history_model import ProductModel
from ldpbeam.protocols.simulation import FleetAnswers, FleetWords, Simulation, WordPlan, WordSpec
from ldpbeam.randomness import Randomness


@dataclass(frozen=True)
class SplitDevice(AttributesDevice[tuple[Any, ...]]):
    ENCODING = "split"

    devices: tuple[ProtocolDevice[Any], ...]

    @property
    def payload_size(self) -> int:
        return sum(part.payload_size for part in self.devices)

    @cached_property
    def _bytes(self) -> tuple[slice, ...]:
        return slices(part.payload_size for part in self.devices)

    def new_memo(self, randomness: Randomness) -> Memo:
        made = (part.new_memo(randomness.part(index)) for index, part in enumerate(self.devices))
        return Memo(parts=tuple(made))

    def _privatize(
        self, value: Sequence[int], memo: Memo, randomness: Randomness
    ) -> tuple[tuple[Any, ...], Memo]:
        if len(memo.parts) != len(self.devices):
            raise ValueError("a device with several attributes needs the memo made by new_memo")
        drawn = [
            part.privatize(one, before, randomness.part(index))
            for index, (part, one, before) in enumerate(zip(self.devices, value, memo.parts, strict=True))
        ]
        after = tuple(part_memo for _, part_memo in drawn)
        same = all(a is b for a, b in zip(after, memo.parts, strict=True))
        return tuple(response for response, _ in drawn), memo if same else replace(memo, parts=after)

    def encode(self, response: tuple[Any, ...]) -> bytes:
        return b"".join(k.encode(one) for k, one in zip(self.devices, response, strict=True))

    def decode(self, payload: bytes) -> tuple[Any, ...]:
        self._require_length(payload)
        return tuple(
            part.decode(payload[where]) for part, where in zip(self.devices, self._bytes, strict=True)
        )

    def responses_by_attribute(self, response: tuple[Any, ...]) -> Mapping[int, Any]:
        return _responses_by_attribute(response)


@dataclass(frozen=True)
class SplitCounter(AttributesCounter):
    counters: tuple[Counter, ...]
    columns: tuple[slice, ...]

    def check(self, payloads: Bytes) -> Bytes:
        import numpy as np

        codes = np.full(len(payloads), CheckCode.SOUND, np.uint8)
        for part, where in zip(self.counters, self.columns, strict=True):
            codes = np.where(codes == CheckCode.SOUND, part.check(read_only(payloads[:, where])), codes)
        return codes

    def add(self, payloads: Bytes, counts: Ints) -> None:
        for part, where, span in zip(self.counters, self.columns, self.spans, strict=True):
            part.add(read_only(payloads[:, where]), counts[span])

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        for part, where, span in zip(self.counters, self.columns, self.sign_spans, strict=True):
            if part.signs_length:
                part.add_signs(read_only(payloads[:, where]), signs[span])


@dataclass(frozen=True)
class SplitSimulation(Simulation):
    """One attribute after the other. Attributes: simulations, one of each attribute."""

    simulations: tuple[Simulation, ...]

    @property
    def word_plan(self) -> WordPlan:
        return WordPlan(WordSpec(0))

    def privatize(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        import numpy as np

        columns = [
            part.privatize(
                devices, np.ascontiguousarray(values[:, index]), words.part(index), memo.part(index)
            )
            for index, part in enumerate(self.simulations)
        ]
        return np.concatenate(columns, axis=1)


@dataclass(frozen=True)
class SplitLaw(AttributesLaw[tuple[Any, ...]]):
    def likelihood(self, response: tuple[Any, ...], value: Sequence[int]) -> Fraction:
        return prod(
            (k.likelihood(r, v) for k, r, v in zip(self.laws, response, value, strict=True)),
            start=Fraction(1),
        )

    def responses(self) -> Iterator[tuple[Any, ...]]:
        return product(*(part.responses() for part in self.laws))

    def model(self, pair: tuple[Any, Any]) -> ProductModel:
        positions = tuple(dict.fromkeys((0, len(self.laws) - 1)))
        models = tuple(part_model(self.laws[i], (pair[0][i], pair[1][i])) for i in positions)
        return ProductModel(pair, positions, models, _responses_by_attribute)


def _responses_by_attribute(response: tuple[Any, ...]) -> Mapping[int, Any]:
    return dict(enumerate(response))


@dataclass(frozen=True)
class Split(AttributeProtocol[tuple[Any, ...]]):
    """Every attribute in every report, with ε/d each."""

    ID = 31
    NAME = "split"
    TOGETHER = True
    SOURCE = "ALLOMFREE section 3 (Spl)"

    @cached_property
    def device(self) -> SplitDevice:
        return SplitDevice(self._each(lambda part: part.device))

    @cached_property
    def counter(self) -> AttributesCounter:
        columns = slices(self._each(lambda part: part.device.payload_size))
        return SplitCounter(self._each(lambda part: part.counter), columns)

    @cached_property
    def simulation(self) -> Simulation:
        return SplitSimulation(self._each(lambda part: part.simulation))

    @cached_property
    def law(self) -> SplitLaw:
        return SplitLaw(self._each(lambda part: part.law))
