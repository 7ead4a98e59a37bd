"""The table of parameter keys: reader, message, digest, record, errors and docs agree with it."""

from __future__ import annotations

from dataclasses import fields

import pytest

from ldpbeam.collection.file import parse_collection
from ldpbeam.errors import CollectionError
from ldpbeam.protocols import Parameters
from ldpbeam.protocols.parameters import LEVELS, PARAMETER_KEYS
from ldpbeam.wire import collection_pb2
from tests.reference.settings import Setting, settings


def test_the_table_and_the_value_object_have_the_same_fields_and_defaults() -> None:
    assert {field.name: field.default for field in fields(Parameters)} == {
        name: key.default for name, key in PARAMETER_KEYS.items()
    }
    assert LEVELS == ("epsilon", "epsilon_longitudinal", "epsilon_first")


def test_every_key_has_its_field_in_the_messages() -> None:
    whole, part = (m.DESCRIPTOR.fields_by_name for m in (collection_pb2.Collection, collection_pb2.Attribute))
    for name, key in PARAMETER_KEYS.items():
        assert whole[name].number == key.field, name
        assert (name in part) == key.resolved, name
        assert not key.resolved or part[name].number == key.field, name
    others = {"name", "version", "domain", "protocol", "epoch", "attributes", "allocation", "participation"}
    assert {n for n, field in whole.items() if field.number < 100} == {*PARAMETER_KEYS, *others}


@pytest.mark.parametrize("setting", list(settings((9,))), ids=str)
def test_what_a_protocol_resolves_stands_in_the_table(setting: Setting) -> None:
    kind, built = setting.kind, setting.build()
    takes = {*kind.PARAMETERS, *kind.OPTIONAL}
    resolved = {name for name in takes if PARAMETER_KEYS[name].resolved}
    # A g that is not given is resolved, and the usual w is not.
    assert set(built.resolved_parameters()) - {"g", "w"} == resolved - {"g", "w"}
    assert built.resolved_parameters().keys() <= {n for n, key in PARAMETER_KEYS.items() if key.resolved}


BASE = "name: a\nepoch: {length: 1h}\n"
ATTRIBUTES = "attributes:\n  - {name: x, domain: {size: 4}}\n  - {name: y, domain: {labels: [b, b]}}\n"
RRPM = "domain: {range: {max: 60}}\nprotocol: one_bit_rrpm\nepsilon_longitudinal: 1.0\n"
FAULTS = {
    "gamma": (RRPM + "segment: 30\ngamma: 0.7\n", "gamma:"),
    "segment": (RRPM + "gamma: 0.2\nsegment: 7\n", "segment:"),
    "lateness": (RRPM + "allowed_lateness: 9999999w\n", "allowed_lateness:"),
    "tolerance": (RRPM + "future_tolerance: 9999999w\n", "future_tolerance:"),
    "d": ("domain: {size: 4}\nprotocol: dbitflip\nepsilon: 1.0\nd: 9\n", "d:"),
    "p2": ("domain: {size: 4}\nprotocol: rappor\nepsilon_longitudinal: 1.0\nq2: 0.25\np2: 0.1\n", "p2:"),
    "q2": ("domain: {size: 4}\nprotocol: rappor\nepsilon_longitudinal: 1.0\nq2: 0.9\n", "q2:"),
    "noise": (
        "domain: {range: {max: 10000000}}\nprotocol: laplace_mean\nepsilon: 0.0001\n",
        "epsilon:",
    ),
    "labels of an attribute": (
        ATTRIBUTES + "allocation: sample\nprotocol: grr\nepsilon: 1.0\n",
        "  - {name: y",
    ),
    "infeasible": (
        "domain: {size: 4}\nprotocol: l_oue\nepsilon_longitudinal: 2.0\nepsilon_first: 1.99\n",
        "epsilon_first:",
    ),
    "share": (
        ATTRIBUTES.replace("b, b", "b, c") + "protocol: grr\nallocation: split\nepsilon: 0.000001\n",
        "epsilon:",
    ),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_fault_of_the_core_is_shown_at_its_line(fault: str) -> None:
    more, start = FAULTS[fault]
    text = BASE + more
    line = next(i for i, one in enumerate(text.splitlines(), 1) if one.startswith(start))
    with pytest.raises(CollectionError) as caught:
        parse_collection(text, "f.yaml")
    assert caught.value.where == f"f.yaml:{line}", str(caught.value)
