"""Unary encoding: a report is one bit per value (SUE, OUE, and the two-round L-UE family)."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from math import exp, lgamma, log
from typing import TYPE_CHECKING, Any, ClassVar

from ldpbeam.arrays import Bytes, Floats, Ints
from ldpbeam.channels.calibration import half_second_round, oue_round, sue_round, symmetric_second_round
from ldpbeam.channels.channel import BitChannel, unary_ratio
from ldpbeam.channels.exact import product_of
from ldpbeam.channels.rounds import Rounds
from ldpbeam.errors import CollectionError
from ldpbeam.privacy.bit_loss import BitLosses
from ldpbeam.privacy.guarantee import Guarantee, MemoisedInputs
from ldpbeam.privacy.randomiser import Randomiser
from ldpbeam.protocols.bit_vector import RandomisedBits, RandomisedBitsCounter, VectorDevice
from ldpbeam.protocols.contract import FrequencyProtocol
from ldpbeam.protocols.device import Memo
from ldpbeam.protocols.estimator import FrequencyEstimator
from ldpbeam.protocols.forgery import Forgery
from ldpbeam.protocols.history_model import PairModel, for_life, stratum_of
from ldpbeam.protocols.law import FrequencyLaw, Kinds, ShownAnswer, bit_answer, evenly_chosen
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.protocols.simulation import FleetAnswers, FleetWords, Simulation, WordPlan, WordSpec, draw_bits
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.protocols.sum_laws import SumLaw

_LEAST = Fraction(64, 10**10)
"""Least chance of another device's report to be of one given kind that is of use: among ten billion devices,
more than there are people, so few would hide one."""


@dataclass(frozen=True)
class UnaryDevice(VectorDevice):
    """Independent randomised bits of the one-hot vector; a response is the integer Σ bit_v·2^v."""

    ENCODING = "unary"

    domain_size: int
    rounds: Rounds[BitChannel]
    bits: RandomisedBits

    @property
    def payload_bits(self) -> int:
        return self.domain_size

    def definition(self) -> dict[str, Any]:
        """The integers of both rounds, as decimal text; None for a missing round."""
        return self.rounds.definition()

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[int, Memo]:
        """k bits as one integer; k words per round, whatever the value and the memo."""
        permanent, answer = self.rounds.permanent, 1 << value
        if permanent is not None:
            drawn = permanent.draw_bits(answer, self.domain_size, randomness.permanent(value))
            answer, memo = self._memoised(memo, value, drawn)
        return self.rounds.last.draw_bits(answer, self.domain_size, randomness), memo


class UnaryEstimator(FrequencyEstimator):
    """A report supports every value whose bit is 1."""

    def sum_law(self, weights: Floats, *, lasting: bool = False) -> SumLaw:
        from ldpbeam.protocols.sum_laws import IndependentBits

        probabilities = self.lasting if lasting else self.support
        assert probabilities is not None  # noqa: S101 - asked of what is memoised only
        return IndependentBits(weights, float(probabilities.own), float(probabilities.other))


@dataclass(frozen=True)
class UnarySimulation(Simulation):
    """A word for each bit and round of each device."""

    device: UnaryDevice

    @cached_property
    def word_plan(self) -> WordPlan:
        each = WordSpec(self.device.domain_size, bits=True)
        return WordPlan(each, each if self.device.rounds.memoised else None)

    @property
    def answer_bytes(self) -> int:
        return (self.device.domain_size + 7) // 8

    def privatize(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        """See :class:`Simulation`; the memo key is device·k + value."""
        keys = devices * self.device.domain_size + values
        return draw_bits(self.device.rounds, self.word_plan, keys, values, words, memo)


@dataclass(frozen=True)
class UnaryLaw(FrequencyLaw[int]):
    """Bits that are independent given the value, in both rounds."""

    domain_size: int
    rounds: Rounds[BitChannel]

    def likelihood(self, response: int, value: int) -> Fraction:
        own, other = self.rounds.composed
        bit = (1 - other, other), (1 - own, own)
        return product_of(bit[v == value][response >> v & 1] for v in range(self.domain_size))

    def supports(self, response: int, value: int) -> bool:
        return bool(response >> value & 1)

    def responses(self) -> Iterator[int]:
        return iter(range(1 << self.domain_size))

    def model(self, pair: tuple[int, int]) -> PairModel:
        v, w = pair

        def placed(response: int) -> tuple[int, int]:
            return 0, (response >> v & 1) | (response >> w & 1) << 1

        return for_life(PairModel(pair, placed, (stratum_of((1, 2), self.rounds.rows(2)),)))

    def best_guess(self, reports: int) -> float:
        from ldpbeam.privacy.guess_laws import binomial, highest

        last, lasting = self.rounds.last, self.rounds.lasting
        up, down = (binomial(reports, p) for p in (last.own, last.other))
        if lasting is None:
            return highest(up, down, self.domain_size)
        own, other = (float(p) * up + float(1 - p) * down for p in lasting)
        return highest(own, other, self.domain_size)

    def equal_responses(self, value: Any) -> Kinds:
        last, lasting, others = self.rounds.last, self.rounds.lasting, self.domain_size - 1
        if lasting is None:
            return ((1.0, _same_bits(last.own, 1) * _same_bits(last.other, others)),)
        kinds, (p, q) = [], map(float, lasting)
        for ones in range(others + 1):
            choices = lgamma(others + 1) - lgamma(ones + 1) - lgamma(others - ones + 1)
            chance = exp(choices + ones * log(q) + (others - ones) * log(1 - q))
            for own, share in ((1, p), (0, 1 - p)):
                equal = _same_bits(last.own, ones + own) * _same_bits(last.other, others + 1 - ones - own)
                kinds.append((chance * share, equal))
        return tuple(kinds)

    def shown_answers(self, value: int, most: int) -> Iterator[ShownAnswer]:
        def bit_of(one: int) -> Callable[[int], int]:
            return lambda response: response >> one & 1

        values = evenly_chosen(self.domain_size, most)
        return (bit_answer(one, value, self.rounds, bit_of(one)) for one in values)

    def one_epoch(self, *, renamed: bool, alone: bool) -> Randomiser | None:
        """None where the answers of the others, which the server may know, leave too little to hide in."""
        own, other = self.rounds.composed
        ratio = unary_ratio(own, other)
        if alone or not self.rounds.memoised:
            return Randomiser(ratio, own - other)
        others = self._others()
        return Randomiser(ratio, own - other, 1, others) if others[0] >= _LEAST else None

    def many_epochs(self, *, renamed: bool) -> Randomiser | None:
        """None of two rounds: the memoised answers of two values differ in too many bits."""
        return None if self.rounds.memoised else self.one_epoch(renamed=renamed, alone=False)

    def _others(self) -> tuple[Fraction, Fraction]:
        """The least chances of another device's report of k bits, whatever bits it memoised."""
        own, other = self.rounds.composed
        one, zero = self.rounds.last.own, self.rounds.last.other
        alike = min(zero / other, (1 - one) / (1 - other))
        # The power is off by far less than a billionth for as many bits as a domain may have.
        further = Fraction(float(alike) ** (self.domain_size - 2) * (1 - 1e-9))
        rest = own * other + (1 - own) * (1 - other)
        third = rest * min(zero**2 / (own * other), (1 - one) ** 2 / ((1 - own) * (1 - other)))
        return zero * (1 - one) * further, third * further


