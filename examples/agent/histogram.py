"""What the agents report to: collects, counts, and prints each minute's histogram.

    python examples/agent/histogram.py --work agent-output

Runs `ldpbeam collect`, which takes reports over HTTP, and `ldpbeam run --watch`, which counts them while they
come; both are what a service would run. Ctrl-C stops them in order.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds

HERE = Path(__file__).parent
LDPBEAM = [sys.executable, "-m", "ldpbeam"]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--collection", type=Path, default=HERE / "load.yaml")
    parser.add_argument("--listen", default="127.0.0.1:8080", metavar="HOST:PORT")
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="for reports and results")
    parser.add_argument(
        "--watermark-delay", default="5s", help="how long after its end an epoch's reports may come"
    )
    return parser.parse_args()


def show(results: Path) -> None:
    """The histogram of the latest epoch that has one."""
    table = ds.dataset(results / "latest").to_table()
    epoch = pc.max(table["epoch"])
    print(f"\nepoch {epoch}, revision {pc.max(table['revision'])}")
    for row in table.filter(pc.equal(table["epoch"], epoch)).sort_by("value").to_pylist():
        share, low, high = (row[name] for name in ("consistent", "ci_low", "ci_high"))
        bar = "#" * round(40 * share)
        print(f"  {row['label']:<11} {share:6.1%}  ({low:+.2f} to {high:+.2f} of {row['n']})  {bar}")
    sys.stdout.flush()


def main() -> int:
    asked = options()
    reports, results = asked.work / "reports", asked.work / "results"
    reports.mkdir(parents=True, exist_ok=True)
    common = ["--collection", asked.collection]
    collect = [
        *LDPBEAM,
        "collect",
        *common,
        "--listen",
        asked.listen,
        "--output",
        reports,
        "--file-every",
        "1s",
    ]
    count = [
        *LDPBEAM,
        "run",
        *common,
        "--watch",
        reports,
        "--output",
        results,
        "--watermark-delay",
        asked.watermark_delay,
    ]
    # They end when they are told to, not when the terminal tells all of us: the collector first.
    collector = subprocess.Popen(collect, start_new_session=True)  # noqa: S603 - our own commands
    piped = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    counter = subprocess.Popen([*count, "--json"], **piped)  # noqa: S603 - likewise

    def stop(*_: object) -> None:
        for process in (collector, counter):
            process.send_signal(signal.SIGTERM)

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, stop)
    for line in counter.stdout or ():
        if json.loads(line)["event"] == "published" and any((results / "latest").glob("*")):
            show(results)
    stop()
    return max(collector.wait(), counter.wait())


if __name__ == "__main__":
    sys.exit(main())
