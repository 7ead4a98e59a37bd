"""Hearing of SIGTERM and Ctrl-C whatever the main thread does: what stopping and interrupting have in common.

Python runs a handler when its main thread takes its next step. One that is inside a kernel does not for a
while, and one that has just begun to wait never does: a signal that came a moment earlier, or that another
thread took, does not wake it. What Python does at once is to write the signal's number to a descriptor.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM)
"""The signals by which a command is told to end."""


@contextmanager
def heard_by_thread(hear: Callable[[int], None], name: str) -> Iterator[None]:
    """For a block, have a thread of its own call ``hear`` with the number of each of :data:`ENDING`.

    Only signals that have a Python handler are heard, so the block installs some. When it is left, all that
    came have been heard. A descriptor set by others hears nothing meanwhile. Only for the main thread.

    Args:
        hear: called for one signal after the other.
        name: of the thread.
    """
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
