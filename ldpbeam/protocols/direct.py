"""Direct encoding: a report is one value of the domain (GRR, and L-GRR over two rounds)."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ldpbeam.arrays import Bytes, Floats, Ints, read_only
from ldpbeam.channels.calibration import symbol_second_round
from ldpbeam.channels.channel import SymbolChannel
from ldpbeam.channels.rounds import Rounds
from ldpbeam.errors import InvalidPayload, Reason
from ldpbeam.privacy.guarantee import Guarantee, MemoisedInputs
from ldpbeam.privacy.loss import SymbolLosses
from ldpbeam.privacy.randomiser import Randomiser, other_symbols
from ldpbeam.protocols.contract import FrequencyProtocol
from ldpbeam.protocols.counter import Counter
from ldpbeam.protocols.device import Memo, ProtocolDevice
from ldpbeam.protocols.estimator import FrequencyEstimator
from ldpbeam.protocols.forgery import Forgery
from ldpbeam.protocols.history_model import PairModel, for_life, stratum_of
from ldpbeam.protocols.law import FrequencyLaw, Kinds
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.protocols.simulation import (
    FleetAnswers,
    FleetWords,
    Simulation,
    WordPlan,
    WordSpec,
    draw_symbols,
)
from ldpbeam.randomness import Randomness
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.protocols.sum_laws import SumLaw


@dataclass(frozen=True)
class DirectDevice(ProtocolDevice[int]):
    """A response is one value; each round keeps its input or names another one."""

    ENCODING = "direct"

    domain_size: int
    rounds: Rounds[SymbolChannel]

    @property
    def payload_bits(self) -> int:
        return (self.domain_size - 1).bit_length()

    def definition(self) -> dict[str, Any]:
        """The integers of both rounds, as decimal text; None for a missing round."""
        return self.rounds.definition()

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[int, Memo]:
        permanent, answer = self.rounds.permanent, value
        if permanent is not None:
            answer, memo = self._memoised(memo, value, permanent.draw(value, randomness.permanent(value)))
        return self.rounds.last.draw(answer, randomness), memo

    def encode(self, response: int) -> bytes:
        return response.to_bytes(self.payload_size, "little")

    def decode(self, payload: bytes) -> int:
        self._require_length(payload)
        response = int.from_bytes(payload, "little")
        if response >= self.domain_size:
            raise InvalidPayload(Reason.VALUE_OUT_OF_RANGE, f"indices end at {self.domain_size - 1}")
        return response


@dataclass(frozen=True)
class DirectCounter(Counter):
    """One cell per value, one increment per report."""

    domain_size: int
    payload_size: int

    @property
    def counts_length(self) -> int:
        return self.domain_size

    def check(self, payloads: Bytes) -> Bytes:
        from ldpbeam.kernels import symbols

        return symbols.check_below(read_only(payloads), self.domain_size)

    def add(self, payloads: Bytes, counts: Ints) -> None:
        from ldpbeam.kernels import symbols

        symbols.add_at(read_only(payloads), counts)

    def steps(self, reports: float) -> float:
        return reports


class DirectEstimator(FrequencyEstimator):
    """A report supports the value that it names, and no other."""

    EXCLUSIVE = True

    def sum_law(self, weights: Floats, *, lasting: bool = False) -> SumLaw:
        from ldpbeam.protocols.sum_laws import OneSymbol

        probabilities = self.lasting if lasting else self.support
        assert probabilities is not None  # noqa: S101 - asked of what is memoised only
        return OneSymbol(weights, float(probabilities.own), float(probabilities.other))


@dataclass(frozen=True)
class DirectSimulation(Simulation):
    """A word for each round of each device."""

    device: DirectDevice

    @cached_property
    def word_plan(self) -> WordPlan:
        permanent, last = self.device.rounds.permanent, self.device.rounds.last
        return WordPlan(WordSpec(1, last.total), None if permanent is None else WordSpec(1, permanent.total))

    def privatize(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        """See :class:`Simulation`; the memo key is device·k + value."""
        from ldpbeam.kernels import symbols

        drawn = draw_symbols(self.device.rounds, self.word_plan, devices, values, words, memo)
        return symbols.pack(drawn.astype("u8"), self.device.payload_size)


@dataclass(frozen=True)
class DirectLaw(FrequencyLaw[int]):
    """Randomised response, once or twice."""

    domain_size: int
    rounds: Rounds[SymbolChannel]

    def likelihood(self, response: int, value: int) -> Fraction:
        own, other = self.rounds.composed
        return own if response == value else other

    def supports(self, response: int, value: int) -> bool:
        return response == value

    def responses(self) -> Iterator[int]:
        return iter(range(self.domain_size))

    def model(self, pair: tuple[int, int]) -> PairModel:
        v, w = pair

        def placed(response: int) -> tuple[int, int]:
            return 0, 0 if response == v else 1 if response == w else 2

        return for_life(PairModel(pair, placed, (stratum_of((0, 1), self.rounds.rows(2)),)))

    def best_guess(self, reports: int) -> float:
        from ldpbeam.privacy.guess_laws import symbols

        return symbols(self.rounds, self.domain_size, reports) / self.domain_size

    def equal_responses(self, value: Any) -> Kinds:
        return ((1.0, float(self.rounds.last.same_twice)),)

    def one_epoch(self, *, renamed: bool, alone: bool) -> Randomiser:
        own, other = self.rounds.composed
        others = other_symbols(self.rounds.last) if self.rounds.memoised and not alone else None
        return Randomiser(own / other, own - other, 1, others)

    def many_epochs(self, *, renamed: bool) -> Randomiser:
        last = self.rounds.last
        others = other_symbols(last) if self.rounds.memoised else None
        return Randomiser(last.ratio, last.own - last.other, 1, others)


@dataclass(frozen=True)
class Direct(FrequencyProtocol[int], ABC):
    """Randomised response over the domain itself."""

    domain_size: int
    rounds: Rounds[SymbolChannel]

    @cached_property
    def guarantee(self) -> Guarantee:
        """Composed ratio for the first report; ε∞ per value, k values."""
        (own, other), permanent = self.rounds.composed, self.rounds.permanent
        if permanent is None:
            return Guarantee(own / other, MemoisedInputs.NONE)
        return Guarantee(own / other, MemoisedInputs.VALUES, permanent.ratio, self.domain_size)

    @property
    def losses(self) -> SymbolLosses | None:
        return SymbolLosses(self.domain_size, self.rounds) if self.rounds.memoised else None

    @property
    def not_hidden(self) -> tuple[str, ...]:
        if not self.rounds.memoised:
            return super().not_hidden
        return (
            f"Changes, over several reports. A memoised answer is one of {self.domain_size} values and shows "
            "through again and again; where there are many, few reports on each side of a change show it.",
            *super().not_hidden,
        )

    @cached_property
    def device(self) -> DirectDevice:
        return DirectDevice(self.domain_size, self.rounds)

    @cached_property
    def counter(self) -> DirectCounter:
        return DirectCounter(self.domain_size, self.device.payload_size)

    @cached_property
    def estimator(self) -> DirectEstimator:
        """(own, other) of the one round, or of both composed: own = p1·p2 + (k − 1)·q1·q2."""
        lasting = self.rounds.lasting
        return DirectEstimator(
            self.counter,
            self.domain_size,
            SupportProbabilities(*self.rounds.composed),
            None if lasting is None else SupportProbabilities(*lasting),
        )

    @cached_property
    def simulation(self) -> DirectSimulation:
        return DirectSimulation(self.device)

    @property
    def forgery(self) -> Forgery:
        return Forgery(ends=self.estimator.support, most_supported=1, asked_about=self.domain_size)

    @cached_property
    def law(self) -> DirectLaw:
        return DirectLaw(self.domain_size, self.rounds)


class GRR(Direct):
    """Generalised randomised response, one round."""

    ID = 1
    NAME = "grr"
    PARAMETERS = ("epsilon",)
    SOURCE = "ALLOMFREE section 2.2.1"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> GRR:
        return cls(domain_size, Rounds(SymbolChannel.from_epsilon(domain_size, parameters.level("epsilon"))))


class LGRR(Direct):
    """Two chained GRR rounds over the domain."""

    ID = 6
    NAME = "l_grr"
    PARAMETERS = ("epsilon_longitudinal", "epsilon_first")
    OPTIONAL = ("calibration",)
    SOURCE = "ALLOMFREE section 3.2.1; exact calibration: ldpbeam docs maths, correction 1"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> LGRR:
        """Permanent GRR(ε∞), instantaneous GRR calibrated to ε1."""
        permanent = SymbolChannel.from_epsilon(domain_size, parameters.level("epsilon_longitudinal"))
        first = parameters.level("epsilon_first")
        instant = symbol_second_round(permanent, first, parameters.calibration)
        return cls(domain_size, Rounds(instant, permanent))
