"""The state: every damage is noticed, a loss is noticed, and an older copy gives the same responses."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Literal

import pytest

from ldpbeam.client import Device, durable
from ldpbeam.client import state as state_module
from ldpbeam.client.state import memo_message, memo_of, pack_state, unpack_state
from ldpbeam.client.store import FileStore
from ldpbeam.errors import DeviceError
from ldpbeam.protocols import Memo
from tests.ldpbeam.client.devices import EPOCHS, loloha, parsed, unary
from tests.ldpbeam.client.test_device import memos

# --- damage


@memos
@pytest.mark.thorough
def test_every_flipped_bit_is_noticed(memo: Literal["derived", "stored"], tmp_path: Path) -> None:
    """Each bit of two whole state files; a device that took one of them for sound would draw again."""
    device = Device.open(unary(300), tmp_path, memo=memo, outbox=0)
    last = 135 if memo == "derived" else 70
    for epoch in range(last + 1):
        device.report(epoch, epoch)
    content = (tmp_path / "state").read_bytes()
    assert (1100 if memo == "derived" else 3000) < len(content) < 4096
    for position in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[position >> 3] ^= 1 << (position & 7)
        with pytest.raises(DeviceError, match="E-DEVICE-STATE-DAMAGED"):
            unpack_state(bytes(flipped), "state")
    assert unpack_state(content, "state").collections[0].spans[0].last_epoch == last


def test_every_cut_and_every_addition_is_noticed(tmp_path: Path) -> None:
    Device.open(loloha(), tmp_path).report(1, 0)
    content = (tmp_path / "state").read_bytes()
    for wrong in [*(content[:size] for size in range(len(content))), content + b"\0", content * 2]:
        with pytest.raises(DeviceError, match="E-DEVICE-STATE-DAMAGED"):
            unpack_state(wrong, "state")


def test_a_damaged_device_reports_nothing_and_changes_nothing(tmp_path: Path) -> None:
    device = Device.open(loloha(), tmp_path)
    device.report(1, 0)
    content = bytearray((tmp_path / "state").read_bytes())
    content[60] ^= 4
    (tmp_path / "state").write_bytes(content)
    for report in (lambda: device.report(1, 1), lambda: Device.open(loloha(), tmp_path), device.spent):
        with pytest.raises(DeviceError, match=r"E-DEVICE-STATE-DAMAGED"):
            report()
    assert (tmp_path / "state").read_bytes() == content


def test_a_state_of_another_version_is_refused_by_name(tmp_path: Path) -> None:
    device = Device.open(loloha(), tmp_path)
    (tmp_path / "state").write_bytes(pack_state(device._store.load(), version=7))
    with pytest.raises(
        DeviceError, match=r"format 7, and this program reads format 1.*E-DEVICE-STATE-VERSION"
    ):
        Device.open(loloha(), tmp_path)


def test_a_sound_file_without_a_secret_is_refused(tmp_path: Path) -> None:
    """Words that everybody can derive would be no noise."""
    state = Device.open(loloha(), tmp_path)._store.load()
    state.secret = b""
    with pytest.raises(DeviceError, match="E-DEVICE-STATE-DAMAGED"):
        unpack_state(pack_state(state), "state")


# --- loss


@pytest.mark.parametrize("apart", [False, True])
def test_a_lost_state_is_noticed(tmp_path: Path, apart: bool) -> None:
    folder, sentinel = tmp_path / "device", tmp_path / "apart" / "sentinel" if apart else None

    def opened() -> Device:
        return Device.open(loloha(), folder, sentinel=sentinel)

    first = opened()
    before = first.report(1, 0)
    (folder / "state").unlink()
    if apart:
        for path in folder.rglob("*"):
            if path.is_file():
                path.unlink()
    with pytest.raises(DeviceError, match=r"ε∞ once more.*E-DEVICE-STATE-LOST"):
        opened()
    with pytest.raises(DeviceError, match="E-DEVICE-STATE-LOST"):
        first.report(1, 1)
    assert not (folder / "state").exists()
    (sentinel or folder / "sentinel").unlink()  # what the message says for those who mean it
    assert opened().report(1, 0) != before


def test_a_machine_that_stops_while_the_device_is_made_has_lost_nothing(tmp_path: Path) -> None:
    """State without sentinel: nothing was reported yet, and nothing is refused."""
    Device.open(loloha(), tmp_path)
    (tmp_path / "sentinel").unlink()
    device = Device.open(loloha(), tmp_path)
    assert (tmp_path / "sentinel").exists()
    assert device.report(1, 0)


def test_responses_kept_one_way_are_not_drawn_the_other_way(tmp_path: Path) -> None:
    Device.open(loloha(), tmp_path / "d").report(1, 0)
    Device.open(loloha(), tmp_path / "s", memo="stored").report(1, 0)
    with pytest.raises(DeviceError, match=r"are derived on this device.*memo='derived'.*E-DEVICE-MEMO"):
        Device.open(loloha(), tmp_path / "d", memo="stored")
    with pytest.raises(DeviceError, match=r"are stored on this device.*memo='stored'.*E-DEVICE-MEMO"):
        Device.open(loloha(), tmp_path / "s")


def test_a_state_of_another_device_is_noticed_by_an_open_one(tmp_path: Path) -> None:
    """Two processes would otherwise report with two secrets from one folder."""
    device = Device.open(loloha(), tmp_path / "a")
    Device.open(loloha(), tmp_path / "b").report(1, 0)
    (tmp_path / "a" / "state").write_bytes((tmp_path / "b" / "state").read_bytes())
    with pytest.raises(DeviceError, match="E-DEVICE-STATE-OTHER"):
        device.report(1, 1)
    assert Device.open(loloha(), tmp_path / "a").report(1, 1)


# --- older copies


def test_an_older_copy_gives_the_same_responses_and_the_same_reports(tmp_path: Path) -> None:
    """Every copy from before: for the same epoch and value the same bytes, so nothing new is learnt."""
    asked = unary(40)
    values = [3, 3, 17, 3, 8, 17, 39, 0, 3, 8]
    device = Device.open(asked, tmp_path, outbox=0)
    copies, reports = [], []
    for epoch, value in enumerate(values):
        copies.append((tmp_path / "state").read_bytes())
        reports.append(device.report(value, epoch))
    assert len(set(reports)) == len(values)
    for restored, copy in enumerate(copies):
        (tmp_path / "state").write_bytes(copy)
        again = Device.open(asked, tmp_path, outbox=0)
        assert [again.report(v, e) for e, v in enumerate(values) if e >= restored] == reports[restored:]


def test_a_copy_of_before_a_collection_was_added_serves_it_as_well(tmp_path: Path) -> None:
    first = Device.open(loloha(), tmp_path)
    copy = (tmp_path / "state").read_bytes()
    second = Device.open(unary(), tmp_path, outbox=0)
    report = second.report(4, 0)
    (tmp_path / "state").write_bytes(copy)
    assert second.report(4, 0) == report
    assert first.report(1, 0)


# --- what lies on the disk


@memos
def test_only_the_owner_can_read_the_state(memo: Literal["derived", "stored"], tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Device.open(loloha(), tmp_path / "a" / "device", memo=memo).report(1, 0)
    finally:
        os.umask(before)
    for path in (tmp_path / "a").rglob("*"):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


@pytest.mark.parametrize("size", [2, 1000, 1 << 14, 1 << 20])
@pytest.mark.thorough
def test_a_derived_state_stays_below_4_kib_whatever_k_is(size: int, tmp_path: Path) -> None:
    """400 different values about the unary encoding, the hungriest; also of the largest domain tried."""
    asked = unary(size)
    device = Device.open(asked, tmp_path, outbox=0)
    if size > 1000:  # reports of so many bits take long: the marks alone
        state = device._store.load()
        entry = state.collections[0]
        for key in range(400):
            added, entry.inputs = device._costs.charge(entry, [(0, key)])
            if not entry.levels:
                entry.levels.add(epsilon=2.0)
            entry.levels[0].times += sum(added.values())
        device._store.save(state)
        device.report(size - 1, 0)
    for epoch in range(400) if size <= 1000 else (1, 2):
        device.report(epoch % size, epoch)
    assert (tmp_path / "state").stat().st_size < 2048
    assert device.spent().collections[0].times >= min(size, 400)


def test_neither_values_nor_inputs_can_be_read_off_the_state(tmp_path: Path) -> None:
    """Without the secret: two devices that held the same values have nothing in common but what is public."""
    asked = unary(3000)
    entries = []
    for name in ("a", "b"):
        device = Device.open(asked, tmp_path / name)
        for epoch, value in enumerate((2999, 5, 17)):
            device.report(value, epoch)
        entries.append(device._store.load().collections[0])
    first, second = entries
    assert first.spans[0].values != second.spans[0].values
    assert len(first.spans[0].values) == 3
    marks = [{one.inputs[i : i + 8] for i in range(0, 24, 8)} for one in entries]
    assert len(marks[0]) == len(marks[1]) == 3
    assert not marks[0] & marks[1]


def test_a_disk_that_is_full_leaves_the_device_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device.open(loloha(), tmp_path, memo="stored")
    device.report(1, 0)
    content = (tmp_path / "state").read_bytes()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(DeviceError, match="E-DISK-FULL"):
            device.report(2, 1)
    assert (tmp_path / "state").read_bytes() == content
    assert device.report(2, 1)


def test_a_folder_that_may_not_be_written_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "mkdir", denied)
    with pytest.raises(DeviceError, match="E-DISK-DENIED"):
        Device.open(loloha(), tmp_path / "new")


@pytest.mark.parametrize(
    "memo",
    [Memo(), Memo(0), Memo(1 << 127, {0: 0, 5: 1 << 700}), Memo(2, {}, (Memo(), Memo(7, {1: 2})))],
)
def test_a_stored_memo_comes_back(memo: Memo) -> None:
    assert memo_of(memo_message(memo)) == memo


def test_what_another_process_wrote_is_made_durable_before_it_is_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may end between the rename and its becoming durable; the next one must not rely on it."""
    message = Device.open(loloha(), tmp_path).report(1, 0)
    other = Device.open(loloha(), tmp_path)
    settled: list[Path] = []
    settle = durable.settle

    def noted(folder: Path) -> None:
        settled.append(folder)
        settle(folder)

    monkeypatch.setattr(durable, "settle", noted)
    assert other.report(1, 0) == message
    assert settled == [tmp_path]
    assert other.report(1, 0) == message
    assert settled == [tmp_path]  # once is enough


def test_the_parts_of_the_format_are_where_the_documentation_has_them(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    content = (tmp_path / "state").read_bytes()
    assert content.startswith(b"ldpbeam device state\0\1\0")
    assert len(content) == 21 + 6 + store.load().ByteSize() + 32
    assert state_module.VERSION == 1
    assert parsed(Device.open(loloha(), tmp_path).report(1, EPOCHS.count - 1)).epoch == EPOCHS.count - 1
