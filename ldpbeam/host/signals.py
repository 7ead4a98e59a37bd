"""SIGTERM and Ctrl-C: then a drain, or an end that leaves no half file.

A command that runs until it is told to stop drains at the first signal, and a later one insists
(:func:`stopped_by_signals`). A run over files ends at once: Beam's runners cannot be told to stop, so a
thread sees to it that no file is half-written, takes worker processes and unfinished folders away, and ends
the process (:func:`interruptible`).
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM)
"""The signals by which a command is told to end."""


def _apart(do: Callable[[], None]) -> threading.Thread:
    """Do it in a thread: a handler runs amid the main thread, and would wait for what that holds."""
    thread = threading.Thread(target=do, name="signal", daemon=True)
    thread.start()
    return thread


# --- commands that run until told to stop

TOGETHER = 1.0
"""Seconds within which a second signal is the same request.

Terminals, timeout(1) and service managers often tell a program and its process group; each is heard.
"""


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` once for SIGTERM or SIGINT; a signal after :data:`TOGETHER` does what it did before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {}
    heard: list[tuple[float, threading.Thread]] = []

    def hear(number: int, frame: object) -> None:
        if not heard:
            heard.append((time.monotonic(), _apart(stop)))
        elif time.monotonic() - heard[0][0] >= TOGETHER:
            restore()
            signal.raise_signal(number)

    def restore() -> None:
        for name, handler in before.items():
            signal.signal(name, handler)

    for name in ENDING:
        before[name] = signal.signal(name, hear)
    try:
        yield
    finally:
        if heard:
            heard[0][1].join()
        else:
            restore()


# --- runs over files, which end at once

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
def interruptible(refuse_writing: Callable[[float], None]) -> Iterator[None]:
    """For a block, let Ctrl-C end the process with 130 and SIGTERM with 143, once it is tidy."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ending: list[threading.Thread] = []

    def hear(number: int, frame: object) -> None:
        if not ending:
            ending.append(_apart(partial(_end, refuse_writing, number)))

    before = {name: signal.signal(name, hear) for name in ENDING}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _end(refuse_writing: Callable[[float], None], number: int) -> None:
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
    processes: list[int] = []
    waiting = [pid]
    while waiting:
        more = children.get(waiting.pop(), [])
        processes += more
        waiting += more
    return processes
