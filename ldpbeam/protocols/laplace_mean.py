"""Means of a counter 0..m from values with Laplace noise: the baseline of the one-bit protocols."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lgamma, nextafter
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from ldpbeam.arrays import Bytes, Floats, Ints
from ldpbeam.channels.exact import exp_below
from ldpbeam.channels.noise import LaplaceNoise
from ldpbeam.errors import CollectionError, InvalidPayload, Reason
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.privacy.guarantee import Guarantee, MemoisedInputs
from ldpbeam.protocols.contract import MeanProtocol
from ldpbeam.protocols.counter import Counter
from ldpbeam.protocols.device import Memo, ProtocolDevice
from ldpbeam.protocols.estimator import EVERYONE, MeanEstimator
from ldpbeam.protocols.forgery import Forgery, Numbers
from ldpbeam.protocols.history_model import PairModel, model_of_numbers
from ldpbeam.protocols.law import Law
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.protocols.simulation import FleetAnswers, FleetWords, Simulation, WordPlan, WordSpec
from ldpbeam.randomness import Randomness

if TYPE_CHECKING:
    from ldpbeam.estimates import Estimates

_LARGEST_SCALE = 1 << 27
"""Largest m/ε of Laplace noise: the sum of 2**30 reports then fits an int64."""

_OUTPUTS = 2000
"""Noisy values whose likelihoods are compared; all of them where there are no more."""

RARE = Fraction(1, 1_000_000)
"""Chance of noise at most, to either side, that is counted as a sign of a forged report."""


@dataclass(frozen=True)
class LaplaceDevice(ProtocolDevice[int]):
    """A response is the value plus noise, clamped to −B .. m+B."""

    ENCODING = "laplace_mean"

    domain_size: int
    margin: int
    instant: LaplaceNoise

    @property
    def maximum(self) -> int:
        return self.domain_size - 1

    @property
    def payload_bits(self) -> int:
        return 64

    def definition(self) -> dict[str, Any]:
        return {"margin": str(self.margin), "permanent": None, "instant": self.instant.definition()}

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[int, Memo]:
        """The noisy value, clamped; as many words whatever it is."""
        noisy = value + self.instant.draw(randomness)
        return min(max(noisy, -self.margin), self.maximum + self.margin), memo

    def encode(self, response: int) -> bytes:
        """The noisy value in 8 bytes, little-endian two's complement."""
        return response.to_bytes(8, "little", signed=True)

    def decode(self, payload: bytes) -> int:
        self._require_length(payload)
        response = int.from_bytes(payload, "little", signed=True)
        if not -self.margin <= response <= self.maximum + self.margin:
            raise InvalidPayload(
                Reason.VALUE_OUT_OF_RANGE,
                f"noisy values end at {-self.margin} and {self.maximum + self.margin}",
            )
        return response


@dataclass(frozen=True)
class LaplaceCounter(Counter):
    """One cell: the sum of the reports."""

    maximum: int
    margin: int
    noise: LaplaceNoise

    @property
    def counts_length(self) -> int:
        return 1

    def check(self, payloads: Bytes) -> Bytes:
        import numpy as np

        noisy = _integers(payloads)
        beyond = (noisy < -self.margin) | (noisy > self.maximum + self.margin)
        refused = np.uint8(CheckCode.VALUE_OUT_OF_RANGE)
        return np.where(beyond, refused, np.uint8(CheckCode.SOUND))

    def add(self, payloads: Bytes, counts: Ints) -> None:
        counts[0] += _integers(payloads).sum()

    @cached_property
    def rare_noise(self) -> tuple[int, int] | None:
        """The least u and d for which noise of u or more, or −d or less, is no likelier than :data:`RARE`."""
        up = self._least(self.noise.above)
        down = self._least(lambda noise: self.noise.below(-noise))
        return None if up is None or down is None else (up, down)

    def _least(self, chance: Callable[[int], Fraction]) -> int | None:
        """The least amount of noise, from 1 to B, that is no likelier than :data:`RARE`."""
        among = range(1, self.margin + 1)
        place = bisect_left(among, True, key=lambda noise: chance(noise) <= RARE)
        return among[place] if place < len(among) else None

    @property
    def extremes(self) -> tuple[float, float] | None:
        if self.rare_noise is None:
            return None
        up, down = self.rare_noise
        chances = self.noise.above(up), self.noise.below(-down)
        first, second = (nextafter(float(chance), 1.0) for chance in chances)  # no less than the fraction
        return first, second

    @property
    def signs_length(self) -> int:
        return 0 if self.rare_noise is None else 2

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        if self.rare_noise is not None:
            noisy, (up, down) = _integers(payloads), self.rare_noise
            signs[0] += (noisy >= self.maximum + up).sum()
            signs[1] += (noisy <= -down).sum()

    def steps(self, reports: float) -> float:
        return reports


