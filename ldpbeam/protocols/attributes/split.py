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
from ldpbeam.protocols.attributes.base import AttributeProtocol, slices
from ldpbeam.protocols.contract import FleetAnswers, FleetWords, Memo
from ldpbeam.randomness import Randomness


@dataclass(frozen=True)
class Split(AttributeProtocol[tuple[Any, ...]]):
    """Every attribute in every report, with ε/d each."""

    ID = 31
    NAME = "split"
    TOGETHER = True
    SOURCE = "ALLOMFREE section 3 (Spl)"
    ENCODING = "split"

    @property
    def payload_size(self) -> int:
        """Payloads one after the other, each in whole bytes."""
        return sum(part.payload_size for part in self.parts)

    @cached_property
    def _bytes(self) -> tuple[slice, ...]:
        return slices(part.payload_size for part in self.parts)

    def new_memo(self, randomness: Randomness) -> Memo:
        """One memo per attribute."""
        made = (part.new_memo(randomness.part(index)) for index, part in enumerate(self.parts))
        return Memo(parts=tuple(made))

    def _privatize(
        self, value: Sequence[int], memo: Memo, randomness: Randomness
    ) -> tuple[tuple[Any, ...], Memo]:
        """One attribute after the other."""
        if len(memo.parts) != len(self.parts):
            raise ValueError(f"{self.NAME} needs the memo made by new_memo")
        drawn = [
            part.privatize(one, before, randomness.part(index))
            for index, (part, one, before) in enumerate(zip(self.parts, value, memo.parts, strict=True))
        ]
        after = tuple(kept for _, kept in drawn)
        same = all(a is b for a, b in zip(after, memo.parts, strict=True))
        return tuple(response for response, _ in drawn), memo if same else replace(memo, parts=after)

    def encode(self, response: tuple[Any, ...]) -> bytes:
        """The parts' payloads, joined."""
        return b"".join(k.encode(one) for k, one in zip(self.parts, response, strict=True))

    def decode(self, payload: bytes) -> tuple[Any, ...]:
        """One response per attribute."""
        self._require_length(payload)
        return tuple(part.decode(payload[where]) for part, where in zip(self.parts, self._bytes, strict=True))

    def said_about(self, response: tuple[Any, ...]) -> Mapping[int, Any]:
        """That of every attribute."""
        return dict(enumerate(response))

    def likelihood(self, response: tuple[Any, ...], value: Sequence[int]) -> Fraction:
        """The product over attributes."""
        return prod(
            (k.likelihood(r, v) for k, r, v in zip(self.parts, response, value, strict=True)),
            start=Fraction(1),
        )

    def responses(self) -> Iterator[tuple[Any, ...]]:
        """Every combination."""
        return product(*(part.responses() for part in self.parts))

    def check(self, payloads: Bytes) -> Bytes:
        """What the first attribute that refuses says."""
        import numpy as np

        codes = np.full(len(payloads), CheckCode.SOUND, np.uint8)
        for part, where in zip(self.parts, self._bytes, strict=True):
            codes = np.where(codes == CheckCode.SOUND, part.check(read_only(payloads[:, where])), codes)
        return codes

    def add_support(self, payloads: Bytes, counts: Ints) -> None:
        """Each part counts its columns."""
        for part, where, span in zip(self.parts, self._bytes, self.spans, strict=True):
            part.add_support(read_only(payloads[:, where]), counts[span])

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        """Each part its columns."""
        for part, where, span in zip(self.parts, self._bytes, self.sign_spans, strict=True):
            if part.signs_length:
                part.add_signs(read_only(payloads[:, where]), signs[span])

    def privatize_fleet(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        """See the contract: one attribute after the other."""
        import numpy as np

        columns = [
            part.privatize_fleet(
                devices, np.ascontiguousarray(values[:, index]), words.part(index), memo.part(index)
            )
            for index, part in enumerate(self.parts)
        ]
        return np.concatenate(columns, axis=1)
