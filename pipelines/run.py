"""Running the main pipeline over files, and the record of what happened (run.json)."""

from __future__ import annotations

import argparse
import ctypes
import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from ldp.accounting import Books
from ldp.errors import UsageError
from pipelines.collect import LEDGER, CollectReports
from pipelines.inputs import stray
from pipelines.jobs import run_to_end, with_binary
from pipelines.options import ASK_THEIR_SERVER, OPTIONS, RunConfig
from pipelines.record import RUN_RECORD, run_record, write_record
from transforms.files import sync_folder
from transforms.sources import bytes_read

__all__ = [
    "RunResult",
    "build",
    "keep_freed_memory",
    "make_pipeline",
    "match_inputs",
    "prepare_output",
    "rehearse",
    "run",
]

_PARTS = ("estimates", "rejects", "accounting")
_SUFFIXES = (".parquet", ".json")
_BEAM_HELP = "See ldpbeam run --help and Beam's pipeline options."

Progress = Callable[[int, int], None]
"""Called with (bytes read, bytes in all) now and then while a run is under way."""


class RunResult:
    """What a finished run leaves.

    Attributes:
        record: content of run.json.
        exit_code: 0, 4 when records were rejected, 5 when too many of them were for an epoch to be published.
    """

    def __init__(self, record: dict[str, Any]) -> None:
        """Wrap the record."""
        self.record = record
        self.exit_code = int(str(record["exit_code"]))


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


def prepare_output(output: str) -> None:
    """Make room for a run: an earlier run's results go, anything else is left alone.

    Raises:
        UsageError: the directory holds something that no run of ours has written.
    """
    if "://" in output:
        return
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        foreign = _foreign(folder)
    except OSError as error:
        raise UsageError(
            "E-USAGE-OUTPUT",
            f"{output} cannot be used as a directory: {error.strerror}",
            remedy="Give an empty or new directory to --output.",
        ) from None
    if foreign:
        raise UsageError(
            "E-USAGE-OUTPUT",
            f"{output} holds {foreign[0]!r}, which no run has written",
            remedy="Give an empty or new directory to --output.",
        )
    # The record goes first: without it nobody takes what is left for a finished run.
    for name in (RUN_RECORD, LEDGER, "index.html"):
        (folder / name).unlink(missing_ok=True)
    # What a killed run had not renamed yet; in the folders it goes with them.
    for name in (RUN_RECORD, LEDGER):
        for path in folder.glob(f"{name}.*.tmp"):
            path.unlink()
    # Before anything else goes: after a power cut the old record must not come back without its files.
    sync_folder(output)
    for name in _PARTS:
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()


def _foreign(folder: Path) -> list[str]:
    """What lies in an output directory and was not written by a run."""
    ours = {RUN_RECORD, LEDGER, "index.html", *_PARTS}
    found = [p.name for p in folder.iterdir() if p.name not in ours]
    for part in _PARTS:
        if (folder / part).is_dir():
            inside = (p.name for p in (folder / part).iterdir())
            found += [f"{part}/{name}" for name in inside if not name.endswith(_SUFFIXES)]
    return sorted(name for name in found if not name.endswith(".tmp"))


def run(config: RunConfig, progress: Progress | None = None, total_bytes: int = 0) -> RunResult:
    """Run the pipeline to its end and write run.json last.

    Raises:
        UsageError: Beam does not know an option or the runner.
        JobError: the job failed on its runner; nothing is then published as finished.
        LdpError: a step of it raised one, or its books do not balance; nor here.
    """
    # Within this process Beam raises what it also logs.
    quiet = config.runner == "FnApiRunner" and os.environ.get("LDPBEAM_DEBUG") != "1"
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL if quiet else logging.ERROR)
    keep_freed_memory()
    started = time.perf_counter()
    pipeline = build(config)
    prepare_output(config.output)
    if progress is None:
        run_to_end(pipeline, config.runner)
    else:
        _run_with_progress(pipeline, config.runner, progress, total_bytes)
    seconds = time.perf_counter() - started
    books, files = _read_ledger(config.output)
    record = run_record(config, books, files, seconds)
    write_record(config.output, record)
    FileSystems.delete([FileSystems.join(config.output, LEDGER)])
    return RunResult(record)


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
    """Run in this thread, since runners set signal handlers; another one tells how much was read."""
    before = bytes_read()
    over = threading.Event()

    def tell() -> None:
        while not over.wait(0.1):
            progress(min(bytes_read() - before, total), total)

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        run_to_end(pipeline, runner)
    finally:
        over.set()
        teller.join()
    progress(total, total)


def _read_ledger(output: str) -> tuple[Books, list[dict[str, Any]]]:
    """What the pipeline left: its books and its files."""
    with FileSystems.open(FileSystems.join(output, LEDGER)) as handle:
        ledger = json.loads(handle.read())
    entries = ((((digest, epoch), what), count) for digest, epoch, what, count in ledger["books"])
    return Books.from_entries(entries), ledger["files"]
