"""Running the main pipeline over files, and the record of what happened (run.json)."""

from __future__ import annotations

import argparse
import ctypes
import json
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from glob import glob
from pathlib import Path
from typing import Any, NoReturn

import apache_beam as beam
from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from ldpbeam.accounting import Accounting
from ldpbeam.errors import LdpError, UsageError
from ldpbeam.pipelines import workers
from ldpbeam.pipelines.beam_job import run_to_end, with_binary
from ldpbeam.pipelines.bounded import LEDGER, CollectReports
from ldpbeam.pipelines.config import ASK_THEIR_SERVER, OPTIONS, RunConfig
from ldpbeam.pipelines.inputs import stray
from ldpbeam.pipelines.interrupt import interruptible
from ldpbeam.pipelines.output import (
    exchange,
    locked,
    prepare,
    refuse_foreign,
    scratch_of,
    settle_objects,
    verify_files,
)
from ldpbeam.pipelines.published import indicators_record, run_record, write_record
from ldpbeam.pipelines.run_record import RunRecord
from ldpbeam.transforms.sinks.file_record import FileRecord
from ldpbeam.transforms.sources.files import bytes_read

__all__ = [
    "build",
    "keep_freed_memory",
    "make_pipeline",
    "match_inputs",
    "rehearse",
    "run",
]

_BEAM_HELP = "See ldpbeam run --help and Beam's pipeline options."

Progress = Callable[[int, int], None]
"""Called with (bytes read, bytes in all) now and then while a run is under way."""


def match_inputs(pattern: str) -> tuple[tuple[str, ...], int]:
    """Files that a pattern names, sorted, and their size in bytes.

    Raises:
        UsageError: the pattern names none.
    """
    if "://" not in pattern and Path(pattern).is_dir():
        return match_inputs(str(Path(pattern) / "*"))
    if pattern == Path(pattern).name:
        pattern = f"./{pattern}"  # Beam finds nothing for a pattern without a folder
    found = [m for result in FileSystems.match([pattern]) for m in result.metadata_list]
    # A link to nothing is not passed over: it is booked as a file that cannot be read.
    found += [FileMetadata(path, 0) for path in _dangling(pattern)]
    # Hidden and temporary files are somebody's work in progress.
    names = [m.path.replace("\\", "/").rpartition("/")[2] for m in found]
    found = [
        m
        for m, name in zip(found, names, strict=True)
        if not name.startswith(".") and not name.endswith(".tmp")
    ]
    if not found:
        raise UsageError(
            "E-USAGE-INPUT",
            f"no file matches {pattern!r}",
            remedy="Check --input; quote the pattern so that the shell leaves it alone.",
        )
    return tuple(sorted(m.path for m in found)), sum(m.size_in_bytes for m in found)


def _dangling(pattern: str) -> list[str]:
    """Links of this machine that match a pattern and lead nowhere."""
    if "://" in pattern:
        return []
    return [
        path
        for path in glob(pattern)  # noqa: PTH207 - Beam paths are text
        if Path(path).is_symlink() and not Path(path).exists()
    ]


def run(config: RunConfig, progress: Progress | None = None, total_bytes: int = 0) -> RunRecord:
    """Run the pipeline to its end; only then earlier results go, and run.json comes last.

    Raises:
        UsageError: Beam does not know an option or the runner, or the output may not be replaced.
        JobError: the job failed on its runner; earlier results are then as they were.
        LdpError: a step of it raised one, or its books do not balance; as before.
    """
    # Within this process Beam raises what it also logs.
    quiet = config.runner == "FnApiRunner" and os.environ.get("LDPBEAM_DEBUG") != "1"
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL if quiet else logging.ERROR)
    keep_freed_memory()
    workers.install()
    started = time.perf_counter()
    make_pipeline(config)  # refuses options that nobody knows, before anything is touched
    with interruptible(), locked(config.output):
        prepare(config.output, config.collections, overwrite=config.overwrite)
        with scratch_of(config.output) as folder:
            pipeline = build(replace(config, output=folder))
            if progress is None:
                run_to_end(pipeline, config.runner)
            else:
                _run_with_progress(pipeline, config.runner, progress, total_bytes)
            return _publish(config, folder, started)


