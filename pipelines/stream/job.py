"""Starting an unbounded run: the local engine, or a job for a cluster."""

from __future__ import annotations

import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.runners.runner import PipelineState

from ldp.errors import UsageError
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
from transforms.messages import GatherMessages
from transforms.sources import ReadFiles

__all__ = ["build", "run_local", "submit"]

Progress = Callable[[dict[str, Any]], None]
"""Told the record of the run whenever something was published."""


def run_local(config: RunConfig, stop_when_idle: float | None, progress: Progress | None = None) -> RunResult:
    """Run the local engine until it is told to stop (SIGTERM, SIGINT) or nothing comes any more.

    A stop is a drain: what was pulled is landed or given back, and everything known is published.

    Args:
        config: with a subscription.
        stop_when_idle: seconds without a message after which to stop; None for never.
        progress: told of results.

    Raises:
        UsageError: the subscription cannot be read, or the output directory is not an engine's.
        LdpError: what was landed earlier is damaged.
    """
    from pipelines.pubsub import Subscriber
    from pipelines.stream.landing import Landing
    from pipelines.stream.local import LocalStream

    keep_freed_memory()
    make_pipeline(config)  # refuses options that nobody knows, before anything is touched
    _require_own(config.output)
    landing = Landing(config.output)
    # Before anything is pulled: what a second engine gives back would have been delivered once more.
    with landing.locked():
        with (
            _stopped_by_signals() as stopped,
            Subscriber(
                config.subscription,
                config.timestamp_attribute or None,
                max_messages=2 * config.land_messages,
                max_bytes=2 * config.land_bytes,
            ) as source,
        ):
            engine = LocalStream(config, source, landing=landing)
            told: dict[str, Any] | None = None
            while not stopped.is_set():
                engine.step()
                if progress is not None and engine.record is not told and engine.record is not None:
                    told = engine.record
                    progress(told)
                if stop_when_idle is not None and engine.idle_seconds >= stop_when_idle:
                    break
        engine.stop()
    assert engine.record is not None  # noqa: S101 - stop() writes it
    return RunResult(engine.record)


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
