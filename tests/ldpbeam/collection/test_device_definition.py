"""A device definition has the protocol's own integers, every one of them, and nothing of the server's."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ldpbeam.collection.collection import Attribute, Collection
from ldpbeam.collection.device_definition import FORMAT, device_definition, device_definition_text
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.hashing import AffineFamily, LinearFamily
from ldpbeam.protocols import Parameters
from ldpbeam.protocols.bit_flip import BitFlip
from ldpbeam.protocols.laplace_mean import LaplaceMean
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.one_bit_mean import OneBitRRPM
from ldpbeam.protocols.public_string import BinFlipPlus
from tests.reference.settings import Setting, settings
from tests.vectors.generate import rounds

ALWAYS = {"id", "name", "encoding", "domain_size", "payload_size", "permanent", "instant"}
SAFE = 1 << 53


def collection(setting: Setting) -> Collection:
    domain = Domain(setting.domain_size, ordered=True)
    return Collection("x", 3, domain, setting.name, setting.parameters, Epochs(3600, 7, 100))


def again(agreed: Collection) -> dict[str, Any]:
    """The definition after a reader of JSON."""
    read: dict[str, Any] = json.loads(device_definition_text(agreed))
    assert read == device_definition(agreed)
    return read


def numbers(value: Any) -> list[int | float]:
    if isinstance(value, dict | list):
        return [n for one in (value.values() if isinstance(value, dict) else value) for n in numbers(one)]
    return [value] if isinstance(value, int | float) else []


def own_facts(built: Any) -> dict[str, Any]:
    """What an encoding adds, from the protocol object's fields."""
    if isinstance(built, LocalHash):
        family = built.family
        if isinstance(family, LinearFamily):
            seeds = list(family.seeds())
            facts = {"family": "linear", "g": family.g, "digits": family.digits, "seeds": len(seeds)}
            assert family.g**family.digits == len(seeds) + 1
            return {"hash": facts}
        assert isinstance(family, AffineFamily)
        size = len(family.encode(0, 0)) - 16
        return {"hash": {"family": "affine", "g": family.g, "symbol_size": size}}
    if isinstance(built, BitFlip):
        everyone = built.d == built.domain_size
        entry = None if everyone else built.device.payload_size // built.d
        return {"d": built.d, "entry_size": entry}
    found: dict[str, Any] = {}
    if isinstance(built, BinFlipPlus):
        found["threshold"] = built.threshold
    elif isinstance(built, OneBitRRPM):
        found["segment"] = built.segment
    elif isinstance(built, LaplaceMean):
        found["margin"] = str(built.margin)
    return found


WIDE = Setting("olh", 500, Parameters(epsilon=1.0, hash_family="affine", g=300))
"""Symbols of two bytes."""


@pytest.mark.parametrize("setting", [*settings((11,)), WIDE], ids=str)
def test_the_integers_are_those_of_the_protocol(setting: Setting) -> None:
    agreed = collection(setting)
    read, built = again(agreed), agreed.protocol
    protocol = read["protocol"]
    own = own_facts(built)
    assert own.keys() <= built.device.definition().keys()
    assert protocol.keys() == ALWAYS | built.device.definition().keys()
    assert {name: protocol[name] for name in own} == own
    assert (protocol["id"], protocol["name"]) == (type(built).ID, type(built).NAME)
    assert (protocol["domain_size"], protocol["payload_size"]) == (
        setting.domain_size,
        built.device.payload_size,
    )
    for name in ("permanent", "instant"):
        assert protocol[name] == rounds(built)[name], name
    assert all(isinstance(one, int) and abs(one) < SAFE for one in numbers(read))


def test_the_collection_is_named_by_its_whole_digest() -> None:
    agreed = collection(settings((11,))[0])
    read = again(agreed)
    assert read["format"] == FORMAT
    assert (read["name"], read["version"]) == ("x", 3)
    assert read["epochs"] == {"length_seconds": 3600, "origin_seconds": 7, "count": 100}
    assert (read["domain"], read["attributes"]) == (
        {"size": 11, "labels": None, "maximum": None, "other": None},
        [],
    )
    assert len(read["full_digest"]) == 64
    assert read["full_digest"].startswith(read["digest"])
    assert int.from_bytes(bytes.fromhex(read["digest"]), "little") == agreed.digest


