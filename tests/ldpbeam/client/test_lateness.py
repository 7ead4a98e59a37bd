"""Devices that wake once per epoch, at the start of an app, or run all day: which of their reports count."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.admission import Admission
from ldpbeam.client import Device
from ldpbeam.client.sender import Sender
from ldpbeam.reports import admit_frames
from ldpbeam.wire import codec
from tests.ldpbeam.client.devices import EPOCHS, Spread, loloha, quicken_disk

DEVICES, LIVED = 40, 5
LENGTH = EPOCHS.length
TICK = 300
"""Seconds after which a program that runs all day looks at its outbox again."""


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about power that is lost."""
    quicken_disk(monkeypatch)


class Wire(Sender):
    """A sender to a collector that takes everything, over a network that fails now and then."""

    def __init__(self, device: Device, clock: Any, taken: list[tuple[int, bytes]], fails: Any) -> None:
        super().__init__(device.outbox, "http://collector", clock=clock)
        self._taken, self._fails = taken, fails

    def _post(self, report: bytes) -> tuple[int, str, str]:
        if self._fails():
            return 0, "", ""
        self._taken.append((int(self._clock()), report))
        return 204, "", ""


def once_per_epoch(draw: random.Random) -> Iterator[float]:
    """A job of a timetable."""
    at = draw.randrange(LENGTH)
    yield from (epoch * LENGTH + at for epoch in range(LIVED))


def at_app_start(draw: random.Random) -> Iterator[float]:
    """None to three starts in an epoch, whenever the person likes."""
    for epoch in range(LIVED):
        starts = draw.choice((0, 1, 1, 1, 2, 3))
        yield from sorted(epoch * LENGTH + draw.randrange(LENGTH) for _ in range(starts))


def all_day(draw: random.Random) -> Iterator[float]:
    """A program that looks at its outbox every five minutes, also in the next epoch."""
    yield from range(draw.randrange(TICK), (LIVED + 1) * LENGTH, TICK)


def late(
    tmp_path: Path, wakes: Any, spread: float | None, lateness: int, fails: float = 0.0
) -> tuple[int, int]:
    """How many reports came late, and how many came at all."""
    collection = replace(loloha(), allowed_lateness=lateness)
    draw, taken, now = random.Random(5), list[tuple[int, bytes]](), [0.0]
    choice: Spread = {} if spread is None else {"spread": spread}
    for number in range(DEVICES):
        running: tuple[Device, Sender] | None = None
        for now[0] in wakes(draw):
            if running is None or wakes is not all_day:  # one that does not run all day is a new process
                device = Device.open(collection, tmp_path / str(number), clock=lambda: now[0], **choice)
                running = device, Wire(device, lambda: now[0], taken, lambda: draw.random() < fails)
            if now[0] < LIVED * LENGTH:
                running[0].report(number % 9)
            running[1].send_due()
    admission = Admission()
    arrivals = np.array([second * 1_000_000 for second, _ in taken])
    data = codec.joined([report for _, report in taken])
    admit_frames(data, {collection.digest: collection}, "", admission, arrivals=arrivals)
    assert not admission.rejections
    return sum(admission.late.values()), len(taken)


@pytest.mark.thorough
@pytest.mark.parametrize("wakes", [once_per_epoch, at_app_start, all_day], ids=lambda one: one.__name__)
def test_with_the_defaults_no_report_is_late(wakes: Any, tmp_path: Path) -> None:
    """One open, one report, one send: even where no lateness is allowed."""
    found, came = late(tmp_path, wakes, None, 0)
    assert found == 0
    assert came > 3 * DEVICES


@pytest.mark.thorough
@pytest.mark.parametrize("wakes", [once_per_epoch, at_app_start], ids=lambda one: one.__name__)
@pytest.mark.parametrize("spread", [600.0, inf])
def test_a_spread_takes_the_reports_of_devices_that_do_not_run_then(
    wakes: Any, spread: float, tmp_path: Path
) -> None:
    """Unless an epoch of lateness is allowed: then those of devices that wake in every epoch count."""
    found, came = late(tmp_path / "none", wakes, spread, 0)
    assert found > 0.3 * came
    found, came = late(tmp_path / "epoch", wakes, spread, LENGTH)
    assert found <= (0 if wakes is once_per_epoch else came // 3)


@pytest.mark.thorough
def test_a_device_that_runs_all_day_may_spread_its_reports_over_the_epoch(tmp_path: Path) -> None:
    """A little lateness covers the time until it looks again."""
    assert late(tmp_path, all_day, inf, TICK)[0] == 0


@pytest.mark.thorough
@pytest.mark.parametrize("wakes", [once_per_epoch, all_day], ids=lambda one: one.__name__)
def test_an_epoch_of_lateness_covers_a_network_that_fails(wakes: Any, tmp_path: Path) -> None:
    """One attempt in twenty fails. A second one follows in the next epoch at the latest."""
    found, came = late(tmp_path / "epoch", wakes, None, LENGTH, 0.05)
    assert came >= 0.94 * DEVICES * LIVED
    assert found <= 0.01 * came
    if wakes is once_per_epoch:
        assert late(tmp_path / "none", wakes, None, 0, 0.05)[0] > 0.02 * came
