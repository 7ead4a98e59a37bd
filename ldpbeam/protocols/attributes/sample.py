"""Each device draws one attribute once, for life, and reports only it, with the whole ε."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ldpbeam.errors import InvalidPayload, Reason
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.kernels.columns import read_only
from ldpbeam.privacy.guarantee import Guarantee
from ldpbeam.privacy.loss import SeveralLosses
from ldpbeam.protocols.attributes.base import Several, attribute_guarantee, attribute_losses
from ldpbeam.protocols.contract import FleetMemo, FleetWords, LocalProtocol, Memo, WordSpec
from ldpbeam.protocols.frequency_protocol import FrequencyProtocol
from ldpbeam.protocols.mean_protocol import MeanProtocol
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.randomness import Randomness
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ldpbeam.estimate import Estimates

__all__ = ["Allomfree", "Sample", "Sampled"]


class Sampled(NamedTuple):
    """The response of a device that reports one attribute: which one, and its part's response."""

    attribute: int
    response: Any


@dataclass(frozen=True)
class Sample(Several[Sampled]):
    """One attribute per device, drawn uniformly once and kept for life in the memo's seed."""

    ID = 30
    NAME = "sample"
    SOURCE = "`002` section 3 (Smp, r = 1)"

    @property
    def sampled(self) -> Fraction:
        """1/d."""
        return Fraction(1, len(self.kinds))

    @property
    def not_hidden(self) -> tuple[str, ...]:
        """The attribute, too, is the same in all reports."""
        drawn = f"Which of {len(self.kinds)} attributes a device drew for life stands in every report."
        return (drawn, *super().not_hidden)

    @property
    def guarantee(self) -> Guarantee:
        """The worst attribute's: a device only ever uses one, and which one tells nothing."""
        return attribute_guarantee([kind.guarantee for kind in self.kinds], together=False)

    @property
    def losses(self) -> SeveralLosses | None:
        """The worst attribute's."""
        return attribute_losses(self.kinds, together=False)

    @property
    def payload_bits(self) -> int:
        """Which attribute, and the longest response."""
        return (len(self.kinds) - 1).bit_length() + max(kind.payload_bits for kind in self.kinds)

    @property
    def _index_bytes(self) -> int:
        return 1 if len(self.kinds) <= 256 else 2

    @property
    def payload_size(self) -> int:
        """Attribute index, then the longest payload; shorter ones are padded with zeros."""
        return self._index_bytes + max(kind.payload_size for kind in self.kinds)

    def new_memo(self, randomness: Randomness) -> Memo:
        """Draws the attribute, then what its protocol keeps for life."""
        attribute = randomness.word(len(self.kinds))
        return Memo(attribute, parts=(self.kinds[attribute].new_memo(randomness),))

    def _privatize(self, value: Sequence[int], memo: Memo, randomness: Randomness) -> tuple[Sampled, Memo]:
        """The device's attribute only; the other values are not looked at."""
        if memo.seed is None or len(memo.parts) != 1:
            raise ValueError(f"{self.NAME} needs the memo made by new_memo")
        before = memo.parts[0]
        response, after = self.kinds[memo.seed].privatize(value[memo.seed], before, randomness)
        kept = memo if after is before else replace(memo, parts=(after,))
        return Sampled(memo.seed, response), kept

    def encode(self, response: Sampled) -> bytes:
        """Little-endian index, the part's payload, zeros."""
        index = response.attribute.to_bytes(self._index_bytes, "little")
        payload = index + self.kinds[response.attribute].encode(response.response)
        return payload.ljust(self.payload_size, b"\0")

    def decode(self, payload: bytes) -> Sampled:
        """Index and response."""
        self._require_length(payload)
        start = self._index_bytes
        attribute = int.from_bytes(payload[:start], "little")
        if attribute >= len(self.kinds):
            raise InvalidPayload(Reason.VALUE_OUT_OF_RANGE, f"attributes end at {len(self.kinds) - 1}")
        kind = self.kinds[attribute]
        end = start + kind.payload_size
        if any(payload[end:]):
            raise InvalidPayload(Reason.UNUSED_BITS, f"attribute {attribute} ends at byte {end}")
        return Sampled(attribute, kind.decode(payload[start:end]))

    def likelihood(self, response: Sampled, value: Sequence[int]) -> Fraction:
        """1/d times the part's."""
        kind = self.kinds[response.attribute]
        return self.sampled * kind.likelihood(response.response, value[response.attribute])

    def responses(self) -> Iterator[Sampled]:
        """Those of every attribute."""
        return (Sampled(i, r) for i, kind in enumerate(self.kinds) for r in kind.responses())

    @property
    def cells_before(self) -> int:
        """One cell per attribute: its number of reports."""
        return len(self.kinds)

    def _groups(
        self, payloads: NDArray[np.uint8]
    ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.uint8]]]:
        """(attribute, positions, its part's payloads); positions with no such attribute are left out."""
        import numpy as np

        start = self._index_bytes
        attribute = payloads[:, 0].astype(np.int64)
        if start > 1:
            attribute += payloads[:, 1].astype(np.int64) << 8
        for index, kind in enumerate(self.kinds):
            rows = np.flatnonzero(attribute == index)
            if rows.size:
                yield index, rows, read_only(payloads[rows, start : start + kind.payload_size])

    def check(self, payloads: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """An attribute that exists, zeros behind its payload, and a payload its part takes."""
        import numpy as np

        codes = np.full(len(payloads), CheckCode.VALUE_OUT_OF_RANGE, np.uint8)
        for index, rows, some in self._groups(payloads):
            kind = self.kinds[index]
            padded = payloads[rows, self._index_bytes + kind.payload_size :].any(axis=1)
            unused = np.uint8(CheckCode.UNUSED_BITS)
            codes[rows] = np.where(padded, unused, kind.check(some))
        return codes

    def add_support(self, payloads: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        """Reports are sorted by attribute; each part counts its own."""
        for index, rows, some in self._groups(payloads):
            counts[index] += rows.size
            self.kinds[index].add_support(some, counts[self.spans[index]])

    def add_signs(self, payloads: NDArray[np.uint8], signs: NDArray[np.int64]) -> None:
        """Each part those of its reports."""
        if signs.size:
            for index, _, some in self._groups(payloads):
                self.kinds[index].add_signs(some, signs[self.sign_spans[index]])

    def seed_cells(
        self, counts: NDArray[np.int64], signs: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], float]:
        """The attributes that devices drew."""
        return counts[: len(self.kinds)], 1.0

    @property
    def parts(self) -> tuple[LocalProtocol[Any], ...]:
        """One per attribute, whose estimates know that only a random 1/d of the devices report it."""
        return tuple(_asked(kind, self.sampled) for kind in self.kinds)

    def part_counts(
        self, counts: NDArray[np.int64], reports: int
    ) -> tuple[tuple[NDArray[np.int64], int], ...]:
        """Each attribute with the reports of the devices that drew it."""
        return tuple((counts[span], int(counts[i])) for i, span in enumerate(self.spans))

    @property
    def seed_words(self) -> WordSpec | None:
        """One word: the attribute."""
        return WordSpec(1, len(self.kinds))

    def privatize_fleet(
        self,
        devices: NDArray[np.int64],
        values: NDArray[np.int64],
        words: FleetWords,
        memo: FleetMemo,
    ) -> NDArray[np.uint8]:
        """See the contract: devices that drew the same attribute go together."""
        import numpy as np

        attribute = words.seed(WordSpec(1, len(self.kinds)))[:, 0]
        payloads = np.zeros((len(values), self.payload_size), np.uint8)
        for byte in range(self._index_bytes):
            payloads[:, byte] = attribute >> np.uint64(8 * byte) & np.uint64(255)
        start = self._index_bytes
        for index, kind in enumerate(self.kinds):
            rows = np.flatnonzero(attribute == index)
            if rows.size:
                payloads[rows, start : start + kind.payload_size] = kind.privatize_fleet(
                    devices[rows], values[rows, index], words.part(index, rows), memo.part(index)
                )
        return payloads


class Allomfree(Sample):
    """Sample, with the better of L-GRR and L-OSUE for each attribute."""

    ID = 32
    NAME = "allomfree"
    PARAMETERS = ("epsilon_longitudinal", "epsilon_first")
    OPTIONAL = ("calibration",)
    SOURCE = "`002` Algorithm 1"


def _asked(kind: LocalProtocol[Any], share: Fraction) -> LocalProtocol[Any]:
    """A part that a random share of the devices report."""
    if isinstance(kind, MeanProtocol):
        return kind.of_share(share)
    assert isinstance(kind, FrequencyProtocol)  # noqa: S101 - a part counts values or takes a mean
    return _Asked(kind, share)


@dataclass(frozen=True)
class _Asked(FrequencyProtocol[Any]):
    """A part that a random share of the devices report: the same protocol with another variance.

    Attributes:
        kind: what it is.
        share: of the devices.
    """

    kind: FrequencyProtocol[Any]
    share: Fraction

    def __post_init__(self) -> None:
        for name in ("ID", "NAME", "PARAMETERS", "OPTIONAL", "SOURCE", "EXCLUSIVE", "domain_size"):
            object.__setattr__(self, name, getattr(self.kind, name))

    @cached_property
    def support(self) -> SupportProbabilities:
        return replace(self.kind.support, sampled=self.kind.support.sampled * self.share)

    @property
    def lasting(self) -> SupportProbabilities | None:
        # Who is asked is drawn for life, also where nothing else is kept.
        kept = self.kind.lasting or SupportProbabilities(Fraction(1), Fraction(0))
        return replace(kept, sampled=kept.sampled * self.share)

    @property
    def not_hidden(self) -> tuple[str, ...]:
        return self.kind.not_hidden

    @property
    def most_supported(self) -> int:
        return self.kind.most_supported

    @property
    def supported_variance(self) -> float | None:
        return self.kind.supported_variance

    @property
    def extremes(self) -> tuple[float, float] | None:
        return self.kind.extremes

    @property
    def signs_length(self) -> int:
        return self.kind.signs_length

    def add_signs(self, payloads: NDArray[np.uint8], signs: NDArray[np.int64]) -> None:
        self.kind.add_signs(payloads, signs)

    def seed_cells(
        self, counts: NDArray[np.int64], signs: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], float] | None:
        return self.kind.seed_cells(counts, signs)

    def report_counts(self, counts: NDArray[np.int64], reports: int) -> int | NDArray[np.int64]:
        return self.kind.report_counts(counts, reports)

    def support_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.kind.support_counts(counts)

    def consistent(self, method: str, estimates: Estimates) -> NDArray[np.float64]:
        return self.kind.consistent(method, estimates)

    # Everything else is the protocol's own.

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> LocalProtocol[Any]:
        raise NotImplementedError("a part of a composite is built by allocate()")

    @property
    def guarantee(self) -> Guarantee:
        return self.kind.guarantee

    @property
    def payload_bits(self) -> int:
        return self.kind.payload_bits

    @property
    def payload_size(self) -> int:
        return self.kind.payload_size

    def facts(self) -> dict[str, int | float | str]:
        return self.kind.facts()

    def new_memo(self, randomness: Randomness) -> Memo:
        return self.kind.new_memo(randomness)

    def require_value(self, value: Any) -> Any:
        return self.kind.require_value(value)

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[Any, Memo]:
        return self.kind.privatize(value, memo, randomness)

    def encode(self, response: Any) -> bytes:
        return self.kind.encode(response)

    def decode(self, payload: bytes) -> Any:
        return self.kind.decode(payload)

    def likelihood(self, response: Any, value: int) -> Fraction:
        return self.kind.likelihood(response, value)

    def responses(self) -> Iterator[Any]:
        return self.kind.responses()

    def supports(self, response: Any, value: int) -> bool:
        return self.kind.supports(response, value)

    @property
    def counts_length(self) -> int:
        return self.kind.counts_length

    def check(self, payloads: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return self.kind.check(payloads)

    def add_support(self, payloads: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        self.kind.add_support(payloads, counts)

    @property
    def seed_words(self) -> WordSpec | None:
        return self.kind.seed_words

    @property
    def seed_per_report(self) -> bool:
        return self.kind.seed_per_report

    @property
    def permanent_words(self) -> WordSpec | None:
        return self.kind.permanent_words

    @property
    def instant_words(self) -> WordSpec:
        return self.kind.instant_words

    @property
    def answer_bytes(self) -> int | None:
        return self.kind.answer_bytes

    def privatize_fleet(
        self,
        devices: NDArray[np.int64],
        values: NDArray[np.int64],
        words: FleetWords,
        memo: FleetMemo,
    ) -> NDArray[np.uint8]:
        return self.kind.privatize_fleet(devices, values, words, memo)
