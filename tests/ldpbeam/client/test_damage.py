"""Damage of each file that a device reads back is noticed, or harmless: every bit, every cut and every loss.

A device of three reports, of which one was sent, has these files: ``device.sqlite``, ``sentinel``, ``lock``.
A process that is killed within a report leaves ``device.sqlite-journal`` too, and in ``device.sqlite`` some
pages from before the report and some from after it.

After damage a device must refuse with a code, or be as it was, or have dropped reports and counted them. It
must not hand out other bytes, nor forget an epoch, a level that was spent or a report without a word. By
default every 389th bit is flipped. `make crash` flips every 97th, and `make nightly` every 11th.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from struct import pack
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
NEXT = 3
"""The epoch of the next report."""

Files = dict[str, bytes]
DATABASE, JOURNAL, SENTINEL, LOCK = "device.sqlite", "device.sqlite-journal", "sentinel", "lock"


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


def journal_of(database: bytes) -> bytes:
    """The rollback journal of a change of all pages, as SQLite's file format has it."""
    pages = [database[place : place + PAGE] for place in range(0, len(database), PAGE)]
    nonce = 0x12345678
    head = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + pack(">5I", len(pages), nonce, len(pages), 512, PAGE)
    records = [
        pack(">I", number) + page + pack(">I", nonce + sum(page[PAGE - 200 : 0 : -200]))
        for number, page in enumerate(pages, 1)
    ]
    return head.ljust(512, b"\0") + b"".join(records)


def scenes(folder: Path) -> dict[str, tuple[Files, tuple[Seen, ...]]]:
    """What may lie in a folder, and what a device may show then: as before, or as after a report."""
    shutil.rmtree(folder, ignore_errors=True)
    before = life(folder)
    was = seen(folder)
    opened(folder).report(8, NEXT)
    after = files_of(folder)[DATABASE]
    became = seen(folder)
    assert len(after) == len(before[DATABASE]) == 2 * PAGE
    assert all(after[at : at + PAGE] != before[DATABASE][at : at + PAGE] for at in (0, PAGE))
    journal = journal_of(before[DATABASE])
    mixed = {
        "killed before the first page": before[DATABASE],
        "killed after the first page": after[:PAGE] + before[DATABASE][PAGE:],
        "killed after the second page": before[DATABASE][:PAGE] + after[PAGE:],
        "killed after the last page": after,
    }
    killed = {name: {**before, DATABASE: database, JOURNAL: journal} for name, database in mixed.items()}
    return {"at rest": (before, (was,)), **{name: (files, (was, became)) for name, files in killed.items()}}


def outcome(folder: Path, files: Files, allowed: tuple[Seen, ...]) -> str:
    """How a device goes on with these files; an assertion fails where it must not."""
    put(folder, files)
    try:
        now = seen(folder)
    except DeviceError as error:
        assert error.code in CODES, error
        assert error.remedy
        return "noticed"
    assert now.state in [one.state for one in allowed]
    as_it_was = next(one for one in allowed if one.state == now.state)
    assert now.waiting.items() <= as_it_was.waiting.items()
    assert now.lost == len(as_it_was.waiting) - len(now.waiting)
    assert seen(folder) == now, "a loss is counted once"
    return "dropped" if now.lost else "harmless"


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit >> 3] ^= 1 << (bit & 7)
    return bytes(changed)


def flips(home: Path, scene: str, name: str, step: int) -> Counter[str]:
    files, allowed = scenes(home.with_name("made"))[scene]
    outcomes: Counter[str] = Counter()
    for bit in range(0, 8 * len(files[name]), step):
        try:
            outcomes[outcome(home, {**files, name: flipped(files[name], bit)}, allowed)] += 1
        except AssertionError as error:
            raise AssertionError(f"bit {bit} of {name}, {scene}: {error}") from None
    return outcomes


SCENES = ["at rest", *(f"killed {when} page" for when in ("before the first", "after the first"))]
SCENES += [f"killed after the {which} page" for which in ("second", "last")]


def test_a_journal_of_a_kill_takes_the_change_back(home: Path) -> None:
    for scene, (files, (was, *_)) in scenes(home.with_name("made")).items():
        put(home, files)
        assert seen(home) == was, scene
        assert set(files_of(home)) == {DATABASE, SENTINEL, LOCK}


@pytest.mark.parametrize(
    ("scene", "step"),
    [("at rest", 389), *(pytest.param(one, 97, marks=pytest.mark.thorough) for one in SCENES)],
)
def test_flipped_bits_of_every_file_are_noticed_or_harmless(scene: str, step: int, home: Path) -> None:
    for name in (DATABASE, SENTINEL) if scene == "at rest" else (DATABASE, JOURNAL):
        outcomes = flips(home, scene, name, step)
        assert outcomes.total() > 60_000 // step
        if name == JOURNAL or (scene == "at rest" and name == DATABASE):
            assert outcomes["noticed"] > 2_000 // step
            assert outcomes["dropped"] > 500 // step
        else:  # the sentinel's other place holds the number before, and a journal has all pages of the file
            assert set(outcomes) == {"harmless"}


@pytest.mark.cases(1)
@pytest.mark.parametrize("scene", SCENES)
def test_every_cut_and_every_loss_is_noticed_or_harmless(scene: str, home: Path) -> None:
    files, allowed = scenes(home.with_name("made"))[scene]
    for name, content in files.items():
        sizes = {*range(0, len(content), 61), *range(min(len(content), 130)), *range(0, len(content), 512)}
        changes = [content[:size] for size in sorted(sizes)] + [
            content + b"\0",
            content + content,
            bytes(PAGE),
        ]
        for change in changes:
            try:
                outcome(home, {**files, name: change}, allowed)
            except AssertionError as error:
                raise AssertionError(f"{name} of {len(change)} bytes, {scene}: {error}") from None
        lost = outcome(home, {key: value for key, value in files.items() if key != name}, allowed)
        assert lost == "noticed" if name == DATABASE else lost != "dropped"


def test_an_older_page_is_noticed(home: Path) -> None:
    files = life(home)
    allowed = (seen(home),)
    history = [files[DATABASE]]
    for epoch in range(NEXT, NEXT + 4):
        opened(home).report(epoch, epoch)
        history.append(files_of(home)[DATABASE])
    files = files_of(home)
    allowed = (seen(home),)
    newest = files[DATABASE]
    for old in history[:-1]:
        assert outcome(home, {**files, DATABASE: old}, allowed) == "noticed"
        assert outcome(home, {**files, DATABASE: newest[:PAGE] + old[PAGE:]}, allowed) == "noticed"
        # SQLite's own header and the description of the table: nothing in it is of one moment alone.
        assert outcome(home, {**files, DATABASE: old[:PAGE] + newest[PAGE:]}, allowed) != "dropped"


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
