"""The committed device definitions are current, and each vector file has its own."""

from __future__ import annotations

import json

from tests.vectors import definitions, derived, generate


def test_the_definitions_are_current() -> None:
    """If a change is meant: python -m tests.vectors.definitions; the commit says what devices must know."""
    fresh = dict(definitions.contents())
    assert {path.name for path in definitions.DIRECTORY.glob("*")} == set(fresh)
    for name, text in fresh.items():
        assert (definitions.DIRECTORY / name).read_text("ascii") == text, name


def test_every_vector_has_the_definition_of_its_protocol() -> None:
    for path in sorted(generate.DIRECTORY.glob("*.json")):
        vector = json.loads(path.read_text("ascii"))
        stated = json.loads((definitions.DIRECTORY / path.name).read_text("ascii"))["protocol"]
        assert (stated["name"], stated["id"]) == (vector["protocol"], vector["id"])
        assert stated["domain_size"] == vector["domain_size"]
        level = stated.get("level", stated)
        assert {name: level[name] for name in ("permanent", "instant")} == vector["rounds"], path.name


def test_every_derived_vector_has_the_definition_of_its_collection() -> None:
    for path in sorted(derived.DIRECTORY.glob("*.json")):
        if path.name != "streams.json":
            stated = json.loads((definitions.DIRECTORY / path.name).read_text("ascii"))
            assert stated["full_digest"] == json.loads(path.read_text("ascii"))["full_digest"], path.name
