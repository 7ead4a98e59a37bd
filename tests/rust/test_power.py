"""The Rust device is stopped anywhere, as in tests/crash; the next life is in either language."""

from __future__ import annotations

import errno
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.errors import DeviceError
from tests.crash.harness import spread
from tests.crash.lives import (
    COLLECTION,
    PLAN,
    Living,
    Record,
    first_life,
    refused_life,
    slice_of,
    withdrawing_life,
)
from tests.crash.power import Loss, final, forcing_only, losses
from tests.crash.recorder import Log, Recorder, entries
from tests.crash.test_devices import betrayed, complaints_after, fresh, kept, refusals
from tests.rust.programs import program
from tests.rust.reporter import Reporter, opening, request

LANGUAGES = ("python", "rust")
memos = pytest.mark.parametrize("memo", ["derived", "stored"])
pytestmark = [
    pytest.mark.rust,
    pytest.mark.skipif(sys.platform != "linux", reason="the recorder is loaded as Linux does it"),
]


@pytest.fixture(autouse=True, scope="module")
def built() -> None:
    """Before anything is recorded."""
    program("reporter")


def complaints_of(log: Log, home: Path, memo: str, disks: int) -> Counter[str]:
    """Over what may be left at each call, the next life in Python and in Rust by turns."""
    complaints: Counter[str] = Counter()
    chosen = spread([*losses(log, 16)], disks)
    for number, loss in enumerate(chosen):
        complaints.update(complaints_after(loss, home, memo, LANGUAGES[number % 2]))
    assert len(chosen) == disks
    return complaints


@pytest.mark.parametrize("memo", ["derived", "stored", "strings"])
def test_whatever_a_lost_disk_holds_nothing_is_drawn_twice(memo: str, recorder: Recorder, home: Path) -> None:
    log = recorder.run(first_life, fresh(home), kind=memo, language="rust")
    assert complaints_of(log, home, memo, 120) == {}
    for forced in ("files", "folders"):  # otherwise this test could not fail
        assert complaints_of(forcing_only(forced, log), home, memo, 60)


@pytest.mark.parametrize(("memo", "error", "step"), [("derived", errno.ENOSPC, 7), ("stored", errno.EIO, 9)])
def test_whatever_the_disk_refuses_nothing_is_drawn_twice(
    memo: str, error: int, step: int, recorder: Recorder, home: Path
) -> None:
    calls = 0
    for log in refusals(recorder, home, refused_life, memo, error, step, "rust"):
        calls += 1
        said = log.marks()
        failed = [words["failed"] for words in said if "failed" in words]
        assert ["E-DISK-" in one for one in failed] in ([], [True])
        record = Record.of(said)
        assert record.complaints() == []
        assert set(record.left) == {epoch for _, epoch in PLAN}
        for left in final(log, 4):
            assert complaints_after(Loss(0, said, left), home, memo, LANGUAGES[calls % 2]) == []
    assert calls > 40 / step


@memos
def test_a_person_who_withdrew_has_withdrawn(memo: str, recorder: Recorder, home: Path) -> None:
    """Until the call returns the device goes on as if nothing was, or has withdrawn; never in between."""
    log = recorder.run(withdrawing_life, fresh(home), kind=memo, language="rust")
    names = set(kept(entries(home / "recorded")))
    found: Counter[str] = Counter()
    for number, loss in enumerate(spread([*losses(log, 16)], 80)):
        whole = any("withdrew" in words for words in loss.said)
        if whole:
            assert set(kept(loss.state)) == names
            assert betrayed(log, loss.state) == []
        complaints = complaints_after(loss, home, memo, LANGUAGES[number % 2])
        assert complaints == ["E-DEVICE-WITHDRAWN"] or not (complaints or whole)
        found.update(complaints or ["goes on"])
    assert found["E-DEVICE-WITHDRAWN"] > 2
    assert found["goes on"] > 20
    for refused in refusals(recorder, home, withdrawing_life, memo, errno.ENOSPC, 9, "rust"):
        assert refused.marks()[-1] == {"withdrew": True}
        for left in final(refused, 4):
            assert complaints_after(Loss(0, (), left), home, memo) == ["E-DEVICE-WITHDRAWN"]


# --- 300 kills

KILLS = 300
STEPS = 3
"""Epochs that a life asks for: the newest one again, then later ones."""


