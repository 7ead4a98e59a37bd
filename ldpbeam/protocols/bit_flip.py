"""Bit flipping: a report is one randomised bit for each of a few buckets (dBitFlip, BinFlip and variants).

``dbitflip`` asks every report about d of b buckets, ``dbitflip_pm`` asks a device about the same d for life
and repeats its memoised bits as they are, ``binflip`` asks about all b. ``binflip_plus`` sends a single bit:
whether a public random string may stand for what BinFlip would have sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb, prod
from typing import TYPE_CHECKING, NamedTuple

from ldpbeam.channels.calibration import sue_round
from ldpbeam.channels.channel import BitChannel
from ldpbeam.channels.exact import exp_below
from ldpbeam.degenerate import (
    CELLS,
    add_extremes,
    add_seeds,
    extremes,
    is_degenerate,
    ones_admitted,
    ones_variance,
    ordinary,
    ordinary_many,
    refuse_multipliers,
    refuse_ones,
)
from ldpbeam.errors import CollectionError, InvalidPayload, Reason
from ldpbeam.privacy.guarantee import Guarantee
from ldpbeam.privacy.loss import BitLosses
from ldpbeam.protocols.base import (
    FleetMemo,
    FleetWords,
    FrequencyProtocol,
    Memo,
    Parameters,
    WordSpec,
    frozen_columns,
)
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ldpbeam.estimates import Estimates

__all__ = [
    "BinFlip",
    "BinFlipPlus",
    "BitFlip",
    "DBitFlip",
    "DBitFlipPM",
    "Sampled",
    "Verdict",
]

_HALF = 1 << 32


class Sampled(NamedTuple):
    """A bit-flip response: which buckets were asked about, ascending, and Σ bit_i·2^i over them."""

    indices: tuple[int, ...]
    bits: int

    @property
    def seed(self) -> int:
        """The sampled set as one integer: what is drawn without looking at the value."""
        return _pack_set(self.indices)


def _pack_set(indices: Sequence[int]) -> int:
    return sum(index << 32 * i for i, index in enumerate(indices))


@dataclass(frozen=True)
class BitFlip(FrequencyProtocol[Sampled]):
    """Symmetric randomised bits of the one-hot vector, at d sampled places of b.

    The set is sampled without looking at the value, so it costs no privacy, and the estimator divides by
    the reports that really sampled a bucket: neither rests on how evenly sets are drawn.

    Attributes:
        domain_size: b.
        d: buckets that a report speaks about; with d = b nothing is sampled.
        instant: the bits' channel where they are drawn for every report; None where they are memoised.
        permanent: the bits' channel where they are memoised; then they are sent as they are, without a
            second round, and the set is sampled once for life.
    """

    domain_size: int
    d: int
    instant: BitChannel | None
    permanent: BitChannel | None = None

    def __post_init__(self) -> None:
        """Validate.

        Raises:
            ValueError: not exactly one channel.
            CollectionError: d outside 1 .. b.
        """
        if (self.instant is None) == (self.permanent is None):
            raise ValueError("bits are either drawn for every report or memoised: give one channel")
        if not 1 <= self.d <= self.domain_size:
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"d = {self.d} is not in 1 .. {self.domain_size}, the number of buckets",
                remedy=f"Use d: 1 for the strongest protection of changes, at most d: {self.domain_size}.",
            )

    @property
    def channel(self) -> BitChannel:
        """The one round there is."""
        channel = self.permanent or self.instant
        assert channel is not None  # noqa: S101 - validated at construction
        return channel

    @property
    def _everyone(self) -> bool:
        return self.d == self.domain_size

    @cached_property
    def support(self) -> SupportProbabilities:
        """The bit channel, among the d/b of the reports that sampled the bucket."""
        sampled = Fraction(self.d, self.domain_size)
        return SupportProbabilities(self.channel.own, self.channel.other, sampled)

    @property
    def lasting(self) -> SupportProbabilities | None:
        """All of it where bits are memoised: who was sampled, and the bits."""
        return None if self.permanent is None else self.support

    @property
    def not_hidden(self) -> tuple[str, ...]:
        """What is memoised is sent as it is, with the set that it is about."""
        if self.permanent is None:
            return super().not_hidden
        changes = "Changes. Two different reports of a device prove that its value changed."
        if self._everyone:
            return (changes, *super().not_hidden)
        return (
            changes,
            f"Devices. The {self.d} buckets that a device sampled stand in every report of its life, one "
            f"set of {comb(self.domain_size, self.d):,}: where sets are not few against devices, they "
            "identify it.",
            *super().not_hidden,
        )

    @property
    def guarantee(self) -> Guarantee:
        """Two values differ in two sampled bits at most, in one when d = 1: the ratio of that many bits.

        The papers set the bits by ε/2 for every d, so at d = 1 a report spends half of the nominal ε.
        What is memoised is an answer per sampled bucket, and one for all values that were not sampled.
        """
        bit = self.channel.own / self.channel.other
        ratio = bit ** min(2, self.d)
        if self.permanent is None:
            return Guarantee(ratio)
        return Guarantee(ratio, ratio, self._inputs)

    @property
    def losses(self) -> BitLosses | None:
        """All sampled buckets, or the only one and the others.

        Two sampled buckets differ in two bits, a sampled one and those not sampled in one. So where d > 1
        a renaming that takes in the latter, as one more input, loses no more than one that does not.
        """
        if self.permanent is None:
            return None
        return BitLosses(max(2, self.d), self.permanent, None, min(2, self.d))

    @property
    def _inputs(self) -> int:
        return min(self.d + 1, self.domain_size)

    @property
    def _width(self) -> int:
        """Bytes of 2·index + bit."""
        return (2 * self.domain_size - 1).bit_length() + 7 >> 3

    @property
    def payload_bits(self) -> int:
        """b bits when every bucket is asked, else whole bytes for each of d (index, bit) entries."""
        return self.domain_size if self._everyone else 8 * self._width * self.d

    def facts(self) -> dict[str, int | float | str]:
        """The resolved d."""
        return {"d": self.d}

    # Device

    def new_memo(self, randomness: Randomness) -> Memo:
        """A device that memoises samples its buckets once."""
        if self.permanent is None or self._everyone:
            return Memo()
        return Memo(_pack_set(self._sample(randomness)))

    def _sample(self, randomness: Randomness) -> tuple[int, ...]:
        """d steps of a Fisher–Yates shuffle; the deck is kept as its differences from 0 .. b − 1."""
        moved: dict[int, int] = {}
        drawn = []
        for i in range(self.d):
            j = i + (randomness.word() * (self.domain_size - i) >> 64)
            drawn.append(moved.get(j, j))
            moved[j] = moved.get(i, i)
        return tuple(sorted(drawn))

    def sampled_set(self, seed: int | None) -> tuple[int, ...]:
        """The buckets behind a memo's seed; all of them where nothing is sampled."""
        if self._everyone:
            return tuple(range(self.domain_size))
        if seed is None:
            raise ValueError(f"{self.NAME} needs the memo made by new_memo")
        return tuple(seed >> 32 * i & _HALF - 1 for i in range(self.d))

    def memo_key(self, indices: tuple[int, ...], value: int) -> int:
        """The value's position among the sampled buckets, or d for all values that were not sampled."""
        return indices.index(value) if value in indices else self.d

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[Sampled, Memo]:
        """d bits; the words drawn are those of the set, where it is fresh, and one per bit."""
        if self.permanent is None:
            indices = self.sampled_set(None) if self._everyone else self._sample(randomness)
            return Sampled(indices, self._draw(self.memo_key(indices, value), randomness)), memo
        indices = self.sampled_set(memo.seed)
        key = self.memo_key(indices, value)
        answer, memo = self._memoised(memo, key, self._draw(key, randomness))
        return Sampled(indices, answer), memo

    def _draw(self, position: int, randomness: Randomness) -> int:
        return sum(self.channel.draw(i == position, randomness) << i for i in range(self.d))

    def encode(self, response: Sampled) -> bytes:
        """Bit v at bit v & 7 of byte v >> 3 when all are asked, else entries 2·index + bit, ascending."""
        if self._everyone:
            return response.bits.to_bytes(self.payload_size, "little")
        return b"".join(
            (index << 1 | response.bits >> i & 1).to_bytes(self._width, "little")
            for i, index in enumerate(response.indices)
        )

    def decode(self, payload: bytes) -> Sampled:
        """The buckets and bits in the payload."""
        self._require_length(payload)
        if self._everyone:
            bits = int.from_bytes(payload, "little")
            if bits >> self.domain_size:
                raise InvalidPayload(Reason.UNUSED_BITS, f"bits end at {self.domain_size - 1}")
            self._require_ones(bits)
            return Sampled(self.sampled_set(None), bits)
        indices: list[int] = []
        bits = 0
        for i in range(self.d):
            entry = int.from_bytes(payload[i * self._width : (i + 1) * self._width], "little")
            index = entry >> 1
            if index >= self.domain_size:
                raise InvalidPayload(Reason.VALUE_OUT_OF_RANGE, f"buckets end at {self.domain_size - 1}")
            if indices and index <= indices[-1]:
                raise InvalidPayload(Reason.REPEATED_INDEX, "buckets must ascend strictly")
            indices.append(index)
            bits |= (entry & 1) << i
        self._require_ones(bits)
        return Sampled(tuple(indices), bits)

    @cached_property
    def ones_admitted(self) -> tuple[int, int]:
        """The least and the largest number of ones that devices send, see :mod:`ldpbeam.degenerate`."""
        return ones_admitted(self.d, self.support.own, self.support.other, always=self._everyone)

    def _require_ones(self, bits: int) -> None:
        least, most = self.ones_admitted
        if not least <= bits.bit_count() <= most:
            raise InvalidPayload(Reason.DEGENERATE, f"reports have {least} to {most} ones")

    def likelihood(self, response: Sampled, value: int) -> Fraction:
        """Product over the sampled bits, given the sampled set."""

        def bit(i: int, index: int) -> Fraction:
            one = self.channel.own if index == value else self.channel.other
            return one if response.bits >> i & 1 else 1 - one

        return prod((bit(i, j) for i, j in enumerate(response.indices)), start=Fraction(1))

    def supports(self, response: Sampled, value: int) -> bool:
        """A report supports every bucket that it sampled and whose bit is 1."""
        position = self.memo_key(response.indices, value)
        return bool(response.bits >> position & 1)

    def responses(self) -> Iterator[Sampled]:
        """Every set with every bit vector."""
        return (
            Sampled(indices, bits)
            for indices in combinations(range(self.domain_size), self.d)
            for bits in range(1 << self.d)
        )

    # Server

    @property
    def counts_length(self) -> int:
        """Support C of every bucket, then N, the reports that sampled it; C alone when all do."""
        return self.domain_size if self._everyone else 2 * self.domain_size

    def check(self, payloads: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Bits beyond b, buckets beyond b, buckets that do not ascend."""
        import numpy as np

        from ldpbeam.kernels import bit_flip, bits

        codes = np.empty(len(payloads), np.uint8)
        if self._everyone:
            used = self.domain_size % 8
            mask = np.uint8(256 - (1 << used)) if used else np.uint8(0)
            bits.check_unused(frozen_columns(payloads), mask, codes)
            refuse_ones(payloads, self.d, self.ones_admitted, codes)
        else:
            limit = np.uint64(self.domain_size)
            bit_flip.check_entries(frozen_columns(payloads), self._width, limit, codes)
            # The lowest bit of an entry is the answer.
            answers = np.packbits(payloads[:, :: self._width] & np.uint8(1), axis=1)
            refuse_ones(answers, self.d, self.ones_admitted, codes)
        return codes

    @property
    def most_supported(self) -> int:
        """As many ones as are admitted, among the d buckets."""
        return self.ones_admitted[1]

    @property
    def supported_variance(self) -> float:
        """Of the ones of a report: its value's bucket is among the d with probability d/b."""
        own, other, asked = float(self.support.own), float(self.support.other), float(self.support.sampled)
        with_own = ones_variance(self.d, self.support)
        without = self.d * other * (1 - other)
        return asked * with_own + (1 - asked) * without + asked * (1 - asked) * (own - other) ** 2

    @property
    def signs_length(self) -> int:
        """Reports with very many ones, and with very few, where every bucket is asked."""
        return 2 if self._everyone else 0

    def add_signs(self, payloads: NDArray[np.uint8], signs: NDArray[np.int64]) -> None:
        """One count of ones per report."""
        if self._everyone:
            add_extremes(payloads, self.d, self.support, signs)

    @property
    def extremes(self) -> tuple[float, float] | None:
        """What one report is counted in the cells of ``signs`` with."""
        return extremes(self.d, self.support)[1] if self._everyone else None

    def seed_cells(
        self, counts: NDArray[np.int64], signs: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], float] | None:
        """N: each bucket is equally likely, but a report samples d different ones.

        Var N_j = n (d/b)(1 − d/b), which in place of the expected n d/b of a multinomial with b cells, whose
        variance is n d/b·(1 − 1/b), gives the factor (b − d)/(b − 1).
        """
        if self._everyone:
            return None
        b, d = self.domain_size, self.d
        return counts[b:], (b - d) / (b - 1)

    def add_support(self, payloads: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        """A column sum of bits, or two increments per entry."""
        import numpy as np

        from ldpbeam.kernels import bit_flip, bits

        if self._everyone:
            planes = np.empty((8, self.payload_size), np.uint8)
            bits.add_rows(frozen_columns(payloads), planes, counts)
        else:
            supported, sampled = counts[: self.domain_size], counts[self.domain_size :]
            bit_flip.add_entries(frozen_columns(payloads), self._width, supported, sampled)

    def support_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """C."""
        return counts[: self.domain_size]

    def report_counts(self, counts: NDArray[np.int64], reports: int) -> int | NDArray[np.int64]:
        """N, or all reports when each speaks about every bucket."""
        return reports if self._everyone else counts[self.domain_size :]

    def consistent(self, method: str, estimates: Estimates) -> NDArray[np.float64]:
        """As for every protocol; NaN throughout while some bucket was sampled by nobody.

        No method can tell how much of the whole that bucket holds, and a histogram that sums to 1 without
        it would be wrong everywhere.
        """
        import numpy as np

        if not estimates.n.all():
            return np.full(self.domain_size, np.nan)
        return super().consistent(method, estimates)

    # Simulation

    @property
    def seed_words(self) -> WordSpec | None:
        """One word per step of the shuffle; None where nothing is sampled."""
        return None if self._everyone else WordSpec(self.d)

    @property
    def seed_per_report(self) -> bool:
        """One-round protocols sample for every report."""
        return self.permanent is None and not self._everyone

    @property
    def permanent_words(self) -> WordSpec | None:
        """One word per bit."""
        return None if self.permanent is None else WordSpec(self.d)

    @property
    def instant_words(self) -> WordSpec:
        """One word per bit; none where memoised bits are sent."""
        return WordSpec(0 if self.instant is None else self.d)

    @property
    def answer_bytes(self) -> int | None:
        """A packed bit vector."""
        return (self.d + 7) // 8

    def privatize_fleet(
        self,
        devices: NDArray[np.int64],
        values: NDArray[np.int64],
        words: FleetWords,
        memo: FleetMemo,
    ) -> NDArray[np.uint8]:
        """See the contract; the memo key is device·min(d+1, b) + position among the sampled buckets."""
        import numpy as np

        from ldpbeam.kernels import bit_flip, bits

        sets, positions, sampling = None, values, self.seed_words
        if sampling is not None:
            sets = np.empty((values.size, self.d), np.int64)
            deck, swapped = np.arange(self.domain_size), np.empty(self.d, np.int64)
            bit_flip.sample(words.seed(sampling), deck, swapped, sets)
            positions = np.empty(values.size, np.int64)
            bit_flip.locate(sets, values, positions)
        one, zero = np.uint64(self.channel.one), np.uint64(self.channel.zero)

        def draw(rows: NDArray[np.int64], drawn: NDArray[np.uint64]) -> NDArray[np.uint8]:
            out = np.zeros((rows.size, (self.d + 7) // 8), np.uint8)
            # A position of d names no bit: all of them are those of other buckets.
            bits.draw_one_hot(positions[rows], drawn, one, zero, out)
            return out

        once = self.permanent_words
        if once is None:
            packed = draw(np.arange(values.size), words.instant(self.instant_words))
        else:
            keys = devices * self._inputs + positions
            packed = memo.recall(keys, lambda rows: draw(rows, words.permanent(once)[rows]))
        if sets is None:
            return packed
        payloads = np.empty((values.size, self.payload_size), np.uint8)
        bit_flip.pack(sets, packed, self._width, payloads)
        return payloads


def _buckets(parameters: Parameters) -> int:
    if parameters.d is None:
        raise CollectionError(
            "E-COLLECTION-MISSING", "key 'd' is missing", remedy="Add it, for example d: 1."
        )
    return parameters.d


class DBitFlip(BitFlip):
    """d of b buckets per report, one round: a fresh set and fresh bits each time."""

    ID = 12
    NAME = "dbitflip"
    PARAMETERS = ("epsilon", "d")
    SOURCE = "`004` section 2.2"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> DBitFlip:
        """SUE's bits at ε."""
        return cls(domain_size, _buckets(parameters), sue_round(parameters.level("epsilon")))


class DBitFlipPM(BitFlip):
    """dBitFlip with permanent memoization: d buckets for life, memoised bits sent as they are.

    No second round: whoever sees two different reports of a device knows that its value changed.
    """

    ID = 13
    NAME = "dbitflip_pm"
    PARAMETERS = ("epsilon_longitudinal", "d")
    SOURCE = "`004` section 3.4, `000` section 2.4.4; variance: MATHS correction 3"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> DBitFlipPM:
        """SUE's bits at ε∞."""
        bits = sue_round(parameters.level("epsilon_longitudinal"))
        return cls(domain_size, _buckets(parameters), None, bits)


class BinFlip(BitFlip):
    """dBitFlip that asks about every bucket: the mechanism of Duchi, Jordan and Wainwright, SUE's bits."""

    ID = 14
    NAME = "binflip"
    PARAMETERS = ("epsilon",)
    SOURCE = "`004` sections 2.2 (d = k) and 5"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> BinFlip:
        """SUE's bits at ε, d = b."""
        return cls(domain_size, domain_size, sue_round(parameters.level("epsilon")))

    def facts(self) -> dict[str, int | float | str]:
        """Nothing to resolve: d is the number of buckets."""
        return {}


class Verdict(NamedTuple):
    """A BinFlip+ response: the seed of a public string, and whether the device accepts the string."""

    seed: int
    bit: int


@dataclass(frozen=True)
class BinFlipPlus(FrequencyProtocol[Verdict]):
    """Bassily and Smith's generic one-bit protocol applied to BinFlip.

    A public string y has independent bits, 1 with probability Q ≈ q = 1/(e^{ε/2}+1): what BinFlip sends
    about a value that nobody holds. The generic protocol accepts y, with one bit, with probability
    ½·P(y | v)/P(y | nobody) = ½·e^{±ε/2} as y_v is 1 or 0. That exceeds 1 from ε = 2 ln 2 on, and what the
    *refusal* tells exceeds ε at every ε. Here the two probabilities are P1 = e^ε/(e^ε+1) and P0 = 1 − P1: the
    ratio of the acceptances is kept at e^ε, the refusals get the same one, and the two agree with ½·e^{±ε/2}
    to first order in ε. It is randomised response on y_v, so a report spends exactly ε at every ε.

    Strings come from a 128-bit affine hash (:class:`ldpbeam.hashing.AffineFamily`): pairwise independent
    bits, which is all that the estimator and its variance need. Privacy needs nothing of them.

    Attributes:
        domain_size: b.
        instant: randomised response on the string's bit.
        threshold: T; bit v is 1 where the upper half-word of a·v + c lies below T, so Q = T/2**32 exactly.
    """

    ID = 15
    NAME = "binflip_plus"
    PARAMETERS = ("epsilon",)
    SOURCE = "`004` section 5; Bassily and Smith (STOC 2015), generic protocol with 1-bit reports"

    domain_size: int
    instant: BitChannel
    threshold: int

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> BinFlipPlus:
        """P1/P0 = e^ε rounded toward privacy; Q = 1/(e^{ε/2}+1) rounded to 32 bits."""
        epsilon = parameters.level("epsilon")
        threshold = round(_HALF / (exp_below(epsilon / 2) + 1))
        return cls(domain_size, BitChannel.symmetric(exp_below(epsilon)), threshold)

    @cached_property
    def support(self) -> SupportProbabilities:
        """own = Q·P1, other = Q·(Q·P1 + (1 − Q)·P0)."""
        share = Fraction(self.threshold, _HALF)
        accept, refuse = self.instant.own, self.instant.other
        return SupportProbabilities(share * accept, share * (share * accept + (1 - share) * refuse))

    @property
    def guarantee(self) -> Guarantee:
        """Randomised response on one bit."""
        return Guarantee(self.instant.own / self.instant.other)

    @property
    def payload_bits(self) -> int:
        """Two seed words and the bit; the seed is counted, since here the device sends it."""
        return 129

    def string_bit(self, seed: int, value: int) -> bool:
        """y_value of the string with this seed."""
        a, c = seed % FULL, seed >> 64
        return (a * value + c) % FULL >> 32 < self.threshold

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[Verdict, Memo]:
        """A fresh string and one bit about it."""
        a, c = ordinary(randomness.word()), randomness.word()
        seed = a | c << 64
        return Verdict(seed, int(self.instant.draw(self.string_bit(seed, value), randomness))), memo

    def encode(self, response: Verdict) -> bytes:
        """a, c (8 bytes each, little-endian), the bit."""
        return response.seed.to_bytes(16, "little") + bytes([response.bit])

    def decode(self, payload: bytes) -> Verdict:
        """Seed and bit."""
        self._require_length(payload)
        if payload[16] > 1:
            raise InvalidPayload(Reason.UNUSED_BITS, "the last byte is 0 or 1")
        if is_degenerate(int.from_bytes(payload[:8], "little")):
            raise InvalidPayload(Reason.DEGENERATE, "no device has a string of equal bits by so small a seed")
        return Verdict(int.from_bytes(payload[:16], "little"), payload[16])

    def likelihood(self, response: Verdict, value: int) -> Fraction:
        """P(bit | value, seed)."""
        one = self.instant.own if self.string_bit(response.seed, value) else self.instant.other
        return one if response.bit else 1 - one

    def supports(self, response: Verdict, value: int) -> bool:
        """An accepted string supports every value whose bit is 1; a refused one supports none."""
        return bool(response.bit) and self.string_bit(response.seed, value)

    @property
    def counts_length(self) -> int:
        """b."""
        return self.domain_size

    def check(self, payloads: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The last byte is one bit, and no device has a degenerate multiplier."""
        import numpy as np

        codes = np.where(payloads[:, 16] > 1, np.uint8(2), np.uint8(0))
        refuse_multipliers(payloads, codes)
        return codes

    @property
    def signs_length(self) -> int:
        """Classes of seeds."""
        return CELLS

    def add_signs(self, payloads: NDArray[np.uint8], signs: NDArray[np.int64]) -> None:
        """One increment per report, whether it accepts its string or not."""
        add_seeds(payloads, signs)

    def seed_cells(
        self, counts: NDArray[np.int64], signs: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], float]:
        """Classes of seeds."""
        return signs, 1.0

    def add_support(self, payloads: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        """One compare per (accepted report, value)."""
        import numpy as np

        from ldpbeam.kernels import bit_flip, hashing

        start, step, width = (np.empty(len(payloads), np.int64) for _ in range(3))
        threshold = np.uint64(self.threshold)
        accepted = bit_flip.read_accepted(frozen_columns(payloads), threshold, start, step, width)
        hashing.add_affine(start[:accepted], step[:accepted], width[:accepted], counts)

    @property
    def seed_words(self) -> WordSpec | None:
        """a and c."""
        return WordSpec(2)

    @property
    def seed_per_report(self) -> bool:
        """A fresh string for every report."""
        return True

    @property
    def instant_words(self) -> WordSpec:
        """One word."""
        return WordSpec(1)

    def privatize_fleet(
        self,
        devices: NDArray[np.int64],
        values: NDArray[np.int64],
        words: FleetWords,
        memo: FleetMemo,
    ) -> NDArray[np.uint8]:
        """See the contract."""
        import numpy as np

        from ldpbeam.kernels import bit_flip

        seeds = words.seed(WordSpec(2))
        a, c = ordinary_many(seeds[:, 0]), np.ascontiguousarray(seeds[:, 1])
        drawn = np.ascontiguousarray(words.instant(self.instant_words)[:, 0])
        one, zero = np.uint64(self.instant.one), np.uint64(self.instant.zero)
        payloads = np.empty((values.size, self.payload_size), np.uint8)
        threshold = np.uint64(self.threshold)
        bit_flip.draw_verdicts(a, c, values, threshold, drawn, one, zero, payloads)
        return payloads
