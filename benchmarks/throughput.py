"""Pipeline speed against the same reading, decoding and counting in a plain loop, in one run.

    python benchmarks/throughput.py [--reports 10000000]

Prints, for linear and affine hashing (LOLOHA, k = 360, g = 2):

* warm: seconds of the plain loop, of the pipeline without and with de-duplication, in processes that have
  imported and compiled everything; the ratio, the microseconds per report that de-duplication adds to the
  plain loop, and the peak memory of the larger process;
* command: the same as whole commands, from start to exit, imports and compilation included on both sides.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import parse_collection
from ldpbeam.reports import Admission, admit_batches, admit_rows
from ldpbeam.support import Support
from ldpbeam.wire import codec, report_pb2

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
    """Report-batch files with random, valid payloads: counting does not care who sent them."""
    folder.mkdir(parents=True)
    rng = np.random.Generator(np.random.Philox(1))
    protocol = asked.protocol
    for epoch in range(_EPOCHS):
        with (folder / f"epoch-{epoch:03d}.pb").open("wb") as handle:
            left = reports // _EPOCHS
            while left:
                n = min(left, _BATCH)
                left -= n
                if protocol.counts_length == _K:
                    payloads = rng.integers(0, 256, (n, protocol.payload_size), np.uint8)
                    payloads[:, 16] &= 1
                else:
                    cells = rng.integers(0, protocol.counts_length, n).astype("<u8")
                    payloads = cells.view(np.uint8).reshape(n, 8)[:, : protocol.payload_size]
                message = report_pb2.ReportBatch(
                    digest=asked.digest,
                    epoch=epoch,
                    count=n,
                    report_ids=rng.integers(0, 1 << 64, n, np.uint64).tolist(),
                    payloads=payloads.tobytes(),
                ).SerializeToString()
                handle.write(codec.framed(message))


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
                    into = counted.setdefault(columns.epoch, Support.zero(asked.protocol.counts_length))
                    asked.protocol.add_support(columns.payloads, into.counts)
                    into.reports += len(columns)
                rest = data[found.end :].tobytes()
    return {e: Support(asked.protocol.support_counts(s.counts), s.reports) for e, s in counted.items()}


def pipeline(asked: Collection, folder: Path, output: Path, deduplicate: bool) -> None:
    """The real job."""
    from ldpbeam.pipelines.config import RunConfig
    from ldpbeam.pipelines.inputs import match_inputs, shard_bits_for
    from ldpbeam.pipelines.run import run

    inputs, size = match_inputs(str(folder / "*"))
    bits = shard_bits_for(size)
    run(
        RunConfig.parsed((asked,), files=inputs, output=str(output), deduplicate=deduplicate, shard_bits=bits)
    )


def measure(family: str, what: str, folder: Path, warm: Path, repeats: int) -> dict[str, float]:
    """Best of some runs of one kind, and the peak memory of this process."""
    asked = collection(family)

    def once(source: Path) -> float:
        started = time.perf_counter()
        if what == "plain":
            plain_loop(asked, source)
        else:
            with tempfile.TemporaryDirectory() as output:
                pipeline(asked, source, Path(output) / "out", what == "dedup")
        return time.perf_counter() - started

    first = once(warm)
    times = [once(folder) for _ in range(repeats)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"first": first, "best": min(times), "median": sorted(times)[len(times) // 2], "mib": peak}


def seconds_of(command: list[str]) -> float:
    """Wall time of a command that must succeed."""
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    return time.perf_counter() - started


def whole_commands(family: str, folder: Path, temporary: Path) -> tuple[float, float]:
    """Seconds of the plain loop and of ``ldpbeam run --no-dedup`` as processes of their own."""
    source = temporary / f"{family}.yaml"
    source.write_text(_YAML.format(k=_K, family=family))
    plain = seconds_of([sys.executable, __file__, "--cold", family, str(folder)])
    run = [
        sys.executable,
        "-m",
        "ldpbeam.pipelines.commands.main",
        "run",
        "--collection",
        str(source),
        "--no-dedup",
    ]
    run += ["--input", str(folder / "*"), "--output", str(temporary / f"{family}-out")]
    return plain, seconds_of(run)


def main() -> None:
    """Make the data, measure each kind in a process of its own, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--child", nargs=4, metavar=("FAMILY", "WHAT", "FOLDER", "WARM"))
    parser.add_argument("--cold", nargs=2, metavar=("FAMILY", "FOLDER"))
    arguments = parser.parse_args()
    if arguments.cold:
        plain_loop(collection(arguments.cold[0]), Path(arguments.cold[1]))
        return
    logging.basicConfig(level=logging.ERROR)
    if arguments.child:
        family, what, folder, warm = arguments.child
        result = measure(family, what, Path(folder), Path(warm), arguments.repeats)
        print(json.dumps(result))
        return
    print(f"LOLOHA, k = {_K}, g = 2, {arguments.reports:,} reports in {_EPOCHS} epochs")
    head: tuple[str, ...] = ("hash", "plain s", "run s", "ratio", "dedup s", "added us/report", "peak MiB")
    head += ("command: plain", "run", "ratio")
    print(("{:>8}" + "{:>16}" * 9).format(*head))
    with tempfile.TemporaryDirectory() as temporary:
        for family in ("linear", "affine"):
            folder, warm = Path(temporary, family), Path(temporary, f"{family}-warm")
            write_reports(collection(family), folder, arguments.reports)
            write_reports(collection(family), warm, 20 * _EPOCHS)
            results = {}
            for what in ("plain", "run", "dedup"):
                command = [sys.executable, __file__, "--repeats", str(arguments.repeats)]
                command += ["--child", family, what, str(folder), str(warm)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
                results[what] = json.loads(done.stdout.splitlines()[-1])
            plain, plain_run, dedup = (results[w]["median"] for w in ("plain", "run", "dedup"))
            print(
                f"{family:>8}{plain:>16.3f}{plain_run:>16.3f}{plain_run / plain:>16.2f}{dedup:>16.3f}"
                f"{(dedup - plain) / arguments.reports * 1e6:>16.3f}"
                f"{max(results['run']['mib'], results['dedup']['mib']):>16.0f}",
                end="",
            )
            cold = [whole_commands(family, folder, Path(temporary)) for _ in range(3)]
            cold_plain, cold_run = (sorted(column)[1] for column in zip(*cold, strict=True))
            print(f"{cold_plain:>16.2f}{cold_run:>16.2f}{cold_run / cold_plain:>16.2f}")


if __name__ == "__main__":
    main()
