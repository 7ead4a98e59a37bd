"""What a report costs on a device: time, state, import.

    python benchmarks/device.py [--reports 300]

Prints CPU microseconds per report for LOLOHA at k = 10⁶ and L-OSUE at k = 1,000, derived and stored: in
memory, which is all of a report but the disk, and with a state file and an outbox; the size of the state
after that; and the CPU milliseconds of ``import ldpbeam.client``. Each figure is the least of five runs: the
machine may have something else to do.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from ldpbeam.client import Device
from ldpbeam.client.device import Policy
from ldpbeam.client.drawn import DerivedDraws, StoredDraws
from ldpbeam.client.state import pack_state
from ldpbeam.client.store import MemoryStore
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import parse_collection

_YAML = """
name: device
domain: {{size: {size}}}
protocol: {protocol}
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {{length: 1h}}
"""
RUNS = 5


def in_memory(asked: Collection, memo: str) -> tuple[Device, MemoryStore]:
    """A device without a disk, in either mode, and its state."""
    store = MemoryStore()
    draws = DerivedDraws(asked, store.load().secret) if memo == "derived" else StoredDraws(asked)
    return Device(asked, store, draws, Policy(), 0), store


def microseconds(device: Device, values: int, reports: int) -> float:
    """CPU time per report; every report is about another value."""
    best = float("inf")
    for run in range(RUNS):
        start = time.process_time()
        for epoch in range(run * reports, (run + 1) * reports):
            device.report(7 * epoch % values, epoch)
        best = min(best, (time.process_time() - start) / reports * 1e6)
    return best


def import_milliseconds() -> float:
    """CPU time of the import, in processes of their own."""
    code = "import time; t = time.process_time(); import ldpbeam.client; print(time.process_time() - t)"

    def once() -> float:
        done = subprocess.run(  # noqa: S603 - this interpreter
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return float(done.stdout) * 1000

    return min(_times(once))


def _times(run: Callable[[], float]) -> list[float]:
    return [run() for _ in range(RUNS)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--reports", type=int, default=300, help="per run")
    reports = parser.parse_args().reports
    print(f"{'protocol':8} {'k':>9} {'memo':8} {'in memory':>12} {'with a file':>12} {'state':>8}")
    memos: tuple[Literal["derived", "stored"], ...] = ("derived", "stored")
    for protocol, size in (("loloha", 10**6), ("l_osue", 1000)):
        asked = parse_collection(_YAML.format(protocol=protocol, size=size))
        for memo in memos:
            device, store = in_memory(asked, memo)
            alone = microseconds(device, size, reports)
            state = len(pack_state(store.load()))
            with tempfile.TemporaryDirectory() as folder:
                kept = Device.open(asked, Path(folder) / "device", memo=memo, max_jump=float("inf"))
                filed = microseconds(kept, size, max(1, reports // 10))
            print(
                f"{protocol:8} {size:>9,} {memo:8} {alone:9.1f} µs {filed:9.0f} µs {state:>6,} B", flush=True
            )
    print(f"import ldpbeam.client: {import_milliseconds():.0f} ms")


if __name__ == "__main__":
    main()
