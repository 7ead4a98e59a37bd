"""Writes the vectors of participation: ``python -m tests.vectors.participation``.

For clients in other languages: from a device's secret and a collection to the epochs that the device reports
in, and to what it sends in each epoch (null where it is silent). ``choices.json`` has the choice alone, from
words that lie below their limits. Integers that may exceed 2**53 are decimal strings, bytes are hexadecimal.
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
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.message import canonical
from ldpbeam.collection.participation import Participation
from ldpbeam.simulators.random_words import RandomWords
from ldpbeam.wire import device_state_pb2
from tests.reference.script import ScriptedRandomness
from tests.vectors import derived
from tests.vectors.writing import rewrite

DIRECTORY = Path(__file__).parent / "participation"
CHOICES = ((1, 1), (1, 30), (3, 7), (7, 7), (12, 365), (2, 1 << 16))
WITH = {"olh_linear": (2, 6), "l_osue": (1, 5), "sample_loloha": (3, 6)}
"""Collections of the derived vectors, and how often their devices report."""


def collections() -> Iterator[tuple[str, Collection]]:
    """Those of the derived vectors, with participation."""
    known = dict(derived.collections())
    for name, (reports, of) in WITH.items():
        epochs = Epochs(known[name].epochs.length, known[name].epochs.origin, of)
        yield name, replace(known[name], epochs=epochs, participation=Participation(reports, of))


def choice(reports: int, of: int, seed: int) -> dict[str, Any]:
    """Words, and the epochs that they choose."""
    asked, source = Participation(reports, of), RandomWords(seed)
    words = [
        int(source.words("vectors", place, 0, 1, 1, limit)[0, 0]) for place, limit in enumerate(asked.limits)
    ]
    found = asked.chosen(ScriptedRandomness(words))
    return {**asked.as_record(), "words": words, "epochs": list(found)}


def vector(name: str, asked: Collection) -> dict[str, Any]:
    """Devices of one collection in all its epochs."""
    none = device_state_pb2.DeviceMemo()
    devices = []
    for number in range(3):
        secret = derived.secret_of(f"participation {name}", number)
        draws = DerivedDraws(asked, secret)
        value = derived.value_of(asked, number)
        epochs = range(asked.epochs.count)
        sent = [
            derived.report(asked, draws.report(value, epoch, none), epoch)
            if draws.reports_in(epoch, ())
            else None
            for epoch in epochs
        ]
        devices.append({"secret": secret.hex(), "value": value, "reports": sent})
    return {
        "collection": canonical(asked.to_message()).hex(),
        "definition": device_definition(asked),
        "devices": devices,
    }


def contents() -> Iterator[tuple[str, str]]:
    """File names and texts."""
    chosen = [choice(reports, of, seed) for reports, of in CHOICES for seed in range(2)]
    yield "choices.json", json.dumps(chosen, indent=1) + "\n"
    for name, asked in collections():
        yield f"{name}.json", json.dumps(vector(name, asked), indent=1) + "\n"


if __name__ == "__main__":
    rewrite(DIRECTORY, contents())
