"""Processes of collectors, engines and devices, each forked from one warm process, that tests kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.conftest import REPOSITORY
from tests.waiting import PATIENCE


class Forks:
    """The warm process, and what it has forked."""

    def __init__(self, folder: Path, described: Path, fault: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("child.py")), str(folder), str(described), fault],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ports: dict[int, int] = {}
        """Where each collector listens, by process id."""
        self.ready: set[int] = set()
        self.said: list[dict[str, Any]] = []
        """Everything else that was said, in order."""
        self._forked: list[int] = []
        self.came = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._wait(lambda: self._process.pid in self.ready)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            words = json.loads(line)
            with self.came:
                if "forked" in words:
                    self._forked.append(words["forked"])
                else:
                    self.ready.add(words["pid"])
                if "port" in words:
                    self.ports[words["pid"]] = words["port"]
                self.said += [words] if words.keys() > {"pid"} and "port" not in words else []
                self.came.notify_all()

    def _wait(self, what: Callable[[], bool]) -> bool:
        with self.came:
            return bool(self.came.wait_for(what, PATIENCE))

    def fork(self, what: str) -> int:
        before = len(self._forked)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        assert self._wait(lambda: len(self._forked) > before)
        return self._forked[-1]

    def listening(self, child: int) -> bool:
        return self._wait(lambda: child in self.ports)

    def close(self) -> None:
        for child in self._forked:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def forks(tmp_path: Path, yaml: str, fault: str = "") -> Iterator[Forks]:
    """A warm process for a collection; ``fault`` is one of those that child.py plants."""
    (tmp_path / "one.yaml").write_text(yaml)
    (tmp_path / "reports").mkdir()
    found = Forks(tmp_path, tmp_path / "one.yaml", fault)
    try:
        yield found
    finally:
        found.close()


def kill(*victims: int) -> None:
    """Kill processes in this order, and wait until they are gone."""
    for victim in victims:
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    while any(Path(f"/proc/{victim}").exists() for victim in victims):
        time.sleep(0.001)
