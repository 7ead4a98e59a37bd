"""Words that follow from a device's secret by a pseudo-random function, as docs/wire.md specifies it.

A stream is named by its label, and its words by their place in it. So the same draw gives the same words
after a crash, in another process, or from an older copy of the state. Nothing has to be remembered for that.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from enum import IntEnum
from hashlib import sha256
from struct import pack, unpack

from ldpbeam.randomness import FULL, Randomness

WHOLE = (1 << 32) - 1
"""In place of an attribute's position: what several draw together, such as which one is sampled."""

VALUE_BYTES = 4
"""Of the index of a value, wherever values become bytes."""

_BLOCK = 4
"""Words in one output of HMAC-SHA256."""


class Purpose(IntEnum):
    """What words are for; the numbers are part of every label."""

    ONCE = 1
    PERMANENT = 2
    FRESH = 3
    REPORT_ID = 4
    NOISE = 5
    SENDING_TIME = 6
    PARTICIPATION = 7


class DerivedWords(Randomness):
    """The words of one stream, in order."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._blocks = 0
        self._left: tuple[int, ...] = ()

    def word(self, limit: int = FULL) -> int:
        end = FULL - FULL % limit
        while True:
            (word,) = self.words(1)
            if word < end:
                return word % limit

    def words(self, count: int) -> Sequence[int]:
        words = self._left
        missing = count - len(words)
        if missing > 0:
            first, key = self._blocks, self._key
            self._blocks = first - (-missing // _BLOCK)
            numbers = range(first, self._blocks)
            drawn = b"".join([hmac.digest(key, pack("<Q", number), "sha256") for number in numbers])
            words += unpack(f"<{len(drawn) // 8}Q", drawn)
        self._left = words[count:]
        return words[:count]


class Derivation:
    def __init__(self, secret: bytes, digest: bytes, label: bytes = b"ldpbeam device 1\0") -> None:
        self._secret = secret
        self._label = label + digest

    def key(self, purpose: int, part: int, number: int, about: bytes = b"") -> bytes:
        label = self._label + pack("<BIQ", purpose, part, number % FULL) + about
        return hmac.digest(self._secret, label, "sha256")

    def stream(self, purpose: int, part: int, number: int, about: bytes = b"") -> DerivedWords:
        return DerivedWords(self.key(purpose, part, number, about))


def packed_values(values: int | tuple[int, ...]) -> bytes:
    """The values of all attributes, or the only one, in as many bytes whatever they are."""
    several = values if isinstance(values, tuple) else (values,)
    return b"".join([one.to_bytes(VALUE_BYTES, "little") for one in several])


def hash_of(values: int | tuple[int, ...]) -> bytes:
    """32 bytes that tell reports about different values apart: copies of a device must not share coins."""
    return sha256(packed_values(values)).digest()


class DerivedRandomness(Randomness):
    """The words of one purpose, a stream for each attribute."""

    def __init__(
        self, derivation: Derivation, purpose: Purpose, number: int, part: int, about: bytes = b""
    ) -> None:
        self._derivation = derivation
        self._purpose = purpose
        self._number = number
        self._part = part
        self._about = about
        self._stream: DerivedWords | None = None
        self._parts: dict[int, DerivedRandomness] = {}

    @property
    def _words(self) -> DerivedWords:
        if self._stream is None:
            self._stream = self._derivation.stream(self._purpose, self._part, self._number, self._about)
        return self._stream

    def word(self, limit: int = FULL) -> int:
        return self._words.word(limit)

    def words(self, count: int) -> Sequence[int]:
        return self._words.words(count)

    def part(self, index: int) -> Randomness:
        if index not in self._parts:
            self._parts[index] = self._of_part(index)
        return self._parts[index]

    def _of_part(self, index: int) -> DerivedRandomness:
        return DerivedRandomness(self._derivation, self._purpose, self._number, index)


class ReportRandomness(DerivedRandomness):
    """The words of one report: permanent answers have streams of their own, which no epoch changes."""

    def __init__(
        self,
        derivation: Derivation,
        epoch: int,
        part: int,
        about: bytes,
        inputs: list[tuple[int, int]] | None = None,
    ) -> None:
        super().__init__(derivation, Purpose.FRESH, epoch, part, about)
        self.inputs: list[tuple[int, int]] = [] if inputs is None else inputs

    def permanent(self, key: int) -> Randomness:
        self.inputs.append((self._part, key))
        return self._derivation.stream(Purpose.PERMANENT, self._part, key)

    def _of_part(self, index: int) -> ReportRandomness:
        return ReportRandomness(self._derivation, self._number, index, self._about, self.inputs)
