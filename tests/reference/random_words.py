"""The simulator's random words and bits in plain Python, by the docstring of ``simulators.random_words``."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.channels.channel import BitChannel

FULL = 1 << 64


def philox(key: tuple[int, int], counter: list[int]) -> list[int]:
    """Philox4x64-10 from the paper (Salmon et al. 2011), one block."""
    low, high = key
    c = counter
    for _ in range(10):
        a, b = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [(b >> 64) ^ c[1] ^ low, b % FULL, (a >> 64) ^ c[3] ^ high, a % FULL]
        low, high = (low + 0x9E3779B97F4A7C15) % FULL, (high + 0xBB67AE8584CAA73B) % FULL
    return c


def block(seed: int, purpose: str, epoch: int, number: int, place: int) -> list[int]:
    """The four words at one counter."""
    digest = sha256(b"ldpbeam.simulators.streams/1:" + str(seed).encode()).digest()
    key = (int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little"))
    name = int.from_bytes(sha256(purpose.encode()).digest()[:8], "little")
    return philox(key, [place, number, epoch % FULL, name])


def documented(seed: int, purpose: str, epoch: int, attempt: int, position: int) -> int:
    """One word."""
    return block(seed, purpose, epoch, attempt, position // 4 + 1)[position % 4]


def bit_words(seed: int, purpose: str, epoch: int, device: int, bits: int) -> list[int]:
    """The words that a device draws its bits with, every digit of them."""
    blocks = (bits + 63) // 64
    found = []
    for b in range(blocks):
        place = device * blocks + b + 1
        digits = [word for j in range(16) for word in block(seed, f"bits of {purpose}", epoch, j, place)]
        # A word's digits, the highest first, are bit i of each of these in turn: here lowest bits come first.
        columns = [f"{digit:064b}"[::-1] for digit in digits]
        found += [int("".join(word), 2) for word in zip(*columns, strict=True)]
    return found[:bits]


def randomised(held: NDArray[np.uint8], words: NDArray[np.uint64], channel: BitChannel) -> NDArray[np.uint8]:
    """Packed rows (n, bytes), each bit compared with its word of (n, bits), one after the other."""
    count, width = held.shape
    rows: Any = words.tolist()
    drawn = []
    for before, row in zip(held, rows, strict=True):
        bits, after = int.from_bytes(before.tobytes(), "little"), 0
        for v, word in enumerate(row):
            after |= (word < (channel.one if bits >> v & 1 else channel.zero)) << v
        drawn.append(after.to_bytes(width, "little"))
    return np.frombuffer(bytearray(b"".join(drawn)), np.uint8).reshape(count, width)
