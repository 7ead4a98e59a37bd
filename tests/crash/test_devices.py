"""A device is stopped anywhere: it never shows two responses for a value, nor two reports for an epoch.

Every call that changes the disk is recorded, and what may be left of the disk when the machine loses power
there is enumerated; what SIGKILL leaves is among it.
"""

from __future__ import annotations

import errno
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ldpbeam.errors import DeviceError
from ldpbeam.wire import report_pb2
from tests.crash.harness import spread
from tests.crash.lives import (
    PLAN,
    Record,
    first_life,
    refused_life,
    second_life,
    withdrawing_life,
)
from tests.crash.power import Loss, final, forcing_only, losses
from tests.crash.recorder import Entries, Kind, Log, Recorder, entries, restore

memos = pytest.mark.parametrize("memo", ["derived", "stored"])
kinds = pytest.mark.parametrize("kind", ["derived", "stored", "strings"])
recorded = pytest.mark.skipif(sys.platform != "linux", reason="the recorder is loaded as Linux does it")
LOSSES = 25
"""Losses of power that are tried in each of two lives."""


# --- power lost at every call


def fresh(home: Path) -> Path:
    """An empty folder to record in."""
    return restore({}, home / "recorded")


def complaints_after(loss: Loss, home: Path, kind: str, language: str = "python") -> list[str]:
    """What is wrong in the life that follows a loss of power; the code of an error that ends it."""
    try:
        return second_life(restore(loss.state, home / "left"), kind, loss.said, None, language).complaints()
    except DeviceError as error:
        return [error.code]


def enumerate_power_loss(log: Log, home: Path, kind: str) -> tuple[Counter[str], int]:
    """Complaints over every call and what may be left; and how many disks that were."""
    complaints: Counter[str] = Counter()
    chosen: list[Loss] = spread([*losses(log, 16)], 200)
    for loss in chosen:
        complaints.update(complaints_after(loss, home, kind))
    return complaints, len(chosen)


@recorded
@pytest.mark.thorough
@kinds
def test_whatever_a_lost_disk_holds_nothing_is_drawn_twice(kind: str, recorder: Recorder, home: Path) -> None:
    log = recorder.run(first_life, fresh(home), kind=kind)
    complaints, disks = enumerate_power_loss(log, home, kind)
    assert complaints == {}
    assert disks > 60


@recorded
@pytest.mark.slow
@memos
def test_nor_when_the_power_is_lost_again_after_that(memo: str, recorder: Recorder, home: Path) -> None:
    """A machine that comes back is stopped a second time, anywhere in its second life."""
    first = recorder.run(first_life, fresh(home), kind=memo)
    complaints: Counter[str] = Counter()
    disks = 0
    for loss in spread([*losses(first, 16)], LOSSES):
        log = recorder.run(second_life, restore(loss.state, home / "recorded"), kind=memo, said=loss.said)
        for second in spread([*losses(log, 16)], LOSSES):
            disks += 1
            again = second._replace(said=(*loss.said, *second.said))
            complaints.update(complaints_after(again, home, memo))
    assert complaints == {}
    assert disks > LOSSES**2 / 2


@recorded
@pytest.mark.thorough
@kinds
@pytest.mark.parametrize("forced", ["files", "folders"])
def test_a_device_that_forces_only_the_one_to_disk_fails(
    forced: str, kind: str, recorder: Recorder, home: Path
) -> None:
    """Otherwise the tests above could not fail of the client: whatever it keeps its state in."""
    log = recorder.run(first_life, fresh(home), kind=kind)
    complaints, _ = enumerate_power_loss(forcing_only(forced, log), home, kind)
    assert complaints


# --- calls that the disk refuses


refusing = pytest.mark.parametrize(
    ("memo", "error", "step"),
    [
        ("derived", errno.ENOSPC, 9),
        pytest.param("derived", errno.EIO, 1, marks=pytest.mark.thorough),
        pytest.param("stored", errno.ENOSPC, 1, marks=pytest.mark.thorough),
    ],
)
"""A memo, an error, and of how many calls of a life one fails."""


