"""Scripted words: what makes vectors and fleets comparable must not forgive anything."""

from __future__ import annotations

import pytest

from tests.reference.script import ScriptedRandomness


def test_scripts_give_their_words_in_order_and_end() -> None:
    """A script that runs out, or holds a word beyond the limit, is an error and not a repeat."""
    script = ScriptedRandomness([3, 0, 2**64 - 1])
    assert [script.word(4), script.word(1), script.word()] == [3, 0, 2**64 - 1]
    with pytest.raises(ValueError, match="run out"):
        script.word()
    for word, limit in ((4, 4), (-1, 4), (2**64, 2**64)):
        with pytest.raises(ValueError, match="does not lie"):
            ScriptedRandomness([word]).word(limit)
    assert ScriptedRandomness([]).exhausted()
    assert not ScriptedRandomness([1]).exhausted()
