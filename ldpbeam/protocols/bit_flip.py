"""Bit flipping (Microsoft): a report is one randomised bit for each of d among b buckets.

``dbitflip`` asks every report about d of b buckets, ``dbitflip_pm`` asks a device about the same d for life
and repeats its memoised bits as they are, ``binflip`` asks about all b.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

from ldpbeam.arrays import Bytes, Floats, Ints, integers, read_only
from ldpbeam.channels.calibration import sue_round
from ldpbeam.channels.channel import BitChannel
from ldpbeam.channels.exact import product_of
from ldpbeam.channels.rounds import Rounds
from ldpbeam.errors import CollectionError, InvalidPayload, Reason
from ldpbeam.privacy.bit_loss import BitLosses
from ldpbeam.privacy.guarantee import CHANGE_IS_PROVED, Guarantee, MemoisedInputs
from ldpbeam.protocols.bit_vector import BitVectorDevice, RandomisedBits, RandomisedBitsCounter
from ldpbeam.protocols.contract import FrequencyProtocol
from ldpbeam.protocols.device import Memo
from ldpbeam.protocols.estimator import FrequencyEstimator
from ldpbeam.protocols.forgery import Forgery
from ldpbeam.protocols.history_model import PairModel, for_life, stratum_of
from ldpbeam.protocols.law import Event, FrequencyLaw, Kinds, ShownAnswer, bit_answer, evenly_chosen
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.protocols.simulation import FleetAnswers, FleetWords, Simulation, WordPlan, WordSpec, draw_bits
from ldpbeam.randomness import Randomness
from ldpbeam.support import Recurrence, SupportProbabilities

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ldpbeam.estimates import Estimates
    from ldpbeam.protocols.sum_laws import SumLaw

_INDEX_BITS = 32
_FEW = 2048
"""With fewer entries than cells and so many, two increments for each cost less than cells to make and add."""
_LOOKED_AT = 15
"""Buckets whose sampling audits look at, and one more."""
_UNTIL_FULL = 1 << 31
"""Entries counted in cells of 32 bits before these are added to the counts."""


class BucketBits(NamedTuple):
    """A bit-flip response: which buckets were asked about, ascending, and Σ bit_i·2^i over them."""

    indices: tuple[int, ...]
    bits: int

    @property
    def seed(self) -> int:
        return _pack_set(self.indices)


def _pack_set(indices: Sequence[int]) -> int:
    return sum(index << _INDEX_BITS * i for i, index in enumerate(indices))


@dataclass(frozen=True)
class BitFlipDevice(BitVectorDevice[BucketBits]):
    ENCODING = "bit_flip"

    domain_size: int
    d: int
    rounds: Rounds[BitChannel]
    bits: RandomisedBits

    @property
    def everyone(self) -> bool:
        return self.d == self.domain_size

    @cached_property
    def width(self) -> int:
        """Bytes of an entry 2·index + bit."""
        return (2 * self.domain_size - 1).bit_length() + 7 >> 3

    @property
    def inputs(self) -> int:
        """Memoised inputs: one per sampled bucket, and one for all values that were not sampled."""
        return min(self.d + 1, self.domain_size)

    @property
    def payload_bits(self) -> int:
        """b bits when every bucket is asked, else whole bytes for each of d (index, bit) entries."""
        return self.domain_size if self.everyone else 8 * self.width * self.d

    def new_memo(self, randomness: Randomness) -> Memo:
        if not self.rounds.memoised or self.everyone:
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
        if self.everyone:
            return tuple(range(self.domain_size))
        if seed is None:
            raise ValueError("a device with buckets for life needs the memo made by new_memo")
        return tuple(seed >> _INDEX_BITS * i & (1 << _INDEX_BITS) - 1 for i in range(self.d))

    def memo_key(self, indices: tuple[int, ...], value: int) -> int:
        """The value's position among the sampled buckets, or d for all values that were not sampled."""
        return indices.index(value) if value in indices else self.d

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[BucketBits, Memo]:
        """d bits; the words drawn are those of the set, where it is fresh, and one per bit."""
        if not self.rounds.memoised:
            indices = self.sampled_set(None) if self.everyone else self._sample(randomness)
            return BucketBits(indices, self._draw(self.memo_key(indices, value), randomness)), memo
        indices = self.sampled_set(memo.seed)
        key = self.memo_key(indices, value)
        answer, memo = self._memoised(memo, key, self._draw(key, randomness.permanent(key)))
        return BucketBits(indices, answer), memo

    def _draw(self, position: int, randomness: Randomness) -> int:
        # A position of d names no bit: all of them are those of other buckets.
        return self.rounds.first.draw_bits(1 << position & (1 << self.d) - 1, self.d, randomness)

    def definition(self) -> dict[str, Any]:
        return {
            "d": self.d,
            "entry_size": None if self.everyone else self.width,
            **self.rounds.definition(),
        }

    def encode(self, response: BucketBits) -> bytes:
        """Bit v at bit v & 7 of byte v >> 3 when all are asked, else entries 2·index + bit, ascending."""
        if self.everyone:
            return response.bits.to_bytes(self.payload_size, "little")
        return b"".join(
            (index << 1 | response.bits >> i & 1).to_bytes(self.width, "little")
            for i, index in enumerate(response.indices)
        )

    def decode(self, payload: bytes) -> BucketBits:
        if self.everyone:
            return BucketBits(self.sampled_set(None), self._vector(payload))
        self._require_length(payload)
        indices: list[int] = []
        bits = 0
        for i in range(self.d):
            entry = int.from_bytes(payload[i * self.width : (i + 1) * self.width], "little")
            index = entry >> 1
            if index >= self.domain_size:
                raise InvalidPayload(Reason.VALUE_OUT_OF_RANGE, f"buckets end at {self.domain_size - 1}")
            if indices and index <= indices[-1]:
                raise InvalidPayload(Reason.REPEATED_INDEX, "buckets must ascend strictly")
            indices.append(index)
            bits |= (entry & 1) << i
        self._require_ones(bits)
        return BucketBits(tuple(indices), bits)


