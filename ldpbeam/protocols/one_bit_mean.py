"""Means of a counter 0..m, in its units, from one bit per report (Microsoft).

The result of an epoch has one row. ``one_bit_mean`` draws a fresh bit for every report; ``one_bit_rrpm``
rounds the value to few points, memoises one bit per point and may flip it once more for every report.

The bit of a value x is 1 with weight zero + x·step over 2**64, with one integer step for all x. So the
probability is exactly linear, and the estimator m·(ones/n − other)/(own − other) exactly unbiased, where own
and other are the probabilities of a 1 at x = m and at x = 0. Rounding only ever brings the two ends closer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ldpbeam.arrays import Bytes, Floats, Ints, Uints, read_only, unused_bits
from ldpbeam.channels.channel import BitChannel
from ldpbeam.channels.exact import exp_below
from ldpbeam.errors import CollectionError, InvalidPayload, Reason
from ldpbeam.privacy.guarantee import CHANGE_IS_PROVED, Guarantee, MemoisedInputs
from ldpbeam.privacy.point_loss import POINT_REPORTS, PointLosses
from ldpbeam.protocols.contract import MeanProtocol
from ldpbeam.protocols.counter import Counter
from ldpbeam.protocols.device import Memo, ProtocolDevice
from ldpbeam.protocols.estimator import EVERYONE, MeanEstimator
from ldpbeam.protocols.forgery import Forgery
from ldpbeam.protocols.history_model import PairModel, stratum_of
from ldpbeam.protocols.law import Law
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.protocols.simulation import (
    FleetAnswers,
    FleetWords,
    FreshSimulation,
    Simulation,
    WordPlan,
    WordSpec,
)
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.estimates import Estimates

_OWN_COINS = Fraction(1, FULL)
"""Share of the population behind the reports with which ``ldpbeam.estimates`` takes each bit as a coin."""


@dataclass(frozen=True)
class LinearBit:
    """A bit that is 1 with probability (zero + x·step)/2**64, for x in 0 .. ``maximum``, which is m."""

    maximum: int
    step: int

    def __post_init__(self) -> None:
        """Raises ValueError for a step that is not positive, odd in total, or beyond probability 1."""
        if not 0 < self.maximum * self.step < FULL or self.maximum * self.step % 2:
            raise ValueError(f"steps must add up to an even number below 2**64, not {self.step} each")

    @classmethod
    def from_epsilon(cls, maximum: int, epsilon: float) -> LinearBit:
        """The largest step with which the ends' ratio stays at or below e**epsilon."""
        ends = BitChannel.symmetric(exp_below(epsilon))
        step = (ends.one - ends.zero) // maximum
        if maximum * step % 2:
            step -= 1
        return cls(maximum, step)

    @property
    def zero(self) -> int:
        """Weight of a 1 at x = 0; that of a 0 at x = m."""
        return (FULL - self.maximum * self.step) // 2

    @property
    def one(self) -> int:
        """Weight of a 1 at x = m."""
        return FULL - self.zero

    @property
    def ratio(self) -> Fraction:
        """Worst likelihood ratio of the bit: that of the two ends, for either bit."""
        return Fraction(self.one, self.zero)

    def weight(self, value: int) -> int:
        """Weight of a 1 at x = value."""
        return self.zero + value * self.step

    def definition(self) -> dict[str, str]:
        return {"zero": str(self.zero), "step": str(self.step)}

    def draw(self, value: int, randomness: Randomness) -> int:
        """One bit; always one word."""
        return int(randomness.word() < self.weight(value))

    def draw_many(self, values: Ints, words: Uints) -> Ints:
        """:meth:`draw` for arrays: values int64 (n,), words uint64 (n,). No product reaches 2**64."""
        import numpy as np

        weights = np.uint64(self.zero) + values.astype(np.uint64) * np.uint64(self.step)
        return (words < weights).astype(np.int64)


