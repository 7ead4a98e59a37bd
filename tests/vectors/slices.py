"""Writes the vectors of slices: ``python -m tests.vectors.slices``.

For clients in other languages: the digest of every slice of a collection, what a device may say and what it
may not, and the reports of a device whose slice changes from epoch to epoch. Bytes are hexadecimal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

from ldpbeam.client.report_draws import DerivedDraws
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.device_definition import device_definition
from ldpbeam.collection.slices import Slices
from ldpbeam.wire import device_state_pb2, report_pb2
from tests.vectors import derived
from tests.vectors.generate import HISTORY
from tests.vectors.writing import rewrite

DIRECTORY = Path(__file__).parent / "slices"
WITH = {
    "l_grr": {"channel": ["release", "beta"], "Country-2": ["Österreich", "日本", "🦊 = x, y", "other"]},
    "loloha_linear": {"arm": ["treatment", "control"]},
    "sample_loloha": {"z": ["1", "01"], "a": ["z", "other", "\u00e9", "e\u0301"]},
}
"""Collections of the derived vectors, and their slices; the last two labels differ in Unicode form only."""

SAID: dict[str, list[dict[str, str]]] = {
    "l_grr": [
        {"channel": "beta", "Country-2": "日本"},
        {"Country-2": "🦊 = x, y", "channel": "release"},
        {"channel": "beta", "Country-2": "Atlantis"},
    ],
    "loloha_linear": [{"arm": "treatment"}, {"arm": "control"}],
    "sample_loloha": [{"z": "01", "a": "\u00e9"}, {"z": "01", "a": "É"}, {"z": "1", "a": "e\u0301"}],
}
"""What the device says, from report to report in turn; a label that is not listed is other."""

REFUSED: dict[str, list[Any]] = {
    "l_grr": [None, {}, {"channel": "Beta", "Country-2": "日本"}, {"channel": "beta"}, "beta"],
    "loloha_linear": [{"arm": "other"}, {"arm": 1}, {"arm": None}, {"arm": "control", "z": "1"}],
    "sample_loloha": [{"z": "1", "a": 1}, {"z": "\uff11", "a": "z"}, [["z", "1"], ["a", "z"]]],
}


def collections() -> Iterator[tuple[str, Collection]]:
    known = dict(derived.collections())
    for name, labels in WITH.items():
        yield name, replace(known[name], slices=Slices.of(labels))


def digest_of(asked: Collection, said: dict[str, str]) -> int:
    return asked.slice_digest(asked.slices.of_device(said))


def vector(name: str, asked: Collection) -> dict[str, Any]:
    """Everything about one collection."""
    none = device_state_pb2.DeviceMemo()
    devices = []
    for number, history in enumerate(HISTORY[:3]):
        secret = derived.secret_of(f"slices {name}", number)
        draws, said, steps = DerivedDraws(asked, secret), cycle(SAID[name]), []
        for epoch, held in zip(derived.EPOCHS, history, strict=True):
            value, slice_ = derived.value_of(asked, held), next(said)
            message = report_pb2.Report.FromString(
                bytes.fromhex(derived.report(asked, draws.report(value, epoch, none), epoch))
            )
            message.digest = digest_of(asked, slice_)
            sent = message.SerializeToString().hex()
            steps.append({"epoch": epoch, "value": value, "slice": slice_, "report": sent})
        devices.append({"secret": secret.hex(), "steps": steps})
    return {
        "definition": device_definition(asked),
        "digests": [
            {"slice": dict(one), "digest": asked.slice_digest(one).to_bytes(8, "little").hex()}
            for one in asked.slices.combinations
        ],
        "refused": REFUSED[name],
        "devices": devices,
    }


def contents() -> Iterator[tuple[str, str]]:
    """File names and texts."""
    for name, asked in collections():
        yield f"{name}.json", json.dumps(vector(name, asked), indent=1) + "\n"


if __name__ == "__main__":
    rewrite(DIRECTORY, contents())
