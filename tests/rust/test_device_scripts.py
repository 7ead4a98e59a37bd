"""Device scripts made anew: the Rust device answers as the Python one does, and keeps the same state.

Both take the operating system's words from one stream, so that secrets, stored memos and all that is drawn
for them are the same too.
"""

from __future__ import annotations

import json
import secrets
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ldpbeam.client.derivation import DerivedWords
from ldpbeam.client.device import Device
from ldpbeam.client.folder import DeviceFolder
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.device_definition import device_definition_text
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.values import Index
from ldpbeam.errors import DeviceError
from ldpbeam.randomness import FULL, SystemRandomness
from tests.narrow import present
from tests.rust.programs import memory_folder, program
from tests.vectors import definitions, participation, slices

pytestmark = pytest.mark.rust

SCRIPTS, SEED = 1000, 58
PARTS = 4
DAY = 86400


class Rust:
    """The program that does what it is asked."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._input, self._output = present(process.stdin), present(process.stdout)

    def ask(self, call: str, **given: Any) -> tuple[str, Any]:
        self._input.write(json.dumps([call, given]).encode() + b"\n")
        self._input.flush()
        answer = json.loads(self._output.readline())
        return ("error", answer["error"]) if "error" in answer else ("ok", answer["ok"])


@contextmanager
def rust_program() -> Iterator[Rust]:
    command, pipe = [program("reporter")], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        yield Rust(process)
    assert process.returncode == 0


class Python:
    """A device that does the same."""

    def __init__(self, asked: Collection) -> None:
        self.now = 0.0
        self._asked = asked
        self._device: Any = None

    def ask(self, call: str, *, folder: Path, clock: float | None = None, **given: Any) -> tuple[str, Any]:
        self.now = self.now if clock is None else clock
        try:
            if call == "open":
                self._device = Device.open(self._asked, folder, clock=lambda: self.now, **given)
                return "ok", None
            return "ok", getattr(self, call)(self._device, given)
        except DeviceError as error:
            return "error", error.code

    @staticmethod
    def report(device: Device, given: dict[str, Any]) -> str | None:
        report = device.report(of_python(given["value"]), given.get("epoch"), slice=given.get("slice"))
        return None if report is None else report.hex()

    @staticmethod
    def waiting(device: Device, _: dict[str, Any]) -> list[Any]:
        found = []
        for one in device.outbox.waiting():
            report = device.outbox.read(one)
            found.append([one.due, one.digest, one.epoch, report and report.hex()])
        return found

    @staticmethod
    def acknowledge(device: Device, given: dict[str, Any]) -> None:
        waiting = device.outbox.waiting()
        device.outbox.acknowledge(*(one for one in waiting if one.epoch in given["epochs"]))

    @staticmethod
    def dropped(device: Device, _: dict[str, Any]) -> list[int]:
        return list(device.outbox.dropped)

    @staticmethod
    def spent(device: Device, _: dict[str, Any]) -> list[Any]:
        spent = device.spent()
        return [[list(astuple(one)) for one in spent.collections], spent.epsilon, spent.budget]

    @staticmethod
    def withdraw(device: Device, _: dict[str, Any]) -> None:
        device.withdraw()


def of_python(value: Any) -> Any:
    if isinstance(value, list):
        return [of_python(one) for one in value]
    return Index(value["index"]) if isinstance(value, dict) else value


@contextmanager
def scripted_system(key: bytes) -> Iterator[None]:
    words = DerivedWords(key)

    def scripted(count: int) -> bytes:
        return b"".join(word.to_bytes(8, "little") for word in words.words(count // 8))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemRandomness, "word", lambda _, limit=FULL: words.word(limit))
        patch.setattr(SystemRandomness, "words", lambda _, count: words.words(count))
        patch.setattr(secrets, "token_bytes", scripted)
        yield


def collections() -> list[Collection]:
    """Every protocol, attributes, texts, participation, slices, labels and ranges."""
    known = dict(definitions.collections())
    labels = Domain(3, labels=("red", "green", "blue"), other=2)
    more = [
        replace(known["l_grr"], domain=one)
        for one in (labels, Domain(7, maximum=10.5), Domain(12, maximum=11.0))
    ]
    return [
        *known.values(),
        *more,
        *dict(participation.collections()).values(),
        *dict(slices.collections()).values(),
    ]


def value_for(asked: Collection, chance: Random) -> Any:
    """Mostly one of the domain's, as one of the forms in which a person may give it."""
    if chance.random() < 0.05:
        return chance.choice(["no", -1, 1e9, {"index": -1}, [], ["1"], {"index": 1 << 40}])
    if asked.domain is not None and asked.domain.values is None:
        return "".join(chance.choices("abcXé🦊 ", k=chance.randrange(9)))
    few = 4 if chance.random() < 0.8 else 1 << 24  # values return

    def one(domain: Domain) -> Any:
        index = chance.randrange(min(domain.size, few))
        if domain.labels is not None:
            return chance.choice([{"index": index}, domain.labels[index], "another"])
        if domain.maximum is None:
            return chance.choice([{"index": index}, index, float(index), f" {index}.0e0\t"])
        number = chance.uniform(-1, domain.maximum + 1)
        return chance.choice([{"index": index}, number, round(number), repr(number), round(number * 2) / 2])

    if asked.domain is not None:
        return one(asked.domain)
    return [one(domain) for _, domain in asked.histograms]


