"""The definition of a collection in a run's record makes the same collection again."""

from __future__ import annotations

import json

import pytest

from ldpbeam.collection.collection import Attribute, Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.file import parse_collection
from ldpbeam.collection.record import collection_of, definition
from ldpbeam.errors import CollectionError
from ldpbeam.protocols import Parameters
from tests.conftest import REPOSITORY
from tests.pipelines.running import collection, counting_collections

FILES = sorted((REPOSITORY / "examples").glob("*.yaml"))

LABELLED = """\
name: choice
version: 7
owner: somebody@example.com
domain: {labels: ["yes", "no", "löß \\"x\\" \\u200e"]}
protocol: rappor
epsilon_longitudinal: 2.1
p2: 0.7
q2: 0.2
epoch: {length: 1w, origin: 2026-01-01T00:00:00Z}
allowed_lateness: 2d
future_tolerance: 0
retired: 2027-01-01T00:00:00Z
min_reports: 9
consistency: norm_mul
"""


def again(agreed: Collection) -> Collection:
    return collection_of(json.loads(json.dumps(definition(agreed))))


@pytest.mark.parametrize("agreed", counting_collections(), ids=lambda c: c.name)
def test_every_protocol_is_made_again(agreed: Collection) -> None:
    made = again(agreed)
    assert (made, made.digest) == (agreed, agreed.digest)
    assert made.to_message() == agreed.to_message()


def test_the_label_for_all_others_is_kept() -> None:
    agreed = parse_collection(LABELLED.replace('x\\" \\u200e"]', 'x\\" \\u200e"], other: "no"'))
    assert agreed.domain
    assert agreed.domain.other == again(agreed).domain.other == 1  # type: ignore[union-attr]
    assert again(agreed).digest == agreed.digest != parse_collection(LABELLED).digest
    assert "other" not in definition(parse_collection(LABELLED))["domain"]


def test_what_a_file_may_say_is_kept() -> None:
    agreed = parse_collection(LABELLED)
    assert again(agreed) == agreed
    assert again(agreed).to_message() == agreed.to_message()


def test_several_attributes_are_kept() -> None:
    agreed = Collection(
        "several",
        2,
        None,
        "grr",
        Parameters(epsilon=1.0),
        Epochs(3600, 0),
        attributes=(Attribute("a", Domain(4)), Attribute("b", Domain(3, ("x", "y", "z")))),
        allocation="sample",
    )
    assert again(agreed) == agreed
    assert again(agreed).digest == agreed.digest


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"digest": "0" * 16},
        {"parameters": {}},
        {"domain": {"size": 12}},
        {"epochs": {"length": 3600}},
        {"attributes": None},
    ],
    ids=str,
)
def test_a_damaged_definition_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(CollectionError, match="E-COLLECTION"):
        collection_of({**definition(collection("grr")), **change})
