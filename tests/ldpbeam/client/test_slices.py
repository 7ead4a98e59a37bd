"""A device in slices: its reports carry the slice's digest, and nothing else of it depends on the slice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.client import Device
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.slices import Slices
from ldpbeam.errors import DeviceError
from tests.ldpbeam.client.devices import loloha, parsed, rows_in, set_state, state_of, unary

SLICES = Slices.of({"channel": ["release", "beta"], "country": ["DE", "other"]})
RELEASE = {"channel": "release", "country": "DE"}
BETA = {"country": "Österreich", "channel": "beta"}


@pytest.mark.parametrize(
    ("base", "options"),
    [
        (unary(), {}),
        (unary(), {"memo": "stored"}),
        (unary(2000), {}),  # longer than what is kept as it is
        (unary(2000), {"budget": 1e-9, "at_cap": "noise"}),
    ],
    ids=["kept", "stored", "drawn-again", "noise-drawn-again"],
)
def test_a_report_that_is_asked_for_again_stays_in_its_slice(
    base: Collection, options: Any, tmp_path: Path
) -> None:
    before = Device.open(base, tmp_path, **options).report(3, 0)
    asked = replace(base, slices=SLICES)
    # A state of before there were slices gives the report that it gave.
    state = state_of(Device.open(asked, tmp_path, **options))
    state.collections[0].spans[0].ClearField("digest")
    set_state(Device.open(asked, tmp_path, **options), state)
    assert Device.open(asked, tmp_path, slice=BETA, **options).report(5, 0) == before
    for epoch, (slice_, later) in enumerate([(BETA, RELEASE), (RELEASE, BETA)], 1):
        message = Device.open(asked, tmp_path, slice=later, **options).report(3, epoch, slice=slice_)
        assert parsed(message).digest == asked.slice_digest(SLICES.of_device(slice_)) != asked.digest
        again = Device.open(asked, tmp_path, slice=later, **options)
        assert again.report(5, epoch) == again.report(5, epoch, slice=slice_) == message


def test_spending_and_sending_do_not_depend_on_the_slice(tmp_path: Path) -> None:
    asked, now = replace(loloha(), slices=SLICES), [0.0]
    set_state(Device.open(asked, tmp_path / "b"), state_of(Device.open(asked, tmp_path / "a")))
    devices = [Device.open(asked, tmp_path / name, clock=lambda: now[0], spread=1e9) for name in "ab"]
    seen: list[list[Any]] = [[], []]
    # The clock was ahead, and goes back while the slice changes: what waits is due at once.
    for number, hour in enumerate((5000, 10, 11, 12)):
        now[0] = 3600.0 * hour
        for device, mine, slice_ in zip(devices, seen, (RELEASE, (RELEASE, BETA)[number % 2]), strict=True):
            report = parsed(device.report(number % 3, slice=slice_))
            mine += [report.payload, report.report_id, device.outbox.waiting(), device.spent()]
    assert seen[0] == seen[1]
    assert {one.due for one in devices[1].outbox.waiting() if one.epoch == 5000} == {36000}


def test_what_is_no_slice_is_refused_before_anything_happens(tmp_path: Path) -> None:
    asked, wrong = replace(loloha(), slices=SLICES), {"channel": "nightly", "country": "DE"}
    device = Device.open(asked, tmp_path / "device")
    before = rows_in(tmp_path / "device")
    for call in (
        lambda: Device.open(asked, tmp_path / "none", slice=wrong),
        lambda: Device.ephemeral(asked, wrong),
        lambda: Device.ephemeral(loloha()).report(1, 0, slice=BETA),
        lambda: device.report(1, 0),
        lambda: device.report(1, 0, slice=wrong),
    ):
        with pytest.raises(DeviceError) as caught:
            call()
        assert caught.value.code == "E-DEVICE-SLICE"
        assert not any(label in str(caught.value) for label in ("nightly", "beta", "Österreich"))
    assert not (tmp_path / "none").exists()
    assert rows_in(tmp_path / "device") == before
    assert device.report(1, 0, slice=BETA)