def _same_bits(one: Fraction, bits: int) -> float:
    """P(so many bits, each 1 with one chance, are the same twice)."""
    return exp(bits * log(one**2 + (1 - one) ** 2))


@dataclass(frozen=True)
class Unary(FrequencyProtocol[int], ABC):
    """Independent randomised bits of the one-hot vector."""

    domain_size: int
    rounds: Rounds[BitChannel]

    @cached_property
    def guarantee(self) -> Guarantee:
        """Composed one-hot ratio for the first report; ε∞ per value, k values."""
        ratio, lasting = unary_ratio(*self.rounds.composed), self.rounds.lasting
        if lasting is None:
            return Guarantee(ratio, MemoisedInputs.NONE)
        return Guarantee(ratio, MemoisedInputs.VALUES, unary_ratio(*lasting), self.domain_size)

    @property
    def losses(self) -> BitLosses | None:
        return BitLosses(self.domain_size, self.rounds) if self.rounds.memoised else None

    @property
    def not_hidden(self) -> tuple[str, ...]:
        if not self.rounds.memoised:
            return super().not_hidden
        return (
            f"Changes and devices. Every report shows a memoised answer of {self.domain_size} bits through "
            "noise, so two reports tell whether they come from the same answer, the more surely the more "
            "values there are. At hundreds of values one report on each side shows most changes, and "
            "reports of a device can be linked. loloha hides both far better.",
            *super().not_hidden,
        )

    @cached_property
    def _bits(self) -> RandomisedBits:
        """The law of a report's bits: of the one round, or of both composed."""
        k = self.domain_size
        return RandomisedBits(k, k, SupportProbabilities(*self.rounds.composed))

    @cached_property
    def device(self) -> UnaryDevice:
        return UnaryDevice(self.domain_size, self.rounds, self._bits)

    @cached_property
    def counter(self) -> RandomisedBitsCounter:
        return RandomisedBitsCounter(self._bits)

    @cached_property
    def estimator(self) -> UnaryEstimator:
        counter, k, support = self.counter, self.domain_size, self._bits.support
        lasting = self.rounds.lasting
        if lasting is None:
            return UnaryEstimator(counter, k, support)
        formulas = "p1·p2 + (1 − p1)·q2", "q1·p2 + (1 − q1)·q2"
        return UnaryEstimator(counter, k, support, SupportProbabilities(*lasting), formulas=formulas)

    @cached_property
    def simulation(self) -> UnarySimulation:
        return UnarySimulation(self.device)

    @property
    def forgery(self) -> Forgery:
        return self._bits.forgery

    @cached_property
    def law(self) -> UnaryLaw:
        return UnaryLaw(self.domain_size, self.rounds)


