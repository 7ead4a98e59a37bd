"""What a command costs however few its reports are.

    python benchmarks/fixed_cost.py [--repeats R]

Processor seconds of whole commands, with those of their child processes; medians of R rounds, with the least
and the greatest: ``ldpbeam run`` over 2,000 reports where no kernel has been compiled yet, the same again,
and ``ldpbeam simulate`` of 20,000 reports. Each for LOLOHA with linear hashing, where counts are not few, and
for GRR over 360 values, where they are, so that the limits of the binomial test are computed.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

_YAML = """name: fixed_cost
version: 1
owner: telemetry@example.com
domain: {{size: 360}}
{protocol}
epoch: {{length: 6h, origin: 2026-01-01T00:00:00Z}}
allowed_lateness: 24h
consistency: norm_sub
min_reports: 100
"""
_PROTOCOLS = {
    "loloha": "protocol: loloha\nepsilon_longitudinal: 2.0\nepsilon_first: 1.0\nhash_family: linear",
    "grr": "protocol: grr\nepsilon: 1.0",
}


def spent(command: list[str], cache: Path) -> float:
    """Processor seconds of ``ldpbeam`` with these arguments, whose kernels are kept in a folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "LDPBEAM_KERNEL_CACHE": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    whole = [sys.executable, "-m", "ldpbeam", *command, "--quiet"]
    subprocess.run(whole, env=environment, check=True, capture_output=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(name: str, folder: Path, repeats: int) -> dict[str, list[float]]:
    """Seconds of every round, by what was measured."""
    agreed = folder / f"{name}.yaml"
    agreed.write_text(_YAML.format(protocol=_PROTOCOLS[name]))
    known = ["--collection", str(agreed)]
    warm = folder / "warm"

    def simulate(devices: int, output: Path) -> list[str]:
        made = ["--population", "syn", "--devices", str(devices), "--epochs", "1", "--output", str(output)]
        return ["simulate", *known, *made]

    def run(output: Path) -> list[str]:
        return ["run", *known, "--input", str(folder / name / "reports"), "--output", str(output)]

    spent(simulate(2_000, folder / name), warm)
    spent(run(folder / f"{name}-warm"), warm)
    found: dict[str, list[float]] = {"first run": [], "run": [], "simulate": []}
    for i in range(repeats):
        here = folder / f"{name}-{i}"
        found["first run"].append(spent(run(here / "first"), here / "kernels"))
        found["run"].append(spent(run(here / "again"), warm))
        found["simulate"].append(spent(simulate(20_000, here / "simulated"), warm))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print("| protocol | command | CPU s (least – greatest) |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        for protocol in _PROTOCOLS:
            for what, seconds in measured(protocol, Path(name), repeats).items():
                spread = f"{min(seconds):.1f} – {max(seconds):.1f}"
                print(f"| `{protocol}` | {what} | **{median(seconds):.1f}** ({spread}) |", flush=True)


if __name__ == "__main__":
    main()
