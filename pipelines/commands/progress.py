"""Progress of a command: a bar on a terminal, a plain line now and then otherwise."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from ldpbeam.pipelines.commands.console import Mode, mode

__all__ = ["Bar"]

_EVERY = 10.0


class Bar:
    """Counts towards a total.

    Only the command's own process shows it, never a Beam worker.
    """

    def __init__(self, what: str, total: int, unit: str) -> None:
        """Show ``what`` going from 0 to ``total`` ``unit``s."""
        self._what, self._total, self._unit = what, total, unit
        self._done = 0
        self._reports = 0
        self._started = self._said = time.monotonic()
        self._shown = ""
        self._rich: Any = None
        self._task: Any = None

    def __enter__(self) -> Bar:
        """Start; the bar needs a terminal."""
        if sys.stderr.isatty() and mode() is not Mode.QUIET:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[note]}"),
            )
            self._rich = Progress(*columns, console=Console(stderr=True), transient=True)
            self._rich.start()
            self._task = self._rich.add_task(self._what, total=max(self._total, 1), note="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Clear the bar."""
        if self._rich is not None:
            self._rich.stop()

    def advance(self, steps: int, reports: int = 0) -> None:
        """Add steps, and reports to the note beside the bar."""
        self._reports += reports
        self.update(self._done + steps, self._total)

    def update(self, done: int, total: int) -> None:
        """Set how far it has come."""
        self._done, self._total = done, total
        now = time.monotonic()
        rate = self._reports / max(now - self._started, 1e-9)
        note = f"{rate:,.0f} reports/s" if self._reports else ""
        if self._rich is not None:
            self._rich.update(self._task, completed=done, total=max(total, 1), note=note)
        elif now - self._said >= _EVERY and mode() is not Mode.QUIET:
            self._said = now
            text = f"{self._what}: {done:,} of {total:,} {self._unit}"
            # What has not moved since is not said again.
            if text != self._shown:
                self._shown = text
                sys.stderr.write(f"{text}, {note}\n" if note else f"{text}\n")
                sys.stderr.flush()
