"""Subset selection: a report is a set of w of the k values (Ye and Barg; Wang and others)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb, exp
from typing import TYPE_CHECKING, Any

from ldpbeam.arrays import Bytes, Floats, Ints
from ldpbeam.channels.exact import exp_below
from ldpbeam.errors import CollectionError
from ldpbeam.privacy.guarantee import Guarantee, MemoisedInputs
from ldpbeam.privacy.randomiser import Randomiser
from ldpbeam.protocols.bit_vector import BitVectorCounter, VectorDevice, Vectors
from ldpbeam.protocols.contract import FrequencyProtocol
from ldpbeam.protocols.device import Memo
from ldpbeam.protocols.estimator import FrequencyEstimator
from ldpbeam.protocols.forgery import Forgery
from ldpbeam.protocols.history_model import PairModel, stratum_of
from ldpbeam.protocols.law import FrequencyLaw, Kinds
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.protocols.simulation import FleetAnswers, FleetWords, Simulation, WordPlan, WordSpec
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.protocols.sum_laws import SumLaw


@dataclass(frozen=True)
class Subsets(Vectors):
    """Bit vectors with w ones."""

    w: int

    @property
    def ones(self) -> tuple[int, int]:
        """Least and largest number of ones in a report: both are w."""
        return self.w, self.w


@dataclass(frozen=True)
class SubsetDevice(VectorDevice):
    """The value with probability ``keep``/2**64, and others without repeats until there are w."""

    ENCODING = "subset"

    domain_size: int
    bits: Subsets
    keep: int

    @property
    def payload_bits(self) -> int:
        return self.domain_size

    def definition(self) -> dict[str, Any]:
        return {"w": self.bits.w, "permanent": None, "instant": {"keep": str(self.keep)}}

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[int, Memo]:
        """w words for places among the k − 1 others, and one for the value; the same steps for every
        value."""
        k, w = self.domain_size, self.bits.w
        places = [randomness.word(k - w + i) for i in range(w)]
        own = int(randomness.word() < self.keep)
        others = 0
        for i, place in enumerate(places):
            taken = others >> place & 1
            others |= int(i >= own) << (k - 1 - w + i if taken else place)
        # The others are numbered without the value: those above it move up by one.
        below = others & (1 << value) - 1
        return below | own << value | others >> value << value + 1, memo


@dataclass(frozen=True)
class SubsetEstimator(FrequencyEstimator):
    """A report supports the values of its set."""

    w: int = 1

    def sum_law(self, weights: Floats, *, lasting: bool = False) -> SumLaw:
        """The weight of the set: of m of the n = k − 1 others, without repeats, and maybe the own value."""
        import numpy as np

        from ldpbeam.protocols.sum_laws import FreshReports

        n, own, other = self.size - 1, float(self.support.own), float(self.support.other)
        whole, squares = (w.sum(axis=1, keepdims=True) for w in (weights, weights**2))
        mean = (whole - weights) / n
        spread = np.maximum((squares - weights**2) / n - mean**2, 0.0) / max(n - 1, 1)
        given = own * (self.w - 1) * (n - self.w + 1) * spread + (1 - own) * self.w * (n - self.w) * spread
        # With the value in place of one of the others the sum is larger by w_v − mean.
        given = given + own * (1 - own) * (weights - mean) ** 2
        return FreshReports(weights, own, other, given)


@dataclass(frozen=True)
class SubsetSimulation(Simulation):
    """Words of the places, whose limits rise by one, and one word for the value."""

    device: SubsetDevice

    @property
    def word_plan(self) -> WordPlan:
        k, w = self.device.domain_size, self.device.bits.w
        return WordPlan(WordSpec(1), seed=WordSpec(w, k - w, rising=True), seed_per_report=True)

    def privatize(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        import numpy as np

        instant, _, seed, _ = self.word_plan
        assert seed is not None  # noqa: S101 - there are places in every plan
        k, w, rows = self.device.domain_size, self.device.bits.w, np.arange(values.size)
        places = words.seed(seed).astype(np.int64)
        own = words.instant(instant)[:, 0] < np.uint64(self.device.keep)
        chosen = np.zeros((values.size, k), np.uint8)
        for i in range(w):
            place, last = places[:, i], k - 1 - w + i
            taken = chosen[rows, place + (place >= values)]
            place = np.where(taken, last, place)
            chosen[rows, place + (place >= values)] = 1 if i else ~own
        chosen[rows, values] = own
        return np.packbits(chosen, axis=1, bitorder="little")


@dataclass(frozen=True)
class SubsetLaw(FrequencyLaw[int]):
    """Two probabilities: of a set with the value, and of one without it."""

    domain_size: int
    w: int
    support: SupportProbabilities

    @property
    def ratio(self) -> Fraction:
        """own/C(k−1, w−1) over (1 − own)/C(k−1, w)."""
        own = self.support.own
        return own * (self.domain_size - self.w) / ((1 - own) * self.w)

    def likelihood(self, response: int, value: int) -> Fraction:
        n, own = self.domain_size - 1, self.support.own
        if self.supports(response, value):
            return own / comb(n, self.w - 1)
        return (1 - own) / comb(n, self.w)

    def supports(self, response: int, value: int) -> bool:
        return bool(response >> value & 1)

    def responses(self) -> Iterator[int]:
        return (sum(1 << v for v in chosen) for chosen in combinations(range(self.domain_size), self.w))

    def model(self, pair: tuple[int, int]) -> PairModel:
        (v, u), n, own = pair, self.domain_size - 1, self.support.own
        with_own, without = Fraction(self.w - 1, n), Fraction(self.w, n)
        neither, other = (1 - own) * (1 - without), (1 - own) * without
        alone, both = own * (1 - with_own), own * with_own
        rows = (neither, alone, other, both), (neither, other, alone, both)

        def placed(response: int) -> tuple[int, int]:
            return 0, (response >> v & 1) | (response >> u & 1) << 1

        return PairModel(pair, placed, (stratum_of((0, 1), (None, rows)),))

    def best_guess(self, reports: int) -> float:
        from ldpbeam.privacy.guess_laws import binomial, highest, largest

        if reports == 1 or self.w == 1:
            k, alone = self.domain_size, float(self.support.own)
            return (
                alone / self.w if reports == 1 else largest(alone, (1 - alone) / (k - 1), k - 1, 0, reports)
            )
        own, other = (binomial(reports, p) for p in (self.support.own, self.support.other))
        return highest(own, other, self.domain_size)

    def guess_is_exact(self, reports: int) -> bool:
        return reports == 1 or self.w == 1

    def equal_responses(self, value: Any) -> Kinds:
        n, own = self.domain_size - 1, self.support.own
        equal = own**2 / comb(n, self.w - 1) + (1 - own) ** 2 / comb(n, self.w)
        return ((1.0, float(equal)),)

    def one_epoch(self, *, renamed: bool, alone: bool) -> Randomiser:
        return Randomiser(self.ratio, self.support.gap)


@dataclass(frozen=True)
class Subset(FrequencyProtocol[int]):
    """A set of w values that holds the device's own one more often than any other."""

    ID = 17
    NAME = "subset"
    PARAMETERS = ("epsilon",)
    OPTIONAL = ("w",)
    SOURCE = "Ye and Barg (IEEE Trans. Inf. Theory 2018); Wang and others (arXiv:1607.08025)"

    domain_size: int
    w: int
    keep: int
    given: bool = False

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> Subset:
        """w as given; else k/(e^ε + 1) rounded down or up, of both the one with the smaller variance V*."""
        epsilon, given = parameters.level("epsilon"), parameters.w
        best = cls.best_for(domain_size, epsilon, Fraction(0))
        if given is None or given == best.w:
            return best
        if not 1 <= given < domain_size:
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"w = {given} must be at least 1 and below the number of values, {domain_size}",
                key="w",
                remedy=f"Use w: {best.w}, or leave it out for the same.",
            )
        return cls._of_size(domain_size, epsilon, given, given=True)

    @classmethod
    def best_for(cls, domain_size: int, epsilon: float, frequency: Fraction) -> Subset:
        """The w with the smallest variance of a value with that frequency."""
        least = min(max(1, int(domain_size / (exp(epsilon) + 1))), domain_size - 1)
        most = min(least + (3 if frequency else 1), domain_size - 1)
        built = [cls._of_size(domain_size, epsilon, w) for w in range(least, most + 1)]
        return min(built, key=lambda one: one._variance(frequency))

    def _variance(self, frequency: Fraction) -> Fraction:
        """n·V at a frequency f, V* + f·(1 − own − other)/(own − other) (docs/maths.md section 1)."""
        support = self.estimator.support
        return support.floor + frequency * (1 - support.own - support.other) / support.gap

    @classmethod
    def _of_size(cls, domain_size: int, epsilon: float, w: int, *, given: bool = False) -> Subset:
        # own = w·e^ε/(w·e^ε + k − w): own/(1 − own) is e^ε·w/(k − w), rounded down.
        odds = exp_below(epsilon)
        return cls(domain_size, w, int(FULL * odds * w / (odds * w + domain_size - w)), given)

    def resolved_parameters(self) -> dict[str, int | float | str]:
        """w where it was given: the digest of the default has none."""
        return {"w": self.w} if self.given else {}

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.law.ratio, MemoisedInputs.NONE)

    @cached_property
    def device(self) -> SubsetDevice:
        return SubsetDevice(self.domain_size, Subsets(self.domain_size, self.w), self.keep)

    @cached_property
    def counter(self) -> BitVectorCounter:
        return BitVectorCounter(self.device.bits)

    @cached_property
    def estimator(self) -> SubsetEstimator:
        """own = ``keep``/2**64, other = (w − own)/(k − 1): the set has w values, however they are drawn."""
        own = Fraction(self.keep, FULL)
        support = SupportProbabilities(own, (self.w - own) / (self.domain_size - 1))
        return SubsetEstimator(self.counter, self.domain_size, support, w=self.w)

    @cached_property
    def simulation(self) -> SubsetSimulation:
        return SubsetSimulation(self.device)

    @property
    def forgery(self) -> Forgery:
        return Forgery(ends=self.estimator.support, most_supported=self.w, asked_about=self.domain_size)

    @cached_property
    def law(self) -> SubsetLaw:
        return SubsetLaw(self.domain_size, self.w, self.estimator.support)
