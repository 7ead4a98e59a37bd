"""The device: its reports are what the pipeline admits, one per epoch, whatever happens in between."""

from __future__ import annotations

import hmac
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from ldpbeam.admission import Admission
from ldpbeam.client import Device
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.values import Index
from ldpbeam.errors import DeviceError
from ldpbeam.protocols import Parameters
from ldpbeam.reports import admit_rows
from ldpbeam.wire import codec
from tests.conftest import REPOSITORY
from tests.ldpbeam.client.devices import (
    EPOCHS,
    every_kind,
    label,
    loloha,
    parsed,
    set_state,
    several,
    state_of,
    unary,
)
from tests.narrow import present

MEMOS: tuple[Literal["derived", "stored"], ...] = ("derived", "stored")
memos = pytest.mark.parametrize("memo", MEMOS)


def value_of(asked: Collection, number: int) -> Any:
    if asked.domain is not None:
        return number % asked.domain.size
    return [number % 3 for _ in asked.histograms]


@pytest.mark.cases(44)
@memos
@pytest.mark.parametrize("asked", every_kind(), ids=label)
def test_every_report_is_admitted_and_the_same_when_asked_again(
    asked: Collection, memo: Literal["derived", "stored"], tmp_path: Path
) -> None:
    for epoch, number in enumerate((0, 5, 0, 3)):
        message = Device.open(asked, tmp_path, memo=memo).report(value_of(asked, number), epoch)
        again = Device.open(asked, tmp_path, memo=memo).report(value_of(asked, number + 1), epoch)
        assert again == message
        rows, batches, malformed = codec.parse(codec.joined([present(message)]))
        done = Admission()
        admit_rows(rows, {asked.digest: asked}, "device", done)
        assert not batches
        assert not malformed.size
        assert not done.rejections
        assert [columns.epoch for columns in done.admitted] == [epoch]
        counts = np.zeros(asked.protocol.counter.counts_length, np.int64)
        asked.protocol.counter.add(done.admitted[0].payloads, counts)


@pytest.mark.parametrize(
    ("value", "epoch"),
    [(9, 0), (8675309, 1), (3, 1 << 20), ("8675309x", 0)],
)
def test_what_cannot_be_reported_is_refused_without_naming_the_value(value: Any, epoch: int) -> None:
    with pytest.raises(ValueError, match=r"E-DEVICE-VALUE|epoch") as caught:
        Device.ephemeral(loloha()).report(value, epoch)
    assert "8675309" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_label_is_its_index_and_another_one_is_the_collections_other(tmp_path: Path) -> None:
    labels = ("red", "green", "none of these")
    plain = Domain(3, labels)
    other = Domain(3, labels, other=2)
    parameters = Parameters(epsilon=8.0)
    listed, open_ended = (Collection("c", 1, domain, "grr", parameters, EPOCHS) for domain in (plain, other))
    device = Device.open(open_ended, tmp_path / "o")
    for epoch, (text, index) in enumerate([("green", 1), ("mauve", 2), ("", 2), ("red", 0)]):
        state = state_of(device)
        message = device.report(text, epoch)
        set_state(device, state)  # as if it had not reported
        assert device.report(Index(index), epoch) == message
    with pytest.raises(DeviceError, match=r"E-DEVICE-VALUE") as caught:
        Device.open(listed, tmp_path / "l").report("mauve", 0)
    assert "mauve" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_several_attributes_come_by_name_or_in_order(tmp_path: Path) -> None:
    asked = several("split", "l_grr", (3, 4), Parameters(epsilon_longitudinal=4.0, epsilon_first=2.0))
    by_name = Device.open(asked, tmp_path)
    state = state_of(by_name)
    message = by_name.report({"a1": 3, "a0": 1}, 0)
    set_state(by_name, state)
    assert by_name.report((1, 3), 0) == message
    for wrong in ({"a0": 1}, {"a0": 1, "a1": 2, "a2": 0}):
        with pytest.raises(DeviceError, match="E-DEVICE-VALUE"):
            by_name.report(wrong, 1)
    with pytest.raises(ValueError, match="for each of the 2 attributes"):
        by_name.report("13x", 1)


# --- time


def test_without_an_epoch_the_clock_says_which(tmp_path: Path) -> None:
    now = [7.5 * 3600]
    device = Device.open(loloha(), tmp_path, clock=lambda: now[0])
    assert parsed(device.report(1)).epoch == 7
    now[0] = 9 * 3600
    assert parsed(device.report(1)).epoch == 9
    now[0] = 8 * 3600
    with pytest.raises(DeviceError, match="E-DEVICE-EPOCH"):
        device.report(1)
    now[0] = -1
    with pytest.raises(DeviceError, match="E-DEVICE-EPOCH"):
        device.report(1)


