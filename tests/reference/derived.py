"""Derived random words as docs/wire.md has them, from the standard library's HMAC and nothing of ours."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from hashlib import sha256
from itertools import count

from ldpbeam.randomness import FULL

__all__ = ["FRESH", "ONCE", "PERMANENT", "REPORT_ID", "SENDING_TIME", "Stream", "about", "label", "stream"]

ONCE, PERMANENT, FRESH, REPORT_ID, SENDING_TIME = 1, 2, 3, 4, 6


def label(full_digest: bytes, purpose: int, part: int, number: int) -> bytes:
    """The label of a stream, 62 bytes; of a fresh one what it begins with."""
    tail = bytes([purpose]) + part.to_bytes(4, "little") + (number % FULL).to_bytes(8, "little")
    return b"ldpbeam device 1\0" + full_digest + tail


class Stream:
    """The words of one stream."""

    def __init__(self, key: bytes) -> None:
        """Begin with block 0."""
        self._words = self._all(key)

    @staticmethod
    def _all(key: bytes) -> Iterator[int]:
        for number in count():
            block = hmac.digest(key, number.to_bytes(8, "little"), "sha256")
            yield from (int.from_bytes(block[i : i + 8], "little") for i in range(0, 32, 8))

    def word(self, limit: int = FULL) -> int:
        """The next word that is below the largest multiple of the limit, modulo the limit."""
        return next(word for word in self._words if word < FULL - FULL % limit) % limit


def about(*values: int) -> bytes:
    """What ends the label of a fresh stream, 32 bytes."""
    return sha256(b"".join(value.to_bytes(4, "little") for value in values)).digest()


def stream(
    secret: bytes, full_digest: bytes, purpose: int, part: int, number: int, end: bytes = b""
) -> Stream:
    """The stream of a label; of a fresh one with its end."""
    return Stream(hmac.digest(secret, label(full_digest, purpose, part, number) + end, "sha256"))
