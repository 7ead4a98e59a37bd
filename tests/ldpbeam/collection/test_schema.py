"""The JSON Schema of collection files agrees with their reader, wherever it claims to know."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ldpbeam.collection.collection import MANY_IN_ORDER, MANY_VALUES
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
TWO = [{"name": "a", "domain": {"size": 3}}, {"name": "b", "domain": {"labels": ["x", "y"]}}]
ONE_ROUND: dict[str, Any] = {key: value for key, value in BASE.items() if not key.startswith("epsilon")}
ONE_ROUND |= {"protocol": "olh", "epsilon": 1.0}


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
        BASE,
        BASE | {"g": "optimal"},
        BASE | {"g": 2, "hash_family": "affine", "calibration": "published"},
        BASE | {"retired": "2030-01-01T00:00:00Z", "allowed_lateness": "1d12h", "min_reports": 5},
        BASE | {"domain": {"range": {"max": 10.5, "buckets": 4}}},
        BASE | {"domain": {"labels": ["a", "b"], "other": "b"}},
        BASE | {"future_tolerance": 0},
        BASE | {"participation": {"reports": 1, "of": 30}},
        ONE_ROUND,
        ONE_ROUND | {"participation": {"reports": 2, "of": 30}},
        ONE_ROUND | {"calibration": "exact"},  # no effect, which is a warning
        ONE_ROUND | {"protocol": "dbitflip", "d": 2},
        without("domain") | {"attributes": TWO, "allocation": "sample"},
        without("protocol", without("domain")) | {"attributes": TWO, "allocation": "allomfree"},
        ONE_ROUND | {"protocol": "one_bit_mean", "domain": {"range": {"max": 10}}},
    ],
)  # fmt: skip
def test_what_is_read_fits(content: dict[str, Any]) -> None:
    assert reads(content)
    assert [error.message for error in VALIDATOR.iter_errors(content)] == []


@pytest.mark.parametrize(
    "content",
    [
        BASE | {"colour": 1},
        without("name"),
        without("epoch"),
        without("domain"),
        without("protocol"),
        without("epsilon_first"),
        BASE | {"name": "a b"},
        BASE | {"version": 0},
        BASE | {"epsilon": 1.0},
        BASE | {"epsilon_first": 40},
        BASE | {"epsilon_first": "1"},
        BASE | {"g": "best"},
        BASE | {"g": 1},
        BASE | {"d": 3},
        BASE | {"calibration": "exacter"},
        BASE | {"protocol": "lolo"},
        BASE | {"consistency": "normal"},
        BASE | {"epoch": {"length": "1x"}},
        BASE | {"epoch": {"length": "1M"}},
        BASE | {"epoch": {"length": "1d", "count": 0}},
        BASE | {"epoch": {}},
        BASE | {"participation": {"reports": 0, "of": 30}},
        BASE | {"participation": {"reports": 1, "of": 1 << 17}},
        BASE | {"participation": {"of": 30}},
        BASE | {"participation": {"reports": 1, "of": 30, "from": 3}},
        BASE | {"participation": {"reports": 1}},
        BASE | {"participation": {"reports": 1, "of": 30, "by": "week"}},
        BASE | {"participation": 30},
        BASE | {"domain": {"size": 1}},
        BASE | {"domain": {"size": 4, "labels": ["a", "b"]}},
        BASE | {"domain": {"size": 4, "other": "a"}},
        BASE | {"domain": {"range": {"buckets": 4}}},
        BASE | {"allocation": "sample"},
        BASE | {"attributes": TWO, "allocation": "sample"},
        without("domain") | {"attributes": TWO},
        without("domain") | {"attributes": TWO[:1], "allocation": "sample"},
        without("d", ONE_ROUND | {"protocol": "dbitflip"}),
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


def test_the_default_consistency_is_described_as_it_is_chosen() -> None:
    described = collection_schema()["properties"]["consistency"]["description"]
    assert described.count(f"{MANY_VALUES} values") == described.count(f"{MANY_IN_ORDER} values") == 1
