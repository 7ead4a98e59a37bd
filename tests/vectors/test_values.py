"""The vectors of values against docs/wire.md, written down without the client's code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ldpbeam.collection.domain import Domain
from tests.reference import values as reference
from tests.vectors.values import DIRECTORY, contents, described, domains, expected

CASES = json.loads((DIRECTORY / "cases.json").read_text("ascii"))


def test_the_vectors_are_current() -> None:
    """A changed index shows here. If it is meant: python -m tests.vectors.values."""
    fresh = dict(contents())
    assert {path.name for path in DIRECTORY.glob("*")} == set(fresh)
    for name, text in fresh.items():
        assert (DIRECTORY / name).read_text("ascii") == text, name


@pytest.mark.parametrize("place", range(len(CASES)))
def test_every_index_is_the_one_that_the_page_says(place: int) -> None:
    """By digit strings, integers and a search among the edges: nothing of the client's."""
    domain = CASES[place]
    for given, index in domain["cases"]:
        assert reference.index(domain, given) == index, given


@pytest.mark.parametrize("domain", list(domains()), ids=lambda one: f"{one.maximum}-{one.size}")
def test_the_client_gives_these_indices(domain: Domain) -> None:
    (listed,) = [one for one in CASES if {key: one[key] for key in described(domain)} == described(domain)]
    found: dict[Any, int] = {}
    for given, index in listed["cases"]:
        assert expected(domain, given) == index
        if index is not None:
            found[json.dumps(given)] = index
    assert len(found) >= 2
