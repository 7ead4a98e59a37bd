"""Writes the vectors of slices: ``python -m tests.vectors.slices``.

For clients in other languages: the digest of every slice of a collection, what a device may not say, and the
reports of a device whose slice changes from epoch to epoch. Bytes are hexadecimal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ldpbeam.client.report_draws import DerivedDraws
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.device_definition import device_definition
from ldpbeam.collection.slices import Slices
from ldpbeam.wire import device_state_pb2, report_pb2
from tests.vectors import derived
from tests.vectors.writing import rewrite

DIRECTORY = Path(__file__).parent / "slices"
WITH: dict[str, tuple[dict[str, list[str]], list[dict[str, str]], list[Any]]] = {
    "l_grr": (
        {"channel": ["release", "beta"], "Country-2": ["Österreich", "日本", "🦊 = x, y", "other"]},
        [
            {"channel": "beta", "Country-2": "日本"},
            {"Country-2": "🦊 = x, y", "channel": "release"},
            {"channel": "beta", "Country-2": "Atlantis"},
        ],
        [None, {}, {"channel": "Beta", "Country-2": "日本"}, {"channel": "beta"}, "beta"],
    ),
    "sample_loloha": (
        {"z": ["1", "01"], "a": ["z", "\u00e9", "e\u0301"]},
        [{"z": "01", "a": "\u00e9"}, {"z": "1", "a": "e\u0301"}],
        [{"z": 1, "a": "z"}, {"z": "\uff11", "a": "z"}, {"z": "1", "a": "z", "b": "1"}],
    ),
}
"""Collections of the derived vectors: their slices, what the device says in turn, and what is refused."""


def collections() -> Iterator[tuple[str, Collection]]:
    known = dict(derived.collections())
    for name, (labels, _, _) in WITH.items():
        yield name, replace(known[name], slices=Slices.of(labels))


def vector(name: str, asked: Collection) -> dict[str, Any]:
    """Everything about one collection; but for the digest, reports are those of a device without slices."""
    _, said, refused = WITH[name]
    secret, none = derived.secret_of(f"slices {name}", 0), device_state_pb2.DeviceMemo()
    draws, steps = DerivedDraws(asked, secret), []
    for epoch in range(4):
        value, slice_ = derived.value_of(asked, 3 + epoch % 2), said[epoch % len(said)]
        plain = derived.report(asked, draws.report(value, epoch, none), epoch)
        message = report_pb2.Report.FromString(bytes.fromhex(plain))
        message.digest = asked.slice_digest(asked.slices.of_device(slice_))
        steps.append(
            {"epoch": epoch, "value": value, "slice": slice_, "report": message.SerializeToString().hex()}
        )
    return {
        "definition": device_definition(asked),
        "digests": [
            {"slice": dict(one), "digest": asked.slice_digest(one).to_bytes(8, "little").hex()}
            for one in asked.slices.combinations
        ],
        "refused": refused,
        "secret": secret.hex(),
        "steps": steps,
    }


def contents() -> Iterator[tuple[str, str]]:
    """File names and texts."""
    for name, asked in collections():
        yield f"{name}.json", json.dumps(vector(name, asked), indent=1) + "\n"


if __name__ == "__main__":
    rewrite(DIRECTORY, contents())
