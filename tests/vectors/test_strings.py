"""The vectors of texts against docs/wire.md, written down without the client's code."""

from __future__ import annotations

import json

import pytest

from tests.reference.strings import fingerprints
from tests.vectors.strings import DIRECTORY, TEXTS, contents, rules

CASES = json.loads((DIRECTORY / "cases.json").read_text("ascii"))


def test_the_vectors_are_current() -> None:
    """A changed fingerprint shows here. If it is meant: python -m tests.vectors.strings."""
    fresh = dict(contents())
    assert {path.name for path in DIRECTORY.glob("*")} == set(fresh)
    for name, text in fresh.items():
        assert (DIRECTORY / name).read_text("ascii") == text, name


@pytest.mark.parametrize("place", range(len(CASES)))
def test_every_fingerprint_is_the_one_that_the_page_says(place: int) -> None:
    rule, cases = CASES[place]["domain"]["strings"], CASES[place]["cases"]
    assert [text for text, _ in cases] == list(TEXTS)
    assert len(CASES) == len(list(rules()))
    for text, found in cases:
        assert fingerprints(rule, text) == found, text
