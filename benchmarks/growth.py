"""How time and memory of a run over files grow: with reports, domain, epochs, collections and attributes.

    python benchmarks/growth.py [--largest 100000000] [--json FILE] [--chart FILE]

One axis moves at a time. Each row is `ldpbeam run`, de-duplication included, as a process of its own: seconds
of the wall clock and of the processor, the largest memory that it ever had, the bytes that a report takes on
disk. The fixed cost of a process, imports and Beam's graph, is in every row; the first row shows it. Payloads
are random and valid, since counting does not care who sent them; those of several attributes come from
`ldpbeam simulate`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ldpbeam.admission import ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import parse_collection
from ldpbeam.simulators.deliver.files import report_file, write_reports

_BATCH = 1 << 16
_LEVELS = "epsilon_longitudinal: 2.0\nepsilon_first: 1.0\n"
_EPOCH = "epoch: {length: 6h, origin: 2020-01-01T00:00:00Z, count: 4000}\n"
_COMMAND = [sys.executable, "-m", "ldpbeam"]
_LAUNCH = """
import json, os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=sys.stderr)
_, status, used = os.wait4(process.pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""
"""A small program starts the command: a child's largest memory is at least what its parent held then."""


@dataclass(frozen=True)
class Setting:
    """One row."""

    axis: str
    at: int
    protocol: str = "protocol: loloha\ng: 2\nhash_family: linear\n"
    size: int = 360
    reports: int = 1_000_000
    epochs: int = 10
    collections: int = 1
    attributes: int = 1

    def text(self, number: int) -> str:
        """The YAML of one of its collections."""
        domain = f"domain: {{size: {self.size}}}\n"
        if self.attributes > 1:
            each = "".join(
                f"  - {{name: a{i}, domain: {{size: {self.size}}}}}\n" for i in range(self.attributes)
            )
            domain = f"attributes:\n{each}allocation: sample\n"
        return f"name: c{number}\n{domain}{self.protocol}{_LEVELS}{_EPOCH}"


_UNARY = "protocol: l_osue\n"
_AFFINE = "protocol: loloha\ng: 2\nhash_family: affine\n"


def settings(largest: int) -> Iterator[Setting]:
    """All rows; ``largest`` bounds the number of reports."""
    for reports in (1_000, 100_000, 1_000_000, 10_000_000, 100_000_000):
        if reports <= largest:
            yield Setting("reports", reports, reports=reports)
    for size in (2, 360, 1 << 15, 1 << 20):
        yield Setting("values, linear hashing", size, size=size)
    for size in (2, 360, 1 << 12):
        yield Setting("values, affine hashing", size, _AFFINE, size)
    for size in (2, 64, 360, 1_412):
        yield Setting("values, unary", size, _UNARY, size)
    for epochs in (1, 10, 100, 1_000):
        yield Setting("epochs", epochs, epochs=epochs)
    for collections in (1, 10, 100):
        yield Setting("collections", collections, collections=collections)
    for attributes in (1, 5, 50):
        yield Setting("attributes", attributes, size=16, reports=200_000, attributes=attributes)


def payloads(asked: Collection, size: int, n: int, draw: np.random.Generator) -> np.ndarray:
    """Random payloads of a protocol, each of them admissible."""
    protocol = asked.protocol
    width = protocol.device.payload_size
    if asked.protocol_name == "l_osue":
        assert protocol.estimator.support is not None
        bits = draw.random((n, size), np.float32) < float(protocol.estimator.support.other)
        return np.packbits(bits, axis=1, bitorder="little")
    if protocol.counter.counts_length == size and width > 8:  # affine: two words and the symbol
        found = draw.integers(0, 256, (n, width), np.uint8)
        found[:, 16:] = 0
        found[:, 16] = draw.integers(0, 2, n)
        return found
    cells = draw.integers(0, protocol.counter.counts_length, n).astype("<u8")
    return cells.view(np.uint8).reshape(n, 8)[:, :width].copy()


def prepare(setting: Setting, folder: Path) -> list[str]:
    """Collections and reports on disk; gives the options of `ldpbeam run` that name them."""
    options: list[str] = []
    draw = np.random.Generator(np.random.Philox(1))
    for number in range(setting.collections):
        text, source = setting.text(number), folder / f"c{number}.yaml"
        source.write_text(text)
        options += ["--collection", str(source)]
        reports = folder / f"reports-{number}"
        each = setting.reports // setting.collections
        if setting.attributes > 1:
            command = [*_COMMAND, "simulate", "--collection", str(source), "--population", "syn"]
            command += ["--devices", str(each // setting.epochs), "--epochs", str(setting.epochs)]
            subprocess.run([*command, "--output", str(reports), "--quiet"], check=True)  # noqa: S603
            options += ["--input", str(reports / "reports")]
            continue
        asked = parse_collection(text)
        reports.mkdir()
        for epoch in range(setting.epochs):
            n = each // setting.epochs
            parts = (
                ReportColumns(
                    asked.digest,
                    epoch,
                    draw.integers(0, 1 << 64, some, np.uint64),
                    payloads(asked, setting.size, some, draw),
                )
                for some in (min(_BATCH, n - at) for at in range(0, n, _BATCH))
            )
            write_reports(
                "batch",
                report_file(reports, epoch, "batch", "none"),
                parts,
                compression="none",
            )
        options += ["--input", str(reports)]
    return options


def measure(setting: Setting, folder: Path) -> dict[str, object]:
    """Run it once as a process of its own."""
    options = prepare(setting, folder)
    files = [path for path in folder.glob("reports-*/**/*") if path.is_file() and path.suffix != ".json"]
    size = sum(path.stat().st_size for path in files)
    command = [*_COMMAND, "run", *options, "--output", str(folder / "out"), "--quiet"]
    # Random payloads are no fleet's: what a run makes of them is a result all the same.
    started = time.perf_counter()
    launched = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", _LAUNCH, *command], stdout=subprocess.PIPE, check=True
    )
    wall = time.perf_counter() - started
    code, cpu, kib = json.loads(launched.stdout)
    if code not in {0, 4}:
        raise SystemExit(f"{setting}: exit code {code}")
    record = json.loads((folder / "out" / "run.json").read_text())
    total = record["accounting"]["total"]
    if total["counted"] != setting.reports:
        raise SystemExit(f"{setting}: counted {total}")
    return {
        **{key: value for key, value in asdict(setting).items() if key != "protocol"},
        "wall": wall,
        "cpu": cpu,
        "mib": kib / 1024,
        "bytes": size / setting.reports,
    }


def chart(rows: list[dict[str, object]], path: Path) -> None:
    """Seconds of the processor, one panel per axis, both scales logarithmic."""
    import altair as alt

    table = alt.Data(  # type: ignore[no-untyped-call]
        values=[{"axis": row["axis"], "at": row["at"], "cpu": row["cpu"]} for row in rows]
    )
    base = alt.Chart(table).encode(
        alt.X("at:Q", title=None, scale=alt.Scale(type="log"), axis=_axis(1, 100, 10**4, 10**6, 10**8)),
        alt.Y("cpu:Q", title="CPU seconds", scale=alt.Scale(type="log"), axis=_axis(1, 3, 10, 30, 100)),
    )
    panels = (base.mark_line() + base.mark_point(filled=True)).properties(width=180, height=120)
    panels.facet(alt.Facet("axis:N", title=None), columns=4).save(str(path))


def _axis(*ticks: int) -> Any:
    import altair as alt

    return alt.Axis(values=list(ticks), format="~s")


def main() -> None:
    """Measure every row, print a table, write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--largest", type=int, default=100_000_000, help="reports of the largest row")
    parser.add_argument("--json", type=Path, help="append a line with all rows to this file")
    parser.add_argument("--chart", type=Path, help="draw the rows into this SVG")
    asked = parser.parse_args()
    rows = []
    print(
        "| axis | at | wall s | CPU s | peak MiB | bytes per report |\n| --- | --- | --- | --- | --- | --- |"
    )
    for setting in settings(asked.largest):
        folder = Path(tempfile.mkdtemp(prefix="growth-"))
        try:
            row = measure(setting, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        rows.append(row)
        print(
            f"| {row['axis']} | {row['at']:,} | {row['wall']:.2f} | {row['cpu']:.2f} | {row['mib']:.0f} "
            f"| {row['bytes']:.1f} |",
            flush=True,
        )
    if asked.json:
        with asked.json.open("a") as handle:
            handle.write(json.dumps({"time": int(time.time()), "rows": rows}) + "\n")
    if asked.chart:
        chart(rows, asked.chart)


if __name__ == "__main__":
    main()
