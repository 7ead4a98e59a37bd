"""A signal asks for an end, its echo changes nothing, and one that comes later insists."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import pytest

from ldpbeam.host.signals import TOGETHER, stopped_by_signals
from tests.waiting import PATIENCE

PROGRAM = """
import signal, sys, threading, time
from ldpbeam.host.signals import stopped_by_signals

asked = threading.Event()
with stopped_by_signals(asked.set):
    print("ready", flush=True)
    asked.wait()
    print("asked", flush=True)
    time.sleep(float(sys.argv[1]))
print("left", flush=True)
time.sleep(float(sys.argv[2]))
print("ended", flush=True)
"""


@contextmanager
def started(program: str, *arguments: float) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        late = threading.Timer(PATIENCE, process.kill)
        late.start()
        try:
            assert said(process) == "ready"
            yield process
        finally:
            late.cancel()
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
def test_an_echo_changes_nothing_inside_the_block_nor_after_it(name: signal.Signals) -> None:
    with started(PROGRAM, 0.1, 0.2) as process:
        process.send_signal(name)
        assert said(process) == "asked"
        process.send_signal(name)
        assert said(process) == "left"
        process.send_signal(signal.SIGTERM)
        assert said(process) == "ended"
        assert process.wait(timeout=PATIENCE) == 0


def test_a_later_signal_ends_it() -> None:
    with started(PROGRAM, 60.0, 0.0) as inside, started(PROGRAM, 0.0, 60.0) as after:
        for process in (inside, after):
            process.send_signal(signal.SIGINT)
            assert said(process) == "asked"
        assert said(after) == "left"
        time.sleep(TOGETHER + 0.1)
        for process in (inside, after):
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=PATIENCE) == -signal.SIGTERM


def test_a_signal_comes_while_the_lock_that_stopping_needs_is_held() -> None:
    lock, taken = threading.Lock(), SimpleQueue[bool]()
    before = [signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)]
    try:
        with stopped_by_signals(lambda: taken.put(lock.acquire(timeout=20))):
            with lock:
                signal.raise_signal(signal.SIGTERM)
            assert taken.get(timeout=PATIENCE)
    finally:
        for name, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(name, handler)


def test_what_asks_last_is_still_told() -> None:
    heard: list[int] = []
    before = [signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)]
    try:
        with stopped_by_signals(lambda: heard.append(1)):
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
        assert heard == [1]
    finally:
        for name, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(name, handler)