@dataclass(frozen=True)
class LaplaceEstimator(MeanEstimator):
    maximum: int
    variance: float

    lasting_ends = None

    def estimate(
        self, counts: Ints, reports: int, ties: Floats | None = None, share: Fraction = EVERYONE
    ) -> Estimates:
        import numpy as np

        from ldpbeam.estimates import CONFIDENCE

        mean = counts / reports
        noise, m, drawn = self.variance, float(self.maximum), 1 - float(share)
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
        return self.published(counts, reports, mean, error, low, high)

    def even_variance(self, share: float) -> float:
        """Limits take the values of any population for half 0 and half m."""
        return self.variance + (1 - share) * self.maximum**2 / 4


@dataclass(frozen=True)
class LaplaceSimulation(Simulation):
    device: LaplaceDevice

    @property
    def word_plan(self) -> WordPlan:
        return WordPlan(WordSpec(self.device.instant.words))

    def privatize(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        import numpy as np

        device = self.device
        noisy = values + device.instant.draw_many(words.instant(self.word_plan.instant))
        clamped = np.clip(noisy, -device.margin, device.maximum + device.margin)
        payloads: Bytes = clamped.astype("<i8").view(np.uint8).reshape(-1, 8)
        return payloads


@dataclass(frozen=True)
class LaplaceLaw(Law[int]):
    domain_size: int
    margin: int
    noise: LaplaceNoise

    @property
    def maximum(self) -> int:
        return self.domain_size - 1

    def likelihood(self, response: int, value: int) -> Fraction:
        noise = response - value
        if response == self.maximum + self.margin:
            return self.noise.above(noise)
        if response == -self.margin and noise < 0:
            return self.noise.below(noise)
        if response == -self.margin:  # B = 0 and the value is 0: no noise, or a negative one
            return 1 - self.noise.above(1)
        return self.noise.probability(noise)

    def responses(self) -> Iterator[int]:
        return iter(range(-self.margin, self.maximum + self.margin + 1))

    def model(self, pair: tuple[int, int]) -> PairModel:
        m, margin = self.maximum, self.margin
        cuts = sorted({cut for cut in (-m, 1, (m + 1) // 2, m, 2 * m) if -margin < cut <= m + margin})

        def at_least(cut: int, value: int) -> Fraction:
            noise = cut - value
            return self.noise.above(noise) if noise >= 0 else 1 - self.noise.below(noise - 1)

        return model_of_numbers(pair, cuts, at_least)

    def spent(self) -> tuple[None, Fraction]:
        low, high = -self.margin, self.maximum + self.margin
        step = -(-(high - low + 1) // _OUTPUTS)
        outputs = {*range(low, high + 1, step), low, 0, self.maximum, high}
        ratios = (self.likelihood(y, self.maximum) / self.likelihood(y, 0) for y in outputs)
        return None, max(max(ratio, 1 / ratio) for ratio in ratios)

    def best_guess(self, reports: int) -> float:
        import numpy as np

        from ldpbeam.privacy.guess_laws import quadrature

        noise, k, j = self.noise, self.domain_size, (reports + 1) // 2
        wide, nodes, weights = float(noise.probability(0)), *quadrature(reports - 1)
        below, above = float(noise.below(-1)) + wide * nodes, float(noise.above(1)) + wide * (1 - nodes)
        factor = lgamma(reports + 1) - lgamma(j) - lgamma(reports - j + 1)
        density = np.exp(factor + (j - 1) * np.log(below) + (reports - j) * np.log(above))
        zero = wide * float(weights @ density)
        return zero + (1 - zero) / k


@dataclass(frozen=True)
class LaplaceMean(MeanProtocol[int]):
    """The baseline of Microsoft: the value plus Laplace noise of scale m/ε, on the integers."""

    ID = 22
    NAME = "laplace_mean"
    PARAMETERS = ("epsilon",)
    SOURCE = "Microsoft section 5 (Laplace); noise as in Ghosh, Roughgarden, Sundararajan (STOC 2009)"

    domain_size: int
    epsilon: float
    margin: int
    instant: LaplaceNoise

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
                key="epsilon",
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
        return Guarantee(exp_below(self.epsilon), MemoisedInputs.NONE)

    @cached_property
    def device(self) -> LaplaceDevice:
        return LaplaceDevice(self.domain_size, self.margin, self.instant)

    @cached_property
    def counter(self) -> LaplaceCounter:
        return LaplaceCounter(self.domain_size - 1, self.margin, self.instant)

    @cached_property
    def estimator(self) -> LaplaceEstimator:
        return LaplaceEstimator(self.domain_size - 1, self.instant.variance)

    @property
    def simulation(self) -> LaplaceSimulation:
        return LaplaceSimulation(self.device)

    @property
    def forgery(self) -> Forgery:
        maximum, margin = self.domain_size - 1, self.margin
        ends = Fraction(0), Fraction(maximum)
        return Forgery(numbers=Numbers(-margin, maximum + margin, *ends, self.instant.variance))

    @cached_property
    def law(self) -> LaplaceLaw:
        return LaplaceLaw(self.domain_size, self.margin, self.instant)


def _integers(payloads: Bytes) -> Ints:
    import numpy as np

    numbers: Ints = np.ascontiguousarray(payloads).view("<i8")[:, 0]
    return numbers