@dataclass(frozen=True)
class BitFlipCounter(RandomisedBitsCounter):
    """Support C of every bucket, then N, the reports that sampled it; C alone when all do."""

    bits: RandomisedBits
    width: int

    @property
    def counts_length(self) -> int:
        return self.bits.domain_size if self.bits.everyone else 2 * self.bits.domain_size

    def check(self, payloads: Bytes) -> Bytes:
        if self.bits.everyone:
            return super().check(payloads)
        import numpy as np

        from ldpbeam.kernels import bit_flip

        rules = (self.bits.asked_about, self.bits.domain_size, *self.bits.ones)
        codes, entries = np.zeros(len(payloads), np.uint8), self._entries(payloads)
        if bit_flip.find_wrong(entries, *rules, codes):
            bit_flip.check_entries(entries, *rules, codes)
        return codes

    def _entries(self, payloads: Bytes) -> NDArray[Any]:
        """All entries, read-only (n · d,), in the narrowest type that holds them."""
        if self.width != 3:
            return integers(payloads, self.width)
        from ldpbeam.kernels import bit_flip

        return read_only(bit_flip.widen(read_only(payloads).reshape(-1)))

    def add(self, payloads: Bytes, counts: Ints) -> None:
        if self.bits.everyone:
            super().add(payloads, counts)
            return
        import numpy as np

        from ldpbeam.kernels import bit_flip

        cells = 2 * self.bits.domain_size
        entries = self._entries(payloads)
        if entries.size < cells + _FEW:
            bit_flip.add_entries(entries, counts)
            return
        for begin in range(0, entries.size, _UNTIL_FULL):
            part = entries[begin : begin + _UNTIL_FULL]
            bit_flip.add_many_entries(part, np.zeros(cells, np.uint32), counts)

    def support_counts(self, counts: Ints) -> Ints:
        return counts[: self.bits.domain_size]

    def report_counts(self, counts: Ints, reports: int) -> int | Ints:
        return reports if self.bits.everyone else counts[self.bits.domain_size :]

    def seed_cells(self, counts: Ints, signs: Ints) -> tuple[Ints, float] | None:
        if self.bits.everyone:
            return None
        b, d = self.bits.domain_size, self.bits.asked_about
        return counts[b:], (b - d) / (b - 1)

    def steps(self, reports: float) -> float:
        return reports * self.bits.asked_about


