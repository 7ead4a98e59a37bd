"""Given words in place of random ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from ldpbeam.randomness import FULL, Randomness


class ScriptedRandomness(Randomness):
    """Replays given words: of vectors, and of devices against a simulated fleet."""

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

    def words(self, count: int) -> Sequence[int]:
        """The next ``count`` words, each as :meth:`word` gives it."""
        words = list(islice(self._words, count))
        if len(words) < count:
            raise ValueError("the script of random words has run out")
        if words and (min(words) < 0 or max(words) >= FULL):
            raise ValueError("a scripted word does not lie in [0, 2**64)")
        return [int(word) for word in words]

    def exhausted(self) -> bool:
        """Whether every scripted word was used (consumes one when not)."""
        return next(self._words, None) is None
