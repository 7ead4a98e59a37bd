"""The recorder sees all that changes a folder, or says that it does not. The model forgets as disks do."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.crash import programs
from tests.crash.power import Disk, losses
from tests.crash.recorder import Entry, Kind, Log, Recorder, Said, Unrecorded, mark, restore

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform != "linux", reason="the recorder is loaded as Linux does it"),
]


def pythons() -> list[str]:
    """Every supported Python of this machine, once."""
    found = [sys.executable]
    for place in ("/usr/bin", "/usr/local/bin", *map(str, Path.home().glob(".pyenv/versions/3.1[123]*/bin"))):
        found += [str(path) for path in Path(place).glob("python3.1[123]")]
    known = dict[str, str]()
    for path in found:
        asked = [path, "-c", "import sys; print(*sys.version_info[:3], sep='.')"]
        version = subprocess.run(asked, check=False, capture_output=True, text=True).stdout.strip()
        if version.startswith(("3.11.", "3.12.", "3.13.")):
            known.setdefault(version, path)
    return sorted(known.values())


def made(folder: Path, name: str = "recorded") -> Path:
    """A new folder to record in."""
    (folder / name).mkdir()
    return folder / name


def all_complaints(
    log: Log, folder: Path, ask: Callable[[Path, Said], list[str]], limit: int = 64
) -> tuple[Counter[str], int]:
    """What a program's reader says of every loss of power; and how many states that were."""
    found: Counter[str] = Counter()
    states = 0
    for loss in losses(log, limit):
        states += 1
        found.update(ask(restore(loss.state, folder / "left"), loss.said))
    return found, states


# --- what is seen


@pytest.mark.parametrize("python", pythons())
def test_every_python_and_its_sqlite_are_seen(python: str, home: Path) -> None:
    """Also where SQLite is part of the interpreter: the record explains what is on disk, byte for byte."""
    recorder = Recorder(python)
    try:
        log = recorder.run(programs.everything, made(home, "files"))
        assert log.marks() == [{"done": True}]
        assert {call.kind for call in log.calls} == set(Kind) - {Kind.UNSEEN, Kind.REFUSED, Kind.SYNC}
        assert len({call.process for call in log.calls}) >= 4
        assert len({call.thread for call in log.calls}) >= 8
        log = recorder.run(programs.keep, made(home, "base"), settings=programs.RIGHT)
        # The journal twice and its home, the file, the home without the journal: for each transaction.
        forced = [Path(call.second).name for call in log.calls if call.kind == Kind.FSYNC]
        journal, base, above = f"{programs.FILE}-journal", programs.FILE, "base"
        assert forced == [journal, above, journal, base, above] * (programs.ROWS + 1)
    finally:
        recorder.close()


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (programs.nothing, "saw no write"),
        (programs.never_forced, "saw nothing forced"),
        (programs.by_map, "shared writable memory map"),
        (programs.by_stream, "fopen"),
        (programs.by_system_call, "does not explain what is in a"),
        (programs.without_the_recorder, "does not explain what is in b"),
    ],
)
def test_what_is_not_seen_is_an_error(
    program: Callable[[Path], None], why: str, recorder: Recorder, home: Path
) -> None:
    with pytest.raises(Unrecorded, match=why):
        recorder.run(program, made(home))


def test_a_program_that_raises_is_an_error(recorder: Recorder, home: Path) -> None:
    with pytest.raises(AssertionError, match="no such step"):
        recorder.run(raising, made(home))


def raising(folder: Path) -> None:
    raise LookupError(f"no such step: {folder.name}")


def test_without_a_compiler_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.crash import recorder as module

    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        AssertionError, match=r"^the recorder of power losses needs a C compiler; install one"
    ):
        module.library.__wrapped__()


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
            programs.replace_text(made(folder, name), list(programs.STEPS))
        except OSError as error:
            mark(refused=error.errno)


# --- what a disk forgets


def replay(log: Log) -> list[list[dict[str, bytes | None]]]:
    """What may be left after each call."""
    disk, found = Disk(log), []
    for call in log.calls:
        disk.apply(call)
        found.append([{n: e.content for n, e in state.items()} for state in disk.states(10_000)])
    return found


def write_once(folder: Path) -> None:
    programs.force(folder)
    descriptor = os.open(folder / "a", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, b"0123456789")
    os.fsync(descriptor)
    programs.force(folder)
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
    programs.force(folder)
    (folder / "x" / "a").write_bytes(b"1")
    os.sync()
    (folder / "x" / "b").write_bytes(b"2")
    (folder / "x" / "a").rename(folder / "y" / "c")
    programs.force(folder / "y")
    programs.force(folder / "x")


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


def test_a_state_is_restored_as_it_was(recorder: Recorder, home: Path) -> None:
    log = recorder.run(programs.everything, made(home))
    disk = Disk(log)
    for call in log.calls:
        disk.apply(call)
    state: Mapping[str, Entry] = disk.now()
    restore(state, home / "left")
    same = subprocess.run(
        ["diff", "-r", "--no-dereference", home / "recorded", home / "left"],
        check=False,
        capture_output=True,
    )
    assert same.stdout == b""


# --- planted faults


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (programs.STEPS, set()),
        (("force the file", "write", "rename", "force the folder"), {"the text is torn"}),
        (("write", "rename", "force the file", "force the folder"), {"the text is torn"}),
        (("write", "rename", "force the folder"), {"the text is torn"}),
        (("write", "force the file", "rename"), {"the text is lost", "an older text came back"}),
        (
            ("write", "force the file", "force the folder", "rename"),
            {"the text is lost", "an older text came back"},
        ),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, tuple) else "",
)
def test_a_text_that_is_replaced(
    steps: tuple[str, ...], expected: set[str], recorder: Recorder, home: Path
) -> None:
    log = recorder.run(programs.replace_text, made(home), steps=list(steps), planted=bool(expected))
    found, states = all_complaints(log, home, programs.text_complaints)
    assert expected <= set(found)
    assert bool(found) == bool(expected)
    assert states > 15


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ""),
        ({"journal_mode": "PERSIST"}, ""),
        ({"journal_mode": "TRUNCATE"}, ""),
        ({"synchronous": "FULL"}, "committed numbers are lost"),
        ({"synchronous": "NORMAL"}, "a transaction is there in part"),
        ({"synchronous": "OFF"}, "a transaction is there in part"),
        ({"journal_mode": "MEMORY"}, "a transaction is there in part"),
        ({"journal_mode": "OFF"}, "a transaction is there in part"),
        (
            {"locking_mode": "EXCLUSIVE", "journal_mode": "WAL", "synchronous": "NORMAL"},
            "committed numbers are lost",
        ),
    ],
    ids=lambda value: ", ".join(value.values()) or "right" if isinstance(value, dict) else "",
)  # fmt: skip
def test_numbers_in_sqlite(changed: dict[str, str], expected: str, recorder: Recorder, home: Path) -> None:
    log = recorder.run(programs.keep, made(home), settings={**programs.RIGHT, **changed}, planted=True)
    found, states = all_complaints(log, home, programs.complaints)
    assert expected in found if expected else found == {}
    assert states > 90


def test_a_write_ahead_log_is_refused(recorder: Recorder, home: Path) -> None:
    """It shares memory, which the recorder cannot follow."""
    settings: dict[str, Any] = {**programs.RIGHT, "journal_mode": "WAL"}
    with pytest.raises(Unrecorded, match="memory map"):
        recorder.run(programs.keep, made(home), settings=settings)
