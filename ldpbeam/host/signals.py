"""SIGTERM and Ctrl-C: heard whatever the main thread does; then a drain, or an end that leaves no half file.

Python runs a handler when its main thread takes its next step. One that is inside a kernel does not for a
while, and one that has just begun to wait never does: a signal that came a moment earlier, or that another
thread took, does not wake it. What Python does at once is to write the signal's number to a descriptor. A
thread reads it there (:func:`heard_by_thread`).

A command that runs until it is told to stop drains at the first signal, and a later one insists
(:func:`stopped_by_signals`). A run over files ends at once: Beam's runners cannot be told to stop, so the
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


@contextmanager
def heard_by_thread(hear: Callable[[int], None], name: str) -> Iterator[None]:
    """For a block, have a thread of its own call ``hear`` with the number of each of :data:`ENDING`."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def listen() -> None:
        while numbers := os.read(reading, 64):
            for number in numbers:
                if number in ENDING:
                    hear(number)

    listener = threading.Thread(target=listen, name=name, daemon=True)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)  # the listener reads what is there, and the end of the pipe
        listener.join()
        os.close(reading)


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
    heard: list[float] = []
    asked = threading.Event()

    def ask(number: int) -> None:
        if not asked.is_set():
            asked.set()
            stop()

    def hear(number: int, frame: object) -> None:
        if not heard:
            heard.append(time.monotonic())
        elif time.monotonic() - heard[0] >= TOGETHER:
            restore()
            signal.raise_signal(number)

    def restore() -> None:
        for name, handler in before.items():
            signal.signal(name, handler)

    with heard_by_thread(ask, "stopping"):
        for name in ENDING:
            before[name] = signal.signal(name, hear)
        try:
            yield
        finally:
            if not heard:
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
    with heard_by_thread(partial(_end, refuse_writing), "interrupt"):
        before = {name: signal.signal(name, _nothing) for name in ENDING}
        try:
            yield
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)


def _nothing(number: int, frame: Any) -> None:
    """The thread does it; a handler has to be there for the signal to be heard."""


def _end(refuse_writing: Callable[[float], None], number: int) -> None:
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
    processes: list[int] = []
    waiting = [pid]
    while waiting:
        more = children.get(waiting.pop(), [])
        processes += more
        waiting += more
    return processes
