"""The vectors of slices: a changed byte shows here. If it is meant: ``python -m tests.vectors.slices``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ldpbeam.client import Device
from ldpbeam.errors import DeviceError
from tests.ldpbeam.client.devices import set_state, state_of
from tests.narrow import present
from tests.vectors.slices import DIRECTORY, collections, contents

BY_NAME = dict(collections())


def test_the_vectors_are_current() -> None:
    found = {path.name: path.read_text("ascii") for path in DIRECTORY.glob("*")}
    assert found == dict(contents())


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_device_with_the_secret_sends_these_bytes(name: str, tmp_path: Path) -> None:
    vector = json.loads((DIRECTORY / f"{name}.json").read_text("ascii"))
    opened = Device.open(BY_NAME[name], tmp_path, outbox=0)
    state = state_of(opened)
    state.secret = bytes.fromhex(vector["secret"])
    set_state(opened, state)
    device = Device.open(BY_NAME[name], tmp_path, outbox=0)
    for step in vector["steps"]:
        for wrong in vector["refused"]:
            with pytest.raises(DeviceError, match="E-DEVICE-SLICE"):
                device.report(step["value"], step["epoch"], slice=wrong)
        sent = device.report(step["value"], step["epoch"], slice=step["slice"])
        assert present(sent).hex() == step["report"]
