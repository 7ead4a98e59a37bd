"""Where random words come from: the operating system for devices, a script for vectors.

Every draw of a protocol is a uniform integer below a limit of at most 2**64, called a word. The operating
system's generator is asked for each draw and never buffered: a buffer survives a fork, and two processes
would then repeat each other's noise. A device that derives its words instead has them from
:mod:`ldpbeam.client.derivation`.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from struct import unpack

FULL = 1 << 64
"""Number of values of an unlimited word."""


class Randomness(ABC):
    """A source of independent uniform words.

    A protocol says which draw a word is for: the permanent answer of an input, one of its parts, or else the
    round of the report (in ``new_memo``: what is drawn once for life). Sources that give every word only once
    need not know; one that derives words from a secret must.
    """

    @abstractmethod
    def word(self, limit: int = FULL) -> int:
        """A uniform integer in ``[0, limit)``, ``1 <= limit <= 2**64``."""

    def words(self, count: int) -> Sequence[int]:
        """The next ``count`` words below 2**64."""
        return [self.word() for _ in range(count)]

    def permanent(self, key: int) -> Randomness:
        """The source of the permanent answer of the memoised input ``key``."""
        return self

    def part(self, index: int) -> Randomness:
        """The source of one of several attributes, by its position."""
        return self


class SystemRandomness(Randomness):
    """The operating system's cryptographic generator, asked once per draw."""

    def word(self, limit: int = FULL) -> int:
        """A uniform integer in ``[0, limit)``; exactly uniform (rejection inside ``secrets``)."""
        # Below 2**64 nothing need be rejected; randbelow would draw 65 bits and reject half of them.
        return secrets.randbits(64) if limit == FULL else secrets.randbelow(limit)

    def words(self, count: int) -> Sequence[int]:
        """As many words of one draw; nothing is kept of it for the next."""
        return unpack(f"<{count}Q", secrets.token_bytes(8 * count))
