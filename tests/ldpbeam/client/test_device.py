"""The device: its reports are what the pipeline admits, one per epoch, whatever happens in between."""

from __future__ import annotations

import hmac
import os
import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from ldpbeam.admission import Admission
from ldpbeam.client import Device
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.errors import DeviceError
from ldpbeam.protocols import Parameters
from ldpbeam.reports import admit_rows
from ldpbeam.wire import codec
from tests.ldpbeam.client.devices import (
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
    if isinstance(asked.domain, StringDomain):
        return ("", "a", "ab", "abc", "abcab", "abcac")[number % 6]
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
