"""Progress of a command: a bar on a terminal, a plain line now and then otherwise."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ldpbeam.cli.shared.console import Mode, mode

_EVERY = 10.0
"""Seconds between two plain lines, at least."""


class Bar(Progress):
    """Counts towards a total. Only the command's own process shows it, never a Beam worker."""

    def __init__(self, what: str, total: int, unit: str, *, remaining: bool = False) -> None:
        """Show ``what`` going from 0 to ``total`` ``unit``s; with ``remaining`` also how long that takes."""
        loud = mode() is not Mode.QUIET
        columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("{task.fields[note]}"))
        super().__init__(
            TextColumn("{task.description}"),
            *columns,
            *([TextColumn("left"), TimeRemainingColumn()] if remaining else []),
            console=Console(stderr=True),
            transient=True,
            disable=not (loud and sys.stderr.isatty()),
        )
        self._lines = loud and self.disable
        self._what, self._unit, self._reports = what, unit, 0
        self._started = self._printed_at = time.monotonic()
        self._shown = ""
        self._task = self.add_task(what, total=max(total, 1), note="")

    def count(self, steps: int, reports: int) -> None:
        self._reports += reports
        task = self.tasks[0]
        self.reach(int(task.completed) + steps, int(task.total or 0))

    def reach(self, done: int, total: int) -> None:
        now = time.monotonic()
        rate = self._reports / max(now - self._started, 1e-9)
        note = f"{rate:,.0f} reports/s" if self._reports else ""
        self.update(self._task, completed=done, total=max(total, 1), note=note)
        text = f"{self._what}: {done:,} of {total:,} {self._unit}"
        # What has not moved since is not said again.
        if self._lines and now - self._printed_at >= _EVERY:
            self._printed_at = now
            if text != self._shown:
                self._shown = text
                sys.stderr.write(f"{text}, {note}\n" if note else f"{text}\n")
                sys.stderr.flush()
