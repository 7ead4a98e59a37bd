"""The model of a disk forgets as disks do; and a program that does not force what it must is seen."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from tests.crash.power import Disk, losses
from tests.crash.recorder import Log, Recorder, Said, mark, restore

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform != "linux", reason="the recorder is loaded as Linux does it"),
]

STEPS = ("write", "force the file", "rename", "force the folder")


def made(folder: Path, name: str = "recorded") -> Path:
    """A new folder to record in."""
    (folder / name).mkdir()
    return folder / name


def replace_text(folder: Path, steps: list[str]) -> None:
    """Replace a text three times, by some steps in some order; say each once it is in place."""
    for number in range(3):
        content = str(number).encode() * 100
        fresh, name = folder / "text.tmp", folder / "text"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for step in steps:
            match step:
                case "write":
                    os.write(descriptor, content)
                case "force the file":
                    os.fsync(descriptor)
                case "rename":
                    fresh.replace(name)
                case "force the folder":
                    force(folder)
        os.close(descriptor)
        mark(kept=number)


def force(folder: Path) -> None:
    """Make the names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def text_complaints(folder: Path, said: Said) -> list[str]:
    """What is wrong: a text that is older than what was said, or none of the texts."""
    least = max((words["kept"] for words in said), default=-1)
    path = folder / "text"
    if not path.exists():
        return [] if least < 0 else ["the text is lost"]
    content = path.read_bytes()
    if content not in {str(number).encode() * 100 for number in range(3)}:
        return ["the text is torn"]
    return [] if int(content[:1]) >= least else ["an older text came back"]


def replay(log: Log) -> list[list[dict[str, bytes | None]]]:
    """What may be left after each call."""
    disk, found = Disk(log), []
    for call in log.calls:
        disk.apply(call)
        found.append([{n: e.content for n, e in state.items()} for state in disk.states(10_000)])
    return found


def write_once(folder: Path) -> None:
    force(folder)
    descriptor = os.open(folder / "a", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, b"0123456789")
    os.fsync(descriptor)
    force(folder)
    os.close(descriptor)


def test_content_lasts_after_fsync_of_the_file_and_names_after_fsync_of_the_folder(
    recorder: Recorder, home: Path
) -> None:
    log = recorder.run(write_once, made(home))
    nothing, created, written, forced, named = map(_unique, replay(log))
    assert nothing == [{}]
    assert created == _unique([{}, {"a": b""}])
    # Nothing, torn, zeros in its place, whole.
    versions = [b"", b"0", b"01234", b"012345678", bytes(10), b"0123456789"]
    whole: list[dict[str, bytes | None]] = [{"a": content} for content in versions]
    assert written == _unique([{}, *whole])
    assert forced == _unique([{}, {"a": b"0123456789"}])
    assert named == [{"a": b"0123456789"}]


def _unique(states: list[dict[str, bytes | None]]) -> list[dict[str, bytes | None]]:
    return [dict(pairs) for pairs in sorted({tuple(sorted(state.items())) for state in states}, key=repr)]


def refused_force(folder: Path) -> None:
    descriptor = os.open(folder / "a", os.O_WRONLY)
    os.write(descriptor, b"1")
    try:
        os.fsync(descriptor)
    except OSError:
        os.fsync(descriptor)  # says yes, and what was dropped stays away


@pytest.mark.parametrize(("error", "left"), [(errno.EIO, {b"0", b"1"}), (errno.ENOSPC, {b"1"})])
def test_what_could_not_be_forced_may_stay_away(
    error: int, left: set[bytes], recorder: Recorder, home: Path
) -> None:
    (made(home) / "a").write_bytes(b"0")
    log = recorder.run(refused_force, home / "recorded", refuse=(2, error))
    assert {state["a"] for state in replay(log)[-1]} == left


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (STEPS, set()),
        (("write", "rename", "force the file", "force the folder"), {"the text is torn"}),
        (("write", "force the file", "rename"), {"the text is lost", "an older text came back"}),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, tuple) else "",
)
def test_a_text_that_is_replaced(
    steps: tuple[str, ...], expected: set[str], recorder: Recorder, home: Path
) -> None:
    log = recorder.run(replace_text, made(home), steps=list(steps), planted=bool(expected))
    left = [*losses(log, 64)]
    found = {text for loss in left for text in text_complaints(restore(loss.state, home / "left"), loss.said)}
    assert expected <= found
    assert bool(found) == bool(expected)
    assert len(left) > 15
