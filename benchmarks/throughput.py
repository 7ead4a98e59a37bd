"""Pipeline speed against the same reading, decoding and counting in a plain loop, in one run.

    python benchmarks/throughput.py [--reports 10000000] [--repeats 5] [--families linear affine]

For linear and affine hashing (LOLOHA, k = 360, g = 2), one process each, which has imported and compiled
everything, takes these in turn, over and over:

* a plain loop without Beam over batch files, which reads, decodes, checks and counts with the same kernels;
* the pipeline over batch files, over files of single reports, and over Parquet, without de-duplication;
* the pipeline over batch files with de-duplication, and without it with two of Beam's workers, threads or
  processes;
* the pipeline over 200 reports: building and starting a graph, which is a part of each of the others.

Printed are medians: seconds of the processor and of the wall clock, how many times the plain loop each takes,
and the microseconds of the processor that a report takes beyond the plain loop, with the least and the
greatest ratio. Processor seconds hold on a machine that does other work as well; those of two processes
include imports. What the pipeline publishes is compared bit for bit. Then the same as whole commands, from
start to exit, imports included on both sides.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds

from ldpbeam.admission import Admission, ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import parse_collection
from ldpbeam.reports import admit_batches, admit_rows
from ldpbeam.simulators.deliver.files import Format, report_file
from ldpbeam.simulators.deliver.files import write_reports as write_file
from ldpbeam.support import Support
from ldpbeam.wire import codec

_K = 360
_EPOCHS = 10
_BATCH = 1 << 16

_YAML = """
name: throughput
domain: {{size: {k}}}
protocol: loloha
epsilon_longitudinal: 2.0
epsilon_first: 1.0
g: 2
hash_family: {family}
epoch: {{length: 6h, origin: 2026-01-01T00:00:00Z}}
"""


def collection(family: str) -> Collection:
    """LOLOHA over 360 values."""
    return parse_collection(_YAML.format(k=_K, family=family))


def write_reports(asked: Collection, folder: Path, reports: int) -> None:
    """Files with random, valid payloads, in a folder per format: counting does not care who sent them."""
    rng = np.random.Generator(np.random.Philox(1))
    protocol = asked.protocol
    formats: tuple[Format, ...] = ("batch", "report", "parquet")
    for name in formats:
        (folder / name).mkdir(parents=True)
    for epoch in range(_EPOCHS):
        parts = []
        for begin in range(0, reports // _EPOCHS, _BATCH):
            n = min(_BATCH, reports // _EPOCHS - begin)
            if protocol.counter.counts_length == _K:
                payloads = rng.integers(0, 256, (n, protocol.device.payload_size), np.uint8)
                payloads[:, 16] &= 1
            else:
                cells = rng.integers(0, protocol.counter.counts_length, n).astype("<u8")
                payloads = cells.view(np.uint8).reshape(n, 8)[:, : protocol.device.payload_size].copy()
            parts.append(ReportColumns(asked.digest, epoch, rng.integers(0, 1 << 64, n, np.uint64), payloads))
        for name in formats:
            write_file(name, report_file(folder / name, epoch, name), parts)


def plain_loop(asked: Collection, folder: Path) -> dict[int, Support]:
    """The same work without Beam: read, decode, admit, count per epoch."""
    counted: dict[int, Support] = {}
    known = {asked.digest: asked}
    for path in sorted(folder.iterdir()):
        rest = b""
        with path.open("rb") as handle:
            while piece := handle.read(4 << 20):
                data = np.frombuffer(rest + piece, np.uint8)
                found = codec.frames(data)
                rows, batches, _ = codec.parse(found)
                done = Admission()
                admit_batches(batches, known, str(path), done)
                admit_rows(rows, known, str(path), done)
                for columns in done.admitted:
                    into = counted.setdefault(
                        columns.epoch, Support.zero(asked.protocol.counter.counts_length)
                    )
                    asked.protocol.counter.add(columns.payloads, into.counts)
                    into.reports += len(columns)
                rest = data[found.end :].tobytes()
    return {
        e: Support(asked.protocol.counter.support_counts(s.counts), s.reports) for e, s in counted.items()
    }


def pipeline(
    asked: Collection, folder: Path, output: Path, deduplicate: bool, beam_args: tuple[str, ...] = ()
) -> None:
    """The real job."""
    from ldpbeam.job.config import RunConfig
    from ldpbeam.job.inputs import match_inputs, shard_bits_for
    from ldpbeam.pipelines.run import run

    matched = match_inputs(str(folder))
    given = {"deduplicate": deduplicate, "shard_bits": shard_bits_for(matched.size), "beam_args": beam_args}
    run(RunConfig.parsed((asked,), files=matched.files, output=str(output), **given))


_START, _TWO = "200 reports", "--direct_num_workers=2"
_KINDS: dict[str, tuple[str, bool, tuple[str, ...]]] = {
    "run": ("batch", False, ()),
    "with de-duplication": ("batch", True, ()),
    "single reports": ("report", False, ()),
    "Parquet": ("parquet", False, ()),
    _START: ("batch", False, ()),
    "two threads": ("batch", False, (_TWO, "--direct_running_mode=multi_threading")),
    "two processes": ("batch", False, (_TWO, "--direct_running_mode=multi_processing")),
}
"""What is measured beside the plain loop: format, de-duplication, options for Beam."""


def spent(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the processor, of this process and of those it has waited for, and of the wall clock.

    What the work before left behind is collected first: a graph of Beam leaves cycles, and a later one would
    pay for them, while a command starts with none.
    """
    gc.collect()
    before, started = _processor(), time.perf_counter()
    work()
    wall = time.perf_counter() - started
    return _processor() - before, wall


