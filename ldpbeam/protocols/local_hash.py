"""Local hashing: a report is a hash function and one randomised symbol (BLH, OLH, LOLOHA)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from ldpbeam.arrays import Bytes, Floats, Ints, read_only
from ldpbeam.channels.calibration import Calibration, symbol_second_round
from ldpbeam.channels.channel import SymbolChannel
from ldpbeam.errors import CollectionError, InvalidPayload, Reason
from ldpbeam.hashing import FAMILIES, HashFamily, optimal_prime
from ldpbeam.privacy.guarantee import Guarantee, Inputs
from ldpbeam.privacy.loss import SymbolLosses
from ldpbeam.protocols.contract import FleetAnswers, FleetWords, Memo, WordPlan, WordSpec
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.protocols.results import FrequencyProtocol
from ldpbeam.randomness import Randomness
from ldpbeam.support import Recurrence, SupportProbabilities

if TYPE_CHECKING:
    from ldpbeam.protocols.sum_laws import SumLaw


class Hashed(NamedTuple):
    """A local-hash response: which hash function, and the symbol it claims for the value."""

    seed: int
    symbol: int


@dataclass(frozen=True)
class LocalHash(FrequencyProtocol[Hashed]):
    """Randomised response on the hash of the value.

    Attributes:
        domain_size: k.
        family: the hash family with its g.
        instant: the round drawn for every report, over g symbols.
        permanent: the memoised round, over g symbols; None for one-round protocols, whose seed is fresh
            in every report.
    """

    ENCODING = "local_hash"

    domain_size: int
    family: HashFamily
    instant: SymbolChannel
    permanent: SymbolChannel | None = None

    @property
    def g(self) -> int:
        """Symbols of a hash."""
        return self.family.g

    @cached_property
    def _symbol(self) -> tuple[Fraction, Fraction]:
        """(own, other) over symbols, both rounds composed."""
        if self.permanent is None:
            return self.instant.own, self.instant.other
        return self.permanent.then(self.instant)

    @cached_property
    def support(self) -> SupportProbabilities:
        """own of the symbol; other = c·own + (1 − c)(1 − own)/(g − 1)."""
        return self._supported(*self._symbol)

    @property
    def lasting(self) -> SupportProbabilities | None:
        """The permanent round, and the hash function."""
        if self.permanent is None:
            return None
        return self._supported(self.permanent.own, self.permanent.other)

    @property
    def recurrence(self) -> Recurrence:
        """Two values with one hash have one answer.

        That is c·p(1−p) where v is involved, else c·q(1−q) − c²(p−q)² + t·(p−q)(1−2q); p and q are of the
        permanent round, c and t the chances that two and three values collide (docs/over-time.md).
        """
        if self.permanent is None:
            return Recurrence()
        p, q, c = float(self.permanent.own), float(self.permanent.other), float(self.family.collision)

        def apart(three: float) -> float:
            return c * q * (1 - q) - (c * (p - q)) ** 2 + three * (p - q) * (1 - 2 * q)

        average, least = self.family.collision_of_three
        # 1 − 2q is not negative, as q is at most 1/2.
        return Recurrence(c * p * (1 - p), apart(average), apart(least))

    def sum_law(self, weights: Floats, *, lasting: bool = False) -> SumLaw:
        """A report supports all values with its symbol."""
        from ldpbeam.protocols.sum_laws import HashedSymbol

        own, lie = self._symbol
        if lasting:
            assert self.permanent is not None  # noqa: S101 - asked of what is memoised only
            own, lie = self.permanent.own, self.permanent.other
        other = self._supported(own, lie).other
        return HashedSymbol(weights, float(own), float(other), float(lie), self.family)

    def _supported(self, own: Fraction, lie: Fraction) -> SupportProbabilities:
        collision = self.family.collision
        return SupportProbabilities(own, collision * own + (1 - collision) * lie)

    @cached_property
    def guarantee(self) -> Guarantee:
        """Composed symbol ratio for the first report; ε∞ per hash value, g of them."""
        ratio = self._symbol[0] / self._symbol[1]
        if self.permanent is None:
            return Guarantee(ratio, Inputs.NONE)
        return Guarantee(ratio, Inputs.SYMBOLS, self.permanent.ratio, self.g)

    @property
    def losses(self) -> SymbolLosses | None:
        """Inputs are the hash symbols that the values can reach under one function."""
        if self.permanent is None:
            return None
        return SymbolLosses(min(self.g, self.domain_size), self.permanent, self.instant)

    @property
    def not_hidden(self) -> tuple[str, ...]:
        """A hash function that is kept is in every report."""
        if self.permanent is None:
            return super().not_hidden
        return (self.family.linkability, *super().not_hidden)

    @property
    def payload_bits(self) -> int:
        """Seed and symbol."""
        return self.family.payload_bits

    def resolved_parameters(self) -> dict[str, int | float | str]:
        """The resolved g."""
        return {"g": self.g}

    def new_memo(self, randomness: Randomness) -> Memo:
        """A device draws its hash function once."""
        return Memo() if self.permanent is None else Memo(self._draw_seed(randomness))

    def _draw_seed(self, randomness: Randomness) -> int:
        limit = self.family.word_limit
        return self.family.seed([randomness.word(limit) for _ in range(self.family.SEED_WORDS)])

    def device_definition(self) -> dict[str, Any]:
        """The hash family and both rounds."""
        return {
            "hash": self.family.definition(),
            "permanent": None if self.permanent is None else self.permanent.definition(),
            "instant": self.instant.definition(),
        }

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[Hashed, Memo]:
        """The device's hash function and one symbol."""
        if self.permanent is None:
            seed = self._draw_seed(randomness)
            hashed = self.family.hash(seed, value)
            return Hashed(seed, self.instant.draw(hashed, randomness)), memo
        if memo.seed is None:
            raise ValueError(f"{self.NAME} needs the memo made by new_memo")
        hashed = self.family.hash(memo.seed, value)
        seed = memo.seed
        drawn = self.permanent.draw(hashed, randomness.permanent(hashed))
        answer, memo = self._memoised(memo, hashed, drawn)
        return Hashed(seed, self.instant.draw(answer, randomness)), memo

    def encode(self, response: Hashed) -> bytes:
        """As the family packs it."""
        return self.family.encode(*response)

    def decode(self, payload: bytes) -> Hashed:
        """Seed and symbol."""
        self._require_length(payload)
        decoded = self.family.decode(payload)
        if isinstance(decoded, Reason):
            raise InvalidPayload(decoded, f"no seed and symbol of the {self.family.NAME} family")
        return Hashed(*decoded)

    def likelihood(self, response: Hashed, value: int) -> Fraction:
        """P(symbol | value, seed)."""
        own, lie = self._symbol
        return own if self.supports(response, value) else lie

    def supports(self, response: Hashed, value: int) -> bool:
        """A report supports every value that its function maps to its symbol."""
        return self.family.hash(response.seed, value) == response.symbol

    def responses(self) -> Iterator[Hashed]:
        """All seeds and symbols, for families with few seeds."""
        return (Hashed(s, y) for s in self.family.seeds() for y in range(self.g))

    @property
    def counts_length(self) -> int:
        """As the family counts."""
        return self.family.counts_length

    def check(self, payloads: Bytes) -> Bytes:
        """Symbols and seeds that do not exist."""
        return self.family.check(read_only(payloads))

    def add_support(self, payloads: Bytes, counts: Ints) -> None:
        """Hash matching, or one increment in the linear family's table."""
        self.family.add_support(read_only(payloads), counts)

    @property
    def most_supported(self) -> int:
        """All values that one function maps to one symbol."""
        return self.family.largest_class

    @property
    def supported_variance(self) -> float:
        """From what is known of pairs of values; of triples only that they collide no more often than pairs.

        A report supports the n_y values with its symbol y. P(y | seed, x) is lie + (own − lie)·[y = H(x)], so
        E n_y² is lie·E Σ_y n_y² + (own − lie)·E n_H(x)². The first sum counts pairs that collide; in the
        second n_H(x) is at most the largest class.
        """
        k, c = self.domain_size, float(self.family.collision)
        own, lie = map(float, self._symbol)
        mean = float(self.support.own + (k - 1) * self.support.other)
        pairs = k + k * (k - 1) * c
        with_own = (1 + (k - 1) * c) * self.most_supported
        known = lie * pairs + (own - lie) * with_own - mean * mean
        return min(known, mean * (self.most_supported - mean)) if self.most_supported > mean else known

    @property
    def signs_length(self) -> int:
        """As the family counts seeds."""
        return self.family.signs_length

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        """As the family counts seeds."""
        self.family.add_signs(payloads, signs)

    def seed_cells(self, counts: Ints, signs: Ints) -> tuple[Ints, float]:
        """Seeds, or classes of them."""
        return self.family.seed_cells(counts, signs), 1.0

    def support_counts(self, counts: Ints) -> Ints:
        """As the family reads its accumulator."""
        return self.family.support_counts(counts)

    @cached_property
    def word_plan(self) -> WordPlan:
        """Those of the family's seed, drawn once for life where answers are memoised; one per round."""
        seed = WordSpec(self.family.SEED_WORDS, self.family.word_limit)
        permanent = None if self.permanent is None else WordSpec(1, self.permanent.total)
        return WordPlan(WordSpec(1, self.instant.total), permanent, seed, seed_per_report=permanent is None)

    def privatize_fleet(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        """See the contract; the memo key is device·g + hash."""
        instant, once, seed, _ = self.word_plan
        assert seed is not None  # noqa: S101 - of every plan of these
        seeds = self.family.seed_columns(words.seed(seed))
        hashed = self.family.hash_many(seeds, values)
        answers = hashed
        permanent = self.permanent
        if permanent is not None and once is not None:

            def draw(rows: Ints) -> Ints:
                return permanent.draw_many(hashed[rows], words.permanent(once)[rows, 0])

            answers = memo.recall(devices * self.g + hashed, draw)
        drawn = self.instant.draw_many(answers, words.instant(instant)[:, 0])
        return self.family.pack(seeds, drawn)


def _family(name: str, g: int, domain_size: int) -> HashFamily:
    if name not in FAMILIES:
        raise CollectionError(
            "E-COLLECTION-HASH",
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
    """The g of least V* for local hashing whose first report spends ε1.

    Args:
        domain_size: k; matters to the linear family only.
        epsilon_first: ε1 (ε for one-round protocols).
        hash_family: ``linear`` searches primes; ``affine`` rounds e^{ε1} + 1 to the nearest integer.
        epsilon_longitudinal: ε∞ when the *published* calibration of LOLOHA is used: LOLOHA Eq. (6).
    """
    if epsilon_longitudinal is not None:
        a, b = exp(epsilon_longitudinal), exp(epsilon_first)
        root = sqrt(a**4 - 14 * a**2 + 12 * a * b * (1 - a * b) + 12 * a**3 * b + 1)
        return 1 + max(1, _nearest((1 - a**2 + root) / (6 * (a - b))))
    if hash_family == "linear":
        return optimal_prime(domain_size, epsilon_first)
    return min(max(2, _nearest(exp(min(epsilon_first, 12.0)) + 1)), 1 << 16)


def _nearest(number: float) -> int:
    return int(number + 0.5)


class BLH(LocalHash):
    """Binary local hashing, one round, g = 2."""

    ID = 4
    NAME = "blh"
    PARAMETERS = ("epsilon",)
    OPTIONAL = ("hash_family",)
    SOURCE = "LOLOHA section 2.3.2"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> BLH:
        """GRR(ε) over two symbols."""
        channel = SymbolChannel.from_epsilon(2, parameters.level("epsilon"))
        return cls(domain_size, _family(parameters.hash_family, 2, domain_size), channel)


class OLH(LocalHash):
    """Local hashing with the best g (or a given one), one round."""

    ID = 5
    NAME = "olh"
    PARAMETERS = ("epsilon",)
    OPTIONAL = ("hash_family", "g")
    SOURCE = "LOLOHA section 2.3.2"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> OLH:
        """GRR(ε) over g symbols, g = round(e^ε + 1) or the best prime."""
        epsilon = parameters.level("epsilon")
        g = parameters.g or optimal_g(domain_size, epsilon, parameters.hash_family)
        family = _family(parameters.hash_family, g, domain_size)
        return cls(domain_size, family, SymbolChannel.from_epsilon(g, epsilon))


class LOLOHA(LocalHash):
    """Two rounds over the hash of the value; the memo holds at most g answers for life.

    BiLOLOHA is g = 2, OLOLOHA is g: optimal.
    """

    ID = 11
    NAME = "loloha"
    PARAMETERS = ("epsilon_longitudinal", "epsilon_first")
    OPTIONAL = ("g", "calibration", "hash_family")
    SOURCE = "LOLOHA Algorithm 1; exact calibration: docs/maths.md correction 1"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> LOLOHA:
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
        family = _family(name, g, domain_size)
        permanent = SymbolChannel.from_epsilon(g, longitudinal)
        second = symbol_second_round(permanent, first, parameters.calibration)
        return cls(domain_size, family, second, permanent)
