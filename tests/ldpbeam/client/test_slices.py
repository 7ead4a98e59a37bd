"""A device in slices: its reports carry the slice's digest, and nothing else of it depends on the slice."""

from __future__ import annotations

from collections.abc import Callable
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


def sliced(base: Collection) -> Collection:
    return replace(base, slices=SLICES)


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
    asked = sliced(base)
    for epoch, (slice_, later) in enumerate([(BETA, RELEASE), (RELEASE, BETA)]):
        message = Device.open(asked, tmp_path, slice=later, **options).report(3, epoch, slice=slice_)
        assert parsed(message).digest == asked.slice_digest(SLICES.of_device(slice_)) != asked.digest
        again = Device.open(asked, tmp_path, slice=later, **options)
        assert again.report(5, epoch) == again.report(5, epoch, slice=slice_) == message
        (waiting, *_) = [one for one in again.outbox.waiting() if one.epoch == epoch]
        assert waiting.digest == base.digest_hex
        assert again.outbox.read(waiting) == message


def test_a_state_of_before_there_were_slices_gives_the_reports_that_it_gave(tmp_path: Path) -> None:
    base = unary(2000)
    message = Device.open(base, tmp_path).report(3, 0)
    device = Device.open(sliced(base), tmp_path, slice=BETA)
    state = state_of(device)
    state.collections[0].spans[0].ClearField("digest")
    set_state(device, state)
    assert device.report(4, 0) == message


def test_nothing_but_the_digest_depends_on_the_slice(tmp_path: Path) -> None:
    asked, now = sliced(loloha()), [0.0]
    set_state(Device.open(asked, tmp_path / "b"), state_of(Device.open(asked, tmp_path / "a")))
    devices = [Device.open(asked, tmp_path / name, clock=lambda: now[0], spread=1e9) for name in "ab"]
    seen: list[list[Any]] = [[], []]
    # The clock was ahead, and goes back while the slice changes: what waits is due at once.
    for number, hour in enumerate((5000, 10, 11, 12)):
        now[0] = 3600.0 * hour
        for device, mine, slice_ in zip(devices, seen, (RELEASE, (RELEASE, BETA)[number % 2]), strict=True):
            report = parsed(device.report(number % 3, slice=slice_))
            due = [(one.digest, one.epoch, one.due) for one in device.outbox.waiting()]
            mine += [report.payload, report.report_id, report.epoch, due, device.spent()]
    assert seen[0] == seen[1]
    assert {one.due for one in devices[1].outbox.waiting() if one.epoch == 5000} == {36000}


@pytest.mark.parametrize(
    "wrong", [{}, {"channel": "nightly", "country": "DE"}, {"channel": "beta"}, {"channel": ["beta"]}, "beta"]
)
def test_what_is_no_slice_is_refused_before_anything_happens(wrong: Any, tmp_path: Path) -> None:
    asked, folder = sliced(loloha()), tmp_path / "device"
    for call in (
        lambda: Device.open(asked, folder, slice=wrong),
        lambda: Device.ephemeral(asked, wrong),
        lambda: Device.ephemeral(asked).report(1, 0),
        lambda: Device.ephemeral(loloha()).report(1, 0, slice=BETA),
    ):
        refused(call)
    assert not folder.exists()
    device = Device.open(asked, folder)
    before = rows_in(folder)
    refused(lambda: device.report(1, 0, slice=wrong))
    assert rows_in(folder) == before
    assert device.report(1, 0, slice=BETA)


def refused(call: Callable[[], Any]) -> None:
    with pytest.raises(DeviceError) as caught:
        call()
    assert caught.value.code == "E-DEVICE-SLICE"
    assert not any(label in str(caught.value) for label in ("nightly", "beta", "release", "Österreich"))
