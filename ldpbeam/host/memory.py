"""Python's garbage collector in a process that is one command: it passes over what is there for good.

Importing Beam makes half a million objects, nearly all of which stay. Python's collector goes through them
several times meanwhile, and once more as the process ends: a third of the processor time of a small run.
"""

from __future__ import annotations

import atexit
import gc

_PATIENT = 1_000_000
"""New objects that a command may make before they are looked at: more than it makes while it loads."""

_usual: list[tuple[int, int, int]] = []


def collect_rarely() -> None:
    """Let new objects be until :func:`keep_what_is_loaded`, but for very many; at the end, let all be."""
    _usual.append(gc.get_threshold())
    gc.set_threshold(_PATIENT)
    atexit.register(gc.freeze)


def keep_what_is_loaded() -> None:
    """From now on collect as usual what is made, and never what there is: a command's work begins."""
    if _usual:
        gc.freeze()
        gc.set_threshold(*_usual.pop())
