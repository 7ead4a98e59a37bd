"""Counter-based random words for simulations: a row's words do not depend on how rows are batched.

The generator is Philox4x64-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC
2011) as numpy implements it. Word ``w`` of a stream is word ``w % 4`` of the block at the 256-bit counter

    low to high:  w // 4 + 1,  attempt,  epoch mod 2**64,  first 8 bytes of SHA-256(purpose)

under the 128-bit key made of the first 16 bytes of SHA-256("ldpbeam.simulators.streams/1:" + seed);
all byte strings are read little-endian.

The words that bits are drawn with (:meth:`RandomWords.randomised`) are laid out across: 64 neighbouring bits
of a device share 64 words of the generator, each of which is one binary digit of all 64 words. Digits 4j to
4j + 3, counted from the highest, of bits 64b to 64b + 63 of a device with B blocks of 64 are at the counter

    low to high:  device·B + b + 1,  j,  epoch mod 2**64,  first 8 bytes of SHA-256("bits of " + purpose)

and bit i of a word is the digit of bit 64b + i. So most digits are never looked at, and the bits are those of
a device that was given the whole words.

These words are part of the simulator's contract and are
pinned by a test; they are reproducible, hence for simulations only and never for devices.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from ldpbeam.channels.channel import BitChannel
from ldpbeam.kernels import bits as bit_kernels
from ldpbeam.kernels import philox
from ldpbeam.protocols.simulation import WordSpec

_FULL = 1 << 64
_GENERATOR = _FULL - 1
"""The attempt reserved for :meth:`RandomWords.generator`; redraws never reach it."""


class RandomWords:
    """All randomness of one simulation, addressed by purpose, epoch and row."""

    def __init__(self, seed: int) -> None:
        if seed < 0:
            raise ValueError(f"the simulation seed is {seed}, but seeds count from 0; pass a larger one")
        self.seed = seed
        digest = sha256(b"ldpbeam.simulators.streams/1:%d" % seed).digest()
        self._key = [int.from_bytes(digest[at : at + 8], "little") for at in (0, 8)]

    def __repr__(self) -> str:
        return f"RandomWords({self.seed})"

    def words(
        self, purpose: str, epoch: int, first: int, rows: int, per_row: int, limit: int = _FULL
    ) -> NDArray[np.uint64]:
        """Exactly uniform words for rows ``first … first + rows - 1``."""
        words = np.empty((rows, per_row), np.uint64)
        most = limit - 1
        mask = (1 << most.bit_length()) - 1
        stream = self._stream(purpose, epoch)
        philox.draw(np.uint64(first * per_row), np.uint64(most), np.uint64(mask), stream, words.reshape(-1))
        return words

    def step(self, purpose: str, epoch: int, first: int, rows: int, spec: WordSpec) -> NDArray[np.uint64]:
        """:meth:`words` of one step of a protocol: (rows, ``spec.count``)."""
        if not spec.rising:
            return self.words(purpose, epoch, first, rows, spec.count, spec.limit)
        limits = enumerate(spec.limits)
        each = [self.words(f"{purpose}.{i}", epoch, first, rows, 1, limit) for i, limit in limits]
        return np.concatenate(each, axis=1)

    def randomised(
        self,
        purpose: str,
        epoch: int,
        devices: NDArray[np.int64],
        rows: NDArray[np.uint8],
        bits: int,
        channel: BitChannel,
    ) -> NDArray[np.uint8]:
        """Packed bit vectors, every bit of them drawn by the channel, in place where they may be written."""
        if bits < 1 or rows.shape != (devices.size, (bits + 7) // 8):
            raise ValueError(
                f"{devices.size} devices with {bits} bits each do not have packed rows of shape "
                f"{rows.shape}; pass one row of {(bits + 7) // 8} bytes for each"
            )
        blocks = (bits + 63) // 64
        if devices.size and not 0 <= int(devices.min()) <= int(devices.max()) < _FULL // blocks:
            raise ValueError(
                f"devices of {bits} bits are numbered from 0 to {_FULL // blocks - 1} within each epoch, "
                f"not from {devices.min()} to {devices.max()}"
            )
        drawn = np.require(rows, np.uint8, ["C", "W"])
        one, zero = np.uint64(channel.one), np.uint64(channel.zero)
        bit_kernels.randomise(drawn, devices, bits, one, zero, self._stream("bits of " + purpose, epoch))
        return drawn

    def generator(self, purpose: str, epoch: int) -> np.random.Generator:
        """A generator of its own for draws that are made for a whole epoch at once."""
        upper, name, *_ = self._stream(purpose, epoch)
        counter = np.array([0, _GENERATOR, upper, name], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=self._key, counter=counter))

    def _stream(self, purpose: str, epoch: int) -> NDArray[np.uint64]:
        """What kernels call a stream: uint64 (4,)."""
        if not -(1 << 63) <= epoch < 1 << 63:
            raise ValueError(
                f"epoch {epoch} does not fit 64 bits; number epochs from the collection's origin"
            )
        return np.array([epoch % _FULL, _name(purpose), *self._key], np.uint64)


@lru_cache(maxsize=256)
def _name(purpose: str) -> int:
    return int.from_bytes(sha256(purpose.encode()).digest()[:8], "little")
