"""Writes the vectors of texts: ``python -m tests.vectors.strings``.

From the ``strings`` of a device's definition and a text to the fingerprints of its prefixes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.device_definition import device_definition
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.collection.values import value_of
from ldpbeam.hashing.strings import ALPHABETS, Strings
from ldpbeam.protocols import Parameters
from tests.vectors.writing import rewrite

DIRECTORY = Path(__file__).parent / "strings"
SHAPES = (
    (8, ALPHABETS["lower"], (3, 5, 8)),
    (3, "ab", (3,)),
    (6, "abz é日本🦊👍", (1, 2, 3, 4, 5, 6)),
    (64, ALPHABETS["printable"], (1, 2, 33, 64)),
)
TEXTS = (
    *("", "a", "b", "z", "ab", "abc", "abcd", "abcdefgh", "abcdefghi", "ABCDEFGH", "aBzA", "a b", " ", "ab "),
    *(
        "é",
        "e\u0301",
        "É",
        "ß",
        "İ",
        "K",
        "日本",
        "日本語",
        "🦊",
        "🦊👍🦊👍🦊👍",
        "🦊👍🦊👍🦊👍🦊",
        "a🦊b🦊ab",
        "\ud83e",
        "\udd8a\ud83e",
    ),
    *(
        "\0",
        "\1",
        "a\0",
        "a\0b",
        "\n",
        "zzzzzzzz",
        "x" * 64,
        "x" * 65,
        "~" * 200,
        "e-mail@example.org",
        "[Z]`{",
    ),
)


def rules() -> Iterator[Strings]:
    for most, symbols, lengths in SHAPES:
        for fold, drop in ((False, False), (True, False), (False, True), (True, True)):
            yield Strings(most, symbols, fold, drop, lengths, (1,) * len(lengths))


def collection(strings: Strings, name: str = "olh", **levels: Any) -> Collection:
    levels = levels or {"epsilon": 1.0}
    domain = StringDomain(strings=strings)
    return Collection("vectors", 1, domain, name, Parameters(**levels), Epochs(3600, 0))


def contents() -> Iterator[tuple[str, str]]:
    """File names and texts."""
    found = []
    for one in rules():
        asked = collection(one)
        cases = [[text, value_of(asked, text)] for text in TEXTS]
        found.append({"domain": device_definition(asked)["domain"], "cases": cases})
    yield "cases.json", json.dumps(found) + "\n"


if __name__ == "__main__":
    rewrite(DIRECTORY, contents())
