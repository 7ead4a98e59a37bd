"""A device is stopped anywhere: it never shows two responses for a value, nor two reports for an epoch.

Once by SIGKILL at random moments; once by enumerating every call that changes the disk, and everything that
may be left of the disk when the machine loses power there. ``make crash-devices`` kills 300 devices 1,200
times.
"""

from __future__ import annotations

import errno
import os
import random
import select
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.errors import DeviceError
from tests.crash.disk import Disk, PowerLoss
from tests.crash.lives import BUCKETS, Living, Naive, Real, Record

memos = pytest.mark.parametrize("memo", ["derived", "stored"])
ENOUGH = 50
"""Complaints after which nobody looks for more."""
DESIGNS = ("in place", "emit first", "no fsync")

# --- killed at random moments


def live(made: Callable[[], Living], first: int, values: list[int], pipe: int) -> None:
    """A child's life: report on and on; each line leaves the device when it is written."""
    device = made()
    os.write(pipe, b"ready\n")
    for epoch in range(first, first + 10_000):
        value = values[epoch % len(values)]
        os.write(pipe, f"asked {epoch} {value}\n".encode())
        os.write(pipe, f"left {epoch} {device.report(value, epoch).hex()}\n".encode())


def kill_one(made: Callable[[], Living], record: Record, draw: random.Random, longest: float) -> None:
    """Start a life at the newest epoch, with other values, and kill it after some lines and a while.

    Lines, since on a busy machine a while alone is no life at all.
    """
    reader, writer = os.pipe()
    values = [draw.randrange(5) for _ in range(7)]
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            live(made, record.newest, values, writer)
        finally:
            os._exit(3)
    os.close(writer)
    lines, least = b"", 1 + draw.randrange(6)
    while lines.count(b"\n") < least:
        lines += os.read(reader, 1 << 16)
    end = time.monotonic() + draw.uniform(0, longest)
    while (left := end - time.monotonic()) > 0:
        if select.select([reader], [], [], left)[0]:
            lines += os.read(reader, 1 << 16)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), "a life ended by itself"
    while part := os.read(reader, 1 << 16):
        lines += part
    os.close(reader)
    for line in lines.decode().splitlines():
        match line.split():
            case ["asked", epoch, value]:
                record.asked[int(epoch)].add(int(value))
            case ["left", epoch, message] if lines.endswith(b"\n") or line != lines.decode().splitlines()[-1]:
                record.left[int(epoch)].add(bytes.fromhex(message))


def killed(
    folder: Path, made: Callable[[Path], Living], devices: int, kills: int, longest: float
) -> tuple[int, int, list[Record]]:
    """How many devices did wrong, how many reports left, and the records."""
    draw = random.Random(20260101)
    wrong = reports = 0
    records = []
    for number in range(devices):
        home = folder / str(number)
        home.mkdir()
        record = Record()
        for _ in range(kills):
            kill_one(lambda home=home: made(home), record, draw, longest)  # type: ignore[misc]
        last = made(home)
        record.hand_out(last)
        record.ask(last, 4, record.newest)
        record.ask(last, 4, record.newest + 1)
        wrong += bool(record.complaints())
        reports += len(record.left)
        records.append(record)
    return wrong, reports, records


@pytest.mark.thorough
def test_no_device_that_is_killed_draws_twice(tmp_path: Path) -> None:
    for memo in ("derived", "stored"):
        (tmp_path / memo).mkdir()
        wrong, reports, _ = killed(tmp_path / memo, lambda home, m=memo: Real(home, m), 8, 3, 0.01)  # type: ignore[misc]
        assert wrong == 0
        assert reports > 16


@pytest.mark.slow
@memos
def test_1200_kills_of_300_devices_draw_nothing_twice(memo: Any, tmp_path: Path) -> None:
    """150 devices in each mode, each killed four times."""
    wrong, reports, records = killed(tmp_path, lambda home: Real(home, memo), 150, 4, 0.01)
    assert wrong == 0
    assert reports > 600
    stopped = sum(len(values) > 1 for record in records for values in record.asked.values())
    assert stopped > 150, "too few were killed between a question and the next life's"


@pytest.mark.thorough
def test_naive_devices_fail_the_same_kills(tmp_path: Path) -> None:
    """Otherwise the test above could not fail; a file that is replaced in time is safe from a kill."""
    for design in ("in place", "emit first"):
        (tmp_path / design).mkdir()
        wrong, _, _ = killed(tmp_path / design, lambda home, d=design: Naive(home, d), 15, 4, 0.005)  # type: ignore[misc]
        assert wrong >= 2, design


