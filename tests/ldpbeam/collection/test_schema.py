"""The JSON Schema of collection files agrees with their reader, wherever it claims to know."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ldpbeam.collection.file import KEYS, parse_collection
from ldpbeam.collection.schema import collection_schema
from ldpbeam.errors import CollectionError
from ldpbeam.protocols import PROTOCOLS
from ldpbeam.protocols.parameters import PARAMETER_KEYS
from tests.conftest import REPOSITORY

jsonschema = pytest.importorskip("jsonschema")  # comes with Beam
VALIDATOR = jsonschema.Draft202012Validator(collection_schema())
BASE: dict[str, Any] = {
    "name": "a",
    "domain": {"size": 4},
    "protocol": "loloha",
    "epsilon_longitudinal": 2.0,
    "epsilon_first": 1.0,
    "epoch": {"length": "1d"},
}


def without(key: str, content: dict[str, Any] = BASE) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name != key}


def reads(content: dict[str, Any]) -> bool:
    try:
        parse_collection(yaml.safe_dump(content))
    except CollectionError:
        return False
    return True


def test_it_is_a_schema_with_every_key_of_the_reader() -> None:
    jsonschema.Draft202012Validator.check_schema(collection_schema())
    assert tuple(collection_schema()["properties"]) == KEYS
    assert {*PARAMETER_KEYS} < {*KEYS}


@pytest.mark.parametrize("path", sorted((REPOSITORY / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_fits(path: Any) -> None:
    content = yaml.load(path.read_text("utf-8"), Loader=yaml.BaseLoader)
    content = yaml.safe_load(path.read_text("utf-8")) | {"epoch": content["epoch"]}
    content["epoch"] = {k: int(v) if k == "count" else v for k, v in content["epoch"].items()}
    VALIDATOR.validate(content)


@pytest.mark.parametrize(
    "content",
    [
        BASE | {"colour": 1},
        BASE | {"domain": {"size": 4, "labels": ["a", "b"]}},
        BASE | {"epoch": {"length": "1x"}},
        BASE | {"allocation": "sample"},
    ],
)
def test_what_does_not_fit_is_refused_by_the_reader_too(content: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(content)
    assert not reads(content)


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_the_keys_of_a_protocol_are_those_that_it_takes(name: str) -> None:
    """Every key of the table, given or left out, is judged as the reader judges it."""
    values: dict[str, Any] = {
        "epsilon": 1.0,
        "epsilon_longitudinal": 2.0,
        "epsilon_first": 1.0,
        "g": 2,
        "d": 1,
        "segment": 1,
    }
    values |= {"calibration": "exact", "hash_family": "linear", "p2": 0.75, "q2": 0.25, "gamma": 0.0}
    takes = {key: value for key, value in values.items() if key in PROTOCOLS[name].PARAMETERS}
    content = {"name": "a", "domain": {"size": 3}, "protocol": name, "epoch": {"length": "1d"}} | takes
    assert reads(content)
    assert VALIDATOR.is_valid(content)
    for key, value in values.items():
        changed = without(key, content) if key in takes else content | {key: value}
        assert VALIDATOR.is_valid(changed) is reads(changed), key
