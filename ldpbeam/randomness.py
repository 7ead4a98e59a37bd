"""Where random words come from. One secure home for devices, one scripted home for vectors.

Every draw of a protocol is a uniform integer below a limit of at most 2**64, called a word. Devices use
the operating system's generator for each draw and never buffer: a buffer survives a fork, and two
processes would then repeat each other's noise.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Protocol

__all__ = ["FULL", "Randomness", "ScriptedRandomness", "SystemRandomness"]

FULL = 1 << 64
"""Number of values of an unlimited word."""


class Randomness(Protocol):
    """A source of independent uniform words."""

    def word(self, limit: int = FULL) -> int:
        """A uniform integer in ``[0, limit)``, ``1 <= limit <= 2**64``."""
        ...


class SystemRandomness:
    """The operating system's cryptographic generator, asked once per draw."""

    def word(self, limit: int = FULL) -> int:
        """A uniform integer in ``[0, limit)``; exactly uniform (rejection inside ``secrets``)."""
        # Below 2**64 nothing need be rejected; randbelow would draw 65 bits and reject half of them.
        return secrets.randbits(64) if limit == FULL else secrets.randbelow(limit)


class ScriptedRandomness:
    """Replays given words: only for tests, of vectors and of devices against a simulated fleet.

    Raises:
        ValueError: a word does not lie below the limit asked for, or the script has run out.
    """

    def __init__(self, words: Iterable[int]) -> None:
        """Take the words to replay, first one first."""
        self._words = iter(words)

    def word(self, limit: int = FULL) -> int:
        """The next scripted word."""
        word = next(self._words, None)
        if word is None:
            raise ValueError("the script of random words has run out")
        if not 0 <= word < limit:
            raise ValueError(f"scripted word {word} does not lie in [0, {limit})")
        return int(word)

    def exhausted(self) -> bool:
        """Whether every scripted word was used (consumes one when not)."""
        return next(self._words, None) is None