def test_a_clock_that_jumps_far_ahead_does_not_block_the_epochs_before(tmp_path: Path) -> None:
    now = [100.0]
    first = loloha()
    device = Device.open(first, tmp_path, clock=lambda: now[0], max_jump=86400)
    device.report(1)
    now[0] += 86400 * 400
    for asked in (first, loloha(version=2)):  # a collection that never reported knows the device's clock
        with pytest.raises(DeviceError, match=r"400 days after .*E-DEVICE-CLOCK\]"):
            Device.open(asked, tmp_path, clock=lambda: now[0], max_jump=86400).report(1)
    with pytest.raises(DeviceError, match="E-DEVICE-CLOCK"):
        device.report(1, 30)
    now[0] = 3700
    assert parsed(device.report(1)).epoch == 1
    now[0] += 86400 * 400
    assert Device.open(first, tmp_path, clock=lambda: now[0], max_jump=86400 * 500).report(1)


def test_options_that_nobody_gave(tmp_path: Path) -> None:
    now = [0.0]
    device = Device.open(loloha(), tmp_path, clock=lambda: now[0])
    for epoch in range(258):
        now[0] = 3600.0 * epoch
        device.report(1)
    assert [(one.epoch, one.due) for one in device.outbox.waiting()] == [
        (epoch, 3600 * epoch) for epoch in range(2, 258)
    ]
    now[0] += 400 * 86400 + 1
    with pytest.raises(DeviceError, match="E-DEVICE-CLOCK"):
        device.report(1)
    now[0] -= 1
    assert device.report(1)


@pytest.mark.parametrize(("size", "length", "whole"), [(1864, 256, True), (1865, 257, False)])
def test_reports_up_to_256_bytes_are_kept_as_they_are(
    size: int, length: int, whole: bool, tmp_path: Path
) -> None:
    device = Device.open(unary(size), tmp_path)
    message = device.report(17, 7)
    assert message is not None
    assert len(message) == length
    (span,) = state_of(device).collections[0].spans
    assert (span.report, len(span.values)) == ((message, 0) if whole else (b"", 4))


# --- several devices and processes


RACE = """
import sys
from ldpbeam.client import Device
from tests.ldpbeam.client.devices import unary
device = Device.open(unary(), sys.argv[1], memo=sys.argv[2])
sys.stdin.read(1)
for epoch in range(25):
    try:
        print(epoch, device.report(int(sys.argv[3]), epoch).hex())
    except ValueError as error:
        assert "lies before" in str(error)
"""


@memos
@pytest.mark.thorough
def test_processes_on_one_folder_draw_once_for_each_epoch(
    memo: Literal["derived", "stored"], tmp_path: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(tmp_path), memo, str(value)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for value in (3, 11, 19)
    ]
    for process in processes:
        assert process.stdin
        process.stdin.write("x")
        process.stdin.flush()
    found: dict[str, set[str]] = {}
    for process in processes:
        for line in process.communicate()[0].splitlines():
            epoch, report = line.split()
            found.setdefault(epoch, set()).add(report)
        assert process.returncode == 0
    assert len(found) == 25
    assert {len(reports) for reports in found.values()} == {1}
    assert len(Device.open(unary(), tmp_path, memo=memo).outbox) == 25


@memos
def test_a_fork_repeats_no_noise(memo: Literal["derived", "stored"], tmp_path: Path) -> None:
    asked = unary()
    shared = Device.open(asked, tmp_path / "shared", memo=memo)
    plain = Device.ephemeral(asked)
    reader, writer = os.pipe()
    for _ in range(4):
        child = os.fork()
        if not child:
            os.write(
                writer,
                present(shared.report(3, 1)).hex().encode()
                + b" "
                + present(plain.report(3, 1)).hex().encode()
                + b"\n",
            )
            os._exit(0)
        os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        both = [line.split() for line in lines]
    assert len(both) == 4
    assert len({one for one, _ in both}) == 1
    assert len({one for _, one in both}) == 4


# --- nothing shows


@memos
def test_nothing_about_a_device_shows_in_its_text(memo: Literal["derived", "stored"], tmp_path: Path) -> None:
    device = Device.open(unary(), tmp_path, memo=memo)
    device.report(17, 4)
    secret = state_of(device).secret
    for text in (repr(device), str(device.spent()), repr(device.outbox)):
        # Digest, folder and addresses in memory say nothing of the device, and may hold the digits.
        told = re.sub("0x[0-9a-f]+", "", text.replace(device._collection.full_digest.hex(), ""))
        assert "17" not in told.replace(str(tmp_path), "")
        assert secret.hex() not in text


@pytest.mark.parametrize("wrong", [{"budget": 0}, {"budget": float("inf")}, {"at_cap": "x"}, {"memo": "y"}])
def test_options_that_mean_nothing_are_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"budget|at_cap"):
        Device.open(loloha(), tmp_path / "x", **wrong)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("asked", every_kind(), ids=label)
@pytest.mark.cases(20)
def test_as_much_is_derived_for_every_value_and_every_memo(
    asked: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[bytes] = []
    digest = hmac.digest

    def counted(key: bytes, message: bytes, function: str) -> bytes:
        messages.append(message)
        return digest(key, message, function)

    monkeypatch.setattr(hmac, "digest", counted)
    device = Device.open(asked, tmp_path, outbox=0)
    taken, lengths = set(), set()
    for epoch, number in enumerate((0, 1, 2, 0, 1, 2, 0)):
        messages.clear()
        lengths.add(len(parsed(device.report(value_of(asked, number), epoch)).payload))
        taken.add(len(messages))
    assert len(taken) == 1
    assert taken != {0}
    assert len(lengths) == 1
