"""Writes the vectors of derived devices: ``python -m tests.vectors.derived``.

For clients in other languages: from a device's secret, a collection, epochs and values to the bytes of
reports. ``derived/streams.json`` has words of streams; each other file a protocol (and hash family) with its
collection in canonical form. Integers that may exceed 2**53 are decimal strings, bytes are hexadecimal.

A device with ``spent`` reports noise: its budget is spent, and no value enters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from ldpbeam.client.derivation import Derivation, Purpose, hash_of
from ldpbeam.client.report_draws import DerivedDraws, DrawnReport
from ldpbeam.collection import values
from ldpbeam.collection.collection import Attribute, Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.message import canonical
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.protocols import Parameters
from ldpbeam.randomness import FULL
from ldpbeam.wire import device_state_pb2, report_pb2
from tests.reference.settings import hash_families
from tests.vectors.generate import HISTORY, STRINGS, TEXTS, name_of, rounds
from tests.vectors.writing import rewrite

DIRECTORY = Path(__file__).parent / "derived"
EPOCHS = (0, 1, 2, 1000)
LEVELS = Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0)
LIMITS = (FULL, FULL, 10, 3, (1 << 63) + 1, FULL - 1, 1, 1 << 32)


def secret_of(name: str, device: int) -> bytes:
    """A fixed secret."""
    return sha256(f"ldpbeam derived vectors {name}/{device}".encode()).digest()


def collections() -> Iterator[tuple[str, Collection]]:
    """Every protocol by itself, then ways to report several attributes."""
    for setting in hash_families():
        domain = Domain(setting.domain_size, ordered=setting.parameters.hash_family == "interval")
        yield (
            name_of(setting),
            Collection("vectors", 1, domain, setting.name, setting.parameters, Epochs(3600, 0)),
        )
    bits = Parameters(epsilon_longitudinal=1.0, gamma=0.2)
    for allocation, protocol, parameters in (
        ("sample", "loloha", LEVELS),
        ("split", "l_osue", LEVELS),
        ("allomfree", "", LEVELS),
        ("together", "one_bit_rrpm", bits),
    ):
        attributes = tuple(Attribute(f"a{i}", Domain(11)) for i in range(3))
        made = Collection(
            "vectors",
            1,
            None,
            protocol,
            parameters,
            Epochs(3600, 0),
            attributes=attributes,
            allocation=allocation,
        )
        yield f"{allocation}_{protocol}".rstrip("_"), made
    for name, (texts, level, parameters) in STRINGS.items():
        yield name, Collection("vectors", 1, StringDomain(strings=texts), level, parameters, Epochs(3600, 0))


def report(asked: Collection, drawn: DrawnReport, epoch: int) -> str:
    """The bytes of a report."""
    message = report_pb2.Report(
        digest=asked.digest, epoch=epoch, report_id=drawn.report_id, payload=drawn.payload
    )
    return message.SerializeToString().hex()


def value_of(asked: Collection, value: int) -> Any:
    """One for each attribute where there are several, within the bound of their sum; or a text."""
    if isinstance(asked.domain, StringDomain):
        return TEXTS[value]
    if asked.domain is not None:
        return value
    return (
        (value, 0, 0)
        if asked.protocol.device.sum_limit is not None
        else (value, (value + 1) % 11, value // 2)
    )


def vector(name: str, asked: Collection) -> dict[str, Any]:
    """Everything about one collection."""
    none = device_state_pb2.DeviceMemo()
    devices = []
    for device, history in enumerate(HISTORY):
        secret = secret_of(name, device)
        draws = DerivedDraws(asked, secret)
        steps = []
        for epoch, held in zip(EPOCHS, history, strict=True):
            value = value_of(asked, held)
            drawn = draws.report(values.value_of(asked, value), epoch, none)
            steps.append(
                {
                    "epoch": epoch,
                    "value": value,
                    "inputs": [[part, str(key)] for part, key in drawn.inputs],
                    "report": report(asked, drawn, epoch),
                    "spent": report(asked, draws.noise(epoch, none), epoch),
                    "sending_word": str(draws.share(epoch)),
                }
            )
        devices.append({"secret": secret.hex(), "steps": steps})
    built = asked.protocol
    return {
        "collection": canonical(asked.to_message()).hex(),
        "full_digest": asked.full_digest.hex(),
        "protocol": asked.protocol_name,
        "allocation": asked.allocation,
        "parts": [
            {
                "protocol": part.NAME,
                "domain_size": part.domain_size,
                "parameters": part.resolved_parameters(),
                "rounds": rounds(part),
            }
            for part in built.parts
        ],
        "devices": devices,
    }


def streams() -> dict[str, Any]:
    """Words of streams, below several limits in turn."""
    secret, digest = bytes(range(32)), sha256(b"collection").digest()
    derivation = Derivation(secret, digest)
    found = []
    for purpose in range(Purpose.ONCE, Purpose.SENDING_TIME + 1):  # participation has vectors of its own
        for part, number in ((0, 0), (0, 5), (3, -1), ((1 << 32) - 1, (1 << 64) - 2)):
            about = hash_of((part % 11, 7)) if purpose == Purpose.FRESH else b""
            words = derivation.stream(purpose, part, number, about)
            found.append(
                {
                    "purpose": purpose,
                    "part": part,
                    "input": str(number % FULL),
                    "values": about.hex(),
                    "key": derivation.key(purpose, part, number, about).hex(),
                    "words": [{"limit": str(limit), "word": str(words.word(limit))} for limit in LIMITS],
                    "then": [str(word) for word in words.words(7)],
                }
            )
    return {"secret": secret.hex(), "full_digest": digest.hex(), "streams": found}


def contents() -> Iterator[tuple[str, str]]:
    """File names and texts."""
    yield "streams.json", json.dumps(streams(), indent=1) + "\n"
    for name, asked in collections():
        yield f"{name}.json", json.dumps(vector(name, asked), indent=1) + "\n"


if __name__ == "__main__":
    rewrite(DIRECTORY, contents())
