"""The state: a loss and an older copy are noticed, and a copy gives the same responses."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from pathlib import Path
from typing import Literal

import pytest

from ldpbeam.client import Device
from ldpbeam.client.folder import DeviceFolder
from ldpbeam.client.state import memo_message, memo_of
from ldpbeam.durable import newest
from ldpbeam.durable.counter import FileCounter
from ldpbeam.durable.folder import sync_folder
from ldpbeam.durable.lock import Lock
from ldpbeam.errors import DeviceError
from ldpbeam.protocols import Memo, Parameters
from tests.ldpbeam.client.devices import (
    collection,
    held_journal,
    loloha,
    parsed,
    state_of,
    unary,
)
from tests.ldpbeam.client.test_device import memos
from tests.narrow import of_kind, present
from tests.reference.settings import Setting

# --- loss


@pytest.mark.parametrize("apart", [False, True])
def test_a_lost_state_is_noticed(tmp_path: Path, apart: bool) -> None:
    folder, sentinel = tmp_path / "device", tmp_path / "apart" / "sentinel" if apart else None

    def opened() -> Device:
        return Device.open(loloha(), folder, sentinel=sentinel)

    first = opened()
    before = first.report(1, 0)
    (folder / "device.sqlite").unlink()
    if apart:
        for path in folder.rglob("*"):
            if path.is_file():
                path.unlink()
    with pytest.raises(DeviceError, match=r"ε∞ once more.*E-DEVICE-STATE-LOST"):
        opened()
    with pytest.raises(DeviceError, match="E-DEVICE-STATE-LOST"):
        first.report(1, 1)
    assert not (folder / "device.sqlite").exists()
    (sentinel or folder / "sentinel").unlink()  # what the message says for those who mean it
    assert opened().report(1, 0) != before


def test_responses_kept_one_way_are_not_drawn_the_other_way(tmp_path: Path) -> None:
    Device.open(loloha(), tmp_path / "d").report(1, 0)
    Device.open(loloha(), tmp_path / "s", memo="stored").report(1, 0)
    with pytest.raises(DeviceError, match=r"are derived on this device.*memo='derived'.*E-DEVICE-MEMO"):
        Device.open(loloha(), tmp_path / "d", memo="stored")
    with pytest.raises(DeviceError, match=r"are stored on this device.*memo='stored'.*E-DEVICE-MEMO"):
        Device.open(loloha(), tmp_path / "s")


def test_a_state_of_another_device_is_noticed_by_an_open_one(tmp_path: Path) -> None:
    device = Device.open(loloha(), tmp_path / "a")
    Device.open(loloha(), tmp_path / "b").report(1, 0)
    for name in ("device.sqlite", "sentinel"):
        (tmp_path / "a" / name).write_bytes((tmp_path / "b" / name).read_bytes())
    with pytest.raises(DeviceError, match="E-DEVICE-STATE-OTHER"):
        device.report(1, 1)
    assert Device.open(loloha(), tmp_path / "a").report(1, 1)


# --- older copies


def test_an_older_copy_is_noticed_and_goes_on_once_somebody_means_it(tmp_path: Path) -> None:
    asked = unary(40)
    values = [3, 3, 17, 3, 8, 17, 39, 0, 3, 8]
    device = Device.open(asked, tmp_path, outbox=0)
    copies, reports = [], []
    for epoch, value in enumerate(values):
        copies.append((tmp_path / "device.sqlite").read_bytes())
        reports.append(device.report(value, epoch))
    assert len(set(reports)) == len(values)
    newest = (tmp_path / "sentinel").read_bytes()
    for restored, copy in enumerate(copies):
        (tmp_path / "device.sqlite").write_bytes(copy)
        (tmp_path / "sentinel").write_bytes(newest)
        for refused in (lambda: device.report(3, 10), lambda: Device.open(asked, tmp_path), device.spent):
            with pytest.raises(
                DeviceError, match=rf"changed {restored + 2} times.*knows of 12.*E-DEVICE-STATE-OLDER"
            ):
                refused()
        (tmp_path / "sentinel").unlink()  # what the message says for those who mean it
        again = Device.open(asked, tmp_path, outbox=0)
        assert (tmp_path / "sentinel").exists()
        assert [again.report(v, e) for e, v in enumerate(values) if e >= restored] == reports[restored:]


def test_an_older_copy_of_the_whole_folder_is_one_that_somebody_means(tmp_path: Path) -> None:
    for apart in (False, True):
        folder, copy = tmp_path / f"{apart}", tmp_path / f"copy-{apart}"
        sentinel = tmp_path / "sentinel" if apart else None
        device = Device.open(loloha(), folder, sentinel=sentinel)
        device.report(1, 0)
        shutil.copytree(folder, copy)
        message = device.report(1, 1)
        shutil.rmtree(folder)
        copy.rename(folder)
        if apart:
            with pytest.raises(DeviceError, match="E-DEVICE-STATE-OLDER"):
                Device.open(loloha(), folder, sentinel=sentinel)
        else:
            assert Device.open(loloha(), folder).report(1, 1) == message


@memos
def test_copies_of_a_state_share_no_coin_about_different_values(
    memo: Literal["derived", "stored"], tmp_path: Path
) -> None:
    """With shared ones each pair that differs is the two held values; by chance in less than 10⁻²⁰."""
    asked = collection(Setting("grr", 5, Parameters(epsilon=1.0)))
    Device.open(asked, tmp_path / "a", memo=memo, outbox=0)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    one, other = (Device.open(asked, tmp_path / name, memo=memo, outbox=0) for name in "ab")
    pairs = [(parsed(one.report(1, e)), parsed(other.report(2, e))) for e in range(60)]
    symbols = {(a.payload[0], b.payload[0]) for a, b in pairs if a.payload != b.payload}
    assert symbols - {(1, 2), (2, 1)}
    assert all((a.report_id == b.report_id) == (memo == "derived") for a, b in pairs)
    if memo == "derived":
        assert all(one.report(3, e) == other.report(3, e) for e in range(60, 90))


def test_a_copy_of_before_a_collection_was_added_serves_it_as_well(tmp_path: Path) -> None:
    first = Device.open(loloha(), tmp_path)
    copy = (tmp_path / "device.sqlite").read_bytes()
    second = Device.open(unary(), tmp_path, outbox=0)
    report = second.report(4, 0)
    (tmp_path / "device.sqlite").write_bytes(copy)
    (tmp_path / "sentinel").unlink()
    assert second.report(4, 0) == report
    assert first.report(1, 0)


def test_a_damaged_sentinel_is_told_from_a_damaged_state(tmp_path: Path) -> None:
    Device.open(loloha(), tmp_path)
    (tmp_path / "sentinel").write_bytes(bytes(8192))
    with pytest.raises(DeviceError, match="E-DEVICE-SENTINEL-DAMAGED"):
        Device.open(loloha(), tmp_path)


# --- what lies on the disk


@memos
def test_only_the_owner_can_read_the_state(memo: Literal["derived", "stored"], tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Device.open(loloha(), tmp_path / "a" / "device", memo=memo).report(1, 0)
    finally:
        os.umask(before)
    seen = {"lock", "sentinel", "device.sqlite", "device.sqlite-journal", "device"}
    with held_journal(tmp_path / "a" / "device"):
        paths = list((tmp_path / "a").rglob("*"))
        assert {path.name for path in paths} == seen
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths}
    for path, mode in modes.items():
        wanted = 0o700 if path.is_dir() else 0o600
        assert mode == wanted, path


def test_neither_values_nor_inputs_can_be_read_off_the_state(tmp_path: Path) -> None:
    asked = unary(3000)
    entries = []
    for name in ("a", "b"):
        device = Device.open(asked, tmp_path / name)
        for epoch, value in enumerate((2999, 5, 17)):
            device.report(value, epoch)
        entries.append(state_of(device).collections[0])
    first, second = entries
    assert first.spans[0].values != second.spans[0].values
    assert len(first.spans[0].values) == 4
    marks = [{one.inputs[i : i + 8] for i in range(0, 24, 8)} for one in entries]
    assert len(marks[0]) == len(marks[1]) == 3
    assert not marks[0] & marks[1]


@pytest.mark.parametrize("name", ["device.sqlite", "device.sqlite-journal", "sentinel", "lock"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_link_or_a_folder_in_a_files_place_is_refused_and_left_alone(
    name: str, kind: str, tmp_path: Path
) -> None:
    folder, victim = tmp_path / "device", tmp_path / "victim"
    device = Device.open(loloha(), folder)
    device.report(1, 0)
    place = folder / name
    if kind == "link" and place.exists():
        place.rename(victim)
    elif kind == "link":
        victim.write_bytes(b"somebody's")
    place.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(victim)
    before = victim.read_bytes() if victim.exists() else None
    for act in (lambda: device.report(1, 1), lambda: Device.open(loloha(), folder), device.withdraw):
        with pytest.raises(DeviceError, match=rf"{name}: what lies there.*E-DISK-LINK"):
            act()
    assert (victim.read_bytes() if victim.exists() else None) == before
    assert place.is_symlink() or kind == "pipe"


def test_a_process_that_holds_the_folder_is_waited_for_and_then_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device.open(loloha(), tmp_path)
    with Lock(tmp_path / "lock").held():
        thread = threading.Thread(target=device.report, args=(1, 0))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join()
    assert [one.epoch for one in device.outbox.waiting()] == [0]
    monkeypatch.setattr("ldpbeam.client.folder.PATIENCE", 0.2)
    with Lock(tmp_path / "lock").held():
        for act in (lambda: device.report(1, 1), lambda: Device.open(loloha(), tmp_path), device.withdraw):
            with pytest.raises(DeviceError, match=r"another process has held .*E-DEVICE-BUSY"):
                act()
    assert device.report(1, 1)


@pytest.mark.parametrize(
    "memo",
    [Memo(), Memo(0), Memo(1 << 127, {0: 0, 5: 1 << 700}), Memo(2, {}, (Memo(), Memo(7, {1: 2})))],
)
def test_a_stored_memo_comes_back(memo: Memo) -> None:
    assert memo_of(memo_message(memo)) == memo


def test_what_another_process_wrote_is_made_durable_before_it_is_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device.open(loloha(), tmp_path)
    number = FileCounter(tmp_path / "sentinel").read()
    with monkeypatch.context() as patch:
        patch.setattr(FileCounter, "write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            device.report(1, 0)
    assert FileCounter(tmp_path / "sentinel").read() == number
    synced: list[Path] = []

    def syncing(folder: Path) -> None:
        synced.append(folder)
        sync_folder(folder)

    monkeypatch.setattr(newest, "sync_folder", syncing)
    (waiting,) = device.outbox.waiting()
    assert synced == [tmp_path]
    assert FileCounter(tmp_path / "sentinel").read() == present(number) + 1
    assert device.report(2, 0) == device.outbox.read(waiting)
    assert synced == [tmp_path]  # once is enough


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_state_of_another_version_is_refused_by_name(tmp_path: Path) -> None:
    device = Device.open(loloha(), tmp_path)
    storage = of_kind(DeviceFolder, device._storage)
    with storage._newest.transaction(0) as rows:
        rows._store.version = 7
        storage._newest.commit(rows)
    with pytest.raises(
        DeviceError, match=r"format 7, and this program reads format 1.*E-DEVICE-STATE-VERSION"
    ):
        Device.open(loloha(), tmp_path)
    storage._newest.store.version = 1
    device.withdraw()  # a person who opts out needs no newer program