class BitFlipEstimator(FrequencyEstimator):
    """A report supports every bucket that it sampled and whose bit is 1."""

    def sum_law(self, weights: Floats, *, lasting: bool = False) -> SumLaw:
        from ldpbeam.protocols.sum_laws import IndependentBits

        own, other = float(self.support.own), float(self.support.other)
        return IndependentBits(weights, own, other, float(self.support.sampled), self.recurrence.apart)

    def consistent(self, method: str, estimates: Estimates) -> Floats:
        """As for every protocol; NaN throughout while some bucket was sampled by nobody."""
        import numpy as np

        if not estimates.n.all():
            return np.full(self.size, np.nan)
        return super().consistent(method, estimates)


@dataclass(frozen=True)
class BitFlipSimulation(Simulation):
    """Words of a set, where one is sampled, and a word for each bit of each device."""

    device: BitFlipDevice

    @cached_property
    def word_plan(self) -> WordPlan:
        """One word per step of the shuffle, where buckets are sampled; one per bit of the one round."""
        d = self.device.d
        bits, seed = WordSpec(d, bits=True), None if self.device.everyone else WordSpec(d)
        if self.device.rounds.memoised:
            return WordPlan(WordSpec(0), bits, seed)
        return WordPlan(bits, None, seed, seed_per_report=seed is not None)

    @property
    def answer_bytes(self) -> int:
        return (self.device.d + 7) // 8

    def privatize(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        """See :class:`Simulation`; memo key: device·min(d+1, b) + position among the sampled buckets."""
        from ldpbeam.kernels import bit_flip

        device, plan = self.device, self.word_plan
        sampling = plan.seed
        sets, positions = None, values
        if sampling is not None:
            sets = bit_flip.sample(words.seed(sampling), device.domain_size)
            positions = bit_flip.locate(sets, values)
        # A position of d names no bit: all of them are those of other buckets.
        keys = devices * device.inputs + positions
        packed = draw_bits(device.rounds, plan, keys, positions, words, memo)
        return packed if sets is None else bit_flip.pack(sets, packed, device.width)


@dataclass(frozen=True)
class BitFlipLaw(FrequencyLaw[BucketBits]):
    """Independent bits of a set that is drawn without the value."""

    domain_size: int
    device: BitFlipDevice

    def likelihood(self, response: BucketBits, value: int) -> Fraction:
        own, other = self.device.rounds.composed
        bit = (1 - other, other), (1 - own, own)
        return product_of(bit[j == value][response.bits >> i & 1] for i, j in enumerate(response.indices))

    def supports(self, response: BucketBits, value: int) -> bool:
        position = self.device.memo_key(response.indices, value)
        return bool(response.bits >> position & 1)

    def responses(self) -> Iterator[BucketBits]:
        d = self.device.d
        return (
            BucketBits(indices, bits)
            for indices in combinations(range(self.domain_size), d)
            for bits in range(1 << d)
        )

    def model(self, pair: tuple[int, int]) -> PairModel:
        (v, w), device = pair, self.device
        b, d = device.domain_size, device.d
        two, one = device.rounds.rows(2), device.rounds.rows(1)
        only, whole = Fraction(d * (b - d), b * (b - 1)), b * (b - 1)
        kinds = (
            stratum_of((1, 2), two, "both sampled", Fraction(d * (d - 1), whole)),
            stratum_of((1, 0), one, "the first sampled", only),
            stratum_of((0, 1), one, "the second sampled", only),
            stratum_of(
                (0, 0), one, "neither sampled", Fraction((b - d) * (b - d - 1), whole), one_input=True
            ),
        )

        def placed(response: BucketBits) -> tuple[int, int]:
            asked = response.indices

            def bit(value: int) -> int:
                return int(response.bits >> asked.index(value) & 1)

            if v in asked:
                return (0, bit(v) | bit(w) << 1) if w in asked else (1, bit(v))
            return (2, bit(w)) if w in asked else (3, response.bits & 1)

        same = Fraction(1, comb(b, d))
        return for_life(PairModel(pair, placed, kinds, lambda response: response.indices, same))

    def best_guess(self, reports: int) -> float:
        from ldpbeam.privacy.guess_laws import binomial, highest, steps

        b, d, (own, other) = self.device.domain_size, self.device.d, self.device.rounds.composed
        t = 1 if self.device.rounds.memoised else reports
        if d == b:
            return highest(binomial(t, own), binomial(t, other), b)
        if t == 1:
            # A sampled bucket whose bit is 1, else one of those not sampled.
            zeros = float(1 - other) ** d
            return ((1 - zeros) * float(own / other) + zeros) / b
        return highest(steps(t, Fraction(d, b), own), steps(t, Fraction(d, b), other), b)

    def guess_is_exact(self, reports: int) -> bool:
        """Unless several sets are sampled: the bits of different buckets are taken as independent then."""
        return reports == 1 or self.device.rounds.memoised or self.device.everyone

    def equal_responses(self, value: Any) -> Kinds:
        if self.device.rounds.memoised:
            return ((1.0, 1.0),)
        b, d = self.device.domain_size, self.device.d
        own, other = (p**2 + (1 - p) ** 2 for p in self.device.rounds.composed)
        equal = Fraction(d, b) * own * other ** (d - 1) + Fraction(b - d, b) * other**d
        return ((1.0, float(equal / comb(b, d))),)

    def drawn(self) -> Iterator[Event]:
        b, d = self.device.domain_size, self.device.d
        for bucket in sorted({i * (b - 1) // _LOOKED_AT for i in range(_LOOKED_AT + 1)} if d < b else ()):
            yield f"bucket {bucket} is sampled", _samples(bucket), Fraction(d, b)

    def shown_answers(self, value: int, most: int) -> Iterator[ShownAnswer]:
        def bit_of(one: int) -> Callable[[BucketBits], int | None]:
            def bit(response: BucketBits) -> int | None:
                asked = response.indices
                return int(response.bits >> asked.index(one) & 1) if one in asked else None

            return bit

        rounds = self.device.rounds
        return (bit_answer(one, value, rounds, bit_of(one)) for one in evenly_chosen(self.domain_size, most))


def _samples(bucket: int) -> Callable[[BucketBits], bool]:
    return lambda response: bucket in response.indices


@dataclass(frozen=True)
class BitFlip(FrequencyProtocol[BucketBits], ABC):
    """Symmetric randomised bits of the one-hot vector, at d sampled places of b.

    The set is sampled without looking at the value, so it costs no privacy, and the estimator divides by
    the reports that really sampled a bucket: neither rests on how evenly sets are drawn.
    """

    domain_size: int
    d: int
    rounds: Rounds[BitChannel]

    def __post_init__(self) -> None:
        """Raises ValueError for two rounds, CollectionError for d outside 1 .. b."""
        if self.rounds.instant is not None and self.rounds.permanent is not None:
            raise ValueError("bits are either drawn for every report or memoised: give one channel")
        if not 1 <= self.d <= self.domain_size:
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"d = {self.d} is not in 1 .. {self.domain_size}, the number of buckets",
                key="d",
                remedy=f"Use d: 1 for the strongest protection of changes, at most d: {self.domain_size}.",
            )

    @property
    def channel(self) -> BitChannel:
        return self.rounds.first

    @property
    def not_hidden(self) -> tuple[str, ...]:
        if not self.rounds.memoised:
            return super().not_hidden
        if self.device.everyone:
            return (CHANGE_IS_PROVED, *super().not_hidden)
        return (
            CHANGE_IS_PROVED,
            f"Devices. The {self.d} buckets that a device sampled stand in every report of its life, one "
            f"set of {comb(self.domain_size, self.d):,}: where sets are not few against devices, they "
            "identify it.",
            *super().not_hidden,
        )

    @cached_property
    def guarantee(self) -> Guarantee:
        """Two values differ in two sampled bits at most, in one when d = 1: the ratio of that many bits.

        The papers set the bits by ε/2 for every d, so at d = 1 a report spends half of the nominal ε.
        What is memoised is an answer per sampled bucket, and one for all values that were not sampled.
        """
        bit = self.channel.own / self.channel.other
        ratio = bit ** min(2, self.d)
        if not self.rounds.memoised:
            return Guarantee(ratio, MemoisedInputs.NONE)
        return Guarantee(ratio, MemoisedInputs.BUCKETS, ratio, self.device.inputs)

    @property
    def losses(self) -> BitLosses | None:
        """All sampled buckets, or the only one and the others.

        Two sampled buckets differ in two bits, a sampled one and those not sampled in one. So where d > 1
        a renaming that takes in the latter, as one more input, loses no more than one that does not.
        """
        return BitLosses(max(2, self.d), self.rounds, min(2, self.d)) if self.rounds.memoised else None

    def resolved_parameters(self) -> dict[str, int | float | str]:
        return {"d": self.d}

    @cached_property
    def _bits(self) -> RandomisedBits:
        """The bit channel, among the d/b of the reports that sampled the bucket."""
        support = SupportProbabilities(*self.rounds.composed, Fraction(self.d, self.domain_size))
        return RandomisedBits(self.domain_size, self.d, support)

    @cached_property
    def device(self) -> BitFlipDevice:
        return BitFlipDevice(self.domain_size, self.d, self.rounds, self._bits)

    @cached_property
    def counter(self) -> BitFlipCounter:
        return BitFlipCounter(self._bits, self.device.width)

    @cached_property
    def estimator(self) -> BitFlipEstimator:
        b, d, support = self.domain_size, self.d, self._bits.support
        return BitFlipEstimator(
            self.counter,
            b,
            support,
            # Who was sampled, and the bits: where they are memoised all of it lasts.
            lasting=support if self.rounds.memoised else None,
            recurrence=self._recurrence(),
            # d of b buckets, drawn without putting any back.
            asked=(Fraction(d, b), Fraction((d - 1) * b, d * (b - 1))),
        )

    def _recurrence(self) -> Recurrence:
        """All values that a device did not sample share one answer."""
        b, d = self.domain_size, self.d
        if not self.rounds.memoised or b < 3:
            return Recurrence()
        bit = self.channel.other * (1 - self.channel.other)
        shared = float(Fraction((b - d) * (b - d - 1), (b - 1) * (b - 2)) * bit)
        return Recurrence(0.0, shared, shared)

    @cached_property
    def simulation(self) -> BitFlipSimulation:
        return BitFlipSimulation(self.device)

    @property
    def forgery(self) -> Forgery:
        return self._bits.forgery

    @cached_property
    def law(self) -> BitFlipLaw:
        return BitFlipLaw(self.domain_size, self.device)


def _buckets(parameters: Parameters) -> int:
    if parameters.d is None:
        raise CollectionError(
            "E-COLLECTION-KEY", "key 'd' is missing", key="d", remedy="Add it, for example d: 1."
        )
    return parameters.d


class DBitFlip(BitFlip):
    """d of b buckets per report, one round: a fresh set and fresh bits each time."""

    ID = 12
    NAME = "dbitflip"
    PARAMETERS = ("epsilon", "d")
    SOURCE = "Microsoft section 2.2"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> DBitFlip:
        return cls(domain_size, _buckets(parameters), Rounds(sue_round(parameters.level("epsilon"))))


class DBitFlipPM(BitFlip):
    """dBitFlip with permanent memoization: d buckets for life, memoised bits sent as they are."""

    ID = 13
    NAME = "dbitflip_pm"
    PARAMETERS = ("epsilon_longitudinal", "d")
    SOURCE = "Microsoft section 3.4, LOLOHA section 2.4.4; variance: ldpbeam docs maths, correction 3"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> DBitFlipPM:
        """Each bit is randomised as SUE's at ε∞, once for life."""
        bits = sue_round(parameters.level("epsilon_longitudinal"))
        return cls(domain_size, _buckets(parameters), Rounds(None, bits))


class BinFlip(BitFlip):
    """dBitFlip that asks about every bucket: the mechanism of Duchi, Jordan and Wainwright, SUE's bits."""

    ID = 14
    NAME = "binflip"
    PARAMETERS = ("epsilon",)
    SOURCE = "Microsoft sections 2.2 (d = k) and 5"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> BinFlip:
        return cls(domain_size, domain_size, Rounds(sue_round(parameters.level("epsilon"))))

    def resolved_parameters(self) -> dict[str, int | float | str]:
        return {}
