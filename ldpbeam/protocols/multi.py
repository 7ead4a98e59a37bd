"""Several attributes of one device in one collection: sample one, split the budget, or bound their sum.

* sample: each device draws one attribute once, for life, and reports only it, with the whole ε;
* allomfree: sample, with the better of L-GRR and L-OSUE for each attribute (`002` Algorithm 1);
* split: every report tells about every attribute, with ε/d for each of the d;
* together: every report has one bit about each counter with the whole ε', for counters whose sum is bounded
  (`004` Theorem 5).

The parts are ordinary protocols, one per attribute: all count values, or all take means. A value is a tuple
with one index per attribute; a device holds all of them or is absent.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise, product
from math import ceil, fsum, inf, nextafter, prod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from ldpbeam.degenerate import BOUND, refuse_ones, tail_from
from ldpbeam.errors import CollectionError, InvalidPayload, Reason
from ldpbeam.privacy.counters import CountersGuarantee, counters_guarantee, theorem_5
from ldpbeam.privacy.guarantee import Guarantee
from ldpbeam.privacy.loss import SeveralLosses
from ldpbeam.protocols import PROTOCOLS, protocol
from ldpbeam.protocols.base import (
    CHECK_CODES,
    FleetMemo,
    FleetWords,
    FrequencyProtocol,
    LocalProtocol,
    Memo,
    Parameters,
    Result,
    WordSpec,
    frozen_columns,
)
from ldpbeam.protocols.mean import MeanProtocol, OneBit
from ldpbeam.randomness import Randomness
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ldpbeam.estimates import Estimates

__all__ = ["ALLOCATIONS", "Allomfree", "Sample", "Sampled", "Several", "Split", "Together", "allocate"]

_LEVELS = ("epsilon", "epsilon_longitudinal", "epsilon_first")
_CANDIDATES = ("l_grr", "l_osue")
_MOST_TOGETHER = 32.0
"""Level of a report about all counters that a collection may have, as for every other level."""

Response = TypeVar("Response")


class Sampled(NamedTuple):
    """The response of a device that reports one attribute: which one, and its part's response."""

    attribute: int
    response: Any


