"""BinFlip+: one bit, whether a public random string may stand for what BinFlip would have sent."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ldpbeam.arrays import Bytes, Floats, Ints, read_only
from ldpbeam.channels.channel import BitChannel
from ldpbeam.channels.degenerate import CELLS, add_seeds, check_seeded, is_degenerate, ordinary, ordinary_many
from ldpbeam.channels.exact import exp_below
from ldpbeam.errors import InvalidPayload, Reason
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.privacy.guarantee import Guarantee, Inputs
from ldpbeam.protocols.contract import FleetAnswers, FleetWords, Memo, WordPlan, WordSpec
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.protocols.results import FrequencyProtocol
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.protocols.sum_laws import SumLaw

_HALF_WORDS = 1 << 32


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
    SOURCE = "Microsoft section 5; Bassily and Smith (STOC 2015), generic protocol with 1-bit reports"

    ENCODING = "public_string"

    domain_size: int
    instant: BitChannel
    threshold: int

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> BinFlipPlus:
        """P1/P0 = e^ε rounded toward privacy; Q = 1/(e^{ε/2}+1) rounded to 32 bits."""
        epsilon = parameters.level("epsilon")
        threshold = round(_HALF_WORDS / (exp_below(epsilon / 2) + 1))
        return cls(domain_size, BitChannel.symmetric(exp_below(epsilon)), threshold)

    @cached_property
    def support(self) -> SupportProbabilities:
        """own = Q·P1, other = Q·(Q·P1 + (1 − Q)·P0)."""
        share = Fraction(self.threshold, _HALF_WORDS)
        accept, refuse = self.instant.own, self.instant.other
        return SupportProbabilities(share * accept, share * (share * accept + (1 - share) * refuse))

    def sum_law(self, weights: Floats, *, lasting: bool = False) -> SumLaw:
        """Three bits of a string are not independent: the mean over the spread functions of the hash."""
        import numpy as np

        from ldpbeam.hashing.collisions import SPREAD, class_squares, half_words
        from ldpbeam.protocols.sum_laws import PublicStrings

        limit = np.uint64(self.threshold)
        tables = ((halves >= limit).astype(np.uint16) for halves in half_words(self.domain_size, 1))
        squares = class_squares(tables, SPREAD, weights, np.array([1.0, 0.0]))
        own, other = float(self.support.own), float(self.support.other)
        one = self.threshold / _HALF_WORDS
        accept, refuse = float(self.instant.own), float(self.instant.other)
        return PublicStrings(weights, own, other, one, accept, refuse, squares)

    @property
    def guarantee(self) -> Guarantee:
        """Randomised response on one bit."""
        return Guarantee(self.instant.own / self.instant.other, Inputs.NONE)

    @property
    def payload_bits(self) -> int:
        """Two seed words and the bit; the seed is counted, since here the device sends it."""
        return 129

    def string_bit(self, seed: int, value: int) -> bool:
        """y_value of the string with this seed."""
        a, c = seed % FULL, seed >> 64
        return (a * value + c) % FULL >> 32 < self.threshold

    def device_definition(self) -> dict[str, Any]:
        """T and the round."""
        return {"threshold": self.threshold, "permanent": None, "instant": self.instant.definition()}

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[Verdict, Memo]:
        """A fresh string and one bit about it."""
        a, c = ordinary(randomness.word()), randomness.word()
        seed = a | c << 64
        return Verdict(seed, int(self.instant.draw(self.string_bit(seed, value), randomness))), memo

    def encode(self, response: Verdict) -> bytes:
        """a, c (8 bytes each, little-endian), the bit."""
        return response.seed.to_bytes(16, "little") + bytes([response.bit])

    def decode(self, payload: bytes) -> Verdict:
        """The seed of the string and the bit about it."""
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

    def check(self, payloads: Bytes) -> Bytes:
        """The last byte is one bit, and no device has a degenerate multiplier."""
        return check_seeded(payloads, 2, CheckCode.UNUSED_BITS)

    @property
    def signs_length(self) -> int:
        """Classes of seeds."""
        return CELLS

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        """One increment per report, whether it accepts its string or not."""
        add_seeds(payloads, signs)

    def seed_cells(self, counts: Ints, signs: Ints) -> tuple[Ints, float]:
        """Classes of seeds."""
        return signs, 1.0

    def add_support(self, payloads: Bytes, counts: Ints) -> None:
        """One compare per (accepted report, value)."""
        import numpy as np

        from ldpbeam.kernels import bit_flip, hashing

        start, step, width = (np.empty(len(payloads), np.int64) for _ in range(3))
        threshold = np.uint64(self.threshold)
        accepted = bit_flip.read_accepted(read_only(payloads), threshold, start, step, width)
        hashing.add_affine(start[:accepted], step[:accepted], width[:accepted], counts)

    @property
    def word_plan(self) -> WordPlan:
        """Two words for the string of every report, one for the bit."""
        return WordPlan(WordSpec(1), seed=WordSpec(2), seed_per_report=True)

    def privatize_fleet(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        """See the contract."""
        import numpy as np

        from ldpbeam.kernels import bit_flip

        seeds = words.seed(WordSpec(2))
        a, c = ordinary_many(seeds[:, 0]), np.ascontiguousarray(seeds[:, 1])
        drawn = np.ascontiguousarray(words.instant(WordSpec(1))[:, 0])
        one, zero = np.uint64(self.instant.one), np.uint64(self.instant.zero)
        payloads = np.empty((values.size, self.payload_size), np.uint8)
        threshold = np.uint64(self.threshold)
        bit_flip.draw_verdicts(a, c, values, threshold, drawn, one, zero, payloads)
        return payloads
