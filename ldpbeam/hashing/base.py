"""What a hash family is, for devices and servers alike (docs/maths.md section 3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from ldpbeam.arrays import Bytes, Floats, Ints, Uints
from ldpbeam.errors import Reason
from ldpbeam.randomness import FULL

MOST_CELLS = 1 << 26
"""Of a table of functions and values: 128 MiB."""

_GROUPS = 16
"""Groups of functions that audits look at."""


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

    @abstractmethod
    def collides(self, v: int, w: int) -> Fraction:
        """P(H(v) = H(w)) over a uniform seed, exact; 1 for v = w."""

    @property
    @abstractmethod
    def least_collision(self) -> Fraction:
        """The least P(H(v) = H(w)) of all pairs of values."""

    @property
    @abstractmethod
    def linkability(self) -> str:
        """What a hash function kept for life tells about its device, in a sentence."""

    @property
    @abstractmethod
    def functions(self) -> int:
        """How many functions there are, each as likely to be drawn as the others."""

    @property
    def classes(self) -> int | None:
        """Functions that are left where those count as one that differ by a renaming of symbols.

        None where no two devices share a function.
        """
        return None

    @property
    @abstractmethod
    def reached(self) -> dict[int, float]:
        """How many symbols a function reaches from all values, with the probability of each number.

        Or numbers that give no less than the truth: the sum of largest likelihoods over a set of symbols
        grows with the set, and by less with each further symbol.
        """

    @abstractmethod
    def seed_events(self) -> Iterator[tuple[str, Callable[[int], bool], Fraction]]:
        """A few sets of seeds: in words, whether a seed is in it, and its share of all."""

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

    @abstractmethod
    def definition(self) -> dict[str, Any]:
        """What a device in another language needs, all integers worked out."""

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
    def seed_columns(self, words: Uints) -> Uints:
        """Seeds of many devices from words (n, SEED_WORDS), in the form the other array methods take."""

    @abstractmethod
    def hash_many(self, seeds: Uints, values: Ints) -> Ints:
        """H(values[i]) under seed i, shape (n,)."""

    @abstractmethod
    def pack(self, seeds: Uints, symbols: Ints) -> Bytes:
        """Payloads (n, bytes) of seeds and symbols."""

    @abstractmethod
    def check(self, payloads: Bytes) -> Bytes:
        """A ``CheckCode`` per payload, uint8 (n,), that agrees with :meth:`decode`."""

    @property
    def signs_length(self) -> int:
        """Cells that seeds are counted in where the accumulator does not count them."""
        return 0

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        """Count the seeds of checked payloads in ``signs`` (signs_length,)."""
        return

    @abstractmethod
    def seed_cells(self, counts: Ints, signs: Ints) -> Ints:
        """How often each of equally likely seeds, or classes of seeds, was drawn, int64 (cells,)."""

    @abstractmethod
    def add_support(self, payloads: Bytes, counts: Ints) -> None:
        """Add checked payloads into ``counts`` (counts_length,)."""

    @abstractmethod
    def support_counts(self, counts: Ints) -> Ints:
        """Support of each value from the accumulator, int64 (domain_size,)."""

    @abstractmethod
    def steps(self, reports: float) -> float:
        """Additions or comparisons that so many reports take, and reading the accumulator once."""


class TableFamily(HashFamily, ABC):
    """A family with few functions: its accumulator is a table with a cell for each function and symbol.

    Seeds are drawn as where the number of functions is a power of two; other families say how.

    Class constants:
        FIRST_SEED: of the seeds, which follow it one by one.
    """

    SEED_WORDS = 1
    FIRST_SEED: ClassVar[int] = 0

    @property
    def linkability(self) -> str:
        return (
            f"Which crowd a device belongs to. Every report shows its hash function, one of "
            f"{self.functions:,}; all devices with the same one look alike."
        )

    def seed_events(self) -> Iterator[tuple[str, Callable[[int], bool], Fraction]]:
        each = self.functions // _GROUPS
        for first in range(0, self.functions, each):
            seeds = range(first, first + each)
            yield f"function {first} .. {first + each - 1}", seeds.__contains__, Fraction(1, _GROUPS)

    @property
    def word_limit(self) -> int:
        """The number of functions divides 2**64: a seed word may be any 64-bit word."""
        return FULL

    def seed(self, words: list[int]) -> int:
        return words[0] % self.functions

    def seed_columns(self, words: Uints) -> Uints:
        import numpy as np

        seeds: Uints = words[:, 0] % np.uint64(self.functions)
        return seeds

    @property
    def payload_bits(self) -> int:
        return (self.counts_length - 1).bit_length()

    @property
    def _size(self) -> int:
        return (self.payload_bits + 7) // 8

    def encode(self, seed: int, symbol: int) -> bytes:
        """The number of the cell, little-endian."""
        return ((seed - self.FIRST_SEED) * self.g + symbol).to_bytes(self._size, "little")

    def decode(self, payload: bytes) -> tuple[int, int] | Reason:
        cell = int.from_bytes(payload, "little")
        if cell >= self.counts_length:
            return Reason.VALUE_OUT_OF_RANGE
        return cell // self.g + self.FIRST_SEED, cell % self.g

    def seeds(self) -> Iterator[int]:
        return iter(range(self.FIRST_SEED, self.FIRST_SEED + self.functions))

    @property
    def counts_length(self) -> int:
        return self.functions * self.g

    def pack(self, seeds: Uints, symbols: Ints) -> Bytes:
        import numpy as np

        from ldpbeam.kernels import symbols as kernels

        cells = (seeds - np.uint64(self.FIRST_SEED)) * np.uint64(self.g) + symbols.astype(np.uint64)
        return kernels.pack(cells, self._size)

    def check(self, payloads: Bytes) -> Bytes:
        from ldpbeam.kernels import symbols

        return symbols.check_below(payloads, self.counts_length)

    def seed_cells(self, counts: Ints, signs: Ints) -> Ints:
        drawn: Ints = counts.reshape(-1, self.g).sum(axis=1)
        return drawn

    def add_support(self, payloads: Bytes, counts: Ints) -> None:
        from ldpbeam.kernels import symbols

        symbols.add_at(payloads, counts)


class UniversalFamily(HashFamily, ABC):
    """A family under which all pairs of different values collide with one probability.

    Every value is then supported by the devices that hold another one with the same chance, whatever they
    hold: frequencies are estimated value by value (docs/maths.md section 3).
    """

    @property
    @abstractmethod
    def collision(self) -> Fraction:
        """P(H(v) = H(w)) for v ≠ w over a uniform seed, exact."""

    @property
    @abstractmethod
    def collision_of_three(self) -> tuple[float, float]:
        """P(H(u) = H(v) = H(w)) for three different values: on average over values, and at least."""

    def collides(self, v: int, w: int) -> Fraction:
        return Fraction(1) if v == w else self.collision

    @property
    def least_collision(self) -> Fraction:
        return self.collision

    @property
    @abstractmethod
    def largest_class(self) -> int:
        """Values that one function maps to the same symbol at most."""

    @property
    def reached(self) -> dict[int, float]:
        """Two numbers that give no less than the truth.

        Each of k − 1 values collides with the first one with probability c, so k − (k−1)c symbols at most are
        reached on average, and never more than g.
        """
        k = self.domain_size
        most = min(float(self.g), k - (k - 1) * float(self.collision))
        whole = int(most)
        return {whole: 1 - (most - whole), whole + 1: most - whole} if most > whole else {whole: 1.0}

    # Sums over several values

    @abstractmethod
    def class_squares(self, weights: Floats) -> Floats:
        """E[(Σ of the weights of the values with the symbol of x)²] for every value x, over a uniform seed.

        Args:
            weights: float64 (sums, k), of the values.

        Returns:
            float64 (sums, k).
        """

    @abstractmethod
    def table(self) -> Ints | None:
        """Symbols of all values, uint16 (functions, k), under functions that stand for the whole family.

        None where the table would have more than 2**26 cells.
        """
