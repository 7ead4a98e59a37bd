"""Runs a program and records, below Python, what it does to the files of one folder.

The program is a function that a fresh process calls. ``recorder.c``, which is loaded before the C library,
writes a log of every call that changes a file below the folder, from all threads and child processes. SQLite
is seen like Python: both ask the C library. The program adds marks of its own with :func:`mark`, such as what
has left it by then.

A record is worth only as much as it is complete, so :meth:`Recorder.run` replays it and compares the outcome
with the folder, byte for byte: what changed in a way that the recorder does not see (a memory map, a stream
of the C library, a system call of its own) is an error, never a gap.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_suffix(".c")
_HEAD = struct.Struct("<IIQqII")
_MAGIC = 0x4C445052


class Kind(IntEnum):
    """What a call does; as in recorder.c."""

    CREATE = 1
    WRITE = 2
    SIZE = 3
    FSYNC = 4
    RENAME = 5
    UNLINK = 6
    LINK = 7
    MKDIR = 8
    RMDIR = 9
    MARK = 10
    UNSEEN = 11
    REFUSED = 12


class Call(NamedTuple):
    """One record: `offset` of a write, or size, mode or error number; `first` content, text or (old) path."""

    kind: Kind
    inode: int
    offset: int
    first: bytes
    second: str


def read_log(path: Path) -> Iterator[Call]:
    """All records, in the order in which the calls took effect."""
    content, at = path.read_bytes() if path.exists() else b"", 0
    while at < len(content):
        magic, kind, inode, offset, first, second = _HEAD.unpack_from(content, at)
        assert magic == _MAGIC, f"{path}: no record at byte {at}"
        at += _HEAD.size
        parts = content[at : at + first], content[at + first : at + first + second]
        at += first + second
        yield Call(Kind(kind), inode, offset, parts[0], os.fsdecode(parts[1]))


class Unrecorded(AssertionError):  # noqa: N818 - a test fails with it
    """The record does not hold all that was done, so nothing can be concluded from it."""


@dataclass(frozen=True)
class Entry:
    """What a name stands for; content None: a folder. Two names of one file have the same inode."""

    content: bytes | None
    inode: int
    mode: int = 0o600


Entries = Mapping[str, Entry]
"""By path below the folder, folders before what is in them."""


def entries(folder: Path) -> dict[str, Entry]:
    """Everything below a folder, as it is."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status, content = path.stat(), None if path.is_dir() else path.read_bytes()
        found[path.relative_to(folder).as_posix()] = Entry(content, status.st_ino, status.st_mode & 0o777)
    return found


@dataclass(frozen=True)
class Log:
    """A program's record, in order, and what was there, durable, when it began."""

    folder: Path
    inode: int
    before: Entries
    calls: tuple[Call, ...]

    def marks(self) -> list[dict[str, Any]]:
        """What the program said, in order."""
        return [json.loads(call.first) for call in self.calls if call.kind == Kind.MARK]

    def count(self, *kinds: Kind) -> int:
        """How many calls there are of some kinds."""
        return sum(call.kind in kinds for call in self.calls)


# --- in the process under test


def _loaded() -> ctypes.CDLL:
    """The library that this process was started with."""
    return ctypes.CDLL(None)


def mark(**words: Any) -> None:
    """Say something at this place of the record."""
    _loaded().recorder_mark(json.dumps(words).encode())


def _run(request: Mapping[str, Any]) -> None:
    """Call the program that a request names, recorded."""
    module, _, name = request["program"].partition(":")
    program: Callable[..., Any] = getattr(importlib.import_module(module), name)
    call, error = request["refuse"] or (-1, 0)
    log = os.fsencode(request["log"])
    _loaded().recorder_begin(os.fsencode(request["folder"]), log, ctypes.c_long(call), error)
    try:
        program(Path(request["folder"]), **request["given"])
    except BaseException:
        mark(raised=traceback.format_exc())


