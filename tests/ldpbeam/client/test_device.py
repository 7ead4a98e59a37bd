"""The device: its reports are what the pipeline admits, and its memo is kept before a report leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ldpbeam.client import Device
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.protocols import PROTOCOLS, Memo, Parameters
from ldpbeam.reports import Admission, admit_rows
from ldpbeam.wire import codec, report_pb2
from tests.reference.settings import Setting, settings

FIRST = {s.name: s for s in reversed(settings((6,)))}


def collection(setting: Setting) -> Collection:
    return Collection("x", 1, Domain(6), setting.name, setting.parameters, Epochs(3600, 0, 100))


@pytest.fixture
def loloha() -> Collection:
    levels = Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0, g=2)
    return Collection("x", 1, Domain(9), "loloha", levels, Epochs(3600, 0, 100))


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_every_report_is_admitted(name: str) -> None:
    """What a device of any protocol sends, the server counts."""
    asked = collection(FIRST[name])
    device = Device(asked)
    for epoch, value in enumerate((0, 5, 0, 3)):
        frames = codec.joined([device.report(value, epoch)])
        rows, batches, malformed = codec.parse(frames)
        done = Admission()
        admit_rows(rows, {asked.digest: asked}, "device", done)
        assert not batches
        assert not malformed.size
        assert not done.rejections
        assert [columns.epoch for columns in done.admitted] == [epoch]
        counts = np.zeros(asked.protocol.counts_length, np.int64)
        asked.protocol.add_support(done.admitted[0].payloads, counts)


def test_a_new_memo_is_kept_before_the_report_leaves(loloha: Collection) -> None:
    """When keeping fails there is no report, and the device draws no second answer for one it kept."""
    kept: list[Memo] = []
    device = Device(loloha, keep=kept.append)
    for epoch in range(40):
        device.report(epoch % 9, epoch)
    assert kept[-1] == device.memo
    assert 1 <= len(device.memo.answers) <= 2
    assert [len(memo.answers) for memo in kept] == list(range(len(kept)))

    def full(memo: Memo) -> None:
        raise OSError("no space left")

    broken = Device(loloha, Memo(seed=1), keep=full)
    with pytest.raises(OSError, match="no space"):
        broken.report(3, 0)
    assert broken.memo == Memo(seed=1)


def test_a_kept_memo_continues_the_device(loloha: Collection) -> None:
    """A restart with the kept memo answers from it: the seed and the permanent answers stay."""
    device = Device(loloha)
    for epoch in range(20):
        device.report(epoch % 9, epoch)
    again = Device(loloha, device.memo)
    before = device.memo
    for epoch in range(20, 60):
        again.report(epoch % 9, epoch)
    assert again.memo.seed == before.seed
    assert dict(before.answers).items() <= dict(again.memo.answers).items()


def test_the_same_epoch_gives_the_same_bytes(loloha: Collection) -> None:
    """A report that is sent again is the same report, id included; the next epoch's is another."""
    device = Device(loloha)
    first = device.report(3, 7)
    assert device.report(4, 7) == first
    assert device.report(3, 8) != first
    ids = {report_pb2.Report.FromString(device.report(3, e)).report_id for e in range(9, 99)}
    assert len(ids) == 90


def test_an_epoch_before_the_last_one_is_refused(loloha: Collection) -> None:
    """Answered again it would be drawn again; answered with the last report it would be another epoch's."""
    device = Device(loloha)
    device.report(3, 7)
    last = device.report(3, 9)
    for earlier in (8, 7, 0):
        with pytest.raises(ValueError, match=f"epoch {earlier} lies before epoch 9"):
            device.report(3, earlier)
    assert device.report(3, 9) == last


@pytest.mark.parametrize(("value", "epoch"), [(9, 0), (-1, 0), (8675309, 1), (3, -1), (3, 100)])
def test_what_cannot_be_reported_is_refused_without_naming_the_value(
    loloha: Collection, value: Any, epoch: int
) -> None:
    """Errors on a device may be logged; they never hold the value."""
    with pytest.raises(ValueError, match=r"domain|epoch") as caught:
        Device(loloha).report(value, epoch)
    assert "8675309" not in str(caught.value)


def test_nothing_about_a_device_shows_in_its_text(loloha: Collection) -> None:
    """Logs may hold a device's text."""
    device = Device(replace(loloha), Memo(seed=123456789))
    assert "123456789" not in repr(device)
    assert "123456789" not in repr(device.memo)
