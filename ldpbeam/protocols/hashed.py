"""Local hashing: a report is a hash function and one randomised symbol about the value's hash.

This is what all hash families have in common: devices, counts, fleets, laws and guarantees. What the server
makes of the counts depends on the family: frequencies of values (:mod:`ldpbeam.protocols.local_hash`), or the
distribution over a domain that has an order (:mod:`ldpbeam.protocols.interval_hash`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import exp, sqrt
from typing import Any, NamedTuple

from ldpbeam.arrays import Bytes, Ints, read_only
from ldpbeam.channels.calibration import Calibration, symbol_second_round
from ldpbeam.channels.channel import SymbolChannel
from ldpbeam.channels.rounds import Rounds
from ldpbeam.errors import CollectionError, InvalidPayload, Reason
from ldpbeam.hashing import FAMILIES, HashFamily, ListedFamily, optimal_prime, optimal_stretches
from ldpbeam.privacy.guarantee import Guarantee, MemoisedInputs
from ldpbeam.privacy.loss import SymbolLosses
from ldpbeam.privacy.randomiser import Randomiser, other_symbols
from ldpbeam.protocols.contract import SupportProtocol
from ldpbeam.protocols.counter import Counter
from ldpbeam.protocols.device import Memo, ProtocolDevice
from ldpbeam.protocols.history_model import PairModel, for_life, stratum_of
from ldpbeam.protocols.law import Event, FrequencyLaw, Kinds, ShownAnswer
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


class Hashed(NamedTuple):
    """A local-hash response: which hash function, and the symbol it claims for the value."""

    seed: int
    symbol: int


@dataclass(frozen=True)
class LocalHashDevice(ProtocolDevice[Hashed]):
    ENCODING = "local_hash"

    domain_size: int
    family: HashFamily
    rounds: Rounds[SymbolChannel]

    @property
    def payload_bits(self) -> int:
        return self.family.payload_bits

    @property
    def functions_for_life(self) -> int | None:
        return self.family.functions if self.rounds.memoised else None

    def new_memo(self, randomness: Randomness) -> Memo:
        return Memo(self._draw_seed(randomness)) if self.rounds.memoised else Memo()

    def _draw_seed(self, randomness: Randomness) -> int:
        limit = self.family.word_limit
        return self.family.seed([randomness.word(limit) for _ in range(self.family.SEED_WORDS)])

    def definition(self) -> dict[str, Any]:
        return {"hash": self.family.definition(), **self.rounds.definition()}

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[Hashed, Memo]:
        permanent, last = self.rounds.permanent, self.rounds.last
        if permanent is None:
            seed = self._draw_seed(randomness)
            return Hashed(seed, last.draw(self.family.hash(seed, value), randomness)), memo
        if memo.seed is None:
            raise ValueError("a device with a hash function for life needs the memo made by new_memo")
        seed, hashed = memo.seed, self.family.hash(memo.seed, value)
        drawn = permanent.draw(hashed, randomness.permanent(hashed))
        answer, memo = self._memoised(memo, hashed, drawn)
        return Hashed(seed, last.draw(answer, randomness)), memo

    def encode(self, response: Hashed) -> bytes:
        return self.family.encode(*response)

    def decode(self, payload: bytes) -> Hashed:
        self._require_length(payload)
        decoded = self.family.decode(payload)
        if isinstance(decoded, Reason):
            raise InvalidPayload(decoded, f"no seed and symbol of the {self.family.NAME} family")
        return Hashed(*decoded)


@dataclass(frozen=True)
class LocalHashCounter(Counter):
    family: HashFamily

    @property
    def counts_length(self) -> int:
        return self.family.counts_length

    @property
    def signs_length(self) -> int:
        return self.family.signs_length

    def check(self, payloads: Bytes) -> Bytes:
        return self.family.check(read_only(payloads))

    def add(self, payloads: Bytes, counts: Ints) -> None:
        self.family.add_support(read_only(payloads), counts)

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        self.family.add_signs(payloads, signs)

    def support_counts(self, counts: Ints) -> Ints:
        return self.family.support_counts(counts)

    def seed_cells(self, counts: Ints, signs: Ints) -> tuple[Ints, float]:
        return self.family.seed_cells(counts, signs), 1.0

    def steps(self, reports: float) -> float:
        return self.family.steps(reports)


@dataclass(frozen=True)
class LocalHashSimulation(Simulation):
    """Words of a function, and one for each round of each device."""

    device: LocalHashDevice

    @cached_property
    def word_plan(self) -> WordPlan:
        family, rounds = self.device.family, self.device.rounds
        seed = WordSpec(family.SEED_WORDS, family.word_limit)
        once = None if rounds.permanent is None else WordSpec(1, rounds.permanent.total)
        return WordPlan(WordSpec(1, rounds.last.total), once, seed, seed_per_report=once is None)

    def privatize(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        """See :class:`Simulation`; the memo key is device·g + hash."""
        plan, family = self.word_plan, self.device.family
        seed = plan.seed
        assert seed is not None  # noqa: S101 - of every plan of these
        seeds = family.seed_columns(words.seed(seed))
        hashed = family.hash_many(seeds, values)
        return family.pack(seeds, draw_symbols(self.device.rounds, plan, devices, hashed, words, memo))


@dataclass(frozen=True)
class HashedLaw(FrequencyLaw[Hashed], ABC):
    """Randomised response on the hash of the value, given the function."""

    domain_size: int
    family: HashFamily
    rounds: Rounds[SymbolChannel]

    def likelihood(self, response: Hashed, value: int) -> Fraction:
        own, lie = self.rounds.composed
        return own if self.supports(response, value) else lie

    def supports(self, response: Hashed, value: int) -> bool:
        return self.family.hash(response.seed, value) == response.symbol

    def responses(self) -> Iterator[Hashed]:
        family = self.family
        return (Hashed(s, y) for s in family.seeds() for y in range(family.g))

    def model(self, pair: tuple[int, int]) -> PairModel:
        (v, w), family = pair, self.family

        def placed(response: Hashed) -> tuple[int, int]:
            first, second = family.hash(response.seed, v), family.hash(response.seed, w)
            if first == second:
                return 1, 0 if response.symbol == first else 1
            return 0, 0 if response.symbol == first else 1 if response.symbol == second else 2

        c = family.collides(v, w)
        kinds = (
            stratum_of((0, 1), self.rounds.rows(2), "separated", 1 - c),
            stratum_of((0, 0), self.rounds.rows(1), "not separated", c, one_input=True),
        )
        drawn = Fraction(1, family.functions)
        return for_life(PairModel(pair, placed, kinds, lambda response: response.seed, drawn))

    def best_guess(self, reports: int) -> float:
        from ldpbeam.privacy.guess_laws import symbols

        if not self.rounds.memoised and reports > 1:
            return self.guess_from_functions(reports)
        right = (share * symbols(self.rounds, r, reports) for r, share in self.family.reached.items())
        return sum(right) / self.domain_size

    @abstractmethod
    def guess_from_functions(self, reports: int) -> float:
        """:meth:`best_guess` of two or more reports, each with a function of its own."""

    def guess_is_exact(self, reports: int) -> bool:
        """Of a family with few functions, unless a device shows several: what others reach is a bound."""
        few = self.family.classes is not None
        return few and (reports == 1 or self.rounds.memoised)

    def equal_responses(self, value: Any) -> Kinds:
        same = self.rounds.last.same_twice
        if not self.rounds.memoised:
            same /= self.family.functions
        return ((1.0, float(same)),)

    def drawn(self) -> Iterator[Event]:
        return ((what, _seed_in(there), chance) for what, there, chance in self.family.seed_events())

    def shown_answers(self, value: int, most: int) -> Iterator[ShownAnswer]:
        permanent, last = self.rounds.permanent, self.rounds.last
        if permanent is None:
            return

        def hashed(response: Hashed) -> int:
            return self.family.hash(response.seed, value)

        chances = float(permanent.own), float(1 - permanent.own)
        rates = tuple((float(p), 1 - float(p)) for p in (last.own, last.other))
        yield ShownAnswer(
            "answers to one hash",
            chances,
            rates,
            memoised=True,
            symbol=lambda response: int(response.symbol != hashed(response)),
            input=hashed,
        )

    def one_epoch(self, *, renamed: bool, alone: bool) -> Randomiser | None:
        own, other = self.rounds.composed
        if alone or not self.rounds.memoised:
            # Of the two values that functions separate most often.
            return Randomiser(own / other, (1 - self.family.least_collision) * (own - other))
        functions = self._crowds(renamed=renamed)
        if functions is None:
            return None
        return Randomiser(own / other, own - other, functions, other_symbols(self.rounds.last))

    def many_epochs(self, *, renamed: bool) -> Randomiser | None:
        first, last = self.one_epoch(renamed=renamed, alone=False), self.rounds.last
        if first is None or not self.rounds.memoised:
            return first
        return replace(first, ratio=last.ratio, distance=last.own - last.other)

    def _crowds(self, *, renamed: bool) -> int | None:
        """Functions by which devices are told apart; None where no two devices share one."""
        family = self.family
        return family.classes if renamed else family.functions if family.classes is not None else None


def _seed_in(there: Callable[[int], bool]) -> Callable[[Any], bool]:
    return lambda response: there(response.seed)


@dataclass(frozen=True)
class HashedProtocol(SupportProtocol[Hashed], ABC):
    """Randomised response on the hash of the value."""

    domain_size: int
    family: HashFamily
    rounds: Rounds[SymbolChannel]

    @classmethod
    @abstractmethod
    def of_rounds(cls, domain_size: int, chosen: FamilyAndRounds) -> HashedProtocol:
        """The protocol with a family and rounds; what the counts say depends on the family."""

    @property
    def g(self) -> int:
        return self.family.g

    @property
    def symbol(self) -> tuple[Fraction, Fraction]:
        """(own, other) over symbols, both rounds composed."""
        return self.rounds.composed

    def supported(self, value: int, held: int) -> Fraction:
        own, lie = self.symbol
        together = self.family.collides(value, held)
        return together * own + (1 - together) * lie

    @cached_property
    def guarantee(self) -> Guarantee:
        """Composed symbol ratio for the first report; ε∞ per hash value, g of them."""
        ratio, permanent = self.symbol[0] / self.symbol[1], self.rounds.permanent
        if permanent is None:
            return Guarantee(ratio, MemoisedInputs.NONE)
        return Guarantee(ratio, MemoisedInputs.SYMBOLS, permanent.ratio, self.g)

    @property
    def losses(self) -> SymbolLosses | None:
        inputs = min(self.g, self.domain_size)
        return SymbolLosses(inputs, self.rounds) if self.rounds.memoised else None

    @property
    @abstractmethod
    def worth(self) -> float:
        """How much a report tells, up to a factor that is the same for every g: of how many devices it is."""

    @property
    def not_hidden(self) -> tuple[str, ...]:
        if not self.rounds.memoised:
            return super().not_hidden
        return (self.family.linkability, *super().not_hidden)

    def resolved_parameters(self) -> dict[str, int | float | str]:
        return {"g": self.g}

    @cached_property
    def device(self) -> LocalHashDevice:
        return LocalHashDevice(self.domain_size, self.family, self.rounds)

    @cached_property
    def counter(self) -> LocalHashCounter:
        return LocalHashCounter(self.family)

    @cached_property
    def simulation(self) -> LocalHashSimulation:
        return LocalHashSimulation(self.device)


def _hash_family(name: str, g: int, domain_size: int) -> HashFamily:
    if name == ListedFamily.NAME:  # which no file names: it is that of strings
        return ListedFamily(g, domain_size)
    if name not in FAMILIES:
        raise CollectionError(
            "E-COLLECTION-VALUE",
            f"hash_family {name!r} does not exist",
            key="hash_family",
            remedy=f"Use one of: {', '.join(FAMILIES)}.",
        )
    return FAMILIES[name](g, domain_size)


def optimal_g(
    domain_size: int,
    epsilon_first: float,
    hash_family: str = "affine",
    epsilon_longitudinal: float | None = None,
) -> int:
    """The best g for local hashing whose first report spends ε1: of least V*, or of most information."""
    if epsilon_longitudinal is not None:
        a, b = exp(epsilon_longitudinal), exp(epsilon_first)
        root = sqrt(a**4 - 14 * a**2 + 12 * a * b * (1 - a * b) + 12 * a**3 * b + 1)
        return 1 + max(1, _nearest((1 - a**2 + root) / (6 * (a - b))))
    if hash_family == "linear":
        return optimal_prime(domain_size, epsilon_first)
    if hash_family == "interval":
        return optimal_stretches(domain_size, epsilon_first)
    return min(max(2, _nearest(exp(min(epsilon_first, 12.0)) + 1)), 1 << 16)


def _nearest(number: float) -> int:
    return int(number + 0.5)


FamilyAndRounds = tuple[HashFamily, Rounds[SymbolChannel]]
"""What the parameters of a collection make of a protocol, in the order of its fields."""


def one_round(domain_size: int, parameters: Parameters, g: int | None = None) -> FamilyAndRounds:
    """GRR(ε) over g symbols: as many as the protocol says, or the collection, or the best number."""
    epsilon = parameters.level("epsilon")
    g = g or parameters.g or optimal_g(domain_size, epsilon, parameters.hash_family)
    family = _hash_family(parameters.hash_family, g, domain_size)
    return family, Rounds(SymbolChannel.from_epsilon(g, epsilon))


def two_rounds(domain_size: int, parameters: Parameters) -> FamilyAndRounds:
    """Permanent GRR(ε∞) over g symbols, second round calibrated to ε1."""
    longitudinal = parameters.level("epsilon_longitudinal")
    first = parameters.level("epsilon_first")
    if first >= longitudinal:
        # The same complaint whatever g is, before g is derived from the levels.
        symbol_second_round(SymbolChannel.from_epsilon(2, longitudinal), first, parameters.calibration)
    name = parameters.hash_family
    g = parameters.g
    if g is None:
        published = parameters.calibration is Calibration.PUBLISHED and name == "affine"
        g = optimal_g(domain_size, first, name, longitudinal if published else None)
    family = _hash_family(name, g, domain_size)
    permanent = SymbolChannel.from_epsilon(g, longitudinal)
    return family, Rounds(symbol_second_round(permanent, first, parameters.calibration), permanent)


class BinaryHash(HashedProtocol, ABC):
    """GRR(ε) over the two symbols of a hash."""

    ID = 4
    NAME = "blh"
    PARAMETERS = ("epsilon",)
    OPTIONAL = ("hash_family",)

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> HashedProtocol:
        return cls.of_rounds(domain_size, one_round(domain_size, parameters, 2))


class OptimalHash(HashedProtocol, ABC):
    """GRR(ε) over g symbols, see :func:`optimal_g`."""

    ID = 5
    NAME = "olh"
    PARAMETERS = ("epsilon",)
    OPTIONAL = ("hash_family", "g")

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> HashedProtocol:
        return cls.of_rounds(domain_size, one_round(domain_size, parameters))


class LongitudinalHash(HashedProtocol, ABC):
    """Permanent GRR(ε∞) over g symbols, second round calibrated to ε1; the memo holds at most g answers."""

    ID = 11
    NAME = "loloha"
    PARAMETERS = ("epsilon_longitudinal", "epsilon_first")
    OPTIONAL = ("g", "calibration", "hash_family")

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> HashedProtocol:
        return cls.of_rounds(domain_size, two_rounds(domain_size, parameters))