# --- power lost at every call

HOME = Path("/device")
PLAN = [(3, 0), (3, 1), (5, 2), (3, 3)]
"""(value, epoch) of a first life: a new value, the same, another one, the first again."""


class BelowPythonError(Exception):
    """The client writes through SQLite, which no function of ``os`` sees: the disk here would stay empty."""


below_python = pytest.mark.xfail(
    raises=BelowPythonError, strict=True, reason="needs a recorder of writes below Python"
)


class Machine:
    """A device on a disk that forgets."""

    def __init__(self, made: Callable[[Disk], Living]) -> None:
        self._made = made

    def boot(self, disk: Disk) -> Living:
        """The device on a disk, in a new process."""
        device = self._made(disk)
        if isinstance(device, Real):
            raise BelowPythonError
        return device

    def first_life(self, disk: Disk, record: Record) -> bool:
        """The plan, as far as the machine gets; whether it got to the end."""
        try:
            device = self.boot(disk)
            for value, epoch in PLAN:
                record.ask(device, value, epoch)
                record.hand_out(device)
        except PowerLoss:
            return False
        return True

    def second_life(self, disk: Disk, record: Record) -> None:
        """From the newest epoch on, with another value first: all that was seen must be seen again."""
        device = self.boot(disk)
        record.hand_out(device)
        newest = record.newest
        record.ask(device, 5, newest)
        for step, value in enumerate((3, 5, 3, 8), 1):
            record.ask(device, value, newest + step)
            record.hand_out(device)


def copied(record: Record) -> Record:
    made = Record()
    for epoch, values in record.asked.items():
        made.asked[epoch] |= values
    for epoch, messages in record.left.items():
        made.left[epoch] |= messages
    return made


@below_python
@pytest.mark.slow
@memos
def test_nor_when_the_power_is_lost_again_after_that(memo: Any, tmp_path: Path) -> None:
    """A machine that comes back is stopped a second time, at every fifth call of its second life."""
    machine = Machine(lambda _: Real(tmp_path, memo))
    complaints: Counter[str] = Counter()
    for call in range(200):
        disk, record = Disk(stop_after=call), Record()
        whole = machine.first_life(disk, record)
        for left in disk.after_power_loss():
            for second in range(call % 5, 60, 5):
                again, after = left.copy(stop_after=second), copied(record)
                with suppress(PowerLoss):
                    machine.second_life(again, after)
                for last in again.after_power_loss():
                    end = copied(after)
                    machine.second_life(last, end)
                    complaints.update(end.complaints())
        if whole:
            break
    assert whole
    assert complaints == {}


def enumerate_power_loss(machine: Machine) -> tuple[Counter[str], int]:
    """Complaints, by text, over every call and everything that may be left; and how many disks that were."""
    complaints: Counter[str] = Counter()
    disks = call = 0
    while True:
        disk, record = Disk(stop_after=call), Record()
        whole = machine.first_life(disk, record)
        for left in disk.after_power_loss():
            disks += 1
            after = copied(record)
            try:
                machine.second_life(left, after)
            except DeviceError as error:
                complaints[error.code] += 1
            complaints.update(after.complaints())
        if whole or complaints.total() > ENOUGH:
            return complaints, disks
        call += 1


@below_python
@memos
def test_whatever_a_lost_disk_holds_nothing_is_drawn_twice(memo: Any, tmp_path: Path) -> None:
    complaints, disks = enumerate_power_loss(Machine(lambda _: Real(tmp_path, memo)))
    assert complaints == {}
    assert disks > 150


@pytest.mark.parametrize("design", DESIGNS)
def test_naive_devices_fail_on_a_lost_disk(design: str) -> None:
    """Each of them draws a response twice on some disk."""

    def made(disk: Disk) -> Living:
        if str(HOME) not in disk.folders:
            disk.mkdir(HOME, 0o700)
        return Naive(HOME, design, disk)

    complaints, _ = enumerate_power_loss(Machine(made))
    assert any("responses" in text for text in complaints)


# --- calls that the disk refuses


def refused_at(machine: Machine, call: int, error: int) -> tuple[Record, bool, Disk]:
    """A life in which one call fails; the program asks again with another value, then goes on."""
    disk, record = Disk(refuse=(call, error)), Record()
    device = None
    failed = 0
    for value, epoch in PLAN:
        for attempt in (value, 8):
            try:
                device = device or machine.boot(disk)
                record.ask(device, attempt, epoch)
                record.hand_out(device)
                break
            except (DeviceError, OSError):
                failed += 1
    assert failed <= 1
    return record, len(disk.calls) > call, disk