class OneBitDevice(ProtocolDevice[int], ABC):
    """A response is one bit; ``bit`` of a value in 0 .. m, where m is ``domain_size`` − 1."""

    domain_size: int
    bit: LinearBit

    @property
    def payload_bits(self) -> int:
        return 1

    def encode(self, response: int) -> bytes:
        return response.to_bytes(1, "little")

    def decode(self, payload: bytes) -> int:
        self._require_length(payload)
        if payload[0] > 1:
            raise InvalidPayload(Reason.UNUSED_BITS, "a report is one bit")
        return payload[0]


@dataclass(frozen=True)
class FreshBitDevice(OneBitDevice):
    ENCODING = "one_bit_mean"

    domain_size: int
    bit: LinearBit

    def definition(self) -> dict[str, Any]:
        return {"permanent": None, "instant": self.bit.definition()}

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[int, Memo]:
        return self.bit.draw(value, randomness), memo


@dataclass(frozen=True)
class PointBitDevice(OneBitDevice):
    """A memoised bit for each point that values are rounded to, flipped with a small chance in a report."""

    ENCODING = "one_bit_rrpm"

    domain_size: int
    bit: LinearBit
    segment: int
    instant: BitChannel | None

    def point(self, value: int, alpha: int) -> int:
        """Number of the point that a value is rounded to: the memoised input."""
        number, above = divmod(value, self.segment)
        return number + (above + alpha >= self.segment)

    def definition(self) -> dict[str, Any]:
        flip = None if self.instant is None else self.instant.definition()
        return {"segment": self.segment, "permanent": self.bit.definition(), "instant": flip}

    def new_memo(self, randomness: Randomness) -> Memo:
        return Memo(seed=randomness.word(self.segment))

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[int, Memo]:
        """The point's bit, drawn once; flipped with probability γ. Raises ValueError for a memo without α."""
        if memo.seed is None:
            raise ValueError("the memo of a device that rounds to points holds α: make it with new_memo")
        key = self.point(value, memo.seed)
        drawn = self.bit.draw(key * self.segment, randomness.permanent(key))
        answer, memo = self._memoised(memo, key, drawn)
        if self.instant is None:
            return answer, memo
        return int(self.instant.draw(bool(answer), randomness)), memo


@dataclass(frozen=True)
class OneBitCounter(Counter):
    """Counts, in its only cell, the reports whose bit is 1."""

    @property
    def counts_length(self) -> int:
        return 1

    def check(self, payloads: Bytes) -> Bytes:
        from ldpbeam.kernels import bits

        return bits.check_unused(read_only(payloads), unused_bits(1))

    def add(self, payloads: Bytes, counts: Ints) -> None:
        import numpy as np

        counts[0] += np.count_nonzero(payloads)

    def steps(self, reports: float) -> float:
        return reports


@dataclass(frozen=True)
class OneBitEstimator(MeanEstimator):
    """A mean by the share of ones."""

    maximum: int
    ends: SupportProbabilities
    lasting_ends: SupportProbabilities | None = None

    def estimate(
        self, counts: Ints, reports: int, ties: Floats | None = None, share: Fraction = EVERYONE
    ) -> Estimates:
        """m times the share of m in a population that holds only 0 and m: the same estimator, by
        linearity."""
        from ldpbeam.estimates import estimate

        return estimate(counts, reports, self.ends, ties).scaled(self.maximum)

    def even_variance(self, share: float) -> float:
        return (self.maximum / (2 * float(self.ends.gap))) ** 2


