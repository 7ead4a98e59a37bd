"""Means of a counter 0..m, in its units: one bit per report (`004`), and Laplace noise to compare with.

The result of an epoch has one row. ``one_bit_mean`` draws a fresh bit for every report; ``one_bit_rrpm``
rounds the value to few points, memoises one bit per point and may flip it once more for every report.

The bit of a value x is 1 with weight zero + x·step over 2**64, with one integer step for all x. So the
probability is exactly linear, and the estimator m·(ones/n − other)/(own − other) exactly unbiased, where own
and other are the probabilities of a 1 at x = m and at x = 0. Rounding only ever brings the two ends closer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING

from ldpbeam.channels.channel import BitChannel
from ldpbeam.channels.exact import exp_below
from ldpbeam.channels.noise import LaplaceNoise
from ldpbeam.errors import CollectionError, InvalidPayload, Reason
from ldpbeam.privacy.guarantee import Guarantee
from ldpbeam.protocols.base import (
    FleetMemo,
    FleetWords,
    LocalProtocol,
    Memo,
    Parameters,
    Result,
    WordSpec,
    frozen_columns,
)
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ldpbeam.estimates import Estimates

__all__ = ["LaplaceMean", "LinearBit", "MeanProtocol", "OneBit", "OneBitMean", "OneBitRRPM"]

_OWN_COINS = Fraction(1, FULL)
"""Share of the population behind the reports with which ``ldpbeam.estimates`` takes each bit as a coin."""

_LARGEST_SCALE = 1 << 27
"""Largest m/ε of Laplace noise: the sum of 2**30 reports then fits an int64."""


class MeanProtocol(LocalProtocol[int]):
    """A protocol whose result is the mean of values 0..m, m = domain_size − 1."""

    @property
    def maximum(self) -> int:
        """The largest value, m."""
        return self.domain_size - 1

    @property
    def result(self) -> Result:
        """One mean."""
        return Result.MEAN

    @property
    def rows(self) -> int:
        """The mean."""
        return 1

    def of_share(self, share: Fraction) -> MeanProtocol:
        """The same protocol, with the errors of estimates that a random share of the population reports."""
        return self

    def consistent(self, method: str, estimates: Estimates) -> NDArray[np.float64]:
        """The mean clipped to 0..m, whatever the method: one number has no sum to keep.

        ``none`` leaves it as it is.
        """
        import numpy as np

        if method == "none":
            return estimates.frequency.copy()
        return np.clip(estimates.frequency, 0.0, float(self.maximum))


@dataclass(frozen=True)
class LinearBit:
    """A bit that is 1 with probability (zero + x·step)/2**64, for x in 0..maximum.

    Attributes:
        maximum: m.
        step: what one unit adds.
    """

    maximum: int
    step: int

    def __post_init__(self) -> None:
        """Validate.

        Raises:
            ValueError: the step is not positive, odd in total, or leads beyond probability 1.
        """
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

    def draw(self, value: int, randomness: Randomness) -> int:
        """One bit; always one word."""
        return int(randomness.word() < self.weight(value))

    def draw_many(self, values: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """:meth:`draw` for arrays: values int64 (n,), words uint64 (n,). No product reaches 2**64."""
        import numpy as np

        weights = np.uint64(self.zero) + values.astype(np.uint64) * np.uint64(self.step)
        return (words < weights).astype(np.int64)


@dataclass(frozen=True)
class OneBit(MeanProtocol):
    """One bit per report.

    Attributes:
        domain_size: m + 1.
        bit: the bit of a value.
    """

    domain_size: int
    bit: LinearBit

    @property
    def ends(self) -> SupportProbabilities:
        """P(the report is 1) at x = m and at x = 0."""
        return SupportProbabilities(self._one(self.maximum), self._one(0), _OWN_COINS)

    def _one(self, value: int) -> Fraction:
        """P(the report is 1 | value)."""
        return Fraction(self.bit.weight(value), FULL)

    @property
    def payload_bits(self) -> int:
        """1."""
        return 1

    def encode(self, response: int) -> bytes:
        """Bit 0 of one byte."""
        return response.to_bytes(1, "little")

    def decode(self, payload: bytes) -> int:
        """The bit in the payload."""
        self._require_length(payload)
        if payload[0] > 1:
            raise InvalidPayload(Reason.UNUSED_BITS, "a report is one bit")
        return payload[0]

    def likelihood(self, response: int, value: int) -> Fraction:
        """Linear in the value."""
        return self._one(value) if response else 1 - self._one(value)

    def responses(self) -> Iterator[int]:
        """0 and 1."""
        return iter((0, 1))

    @property
    def counts_length(self) -> int:
        """The number of ones."""
        return 1

    def check(self, payloads: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Only the lowest bit may be set."""
        import numpy as np

        from ldpbeam.kernels import bits

        codes = np.empty(len(payloads), np.uint8)
        bits.check_unused(frozen_columns(payloads), np.uint8(0xFE), codes)
        return codes

    def add_support(self, payloads: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        """Count the ones."""
        import numpy as np

        counts[0] += np.count_nonzero(payloads)

    def support_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ones."""
        return counts

    def estimate(
        self, counts: NDArray[np.int64], reports: int, ties: NDArray[np.float64] | None = None
    ) -> Estimates:
        """m times the share of m in a population that holds only 0 and m: the same estimator, by linearity.

        Error and interval take every bit as a coin of the mean probability p̄, variance
        m² p̄(1−p̄)/(n (own−other)²). That is exact where all values are equal, and too large by (the values'
        population variance)/n otherwise: at most by a factor cosh²(ε/2), where half of the values are 0
        and half m. It also is enough where the devices are a random share of the population: drawn at random,
        a device's bit is a coin of probability p̄, and drawing without repeats only lowers the variance.
        """
        from ldpbeam.estimates import estimate

        return estimate(counts, reports, self.ends, ties).scaled(self.maximum)


class OneBitMean(OneBit):
    """1BitMean: a fresh bit for every report."""

    ID = 20
    NAME = "one_bit_mean"
    PARAMETERS = ("epsilon",)
    SOURCE = "`004` section 2.1"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> OneBitMean:
        """P(1) = 1/(e^ε+1) + (x/m)(e^ε−1)/(e^ε+1)."""
        return cls(domain_size, LinearBit.from_epsilon(domain_size - 1, parameters.level("epsilon")))

    @property
    def instant(self) -> LinearBit:
        """The one round."""
        return self.bit

    @property
    def guarantee(self) -> Guarantee:
        """The ends' ratio, for every report anew."""
        return Guarantee(self.bit.ratio)

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[int, Memo]:
        """One bit, one word."""
        return self.bit.draw(value, randomness), memo

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

        drawn = self.bit.draw_many(values, words.instant(self.instant_words)[:, 0])
        return drawn.astype(np.uint8)[:, None]


@dataclass(frozen=True)
class OneBitRRPM(OneBit):
    """1BitRRPM: α-point rounding, one memoised bit per point, and output perturbation.

    A device draws α in 0..s−1 once, the memo's seed. A value x in [L, L+s) becomes the point L when
    x + α < L + s, else L + s: on average over α that is x, so the first report's bit has exactly the
    probability of 1BitMean, and each epoch's estimate the same law.

    Attributes:
        domain_size: m + 1.
        bit: the bit memoised for a point.
        segment: s, the distance of the points; divides m.
        flip: weight of flipping the memoised bit in a report, over 2**64; 0 sends it as it is.
    """

    ID = 21
    NAME = "one_bit_rrpm"
    PARAMETERS = ("epsilon_longitudinal",)
    OPTIONAL = ("gamma", "segment")
    SOURCE = "`004` sections 3.1 and 4; MATHS correction 6"

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
                remedy=f"Use one of {_near_divisors(maximum, segment)}, or leave it out for {maximum}.",
            )
        if not 0 <= gamma < 0.5:
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"gamma = {gamma} does not lie in 0 .. 0.5 (without 0.5, where a report says nothing)",
                remedy="Use gamma: 0.2, or leave it out to send memoised bits unchanged.",
            )
        bit = LinearBit.from_epsilon(maximum, parameters.level("epsilon_longitudinal"))
        return cls(domain_size, bit, segment, -int(-FULL * Fraction(gamma) // 1))

    def facts(self) -> dict[str, int | float | str]:
        """Distance of the points, and γ as its integer has it."""
        return {"segment": self.segment, "gamma": self.flip / FULL}

    @property
    def permanent(self) -> LinearBit:
        """The memoised round, at multiples of the segment."""
        return self.bit

    @property
    def instant(self) -> BitChannel | None:
        """Output perturbation; None where there is none."""
        return BitChannel(FULL - self.flip, self.flip) if self.flip else None

    def _one(self, value: int) -> Fraction:
        one = super()._one(value)
        return one + (1 - 2 * one) * Fraction(self.flip, FULL)

    @property
    def guarantee(self) -> Guarantee:
        """ε' of the flipped bit for a report; ε∞ per point, m/s + 1 points.

        e^ε' = ((1−2γ)p + γ)/((1−2γ)(1−p) + γ). At ε∞ = 1, γ = 0.2 that is 0.569, not the 0.686 that `004`
        prints (MATHS correction 6).
        """
        points = self.maximum // self.segment + 1
        return Guarantee(self.ends.own / self.ends.other, self.bit.ratio, points)

    def point(self, value: int, alpha: int) -> int:
        """Number of the point that a value is rounded to: the memoised input."""
        number, above = divmod(value, self.segment)
        return number + (above + alpha >= self.segment)

    def new_memo(self, randomness: Randomness) -> Memo:
        """α, drawn once."""
        return Memo(seed=randomness.word(self.segment))

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[int, Memo]:
        """The point's bit, drawn once; flipped with probability γ.

        Raises:
            ValueError: the memo has no α.
        """
        if memo.seed is None:
            raise ValueError(f"the memo of a {self.NAME} device holds α: make it with new_memo")
        key = self.point(value, memo.seed)
        answer, memo = self._memoised(memo, key, self.bit.draw(key * self.segment, randomness))
        instant = self.instant
        if instant is None:
            return answer, memo
        return int(instant.draw(bool(answer), randomness)), memo

    @property
    def seed_words(self) -> WordSpec:
        """α."""
        return WordSpec(1, self.segment)

    @property
    def permanent_words(self) -> WordSpec:
        """One word per point."""
        return WordSpec(1)

    @property
    def instant_words(self) -> WordSpec:
        """One word where bits are flipped."""
        return WordSpec(1 if self.flip else 0)

    def privatize_fleet(
        self,
        devices: NDArray[np.int64],
        values: NDArray[np.int64],
        words: FleetWords,
        memo: FleetMemo,
    ) -> NDArray[np.uint8]:
        """See the contract; the memo key is device·(m/s + 1) + point."""
        import numpy as np

        alphas = words.seed(self.seed_words)[:, 0].astype(np.int64)
        points = values // self.segment
        points += values % self.segment + alphas >= self.segment

        def draw(rows: NDArray[np.int64]) -> NDArray[np.int64]:
            drawn = words.permanent(self.permanent_words)[rows, 0]
            return self.bit.draw_many(points[rows] * self.segment, drawn)

        answers = memo.recall(devices * (self.maximum // self.segment + 1) + points, draw)
        instant = self.instant
        if instant is not None:
            weights = np.where(answers == 1, np.uint64(instant.one), np.uint64(instant.zero))
            answers = words.instant(self.instant_words)[:, 0] < weights
        return answers.astype(np.uint8)[:, None]


@dataclass(frozen=True)
class LaplaceMean(MeanProtocol):
    """The baseline of `004`: the value plus Laplace noise of scale m/ε, on the integers.

    A report is clamped to −B .. m+B, which is post-processing. B is chosen so that clamping moves the mean
    by less than 2**-40·m.

    Attributes:
        domain_size: m + 1.
        epsilon: nominal level.
        margin: B.
        instant: the noise, from integer weights.
        share: of the population, drawn at random, that reports; the rest answers something else.
    """

    ID = 22
    NAME = "laplace_mean"
    PARAMETERS = ("epsilon",)
    SOURCE = "`004` section 5 (Laplace); noise as in Ghosh, Roughgarden, Sundararajan (STOC 2009)"

    domain_size: int
    epsilon: float
    margin: int
    instant: LaplaceNoise
    share: Fraction = Fraction(1)

    def of_share(self, share: Fraction) -> LaplaceMean:
        """Errors then include the drawing of devices."""
        return replace(self, share=share)

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> LaplaceMean:
        """Noise with P(z) in proportion to e^(−ε|z|/m)."""
        epsilon, maximum = parameters.level("epsilon"), domain_size - 1
        level = Fraction(epsilon)
        if maximum > level * _LARGEST_SCALE:
            raise CollectionError(
                "E-COLLECTION-INFEASIBLE",
                f"laplace_mean takes noise of a scale m/epsilon up to {_LARGEST_SCALE}, not "
                f"{maximum / epsilon:.0f}: sums of its reports would overflow",
                remedy="Raise epsilon, count in larger units, or use one_bit_mean, which has no such limit.",
            )
        # Noise beyond B moves the mean by e^(−(B+1)ε/m)/(1−e^(−2ε/m)) at most, and this many scales make
        # that less than 2^−40 m: 1/(1−e^(−2ε/m)) <= m(1 + 1/(2ε)), and ln(2^40 (1 + 1/(2ε))) < scales.
        scales = 29 + int(1 / level).bit_length()
        margin = max(0, -int(-maximum * scales / level // 1) - 1)
        noise = LaplaceNoise.for_level(epsilon, maximum, maximum + margin)
        return cls(domain_size, epsilon, margin, noise)

    @property
    def guarantee(self) -> Guarantee:
        """e^ε: proven in ``ldpbeam.channels.noise``; these integers fall short of it by less than 1e-9."""
        return Guarantee(exp_below(self.epsilon))

    @property
    def payload_bits(self) -> int:
        """A signed 64-bit integer."""
        return 64

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[int, Memo]:
        """The noisy value, clamped; as many words whatever it is."""
        noisy = value + self.instant.draw(randomness)
        return min(max(noisy, -self.margin), self.maximum + self.margin), memo

    def encode(self, response: int) -> bytes:
        """Little-endian two's complement."""
        return response.to_bytes(8, "little", signed=True)

    def decode(self, payload: bytes) -> int:
        """The noisy value in the payload."""
        self._require_length(payload)
        response = int.from_bytes(payload, "little", signed=True)
        if not -self.margin <= response <= self.maximum + self.margin:
            raise InvalidPayload(
                Reason.VALUE_OUT_OF_RANGE,
                f"noisy values end at {-self.margin} and {self.maximum + self.margin}",
            )
        return response

    def likelihood(self, response: int, value: int) -> Fraction:
        """P(noise); at the two ends that of all noise beyond."""
        noise = response - value
        if response == self.maximum + self.margin:
            return self.instant.above(noise)
        if response == -self.margin and noise < 0:
            return self.instant.below(noise)
        if response == -self.margin:  # B = 0 and the value is 0: no noise, or a negative one
            return 1 - self.instant.above(1)
        return self.instant.probability(noise)

    def responses(self) -> Iterator[int]:
        """−B .. m+B."""
        return iter(range(-self.margin, self.maximum + self.margin + 1))

    @property
    def counts_length(self) -> int:
        """The sum."""
        return 1

    def check(self, payloads: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Noisy values beyond −B .. m+B do not exist."""
        import numpy as np

        noisy = _integers(payloads)
        return ((noisy < -self.margin) | (noisy > self.maximum + self.margin)).astype(np.uint8)

    def add_support(self, payloads: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        """Add up."""
        counts[0] += _integers(payloads).sum()

    def support_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum of the noisy values."""
        return counts

    def estimate(
        self, counts: NDArray[np.int64], reports: int, ties: NDArray[np.float64] | None = None
    ) -> Estimates:
        """The mean of the reports. For a fixed population only the noise is random, and its law is known.

        The interval is normal: the noise of even a hundred reports is within 1 % of it. Where a random share
        s of the devices report, drawing them adds (1 − s)·(variance of the values)/n. That variance is not
        known; at the mean μ it is at most μ(m − μ), reached where all values are 0 or m. The error takes that
        bound at the estimate, the interval at each μ that it tests.
        """
        import numpy as np

        from ldpbeam.estimates import CONFIDENCE, Estimates

        mean = counts / reports
        noise, m, drawn = self.instant.variance, float(self.maximum), 1 - float(self.share)
        inside = np.clip(mean, 0.0, m)
        error = np.sqrt((noise + drawn * inside * (m - inside)) / reports)
        z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
        half = z * (noise / reports) ** 0.5
        low, high = mean - half, mean + half
        if drawn:
            # (mean − μ)² = s (noise + drawn μ(m − μ)), solved for μ; beyond 0..m only the noise is left.
            s = z * z / reports
            square, middle = 1 + s * drawn, mean + s * drawn * m / 2
            root = np.sqrt(np.maximum(middle**2 - square * (mean**2 - s * noise), 0.0))
            low = np.minimum(low, (middle - root) / square)
            high = np.maximum(high, (middle + root) / square)
        return Estimates(np.full(1, reports), counts, mean, error, low, high, low, high)

    @property
    def instant_words(self) -> WordSpec:
        """Sign, digit and bits of the noise."""
        return WordSpec(self.instant.words)

    def privatize_fleet(
        self,
        devices: NDArray[np.int64],
        values: NDArray[np.int64],
        words: FleetWords,
        memo: FleetMemo,
    ) -> NDArray[np.uint8]:
        """See the contract."""
        import numpy as np

        noisy = values + self.instant.draw_many(words.instant(self.instant_words))
        clamped = np.clip(noisy, -self.margin, self.maximum + self.margin)
        payloads: NDArray[np.uint8] = clamped.astype("<i8").view(np.uint8).reshape(-1, 8)
        return payloads


def _integers(payloads: NDArray[np.uint8]) -> NDArray[np.int64]:
    import numpy as np

    found: NDArray[np.int64] = np.ascontiguousarray(payloads).view("<i8")[:, 0]
    return found


def _near_divisors(number: int, near: int) -> str:
    """The divisors next to ``near``, for a person to choose from."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    divisors = sorted({*small, *(number // d for d in small)})
    below = [d for d in divisors if d < near][-2:]
    return ", ".join(map(str, [*below, *[d for d in divisors if d > near][:2]]))