def _processor() -> float:
    waited_for = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + waited_for.ru_utime + waited_for.ru_stime


def published(output: Path) -> dict[tuple[int, int], int]:
    """Support by epoch and value."""
    table = ds.dataset(output / "estimates").to_table(columns=["epoch", "value", "support"])
    return {(row["epoch"], row["value"]): row["support"] for row in table.to_pylist()}


def measure(family: str, folder: Path, warm: Path, repeats: int, kinds: list[str]) -> dict[str, object]:
    """Seconds of each kind, in turn, and the peak memory of this process."""
    asked = collection(family)
    counted = plain_loop(asked, folder / "batch")
    expected = {(epoch, v): c for epoch, one in counted.items() for v, c in enumerate(one.counts.tolist())}
    times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in ("plain", *kinds)}
    for repeat in range(-1, repeats):
        source = warm if repeat < 0 else folder
        times["plain"].append(spent(partial(plain_loop, asked, source / "batch")))
        for kind in kinds:
            form, deduplicate, beam_args = _KINDS[kind]
            read = warm if kind == _START else source
            with tempfile.TemporaryDirectory() as name:
                output = Path(name, "out")
                job = asked, read / form, output, deduplicate, beam_args
                times[kind].append(spent(partial(pipeline, *job)))
                if read == folder and published(output) != expected:
                    raise SystemExit(f"{family}, {kind}: other counts than the plain loop's")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"times": {kind: found[1:] for kind, found in times.items()}, "mib": peak}


def lines(family: str, found: dict[str, list[tuple[float, float]]], reports: int) -> list[str]:
    """Rows of the table."""
    rows = []
    plain = [cpu for cpu, _ in found["plain"]]
    for kind, times in found.items():
        cpu, wall = (sorted(column)[len(times) // 2] for column in zip(*times, strict=True))
        ratios = sorted(one[0] / loop for one, loop in zip(times, plain, strict=True))
        added = sorted((one[0] - loop) / reports * 1e6 for one, loop in zip(times, plain, strict=True))
        middle = len(ratios) // 2
        rows.append(
            f"{family:>8} {kind:<20}{cpu:>8.3f}{wall:>8.3f}{ratios[middle]:>8.2f}"
            f"  ({ratios[0]:.2f} – {ratios[-1]:.2f}){added[middle]:>10.3f}"
        )
    return rows


def whole_commands(family: str, folder: Path, temporary: Path) -> tuple[float, float]:
    """Processor seconds of the plain loop and of ``ldpbeam run --no-dedup`` as processes of their own."""
    source = temporary / f"{family}.yaml"
    source.write_text(_YAML.format(k=_K, family=family))
    plain = [sys.executable, __file__, "--cold", family, str(folder)]
    run = [sys.executable, "-m", "ldpbeam", "run", "--collection", str(source), "--no-dedup"]
    run += ["--input", str(folder / "*"), "--output", str(temporary / f"{family}-out")]

    def done(command: list[str]) -> float:
        return spent(lambda: subprocess.run(command, check=True, capture_output=True))[0]  # noqa: S603

    return done(plain), done(run)


def main() -> None:
    """Make the data, measure each family in a process of its own, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--reports", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--families", nargs="+", default=["linear", "affine"])
    parser.add_argument("--kinds", nargs="+", choices=list(_KINDS), default=list(_KINDS))
    parser.add_argument("--no-commands", action="store_true", help="leave out the whole commands")
    parser.add_argument("--child", nargs=3, metavar=("FAMILY", "FOLDER", "WARM"), help=argparse.SUPPRESS)
    parser.add_argument("--cold", nargs=2, metavar=("FAMILY", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cold:
        plain_loop(collection(arguments.cold[0]), Path(arguments.cold[1]))
        return
    logging.basicConfig(level=logging.ERROR)
    if arguments.child:
        family, folder, warm = arguments.child
        result = measure(family, Path(folder), Path(warm), arguments.repeats, arguments.kinds)
        print(json.dumps(result))
        return
    print(f"LOLOHA, k = {_K}, g = 2, {arguments.reports:,} reports in {_EPOCHS} epochs")
    print(f"{'hash':>8} {'what':<20}{'CPU s':>8}{'wall s':>8}{'ratio':>8}  (least – most){'added us':>10}")
    with tempfile.TemporaryDirectory() as temporary:
        for family in arguments.families:
            folder, warm = Path(temporary, family), Path(temporary, f"{family}-warm")
            write_reports(collection(family), folder, arguments.reports)
            write_reports(collection(family), warm, 20 * _EPOCHS)
            os.sync()  # or the kernel writes them out while others are measured, which write too
            command = [sys.executable, __file__, "--repeats", str(arguments.repeats)]
            command += ["--child", family, str(folder), str(warm), "--kinds", *arguments.kinds]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
            result = json.loads(done.stdout.splitlines()[-1])
            print("\n".join(lines(family, result["times"], arguments.reports)), flush=True)
            print(f"{family:>8} peak {result['mib']:.0f} MiB, of all of these")
            if not arguments.no_commands:
                cold = [whole_commands(family, folder / "batch", Path(temporary)) for _ in range(3)]
                plain, run = (sorted(column)[1] for column in zip(*cold, strict=True))
                print(
                    f"{family:>8} whole commands: {plain:.2f} and {run:.2f} CPU s, {run / plain:.2f}x",
                    flush=True,
                )


if __name__ == "__main__":
    main()