def steps(asked: Collection, chance: Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls and their arguments."""
    said = asked.slices.combinations
    labels: list[Any] = [dict(one) for one in said] or [None]
    epochs, life = asked.epochs, {"memo": chance.choice(["derived", "stored"])}
    now = float(epochs.origin + chance.randrange(3 * epochs.length))
    for opened in range(chance.randrange(1, 4)):
        options = {
            "budget": chance.choice([None, 1.0, 3.7, 40.0]),
            "at_cap": chance.choice(["stop", "noise"]),
            "outbox": chance.choice([0, 2, 256]),
            "spread": chance.choice([0.0, 600.5, 1e9]),
            "max_jump": chance.choice([3.0 * DAY, 400.0 * DAY]),
            "slice": chance.choice(labels),
        }
        if opened and chance.random() < 0.1:
            life["memo"] = chance.choice(["derived", "stored"])
        yield "open", {"clock": now, **life, **options}
        for _ in range(chance.randrange(2, 9)):
            now += chance.choice(
                [0.0, 1.5, epochs.length / 3, epochs.length, 1.2 * DAY, 9.0 * DAY, -2.5 * epochs.length]
            )
            now = max(now, 0.0)
            given: dict[str, Any] = {"clock": now, "value": value_for(asked, chance)}
            if chance.random() < 0.3:
                given["epoch"] = chance.choice([0, 1, 5, epochs.count - 1, epochs.count, -1])
            if chance.random() < 0.2:
                given["slice"] = chance.choice([*labels, {"channel": "none such"}])
            yield "report", given
            if chance.random() < 0.3:
                yield chance.choice(
                    [("waiting", {}), ("dropped", {}), ("spent", {}), ("acknowledge", {"epochs": [0, 1, 2]})]
                )
    if chance.random() < 0.1:
        yield "withdraw", {}
        yield "report", {"value": value_for(asked, chance)}
        yield "open", {"clock": now, **life}


def state_in(folder: Path) -> tuple[bytes, list[Any]]:
    with DeviceFolder(folder).transaction() as records:
        return records.state.SerializeToString(deterministic=True), records.waiting


@pytest.mark.parametrize("part", range(PARTS))
def test_the_rust_device_answers_as_the_python_one(part: int) -> None:
    asked, answers = collections(), Counter[str]()
    with rust_program() as rust:
        for number in range(part, SCRIPTS, PARTS):
            answers.update(played(rust, asked[number % len(asked)], Random(SEED * SCRIPTS + number)))
    # Nothing of this is vacuous: most kinds of answers are there, and most of them are reports.
    assert answers["report"] > 500, answers
    assert len(answers) >= 6, answers


def played(rust: Rust, asked: Collection, chance: Random) -> list[str]:
    """The kinds of answers to a script, which both devices give alike."""
    kinds, key = [], chance.randbytes(32)
    rust_only: dict[str, Any] = {"script": key.hex(), "definition": device_definition_text(asked)}
    python = Python(asked)
    with memory_folder() as folder, scripted_system(key):
        for call, given in steps(asked, chance):
            expected = python.ask(call, **given, folder=folder / "python")
            found = rust.ask(call, **given, **rust_only, folder=str(folder / "rust"))
            assert found == expected, (asked.protocol.NAME, call)
            kinds.append(found[1] if found[0] == "error" else call)
            rust_only.pop("script", None)
            if call == "open" and found[0] == "error":
                break
        assert state_in(folder / "rust") == state_in(folder / "python"), asked.protocol.NAME
    return kinds
