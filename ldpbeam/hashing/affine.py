"""The affine family: pairwise independent hashes for any number of symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd, pi, prod, sin
from typing import ClassVar

from ldpbeam.arrays import Bytes, Floats, Ints, Uints, read_only
from ldpbeam.channels.degenerate import CELLS, add_seeds, check_seeded, is_degenerate, ordinary, ordinary_many
from ldpbeam.errors import CollectionError, Reason
from ldpbeam.hashing.base import MOST_CELLS, UniversalFamily
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.randomness import FULL

_HALF_WORDS = 1 << 32

_REPORTS_AT_ONCE = 512
"""Reports that are read, then counted: their progressions stay in the first-level cache."""

_LINE = 32
"""Values whose collisions of three are worked out one by one."""
_SEARCHED = 16
"""Up to so many symbols the least collision of three has been searched."""
_LEAST = 0.92
"""It is at least so much of that of independent values."""
_TERMS = 60
"""Of the series for a collision of three; what is left out is below g/(30·60²)."""


def _has_bits(shift: int, number: int) -> Callable[[int], bool]:
    return lambda seed: seed >> shift & 7 == number


@dataclass(frozen=True)
class AffineFamily(UniversalFamily):
    """H(v) = floor(((a·v + c) mod 2**64 >> 32)·g / 2**32), a and c uniform 64-bit words; any g."""

    NAME: ClassVar[str] = "affine"
    SEED_WORDS: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Raises CollectionError for g outside 2 .. 65536."""
        if not 2 <= self.g <= 1 << 16:
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"g = {self.g} is not in 2 .. 65536, what the affine family offers",
                key="g",
                remedy="Use g: optimal, or g: 2 for the smallest lifetime cap.",
            )

    @property
    def collision(self) -> Fraction:
        low, more = divmod(_HALF_WORDS, self.g)
        squares = more * (low + 1) ** 2 + (self.g - more) * low**2
        return Fraction(squares, _HALF_WORDS**2)

    @property
    def collision_of_three(self) -> tuple[float, float]:
        """As if the values of a small domain stood for those of a large one, see :func:`line_collision`."""
        third = 1.0 / self.g**2
        if self.g == 2:
            return third, third
        size = max(3, min(self.domain_size, _LINE))
        average = third + (_average_collision(size, self.g) - third) * min(1.0, size / self.domain_size)
        return average, _LEAST * third if self.g <= _SEARCHED else 0.0

    @property
    def linkability(self) -> str:
        return "Devices. The hash function, 128 bits in every report, identifies a device for life."

    @property
    def functions(self) -> int:
        return 1 << 128

    def seed_events(self) -> Iterator[tuple[str, Callable[[int], bool], Fraction]]:
        for word in (0, 64):
            for i in range(8):
                text = f"bits {word + 61} .. {word + 63} of the function are {i}"
                yield text, _has_bits(word + 61, i), Fraction(1, 8)

    @property
    def word_limit(self) -> int:
        """A seed word may be any 64-bit word."""
        return FULL

    def seed(self, words: list[int]) -> int:
        """a + c·2**64, with another a in exchange for a degenerate one."""
        return ordinary(words[0]) | words[1] << 64

    def hash(self, seed: int, value: int) -> int:
        a, c = seed % FULL, seed >> 64
        return ((a * value + c) % FULL >> 32) * self.g >> 32

    @property
    def _symbol_size(self) -> int:
        return 1 if self.g <= 256 else 2

    def definition(self) -> dict[str, int | str]:
        return {"family": self.NAME, "g": self.g, "symbol_size": self._symbol_size}

    @property
    def payload_bits(self) -> int:
        return 128 + 8 * self._symbol_size

    def encode(self, seed: int, symbol: int) -> bytes:
        return seed.to_bytes(16, "little") + symbol.to_bytes(self._symbol_size, "little")

    def decode(self, payload: bytes) -> tuple[int, int] | Reason:
        symbol = int.from_bytes(payload[16:], "little")
        if symbol >= self.g:
            return Reason.VALUE_OUT_OF_RANGE
        if is_degenerate(int.from_bytes(payload[:8], "little")):
            return Reason.DEGENERATE
        return int.from_bytes(payload[:16], "little"), symbol

    @property
    def counts_length(self) -> int:
        return self.domain_size

    def seed_columns(self, words: Uints) -> Uints:
        """The words themselves, (n, 2), with another a in exchange for a degenerate one."""
        import numpy as np

        return np.stack([ordinary_many(words[:, 0]), words[:, 1]], axis=1)

    def hash_many(self, seeds: Uints, values: Ints) -> Ints:
        import numpy as np

        from ldpbeam.kernels import hashing

        a, c = np.ascontiguousarray(seeds[:, 0]), np.ascontiguousarray(seeds[:, 1])
        return hashing.hash_affine(a, c, values, np.uint64(self.g))

    def pack(self, seeds: Uints, symbols: Ints) -> Bytes:
        import numpy as np

        out = np.empty((symbols.size, self.payload_bits // 8), np.uint8)
        out[:, :16] = np.ascontiguousarray(seeds, "<u8").view(np.uint8).reshape(-1, 16)
        out[:, 16:] = symbols.astype("<u2").view(np.uint8).reshape(-1, 2)[:, : self._symbol_size]
        return out

    def check(self, payloads: Bytes) -> Bytes:
        return check_seeded(payloads, self.g, CheckCode.VALUE_OUT_OF_RANGE)

    @property
    def largest_class(self) -> int:
        return self.domain_size

    @property
    def signs_length(self) -> int:
        return CELLS

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        add_seeds(payloads, signs)

    def seed_cells(self, counts: Ints, signs: Ints) -> Ints:
        return signs

    def add_support(self, payloads: Bytes, counts: Ints) -> None:
        import numpy as np

        from ldpbeam.kernels import hashing

        start, step, width = (np.empty(_REPORTS_AT_ONCE, np.int64) for _ in range(3))
        hashing.count_affine(read_only(payloads), _bounds(self.g), start, step, width, counts)

    def steps(self, reports: float) -> float:
        return reports * self.domain_size

    def support_counts(self, counts: Ints) -> Ints:
        return counts

    def class_squares(self, weights: Floats) -> Floats:
        """Exact for two symbols; else the mean over the spread functions (ldpbeam/hashing/collisions.py)."""
        import numpy as np

        from ldpbeam.hashing.collisions import SPREAD, by_triples, class_squares, half_words

        if self.g == 2:
            return by_triples(weights, float(self.collision), 0.25)
        tables = (self._symbols(halves) for halves in half_words(self.domain_size, self.g))
        return class_squares(tables, SPREAD, weights, np.ones(self.g))

    def table(self) -> Ints | None:
        from ldpbeam.hashing.collisions import SPREAD

        return _table(self) if SPREAD * self.domain_size <= MOST_CELLS else None

    def _symbols(self, halves: Uints) -> Ints:
        import numpy as np

        symbols: Ints = (halves * np.uint64(self.g) >> np.uint64(32)).astype(np.uint16)
        return symbols


@lru_cache(maxsize=2)
def _table(family: AffineFamily) -> Ints:
    import numpy as np

    from ldpbeam.hashing.collisions import half_words

    return np.concatenate([family._symbols(halves) for halves in half_words(family.domain_size, family.g)])


def line_collision(q: int, r: int, g: int) -> float:
    """P(H(v) = H(v + q) = H(v + r)), q and r without a common divisor."""
    places = (q, r, r - q)
    terms = (prod(sin(pi * j * i / g) / (pi * j * i) for i in places) for j in range(1, _TERMS + 1))
    return g * (g**-3 + 2 * sum(terms))


@lru_cache(maxsize=64)
def _bounds(g: int) -> Uints:
    """The first half-word of each symbol, and the end of the last: ceil(y 2**32 / g), y = 0 .. g."""
    import numpy as np

    bounds: Uints = read_only((-(-np.arange(g + 1) * _HALF_WORDS // g)).astype(np.uint64))
    return bounds


@lru_cache(maxsize=64)
def _average_collision(size: int, g: int) -> float:
    """Of three different values among 0 .. size − 1, on average."""
    total = places = 0.0
    alike: dict[tuple[int, int], float] = {}
    for q in range(1, size):
        for r in range(q + 1, size):
            common = gcd(q, r)
            line = q // common, r // common
            if line not in alike:
                alike[line] = line_collision(*line, g)
            total += (size - r) * alike[line]
            places += size - r
    return total / places
