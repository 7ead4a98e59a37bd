"""The vectors of participation against docs/wire.md, written down without the client's code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ldpbeam.client import Device
from tests.ldpbeam.client.devices import set_state, state_of
from tests.reference.derived import stream
from tests.vectors.participation import DIRECTORY, collections, contents

BY_NAME = dict(collections())


def floyd(words: list[int], reports: int, of: int) -> list[int]:
    """Word by word as the page has it."""
    found: list[int] = []
    for j, word in zip(range(of - reports, of), words, strict=True):
        assert 0 <= word <= j
        found.append(j if word in found else word)
    return sorted(found)


def test_the_vectors_are_current() -> None:
    """A changed byte shows here. If it is meant: python -m tests.vectors.participation."""
    fresh = dict(contents())
    assert {path.name for path in DIRECTORY.glob("*")} == set(fresh)
    for name, text in fresh.items():
        assert (DIRECTORY / name).read_text("ascii") == text, name


def test_choices_follow_from_their_words() -> None:
    for one in json.loads((DIRECTORY / "choices.json").read_text("ascii")):
        assert floyd(one["words"], one["reports"], one["of"]) == one["epochs"]


@pytest.mark.parametrize("name", sorted(BY_NAME))
@pytest.mark.cases(1)
def test_a_device_with_the_secret_sends_these_and_is_silent_else(name: str, tmp_path: Path) -> None:
    asked, vector = BY_NAME[name], json.loads((DIRECTORY / f"{name}.json").read_text("ascii"))
    few = asked.participation
    assert few is not None
    for number, device in enumerate(vector["devices"]):
        secret = bytes.fromhex(device["secret"])
        words = stream(secret, asked.full_digest, 7, 0, 0)
        drawn = [words.word(limit) for limit in range(few.of - few.reports + 1, few.of + 1)]
        spoken = [epoch for epoch, sent in enumerate(device["reports"]) if sent is not None]
        assert floyd(drawn, few.reports, few.of) == spoken
        opened = Device.open(asked, tmp_path / str(number), outbox=0)
        state = state_of(opened)
        state.secret = secret
        set_state(opened, state)
        again = Device.open(asked, tmp_path / str(number), outbox=0)
        for epoch, sent in enumerate(device["reports"]):
            message = again.report(device["value"], epoch)
            assert (None if message is None else message.hex()) == sent
