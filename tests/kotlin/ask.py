"""What the tests of the Kotlin device ask of Python: ``python -m tests.kotlin.ask COMMAND ARGUMENT ...``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import ldpbeam
from ldpbeam.collection.device_definition import device_definition_text
from tests.ldpbeam.client.devices import set_state, state_of
from tests.vectors.derived import collections
from tests.vectors.test_derived import load


def definition(collection: str) -> None:
    sys.stdout.write(device_definition_text(ldpbeam.parse_collection(collection)))


def report(collection: str, folder: str, value: str, epoch: str) -> None:
    message = ldpbeam.Device.open(ldpbeam.parse_collection(collection), folder).report(value, int(epoch))
    assert message is not None
    sys.stdout.write(message.hex())


def vectors(folder: str) -> None:
    """For each collection a folder with its first device's secret: value, epoch and report, a line each."""
    for name, collection in collections():
        given = load(name)["devices"][0]
        device = ldpbeam.Device.open(collection, Path(folder, name, "state"))
        state = state_of(device)
        state.secret = bytes.fromhex(given["secret"])
        set_state(device, state)
        Path(folder, name, "definition.json").write_text(device_definition_text(collection), "ascii")
        steps = [f"{step['value']!r}\t{step['epoch']}\t{step['report']}\n" for step in given["steps"]]
        Path(folder, name, "steps").write_text("".join(steps), "utf-8")


COMMANDS: dict[str, Callable[..., None]] = {"definition": definition, "report": report, "vectors": vectors}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
