"""A device definition: labels and ranges as given, nothing of the server's. tests/vectors has the rest."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.device_definition import device_definition, device_definition_text
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.protocols import Parameters

AGREED = Collection("x", 3, Domain(3), "grr", Parameters(epsilon=1.0), Epochs(3600, 7, 100))


def again(agreed: Collection) -> dict[str, Any]:
    """The definition after a reader of JSON."""
    read: dict[str, Any] = json.loads(device_definition_text(agreed))
    assert read == device_definition(agreed)
    return read


def test_what_only_the_server_needs_is_not_in_it() -> None:
    server: dict[str, Any] = {
        "owner": "a@example.com",
        "min_reports": 9,
        "allowed_lateness": 60,
        "consistency": "none",
    }
    assert again(replace(AGREED, **server)) == again(AGREED)


def test_labels_and_ranges_are_as_given() -> None:
    labels = ("a", "ß", '"')
    assert again(replace(AGREED, domain=Domain(3, labels)))["domain"]["labels"] == list(labels)
    assert again(replace(AGREED, domain=Domain(3, labels, other=2)))["domain"]["other"] == 2
    assert again(replace(AGREED, domain=Domain(3, maximum=0.3)))["domain"]["maximum"] == 0.3