@below_python
@memos
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_whatever_the_disk_refuses_nothing_is_drawn_twice(memo: Any, error: int, tmp_path: Path) -> None:
    """Each call fails once; then the power is lost as well."""
    machine = Machine(lambda _: Real(tmp_path, memo))
    complaints: Counter[str] = Counter()
    call, reached = 0, True
    while reached:
        record, reached, disk = refused_at(machine, call, error)
        complaints.update(record.complaints())
        assert set(record.left) == {epoch for _, epoch in PLAN}, (
            "a refusal that passes must not silence a device"
        )
        for left in disk.after_power_loss():
            after = copied(record)
            machine.second_life(left, after)
            complaints.update(after.complaints())
        call += 1
    assert complaints == {}
    assert call > 40


# --- a person who withdraws


def kept(disk: Disk) -> dict[str, bytes]:
    """All files, by name."""
    return {name: file.content for folder in disk.folders.values() for name, file in folder.names.items()}


def withdrawing(machine: Machine, disk: Disk) -> tuple[Record, bytes, bool]:
    """A life that ends with it: what left before, the secret, and whether the call returned."""
    record, secret = Record(), b""
    try:
        device = machine.boot(disk)
        secret = device.secret()  # type: ignore[attr-defined]
        for value, epoch in PLAN:
            record.ask(device, value, epoch)
        device.withdraw()  # type: ignore[attr-defined]
    except PowerLoss:
        return record, secret, False
    return record, secret, True


@below_python
@memos
def test_whatever_a_lost_disk_holds_a_person_who_withdrew_has_withdrawn(memo: Any, tmp_path: Path) -> None:
    """Until the call returns the device goes on as if nothing was, or has withdrawn; never in between.

    Once the next process has looked, nothing is left of a secret, an answer or a report.
    """
    machine = Machine(lambda _: Real(tmp_path, memo))
    found: Counter[str] = Counter()
    whole, call = False, 0
    while not whole:
        disk = Disk(stop_after=call)
        record, secret, whole = withdrawing(machine, disk)
        for left in disk.after_power_loss():
            after = copied(record)
            if whole:  # nothing waits for another process to look
                assert set(kept(left)) == {"state", "sentinel", "lock"}
            try:
                machine.second_life(left, after)
            except DeviceError as error:
                assert error.code == "E-DEVICE-WITHDRAWN"
                assert set(kept(left)) - {"state.tmp"} == {"state", "sentinel", "lock"}
                assert secret
                assert secret not in b"".join(kept(left).values())
                found["withdrawn"] += 1
            else:
                assert not whole
                assert after.complaints() == []
                found["goes on"] += 1
        call += 1
    assert found["withdrawn"] > 12
    assert found["goes on"] > 50


@below_python
@memos
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_whatever_the_disk_refuses_a_second_call_withdraws(memo: Any, error: int, tmp_path: Path) -> None:
    machine = Machine(lambda _: Real(tmp_path, memo))
    whole = Disk()
    withdrawing(machine, whole)
    failed = refused = 0
    # How many calls a life makes depends on the buckets that its device draws: values may share an answer.
    for call in range(len(whole.calls)):
        disk, made = Disk(refuse=(call, error)), list[Any]()
        steps: list[Callable[[], Any]] = [lambda made=made, disk=disk: made.append(machine.boot(disk))]  # type: ignore[misc]
        steps += [lambda made=made, asked=asked: made[0].report(*asked) for asked in PLAN]  # type: ignore[misc]
        steps.append(lambda made=made: made[0].withdraw())  # type: ignore[misc]
        for step in steps:
            try:
                step()
            except (DeviceError, OSError):
                failed += 1
                step()
        for left in disk.after_power_loss():
            with pytest.raises(DeviceError, match="E-DEVICE-WITHDRAWN"):
                machine.boot(left)
            assert set(kept(left)) == {"state", "sentinel", "lock"}
        refused += any("refused" in one for one in disk.calls)
    assert failed == refused > 0.8 * len(whole.calls)


def test_the_checks_can_fail() -> None:
    record = Record()
    record.asked[0] = record.asked[1] = {3}
    device = Naive(Path("/nowhere"), "emit first", Disk())
    for epoch in (0, 1):
        record.left[epoch].add(device.__class__(Path("/nowhere"), "emit first", Disk()).report(3, epoch))
    assert record.complaints() == ["a value has 2 responses"]
    record.left[0] |= record.left[1]
    assert "epoch 0 has 2 reports" in record.complaints()
    assert BUCKETS % 8 == 0
