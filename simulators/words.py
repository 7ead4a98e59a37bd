"""Counter-based random words for simulations: a row's words do not depend on how rows are batched.

The generator is Philox4x64-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC
2011) as numpy implements it. Word ``w`` of a stream is word ``w % 4`` of the block at the 256-bit counter

    low to high:  w // 4 + 1,  attempt,  epoch mod 2**64,  first 8 bytes of SHA-256(purpose)

under the 128-bit key made of the first 16 bytes of SHA-256("ldpbeam.simulators.streams/1:" + seed);
all byte strings are read little-endian. These words are part of the simulator's contract and are
pinned by a test; they are reproducible, hence for simulations only and never for devices.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

_FULL = 1 << 64
_GENERATOR = _FULL - 1
"""The attempt reserved for :meth:`RandomWords.generator`; redraws never reach it."""

_SEEK = 2500
"""Seeking one word costs about as much as drawing this many in a row (11 us against 4 ns)."""


class RandomWords:
    """All randomness of one simulation, addressed by purpose, epoch and row.

    Args:
        seed: any non-negative integer; equal seeds give equal simulations.

    Raises:
        ValueError: the seed is negative.
    """

    def __init__(self, seed: int) -> None:
        if seed < 0:
            raise ValueError(f"the simulation seed is {seed}, but seeds count from 0; pass a larger one")
        self.seed = seed
        digest = sha256(b"ldpbeam.simulators.streams/1:%d" % seed).digest()
        self._key = np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)

    def __repr__(self) -> str:
        return f"RandomWords({self.seed})"

    def words(
        self, purpose: str, epoch: int, first: int, rows: int, per_row: int, limit: int = _FULL
    ) -> NDArray[np.uint64]:
        """Exactly uniform words for rows ``first … first + rows - 1``.

        A row's words depend only on the seed, the purpose, the epoch, the row's absolute index, ``per_row``
        and ``limit``. A word not below the limit is redrawn at the same position from the next attempt's
        stream, so words that already lie below the limit are those of the unlimited stream. Bits above the
        limit's highest are cleared first, so that fewer than half the words are redrawn at any limit.

        Args:
            purpose: what the words are for; different purposes give independent words.
            epoch: epoch index, any signed 64-bit integer (-1 for draws made once, before the first epoch).
            first: absolute index of the first row, at least 0.
            rows: number of rows, at least 0.
            per_row: words per row, at least 1.
            limit: exclusive upper bound of every word, 1 to 2**64.

        Returns:
            Array of shape (rows, per_row), dtype uint64, owned by the caller.

        Raises:
            ValueError: an argument is out of its range, or the rows reach beyond word 2**64 of the stream.
        """
        if first < 0 or rows < 0 or per_row < 1:
            raise ValueError(
                f"cannot draw words for rows={rows} from first={first} with per_row={per_row}: "
                "rows and first count from 0, per_row from 1"
            )
        if not 1 <= limit <= _FULL:
            raise ValueError(f"a word cannot be drawn below limit={limit}; pass a limit from 1 to 2**64")
        start = first * per_row
        if start + rows * per_row > _FULL:
            raise ValueError(
                f"row {first + rows} at {per_row} words a row lies beyond word 2**64 of the stream "
                f"{purpose!r}; number rows from 0 within each epoch"
            )
        words = self._draw(purpose, epoch, 0, start, rows * per_row)
        if limit < _FULL:
            self._redraw(words, purpose, epoch, start, limit)
        return words.reshape(rows, per_row)

    def generator(self, purpose: str, epoch: int) -> np.random.Generator:
        """A generator of its own for draws that are made for a whole epoch at once.

        Independent of every stream of :meth:`words`. What numpy's distributions make of its words
        may change with the numpy version (NEP 19).

        Args:
            purpose: what the draws are for.
            epoch: epoch index, any signed 64-bit integer.
        """
        return np.random.Generator(self._philox(purpose, epoch, _GENERATOR, 0))

    def _redraw(self, words: NDArray[np.uint64], purpose: str, epoch: int, start: int, limit: int) -> None:
        """Bring all words (positions ``start …`` of their stream) below the limit, in place."""
        bound = np.uint64(limit)
        mask = np.uint64((1 << (limit - 1).bit_length()) - 1)
        if int(mask) != _FULL - 1:
            words &= mask
        if not words.size or words.max() < bound:
            return
        high = np.flatnonzero(words >= bound)
        attempt = 0
        while high.size:
            attempt += 1
            fresh = self._pick(purpose, epoch, attempt, start, high) & mask
            words[high] = fresh
            high = high[fresh >= bound]

    def _pick(
        self, purpose: str, epoch: int, attempt: int, start: int, offsets: NDArray[np.intp]
    ) -> NDArray[np.uint64]:
        """The words at ``start + offsets`` (increasing): sought when few, swept when many."""
        low = int(offsets[0])
        span = int(offsets[-1]) - low + 1
        if offsets.size * _SEEK >= span:
            return self._draw(purpose, epoch, attempt, start + low, span)[offsets - low]
        picked = np.empty(offsets.size, dtype=np.uint64)
        for i, offset in enumerate(offsets.tolist()):
            picked[i] = self._draw(purpose, epoch, attempt, start + offset, 1)[0]
        return picked

    def _draw(self, purpose: str, epoch: int, attempt: int, start: int, count: int) -> NDArray[np.uint64]:
        """Words ``start … start + count - 1`` of one stream, by numpy's fastest way to them."""
        block, skip = divmod(start, 4)
        drawn = self._philox(purpose, epoch, attempt, block).random_raw(skip + count)
        words: NDArray[np.uint64] = drawn[skip:]
        return words

    def _philox(self, purpose: str, epoch: int, attempt: int, block: int) -> np.random.Philox:
        """The bit generator standing before the given block."""
        if not -(1 << 63) <= epoch < 1 << 63:
            raise ValueError(
                f"epoch {epoch} does not fit 64 bits; number epochs from the collection's origin"
            )
        name = int.from_bytes(sha256(purpose.encode()).digest()[:8], "little")
        counter = np.array([block, attempt, epoch % _FULL, name], dtype=np.uint64)
        return np.random.Philox(key=self._key, counter=counter)
