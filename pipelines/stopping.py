"""SIGTERM and Ctrl-C for commands that run until told to stop: the first asks, a later one insists."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .signals import ENDING, heard_by_thread

TOGETHER = 1.0
"""Seconds within which a second signal is the same request.

Terminals, timeout(1) and service managers often tell a program and its process group; each is heard.
"""


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` once for SIGTERM or SIGINT; a signal after :data:`TOGETHER` does what it did before.

    That lasts beyond the block where a signal was heard: the process is ending, and its last words must not
    be cut off by the echo of what ended it. Only the main thread can do this; in others nothing changes.

    ``stop`` is called by a thread of its own: a handler runs between two steps of the main thread, which may
    hold the lock that ``stop`` needs (that of an Event that it waits for), and would then wait for itself.
    Nor does a handler run while the main thread waits for what ``stop`` sets, if the signal did not wake it.
    """
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
