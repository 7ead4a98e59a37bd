"""Ctrl-C and SIGTERM over files: the command ends at once and leaves nothing half-done behind.

Beam's runners cannot be told to stop, and Python's own handling of a signal waits for the main thread, which
may be inside a kernel or waiting for workers. So a thread of its own hears of the signal, sees to it that no
file is half-written, takes worker processes and unfinished folders away, and ends the process.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ldpbeam.transforms.sinks.atomic import refuse_writing

from .signals import ENDING, heard_by_thread

RECORD = "run.json"
_PATIENCE = 1.0
"""Seconds to wait for files that are being written."""

_paths: list[Path] = []
_exchanging = threading.Lock()


@contextmanager
def removed_on_interrupt(path: Path) -> Iterator[None]:
    """Have a file or folder removed if the process is interrupted within a block."""
    _paths.append(path)
    try:
        yield
    finally:
        _paths.remove(path)


@contextmanager
def not_interrupted() -> Iterator[None]:
    """A short block that is finished before an interruption ends the process."""
    with _exchanging:
        yield


@contextmanager
def interruptible() -> Iterator[None]:
    """For a block, let Ctrl-C end the process with 130 and SIGTERM with 143, once it is tidy.

    Only the main thread can do this; in others nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with heard_by_thread(_end, "interrupt"):
        before = {name: signal.signal(name, _nothing) for name in ENDING}
        try:
            yield
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)


def _nothing(number: int, frame: Any) -> None:
    """The thread does it; a handler has to be there for the signal to be heard."""


def _end(number: int) -> None:
    """Tidy up and end."""
    refuse_writing(_PATIENCE)
    _exchanging.acquire(timeout=_PATIENCE)
    for pid in _descendants(os.getpid()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    # Innermost first: the lock of the output goes last.
    for path in reversed(_paths):
        if not (path / RECORD).exists():  # complete: an exchange was under way, and the next run finishes it
            _remove(path)
    with suppress(OSError):
        sys.stderr.write("ldpbeam: interrupted; nothing half-finished was left. [E-INTERRUPTED]\n")
        sys.stderr.flush()
    os._exit(128 + number)


def _remove(path: Path) -> None:
    for _ in range(3):  # a worker that was just killed may have made a name meanwhile
        shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _descendants(pid: int) -> list[int]:
    """Processes that were started by this one, and by those; none where /proc does not tell."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The name of the program, in brackets, may hold anything.
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(status.parent.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        more = children.get(waiting.pop(), [])
        found += more
        waiting += more
    return found
