"""The device's sender before a real collector: what it keeps, and what it drops."""

from __future__ import annotations

from pathlib import Path

from ldpbeam.client import Device
from ldpbeam.client.sender import Sender
from ldpbeam.collection.collection import Collection
from ldpbeam.collector.server import PATH
from tests.ldpbeam.collector.serving import ONE, Served, folder, names

LATER = 3600.0 * 200


def opened(path: Path, agreed: Collection = ONE) -> Device:
    device = Device.open(agreed, path, clock=lambda: 0.0)
    device.report(1, 0)
    return device


def sender(device: Device, served: Served, path: str = PATH) -> Sender:
    return Sender(device.outbox, f"http://127.0.0.1:{served.port}{path}", clock=lambda: LATER)


def test_a_mistyped_path_costs_no_report(tmp_path: Path) -> None:
    device = opened(tmp_path / "device")
    with folder(tmp_path / "reports") as served:
        wrong = sender(device, served, "/v1/report")
        assert wrong.send_due() == 0
        assert (wrong.dropped, wrong.failures, len(device.outbox)) == ({}, 1, 1)
        right = sender(device, served)
        assert right.send_due() == 1
        assert len(device.outbox) == 0
    assert len(names(tmp_path / "reports")) == 1
