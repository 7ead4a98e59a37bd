"""Damage of each file that a device reads back is noticed, or harmless: every bit, every cut and every loss.

A device of three reports, of which one was sent, has ``device.sqlite``, ``sentinel`` and ``lock``.
After damage a device must refuse with a code, or be as it was, or have dropped reports and counted them. It
must not hand out other bytes, nor forget an epoch, a level that was spent or a report without a word.
Every 389th bit is flipped.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ldpbeam.client import Device
from ldpbeam.client.folder import DeviceFolder
from ldpbeam.client.state import pack_state
from ldpbeam.errors import DeviceError
from tests.ldpbeam.client.devices import loloha

CODES = {
    "E-DEVICE-STATE-DAMAGED",
    "E-DEVICE-STATE-LOST",
    "E-DEVICE-STATE-OLDER",
    "E-DEVICE-SENTINEL-DAMAGED",
}
MEMORY = Path("/dev/shm")
PAGE = 4096
STEP = 389
"""Bits from one that is flipped to the next."""
NEXT = 3
"""The epoch of the next report."""

Files = dict[str, bytes]
DATABASE, SENTINEL = "device.sqlite", "sentinel"


class Seen(NamedTuple):
    """What a device shows: its state without its losses, what waits by epoch, and how many were lost."""

    state: bytes
    waiting: dict[int, bytes]
    lost: int


def opened(folder: Path) -> Device:
    return Device.open(loloha(), folder, clock=lambda: 0.0)


def seen(folder: Path) -> Seen:
    """By a new process."""
    device = DeviceFolder(folder)
    with device.transaction() as records:
        waiting = records.waiting
    reports = {one.epoch: device.read(one) for one in waiting}
    lost = records.state.damaged
    records.state.ClearField("damaged")
    assert None not in reports.values()
    return Seen(pack_state(records.state), reports, lost)  # type: ignore[arg-type]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a disk: thousands of changes are forced to it."""
    if not MEMORY.is_dir():
        yield tmp_path / "device"
        return
    folder = MEMORY / f"ldpbeam-{os.getpid()}-{tmp_path.name}"
    folder.mkdir()
    yield folder / "device"
    shutil.rmtree(folder)


def files_of(folder: Path) -> Files:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def put(folder: Path, files: Files) -> None:
    """Exactly these files."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in files:
            path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def life(folder: Path) -> Files:
    """Three reports, one of them sent."""
    device = opened(folder)
    for epoch in range(3):
        device.report(epoch, epoch)
    device.outbox.acknowledge(device.outbox.waiting()[0])
    return files_of(folder)


def outcome(folder: Path, files: Files, was: Seen) -> str:
    """How a device goes on with these files; an assertion fails where it must not."""
    put(folder, files)
    try:
        now = seen(folder)
    except DeviceError as error:
        assert error.code in CODES, error
        assert error.remedy
        return "noticed"
    assert now.state == was.state
    assert now.waiting.items() <= was.waiting.items()
    assert now.lost == len(was.waiting) - len(now.waiting)
    assert seen(folder) == now, "a loss is counted once"
    return "dropped" if now.lost else "harmless"


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit >> 3] ^= 1 << (bit & 7)
    return bytes(changed)


def test_flipped_bits_of_every_file_are_noticed_or_harmless(home: Path) -> None:
    files = life(home)
    was = seen(home)
    for name in (DATABASE, SENTINEL):
        outcomes: Counter[str] = Counter()
        for bit in range(0, 8 * len(files[name]), STEP):
            outcomes[outcome(home, {**files, name: flipped(files[name], bit)}, was)] += 1
        if name == DATABASE:
            assert outcomes["noticed"] > 2_000 // STEP
            assert outcomes["dropped"] > 500 // STEP
        else:  # its other place holds the number before
            assert set(outcomes) == {"harmless"}


def test_every_cut_and_every_loss_is_noticed_or_harmless(home: Path) -> None:
    files = life(home)
    was = seen(home)
    for name, content in files.items():
        sizes = sorted({*range(min(len(content), 130)), *range(0, len(content), 512)})
        for change in [*(content[:size] for size in sizes), content + b"\0", content + content, bytes(PAGE)]:
            outcome(home, {**files, name: change}, was)
        lost = outcome(home, {key: value for key, value in files.items() if key != name}, was)
        assert lost == "noticed" if name == DATABASE else lost != "dropped"


def test_an_older_page_is_noticed(home: Path) -> None:
    files = life(home)
    history = [files[DATABASE]]
    for epoch in range(NEXT, NEXT + 4):
        opened(home).report(epoch, epoch)
        history.append(files_of(home)[DATABASE])
    files = files_of(home)
    was = seen(home)
    newest = files[DATABASE]
    for old in history[:-1]:
        assert outcome(home, {**files, DATABASE: old}, was) == "noticed"
        assert outcome(home, {**files, DATABASE: newest[:PAGE] + old[PAGE:]}, was) == "noticed"
        # SQLite's own header and the description of the table: nothing in it is of one moment alone.
        assert outcome(home, {**files, DATABASE: old[:PAGE] + newest[PAGE:]}, was) != "dropped"


def test_a_damaged_report_is_dropped_counted_and_never_sent(home: Path) -> None:
    device = opened(home)
    for epoch in range(3):
        device.report(epoch, epoch)
    reports = {one.epoch: device.outbox.read(one) for one in device.outbox.waiting()}
    damaged = device.outbox.waiting()[1]
    assert reports[1] is not None
    database = home / DATABASE
    content = database.read_bytes()
    place = content.index(reports[1])
    database.write_bytes(flipped(content, 8 * place + 30))
    assert device.outbox.read(damaged) is None
    assert [one.epoch for one in device.outbox.waiting()] == [0, 2]
    assert device.outbox.dropped == (0, 1)
    assert reports[1] not in database.read_bytes()
    assert opened(home).report(7, 3)
    assert opened(home).outbox.dropped == (0, 1)
    assert {one.epoch: device.outbox.read(one) for one in device.outbox.waiting()}.items() >= {
        (epoch, reports[epoch]) for epoch in (0, 2)
    }
