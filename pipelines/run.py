"""Running the bounded pipeline: results are complete before they take the place of earlier ones."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam

from ldpbeam.errors import LdpError
from ldpbeam.host.memory import keep_what_is_loaded
from ldpbeam.host.signals import interruptible
from ldpbeam.job.config import RunConfig
from ldpbeam.records.outcome import OUTCOME, read_outcome
from ldpbeam.records.output import (
    exchange,
    locked,
    prepare,
    refuse_foreign,
    remove_other_objects,
    scratch_of,
    verify_files,
)
from ldpbeam.records.run_output import run_record, write_record
from ldpbeam.records.run_record import RunRecord
from ldpbeam.transforms.sinks.atomic import refuse_writing, remove
from ldpbeam.transforms.sources.files import bytes_read

from .beam_job import make_pipeline, run_to_end
from .bounded import collect_reports
from .run_files import SPILLED

Progress = Callable[[int, int], None]
"""Called with (bytes read, bytes in all) now and then while a run is under way."""


def run(config: RunConfig, progress: Progress | None = None, total_bytes: int = 0) -> RunRecord:
    """Run the pipeline to its end; only then earlier results go, and run.json comes last."""
    # Within this process Beam raises what it also logs.
    quiet = config.job.runner == "FnApiRunner" and os.environ.get("LDPBEAM_DEBUG") != "1"
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL if quiet else logging.ERROR)
    # What steps warn of is in the record, which the command line reads out.
    logging.getLogger("ldpbeam.transforms").setLevel(logging.ERROR)
    keep_what_is_loaded()
    started = time.perf_counter()
    pipeline = make_pipeline(config)  # refuses options that nobody knows, before anything is touched
    with interruptible(refuse_writing), locked(config.outputs.output):
        prepare(config.outputs.output, config.collections, overwrite=config.job.overwrite)
        with scratch_of(config.outputs.output) as folder:
            job = _collecting(pipeline, config.changed(output=folder))
            if progress is None:
                run_to_end(job, config.job.runner)
            else:
                _run_with_progress(job, config.job.runner, progress, total_bytes)
            shutil.rmtree(f"{folder}/{SPILLED}", ignore_errors=True)
            return _publish(config, folder, started)


def _publish(config: RunConfig, folder: str, started: float) -> RunRecord:
    """Put what a pipeline has left in ``folder`` in the place of earlier results, its record last."""
    outcome = read_outcome(folder)
    output = config.outputs.output
    try:
        record = run_record(config, outcome, time.perf_counter() - started)
    except LdpError:
        if folder != config.outputs.output:
            Path(folder, OUTCOME).replace(
                Path(config.outputs.output, OUTCOME)
            )  # for whoever looks for the reason
        raise
    verify_files(folder, outcome.files, config.outputs.output)
    remove(folder, OUTCOME)
    if folder == output:
        remove_other_objects(folder, outcome.files)
        write_record(folder, record)
    else:
        refuse_foreign(Path(output))
        write_record(folder, record)
        exchange(output, Path(folder))
    return record


def build(config: RunConfig) -> beam.Pipeline:
    """The graph over files, unstarted."""
    return _collecting(make_pipeline(config), config)


def _collecting(pipeline: beam.Pipeline, config: RunConfig) -> beam.Pipeline:
    _ = pipeline | "Collect" >> collect_reports(config)
    return pipeline


def _run_with_progress(pipeline: beam.Pipeline, runner: str, progress: Progress, total: int) -> None:
    """Run while another thread reports how much was read."""
    before, ended = bytes_read(), threading.Event()

    def report() -> None:
        while not ended.wait(0.1):
            progress(min(bytes_read() - before, total), total)

    reporter = threading.Thread(target=report, name="progress", daemon=True)
    reporter.start()
    try:
        run_to_end(pipeline, runner)
    finally:
        ended.set()
        reporter.join()
    progress(total, total)
