"""A run of the engine on this machine, from its first message until it is told to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ldpbeam.engine.engine import LocalStream
from ldpbeam.engine.sources.subscriber import Message, Subscriber
from ldpbeam.engine.sources.watched_folder import FileRecordMessage, WatchedFolder
from ldpbeam.engine.status import Status, serve_metrics
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.errors import UsageError, disk_errors
from ldpbeam.host.http import parse_address
from ldpbeam.host.memory import keep_what_is_loaded
from ldpbeam.host.signals import stopped_by_signals
from ldpbeam.job.config import RunConfig
from ldpbeam.records.output import PARTS, unusable
from ldpbeam.records.run_record import RUN_RECORD, RunRecord, record_before

_OWN = frozenset({*PARTS, "landing", RUN_RECORD, "index.html"})
"""What the local engine keeps in its output directory, and the page beside it."""

Progress = Callable[[str, RunRecord, Status], None]
"""Told what has happened (``published``, ``disconnected``, ``connected``, ``clock``), the record of the run,
and what the engine is doing."""


def run_local(config: RunConfig, progress: Progress | None = None) -> RunRecord:
    """Run the local engine until it is told to stop (SIGTERM, SIGINT) or nothing comes any more."""
    keep_what_is_loaded()
    idle = config.engine.stop_when_idle
    address = (
        parse_address(config.engine.metrics, "--metrics", "127.0.0.1:9100") if config.engine.metrics else None
    )
    _require_own(config.outputs.output)
    # Before anything is pulled: what a second engine gives back would have been delivered once more.
    # Nothing that was acknowledged is lost by a disk that takes no more.
    with disk_errors(default=config.outputs.output), Landing(config.outputs.output).locked() as landing:
        with ExitStack() as stack:
            stopped = threading.Event()
            stack.enter_context(stopped_by_signals(stopped.set))
            engine: LocalStream[FileRecordMessage] | LocalStream[Message]
            if config.input.watch:
                engine = LocalStream(config, WatchedFolder(config.input.watch), landing)
            else:
                engine = LocalStream(config, stack.enter_context(_subscriber(config)), landing)
            if address is not None:
                stack.enter_context(serve_metrics(address, lambda: engine.status))
            watch = _Watch(progress)
            while not stopped.is_set():
                engine.step()
                watch.look(engine.record, engine.status)
                if idle is not None and engine.idle_seconds >= idle:
                    break
        engine.stop()
    assert engine.record is not None  # noqa: S101 - stop() writes it
    return engine.record


def _subscriber(config: RunConfig) -> Subscriber:
    """A subscriber that takes messages for the next landing while the engine lands those before."""
    return Subscriber(
        config.input.subscription,
        config.input.timestamp_attribute or None,
        max_messages=2 * config.engine.land_messages,
        max_bytes=2 * config.engine.land_bytes,
    )


class _Watch:
    """Tells what has changed since the last step."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._record: RunRecord | None = None
        self._connected, self._clock = True, False

    def look(self, record: RunRecord | None, status: Status) -> None:
        """Record and status of the engine after a step; before the first record nothing is told."""
        if self._progress is None or record is None:
            return
        if record is not self._record:
            self._record = record
            self._progress("published", record, status)
        if status.connected != self._connected:
            self._connected = status.connected
            self._progress("connected" if status.connected else "disconnected", record, status)
        if bool(status.clock_ahead) and not self._clock:
            self._progress("clock", record, status)
        self._clock = bool(status.clock_ahead)


def _require_own(output: str) -> None:
    """Raise UsageError for what is no stream's directory: a run over files would clear it."""
    if "://" in output:
        raise UsageError(
            "E-USAGE-OUTPUT",
            f"the local engine keeps its state in a local directory, not in {output}",
            remedy="Give a local directory to --output, or run on a cluster with --runner.",
        )
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = sorted(p.name for p in folder.iterdir() if not p.name.endswith(".tmp"))
    except OSError as error:
        raise unusable(output, error) from None
    foreign = sorted(set(names) - _OWN)
    record = record_before(output)
    if foreign or (names and "landing" not in names and (record is None or record.stream is None)):
        what = foreign[0] if foreign else names[0]
        raise UsageError(
            "E-USAGE-OUTPUT",
            f"{output} holds {what!r}, which no stream has written",
            remedy="Give a new directory to --output, or the one of an earlier stream to go on with.",
        )
