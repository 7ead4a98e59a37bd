"""Small programs for the recorder's own tests: right ones, and ones that are wrong on purpose.

They need the standard library alone, so that every Python here can run them.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.crash.recorder import Said, mark

# --- numbers in SQLite

FILE = "numbers.db"
ROWS = 3
PAYLOAD = 3000
"""Bytes beside a number, so that a transaction changes several pages."""
RIGHT = {"synchronous": "EXTRA", "journal_mode": "DELETE"}


def keep(folder: Path, settings: Mapping[str, str]) -> None:
    """Commit some numbers, each in a transaction that also changes the sum; say each once it is committed."""
    base = sqlite3.connect(folder / FILE, isolation_level=None)
    for name, value in settings.items():
        base.execute(f"pragma {name}={value}")
    base.execute("begin immediate")
    base.execute("create table numbers(number integer primary key, payload blob)")
    base.execute("create table total(sum integer)")
    base.execute("insert into total values (0)")
    base.execute("commit")
    for number in range(1, ROWS + 1):
        base.execute("begin immediate")
        base.execute("insert into numbers values (?, ?)", (number, bytes([number]) * PAYLOAD))
        base.execute("update total set sum = sum + ?", (number,))
        base.execute("commit")
        mark(kept=number)
    base.close()


def complaints(folder: Path, said: Said) -> list[str]:
    """What is wrong with what a machine finds: all that was said must be there, and nothing in between."""
    least = max((words["kept"] for words in said), default=0)
    try:
        base = sqlite3.connect(folder / FILE)
        try:
            found: list[Any] = base.execute("select number, payload from numbers order by number").fetchall()
            total = base.execute("select sum from total").fetchall()
            checked = base.execute("pragma integrity_check").fetchall()
        finally:
            base.close()
    except sqlite3.Error as error:
        if "no such table" in str(error):
            return ["committed numbers are lost"] if least else []
        return [f"the file cannot be read: {type(error).__name__}"]
    numbers = [number for number, _ in found]
    wrong = [] if checked == [("ok",)] else ["the file is damaged"]
    if len(numbers) < least:
        wrong.append("committed numbers are lost")
    if numbers != list(range(1, len(numbers) + 1)) or total != [(sum(numbers),)]:
        wrong.append("a transaction is there in part")
    if any(payload != bytes([number]) * PAYLOAD for number, payload in found):
        wrong.append("a number has another content")
    return wrong


# --- a text in a file, which is replaced

TEXT = "text"
STEPS = ("write", "force the file", "rename", "force the folder")


def replace_text(folder: Path, steps: list[str]) -> None:
    """Replace a text three times, by some steps in some order; say each once it is in place."""
    for number in range(3):
        content = str(number).encode() * 100
        fresh, name = folder / "text.tmp", folder / TEXT
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
    path = folder / TEXT
    if not path.exists():
        return [] if least < 0 else ["the text is lost"]
    content = path.read_bytes()
    if content not in {str(number).encode() * 100 for number in range(3)}:
        return ["the text is torn"]
    return [] if int(content[:1]) >= least else ["an older text came back"]


# --- everything that changes files


def everything(folder: Path) -> None:
    """Change files in every way that the recorder follows, from threads and child processes too."""
    _by_descriptors(folder)
    _by_copies(folder)
    _by_names(folder)
    _by_others(folder)
    force(folder)
    mark(done=True)


def _by_descriptors(folder: Path) -> None:
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    (folder / "inner").mkdir()
    os.mkdir("by-descriptor", dir_fd=at)
    one = os.open("a", os.O_RDWR | os.O_CREAT, 0o640, dir_fd=at)
    os.write(one, b"hello")
    two = os.dup(one)
    os.close(one)
    os.writev(two, [b", ", b"world"])
    os.pwrite(two, b"H", 0)
    os.pwritev(two, [b"E", b"L"], 1)
    os.ftruncate(two, 9)
    os.fdatasync(two)
    os.posix_fallocate(two, 0, 20)
    os.dup2(two, 99)
    os.close(two)
    os.write(99, b"99")
    os.close(99)
    appended = os.open(folder / "a", os.O_WRONLY | os.O_APPEND)
    os.lseek(appended, 0, os.SEEK_SET)
    os.write(appended, b"end")
    os.pwrite(appended, b"more", 0)
    os.close(appended)
    os.close(at)


def _by_copies(folder: Path) -> None:
    with (folder / "buffered").open("wb") as handle:
        handle.write(b"x" * 10_000)
        handle.seek(5)
        handle.write(b"y")
        handle.truncate(9_000)
        os.fsync(handle.fileno())
    shutil.copyfile(folder / "buffered", folder / "copied")
    source, copy = (
        os.open(folder / "buffered", os.O_RDONLY),
        os.open(folder / "ranged", os.O_RDWR | os.O_CREAT),
    )
    with suppress(OSError):  # not between all file systems
        os.copy_file_range(source, copy, 100, 10, 50)
    os.sendfile(copy, source, 0, 300)
    os.close(source)
    os.close(copy)
    os.truncate(folder / "copied", 10)
    os.open(folder / "copied", os.O_WRONLY | os.O_TRUNC)
    synced = os.open(folder / "synced", os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
    os.write(synced, b"forced at once")
    os.close(synced)


def _by_names(folder: Path) -> None:
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.link(folder / "a", folder / "inner" / "b")
    os.rename("a", "moved", src_dir_fd=at, dst_dir_fd=at)
    (folder / "inner" / "b").rename(folder / "moved")  # two names of one file: nothing happens
    (folder / "inner").rename(folder / "renamed")
    (folder / "renamed" / "c").write_text("below a folder that was renamed")
    (folder / "link").symlink_to("renamed")
    (folder / "link" / "d").write_text("through a link")
    (folder / "name").symlink_to("behind")
    (folder / "name").write_text("a new file through a link")
    os.chdir(folder / "renamed")
    Path("e").write_text("relative")
    Path("../renamed/./f").write_text("with dots")
    Path("f").unlink()
    os.chdir("/")
    os.unlink("buffered", dir_fd=at)
    os.rmdir("by-descriptor", dir_fd=at)
    os.close(at)
    gone = os.open(folder / "gone", os.O_RDWR | os.O_CREAT)
    (folder / "gone").unlink()
    os.write(gone, b"a file without a name")
    again = folder / "again"  # likely with the same inode number
    os.close(gone)
    again.write_text("again")


def _by_others(folder: Path) -> None:
    threads = [threading.Thread(target=_append, args=(folder / "threads", number)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not os.fork():
        _append(folder / "processes", 1)
        os._exit(0)
    os.wait()
    code = f"import os; open({str(folder / 'processes')!r}, 'ab', 0).write(b'from another program')"
    subprocess.run([sys.executable, "-c", code], check=True)
    subprocess.run(
        ["/bin/sh", "-c", f"echo shell >> {folder}/processes; mv {folder}/again {folder}/sh"], check=True
    )


def _append(path: Path, number: int) -> None:
    for _ in range(20):
        with path.open("ab", 0) as handle:
            handle.write(bytes([number]) * number)


# --- what the recorder cannot follow


def nothing(folder: Path) -> None:
    """Change nothing."""
    list(folder.iterdir())


def never_forced(folder: Path) -> None:
    """Force nothing to disk."""
    (folder / "a").write_text("a")


def by_map(folder: Path) -> None:
    """Write through a memory map."""
    with (folder / "a").open("w+b") as handle:
        handle.write(bytes(4096))
        handle.flush()
        os.fsync(handle.fileno())
        with mmap.mmap(handle.fileno(), 4096) as memory:
            memory[0] = 1


def by_stream(folder: Path) -> None:
    """Write through a stream of the C library."""
    force(folder)
    (folder / "a").write_text("a")
    c = ctypes.CDLL(None)
    c.fopen.restype = ctypes.c_void_p
    handle = c.fopen(os.fsencode(folder / "a"), b"w")
    c.fputs(b"b", ctypes.c_void_p(handle))
    c.fclose(ctypes.c_void_p(handle))


def by_system_call(folder: Path) -> None:
    """Ask the operating system itself."""
    descriptor = os.open(folder / "a", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, b"a")
    os.fsync(descriptor)
    write = {"x86_64": 1, "aarch64": 64}[os.uname().machine]
    ctypes.CDLL(None).syscall(write, descriptor, b"bc", 2)
    os.close(descriptor)


def without_the_recorder(folder: Path) -> None:
    """Let a program do it that the recorder is not loaded in."""
    (folder / "a").write_text("a")
    force(folder)
    code = f"open({str(folder / 'b')!r}, 'w').write('b')"
    subprocess.run([sys.executable, "-c", code], check=True, env={})
