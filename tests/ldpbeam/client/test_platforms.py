"""A device where the system has less: no calls of POSIX alone, or no SQLite. Not a test on Windows itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

POSIX_ALONE = (
    *(
        "O_NOFOLLOW",
        "O_DIRECTORY",
        "O_CLOEXEC",
        "O_NONBLOCK",
        "O_SYNC",
        "O_DSYNC",
        "fork",
        "getuid",
        "geteuid",
    ),
    *("getgid", "fchmod", "fchown", "chown", "lchown", "fdatasync", "pread", "pwrite", "posix_fallocate"),
    *("mkfifo", "openpty", "setsid", "killpg", "uname", "register_at_fork", "sync", "umask_of"),
)
"""Names of ``os`` that Windows does not have."""

FAKE = f"""
import os, sys, types

# What the interpreter itself needs is loaded before anything is hidden.
import sqlite3, tempfile, subprocess, pathlib, random, urllib.request

import fcntl
real_lock, real_open, real_replace = fcntl.lockf, os.open, os.replace

def locking(descriptor, mode, count):
    # Of Windows: mandatory, of the descriptor's process, PermissionError where somebody else has it.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PermissionError(13, "Permission denied") from None

msvcrt = types.ModuleType("msvcrt")
msvcrt.locking, msvcrt.LK_NBLCK, msvcrt.LK_UNLCK = locking, 2, 0
sys.modules["msvcrt"] = msvcrt
for name in ("fcntl", "pwd", "grp", "resource", "termios", "pty"):
    sys.modules[name] = None
for name in {POSIX_ALONE!r}:
    if hasattr(os, name):
        delattr(os, name)
os.O_BINARY, os.O_NOINHERIT = 0, 0

def open_no_folder(path, *rest, **named):
    if not isinstance(path, int) and os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return real_open(path, *rest, **named)

open_files = "/proc/self/fd"

def replace_closed(source, target):
    # Of Windows: no file is replaced that somebody has open.
    for one in os.listdir(open_files):
        try:
            there = os.readlink(os.path.join(open_files, one))
            if there in (os.path.realpath(source), os.path.realpath(target)):
                raise PermissionError(13, "The process cannot access the file")
        except FileNotFoundError:
            pass
    real_replace(source, target)

os.open, os.replace = open_no_folder, replace_closed
"""

LIFE = """
import sys
from pathlib import Path
from ldpbeam.client import Device
from ldpbeam.client.sender import Sender
from ldpbeam.errors import DeviceError
from tests.ldpbeam.client.devices import loloha, unary

folder, memo = Path(sys.argv[1]), sys.argv[2]
first, second = Device.open(loloha(), folder / "d", memo=memo), Device.open(unary(), folder / "d", memo=memo)
reports = [first.report(epoch, epoch) for epoch in range(4)] + [second.report(3, 2)]
assert first.report(7, 3) == reports[3]
assert Device.open(loloha(), folder / "d", memo=memo).report(5, 3) == reports[3]
waiting = first.outbox.waiting()
assert {first.outbox.read(one) for one in waiting} == set(reports)
first.outbox.acknowledge(*waiting[:2])
assert len(second.outbox) == 3
assert first.spent().epsilon > 0
(folder / "d" / "device.sqlite").rename(folder / "away")
try:
    first.report(1, 4)
except DeviceError as error:
    print(error.code)
(folder / "away").rename(folder / "d" / "device.sqlite")
sentinel = folder / "d" / "sentinel"
sentinel.rename(folder / "away")
sentinel.symlink_to(folder / "away")
try:
    first.report(1, 4)
except DeviceError as error:
    print(error.code)
sentinel.unlink()
assert first.report(1, 4)
first.withdraw()
try:
    second.report(1, 4)
except DeviceError as error:
    print(error.code)
print(sorted(path.name for path in (folder / "d").iterdir()))
"""

NO_SQLITE = """
import sys
sys.modules["_sqlite3"] = sys.modules["sqlite3"] = None
from ldpbeam.client import Device
from ldpbeam.collection.file import parse_collection
from ldpbeam.errors import DeviceError
asked = parse_collection("{name: x, domain: {size: 9}, protocol: grr, epsilon: 1.0, epoch: {length: 1h}}")
assert Device.ephemeral(asked).report(1, 0)
try:
    Device.open(asked, sys.argv[1] + "/device")
except DeviceError as error:
    print(error)
"""


def ran(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("memo", ["derived", "stored"])
@pytest.mark.cases(1)
def test_a_device_lives_without_what_only_posix_systems_have(memo: str, tmp_path: Path) -> None:
    expected = "\n".join(
        [
            "E-DEVICE-STATE-LOST",
            "E-DISK-LINK",
            "E-DEVICE-WITHDRAWN",
            "['device.sqlite', 'lock', 'sentinel']",
            "",
        ]
    )
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    assert ran(LIFE, str(tmp_path / "here"), memo) == expected
    assert ran(FAKE + LIFE, str(tmp_path / "there"), memo) == expected


def test_a_python_without_sqlite_ends_in_one_sentence(tmp_path: Path) -> None:
    said = ran(NO_SQLITE, str(tmp_path))
    assert said.startswith("this Python was built without sqlite3, and what has to outlast the process")
    assert said.endswith("[E-USAGE-EXTRA]\n")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
