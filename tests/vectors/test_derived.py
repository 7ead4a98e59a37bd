"""The vectors of derived devices against the specification, written down without the client's code."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.client import Device
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.device_definition import device_definition
from ldpbeam.protocols import PROTOCOLS
from ldpbeam.protocols.attributes.allocate import ALLOCATIONS
from ldpbeam.protocols.attributes.base import AttributeProtocol
from ldpbeam.protocols.attributes.sample import Sample
from ldpbeam.randomness import FULL
from ldpbeam.wire import report_pb2
from tests.ldpbeam.client.devices import set_state, state_of
from tests.narrow import present
from tests.reference import strings
from tests.reference.device import ReferenceDevice
from tests.vectors.derived import DIRECTORY, collections, contents

FILES = sorted(DIRECTORY.glob("*.json"))
BY_NAME = dict(collections())
every = pytest.mark.parametrize("name", sorted(BY_NAME))


class Spec:
    """docs/wire.md, word by word."""

    def __init__(self, secret: bytes, full_digest: bytes) -> None:
        self._secret = secret
        self._digest = full_digest

    def stream(self, purpose: int, part: int, number: int, end: bytes = b"") -> Iterator[int]:
        label = b"ldpbeam device 1\0" + self._digest + bytes([purpose])
        label += part.to_bytes(4, "little") + (number % FULL).to_bytes(8, "little")
        key = hmac.digest(self._secret, label + end, "sha256")
        for block in count():
            drawn = hmac.digest(key, block.to_bytes(8, "little"), "sha256")
            for start in range(0, 32, 8):
                yield int.from_bytes(drawn[start : start + 8], "little")


def below(limit: int, words: Iterator[int]) -> int:
    while (word := next(words)) >= FULL - FULL % limit:
        pass
    return word % limit


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DIRECTORY / f"{name}.json").read_text("ascii"))
    return found


def test_every_protocol_has_its_vectors_and_they_are_current() -> None:
    """A changed byte of any device shows here. If it is meant: python -m tests.vectors.derived."""
    fresh = dict(contents())
    assert {path.name for path in FILES} == set(fresh)
    assert {load(name)["protocol"] for name in BY_NAME} >= set(PROTOCOLS)
    assert {load(name)["allocation"] for name in BY_NAME} - {""} == set(ALLOCATIONS)
    for path in FILES:
        assert path.read_text("ascii") == fresh[path.name], path.name


def test_words_are_those_of_the_specification() -> None:
    vector = load("streams")
    spec = Spec(bytes.fromhex(vector["secret"]), bytes.fromhex(vector["full_digest"]))
    assert len(vector["streams"]) == 24
    for one in vector["streams"]:
        words = spec.stream(one["purpose"], one["part"], int(one["input"]), bytes.fromhex(one["values"]))
        for drawn in one["words"]:
            assert below(int(drawn["limit"]), words) == int(drawn["word"])
        assert [next(words) for _ in one["then"]] == [int(word) for word in one["then"]]


def scripted(asked: Collection, spec: Spec, step: dict[str, Any], life: list[int]) -> list[int]:
    """The words of one report, from their streams, in the order in which the protocol draws them."""
    epoch, found = step["epoch"], []
    held = step["value"]
    if isinstance(held, str):
        held = strings.fingerprints(device_definition(asked)["domain"]["strings"], held)
    held = held if asked.protocol.SEVERAL else [held]
    end = sha256(b"".join(value.to_bytes(4, "little") for value in held)).digest()
    parts = asked.protocol.parts
    inputs = {part: int(key) for part, key in step["inputs"]}
    chosen: Any = range(len(parts))
    if isinstance(asked.protocol, Sample):
        chosen = [strings.drawn(asked.protocol.device.weights, life[0])]
    for index in chosen:
        plan = parts[index].simulation.word_plan
        fresh = spec.stream(3, index, epoch, end)
        if plan.seed is not None and plan.seed_per_report:
            found += [below(limit, fresh) for limit in plan.seed.limits]
        if plan.permanent is not None:
            words = spec.stream(2, index, inputs[index])
            found += [below(limit, words) for limit in plan.permanent.limits]
        found += [below(limit, fresh) for limit in plan.instant.limits]
    return [*found, next(spec.stream(4, 0, epoch))]


def drawn_for_life(asked: Collection, spec: Spec) -> list[int]:
    protocol, found = asked.protocol, []
    chosen: list[int] = [0]
    if isinstance(protocol, Sample):
        weights = protocol.device.weights
        found = [below(sum(weights), spec.stream(1, (1 << 32) - 1, 0))]
        chosen = [strings.drawn(weights, found[0])]
    elif isinstance(protocol, AttributeProtocol):
        chosen = list(range(len(protocol.parts)))
    for index in chosen:
        plan = protocol.parts[index].simulation.word_plan
        if plan.seed is not None and not plan.seed_per_report:
            words = spec.stream(1, index, 0)
            found += [below(limit, words) for limit in plan.seed.limits]
    return found


@every
def test_every_report_follows_from_the_specification(name: str) -> None:
    """Streams from the text above; payloads from the simulator's array code: none of the client's own."""
    asked, vector = BY_NAME[name], load(name)
    assert bytes.fromhex(vector["full_digest"]) == asked.full_digest
    for device in vector["devices"]:
        spec = Spec(bytes.fromhex(device["secret"]), asked.full_digest)
        life = drawn_for_life(asked, spec)
        reference = ReferenceDevice(asked, life)
        for step in device["steps"]:
            words = scripted(asked, spec, step, life)
            assert reference.report(step["value"], step["epoch"], words).hex() == step["report"]
            assert next(spec.stream(6, 0, step["epoch"])) == int(step["sending_word"])


@pytest.mark.parametrize(
    "devices", [slice(1), pytest.param(slice(1, None), marks=pytest.mark.thorough)], ids=str
)
@every
def test_a_device_with_the_secret_sends_these_bytes(name: str, devices: slice, tmp_path: Path) -> None:
    """Through the public client; with a spent budget the noise."""
    asked, vector = BY_NAME[name], load(name)
    for number, device in enumerate(vector["devices"][devices]):
        for key, budget in (("report", None), ("spent", 1e-9)):
            folder = tmp_path / f"{number}{key}"
            opened = Device.open(asked, folder, outbox=0)
            state = state_of(opened)
            state.secret = bytes.fromhex(device["secret"])
            set_state(opened, state)
            again = Device.open(asked, folder, budget=budget, at_cap="noise", outbox=0)
            for step in device["steps"]:
                assert present(again.report(step["value"], step["epoch"])).hex() == step[key]


@every
def test_noise_has_the_form_of_a_report(name: str) -> None:
    asked = BY_NAME[name]
    for device in load(name)["devices"]:
        for step in device["steps"]:
            first, second = (
                report_pb2.Report.FromString(bytes.fromhex(step[k])) for k in ("report", "spent")
            )
            assert first.report_id == second.report_id
            assert (
                asked.protocol.device.encode(asked.protocol.device.decode(second.payload)) == second.payload
            )
