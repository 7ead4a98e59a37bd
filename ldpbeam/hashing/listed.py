"""The listed family: a function is one of a short public list, for values that nobody can enumerate.

Values are fingerprints of 32 bits. The counts of an epoch are a table with a row for each function, and the
support of any fingerprint is one look at each row: which values are asked about may be decided afterwards.
Over random fingerprints a pair collides with probability 1/g, with a deviation of √((g − 1)/F)/g.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from ldpbeam.arrays import Ints, Uints, read_only
from ldpbeam.errors import CollectionError
from ldpbeam.hashing.base import TableFamily
from ldpbeam.randomness import FULL

FUNCTIONS = 1 << 12
"""Length of the list, F, unless another one is asked for."""
FINGERPRINTS = 1 << 32
"""Values that a fingerprint can have."""
_SHORTEST, _LONGEST = 1 << 10, 1 << 16
_MOST_CELLS = 1 << 24
"""Functions and symbols that three bytes can name."""


def public_word(index: int) -> int:
    """Word ``index`` of the public list: the output of SplitMix64 (Steele and others, 2014) started at 0."""
    word = (index + 1) * 0x9E3779B97F4A7C15 % FULL
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % FULL
    word = (word ^ word >> 27) * 0x94D049BB133111EB % FULL
    return word ^ word >> 31


@dataclass(frozen=True)
class ListedFamily(TableFamily):
    """H(v) = floor(((a·v + c) mod 2**64 >> 32)·g / 2**32), a and c words 2f and 2f + 1 of a public list.

    Attributes:
        functions: length of the list, F.
    """

    NAME: ClassVar[str] = "listed"

    functions: int = FUNCTIONS

    def __post_init__(self) -> None:
        """Raises CollectionError for a list of another length, too many symbols, or too large a domain."""
        if not (_SHORTEST <= self.functions <= _LONGEST and self.functions.bit_count() == 1):
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"functions = {self.functions} is not a power of two in {_SHORTEST} .. {_LONGEST}",
                key="functions",
                remedy=f"Use functions: {FUNCTIONS}.",
            )
        most = min(_MOST_CELLS // self.functions, 1 << 16)
        if not 2 <= self.g <= most:
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"g = {self.g} is not in 2 .. {most}, what a list of {self.functions} functions offers",
                key="g",
                remedy="Use g: 2 for the smallest lifetime cap, or a smaller g.",
            )
        if not 2 <= self.domain_size <= FINGERPRINTS:
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"{self.domain_size} values are not in 2 .. 2**32, what the listed family hashes",
                key="domain",
                remedy="Hash fingerprints of 32 bits.",
            )

    def words(self) -> tuple[Uints, Uints]:
        """a and c of every function, uint64 (F,) each."""
        return _words(self.functions)

    def collides(self, v: int, w: int) -> Fraction:
        import numpy as np

        seeds = np.arange(self.functions, dtype=np.uint64)
        first, second = (self.hash_many(seeds, np.full(seeds.size, x, np.int64)) for x in (v, w))
        return Fraction(int(np.count_nonzero(first == second)), self.functions)

    @property
    def least_collision(self) -> Fraction:
        """No more than the truth: the pairs of fingerprints are too many to look at."""
        return Fraction(0)

    @property
    def classes(self) -> int:
        return self.functions

    @property
    def reached(self) -> dict[int, float]:
        return {min(self.g, self.domain_size): 1.0}

    def hash(self, seed: int, value: int) -> int:
        a, c = public_word(2 * seed), public_word(2 * seed + 1)
        return ((a * value + c) % FULL >> 32) * self.g >> 32

    def definition(self) -> dict[str, Any]:
        return {"family": self.NAME, "g": self.g, "functions": self.functions}

    def hash_many(self, seeds: Uints, values: Ints) -> Ints:
        import numpy as np

        from ldpbeam.kernels import hashing

        a, c = self.words()
        hashed: Ints = hashing.hash_affine(a[seeds], c[seeds], values, np.uint64(self.g))
        return hashed

    def support_counts(self, counts: Ints) -> Ints:
        import numpy as np

        return self.support_of(counts, np.arange(self.domain_size, dtype=np.uint32))

    def support_of(self, counts: Ints, fingerprints: Any) -> Ints:
        """Support of some fingerprints, uint32 (n,), from the accumulator: int64 (n,)."""
        import numpy as np

        from ldpbeam.kernels import hashing

        support = np.zeros(fingerprints.size, np.int64)
        hashing.add_listed(counts.reshape(self.functions, self.g), *self.words(), fingerprints, support)
        return support

    def steps(self, reports: float) -> float:
        """Without what is asked of the accumulator afterwards: F looks for each fingerprint."""
        return reports + self.counts_length


@lru_cache(maxsize=4)
def _words(functions: int) -> tuple[Uints, Uints]:
    import numpy as np

    words = np.array([public_word(index) for index in range(2 * functions)], np.uint64)
    return read_only(words[::2]), read_only(words[1::2])