@dataclass(frozen=True)
class Several(LocalProtocol[Response]):
    """What the ways to report several attributes have in common.

    Attributes:
        kinds: the protocol of each attribute, as a device runs it.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ()

    kinds: tuple[LocalProtocol[Any], ...]

    def __post_init__(self) -> None:
        """The domain is that of all attributes together."""
        object.__setattr__(self, "domain_size", sum(kind.domain_size for kind in self.kinds))

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> LocalProtocol[Any]:
        """Not from one size: see :func:`allocate`."""
        raise NotImplementedError(f"{cls.NAME} has several domains; build it with allocate()")

    @property
    @abstractmethod
    def sampled(self) -> Fraction:
        """Share of the devices that report each attribute."""

    @property
    def payload_bits(self) -> int:
        """Information in one report, bits."""
        return sum(kind.payload_bits for kind in self.kinds)

    @property
    def not_hidden(self) -> tuple[str, ...]:
        """What any of the attributes shows."""
        return tuple(dict.fromkeys(one for kind in self.kinds for one in kind.not_hidden))

    def facts(self) -> dict[str, int | float | str]:
        """The protocol of each attribute, and what that resolved, by position."""
        found: dict[str, int | float | str] = {}
        for index, kind in enumerate(self.kinds):
            found[f"{index}.protocol"] = kind.NAME
            found.update({f"{index}.{fact}": value for fact, value in kind.facts().items()})
        return found

    def require_value(self, value: Any) -> Any:
        """One plain int per attribute.

        Raises:
            TypeError: no sequence, or one that holds something else than integers.
            ValueError: not one value per attribute, or one outside its domain.
        """
        if not hasattr(value, "__len__"):
            raise TypeError(f"needs a sequence of one value for each of {len(self.kinds)} attributes")
        if len(value) != len(self.kinds):
            raise ValueError(f"needs one value for each of {len(self.kinds)} attributes")
        return tuple(kind.require_value(one) for kind, one in zip(self.kinds, value, strict=True))

    # Server

    @property
    def result(self) -> Result:
        """That of the attributes: all count values, or all take means."""
        return self.kinds[0].result

    @cached_property
    def _spans(self) -> tuple[slice, ...]:
        """Where each part's cells lie in the accumulator."""
        return _slices((kind.counts_length for kind in self.kinds), self._before)

    @property
    def _before(self) -> int:
        """Cells in front of the parts'."""
        return 0

    @property
    def counts_length(self) -> int:
        """The parts' cells, one after the other."""
        return self._before + sum(kind.counts_length for kind in self.kinds)

    @property
    def signs_length(self) -> int:
        """The parts' cells, one after the other."""
        return sum(kind.signs_length for kind in self.kinds)

    @cached_property
    def sign_spans(self) -> tuple[slice, ...]:
        """Where each part's cells lie in ``signs``."""
        return _slices(kind.signs_length for kind in self.kinds)

    def support_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Per value, one attribute after the other."""
        import numpy as np

        found = [
            kind.support_counts(counts[span]) for kind, span in zip(self.kinds, self._spans, strict=True)
        ]
        return np.concatenate(found)

    def estimate(
        self, counts: NDArray[np.int64], reports: int, ties: NDArray[np.float64] | None = None
    ) -> Estimates:
        """The parts' estimates, one after the other; simultaneous intervals hold within an attribute."""
        import numpy as np

        from ldpbeam.estimates import Estimates

        found, start = [], 0
        for part, (cells, n) in zip(self.parts, self.part_counts(counts, reports), strict=True):
            some = None if ties is None else ties[start : start + part.rows]
            start += part.rows
            if n:
                found.append(part.estimate(cells, n, some))
            else:
                nothing = np.full(part.rows, np.nan)
                zero = np.zeros(part.rows, np.int64)
                found.append(Estimates(zero, zero, *[nothing] * 6))
        names = Estimates.__dataclass_fields__
        return Estimates(*(np.concatenate([getattr(e, name) for e in found]) for name in names))

    def consistent(self, method: str, estimates: Estimates) -> NDArray[np.float64]:
        """Each attribute on its own."""
        import numpy as np

        found, start = [], 0
        for part in self.parts:
            rows = slice(start, start + part.rows)
            start += part.rows
            columns = {n: getattr(estimates, n)[rows] for n in estimates.__dataclass_fields__}
            some = replace(estimates, **columns)
            told = bool(some.n.any())
            found.append(part.consistent(method, some) if told else np.full(part.rows, np.nan))
        return np.concatenate(found)

    @property
    def parts(self) -> tuple[LocalProtocol[Any], ...]:
        """One per attribute, as the server estimates it."""
        return self.kinds

    def part_counts(
        self, counts: NDArray[np.int64], reports: int
    ) -> tuple[tuple[NDArray[np.int64], int], ...]:
        """Every report tells about every attribute."""
        return tuple((counts[span], reports) for span in self._spans)

    # Simulation

    @property
    def instant_words(self) -> WordSpec:
        """None of its own: the parts draw theirs."""
        return WordSpec(0)


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
        return _composed([kind.guarantee for kind in self.kinds], together=False)

    @property
    def losses(self) -> SeveralLosses | None:
        """The worst attribute's."""
        return _losses(self.kinds, together=False)

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
    def _before(self) -> int:
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
                yield index, rows, frozen_columns(payloads[rows, start : start + kind.payload_size])

    def check(self, payloads: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """An attribute that exists, zeros behind its payload, and a payload its part takes."""
        import numpy as np

        codes = np.full(len(payloads), CHECK_CODES.index(Reason.VALUE_OUT_OF_RANGE), np.uint8)
        for index, rows, some in self._groups(payloads):
            kind = self.kinds[index]
            padded = payloads[rows, self._index_bytes + kind.payload_size :].any(axis=1)
            unused = np.uint8(CHECK_CODES.index(Reason.UNUSED_BITS))
            codes[rows] = np.where(padded, unused, kind.check(some))
        return codes

    def add_support(self, payloads: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        """Reports are sorted by attribute; each part counts its own."""
        for index, rows, some in self._groups(payloads):
            counts[index] += rows.size
            self.kinds[index].add_support(some, counts[self._spans[index]])

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
        return tuple((counts[span], int(counts[i])) for i, span in enumerate(self._spans))

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
        return _composed([kind.guarantee for kind in self.kinds], together=True)

    @property
    def losses(self) -> SeveralLosses | None:
        """All attributes' together."""
        return _losses(self.kinds, together=True)

    @property
    def payload_size(self) -> int:
        """Payloads one after the other, each in whole bytes."""
        return sum(kind.payload_size for kind in self.kinds)

    @cached_property
    def _bytes(self) -> tuple[slice, ...]:
        return _slices(kind.payload_size for kind in self.kinds)

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

        codes = np.zeros(len(payloads), np.uint8)
        for kind, where in zip(self.kinds, self._bytes, strict=True):
            codes = np.where(codes == 0, kind.check(frozen_columns(payloads[:, where])), codes)
        return codes

    def add_support(self, payloads: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        """Each part counts its columns."""
        for kind, where, span in zip(self.kinds, self._bytes, self._spans, strict=True):
            kind.add_support(frozen_columns(payloads[:, where]), counts[span])

    def add_signs(self, payloads: NDArray[np.uint8], signs: NDArray[np.int64]) -> None:
        """Each part its columns."""
        for kind, where, span in zip(self.kinds, self._bytes, self.sign_spans, strict=True):
            if kind.signs_length:
                kind.add_signs(frozen_columns(payloads[:, where]), signs[span])

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


@dataclass(frozen=True)
class Together(Split):
    """One bit about every counter, each at the full level, for counters with Σ x_i <= m (`004` Theorem 5).

    The guarantee rests on that bound: a device refuses values that add up to more.
    """

    ID = 33
    NAME = "together"
    SOURCE = "`004` Theorem 5"

    @property
    def limit(self) -> int:
        """m: the most that a device's values may add up to, and the most that each of them can be."""
        return self.kinds[0].domain_size - 1

    @property
    def guarantee(self) -> CountersGuarantee:
        """The theorem's for a report; per memoised input and beyond, what the counters' levels add up to."""
        return counters_guarantee(self.kinds[0].guarantee, len(self.kinds), self.limit)

    @property
    def payload_size(self) -> int:
        """The bits, packed."""
        return (len(self.kinds) + 7) // 8

    def require_value(self, value: Any) -> Any:
        """One plain int per counter.

        Raises:
            TypeError, ValueError: as for every composite, and where they add up to more than the limit.
        """
        plain = super().require_value(value)
        if sum(plain) > self.limit:
            raise ValueError(_beyond(self.limit))
        return plain

    def encode(self, response: tuple[int, ...]) -> bytes:
        """Bit i is about counter i, the lowest bit of the first byte first."""
        packed = sum(bit << index for index, bit in enumerate(response))
        return packed.to_bytes(self.payload_size, "little")

    def decode(self, payload: bytes) -> tuple[int, ...]:
        """One bit per counter."""
        self._require_length(payload)
        packed = int.from_bytes(payload, "little")
        if packed >> len(self.kinds):
            raise InvalidPayload(Reason.UNUSED_BITS, f"a report has {len(self.kinds)} bits")
        least, most = self.ones_admitted
        if not least <= packed.bit_count() <= most:
            raise InvalidPayload(Reason.DEGENERATE, f"reports have {least} to {most} ones")
        return tuple(packed >> index & 1 for index in range(len(self.kinds)))

    def check(self, payloads: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """No bit beyond the last counter's, and neither very many ones nor very few."""
        import numpy as np

        unused = len(self.kinds) % 8 and 256 - (1 << len(self.kinds) % 8)
        refused = np.uint8(CHECK_CODES.index(Reason.UNUSED_BITS))
        codes = np.where(payloads[:, -1] & np.uint8(unused), refused, np.uint8(0))
        refuse_ones(payloads, len(self.kinds), self.ones_admitted, codes)
        return codes

    @cached_property
    def ones_admitted(self) -> tuple[int, int]:
        """The least and the largest number of ones that a device ever sends, see :mod:`ldpbeam.degenerate`.

        Bit i is 1 with probability other + (x_i/m)(own − other), independently, so the number of ones has a
        mean between t·other, where all counters are 0, and t·other + own − other, since Σ x_i <= m. Among
        independent bits with a given mean those of equal probability have the heaviest tails, from one above
        the mean on (Hoeffding 1956, Theorem 4).
        """
        first = self.kinds[0]
        assert isinstance(first, OneBit)  # noqa: S101 - allocate() takes no others
        t, ends = len(self.kinds), first.ends
        average = ends.other + ends.gap / t
        zeros = tail_from(t, None, 1 - ends.other, BOUND / 2)
        return t - zeros + 1, max(tail_from(t, None, average, BOUND / 2), ceil(t * average) + 1) - 1

    def add_signs(self, payloads: NDArray[np.uint8], signs: NDArray[np.int64]) -> None:
        """Nothing: bits have none."""

    def add_support(self, payloads: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        """Count each counter's ones."""
        import numpy as np

        bits = np.unpackbits(payloads, axis=1, count=len(self.kinds), bitorder="little")
        counts += bits.sum(axis=0, dtype=np.int64)

    def privatize_fleet(
        self,
        devices: NDArray[np.int64],
        values: NDArray[np.int64],
        words: FleetWords,
        memo: FleetMemo,
    ) -> NDArray[np.uint8]:
        """See the contract.

        Raises:
            ValueError: the values of a device add up to more than the limit.
        """
        import numpy as np

        if (values.sum(axis=1) > self.limit).any():
            raise ValueError(_beyond(self.limit))
        return np.packbits(super().privatize_fleet(devices, values, words, memo), axis=1, bitorder="little")


ALLOCATIONS: dict[str, type[Several[Any]]] = {
    kind.NAME: kind for kind in (Sample, Split, Allomfree, Together)
}
"""Ways to report several attributes, by the name that a collection file uses."""


def allocate(
    allocation: str, protocol_name: str | None, sizes: Sequence[int], parameters: Parameters
) -> Several[Any]:
    """The protocol of a collection with several attributes.

    Args:
        allocation: key of :data:`ALLOCATIONS`.
        protocol_name: of every attribute; None for ``allomfree``, which chooses.
        sizes: domain size of each attribute, at least two.
        parameters: nominal, of the device as a whole.

    Raises:
        CollectionError: no such allocation, a protocol or sizes that do not go with it, parameters it cannot
            work with, or fewer than 2 or more than 65,536 attributes.
    """
    if allocation not in ALLOCATIONS:
        raise CollectionError(
            "E-COLLECTION-ALLOCATION",
            f"allocation {allocation!r} does not exist",
            remedy=f"Use one of: {', '.join(ALLOCATIONS)}.",
        )
    if not 2 <= len(sizes) <= 1 << 16:
        raise CollectionError(
            "E-COLLECTION-ATTRIBUTES",
            f"allocation is for 2 to 65536 attributes, not {len(sizes)}",
            remedy="Use domain for a single attribute.",
        )
    if allocation == Allomfree.NAME:
        if protocol_name:
            raise CollectionError(
                "E-COLLECTION-ALLOCATION",
                "allomfree chooses the protocol of each attribute itself",
                remedy="Remove protocol, or use allocation: sample.",
            )
        better = {size: _better(size, parameters) for size in set(sizes)}
        return Allomfree(tuple(better[size] for size in sizes))
    if not protocol_name:
        raise CollectionError(
            "E-COLLECTION-MISSING",
            f"allocation {allocation} needs a protocol",
            remedy="Add it, for example protocol: loloha.",
        )
    if allocation == Split.NAME:
        parameters = _share(parameters, len(sizes))
    made = {size: protocol(protocol_name, size, parameters) for size in set(sizes)}
    parts = tuple(made[size] for size in sizes)
    if allocation == Together.NAME:
        return _together(parts)
    return Sample(parts) if allocation == Sample.NAME else Split(parts)


def _together(parts: tuple[LocalProtocol[Any], ...]) -> Together:
    """Bits of one level about counters of one range; anything else is refused."""
    if not all(isinstance(part, OneBit) for part in parts):
        able = [name for name, kind in PROTOCOLS.items() if issubclass(kind, OneBit)]
        raise CollectionError(
            "E-COLLECTION-ALLOCATION",
            f"together is for one bit per counter, which {parts[0].NAME} does not send",
            remedy=f"Use one of: {', '.join(able)}; or allocation: sample.",
        )
    if len({part.domain_size for part in parts}) > 1:
        raise CollectionError(
            "E-COLLECTION-ALLOCATION",
            "together needs the same max for all attributes: it is the bound of their sum",
            remedy="Give every attribute the largest max, or use allocation: sample.",
        )
    built = Together(parts)
    single, counters = parts[0].guarantee.first_report, len(parts)
    spent = min(theorem_5(single), counters * single)
    if spent > _MOST_TOGETHER:
        raise CollectionError(
            "E-COLLECTION-EPSILON",
            f"a report about all {counters} counters together would spend {spent:.4g}, more than "
            f"{_MOST_TOGETHER:g}",
            remedy="Lower the level, or use allocation: sample.",
        )
    return built


def _beyond(limit: int) -> str:
    # Never the values: this text may reach a log on the device.
    return f"the counters of a device must add up to at most {limit}, and these add up to more"


def _asked(kind: LocalProtocol[Any], share: Fraction) -> LocalProtocol[Any]:
    """A part that a random share of the devices report."""
    if isinstance(kind, MeanProtocol):
        return kind.of_share(share)
    assert isinstance(kind, FrequencyProtocol)  # noqa: S101 - a part counts values or takes a mean
    return _Asked(kind, share)


def _slices(sizes: Iterable[int], start: int = 0) -> tuple[slice, ...]:
    """Where each of several pieces lies when they stand one after the other."""
    return tuple(slice(a, b) for a, b in pairwise(accumulate(sizes, initial=start)))


def _better(size: int, parameters: Parameters) -> FrequencyProtocol[Any]:
    """The candidate of least V* at that size, exactly; L-GRR on a tie, as in the paper."""
    built = [protocol(name, size, parameters) for name in _CANDIDATES]

    def floor(kind: LocalProtocol[Any]) -> Fraction:
        assert isinstance(kind, FrequencyProtocol)  # noqa: S101 - both candidates are
        s = kind.support
        return s.other * (1 - s.other) / s.gap**2

    best = min(built, key=floor)
    assert isinstance(best, FrequencyProtocol)  # noqa: S101 - both candidates are
    return best


def _share(parameters: Parameters, attributes: int) -> Parameters:
    """Every level divided, rounded so that the shares never add up to more than the whole."""
    shares: dict[str, Any] = {}
    for name in _LEVELS:
        if getattr(parameters, name) is None:
            continue
        whole = parameters.level(name)
        share = whole / attributes
        if Fraction(share) * attributes > Fraction(whole):
            share = nextafter(share, 0.0)
        shares[name] = share
        if share < 1e-6:
            raise CollectionError(
                "E-COLLECTION-EPSILON",
                f"{name} = {whole:g} leaves {share:.3g} for each of {attributes} attributes, below 0.000001",
                remedy=f"Raise {name}, or use allocation: sample.",
            )
    return replace(parameters, **shares)


def _losses(kinds: Sequence[LocalProtocol[Any]], *, together: bool) -> SeveralLosses | None:
    """Those of the attributes together; None where one of them has none."""
    found = tuple(kind.losses for kind in kinds)
    known = tuple(losses for losses in found if losses is not None)
    return SeveralLosses(known, together) if len(known) == len(found) else None


def _composed(parts: Sequence[Guarantee], *, together: bool) -> Guarantee:
    """Of all attributes together, or of the worst single one."""
    first = [part.first_ratio for part in parts]
    memoised = [part.memoised_ratio for part in parts if part.memoised_ratio is not None]
    once = prod(first, start=Fraction(1)) if together else max(first)
    if len(memoised) < len(parts):
        return Guarantee(once)
    inputs = [part.memoised_inputs for part in parts if part.memoised_inputs is not None]
    caps = [part.cap_over_values for part in parts if part.cap_over_values is not None]
    capped = len(caps) == len(parts)
    if together:
        cap = nextafter(fsum(caps), inf) if capped else None
        always = prod(memoised, start=Fraction(1))
        return Guarantee(once, always, sum(inputs) if capped else None, cap)
    cap = max(caps) if capped else None
    return Guarantee(once, max(memoised), max(inputs) if capped else None, cap)


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
