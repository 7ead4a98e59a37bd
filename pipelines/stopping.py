"""SIGTERM and Ctrl-C for commands that run until told to stop: the first asks, a later one insists."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_ASK = (signal.SIGTERM, signal.SIGINT)

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
    That thread hears of a signal through Python's wakeup descriptor, which is written at once: a handler may
    never run, because a main thread that has just begun to wait is not woken by a signal that came a moment
    earlier, nor by one that another thread took. A descriptor set by others hears nothing inside the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {}
    heard: list[float] = []
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def listen() -> None:
        asked = False
        while byte := os.read(reading, 1):
            if byte[0] in _ASK and not asked:
                asked = True
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

    listener = threading.Thread(target=listen, name="stopping", daemon=True)
    listener.start()
    descriptor = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for name in _ASK:
        before[name] = signal.signal(name, hear)
    try:
        yield
    finally:
        if not heard:
            restore()
        signal.set_wakeup_fd(descriptor)
        os.close(writing)  # the listener reads what is there, and the end of the pipe
        listener.join()
        os.close(reading)