@dataclass(frozen=True)
class PointBitSimulation(Simulation):
    """Words of α, of a point, and of a flip."""

    device: PointBitDevice

    @property
    def word_plan(self) -> WordPlan:
        """One word for α, one per point, and one per report where bits are flipped."""
        flips = self.device.instant is not None
        return WordPlan(WordSpec(int(flips)), WordSpec(1), WordSpec(1, self.device.segment))

    def privatize(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        """See :class:`Simulation`; the memo key is device·(m/s + 1) + point."""
        import numpy as np

        segment, bit, instant = self.device.segment, self.device.bit, self.device.instant
        alphas = words.seed(WordSpec(1, segment))[:, 0].astype(np.int64)
        points = values // segment
        points += values % segment + alphas >= segment

        def draw(rows: Ints) -> Ints:
            return bit.draw_many(points[rows] * segment, words.permanent(WordSpec(1))[rows, 0])

        answers = memo.recall(devices * (bit.maximum // segment + 1) + points, draw)
        if instant is not None:
            weights = np.where(answers == 1, np.uint64(instant.one), np.uint64(instant.zero))
            answers = words.instant(WordSpec(1))[:, 0] < weights
        return answers.astype(np.uint8)[:, None]


@dataclass(frozen=True)
class OneBitLaw(Law[int]):
    """One bit, 1 with a chance that is linear in the value, perhaps flipped."""

    domain_size: int
    bit: LinearBit
    flip: int = 0
    memoised: bool = False

    def one(self, value: int) -> Fraction:
        """P(the report is 1 | value) = p + (1 − 2p)·γ."""
        one = Fraction(self.bit.weight(value), FULL)
        return one + (1 - 2 * one) * Fraction(self.flip, FULL)

    def likelihood(self, response: int, value: int) -> Fraction:
        return self.one(value) if response else 1 - self.one(value)

    def responses(self) -> Iterator[int]:
        return iter((0, 1))

    def model(self, pair: tuple[int, int]) -> PairModel:
        ones = [Fraction(self.bit.weight(value), FULL) for value in pair]
        rows = tuple((1 - one, one) for one in ones)
        instant = BitChannel(FULL - self.flip, self.flip).rows(1) if self.flip else None
        rounds = (rows, instant) if self.memoised else (None, rows)
        same = self.memoised and pair[0] == pair[1]
        return PairModel(pair, lambda response: (0, response), (stratum_of((0, 1), rounds, one_input=same),))

    def best_guess(self, reports: int) -> float:
        import numpy as np

        from ldpbeam.privacy.guess_laws import choices, majority

        bit, maximum = self.bit, self.bit.maximum
        if self.memoised:
            right = majority(reports, 1 - Fraction(self.flip, FULL))
            return 2 * (bit.one / FULL * right + bit.zero / FULL * (1 - right)) / self.domain_size
        ones = np.arange(reports + 1.0)
        below = np.floor((ones / reports * FULL - bit.zero) / bit.step)
        best = np.full(reports + 1, -np.inf)
        for value in (below, below + 1):
            inside = np.clip(value, 0, maximum)
            # Each weight from its own end, so that neither is a difference of nearly equal numbers.
            one, zero = bit.zero + inside * bit.step, bit.zero + (maximum - inside) * bit.step
            best = np.maximum(best, ones * np.log(one / FULL) + (reports - ones) * np.log(zero / FULL))
        return float(np.exp(choices(reports) + best).sum()) / self.domain_size


@dataclass(frozen=True)
class OneBit(MeanProtocol[int], ABC):
    """One bit per report: ``bit`` of a value in 0 .. m, where m is ``domain_size`` − 1."""

    domain_size: int
    bit: LinearBit

    @property
    @abstractmethod
    def device(self) -> OneBitDevice:
        """Draws the bit of a value."""

    @property
    @abstractmethod
    def law(self) -> OneBitLaw:
        """The law of the bit that is sent."""

    @property
    def counter(self) -> OneBitCounter:
        return OneBitCounter()

    @cached_property
    def ends(self) -> SupportProbabilities:
        """P(the report is 1) at x = m and at x = 0."""
        return SupportProbabilities(self.law.one(self.bit.maximum), self.law.one(0), _OWN_COINS)

    @property
    def forgery(self) -> Forgery:
        return Forgery(ends=self.ends)


class OneBitMean(OneBit):
    """1BitMean: a fresh bit for every report."""

    ID = 20
    NAME = "one_bit_mean"
    PARAMETERS = ("epsilon",)
    SOURCE = "Microsoft section 2.1"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> OneBitMean:
        return cls(domain_size, LinearBit.from_epsilon(domain_size - 1, parameters.level("epsilon")))

    @property
    def instant(self) -> LinearBit:
        """The bit, which is the round drawn for every report."""
        return self.bit

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.bit.ratio, MemoisedInputs.NONE)

    @cached_property
    def device(self) -> FreshBitDevice:
        return FreshBitDevice(self.domain_size, self.bit)

    @cached_property
    def estimator(self) -> OneBitEstimator:
        return OneBitEstimator(self.bit.maximum, self.ends)

    @property
    def simulation(self) -> FreshSimulation:
        return FreshSimulation(self.bit.draw_many, FULL, self.device.payload_size)

    @cached_property
    def law(self) -> OneBitLaw:
        return OneBitLaw(self.domain_size, self.bit)


@dataclass(frozen=True)
class OneBitRRPM(OneBit):
    """1BitRRPM: α-point rounding, one memoised bit per point, and output perturbation."""

    ID = 21
    NAME = "one_bit_rrpm"
    PARAMETERS = ("epsilon_longitudinal",)
    OPTIONAL = ("gamma", "segment")
    SOURCE = "Microsoft sections 3.1 and 4; ldpbeam docs maths, correction 6"

    segment: int
    flip: int

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> OneBitRRPM:
        """Points 0 and m when no segment is given; γ rounded up to a multiple of 2**-64."""
        maximum, gamma = domain_size - 1, parameters.gamma
        segment = maximum if parameters.segment is None else parameters.segment
        if segment < 1 or maximum % segment:
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"segment = {segment} does not divide the largest value {maximum}, so the points that values "
                "are rounded to would miss it",
                key="segment",
                remedy=f"Use one of {_near_divisors(maximum, segment)}, or leave it out for {maximum}.",
            )
        if not 0 <= gamma < 0.5:
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"gamma = {gamma} does not lie in 0 .. 0.5 (without 0.5, where a report says nothing)",
                key="gamma",
                remedy="Use gamma: 0.2, or leave it out to send memoised bits unchanged.",
            )
        bit = LinearBit.from_epsilon(maximum, parameters.level("epsilon_longitudinal"))
        return cls(domain_size, bit, segment, -int(-FULL * Fraction(gamma) // 1))

    def resolved_parameters(self) -> dict[str, int | float | str]:
        """Distance of the points, and γ as its integer has it."""
        return {"segment": self.segment, "gamma": self.flip / FULL}

    @property
    def permanent(self) -> LinearBit:
        return self.bit

    @property
    def instant(self) -> BitChannel | None:
        """Output perturbation; None where there is none."""
        return BitChannel(FULL - self.flip, self.flip) if self.flip else None

    @property
    def guarantee(self) -> Guarantee:
        """ε' of the flipped bit for a report; ε∞ per point, m/s + 1 points."""
        points = self.bit.maximum // self.segment + 1
        return Guarantee(self.ends.own / self.ends.other, MemoisedInputs.POINTS, self.bit.ratio, points)

    @property
    def losses(self) -> PointLosses:
        points = range(0, self.domain_size, self.segment)
        some = (
            points
            if len(points) <= 2 * POINT_REPORTS
            else [*points[:POINT_REPORTS], *points[-POINT_REPORTS:]]
        )
        return PointLosses(len(points), tuple(self.bit.weight(point) for point in some), self.flip)

    @property
    def not_hidden(self) -> tuple[str, ...]:
        return super().not_hidden if self.flip else (CHANGE_IS_PROVED, *super().not_hidden)

    @cached_property
    def device(self) -> PointBitDevice:
        return PointBitDevice(self.domain_size, self.bit, self.segment, self.instant)

    @cached_property
    def estimator(self) -> OneBitEstimator:
        one, zero = (Fraction(weight, FULL) for weight in (self.bit.one, self.bit.zero))
        return OneBitEstimator(self.bit.maximum, self.ends, SupportProbabilities(one, zero, _OWN_COINS))

    @cached_property
    def simulation(self) -> PointBitSimulation:
        return PointBitSimulation(self.device)

    @cached_property
    def law(self) -> OneBitLaw:
        return OneBitLaw(self.domain_size, self.bit, self.flip, memoised=True)


def _near_divisors(number: int, near: int) -> str:
    """The divisors next to ``near``, for a person to choose from."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    divisors = sorted({*small, *(number // d for d in small)})
    below = [d for d in divisors if d < near][-2:]
    return ", ".join(map(str, [*below, *[d for d in divisors if d > near][:2]]))