def _publish(config: RunConfig, folder: str, started: float) -> RunRecord:
    """Put what a pipeline has left in ``folder`` in the place of earlier results, its record last."""
    accounting, files, noticed = _read_ledger(folder)
    try:
        signs = indicators_record(noticed)
        record = run_record(config, accounting, files, time.perf_counter() - started, indicators=signs)
    except LdpError:
        if folder != config.output:
            Path(folder, LEDGER).replace(Path(config.output, LEDGER))  # for whoever looks for the reason
        raise
    verify_files(folder, files, config.output)
    FileSystems.delete([FileSystems.join(folder, LEDGER)])
    if folder == config.output:
        settle_objects(folder, files)
        write_record(folder, record)
    else:
        refuse_foreign(Path(config.output))
        write_record(folder, record)
        exchange(config.output, Path(folder))
    return record


def build(config: RunConfig) -> beam.Pipeline:
    """The graph over files, unstarted.

    Raises:
        UsageError: Beam refuses an option.
    """
    pipeline = make_pipeline(config)
    _ = pipeline | "Collect" >> CollectReports(config)
    return pipeline


def rehearse(pipeline: beam.Pipeline, config: RunConfig) -> str:
    """Everything that comes before a job, where none is to start; gives what to tell the user.

    Dataflow's part of Beam runs its own checks of the graph, or writes the template; for other runners, which
    take no notice of --dry_run, the graph is translated as it would be for them.

    Raises:
        UsageError: Beam refuses the job, or a file it needs is absent.
    """
    if config.runner == "DataflowRunner":
        try:
            pipeline.run()
        except (RuntimeError, ValueError, OSError) as error:
            _refuse(str(error))
    else:
        pipeline.to_runner_api()
    kind = "streaming" if config.streaming else "batch"
    return f"checked a {kind} job for {config.runner}; nothing was started"


def make_pipeline(config: RunConfig) -> beam.Pipeline:
    """An empty pipeline with the options that were typed.

    Beam itself passes over options that it does not know; a misspelt one would change nothing.

    Raises:
        UsageError: an option or the runner is not Beam's, or the runner is a program that is not here.
    """
    parsers: list[argparse.ArgumentParser] = []

    def keep(parser: argparse.ArgumentParser) -> None:
        parser.error = _refuse  # type: ignore[method-assign]
        parsers.append(parser)

    # Beam wants a value here, and takes any for yes.
    typed = ["--dry_run=True" if a == "--dry_run" else a for a in config.beam_args]
    if config.streaming and config.runner != "FnApiRunner" and "--streaming" not in typed:
        typed.append("--streaming")
    if config.runner == "PrismRunner":
        typed = with_binary(typed)
    options = PipelineOptions([f"--runner={config.runner}", *typed], save_main_session=False)
    known = options.get_all_options(add_extra_args_fn=keep)
    _, unknown = parsers[0].parse_known_args(typed)
    if unknown and config.runner not in ASK_THEIR_SERVER:
        if not unknown[0].startswith("-"):
            raise stray(unknown[0])
        name = unknown[0].partition("=")[0]
        near = get_close_matches(name, [*OPTIONS, *(f"--{option}" for option in known)], 1)
        raise UsageError(
            "E-USAGE-OPTION",
            f"there is no option {name}",
            remedy=f"Did you mean {near[0]}?" if near else _BEAM_HELP,
        )
    try:
        return beam.Pipeline(options=options)
    except (ValueError, ImportError, AttributeError) as error:
        _refuse(str(error))


def _refuse(message: str) -> NoReturn:
    # Beam writes a headline and then one line per complaint.
    said = " ".join(message.removeprefix("Pipeline has validations errors:").split()).rstrip(".")
    raise UsageError("E-USAGE-BEAM", f"Beam refuses an option: {said}", remedy=_BEAM_HELP)


def keep_freed_memory() -> None:
    """Ask glibc to reuse large blocks instead of giving each back to the kernel.

    Batches of a megabyte come and go by the thousand between the steps of a local run; mapping and clearing
    fresh pages for each takes a third of the time that grouping takes. Without glibc nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
    mallopt(mmap_threshold, 1 << 30)
    mallopt(trim_threshold, (1 << 31) - 1)


def _run_with_progress(pipeline: beam.Pipeline, runner: str, progress: Progress, total: int) -> None:
    """Run while another thread reports how much was read.

    The pipeline has the main thread: some runners handle signals, which only it may ask for.
    """
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


def _read_ledger(output: str) -> tuple[Accounting, list[FileRecord], list[tuple[str, int, Any]]]:
    """What the pipeline left: its accounting, its files and what it noticed."""
    with FileSystems.open(FileSystems.join(output, LEDGER)) as handle:
        ledger = json.loads(handle.read())
    entries = ((((digest, epoch), what), count) for digest, epoch, what, count in ledger["books"])
    return (
        Accounting.from_entries(entries),
        list(map(FileRecord.from_record, ledger["files"])),
        ledger["noticed"],
    )