class SUE(Unary):
    """Symmetric unary encoding (basic one-time RAPPOR)."""

    ID = 2
    NAME = "sue"
    PARAMETERS = ("epsilon",)
    SOURCE = "ALLOMFREE section 2.2.2"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> SUE:
        return cls(domain_size, Rounds(sue_round(parameters.level("epsilon"))))


class OUE(Unary):
    """Optimised unary encoding: the own bit is sent as 1 half of the time, the others rarely."""

    ID = 3
    NAME = "oue"
    PARAMETERS = ("epsilon",)
    SOURCE = "ALLOMFREE section 2.2.2"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> OUE:
        return cls(domain_size, Rounds(oue_round(parameters.level("epsilon"))))


class TwoRounds(Unary, ABC):
    """The L-UE family: a memoised round at ε∞, then the second one that leaves the first report at ε1."""

    PARAMETERS = ("epsilon_longitudinal", "epsilon_first")
    ROUNDS: ClassVar[tuple[Callable[[float], BitChannel], Callable[[BitChannel, float], BitChannel]]]

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> TwoRounds:
        first, second = cls.ROUNDS
        permanent = first(parameters.level("epsilon_longitudinal"))
        instant = second(permanent, parameters.level("epsilon_first"))
        return cls(domain_size, Rounds(instant, permanent))


class LSUE(TwoRounds):
    """SUE then a symmetric round, RAPPOR with exact levels: the composed channel is SUE(ε1)."""

    ID = 7
    NAME = "l_sue"
    SOURCE = "ALLOMFREE section 3.2.2 (RAPPOR)"
    ROUNDS = (sue_round, symmetric_second_round)


class LOSUE(TwoRounds):
    """OUE then a symmetric round."""

    ID = 8
    NAME = "l_osue"
    SOURCE = "ALLOMFREE section 3.2.2"
    ROUNDS = (oue_round, symmetric_second_round)


class LOUE(TwoRounds):
    """OUE then a second round (1/2, q2), which cannot reach every ε1."""

    ID = 9
    NAME = "l_oue"
    SOURCE = "ALLOMFREE section 3.2.2"
    ROUNDS = (oue_round, partial(half_second_round, name="l_oue"))


class LSOUE(TwoRounds):
    """SUE then a second round (1/2, q2), which cannot reach every ε1."""

    ID = 10
    NAME = "l_soue"
    SOURCE = "ALLOMFREE section 3.2.2"
    ROUNDS = (sue_round, partial(half_second_round, name="l_soue"))


class RAPPOR(Unary):
    """SUE then a given second round: RAPPOR as it was deployed, p2 = 0.75 and q2 = 0.25."""

    ID = 16
    NAME = "rappor"
    PARAMETERS = ("epsilon_longitudinal",)
    OPTIONAL = ("p2", "q2")
    SOURCE = "LOLOHA section 2.4.1 (Erlingsson, Pihur and Korolova, CCS 2014)"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> RAPPOR:
        """Permanent SUE(ε∞); p2 rounded down and q2 up to multiples of 2**-64 (exact from 2**-11 on)."""
        permanent = sue_round(parameters.level("epsilon_longitudinal"))
        p2, q2 = parameters.p2, parameters.q2
        if not 0 < q2 < p2 < 1:
            raise _second_round(p2, q2)
        one, zero = int(FULL * Fraction(p2)), -int(-FULL * Fraction(q2) // 1)
        if not zero < one:
            raise _second_round(p2, q2)
        return cls(domain_size, Rounds(BitChannel(one, zero), permanent))

    def resolved_parameters(self) -> dict[str, int | float | str]:
        return {"p2": float(self.rounds.last.own), "q2": float(self.rounds.last.other)}


def _second_round(p2: float, q2: float) -> CollectionError:
    return CollectionError(
        "E-COLLECTION-VALUE",
        f"p2 = {p2} and q2 = {q2} do not satisfy 0 < q2 < p2 < 1, so reports would say nothing or everything",
        key="p2" if p2 != Parameters.p2 else "q2",
        remedy="Leave both out for 0.75 and 0.25, or raise p2 above q2.",
    )
