"""Direct encoding: a report is one value of the domain (GRR, and L-GRR over two rounds)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from ldpbeam.arrays import Bytes, Floats, Ints, integers, read_only
from ldpbeam.channels.calibration import symbol_second_round
from ldpbeam.channels.channel import SymbolChannel
from ldpbeam.errors import InvalidPayload, Reason
from ldpbeam.privacy.guarantee import Guarantee, Inputs
from ldpbeam.privacy.loss import SymbolLosses
from ldpbeam.protocols.contract import FleetAnswers, FleetWords, Memo, WordPlan, WordSpec
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.protocols.results import FrequencyProtocol
from ldpbeam.randomness import Randomness
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.protocols.sum_laws import SumLaw


@dataclass(frozen=True)
class Direct(FrequencyProtocol[int]):
    """Randomised response over the domain itself.

    Attributes:
        domain_size: k.
        instant: the round drawn for every report.
        permanent: the memoised round; None for one-round protocols.
    """

    EXCLUSIVE: ClassVar[bool] = True
    ENCODING = "direct"

    domain_size: int
    instant: SymbolChannel
    permanent: SymbolChannel | None = None

    @cached_property
    def support(self) -> SupportProbabilities:
        """The composed channel's (own, other)."""
        if self.permanent is None:
            return SupportProbabilities(self.instant.own, self.instant.other)
        return SupportProbabilities(*self.permanent.then(self.instant))

    @property
    def lasting(self) -> SupportProbabilities | None:
        """The permanent round."""
        if self.permanent is None:
            return None
        return SupportProbabilities(self.permanent.own, self.permanent.other)

    def sum_law(self, weights: Floats, *, lasting: bool = False) -> SumLaw:
        """One value has the report."""
        from ldpbeam.protocols.sum_laws import OneSymbol

        found = self.lasting if lasting else self.support
        assert found is not None  # noqa: S101 - asked of what is memoised only
        return OneSymbol(weights, float(found.own), float(found.other))

    @cached_property
    def guarantee(self) -> Guarantee:
        """Composed ratio for the first report; ε∞ per value, k values."""
        ratio = self.support.own / self.support.other
        if self.permanent is None:
            return Guarantee(ratio, Inputs.NONE)
        return Guarantee(ratio, Inputs.VALUES, self.permanent.ratio, self.domain_size)

    @property
    def losses(self) -> SymbolLosses | None:
        """Inputs and symbols are the values."""
        if self.permanent is None:
            return None
        return SymbolLosses(self.domain_size, self.permanent, self.instant)

    @property
    def not_hidden(self) -> tuple[str, ...]:
        """Among many symbols an answer is recognised when it comes again."""
        if self.permanent is None:
            return super().not_hidden
        return (
            f"Changes, over several reports. A memoised answer is one of {self.domain_size} values and shows "
            "through again and again; where there are many, few reports on each side of a change show it.",
            *super().not_hidden,
        )

    @property
    def payload_bits(self) -> int:
        """Bits of a value index."""
        return (self.domain_size - 1).bit_length()

    def device_definition(self) -> dict[str, Any]:
        """Both rounds."""
        permanent = None if self.permanent is None else self.permanent.definition()
        return {"permanent": permanent, "instant": self.instant.definition()}

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[int, Memo]:
        """One value of the domain."""
        if self.permanent is None:
            return self.instant.draw(value, randomness), memo
        answer, memo = self._memoised(memo, value, self.permanent.draw(value, randomness.permanent(value)))
        return self.instant.draw(answer, randomness), memo

    def encode(self, response: int) -> bytes:
        """Little-endian index."""
        return response.to_bytes(self.payload_size, "little")

    def decode(self, payload: bytes) -> int:
        """The index in the payload."""
        self._require_length(payload)
        response = int.from_bytes(payload, "little")
        if response >= self.domain_size:
            raise InvalidPayload(Reason.VALUE_OUT_OF_RANGE, f"indices end at {self.domain_size - 1}")
        return response

    @property
    def most_supported(self) -> int:
        """The value that a report equals."""
        return 1

    @property
    def supported_variance(self) -> float | None:
        """Always one value."""
        return None

    def likelihood(self, response: int, value: int) -> Fraction:
        """P(support | own value) for the value that the report is, else P(support | another)."""
        return self.support.own if response == value else self.support.other

    def supports(self, response: int, value: int) -> bool:
        """A report supports the value it equals."""
        return response == value

    def responses(self) -> Iterator[int]:
        """Every value of the domain."""
        return iter(range(self.domain_size))

    def check(self, payloads: Bytes) -> Bytes:
        """Indices of k or more do not exist."""
        import numpy as np

        # All are sound, as nearly always, where the largest is.
        width = self.payload_size
        if payloads.size and width <= 2 and integers(payloads, width).max() < self.domain_size:
            return np.zeros(len(payloads), np.uint8)
        from ldpbeam.kernels import symbols

        return symbols.check_below(read_only(payloads), self.domain_size)

    def add_support(self, payloads: Bytes, counts: Ints) -> None:
        """One increment per report."""
        from ldpbeam.kernels import symbols

        symbols.add_at(read_only(payloads), counts)

    @cached_property
    def word_plan(self) -> WordPlan:
        """One word for each round."""
        permanent = None if self.permanent is None else WordSpec(1, self.permanent.total)
        return WordPlan(WordSpec(1, self.instant.total), permanent)

    def privatize_fleet(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        """See the contract; the memo key is device·k + value."""
        from ldpbeam.kernels import symbols

        instant, once, *_ = self.word_plan
        permanent = self.permanent
        answers = values
        if permanent is not None and once is not None:

            def draw(rows: Ints) -> Ints:
                return permanent.draw_many(values[rows], words.permanent(once)[rows, 0])

            answers = memo.recall(devices * self.domain_size + values, draw)
        drawn = self.instant.draw_many(answers, words.instant(instant)[:, 0])
        return symbols.pack(drawn.astype("u8"), self.payload_size)


class GRR(Direct):
    """Generalised randomised response, one round."""

    ID = 1
    NAME = "grr"
    PARAMETERS = ("epsilon",)
    SOURCE = "ALLOMFREE section 2.2.1"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> GRR:
        """p = e^ε/(e^ε+k−1), q = 1/(e^ε+k−1)."""
        return cls(domain_size, SymbolChannel.from_epsilon(domain_size, parameters.level("epsilon")))


class LGRR(Direct):
    """Two chained GRR rounds over the domain."""

    ID = 6
    NAME = "l_grr"
    PARAMETERS = ("epsilon_longitudinal", "epsilon_first")
    OPTIONAL = ("calibration",)
    SOURCE = "ALLOMFREE section 3.2.1; exact calibration: docs/maths.md correction 1"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> LGRR:
        """Permanent GRR(ε∞), instantaneous GRR calibrated to ε1."""
        permanent = SymbolChannel.from_epsilon(domain_size, parameters.level("epsilon_longitudinal"))
        first = parameters.level("epsilon_first")
        return cls(domain_size, symbol_second_round(permanent, first, parameters.calibration), permanent)
