"""Starting an unbounded run: the local engine, or a job for a cluster."""

from __future__ import annotations

import errno
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.runners.runner import PipelineState

from ldp.errors import LdpError, UsageError
from pipelines.options import LOCAL_STREAM, RunConfig
from pipelines.record import (
    RUN_RECORD,
    indicators_record,
    read_indicators,
    read_output,
    run_record,
    write_record,
)
from pipelines.run import RunResult, keep_freed_memory, make_pipeline
from pipelines.stream.graph import CollectStream
from pipelines.stream.status import Status, serve_metrics
from transforms.messages import GatherMessages
from transforms.sources import ReadFiles

if TYPE_CHECKING:
    from pipelines.stream.local import LocalStream

__all__ = ["build", "run_local", "submit"]

Progress = Callable[[str, dict[str, Any], Status], None]
"""Told what has happened (``published``, ``disconnected``, ``connected``, ``clock``), the record of the run,
and what the engine is doing."""


def run_local(
    config: RunConfig,
    stop_when_idle: float | None,
    progress: Progress | None = None,
    metrics: tuple[str, int] | None = None,
) -> RunResult:
    """Run the local engine until it is told to stop (SIGTERM, SIGINT) or nothing comes any more.

    A stop is a drain: what was pulled is landed or given back, and everything known is published.

    Args:
        config: with a subscription.
        stop_when_idle: seconds without a message after which to stop; None for never.
        progress: told of results.
        metrics: host and port to answer Prometheus on; None for nowhere.

    Raises:
        UsageError: the subscription cannot be read, or the output directory is not an engine's.
        LdpError: what was landed earlier is damaged, or nothing more can be written. Messages that are not
            on disk were not acknowledged then, and come again.
    """
    from pipelines.pubsub import Subscriber
    from pipelines.stream.landing import Landing
    from pipelines.stream.local import LocalStream

    keep_freed_memory()
    make_pipeline(config)  # refuses options that nobody knows, before anything is touched
    _require_own(config.output)
    landing = Landing(config.output)
    # Before anything is pulled: what a second engine gives back would have been delivered once more.
    with disk_errors(config.output), landing.locked():
        with ExitStack() as stack:
            stopped = stack.enter_context(_stopped_by_signals())
            source = stack.enter_context(
                Subscriber(
                    config.subscription,
                    config.timestamp_attribute or None,
                    max_messages=2 * config.land_messages,
                    max_bytes=2 * config.land_bytes,
                )
            )
            engine = LocalStream(config, source, landing=landing)
            if metrics is not None:
                stack.enter_context(serve_metrics(metrics, lambda: engine.status))
            watch = _Watch(progress, engine)
            while not stopped.is_set():
                engine.step()
                watch.look()
                if stop_when_idle is not None and engine.idle_seconds >= stop_when_idle:
                    break
        engine.stop()
    assert engine.record is not None  # noqa: S101 - stop() writes it
    return RunResult(engine.record)


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


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@contextmanager
def disk_errors(output: str) -> Iterator[None]:
    """What a person can do about a disk that takes no more.

    Raises:
        LdpError: a call of the operating system failed for want of room or of permission.
    """
    try:
        yield
    except OSError as error:
        where = str(error.filename or output)
        if error.errno in _FULL:
            raise LdpError(
                "E-DISK-FULL",
                f"nothing more can be written ({error.strerror})",
                where=where,
                remedy="Make room, then start again: messages that were not landed are delivered again.",
            ) from None
        if error.errno in _DENIED:
            raise LdpError(
                "E-DISK-DENIED",
                f"the operating system refuses access ({error.strerror})",
                where=where,
                remedy="Choose a directory that you may write to, or correct its permissions.",
            ) from None
        raise


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; a second signal does what it always does."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before: dict[signal.Signals, Any] = {}

    def stop(number: int, frame: object) -> None:
        stopped.set()
        for name, handler in before.items():
            signal.signal(name, handler)

    for name in (signal.SIGTERM, signal.SIGINT):
        before[name] = signal.signal(name, stop)
    try:
        yield stopped
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _require_own(output: str) -> None:
    """Results over files and results of a stream do not share a directory: a run over files clears it.

    Raises:
        UsageError: the directory is not local, or holds something else.
    """
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
        raise UsageError(
            "E-USAGE-OUTPUT",
            f"{output} cannot be used as a directory: {error.strerror}",
            remedy="Give an empty or new directory to --output.",
        ) from None
    strange = sorted(set(found) - LOCAL_STREAM - {RUN_RECORD, "index.html"})
    if strange or (found and "landing" not in found):
        what = strange[0] if strange else found[0]
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
    config = replace(config, job=config.job or uuid.uuid4().hex[:8])
    pipeline = make_pipeline(config)
    if config.subscription:
        read = beam.io.ReadFromPubSub(
            subscription=config.subscription,
            with_attributes=True,
            timestamp_attribute=config.timestamp_attribute or None,
        )
        chunks = pipeline | "Read" >> read | "Gather" >> beam.ParDo(GatherMessages(config.subscription))
    elif config.kafka_topic:
        from pipelines.stream.kafka import ReadKafka

        read = ReadKafka(config.kafka_servers, [config.kafka_topic], config.kafka_expansion)
        chunks = pipeline | "Read" >> read | "Gather" >> beam.ParDo(GatherMessages(config.kafka_topic))
    else:
        files = pipeline | "Files" >> beam.Create(config.encoded_inputs, reshuffle=False)
        chunks = files | "Spread" >> beam.Reshuffle() | "Read" >> beam.ParDo(ReadFiles(config.read_limits))
    _ = chunks | "Collect" >> CollectStream(config)
    return pipeline


def submit(config: RunConfig, *, wait: bool = True) -> RunResult | None:
    """Hand the unbounded graph to its runner.

    Args:
        config: with a subscription, or with files that are read as a stream.
        wait: until it ends, as a job over files does, or one that is drained.

    Returns:
        The record of a job that has ended; None of one that goes on.

    Raises:
        UsageError: Beam refuses an option.
        LdpError: the books of a finished job do not balance.
    """
    result = build(config).run()
    if not (wait and _ended(result)):
        return None
    books, files = read_output(config.output)
    signs = indicators_record(read_indicators(config.output))
    record = run_record(config, books, files, 0.0, indicators=signs)
    write_record(config.output, record)
    return RunResult(record)


def _ended(result: Any) -> bool:
    """Wait for a job; False when another one has taken its place.

    Beam takes Dataflow jobs that were drained or replaced for failed ones.
    """
    try:
        result.wait_until_finish()
    except Exception:
        if result.state not in {PipelineState.DRAINED, PipelineState.UPDATED}:
            raise
    return bool(result.state != PipelineState.UPDATED)
