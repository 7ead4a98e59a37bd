"""The vectors of slices against docs/wire.md, written down without the client's code."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.client import Device
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.slices import NO_SLICES
from ldpbeam.errors import DeviceError
from tests.ldpbeam.client.devices import parsed, set_state, state_of
from tests.narrow import present
from tests.vectors.slices import DIRECTORY, collections, contents

BY_NAME = dict(collections())


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DIRECTORY / f"{name}.json").read_text("ascii"))
    return found


def test_the_vectors_are_current() -> None:
    """A changed byte shows here. If it is meant: python -m tests.vectors.slices."""
    fresh = dict(contents())
    assert {path.name for path in DIRECTORY.glob("*")} == set(fresh)
    for name, text in fresh.items():
        assert (DIRECTORY / name).read_text("ascii") == text, name


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_every_digest_follows_from_the_specification(name: str) -> None:
    vector = load(name)
    for one in vector["digests"]:
        hashed = b"ldpbeam slice 1\0" + bytes.fromhex(vector["definition"]["full_digest"])
        for dimension in sorted(one["slice"], key=str.encode):
            for text in (dimension.encode(), one["slice"][dimension].encode()):
                hashed += len(text).to_bytes(4, "little") + text
        assert sha256(hashed).digest()[:8].hex() == one["digest"]
    assert len({one["digest"] for one in vector["digests"]}) == len(BY_NAME[name].slices.combinations)


def opened(asked: Collection, secret: str, folder: Path) -> Device:
    state = state_of(Device.open(asked, folder, outbox=0))
    state.secret = bytes.fromhex(secret)
    set_state(Device.open(asked, folder, outbox=0), state)
    return Device.open(asked, folder, outbox=0)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_device_with_the_secret_sends_these_bytes(name: str, tmp_path: Path) -> None:
    asked, vector = BY_NAME[name], load(name)
    for number, (secret, steps) in enumerate(map(dict.values, vector["devices"])):
        device = opened(asked, secret, tmp_path / str(number))
        for wrong in vector["refused"]:
            with pytest.raises(DeviceError, match="E-DEVICE-SLICE"):
                device.report(steps[0]["value"], 0, slice=wrong)
        plain = opened(replace(asked, slices=NO_SLICES), secret, tmp_path / f"plain{number}")
        for step in steps:
            message = device.report(step["value"], step["epoch"], slice=step["slice"])
            assert present(message).hex() == step["report"]
            # But for the digest it is the report of a device that knows no slices.
            ours, theirs = parsed(message), parsed(plain.report(step["value"], step["epoch"]))
            assert ours.digest != theirs.digest
            assert (ours.payload, ours.report_id) == (theirs.payload, theirs.report_id)
