"""Texts that nobody listed, as fingerprints of their prefixes (docs/maths.md section 3).

A device has one prefix length for life, and reports the fingerprint of that prefix of its text as another
device reports a value. Fingerprints are public: whoever knows a prefix can compute it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

END, OTHER = "\0", "\1"
"""Symbols that no text has: behind the end of a text, and in the place of a text that cannot be written."""

ALPHABETS = {
    "digits": "0123456789",
    "lower": "abcdefghijklmnopqrstuvwxyz",
    "lower_digits": "abcdefghijklmnopqrstuvwxyz0123456789",
    "hostname": "abcdefghijklmnopqrstuvwxyz0123456789-._",
    "printable": "".join(map(chr, range(32, 127))),
}
"""Alphabets by the names that a collection file uses."""

_LABEL = b"ldpbeam prefix 1\0"
_FIRST, _STEP = 1 << 16, 1 << 11
"""Candidates of the first level, and extensions of a prefix at each further one, at most."""
_WHOLE = 2
"""So many times as many devices have whole texts as prefixes of another length: about what finds most."""


@dataclass(frozen=True)
class Strings:
    """How texts become fingerprints.

    Attributes:
        max_length: symbols of a text, at most.
        symbols: the alphabet: different characters, none of them :data:`END` or :data:`OTHER`.
        fold: whether A to Z are taken for a to z first.
        drop: whether other symbols are left out and long texts cut; else such a text counts as one that
            cannot be written, :data:`OTHER`.
        lengths: of the prefixes that devices report, ascending; the last is ``max_length``.
        weights: of the lengths, integers: how many devices draw each.
    """

    max_length: int
    symbols: str
    fold: bool
    drop: bool
    lengths: tuple[int, ...]
    weights: tuple[int, ...]

    @classmethod
    def of(cls, max_length: int, symbols: str, *, fold: bool = False, drop: bool = False) -> Strings:
        """With the lengths that a server can walk, and the weights that find most."""
        lengths = default_lengths(len(symbols) + 1, max_length)
        return cls(max_length, symbols, fold, drop, lengths, (*(1,) * (len(lengths) - 1), _WHOLE))

    @property
    def alphabet(self) -> tuple[str, ...]:
        """The symbols that a text may begin with, the one of texts that cannot be written among them."""
        return (*self.symbols, OTHER)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.symbols)

    def padded(self, text: str) -> str:
        """A text as all devices write it: ``max_length`` symbols, ends included."""
        if self.fold:
            text = text.translate(_FOLD)
        if self.drop:
            text = "".join(filter(self._known.__contains__, text))[: self.max_length]
        elif len(text) > self.max_length or not self._known.issuperset(text):
            text = OTHER
        return text.ljust(self.max_length, END)

    def fingerprints(self, text: str) -> tuple[int, ...]:
        """The fingerprint of each prefix of a text."""
        padded = self.padded(text)
        return tuple(fingerprint(padded[:length]) for length in self.lengths)

    def prints_of(self, level: int, texts: Iterable[str]) -> Any:
        """Fingerprints of prefixes at one of the lengths, uint32 (texts,); a shorter text is a whole one."""
        import numpy as np

        length = self.lengths[level]
        return np.array([fingerprint(text.ljust(length, END)) for text in texts], np.uint32)

    @staticmethod
    def label(padded: str) -> str:
        """A text as people read it: ``(empty)`` for the empty one, ``(other)`` for :data:`OTHER`.

        A text that would read like one of these has quotes around it, and one more pair for each it has.
        """
        text = padded.rstrip(END)
        if text.strip('"') in _MARKED.values():
            text = f'"{text}"'
        return _MARKED.get(text, text)


def text_of(label: str) -> str | None:
    """The text of a :meth:`Strings.label`; None for the one that cannot be written."""
    known = {shown: text for text, shown in _MARKED.items()}
    if label in known:
        return None if known[label] == OTHER else known[label]
    return label[1:-1] if label.strip('"') in known else label


_MARKED = {"": "(empty)", OTHER: "(other)"}
_FOLD = {ord(one): ord(one.lower()) for one in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def fingerprint(prefix: str) -> int:
    """32 bits of a prefix, ends included, so that its length is part of it."""
    return int.from_bytes(sha256(_LABEL + prefix.encode()).digest()[:4], "little")


def default_lengths(symbols: int, max_length: int) -> tuple[int, ...]:
    """Lengths such that no level has too many candidates; ``symbols`` counts the end of a text."""
    first, step = _most(symbols, _FIRST), max(_most(symbols, _STEP), 1)
    return (*range(min(first, max_length), max_length, step), max_length)


def _most(symbols: int, limit: int) -> int:
    """How many symbols can be chosen freely so that there are at most ``limit`` choices; at least one."""
    power = 1
    while symbols ** (power + 1) <= limit:
        power += 1
    return power
