"""Starting an unbounded run: the local engine, or a job for a cluster."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import apache_beam as beam
from apache_beam.runners.runner import PipelineState

from ldpbeam.accounting import Accounting
from ldpbeam.errors import UsageError, disk_error
from ldpbeam.transforms.sources import chosen_source
from ldpbeam.transforms.sources.files import read_files
from ldpbeam.transforms.sources.messages import GatherMessages

from .beam_job import beam_options, finish, handed_over, make_pipeline, start
from .config import ASK_THEIR_SERVER, RunConfig
from .garbage import keep_what_is_loaded
from .local.listening import parse_address
from .local.served import serve_page
from .local.status import Status, serve_metrics
from .malloc import keep_freed_memory
from .output import unusable
from .published import read_output, run_record, write_record
from .run_record import DETACHED, RUN_RECORD, RunRecord
from .stopping import stopped_by_signals
from .unbounded import collect_stream

if TYPE_CHECKING:
    from .local.engine import LocalStream, Source

_OWN = frozenset({"estimates", "latest", "rejects", "accounting", "landing", RUN_RECORD, "index.html"})
"""What the local engine keeps in its output directory, and the page beside it."""

Progress = Callable[[str, RunRecord, Status], None]
"""Told what has happened (``published``, ``disconnected``, ``connected``, ``clock``), the record of the run,
and what the engine is doing."""


def run_local(config: RunConfig, progress: Progress | None = None) -> RunRecord:
    """Run the local engine until it is told to stop (SIGTERM, SIGINT) or nothing comes any more.

    A stop is a drain: what was pulled is landed or given back, and everything known is published.

    Args:
        config: with a subscription, or a folder to watch.
        progress: called when something has happened.

    Raises:
        UsageError: the subscription cannot be read, or the output directory is not an engine's.
        LdpError: what was landed earlier is damaged, or nothing more can be written. Messages that are not
            on disk were not acknowledged then, and come again.
    """
    from .local.engine import LocalStream
    from .local.landing import Landing

    keep_freed_memory()
    keep_what_is_loaded()
    beam_options(config)  # refuses options that nobody knows, before anything is touched
    idle = config.engine.stop_when_idle
    address = parse_address(config.engine.metrics) if config.engine.metrics else None
    page = served_at(config.engine.serve) if config.engine.serve else None
    _require_own(config.outputs.output)
    landing = Landing(config.outputs.output)
    # Before anything is pulled: what a second engine gives back would have been delivered once more.
    with disk_errors(config.outputs.output), landing.locked():
        with ExitStack() as stack:
            stopped = threading.Event()
            stack.enter_context(stopped_by_signals(stopped.set))
            source = stack.enter_context(_source(config))
            engine = LocalStream(config, source, landing=landing)
            if address is not None:
                stack.enter_context(serve_metrics(address, lambda: engine.status))
            if page is not None:
                stack.enter_context(serve_page(page, Path(config.outputs.output)))
            watch = _Watch(progress, engine)
            while not stopped.is_set():
                engine.step()
                watch.look()
                if idle is not None and engine.idle_seconds >= idle:
                    break
        engine.stop()
    assert engine.record is not None  # noqa: S101 - stop() writes it
    return engine.record


def served_at(typed: str) -> tuple[str, int]:
    """The address of ``--serve``.

    Raises:
        UsageError: it is none.
    """
    return parse_address(typed, "--serve", "E-USAGE-SERVE", "127.0.0.1:9200")


@contextmanager
def _source(config: RunConfig) -> Iterator[Source]:
    """What the local engine reads, for a block."""
    if config.input.watch:
        from .local.watched import WatchedFolder

        yield WatchedFolder(config.input.watch)
        return
    from .local.subscriber import Subscriber

    with Subscriber(
        config.input.subscription,
        config.input.timestamp_attribute or None,
        max_messages=2 * config.engine.land_messages,
        max_bytes=2 * config.engine.land_bytes,
    ) as subscriber:
        yield subscriber


class _Watch:
    """Tells what has changed since the last step."""

    def __init__(self, progress: Progress | None, engine: LocalStream) -> None:
        self._progress, self._engine = progress, engine
        self._record = engine.record
        self._connected, self._clock = True, False

    def look(self) -> None:
        """After a step."""
        engine, status = self._engine, self._engine.status
        if self._progress is None or engine.record is None:
            return
        if engine.record is not self._record:
            self._record = engine.record
            self._progress("published", engine.record, status)
        if status.connected != self._connected:
            self._connected = status.connected
            self._progress("connected" if status.connected else "disconnected", engine.record, status)
        if bool(status.clock_ahead) and not self._clock:
            self._progress("clock", engine.record, status)
        self._clock = bool(status.clock_ahead)


@contextmanager
def disk_errors(output: str) -> Iterator[None]:
    """Say what a person can do about a disk that takes no more; nothing acknowledged is lost by that.

    Raises:
        LdpError: a call of the operating system failed for want of room or of permission.
    """
    try:
        yield
    except OSError as error:
        raise disk_error(error, "" if error.filename else output) or error from None


def _require_own(output: str) -> None:
    """Raise UsageError for what is no stream's directory: a run over files would clear it."""
    if "://" in output:
        raise UsageError(
            "E-USAGE-OUTPUT",
            f"the local engine keeps its memory in a local directory, not in {output}",
            remedy="Give a local directory to --output, or run on a cluster with --runner.",
        )
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = sorted(p.name for p in folder.iterdir() if not p.name.endswith(".tmp"))
    except OSError as error:
        raise unusable(output, error) from None
    foreign = sorted(set(found) - _OWN)
    if foreign or (found and "landing" not in found):
        what = foreign[0] if foreign else found[0]
        raise UsageError(
            "E-USAGE-OUTPUT",
            f"{output} holds {what!r}, which no stream has written",
            remedy="Give a new directory to --output, or the one of an earlier stream to go on with.",
        )


