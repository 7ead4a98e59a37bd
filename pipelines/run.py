"""Running the main pipeline over files, and the record of what happened (run.json)."""

from __future__ import annotations

import argparse
import ctypes
import json
import logging
import os
import platform
import shutil
import time
from collections.abc import Callable
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from ldp.accounting import Books, Line
from ldp.collection import Collection
from ldp.errors import LdpError, UsageError
from ldp.histogram import TOO_MANY_ERRORS
from pipelines.collect import LEDGER, CollectReports
from pipelines.options import ASK_THEIR_SERVER, OPTIONS, RunConfig
from transforms.files import publish
from transforms.sources import bytes_read

__all__ = ["RUN_RECORD", "STATUS", "RunResult", "match_inputs", "prepare_output", "run"]

RUN_RECORD = "run.json"
STATUS = {0: "ok", 4: "ok_with_rejects", 5: "over_error_threshold"}
"""What run.json says for each exit code of a finished run."""
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

    def __init__(self, record: dict[str, object]) -> None:
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
        LdpError: the job failed, or its books do not balance; nothing is then published as finished.
    """
    # Within this process Beam raises what it also logs.
    quiet = config.runner == "FnApiRunner" and os.environ.get("LDPBEAM_DEBUG") != "1"
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL if quiet else logging.ERROR)
    _keep_freed_memory()
    pipeline = _pipeline(config)
    prepare_output(config.output)
    started = time.perf_counter()
    _ = pipeline | "Collect" >> CollectReports(config)
    if progress is None:
        pipeline.run().wait_until_finish()
    else:
        _run_with_progress(pipeline, progress, total_bytes)
    seconds = time.perf_counter() - started
    record = _record(config, seconds)
    publish(config.output, RUN_RECORD, (json.dumps(record, indent=1) + "\n").encode())
    Path(config.output, LEDGER).unlink(missing_ok=True)
    return RunResult(record)


def _pipeline(config: RunConfig) -> beam.Pipeline:
    """An empty pipeline with the options that were typed.

    Beam itself passes over options that it does not know; a misspelt one would change nothing.

    Raises:
        UsageError: an option or the runner is not Beam's.
    """

    def refuse(message: str) -> NoReturn:
        raise UsageError("E-USAGE-BEAM", f"Beam refuses an option: {message}", remedy=_BEAM_HELP)

    parsers: list[argparse.ArgumentParser] = []

    def keep(parser: argparse.ArgumentParser) -> None:
        parser.error = refuse  # type: ignore[method-assign]
        parsers.append(parser)

    typed = list(config.beam_args)
    options = PipelineOptions([f"--runner={config.runner}", *typed], save_main_session=False)
    known = options.get_all_options(add_extra_args_fn=keep)
    _, unknown = parsers[0].parse_known_args(typed)
    if unknown and config.runner not in ASK_THEIR_SERVER:
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
        refuse(str(error).partition("\n")[0].rstrip("."))


def _keep_freed_memory() -> None:
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


def _run_with_progress(pipeline: beam.Pipeline, progress: Progress, total: int) -> None:
    """Run in this thread's stead while it reports how much was read."""
    from concurrent.futures import ThreadPoolExecutor, wait

    before = bytes_read()
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(lambda: pipeline.run().wait_until_finish())
        while not wait([job], timeout=0.1).done:
            progress(min(bytes_read() - before, total), total)
        job.result()
    progress(total, total)


def _record(config: RunConfig, seconds: float) -> dict[str, object]:
    """Everything run.json says."""
    with FileSystems.open(FileSystems.join(config.output, LEDGER)) as handle:
        ledger = json.loads(handle.read())
    books = Books.from_entries(
        (((digest, epoch), what), count) for digest, epoch, what, count in ledger["books"]
    )
    total = books.total
    unbalanced = [key for key, line in books.lines.items() if not line.balanced]
    if unbalanced:
        raise LdpError(
            "E-RUN-BOOKS",
            f"the books of {len(unbalanced)} epochs do not balance: reports were lost or counted twice",
            where=config.output,
            remedy="Nothing was published as finished; please report this with the ledger.json beside it.",
        )
    rejected = sum(total.rejected.values())
    withheld = [
        key
        for key, line in books.lines.items()
        if key[1] is not None and line.counted and line.error_fraction > config.max_error_fraction
    ]
    exit_code = 5 if withheld else 4 if rejected else 0
    by_digest = {c.digest_hex: c for c in config.collections}
    named = ("apache-beam", "numpy", "numba", "pyarrow", "protobuf")
    return {
        "schema": "ldpbeam.run/1",
        "status": STATUS[exit_code],
        "exit_code": exit_code,
        "versions": {
            "ldpbeam": version("ldpbeam"),
            "python": platform.python_version(),
            **{name.replace("-", "_"): version(name) for name in named},
        },
        "runner": config.runner,
        "deduplicate": config.deduplicate,
        "max_error_fraction": config.max_error_fraction,
        "collections": [c.as_record() for c in config.collections],
        "accounting": {
            "total": total.as_record(),
            "epochs": [
                _epoch_line(by_digest[digest], epoch, line, (digest, epoch) in withheld)
                for (digest, epoch), line in sorted(
                    ((k, v) for k, v in books.lines.items() if k[1] is not None),
                    key=lambda item: (item[0][0], item[0][1] or 0),
                )
                if epoch is not None
            ],
            "unattributed": _unattributed(books),
        },
        "timings": {
            "total_seconds": round(seconds, 3),
            "reports_per_second": round(total.read / seconds, 1),
        },
        "inputs": [{"path": path} for path in config.inputs],
        "files": sorted(ledger["files"], key=lambda f: str(f["path"])),
    }


def _epoch_line(collection: Collection, epoch: int, line: Line, withheld: bool) -> dict[str, object]:
    return {
        "collection": collection.name,
        "digest": collection.digest_hex,
        "epoch": epoch,
        "epoch_start": collection.epochs.start_time(epoch).isoformat().replace("+00:00", "Z"),
        **line.as_record(),
        "withheld": TOO_MANY_ERRORS if withheld else "",
    }


def _unattributed(books: Books) -> dict[str, object]:
    """Records that belong to no epoch of a known collection."""
    line = Line()
    for (_, epoch), other in books.lines.items():
        if epoch is None:
            line.read += other.read
            line.rejected.update(other.rejected)
    return {"read": line.read, "rejected": dict(sorted(line.rejected.items()))}
