"""Every report tells about every attribute, with ε/d for each of the d."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.kernels.columns import read_only
from ldpbeam.privacy.guarantee import Guarantee
from ldpbeam.privacy.loss import SeveralLosses
from ldpbeam.protocols.attributes.base import Several, attribute_guarantee, attribute_losses, slices
from ldpbeam.protocols.contract import FleetMemo, FleetWords, Memo
from ldpbeam.randomness import Randomness

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Split"]


@dataclass(frozen=True)
class Split(Several[tuple[Any, ...]]):
    """Every attribute in every report, with ε/d each."""

    ID = 31
    NAME = "split"
    SOURCE = "`002` section 3 (Spl)"

    @property
    def sampled(self) -> Fraction:
        """Everyone reports everything."""
        return Fraction(1)

    @property
    def guarantee(self) -> Guarantee:
        """The product of the attributes' ratios: their noise is independent."""
        return attribute_guarantee([kind.guarantee for kind in self.kinds], together=True)

    @property
    def losses(self) -> SeveralLosses | None:
        """All attributes' together."""
        return attribute_losses(self.kinds, together=True)

    @property
    def payload_size(self) -> int:
        """Payloads one after the other, each in whole bytes."""
        return sum(kind.payload_size for kind in self.kinds)

    @cached_property
    def _bytes(self) -> tuple[slice, ...]:
        return slices(kind.payload_size for kind in self.kinds)

    def new_memo(self, randomness: Randomness) -> Memo:
        """One memo per attribute."""
        return Memo(parts=tuple(kind.new_memo(randomness) for kind in self.kinds))

    def _privatize(
        self, value: Sequence[int], memo: Memo, randomness: Randomness
    ) -> tuple[tuple[Any, ...], Memo]:
        """One attribute after the other."""
        if len(memo.parts) != len(self.kinds):
            raise ValueError(f"{self.NAME} needs the memo made by new_memo")
        drawn = [
            kind.privatize(one, part, randomness)
            for kind, one, part in zip(self.kinds, value, memo.parts, strict=True)
        ]
        after = tuple(part for _, part in drawn)
        same = all(a is b for a, b in zip(after, memo.parts, strict=True))
        return tuple(response for response, _ in drawn), memo if same else replace(memo, parts=after)

    def encode(self, response: tuple[Any, ...]) -> bytes:
        """The parts' payloads, joined."""
        return b"".join(k.encode(one) for k, one in zip(self.kinds, response, strict=True))

    def decode(self, payload: bytes) -> tuple[Any, ...]:
        """One response per attribute."""
        self._require_length(payload)
        return tuple(kind.decode(payload[where]) for kind, where in zip(self.kinds, self._bytes, strict=True))

    def likelihood(self, response: tuple[Any, ...], value: Sequence[int]) -> Fraction:
        """The product over attributes."""
        return prod(
            (k.likelihood(r, v) for k, r, v in zip(self.kinds, response, value, strict=True)),
            start=Fraction(1),
        )

    def responses(self) -> Iterator[tuple[Any, ...]]:
        """Every combination."""
        return product(*(kind.responses() for kind in self.kinds))

    def check(self, payloads: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """What the first attribute that refuses says."""
        import numpy as np

        codes = np.full(len(payloads), CheckCode.SOUND, np.uint8)
        for kind, where in zip(self.kinds, self._bytes, strict=True):
            codes = np.where(codes == CheckCode.SOUND, kind.check(read_only(payloads[:, where])), codes)
        return codes

    def add_support(self, payloads: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        """Each part counts its columns."""
        for kind, where, span in zip(self.kinds, self._bytes, self.spans, strict=True):
            kind.add_support(read_only(payloads[:, where]), counts[span])

    def add_signs(self, payloads: NDArray[np.uint8], signs: NDArray[np.int64]) -> None:
        """Each part its columns."""
        for kind, where, span in zip(self.kinds, self._bytes, self.sign_spans, strict=True):
            if kind.signs_length:
                kind.add_signs(read_only(payloads[:, where]), signs[span])

    def privatize_fleet(
        self,
        devices: NDArray[np.int64],
        values: NDArray[np.int64],
        words: FleetWords,
        memo: FleetMemo,
    ) -> NDArray[np.uint8]:
        """See the contract: one attribute after the other."""
        import numpy as np

        columns = [
            kind.privatize_fleet(
                devices, np.ascontiguousarray(values[:, index]), words.part(index), memo.part(index)
            )
            for index, kind in enumerate(self.kinds)
        ]
        return np.concatenate(columns, axis=1)
