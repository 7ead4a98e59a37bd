"""A person who opts out: nothing is reported, nothing is kept that could be, and no second life begins."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.client import Device, durable
from ldpbeam.client.sender import Sender
from ldpbeam.client.state import pack_state, unpack_state
from ldpbeam.errors import DeviceError
from ldpbeam.wire import device_state_pb2
from tests.ldpbeam.client.devices import loloha, unary
from tests.ldpbeam.client.test_device import memos


def refuses(act: Any) -> None:
    with pytest.raises(DeviceError, match="the person of this device has withdrawn") as error:
        act()
    assert error.value.code == "E-DEVICE-WITHDRAWN"
    assert "another folder would draw its permanent responses again" in error.value.remedy


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@memos
def test_nothing_is_left_but_that_there_was_a_device(memo: Any, tmp_path: Path) -> None:
    """Two collections of one folder; one of them is open with an outbox, one without."""
    device, other = (
        Device.open(unary(), tmp_path, memo=memo, spread=900),
        Device.open(loloha(), tmp_path, memo=memo, outbox=0),
    )
    for epoch in range(4):
        device.report(epoch, epoch)
        other.report(epoch, epoch)
    secret = device._store.load().secret
    other.withdraw()
    for one in (device, other):
        for act in (lambda one=one: one.report(1, 4), lambda one=one: one.report(1, 3), one.spent):
            refuses(act)
    for collection in (unary(), loloha(), loloha(version=2)):
        refuses(lambda collection=collection: Device.open(collection, tmp_path, memo=memo))
    left = contents(tmp_path)
    assert set(left) == {"state", "sentinel", "lock"}
    assert left["state"] == pack_state(device_state_pb2.DeviceState(withdrawn=True))
    assert secret not in b"".join(left.values())
    assert device.outbox.waiting() == []
    assert Sender(device.outbox, "http://127.0.0.1:9/v1/reports").send_due() == 0


def test_withdrawing_again_does_nothing(tmp_path: Path) -> None:
    device = Device.open(loloha(), tmp_path)
    device.withdraw()
    before = contents(tmp_path)
    device.withdraw()
    assert contents(tmp_path) == before
    refuses(lambda: device.report(1, 0))


def test_a_report_that_is_under_way_is_not_handed_out_again(tmp_path: Path) -> None:
    """A sender that has listed what waits finds nothing to read, and may acknowledge what it has sent."""
    device = Device.open(loloha(), tmp_path)
    device.report(1, 0)
    device.report(1, 1)
    first, second = device.outbox.waiting()
    device.withdraw()
    assert device.outbox.read(second) is None
    device.outbox.acknowledge(first)
    assert len(device.outbox) == 0


def test_a_device_whose_state_is_gone_can_withdraw(tmp_path: Path) -> None:
    device = Device.open(loloha(), tmp_path)
    device.report(1, 0)
    (tmp_path / "state").unlink()
    device.withdraw()
    refuses(lambda: Device.open(loloha(), tmp_path))


def test_a_sentinel_elsewhere_stays(tmp_path: Path) -> None:
    """With the folder gone the device is lost, not new."""
    folder, sentinel = tmp_path / "device", tmp_path / "elsewhere" / "sentinel"
    Device.open(loloha(), folder, sentinel=sentinel).withdraw()
    refuses(lambda: Device.open(loloha(), folder, sentinel=sentinel))
    (folder / "state").unlink()
    with pytest.raises(DeviceError, match="E-DEVICE-STATE-LOST"):
        Device.open(loloha(), folder, sentinel=sentinel)


def test_a_device_in_memory_withdraws_too() -> None:
    device = Device.ephemeral(loloha())
    device.report(1, 0)
    device.withdraw()
    refuses(lambda: device.report(1, 0))
    refuses(device.spent)


@pytest.mark.parametrize("secret", [b"", bytes(31), bytes(33)])
@pytest.mark.parametrize("withdrawn", [False, True])
def test_a_state_has_a_secret_or_has_withdrawn(secret: bytes, withdrawn: bool) -> None:
    content = pack_state(device_state_pb2.DeviceState(secret=secret, withdrawn=withdrawn))
    if withdrawn and not secret:
        assert unpack_state(content, "state").withdrawn
    else:
        with pytest.raises(DeviceError, match="E-DEVICE-STATE-DAMAGED"):
            unpack_state(content, "state")
    with pytest.raises(DeviceError, match="E-DEVICE-STATE-DAMAGED"):
        unpack_state(pack_state(device_state_pb2.DeviceState(secret=bytes(32), withdrawn=True)), "state")


def test_a_full_disk_leaves_the_device_as_it_was_or_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the same call finishes what it began."""
    device = Device.open(loloha(), tmp_path)
    device.report(1, 0)

    def refused(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refused)
        with pytest.raises(DeviceError, match="E-DISK-FULL"):
            device.withdraw()
    assert device.report(2, 1) is not None
    with monkeypatch.context() as patch:
        patch.setattr(durable, "remove", refused)
        with pytest.raises(DeviceError, match="E-DISK-FULL"):
            device.withdraw()
    refuses(lambda: device.report(1, 2))
    assert device.outbox.waiting() == []
    assert len(list((tmp_path / "outbox").iterdir())) == 2
    device.withdraw()
    assert list((tmp_path / "outbox").iterdir()) == []
