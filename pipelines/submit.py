"""The graph over messages, and handing it to a cluster."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

import apache_beam as beam
from apache_beam.runners.runner import PipelineState

from ldpbeam.accounting import Accounting
from ldpbeam.host.memory import keep_what_is_loaded
from ldpbeam.job.config import ASK_THEIR_SERVER, RunConfig
from ldpbeam.records.outcome import RunOutcome
from ldpbeam.records.run_output import read_output, run_record, write_record
from ldpbeam.records.run_record import DETACHED, RUN_RECORD, RunRecord
from ldpbeam.transforms.sources import chosen_source

from .beam_job import finish, handed_over, make_pipeline, start
from .run_files import read_inputs
from .unbounded import collect_stream


def build(config: RunConfig) -> beam.Pipeline:
    """The unbounded graph for a cluster, unstarted; a job without a name gets one."""
    config = config.changed(job=config.outputs.job or uuid.uuid4().hex[:8])
    pipeline = make_pipeline(config)
    given = config.input.given
    source = chosen_source(given)
    if source is not None:
        runner = config.job.runner
        messages = pipeline | "Read" >> source.read(given, runner, portable=runner in ASK_THEIR_SERVER)
    else:
        messages = pipeline | "Read" >> read_inputs(config)
    _ = messages | "Collect" >> collect_stream(config)
    return pipeline


def _warn(text: str) -> None:
    logging.getLogger(__name__).warning(text)


def submit(config: RunConfig, *, warn: Callable[[str], None] = _warn) -> RunRecord | None:
    """Hand the unbounded graph to its runner, and wait until it ends or is drained, unless it is detached."""
    started = time.perf_counter()
    keep_what_is_loaded()
    pipeline = build(config)
    result = start(pipeline, config.job.runner)
    if config.job.detach:
        return _leave(config, handed_over(result, pipeline, config.job.runner), warn)
    if finish(result, config.job.runner) == PipelineState.UPDATED:
        return None
    outcome = read_output(config.outputs.output)
    record = run_record(config, outcome, time.perf_counter() - started)
    write_record(config.outputs.output, record)
    return record


def _leave(config: RunConfig, job: dict[str, str], warn: Callable[[str], None]) -> RunRecord:
    """Note what can be said of a job that goes on: which it is, and what earlier jobs had published."""
    try:
        outcome = read_output(config.outputs.output)._replace(indicators=None)
        record = replace(run_record(config, outcome, 0.0, status=DETACHED), job=job)
        write_record(config.outputs.output, record)
    except Exception as error:  # whatever a file system raises
        record = replace(run_record(config, RunOutcome(Accounting(), []), 0.0, status=DETACHED), job=job)
        cause = " ".join(str(error).split())[:200]
        what = f"{RUN_RECORD} could not be written to {config.outputs.output}"
        warn(f"warning: the job runs, but {what}: {cause} [W-RUN-RECORD]")
    return record