def build(config: RunConfig) -> beam.Pipeline:
    """The unbounded graph for a cluster, unstarted; a job without a name gets one.

    Raises:
        UsageError: Beam refuses an option.
    """
    config = config.changed(job=config.outputs.job or uuid.uuid4().hex[:8])
    pipeline = make_pipeline(config)
    given = config.input.given
    source = chosen_source(given)
    if source is not None:
        runner = config.job.runner
        read = source.read(given, runner, portable=runner in ASK_THEIR_SERVER)
        gather = beam.ParDo(GatherMessages(given[source.target.name]))
        chunks = pipeline | "Read" >> read | "Gather" >> gather
    else:
        files = pipeline | "Files" >> beam.Create(config.input.encoded, reshuffle=False)
        chunks = files | "Spread" >> beam.Reshuffle() | "Read" >> read_files(config.input.read_limits)
    _ = chunks | "Collect" >> collect_stream(config)
    return pipeline


def _warn(text: str) -> None:
    logging.getLogger(__name__).warning(text)


def submit(config: RunConfig, *, warn: Callable[[str], None] = _warn) -> RunRecord | None:
    """Hand the unbounded graph to its runner, and wait until it ends or is drained, unless it is detached.

    ``warn`` is told in one line of what is not worth an error.

    Returns:
        The record of a job that has ended, or of one that was left to its cluster (status ``detached``);
        None of a job whose place another one has taken, which has a record of its own.

    Raises:
        UsageError: Beam refuses an option, or its runner cannot be reached.
        JobError: the job failed.
        LdpError: the accounting of a finished job does not balance.
    """
    started = time.perf_counter()
    keep_freed_memory()  # for workers that run in this process
    keep_what_is_loaded()
    pipeline = build(config)
    result = start(pipeline, config.job.runner)
    if config.job.detach:
        return _leave(config, handed_over(result, pipeline, config.job.runner), warn)
    if finish(result, config.job.runner) == PipelineState.UPDATED:
        return None
    accounting, files, signs = read_output(config.outputs.output)
    record = run_record(config, accounting, files, time.perf_counter() - started, indicators=signs)
    write_record(config.outputs.output, record)
    return record


def _leave(config: RunConfig, job: dict[str, str], warn: Callable[[str], None]) -> RunRecord:
    """Note what can be said of a job that goes on: which it is, and what earlier jobs had published.

    The job is not to be taken for failed where its output cannot be reached from here; a warning says so.
    """
    try:
        accounting, files, _ = read_output(config.outputs.output)
        record = replace(run_record(config, accounting, files, 0.0, status=DETACHED), job=job)
        write_record(config.outputs.output, record)
    except Exception as error:  # whatever a file system raises
        record = replace(run_record(config, Accounting(), [], 0.0, status=DETACHED), job=job)
        said = " ".join(str(error).split())[:200]
        what = f"{RUN_RECORD} could not be written to {config.outputs.output}"
        warn(f"warning: the job runs, but {what}: {said} [W-RUN-RECORD]")
    return record
