"""Which epochs a device reports, whatever its clock shows; tests/vectors/order has cases for all clients."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.client import Device, reported_epochs
from ldpbeam.client.device import Policy
from ldpbeam.client.storage import MemoryStorage
from ldpbeam.errors import DeviceError
from ldpbeam.wire import device_state_pb2
from tests.ldpbeam.client.devices import loloha, parsed, state_of, unary
from tests.ldpbeam.client.test_device import memos

HOUR, DAY = 3600, 86400


def in_memory(asked: Any, clock: Any, max_jump: float) -> Device:
    """A device with clock and guard whose state is no file: a thousand reports take no time."""
    return Device(asked, MemoryStorage(), "stored", Policy(max_jump=max_jump, clock=clock), 0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.cases(2)
def test_no_epoch_has_two_reports_whatever_clock_and_program_do(seed: int) -> None:
    chance = random.Random(seed)
    now = [1000.0 * DAY]
    device = in_memory(loloha(), lambda: now[0], chance.choice([10, 400, 1e9]) * DAY)
    left: dict[int, bytes] = {}
    new = 0
    for _ in range(1500):
        now[0] += chance.choice([0, 1, HOUR, HOUR, HOUR, DAY, -HOUR, -DAY, -2 * DAY - 1, 30 * DAY, -40 * DAY])
        if chance.random() < 0.02:
            now[0] = chance.uniform(0, 10000) * DAY
        now[0] = min(max(now[0], 0.0), 10000.0 * DAY)
        present = int(now[0] // HOUR)
        epoch = None if chance.random() < 0.7 else max(0, present + chance.randint(-30, 30))
        asked = present if epoch is None else epoch
        try:
            report = device.report(chance.randrange(9), epoch)
        except DeviceError as error:
            assert error.code in ("E-DEVICE-EPOCH", "E-DEVICE-CLOCK")
            continue
        assert report is not None
        assert parsed(report).epoch == asked
        new += asked not in left
        assert left.setdefault(asked, report) == report
        (entry,) = state_of(device).collections
        assert len(entry.spans) <= reported_epochs.MOST
        assert all(reported_epochs.contain(entry.spans, one) for one in left)
        assert entry.spans[-1].first_epoch <= asked
    assert new > 100


@memos
def test_reports_of_earlier_epochs_are_forgotten_and_later_ones_are_not(memo: Any, tmp_path: Path) -> None:
    now = [1000.0 * DAY]
    asked = unary(5000)  # long: derived again from masked values
    device = Device.open(asked, tmp_path, memo=memo, outbox=0, max_jump=1e9, clock=lambda: now[0])
    ahead = device.report(4999)
    now[0] = 10.0 * DAY
    for _ in range(3):
        device.report(7)
        now[0] += 2 * DAY
    (entry,) = state_of(device).collections
    assert [one.forgotten for one in entry.spans] == [False, True, True, False]
    for one in entry.spans:
        assert bool(one.report or one.values) != one.forgotten
    now[0] = 1000.0 * DAY
    assert device.report(3) == ahead
    assert Device.open(asked, tmp_path, memo=memo, max_jump=1e9).report(3, 24000) == ahead


@memos
def test_going_back_is_charged_as_every_report(memo: Any, tmp_path: Path) -> None:
    now = [0.0]
    device = Device.open(unary(), tmp_path, memo=memo, budget=4, outbox=0, max_jump=1e9, clock=lambda: now[0])
    outcomes = []
    for value, day in enumerate((1000, 10, 900, 20, 800, 30, 700)):
        now[0] = float(day * DAY)
        try:
            device.report(value)
            outcomes.append(day)
        except DeviceError as error:
            assert error.code == "E-DEVICE-BUDGET"
    assert outcomes == [1000, 10]
    assert device.spent().epsilon == 4
    assert device.spent().collections[0].stopped


def test_the_closest_spans_become_one_against_a_slow_model() -> None:
    chance = random.Random(1)
    for _ in range(60):
        entry = device_state_pb2.CollectionState()
        model: list[tuple[int, int]] = []
        for _ in range(40):
            epoch = chance.randrange(300)
            if reported_epochs.contain(entry.spans, epoch):
                continue
            reported_epochs.add(entry, epoch)
            model = slow(model, epoch)
            assert [(one.first_epoch, one.last_epoch) for one in entry.spans][-1] == model[-1]
            assert sorted((one.first_epoch, one.last_epoch) for one in entry.spans) == sorted(model)


def slow(spans: list[tuple[int, int]], epoch: int) -> list[tuple[int, int]]:
    current = next(((first, epoch) for first, last in spans if last + 1 == epoch), (epoch, epoch))
    others = [one for one in spans if one[1] + 1 != epoch]
    if len(others) + 1 > 8:
        choices = []
        for a in others:
            for b in others:
                between = set(range(a[1] + 1, b[0]))
                if a[1] < b[0] and epoch not in between and not any(c[0] in between for c in others):
                    choices.append((b[0] - a[1], a[0], a, b))
        _, _, a, b = min(choices)
        others = [one for one in others if one not in (a, b)] + [(a[0], b[1])]
    return [*others, current]
