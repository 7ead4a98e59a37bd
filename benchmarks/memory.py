"""The largest memory that the commands ever have which work on whole domains, where a domain is large.

    python benchmarks/memory.py [--epochs 1,2,4] [--only NAME] [--devices 100000] [--run]

Every row is one command as a process of its own: `ldpbeam run` over simulated reports of so many epochs, and
`report`, `compare` and `export` of its results, epoch by epoch and over time; with --run only `ldpbeam run`.
100,000 devices report in each epoch, or as many as --devices says, with values that fall like 1/rank^1.1.
docs/performance.md has the tables; the warning W-COLLECTION-SIZE states what `run` takes
(ldpbeam/collection/advice.py), in the last column.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ldpbeam.collection.advice import run_memory
from ldpbeam.collection.file import parse_collection

_COMMAND = [sys.executable, "-m", "ldpbeam"]
_LAUNCH = """
import json, os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""
"""A small program starts the command: a child's largest memory is at least what its parent held then."""

_TWO = "epsilon_longitudinal: 4\nepsilon_first: 2\n"
SETTINGS = {
    "loloha 4/2, 360 values": (360, f"protocol: loloha\n{_TWO}"),
    "loloha 4/2, 200,000 values": (200_000, f"protocol: loloha\n{_TWO}"),
    "olh ε = 1, 1,000,000 values": (1_000_000, "protocol: olh\nepsilon: 1\n"),
    "grr ε = 8, 1,000,000 values": (1_000_000, "protocol: grr\nepsilon: 8\n"),
    "loloha 4/2, 1,000,000 values": (1_000_000, f"protocol: loloha\n{_TWO}"),
}
"""Size of the domain, and the keys of the protocol."""


def collection_text(size: int, keys: str) -> str:
    """The YAML of a setting."""
    epoch = "epoch: {length: 1d, origin: 2026-01-01T00:00:00Z}\n"
    return f"name: memory\ndomain: {{size: {size}}}\n{keys}{epoch}"


def measured(*command: str) -> tuple[float, float]:
    """Processor seconds and largest MiB of a command."""
    launched = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", _LAUNCH, *_COMMAND, *command], stdout=subprocess.PIPE, check=True
    )
    code, cpu, kib = json.loads(launched.stdout)
    if code != 0:
        raise SystemExit(f"ldpbeam {' '.join(command)}: exit code {code}")
    return cpu, kib / 1024


def rows(
    size: int, keys: str, epochs: list[int], devices: int, folder: Path, *, run_only: bool
) -> Iterator[tuple[int, str, float, float]]:
    """(epochs, command, processor seconds, MiB) of one setting."""
    source = folder / "memory.yaml"
    source.write_text(collection_text(size, keys))
    simulate = ["simulate", "--collection", str(source), "--population", "zipf:1.1", "--seed", "7"]
    simulate += ["--devices", str(devices), "--epochs", str(max(epochs)), "--output", str(folder / "sim")]
    subprocess.run([*_COMMAND, *simulate, "--quiet"], stderr=subprocess.DEVNULL, check=True)  # noqa: S603
    files = sorted(map(str, (folder / "sim" / "reports").iterdir()))
    for number in epochs:
        out = str(folder / f"out-{number}")
        options = [word for file in files[:number] for word in ("--input", file)]
        yield number, "run", *measured("run", "--collection", str(source), *options, "--output", out)
    if run_only:
        return
    groups, table = str(folder / "groups.csv"), ("--output", str(folder / "out.parquet"))
    Path(groups).write_text("group,value\n" + "".join(f"first,{value}\n" for value in range(100)))
    last = max(epochs)
    yield last, "report", *measured("report", out)
    yield last, "export", *measured("export", out, *table)
    if last > 1:
        middle = str(last // 2)
        halves = ["--epochs", f"0..{middle}", "--against", f"{int(middle) + 1}..{last}"]
        yield last, "compare", *measured("compare", out)
        yield last, "compare, half against half", *measured("compare", out, *halves, *table)
        yield last, "export --by week", *measured("export", out, "--by", "week", *table)
        yield last, "export --every (all)", *measured("export", out, "--every", str(last), *table)
        yield (
            last,
            "export --group --every (all)",
            *measured("export", out, "--group", groups, "--every", str(last), *table),
        )


def main() -> None:
    """Measure all settings and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--epochs", default="1,2,4", help="numbers of epochs, comma-separated")
    parser.add_argument("--only", default="", help="settings whose name contains this")
    parser.add_argument("--devices", type=int, default=100_000, help="devices that report in each epoch")
    parser.add_argument("--run", action="store_true", help="only ldpbeam run")
    asked = parser.parse_args()
    epochs = sorted(map(int, asked.epochs.split(",")))
    print("| collection | epochs | command | CPU s | peak MiB | stated MiB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, (size, keys) in SETTINGS.items():
        if asked.only not in name:
            continue
        stated = run_memory(parse_collection(collection_text(size, keys)).protocol) / 2**20
        folder = Path(tempfile.mkdtemp(prefix="memory-"))
        try:
            measured_rows = rows(size, keys, epochs, asked.devices, folder, run_only=asked.run)
            for number, command, cpu, mib in measured_rows:
                megabytes = f"{stated:.0f}" if command == "run" else ""
                print(
                    f"| {name} | {number} | `{command}` | {cpu:.1f} | {mib:.0f} | {megabytes} |", flush=True
                )
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