def refusals(
    recorder: Recorder,
    home: Path,
    life: Callable[..., None],
    memo: str,
    error: int,
    step: int,
    language: str = "python",
) -> Iterator[Log]:
    """A life for each of its calls, or one in so many, which fails."""
    for call in range(0, 1000, step):
        log = recorder.run(life, fresh(home), kind=memo, language=language, refuse=(call, error))
        if not log.count(Kind.REFUSED):
            return
        yield log
    raise AssertionError("a life does not end")


@recorded
@refusing
@pytest.mark.thorough
def test_whatever_the_disk_refuses_nothing_is_drawn_twice(
    memo: str, error: int, step: int, recorder: Recorder, home: Path
) -> None:
    """Each call fails once; then the power is lost as well."""
    complaints: Counter[str] = Counter()
    calls = 0
    for log in refusals(recorder, home, refused_life, memo, error, step):
        calls += 1
        said = log.marks()
        assert sum("failed" in words for words in said) <= 1
        record = Record.of(said)
        complaints.update(record.complaints())
        assert set(record.left) == {epoch for _, epoch in PLAN}, (
            "a refusal that passes must not silence a device"
        )
        for left in final(log, 8):
            complaints.update(complaints_after(Loss(0, said, left), home, memo))
    assert complaints == {}
    assert calls > 40 / step


# --- a person who withdraws


def kept(state: Entries) -> dict[str, bytes]:
    """All files, by name."""
    return {name: entry.content for name, entry in state.items() if entry.content is not None}


def betrayed(log: Log, state: Entries) -> list[str]:
    """What a folder still holds of a life: a secret, a response, the id of a report."""
    content = b"\0".join(kept(state).values())
    known = {words["drawn"]: bytes.fromhex(words["drawn"]) for words in log.marks() if "drawn" in words}
    for words in log.marks():
        if "left" in words:
            report = report_pb2.Report.FromString(bytes.fromhex(words["left"][1]))
            known[f"payload {report.epoch}"] = report.payload
            known[f"id {report.epoch}"] = report.report_id.to_bytes(8, "little")
    assert len(known) > len(PLAN)
    return [name for name, part in known.items() if part in content]


@recorded
@pytest.mark.thorough
@memos
def test_whatever_a_lost_disk_holds_a_person_who_withdrew_has_withdrawn(
    memo: str, recorder: Recorder, home: Path
) -> None:
    """Until the call returns the device goes on as if nothing was, or has withdrawn; never in between."""
    log = recorder.run(withdrawing_life, fresh(home), kind=memo)
    names = set(kept(entries(home / "recorded")))
    found: Counter[str] = Counter()
    for loss in spread([*losses(log, 16)], 200):
        whole = any("withdrew" in words for words in loss.said)
        if whole:  # nothing waits for another process to look
            assert set(kept(loss.state)) == names
            assert betrayed(log, loss.state) == []
        complaints = complaints_after(loss, home, memo)
        if complaints == ["E-DEVICE-WITHDRAWN"]:
            left = entries(home / "left")
            assert {name for name in kept(left) if not name.endswith(".tmp")} == names
            assert betrayed(log, left) == []
            found["withdrawn"] += 1
        else:
            assert not whole
            assert complaints == []
            found["goes on"] += 1
    assert found["withdrawn"] > 2
    assert found["goes on"] > 40


@recorded
@refusing
def test_whatever_the_disk_refuses_a_second_call_withdraws(
    memo: str, error: int, step: int, recorder: Recorder, home: Path
) -> None:
    recorder.run(withdrawing_life, fresh(home), kind=memo)
    names = set(kept(entries(home / "recorded")))
    failed = refused = 0
    for log in refusals(recorder, home, withdrawing_life, memo, error, step):
        refused += 1
        failed += sum("failed" in words for words in log.marks())
        assert log.marks()[-1] == {"withdrew": True}
        for left in final(log, 8):
            assert complaints_after(Loss(0, (), left), home, memo) == ["E-DEVICE-WITHDRAWN"]
            now = entries(home / "left")
            assert {name for name in kept(now) if not name.endswith(".tmp")} == names
            assert betrayed(log, now) == []
    assert refused > 40 / step
    assert failed > 0.8 * refused
