"""The linear family: inner products over a prime field, counted in one table whatever the domain size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import exp, log1p
from typing import ClassVar

from ldpbeam.arrays import Bytes, Floats, Ints, Uints
from ldpbeam.errors import CollectionError
from ldpbeam.hashing.base import MOST_CELLS, TableFamily, UniversalFamily
from ldpbeam.randomness import FULL

_MAX_OPTIMAL = 1 << 12  # beyond it the lifetime cap g·ε∞ is out of proportion
_MAX_CELLS = 1 << 28  # of the linear family's table: 2 GiB

_MANY_CELLS, _MANY_REPORTS = 1 << 18, 1 << 17
"""From so many on, increments are brought into order: the table is larger than the second-level cache."""
_PART_BITS, _MOST_PART_BITS = 16, 9
_REPORTS_AT_ONCE = 1 << 21
"""Reports that are brought into order at once: 8 MiB."""

_RANGES = 16
"""Ranges of seeds that audits look at."""
_ROW = 1 << 7
"""Cells that a row of the transform has at least: fewer are not worth a loop."""
_WIDE = 32
"""Rows that become columns together."""


@dataclass(frozen=True)
class LinearFamily(UniversalFamily, TableFamily):
    """H(v) = ⟨s, v⟩ mod g over base-g digits, s any non-zero vector of m digits, g prime, g^m ≥ k."""

    NAME: ClassVar[str] = "linear"
    FIRST_SEED: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Raises CollectionError where g is not a prime, or too large a prime."""
        if not is_prime(self.g):
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"g = {self.g} is not a prime, and the linear family needs one",
                key="g",
                remedy=f"Use g: {next_prime(max(self.g, 2))}, g: optimal, or hash_family: affine.",
            )
        if (self.points - 1) * self.g > _MAX_CELLS:
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"g = {self.g} needs a table of {(self.points - 1) * self.g} cells for a domain of "
                f"{self.domain_size}; the linear family stops at 2**28",
                key="g",
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

    @cached_property
    def points(self) -> int:
        """g^m, the number of vectors of m digits."""
        return _points(self.g, self.domain_size)

    @property
    def collision(self) -> Fraction:
        return Fraction(self.points // self.g - 1, self.points - 1)

    @property
    def collision_of_three(self) -> tuple[float, float]:
        """On average over all g^m vectors, and where the three do not lie on one line."""
        whole, each = self.points, self.points // self.g
        average = (each - 1) * (each - 2) / ((whole - 1) * (whole - 2)) if whole > 2 else 0.0
        return average, max(whole // self.g**2 - 1, 0) / (whole - 1)

    @property
    def functions(self) -> int:
        return self.points - 1

    @property
    def reached(self) -> dict[int, float]:
        few = (self.domain_size - 1) // (self.points // self.g) + 1
        share = (self.g - 1) / (self.points - 1)
        return {few: share, self.g: 1 - share} if few < self.g and share < 1 else {few: 1.0}

    def seed_events(self) -> Iterator[tuple[str, Callable[[int], bool], Fraction]]:
        shares = min(_RANGES, self.functions)
        for i in range(shares):
            low, high = 1 + i * self.functions // shares, 1 + (i + 1) * self.functions // shares
            yield (
                f"function {low} .. {high - 1}",
                range(low, high).__contains__,
                Fraction(high - low, self.functions),
            )

    @property
    def word_limit(self) -> int:
        """A multiple of the number of seeds."""
        return FULL - FULL % (self.points - 1)

    def seed(self, words: list[int]) -> int:
        return 1 + words[0] % (self.points - 1)

    def hash(self, seed: int, value: int) -> int:
        # Always m digits: a loop over those of the value would take a time that tells it.
        total = 0
        for _ in range(self.digits):
            total += (seed % self.g) * (value % self.g)
            seed //= self.g
            value //= self.g
        return total % self.g

    @property
    def classes(self) -> int:
        return (self.points - 1) // (self.g - 1)

    def definition(self) -> dict[str, int | str]:
        return {"family": self.NAME, "g": self.g, "digits": self.digits, "seeds": self.points - 1}

    def seed_columns(self, words: Uints) -> Uints:
        import numpy as np

        from ldpbeam.kernels import hashing

        seeds: Uints = hashing.seeds_linear(np.ascontiguousarray(words[:, 0]), np.uint64(self.points - 1))
        return seeds

    def hash_many(self, seeds: Uints, values: Ints) -> Ints:
        from ldpbeam.kernels import hashing

        return hashing.hash_linear(seeds, values, self.g)

    @property
    def largest_class(self) -> int:
        return self.points // self.g

    def add_support(self, payloads: Bytes, counts: Ints) -> None:
        from ldpbeam.kernels import symbols

        if counts.size < _MANY_CELLS or len(payloads) < _MANY_REPORTS:
            super().add_support(payloads, counts)
            return
        import numpy as np

        # Each part of the table fits the second-level cache, and there are few enough to write to at once.
        shift = max(_PART_BITS, counts.size.bit_length() - _MOST_PART_BITS)
        starts = np.empty((counts.size - 1 >> shift) + 1, np.int64)
        ordered = np.empty(min(len(payloads), _REPORTS_AT_ONCE), np.uint32)
        for begin in range(0, len(payloads), _REPORTS_AT_ONCE):
            some = payloads[begin : begin + _REPORTS_AT_ONCE]
            symbols.add_at_in_order(some, shift, starts, ordered, counts)

    def steps(self, reports: float) -> float:
        rounds = max(1.0, log1p(self.points) / log1p(self.g))
        return reports + self.points * self.g * self.g * rounds

    def support_counts(self, counts: Ints) -> Ints:
        """One transform over (Z_g)^m, once cells that tell the same are one; O(g K log K), K = g^m."""
        import numpy as np

        from ldpbeam.kernels import hashing

        if self.g == 2:
            # T[s, y] is half of the row's sum, plus or minus half of its difference.
            sums = np.zeros(self.points, np.int64)
            np.subtract(counts[::2], counts[1::2], out=sums[1:])
            hashing.transform_signs(sums)
            halves: Ints = (sums[: self.domain_size] + counts.sum()) >> 1
            return halves
        # Seeds by the place of their highest digit: what those of j digits tell of v is in v's lowest j.
        supports = np.zeros(1, np.int64)
        for place in range(self.digits):
            low = self.g ** min(place, self._row_digits)
            table, before = np.zeros(supports.size * self.g, np.int64), supports
            hashing.merge_classes(counts, self.g, before.size, low, table)
            hashing.replace_digits(table, low, self.g)
            supports = np.empty_like(table)
            blocks = before.size // low
            wide = min(blocks, _WIDE)
            turned = np.empty(low * self.g * wide, np.int64)
            for piece in range(0, blocks, wide):
                # The last piece begins early enough to be whole; what it shares with another is the same.
                begin = min(piece, blocks - wide)
                hashing.rows_to_columns(table, low, begin, self.g, turned)
                hashing.replace_digits(turned, wide, self.g)
                hashing.add_columns(turned, low, begin, self.g, before, supports)
        return supports[: self.domain_size].copy()

    @property
    def _row_digits(self) -> int:
        """How many digits of a seed lie within a row of the transform."""
        digits = 0
        while self.g ** (digits + 1) < _ROW:
            digits += 1
        return digits

    def class_squares(self, weights: Floats) -> Floats:
        """Exact; for more than two symbols and 2**20 points an upper bound (collisions.py)."""
        import numpy as np

        from ldpbeam.hashing.collisions import class_squares, on_lines

        if self.digits == 1:  # no two values ever collide
            return np.asarray(weights**2, np.float64)
        # A convolution for every second ratio, or all functions one by one.
        by_lines = self.points * self.digits * self.g * 4
        table = None if self.g == 2 or by_lines < self.classes * self.domain_size else self.table()
        if table is not None:
            return class_squares(iter([table]), len(table), weights, np.ones(self.g))
        triple = max(self.points // self.g**2 - 1, 0) / (self.points - 1)
        return on_lines(weights, self.g, self.digits, float(self.collision), triple)

    def table(self) -> Ints | None:
        """One function for each of those that differ by a renaming of symbols only."""
        return _table(self) if self.classes * self.domain_size <= MOST_CELLS else None


@lru_cache(maxsize=2)
def _table(family: LinearFamily) -> Ints:
    import numpy as np

    g = family.g
    # The lowest digit that is not 0 is a 1.
    seeds = np.concatenate(
        [g**place * (1 + g * np.arange(family.points // g ** (place + 1))) for place in range(family.digits)]
    )
    values = np.arange(family.domain_size)
    total = np.zeros((len(seeds), len(values)), np.int64)
    for _ in range(family.digits):
        total += np.outer(seeds % g, values % g)
        seeds, values = seeds // g, values // g
    symbols: Ints = (total % g).astype(np.uint16)
    return symbols


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
    """The prime g of least V* for this domain when the first report spends ε1 (docs/maths.md section 3)."""
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
