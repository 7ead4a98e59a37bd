"""Computes the cells of experiments in processes, keeps each as a file, and makes tables, figures and a page.

A cell is stored whole under a name that follows from the experiment, the cell, the seed, and what it read. An
interrupted run goes on with the cells that are missing; a finished one only draws again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ldpbeam import __version__
from ldpbeam.durable.file import PRIVATE, write_file
from ldpbeam.durable.folder import make_folder
from ldpbeam.pipelines.workers import end_with
from reproduction.data import absent
from reproduction.experiments import EXPERIMENTS
from reproduction.paper import Cell, Row, Settings, canonical


@cache
def sources() -> str:
    """A digest of this folder's modules: cells of other code are computed anew."""
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@dataclass
class Outcome:
    """What became of one experiment: its cells, and the rows of those that are computed."""

    name: str
    inputs: dict[str, str] = field(default_factory=dict)
    cells: Sequence[Cell] = ()
    paths: Sequence[Path] = ()
    found: dict[int, list[Row]] = field(default_factory=dict)
    skipped: str = ""
    computed: int = 0

    @property
    def rows(self) -> list[Row]:
        return [row for index in range(len(self.cells)) for row in self.found[index]]

    @property
    def kept(self) -> int:
        return len(self.cells) - self.computed


def file_digest(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def cell_name(name: str, settings: Settings, cell: Cell, inputs: dict[str, str]) -> str:
    """File name of a cell: a hash of what its rows follow from."""
    sizes = [settings.seed, settings.devices, settings.epochs]
    text = json.dumps([sources(), name, canonical(cell), sizes, sorted(inputs.items())], ensure_ascii=False)
    return f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def read_cell(path: Path) -> list[Row] | None:
    """Rows of a stored cell; None where there is none, or not a whole one."""
    try:
        held = json.loads(path.read_text("utf-8"))
        rows = held["rows"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return rows if isinstance(rows, list) and all(isinstance(row, dict) for row in rows) else None


def write_cell(path: Path, name: str, cell: Cell, rows: list[Row]) -> None:
    """Store a cell: the file is there whole or not at all."""
    content = json.dumps({"experiment": name, "cell": dict(cell), "rows": rows}, indent=1, allow_nan=False)
    make_folder(path.parent)
    write_file(path, [content.encode()], PRIVATE)


def compute(name: str, settings: Settings, cell: Cell) -> list[Row]:
    rows = EXPERIMENTS[name].compute(settings, cell)
    # As they will be read again: a table made of fresh rows and one of stored rows are the same.
    plain: list[Row] = json.loads(json.dumps(rows, allow_nan=False))
    return plain


def run(
    names: Sequence[str],
    settings: Settings,
    output: Path,
    *,
    jobs: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[Outcome]:
    """Run experiments; each is yielded when its rows are complete, in the order asked for."""
    plans = [_planned(name, settings, output) for name in names]
    total = sum(len(plan.cells) for plan in plans)
    done = sum(len(plan.found) for plan in plans)
    progress(done, total)
    pool = None
    if jobs > 1 and done < total:
        pool = ProcessPoolExecutor(
            jobs, mp_context=get_context("spawn"), initializer=_quiet_worker, initargs=(os.getpid(),)
        )
    try:
        for plan in plans:
            for index, rows in _missing(plan, settings, pool, jobs):
                write_cell(plan.paths[index], plan.name, plan.cells[index], rows)
                plan.found[index] = rows
                plan.computed += 1
                done += 1
                progress(done, total)
            yield plan
    finally:
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def _planned(name: str, settings: Settings, output: Path) -> Outcome:
    """An experiment with the cells that are stored."""
    described = EXPERIMENTS[name]
    missing = [text for file in described.files if (text := absent(settings.data, file))]
    if missing:
        return Outcome(name, skipped=" ".join(missing))
    inputs = {file: file_digest(settings.data / file) for file in described.files}
    cells = described.cells(settings)
    folder = output / "cells" / name.replace(":", "-")
    paths = [folder / cell_name(name, settings, cell, inputs) for cell in cells]
    stored = {index: rows for index, path in enumerate(paths) if (rows := read_cell(path)) is not None}
    return Outcome(name, inputs, cells, paths, stored)


def _missing(
    plan: Outcome, settings: Settings, pool: ProcessPoolExecutor | None, jobs: int
) -> Iterator[tuple[int, list[Row]]]:
    todo = [index for index in range(len(plan.cells)) if index not in plan.found]
    if pool is None:
        for index in todo:
            yield index, compute(plan.name, settings, plan.cells[index])
        return
    # A few ahead of the processes: an interruption then has little to wait for.
    waiting: dict[Future[list[Row]], int] = {}
    for index in todo:
        waiting[pool.submit(compute, plan.name, settings, plan.cells[index])] = index
        if len(waiting) >= 2 * jobs:
            yield from _finished(waiting)
    while waiting:
        yield from _finished(waiting)


def _finished(waiting: dict[Future[list[Row]], int]) -> Iterator[tuple[int, list[Row]]]:
    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in done:
        yield waiting.pop(future), future.result()


def _quiet_worker(parent: int) -> None:
    """One thread of arithmetic for each process; Ctrl-C is the parent's, and whatever ends it ends this."""
    import signal

    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def table(rows: Sequence[Row]) -> Any:
    """The rows as an Arrow table; columns in order of first appearance."""
    import pyarrow as pa

    columns = list(dict.fromkeys(column for row in rows for column in row))
    return pa.table({column: [row.get(column) for row in rows] for column in columns})
