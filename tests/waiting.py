"""Waiting in tests: for as long as a slow machine needs, and no longer than what is waited for takes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 900.0
"""Seconds until what must happen has happened.

What is waited for ends the wait, so only a broken program costs as much. Shared machines stand still for
seconds and can be ten times slower than on the day before: there, a limit that fits an idle one finds fault
with what is right.
"""

IDLE_START = 0.02
"""Seconds in which an idle machine starts an interpreter and ends it, at most."""


def poll(
    what: Callable[[], T], seconds: float = PATIENCE, why: Callable[[], object] = str, every: float = 0.02
) -> T:
    """The first truthy answer."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"not within {seconds} s: {why()}"
        time.sleep(every)
    return found


def slowness() -> float:
    """How many times longer than on an idle machine a process takes just now; at least 1."""
    times = 5
    begin = time.monotonic()
    for _ in range(times):
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
    return max(1.0, (time.monotonic() - begin) / (times * IDLE_START))


def quickly(what: Callable[[], T], seconds: float, tries: int = 3) -> T:
    """What ``what`` gives, once it has taken no longer than so many seconds of an idle machine."""
    took = []
    for _ in range(tries):
        begin = time.monotonic()
        found = what()
        took.append(time.monotonic() - begin)
        if took[-1] <= seconds or took[-1] <= seconds * slowness():
            return found
    raise AssertionError(f"{seconds} s on an idle machine, and here each time more: {took}")
