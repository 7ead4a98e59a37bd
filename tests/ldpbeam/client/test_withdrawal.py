"""A person who opts out: nothing is reported, nothing is kept that could be, and no second life begins."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.client import Device
from ldpbeam.client.sender import Sender
from ldpbeam.durable.counter import FileCounter
from ldpbeam.durable.store import RowStore, Transaction
from ldpbeam.errors import DeviceError
from ldpbeam.wire import device_state_pb2
from tests.ldpbeam.client.devices import loloha, quicken_disk, rows_in, state_of, unary
from tests.ldpbeam.client.test_device import memos
from tests.narrow import present


def refuses(act: Any) -> None:
    with pytest.raises(DeviceError, match="the person of this device has withdrawn") as error:
        act()
    assert error.value.code == "E-DEVICE-WITHDRAWN"
    assert "another folder would draw its permanent responses again" in error.value.remedy


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@memos
@pytest.mark.cases(1)
def test_nothing_is_left_but_that_there_was_a_device(
    memo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, other = (
        Device.open(unary(), tmp_path, memo=memo, spread=900),
        Device.open(loloha(), tmp_path, memo=memo, outbox=0),
    )
    quicken_disk(monkeypatch)
    reports, parts = set(), set()
    for epoch in range(200):
        reports |= {present(device.report(epoch % 24, epoch)), present(other.report(epoch % 9, epoch))}
        for entry in state_of(device).collections:
            parts |= {entry.inputs[i : i + 8] for i in range(0, len(entry.inputs), 8)} | {entry.digest}
    assert all(len(one) >= 8 for one in (*reports, *parts))
    everything = b"".join(contents(tmp_path).values())
    assert sum(report in everything for report in reports) >= 200
    secret = state_of(device).secret
    other.withdraw()
    for one in (device, other):
        for act in (lambda one=one: one.report(1, 4), lambda one=one: one.report(1, 3), one.spent):
            refuses(act)
    for collection in (unary(), loloha(), loloha(version=2)):
        refuses(lambda collection=collection: Device.open(collection, tmp_path, memo=memo))
    left = contents(tmp_path)
    assert set(left) == {"device.sqlite", "sentinel", "lock"}
    with device._storage.transaction() as records:
        assert records.state == device_state_pb2.DeviceState(withdrawn=True)
    everything = b"".join(left.values())
    assert secret not in everything
    assert all(report not in everything for report in reports)
    assert all(part not in everything for part in parts)
    # Not a byte but those of SQLite itself and of two rows: the rest of each page is zeros.
    assert len(everything.replace(b"\0", b"")) < 900
    assert device.outbox.waiting() == []
    assert Sender(device.outbox, "http://127.0.0.1:9/v1/reports").send_due() == 0


def test_a_sentinel_elsewhere_stays(tmp_path: Path) -> None:
    folder, sentinel = tmp_path / "device", tmp_path / "elsewhere" / "sentinel"
    Device.open(loloha(), folder, sentinel=sentinel).withdraw()
    refuses(lambda: Device.open(loloha(), folder, sentinel=sentinel))
    (folder / "device.sqlite").unlink()
    with pytest.raises(DeviceError, match="E-DEVICE-STATE-LOST"):
        Device.open(loloha(), folder, sentinel=sentinel)


def test_a_device_in_memory_withdraws_too() -> None:
    device = Device.ephemeral(loloha())
    device.report(1, 0)
    device.withdraw()
    refuses(lambda: device.report(1, 0))
    refuses(device.spent)


@pytest.mark.parametrize("damage", ["flipped", "no database", "older", "half a journal"])
def test_a_device_whose_state_cannot_be_read_withdraws_all_the_same(damage: str, tmp_path: Path) -> None:
    device = Device.open(unary(), tmp_path)
    secret, path = state_of(device).secret, tmp_path / "device.sqlite"
    copy = path.read_bytes()
    for epoch in range(3):  # so that one change more does not make the copy the newest
        report = present(device.report(1, epoch))
    content = path.read_bytes()
    if damage == "flipped":
        place = content.index(secret)
        path.write_bytes(content[: place - 1] + bytes([content[place - 1] ^ 4]) + content[place:])
    elif damage == "half a journal":
        (tmp_path / "device.sqlite-journal").write_bytes(b"\xd9\xd5\x05\xf9 \xa1c\xd7" + content[:5000])
    else:
        path.write_bytes({"no database": b"secret" + secret, "older": copy}[damage])
    device.withdraw()
    left = contents(tmp_path)
    assert set(left) == {"device.sqlite", "sentinel", "lock"}
    for one in (secret, report):
        assert one not in b"".join(left.values())
    refuses(lambda: Device.open(unary(), tmp_path))
    device.withdraw()


def test_a_disk_that_refuses_leaves_the_device_as_it_was_or_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device.open(loloha(), tmp_path)
    device.report(1, 0)
    before = rows_in(tmp_path)

    def refused(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "commit", refused)
        with pytest.raises(DeviceError, match="E-DISK-FULL"):
            device.withdraw()
    assert rows_in(tmp_path) == before
    assert device.report(2, 1) is not None
    with monkeypatch.context() as patch:
        patch.setattr(FileCounter, "write", refused)
        with pytest.raises(DeviceError, match="E-DISK-FULL"):
            device.withdraw()
    refuses(lambda: device.report(1, 2))
    assert device.outbox.waiting() == []
    device.withdraw()
    (tmp_path / "device.sqlite").write_bytes(b"no database")
    with monkeypatch.context() as patch:
        patch.setattr(RowStore, "creation", refused)
        with pytest.raises(DeviceError, match="E-DISK-FULL"):
            device.withdraw()
    with pytest.raises(DeviceError, match="E-DEVICE-STATE-LOST"):
        device.report(1, 2)
    device.withdraw()
    refuses(lambda: device.report(1, 2))