def _serve() -> NoReturn:
    """A process for each request, one after the other."""
    _loaded()
    warm = set[str]()
    for line in sys.stdin:
        request = json.loads(line)
        name = request["program"].partition(":")[0]
        module = importlib.import_module(name)
        if name not in warm:
            warm.add(name)
            getattr(module, "warm", lambda: None)()
        if not (child := os.fork()):
            try:
                _run(request)
            except BaseException:
                traceback.print_exc()
                os._exit(99)
            os._exit(0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()
    sys.exit()


# --- in the tests


@functools.cache
def library() -> Path:
    """The compiled recorder."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    assert compiler, "install a C compiler (Debian: sudo apt-get install gcc libc6-dev)"
    made = Path(tempfile.mkdtemp(prefix="recorder-")) / "recorder.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(SOURCE), "-ldl"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{compiler} cannot compile {SOURCE.name}: {done.stderr.strip()[:400]}"
    return made


def fast_folder() -> Path:
    """A new folder; in memory where that is possible, since what is forced to disk is decided by a model."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="ldpbeam-", dir=memory if os.access(memory, os.W_OK) else None))


class Recorder:
    """A warm process that is forked for each program."""

    def __init__(self) -> None:
        self.home = fast_folder()
        self._logs = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.crash.recorder import _serve; _serve()"],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "LD_PRELOAD": str(library())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        self._process.communicate()
        shutil.rmtree(self.home)

    def run(
        self,
        program: Callable[..., Any],
        folder: Path,
        *,
        refuse: tuple[int, int] | None = None,
        **given: Any,
    ) -> Log:
        """Call ``program(folder, **given)`` in a process of its own."""
        self._logs += 1
        log = self.home / f"{self._logs}.log"
        before, inode = entries(folder), folder.stat().st_ino
        request = {
            "program": f"{program.__module__}:{program.__qualname__}",
            "folder": str(folder),
            "log": str(log),
            "given": given,
            "refuse": refuse,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        ended = self._process.stdout.readline().strip()
        assert ended == "0", f"the program ended with {ended or 'the recorder'}"
        found = Log(folder.resolve(), inode, before, tuple(read_log(log)))
        log.unlink(missing_ok=True)
        raised = [words["raised"] for words in found.marks() if "raised" in words]
        assert not raised, raised[0]
        _require_complete(found)
        return found


def _require_complete(log: Log) -> None:
    """Raise Unrecorded unless the record explains what the folder holds, and something was forced to disk."""
    from tests.crash.power import Disk  # the model reads records

    unseen = [str(call) for call in log.calls if call.kind == Kind.UNSEEN]
    if unseen:
        raise Unrecorded(f"the recorder cannot follow this: {unseen[0]}")
    if not log.count(Kind.WRITE):
        raise Unrecorded("the recorder saw no write below the folder")
    if not log.count(Kind.FSYNC):
        raise Unrecorded("the recorder saw nothing forced to disk below the folder")
    disk = Disk(log)
    for call in log.calls:
        disk.apply(call)
    found = {name: one.content for name, one in entries(log.folder).items()}
    recorded = {name: one.content for name, one in disk.now().items()}
    if found != recorded:
        wrong = sorted(name for name in {*found, *recorded} if found.get(name, ()) != recorded.get(name, ()))
        raise Unrecorded(f"what the recorder saw does not explain what is in {', '.join(wrong[:3])}")


def restore(state: Entries, folder: Path) -> Path:
    """Make a folder that holds a state, in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    first: dict[int, Path] = {}
    for name, entry in state.items():
        path = folder / name
        if entry.content is None:
            path.mkdir(entry.mode)
        elif entry.inode in first:
            path.hardlink_to(first[entry.inode])
        else:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, entry.mode)
            os.write(descriptor, entry.content)
            os.close(descriptor)
            first[entry.inode] = path
    return folder


Said = Sequence[Mapping[str, Any]]
"""Marks that a program had made, in order."""