def test_what_only_the_server_needs_is_not_in_it() -> None:
    agreed = collection(settings((11,))[0])
    server: dict[str, Any] = {
        "owner": "a@example.com",
        "min_reports": 9,
        "allowed_lateness": 60,
        "consistency": "none",
    }
    assert again(replace(agreed, **server)) == again(agreed)


def test_labels_and_ranges_are_as_given() -> None:
    agreed = collection(Setting("grr", 3, Parameters(epsilon=1.0)))
    labels = ("a", "ß", '"')
    assert again(replace(agreed, domain=Domain(3, labels)))["domain"]["labels"] == list(labels)
    assert again(replace(agreed, domain=Domain(3, labels, other=2)))["domain"]["other"] == 2
    assert again(replace(agreed, domain=Domain(3, maximum=0.3)))["domain"]["maximum"] == 0.3


@pytest.mark.parametrize(
    ("allocation", "protocol", "parameters", "facts"),
    [
        ("sample", "loloha", Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0), {"index_size": 1}),
        ("split", "l_grr", Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0), {}),
        ("allomfree", "", Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0), {"index_size": 1}),
        ("together", "one_bit_mean", Parameters(epsilon=1.0), {"sum_limit": 8}),
    ],
)
def test_attributes_have_a_part_each(
    allocation: str, protocol: str, parameters: Parameters, facts: dict[str, Any]
) -> None:
    sizes = (9, 9, 9) if allocation == "together" else (9, 300, 2)
    attributes = tuple(Attribute(f"a{i}", Domain(size)) for i, size in enumerate(sizes))
    agreed = Collection(
        "x", 1, None, protocol, parameters, Epochs(3600, 0, 9), attributes=attributes, allocation=allocation
    )
    read = again(agreed)
    assert read["domain"] is None
    assert [(one["name"], one["domain"]["size"]) for one in read["attributes"]] == [
        (f"a{i}", size) for i, size in enumerate(sizes)
    ]
    whole = read["protocol"]
    plain = {"id", "name", "encoding", "domain_size", "payload_size", "parts"}
    assert whole.keys() == plain | facts.keys()
    assert {name: whole[name] for name in facts} == facts
    assert whole["encoding"] == ("sample" if allocation == "allomfree" else allocation)
    assert whole["payload_size"] == agreed.protocol.device.payload_size
    for part, built in zip(whole["parts"], agreed.protocol.parts, strict=True):
        assert part["id"] == type(built).ID
        assert part["instant"] == rounds(built)["instant"] is not None
        assert part["payload_size"] == built.device.payload_size


def test_many_attributes_have_a_wide_index() -> None:
    attributes = tuple(Attribute(f"a{i}", Domain(2)) for i in range(257))
    agreed = Collection(
        "x", 1, None, "grr", Parameters(epsilon=1.0), Epochs(9, 0), attributes=attributes, allocation="sample"
    )
    assert again(agreed)["protocol"]["index_size"] == 2


def test_every_protocol_names_its_encoding() -> None:
    found = {one.name: one.build().device.ENCODING for one in settings((8,))}
    known = {
        **dict.fromkeys(("grr", "l_grr"), "direct"),
        **dict.fromkeys(("sue", "oue", "l_sue", "l_osue", "l_oue", "l_soue", "rappor"), "unary"),
        **dict.fromkeys(("blh", "olh", "loloha"), "local_hash"),
        **dict.fromkeys(("dbitflip", "dbitflip_pm", "binflip"), "bit_flip"),
        "binflip_plus": "public_string",
        "one_bit_mean": "one_bit_mean",
        "one_bit_rrpm": "one_bit_rrpm",
        "laplace_mean": "laplace_mean",
        "piecewise_mean": "piecewise_mean",
        "subset": "subset",
    }
    assert {name: found[name] for name in known} == known
