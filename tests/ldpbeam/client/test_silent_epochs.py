"""A device of a collection with participation: silent in most epochs, and otherwise as any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ldpbeam.client import Device
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.participation import Participation
from ldpbeam.errors import DeviceError
from ldpbeam.protocols import Parameters
from tests.ldpbeam.client.devices import parsed, state_of
from tests.ldpbeam.client.test_device import memos

ONE = Parameters(epsilon=1.0)


def asked(m: int = 3, of: int = 12, name: str = "olh", parameters: Parameters = ONE) -> Collection:
    epochs = Epochs(3600, 0, of)
    return Collection("x", 1, Domain(9), name, parameters, epochs, participation=Participation(m, of))


@memos
def test_a_device_reports_in_as_many_epochs_as_agreed_and_nothing_else_leaves(
    memo: Any, tmp_path: Path
) -> None:
    own = set()
    for number in range(8):
        device = Device.open(asked(), tmp_path / str(number), memo=memo)
        sent = {epoch: device.report(epoch % 9, epoch) for epoch in range(12)}
        spoken = {epoch for epoch, message in sent.items() if message is not None}
        assert len(spoken) == 3
        assert {parsed(sent[epoch]).epoch for epoch in spoken} == spoken
        assert [one.epoch for one in device.outbox.waiting()] == sorted(spoken)
        assert device.spent().epsilon == pytest.approx(3.0, rel=1e-12)
        assert device.spent().collections[0].times == 3
        own.add(frozenset(spoken))
    assert len(own) > 2  # of 220: each device has its own; so few by chance once in 10¹²


@memos
def test_a_life_is_the_same_however_often_the_device_is_opened(memo: Any, tmp_path: Path) -> None:
    Device.open(asked(), tmp_path, memo=memo)
    kept = list(state_of(Device.open(asked(), tmp_path, memo=memo)).collections[0].own_epochs)
    assert len(kept) == (3 if memo == "stored" else 0)
    found = []
    for epoch in range(12):
        message = Device.open(asked(), tmp_path, memo=memo).report(1, epoch)
        assert Device.open(asked(), tmp_path, memo=memo).report(2, epoch) == message
        found += [epoch] if message is not None else []
    assert len(found) == 3
    assert found == (kept or found)


@memos
def test_silence_refuses_what_a_report_would_refuse(memo: Any, tmp_path: Path) -> None:
    seen: dict[bool, list[tuple[type, str]]] = {}
    for number in range(80):  # one epoch in two is own: not both in 80 devices once in 10²³
        if len(seen) == 2 and number >= 4:
            break
        device = Device.open(asked(6), tmp_path / str(number), memo=memo, max_jump=8 * 3600)
        first = device.report(0, 1) is None
        errors = []
        for value, epoch in (
            (9, 2),
            ("a", 2),
            (1, 0),
            (1, 12),
            (1, 11),
        ):
            with pytest.raises((DeviceError, ValueError, TypeError)) as raised:
                device.report(value, epoch)
            errors.append((raised.type, str(raised.value)))
        second = device.report(3, 2) is None
        assert (device.report(4, 2) is None) == second
        seen.setdefault(first, errors)
        assert seen[first] == errors
    assert set(seen) == {True, False}
    assert seen[True] == seen[False]


@memos
def test_a_spent_budget_costs_nothing_in_silence(memo: Any, tmp_path: Path) -> None:
    device = Device.open(asked(6), tmp_path, memo=memo, budget=2.5)
    outcomes = []
    for epoch in range(12):
        try:
            outcomes.append("silent" if device.report(1, epoch) is None else "report")
        except DeviceError as error:
            outcomes.append(error.code)
    assert outcomes.count("report") == 2
    assert outcomes.count("E-DEVICE-BUDGET") == 4
    assert outcomes.count("silent") == 6
