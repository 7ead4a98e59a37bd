"""BinFlip+: one bit, whether a public random string may stand for what BinFlip would have sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import exp, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from ldpbeam.arrays import Bytes, Floats, Ints, read_only
from ldpbeam.channels.channel import BitChannel
from ldpbeam.channels.degenerate import CELLS, add_seeds, check_seeded, is_degenerate, ordinary, ordinary_many
from ldpbeam.channels.exact import exp_below
from ldpbeam.errors import InvalidPayload, Reason
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.privacy.guarantee import Guarantee, MemoisedInputs
from ldpbeam.protocols.contract import FrequencyProtocol
from ldpbeam.protocols.counter import Counter
from ldpbeam.protocols.device import Memo, ProtocolDevice
from ldpbeam.protocols.estimator import FrequencyEstimator
from ldpbeam.protocols.forgery import Forgery, widest_variance
from ldpbeam.protocols.history_model import PairModel, single_stratum, stratum_of
from ldpbeam.protocols.law import FrequencyLaw
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.protocols.simulation import FleetAnswers, FleetWords, Simulation, WordPlan, WordSpec
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.protocols.sum_laws import SumLaw

_HALF_WORDS = 1 << 32


class Acceptance(NamedTuple):
    """A BinFlip+ response: the seed of a public string, and whether the device accepts the string."""

    seed: int
    bit: int


@dataclass(frozen=True)
class PublicStringDevice(ProtocolDevice[Acceptance]):
    """A fresh string, and randomised response on its bit at the value."""

    ENCODING = "public_string"

    domain_size: int
    instant: BitChannel
    threshold: int

    @property
    def payload_bits(self) -> int:
        """Two seed words and the bit; the seed is counted, since here the device sends it."""
        return 129

    def string_bit(self, seed: int, value: int) -> bool:
        """y_value of the string with this seed."""
        a, c = seed % FULL, seed >> 64
        return (a * value + c) % FULL >> 32 < self.threshold

    def definition(self) -> dict[str, Any]:
        return {"threshold": self.threshold, "permanent": None, "instant": self.instant.definition()}

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[Acceptance, Memo]:
        a, c = ordinary(randomness.word()), randomness.word()
        seed = a | c << 64
        return Acceptance(seed, int(self.instant.draw(self.string_bit(seed, value), randomness))), memo

    def encode(self, response: Acceptance) -> bytes:
        return response.seed.to_bytes(16, "little") + bytes([response.bit])

    def decode(self, payload: bytes) -> Acceptance:
        self._require_length(payload)
        if payload[16] > 1:
            raise InvalidPayload(Reason.UNUSED_BITS, "the last byte is 0 or 1")
        if is_degenerate(int.from_bytes(payload[:8], "little")):
            raise InvalidPayload(Reason.DEGENERATE, "no device has a string of equal bits by so small a seed")
        return Acceptance(int.from_bytes(payload[:16], "little"), payload[16])


@dataclass(frozen=True)
class PublicStringCounter(Counter):
    """One cell per value; signs are classes of seeds."""

    domain_size: int
    threshold: int

    @property
    def counts_length(self) -> int:
        return self.domain_size

    @property
    def signs_length(self) -> int:
        return CELLS

    def check(self, payloads: Bytes) -> Bytes:
        """The last byte is one bit, and no device has a degenerate multiplier."""
        return check_seeded(payloads, 2, CheckCode.UNUSED_BITS)

    def add(self, payloads: Bytes, counts: Ints) -> None:
        import numpy as np

        from ldpbeam.kernels import bit_flip, hashing

        start, step, width = (np.empty(len(payloads), np.int64) for _ in range(3))
        threshold = np.uint64(self.threshold)
        accepted = bit_flip.read_accepted(read_only(payloads), threshold, start, step, width)
        hashing.add_affine(start[:accepted], step[:accepted], width[:accepted], counts)

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        add_seeds(payloads, signs)

    def seed_cells(self, counts: Ints, signs: Ints) -> tuple[Ints, float]:
        return signs, 1.0

    def steps(self, reports: float) -> float:
        return reports * self.domain_size


@dataclass(frozen=True)
class PublicStringEstimator(FrequencyEstimator):
    """An accepted string supports every value whose bit is 1; a refused one supports none."""

    device: PublicStringDevice = field(kw_only=True)

    def sum_law(self, weights: Floats, *, lasting: bool = False) -> SumLaw:
        import numpy as np

        from ldpbeam.hashing.collisions import SPREAD, class_squares, half_words
        from ldpbeam.protocols.sum_laws import FreshReports

        limit = np.uint64(self.device.threshold)
        tables = ((halves >= limit).astype(np.uint16) for halves in half_words(self.size, 1))
        # E[(the value's bit)·(what the ones weigh)²], (sums, k)
        squares = class_squares(tables, SPREAD, weights, np.array([1.0, 0.0]))
        own, other = float(self.support.own), float(self.support.other)
        one = self.device.threshold / _HALF_WORDS
        accept, refuse = float(self.device.instant.own), float(self.device.instant.other)
        whole, alone = (w.sum(axis=1, keepdims=True) for w in (weights, weights**2))
        mean = other * whole + (own - other) * weights
        # E[X²] − E[X]²
        second = refuse * (one * (1 - one) * alone + (one * whole) ** 2) + (accept - refuse) * squares
        return FreshReports(weights, own, other, second - mean**2)


@dataclass(frozen=True)
class PublicStringSimulation(Simulation):
    """Three words for each report."""

    device: PublicStringDevice

    @property
    def word_plan(self) -> WordPlan:
        """Two words for the string of every report, one for the bit."""
        return WordPlan(WordSpec(1), seed=WordSpec(2), seed_per_report=True)

    def privatize(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        import numpy as np

        from ldpbeam.kernels import bit_flip

        seeds, instant = words.seed(WordSpec(2)), self.device.instant
        a, c = ordinary_many(seeds[:, 0]), np.ascontiguousarray(seeds[:, 1])
        drawn = np.ascontiguousarray(words.instant(WordSpec(1))[:, 0])
        one, zero = np.uint64(instant.one), np.uint64(instant.zero)
        payloads = np.empty((values.size, self.device.payload_size), np.uint8)
        threshold = np.uint64(self.device.threshold)
        bit_flip.draw_verdicts(a, c, values, threshold, drawn, one, zero, payloads)
        return payloads


@dataclass(frozen=True)
class PublicStringLaw(FrequencyLaw[Acceptance]):
    """Randomised response on one bit, given the string."""

    domain_size: int
    device: PublicStringDevice

    def likelihood(self, response: Acceptance, value: int) -> Fraction:
        instant = self.device.instant
        one = instant.own if self.device.string_bit(response.seed, value) else instant.other
        return one if response.bit else 1 - one

    def supports(self, response: Acceptance, value: int) -> bool:
        """An accepted string supports every value whose bit is 1; a refused one supports none."""
        return bool(response.bit) and self.device.string_bit(response.seed, value)

    def model(self, pair: tuple[int, int]) -> PairModel:
        v, w = pair
        share = Fraction(self.device.threshold, _HALF_WORDS)
        rows = self.device.instant.rows(1)
        kinds = []
        for string in range(4):
            bits = string & 1, string >> 1
            chance = Fraction(1)
            for bit in bits:
                chance *= share if bit else 1 - share
            name = f"string {bits[0]}, {bits[1]}"
            kinds.append(stratum_of(bits, (None, rows), name, chance))

        def placed(response: Acceptance) -> tuple[int, int]:
            first, second = (self.device.string_bit(response.seed, value) for value in (v, w))
            return first | second << 1, response.bit

        return single_stratum(PairModel(pair, placed, tuple(kinds)))

    def best_guess(self, reports: int) -> float:
        import numpy as np

        from ldpbeam.privacy.guess_laws import NOTHING, binomial, highest, sum_of

        k, agree = self.domain_size, self.device.instant.own
        one = Fraction(self.device.threshold, _HALF_WORDS)
        accepted = agree * one + (1 - agree) * (1 - one)
        chances = binomial(reports, accepted)
        likely = np.flatnonzero(chances > exp(NOTHING))
        step = max(1, int(sqrt(reports * float(accepted * (1 - accepted))) / 2))
        right = 0.0
        for a in range(int(likely[0]), int(likely[-1]) + 1, step):
            own = sum_of(
                binomial(a, agree * one / accepted),
                binomial(reports - a, agree * (1 - one) / (1 - accepted)),
            )
            other = sum_of(binomial(a, one), binomial(reports - a, 1 - one))
            right += step * float(chances[a]) * highest(own, other, k)
        return right


@dataclass(frozen=True)
class BinFlipPlus(FrequencyProtocol[Acceptance]):
    """Bassily and Smith's generic one-bit protocol applied to BinFlip."""

    ID = 15
    NAME = "binflip_plus"
    PARAMETERS = ("epsilon",)
    SOURCE = "Microsoft section 5; Bassily and Smith (STOC 2015), generic protocol with 1-bit reports"

    domain_size: int
    instant: BitChannel
    threshold: int

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> BinFlipPlus:
        """P1/P0 = e^ε rounded toward privacy; Q = 1/(e^{ε/2}+1) rounded to 32 bits."""
        epsilon = parameters.level("epsilon")
        threshold = round(_HALF_WORDS / (exp_below(epsilon / 2) + 1))
        return cls(domain_size, BitChannel.symmetric(exp_below(epsilon)), threshold)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.instant.own / self.instant.other, MemoisedInputs.NONE)

    @cached_property
    def device(self) -> PublicStringDevice:
        return PublicStringDevice(self.domain_size, self.instant, self.threshold)

    @cached_property
    def counter(self) -> PublicStringCounter:
        return PublicStringCounter(self.domain_size, self.threshold)

    @cached_property
    def estimator(self) -> PublicStringEstimator:
        share = Fraction(self.threshold, _HALF_WORDS)
        accept, refuse = self.instant.own, self.instant.other
        support = SupportProbabilities(share * accept, share * (share * accept + (1 - share) * refuse))
        return PublicStringEstimator(self.counter, self.domain_size, support, device=self.device)

    @cached_property
    def simulation(self) -> PublicStringSimulation:
        return PublicStringSimulation(self.device)

    @property
    def forgery(self) -> Forgery:
        k, support = self.domain_size, self.estimator.support
        return Forgery(
            ends=support, most_supported=k, asked_about=k, supported_variance=widest_variance(k, support)
        )

    @cached_property
    def law(self) -> PublicStringLaw:
        return PublicStringLaw(self.domain_size, self.device)