def plan_of(life: int, newest: int) -> list[tuple[int, int]]:
    """(value, epoch) of a life; the value of the epoch that is asked for again changes."""
    return [((life + step) % 7, newest + step) for step in range(STEPS)]


def live(folder: Path, memo: str, life: int, newest: int, answers: Any) -> None:
    """A life in Python, in a process of its own."""
    device = Living(folder, memo, life)
    for value, epoch in plan_of(life, newest):
        answers.send((epoch, device.report(value, epoch).hex()))
    answers.send(None)
    time.sleep(60)


def python_life(
    folder: Path, memo: str, life: int, newest: int, lasts: float
) -> list[tuple[int, str] | None]:
    """What left a process that is killed after some seconds; None at the end where it did all."""
    context = get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=live, args=(folder, memo, life, newest, writer))
    process.start()
    writer.close()
    time.sleep(lasts)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    found = []
    while reader.poll():
        try:
            found.append(reader.recv())
        except EOFError:
            break
    return found


def rust_life(folder: Path, memo: str, life: int, newest: int, lasts: float) -> list[tuple[int, str] | None]:
    """As of a life in Python."""
    plan = plan_of(life, newest)
    asked = [request("open", **opening(COLLECTION, folder, memo=memo, outbox=4096))]
    asked += [request("report", value=v, epoch=e, slice=slice_of(e, life)) for v, e in plan]
    with subprocess.Popen([program("reporter")], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(asked).encode())
        process.stdin.flush()
        time.sleep(lasts)
        process.kill()
        lines = process.stdout.read().decode().splitlines(keepends=True)
    answers = [json.loads(line)["ok"] for line in lines if line.endswith("\n")][1:]
    found: list[tuple[int, str] | None] = [
        (epoch, report) for (_, epoch), report in zip(plan, answers, strict=False)
    ]
    return [*found, None] if len(found) == STEPS else found


@memos
def test_a_device_killed_300_times_has_one_answer_and_one_report_for_each_epoch(
    memo: str, tmp_path: Path
) -> None:
    """Half of the lives are in Python and half in Rust, on one folder; on a disk, not in memory."""
    folder, record, draw = tmp_path / "device", Record(), random.Random(f"kills {memo}")
    lasts = {"python": 0.05, "rust": 0.05}
    whole, torn = Counter[str](), 0
    for life in range(KILLS // 2):
        language = LANGUAGES[life % 2]
        newest = record.newest
        for value, epoch in plan_of(life, newest):
            record.add(asked=(epoch, value))
        make = python_life if language == "python" else rust_life
        left = make(folder, memo, life, newest, lasts[language] * draw.random())
        torn += (folder / "device.sqlite-journal").exists()
        for one in left:
            if one is not None:
                record.add(left=one)
        done = left[-1:] == [None]
        whole[language] += done
        # So that about half of the lives end before they have done all, whatever the machine is like.
        lasts[language] *= 0.9 if done else 1.1
    record.hand_out(Living(folder, memo))
    assert record.complaints() == []
    assert len(record.left) > KILLS / 4
    for language in LANGUAGES:
        assert KILLS / 40 < whole[language] < KILLS / 4 - KILLS / 40, (whole, lasts)
    assert torn > 0


@memos
def test_processes_of_both_languages_take_turns(memo: str, home: Path) -> None:
    """From before there is a folder: three devices report the same epochs at once."""
    both = 0
    for number in range(8):
        folder, record = home / f"{number}", Record()
        lines = [request("open", **opening(COLLECTION, folder, memo=memo, outbox=4096))]
        lines += [request("report", value=3, epoch=epoch, slice=slice_of(epoch, 0)) for epoch in range(12)]
        others = [Reporter().process for _ in range(2)]
        for other in others:
            assert other.stdin is not None
            other.stdin.write("".join(lines))
            other.stdin.flush()
        device = Living(folder, memo, 1)
        for epoch in range(12):
            with suppress(DeviceError):  # the others were faster
                record.ask(device, 5, epoch)
        own = set(record.left)
        for other in others:
            for epoch, line in enumerate(other.communicate()[0].splitlines()[1:]):
                record.add(asked=(epoch, 3))
                answer = json.loads(line)
                assert answer.get("error", "E-DEVICE-EPOCH") == "E-DEVICE-EPOCH"
                if "ok" in answer:
                    record.add(left=(epoch, answer["ok"]))
                    both += epoch in own
        record.hand_out(device)
        assert record.complaints() == []
        assert set(record.left) == {*range(12)}
    assert both > 0
