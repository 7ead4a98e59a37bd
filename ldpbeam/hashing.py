"""The two hash families of local hashing, for devices and servers alike (MATHS section 3).

Privacy never depends on the hash. What the estimator needs is the exact probability ``collision`` that two
different values share a hash; with it, P(support | another value) = c·own + (1 − c)(1 − own)/(g − 1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp
from typing import TYPE_CHECKING, ClassVar

from ldpbeam.degenerate import CELLS, add_seeds, is_degenerate, ordinary, ordinary_many, refuse_multipliers
from ldpbeam.errors import CollectionError, Reason
from ldpbeam.randomness import FULL

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FAMILIES", "AffineFamily", "HashFamily", "LinearFamily", "is_prime", "optimal_prime"]

_HALF = 1 << 32
_MAX_OPTIMAL = 1 << 12  # beyond it the lifetime cap g·ε∞ is out of proportion
_MAX_CELLS = 1 << 28  # of the linear family's table: 2 GiB


@dataclass(frozen=True)
class HashFamily(ABC):
    """A family of functions from the domain to g symbols; a seed picks one.

    Attributes:
        g: number of symbols.
        domain_size: number of values.
    """

    NAME: ClassVar[str]
    SEED_WORDS: ClassVar[int]

    g: int
    domain_size: int

    @property
    @abstractmethod
    def collision(self) -> Fraction:
        """P(H(v) = H(w)) for v ≠ w over a uniform seed, exact."""

    @property
    @abstractmethod
    def linkability(self) -> str:
        """What a hash function kept for life tells about its device, in a sentence."""

    @property
    @abstractmethod
    def word_limit(self) -> int:
        """Each seed word is uniform below this limit."""

    @abstractmethod
    def seed(self, words: list[int]) -> int:
        """The seed made of ``SEED_WORDS`` words."""

    @abstractmethod
    def hash(self, seed: int, value: int) -> int:
        """H(value) in [0, g) for this seed."""

    @property
    @abstractmethod
    def payload_bits(self) -> int:
        """Bits of a seed and a symbol together."""

    @abstractmethod
    def encode(self, seed: int, symbol: int) -> bytes:
        """Seed and symbol as bytes."""

    @abstractmethod
    def decode(self, payload: bytes) -> tuple[int, int] | Reason:
        """Seed and symbol, or why no device sends this payload. The length has been checked."""

    def seeds(self) -> Iterator[int]:
        """Every seed, when there are few enough to enumerate.

        Raises:
            NotImplementedError: by design there are too many.
        """
        raise NotImplementedError(f"{self.NAME} seeds cannot be enumerated")

    @property
    @abstractmethod
    def counts_length(self) -> int:
        """Cells of the accumulator."""

    @abstractmethod
    def seed_columns(self, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Seeds of many devices from words (n, SEED_WORDS), in the form the other array methods take."""

    @abstractmethod
    def hash_many(self, seeds: NDArray[np.uint64], values: NDArray[np.int64]) -> NDArray[np.int64]:
        """H(values[i]) under seed i, shape (n,)."""

    @abstractmethod
    def pack(self, seeds: NDArray[np.uint64], symbols: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Payloads (n, bytes) of seeds and symbols."""

    @abstractmethod
    def check(self, payloads: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """1 where the payload is out of range, 4 where it is degenerate, shape (n,)."""

    @property
    @abstractmethod
    def largest_class(self) -> int:
        """Values that one function maps to the same symbol at most."""

    @property
    def signs_length(self) -> int:
        """Cells that seeds are counted in where the accumulator does not count them."""
        return 0

    def add_signs(self, payloads: NDArray[np.uint8], signs: NDArray[np.int64]) -> None:
        """Count the seeds of checked payloads in ``signs`` (signs_length,)."""
        return

    @abstractmethod
    def seed_cells(self, counts: NDArray[np.int64], signs: NDArray[np.int64]) -> NDArray[np.int64]:
        """How often each of equally likely seeds, or classes of seeds, was drawn, int64 (cells,)."""

    @abstractmethod
    def add_support(self, payloads: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        """Add checked payloads into ``counts`` (counts_length,)."""

    @abstractmethod
    def support_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Support of each value from the accumulator, int64 (domain_size,)."""


@dataclass(frozen=True)
class AffineFamily(HashFamily):
    """H(v) = floor(((a·v + c) mod 2**64 >> 32)·g / 2**32), a and c uniform 64-bit words; any g.

    The upper half of a·v + c is pairwise independent over 32-bit values (Dietzfelbinger 1996), so the
    collision probability is exactly the sum of squared symbol probabilities, 1/g up to 2**-64·g².
    """

    NAME: ClassVar[str] = "affine"
    SEED_WORDS: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Validate.

        Raises:
            CollectionError: g outside 2 .. 65536.
        """
        if not 2 <= self.g <= 1 << 16:
            raise CollectionError(
                "E-COLLECTION-G",
                f"g = {self.g} is not in 2 .. 65536, what the affine family offers",
                remedy="Use g: optimal, or g: 2 for the smallest lifetime cap.",
            )

    @property
    def collision(self) -> Fraction:
        """Sum over symbols of (their share of the 2**32 half-words) squared."""
        low, more = divmod(_HALF, self.g)
        squares = more * (low + 1) ** 2 + (self.g - more) * low**2
        return Fraction(squares, _HALF**2)

    @property
    def linkability(self) -> str:
        """Nobody else has it."""
        return "Devices. The hash function, 128 bits in every report, identifies a device for life."

    @property
    def word_limit(self) -> int:
        """Any word."""
        return FULL

    def seed(self, words: list[int]) -> int:
        """a + c·2**64, with another a in exchange for a degenerate one."""
        return ordinary(words[0]) | words[1] << 64

    def hash(self, seed: int, value: int) -> int:
        """See the class."""
        a, c = seed % FULL, seed >> 64
        return ((a * value + c) % FULL >> 32) * self.g >> 32

    @property
    def _symbol_size(self) -> int:
        return 1 if self.g <= 256 else 2

    @property
    def payload_bits(self) -> int:
        """Two words and whole bytes for the symbol."""
        return 128 + 8 * self._symbol_size

    def encode(self, seed: int, symbol: int) -> bytes:
        """a, c (8 bytes each), symbol; little-endian."""
        return seed.to_bytes(16, "little") + symbol.to_bytes(self._symbol_size, "little")

    def decode(self, payload: bytes) -> tuple[int, int] | Reason:
        """Symbols of g or more do not exist, and no device has a degenerate multiplier."""
        symbol = int.from_bytes(payload[16:], "little")
        if symbol >= self.g:
            return Reason.VALUE_OUT_OF_RANGE
        if is_degenerate(int.from_bytes(payload[:8], "little")):
            return Reason.DEGENERATE
        return int.from_bytes(payload[:16], "little"), symbol

    @property
    def counts_length(self) -> int:
        """One cell per value."""
        return self.domain_size

    def seed_columns(self, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The words themselves, (n, 2), with another a in exchange for a degenerate one."""
        import numpy as np

        return np.stack([ordinary_many(words[:, 0]), words[:, 1]], axis=1)

    def hash_many(self, seeds: NDArray[np.uint64], values: NDArray[np.int64]) -> NDArray[np.int64]:
        """See the class; seeds (n, 2)."""
        import numpy as np

        from ldpbeam.kernels import hashing

        out = np.empty(values.size, np.int64)
        a, c = np.ascontiguousarray(seeds[:, 0]), np.ascontiguousarray(seeds[:, 1])
        hashing.hash_affine(a, c, values, np.uint64(self.g), out)
        return out

    def pack(self, seeds: NDArray[np.uint64], symbols: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Rows of a, c, symbol."""
        import numpy as np

        out = np.empty((symbols.size, self.payload_bits // 8), np.uint8)
        out[:, :16] = np.ascontiguousarray(seeds, "<u8").view(np.uint8).reshape(-1, 16)
        out[:, 16:] = symbols.astype("<u2").view(np.uint8).reshape(-1, 2)[:, : self._symbol_size]
        return out

    def check(self, payloads: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """As :meth:`decode`."""
        import numpy as np

        symbols = payloads[:, 16].astype(np.uint32)
        if self._symbol_size == 2:
            symbols |= payloads[:, 17].astype(np.uint32) << np.uint32(8)
        codes = (symbols >= self.g).astype(np.uint8)
        refuse_multipliers(payloads, codes)
        return codes

    @property
    def largest_class(self) -> int:
        """All values: a multiplier that is not degenerate can still be small."""
        return self.domain_size

    @property
    def signs_length(self) -> int:
        """Classes of seeds."""
        return CELLS

    def add_signs(self, payloads: NDArray[np.uint8], signs: NDArray[np.int64]) -> None:
        """One increment per report."""
        add_seeds(payloads, signs)

    def seed_cells(self, counts: NDArray[np.int64], signs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Classes of seeds."""
        return signs

    def add_support(self, payloads: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        """One compare per (report, value)."""
        import numpy as np

        from ldpbeam.kernels import hashing

        start, step, width = (np.empty(len(payloads), np.int64) for _ in range(3))
        hashing.read_affine(payloads, np.uint64(self.g), start, step, width)
        hashing.add_affine(start, step, width, counts)

    def support_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Already per value."""
        return counts


@dataclass(frozen=True)
class LinearFamily(HashFamily):
    """H(v) = ⟨s, v⟩ mod g over base-g digits, s any non-zero vector of m digits, g prime, g^m ≥ k.

    A payload is the one integer (s − 1)·g + y: the cell of the server's table that the report adds one to,
    whatever the domain size. Only g^m − 1 seeds exist, so a seed is shared by many devices.
    """

    NAME: ClassVar[str] = "linear"
    SEED_WORDS: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Validate.

        Raises:
            CollectionError: g is not a prime, or too large a prime.
        """
        if not is_prime(self.g):
            raise CollectionError(
                "E-COLLECTION-G",
                f"g = {self.g} is not a prime, and the linear family needs one",
                remedy=f"Use g: {next_prime(max(self.g, 2))}, g: optimal, or hash_family: affine.",
            )
        if (self.points - 1) * self.g > _MAX_CELLS:
            raise CollectionError(
                "E-COLLECTION-G",
                f"g = {self.g} needs a table of {(self.points - 1) * self.g} cells for a domain of "
                f"{self.domain_size}; the linear family stops at 2**28",
                remedy="Use a smaller prime g or g: optimal.",
            )

    @cached_property
    def digits(self) -> int:
        """m, the number of base-g digits of a value."""
        m, points = 1, self.g
        while points < self.domain_size:
            points *= self.g
            m += 1
        return m

    @property
    def points(self) -> int:
        """g^m."""
        return _points(self.g, self.domain_size)

    @property
    def collision(self) -> Fraction:
        """(g^{m−1} − 1)/(g^m − 1), a little below 1/g."""
        return Fraction(self.points // self.g - 1, self.points - 1)

    @property
    def linkability(self) -> str:
        """Others may have it."""
        return (
            f"Which crowd a device belongs to. Every report shows its hash function, one of "
            f"{self.points - 1:,}; all devices with the same one look alike."
        )

    @property
    def word_limit(self) -> int:
        """A multiple of the number of seeds."""
        return FULL - FULL % (self.points - 1)

    def seed(self, words: list[int]) -> int:
        """1 + word mod (g^m − 1)."""
        return 1 + words[0] % (self.points - 1)

    def hash(self, seed: int, value: int) -> int:
        """See the class. Always m digits: a loop over those of the value would take a time that tells it."""
        total = 0
        for _ in range(self.digits):
            total += (seed % self.g) * (value % self.g)
            seed //= self.g
            value //= self.g
        return total % self.g

    @property
    def payload_bits(self) -> int:
        """Bits of the largest cell index."""
        return (self.counts_length - 1).bit_length()

    @property
    def _size(self) -> int:
        return (self.payload_bits + 7) // 8

    def encode(self, seed: int, symbol: int) -> bytes:
        """(s − 1)·g + y, little-endian."""
        return ((seed - 1) * self.g + symbol).to_bytes(self._size, "little")

    def decode(self, payload: bytes) -> tuple[int, int] | Reason:
        """Cells beyond the table do not exist."""
        cell = int.from_bytes(payload, "little")
        if cell >= self.counts_length:
            return Reason.VALUE_OUT_OF_RANGE
        return cell // self.g + 1, cell % self.g

    def seeds(self) -> Iterator[int]:
        """1 .. g^m − 1."""
        return iter(range(1, self.points))

    @property
    def counts_length(self) -> int:
        """Cells of T[s, y]."""
        return (self.points - 1) * self.g

    def seed_columns(self, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Seeds (n,)."""
        import numpy as np

        return words[:, 0] % np.uint64(self.points - 1) + np.uint64(1)

    def hash_many(self, seeds: NDArray[np.uint64], values: NDArray[np.int64]) -> NDArray[np.int64]:
        """See the class; seeds (n,)."""
        import numpy as np

        from ldpbeam.kernels import hashing

        out = np.empty(values.size, np.int64)
        hashing.hash_linear(seeds.astype(np.int64), values, self.g, out)
        return out

    def pack(self, seeds: NDArray[np.uint64], symbols: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The cell of each report."""
        import numpy as np

        from ldpbeam.kernels import symbols as kernels

        cells = (seeds - np.uint64(1)) * np.uint64(self.g) + symbols.astype(np.uint64)
        out = np.empty((symbols.size, self._size), np.uint8)
        kernels.pack(cells, out)
        return out

    def check(self, payloads: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Cells beyond the table do not exist."""
        import numpy as np

        from ldpbeam.kernels import symbols

        codes = np.empty(len(payloads), np.uint8)
        symbols.check_below(payloads, np.uint64(self.counts_length), codes)
        return codes

    @property
    def largest_class(self) -> int:
        """The g^(m−1) points of a hyperplane: all values whose highest digit is 0 are in the domain."""
        return self.points // self.g

    def seed_cells(self, counts: NDArray[np.int64], signs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Every seed: the rows of the table."""
        drawn: NDArray[np.int64] = counts.reshape(-1, self.g).sum(axis=1)
        return drawn

    def add_support(self, payloads: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        """One increment per report."""
        from ldpbeam.kernels import symbols

        symbols.add_at(payloads, counts)

    def support_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """One transform over (Z_g)^m; the row of the missing seed 0 is empty."""
        import numpy as np

        from ldpbeam.kernels import hashing

        table = np.zeros((self.points, self.g), np.int64)
        table[1:] = counts.reshape(-1, self.g)
        out = np.empty(self.domain_size, np.int64)
        hashing.transform_linear(table, self.g, np.empty((self.g, self.g), np.int64), out)
        return out


FAMILIES: dict[str, type[HashFamily]] = {"affine": AffineFamily, "linear": LinearFamily}


def is_prime(number: int) -> bool:
    """Trial division; g is small."""
    return number >= 2 and all(number % d for d in range(2, int(number**0.5) + 1))


def next_prime(number: int) -> int:
    """The smallest prime at least ``number``."""
    while not is_prime(number):
        number += 1
    return number


def _points(g: int, domain_size: int) -> int:
    """The smallest power of g that is at least ``domain_size`` (and at least g)."""
    points = g
    while points < domain_size:
        points *= g
    return points


def optimal_prime(domain_size: int, epsilon_first: float) -> int:
    """The prime g of least V* for this domain when the first report spends ε1 (MATHS section 3).

    Only primes up to 4096 whose table the server can hold are considered; g = 2 always is one.
    Searches the primes around the unconstrained optimum e^{ε1} + 1 and, for each number of digits m, the
    smallest prime that needs only m: there the collision probability falls most.
    """
    ratio = exp(epsilon_first)
    candidates = {g for g in range(2, int(min(4 * (ratio + 2), _MAX_OPTIMAL)) + 1) if is_prime(g)}
    for m in range(1, 6):
        root = next_prime(max(2, int(domain_size ** (1 / m))))
        while root**m < domain_size:
            root = next_prime(root + 1)
        candidates.add(root)

    def variance(g: int) -> float:
        points = _points(g, domain_size)
        own = ratio / (ratio + g - 1)
        collision = (points // g - 1) / (points - 1)
        other = collision * own + (1 - collision) * (1 - own) / (g - 1)
        return other * (1 - other) / (own - other) ** 2

    def fits(g: int) -> bool:
        return g <= _MAX_OPTIMAL and (_points(g, domain_size) - 1) * g <= _MAX_CELLS

    return min((g for g in candidates if fits(g)), key=lambda g: (variance(g), g))
