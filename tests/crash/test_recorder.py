"""The model of a disk forgets as disks do; and a program that does not force what it must is seen."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

import pytest

from tests.crash.power import Disk, losses
from tests.crash.recorder import Kind, Log, Recorder, Said, Unrecorded, mark, restore

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


def by_stream(folder: Path) -> None:
    """Write through a stream of the C library, which the recorder does not see."""
    force(folder)
    (folder / "a").write_text("a")
    c = ctypes.CDLL(None)
    c.fopen.restype = ctypes.c_void_p
    handle = c.fopen(os.fsencode(folder / "a"), b"w")
    c.fputs(b"b", ctypes.c_void_p(handle))
    c.fclose(ctypes.c_void_p(handle))


def test_what_is_not_seen_is_an_error(recorder: Recorder, home: Path) -> None:
    with pytest.raises(Unrecorded, match="does not explain what is in a"):
        recorder.run(by_stream, made(home))


def test_a_call_is_refused_in_place_of_what_it_would_have_done(recorder: Recorder, home: Path) -> None:
    whole = recorder.run(refusing, made(home, "whole"))
    for call in range(100):
        log = recorder.run(refusing, made(home, f"{call}"), refuse=(call, errno.ENOSPC), planted=True)
        told = [words["refused"] for words in log.marks() if "refused" in words]
        assert [c.offset for c in log.calls if c.kind == Kind.REFUSED] == told
        if not told:
            break
        assert told == [errno.ENOSPC]
    assert call >= whole.count(Kind.CREATE, Kind.WRITE, Kind.FSYNC, Kind.RENAME, Kind.MKDIR)
    assert [c.kind for c in log.calls] == [c.kind for c in whole.calls]


def refusing(folder: Path) -> None:
    """Two folders, of which one may fail."""
    for name in ("a", "b"):
        try:
            replace_text(made(folder, name), list(STEPS))
        except OSError as error:
            mark(refused=error.errno)


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


def write_two_sectors(folder: Path) -> None:
    descriptor = os.open(folder / "a", os.O_WRONLY)
    os.pwrite(descriptor, b"b" * 5000, 3000)
    os.write(descriptor, b"c")
    os.fsync(descriptor)


def test_sectors_last_in_any_order(recorder: Recorder, home: Path) -> None:
    (made(home) / "a").write_bytes(b"a" * 9000)
    log = recorder.run(write_two_sectors, home / "recorded")
    left = {state["a"] for state in replay(log)[1]}
    assert {len(content or b"") for content in left} == {9000}
    for start in (b"a", b"c"):
        for one in (b"a", b"b"):
            for two in (b"a", b"b"):
                middle = one * (4096 - 3000) + two * (8000 - 4096)
                assert start + b"a" * 2999 + middle + b"a" * 1000 in left
    # Torn at 512 bytes within a sector, and between them.
    assert any(
        content and content[3000:3512] == b"b" * 512 and content[3512:4096] == b"a" * 584 for content in left
    )
    assert any(
        content and content[3000:3548] == b"b" * 548 and content[3548:4096] == b"a" * 548 for content in left
    )
    assert len(replay(log)[2]) == 1


def two_names(folder: Path) -> None:
    (folder / "x").mkdir()
    (folder / "y").mkdir()
    force(folder)
    (folder / "x" / "a").write_bytes(b"1")
    for path in ("x/a", "x", "y", "."):
        descriptor = os.open(folder / path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    (folder / "x" / "b").write_bytes(b"2")
    (folder / "x" / "a").rename(folder / "y" / "c")
    force(folder / "y")
    force(folder / "x")


def test_names_last_independently_and_a_rename_between_folders_waits_for_both(
    recorder: Recorder, home: Path
) -> None:
    states = replay(recorder.run(two_names, made(home)))
    before, both = _files(states[-2]), _files(states[-1])
    assert {tuple(sorted(state)) for state in before} == {
        ("x/a",), ("x/a", "x/b"), ("y/c",), ("x/b", "y/c"),
    }  # fmt: skip
    assert {tuple(sorted(state)) for state in both} == {("x/b", "y/c")}


def _files(states: list[dict[str, bytes | None]]) -> list[set[str]]:
    return [{name for name, content in state.items() if content is not None} for state in states]


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
