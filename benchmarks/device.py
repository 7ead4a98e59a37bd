"""What a report costs on a device: time, state, import.

    python benchmarks/device.py [--reports 300]

Prints microseconds per report for LOLOHA at k = 10⁶ and L-OSUE at k = 1,000, derived and stored: CPU time in
memory, which is all of a report but the disk; CPU time in a folder, with an outbox; and the time of a clock
there, most of which a report waits for the disk. Then the size of the state after that, and the CPU
milliseconds of ``import ldpbeam.client``. Each figure is the least of five runs: the machine may have
something else to do.
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
from ldpbeam.client.state import pack_state
from ldpbeam.client.storage import MemoryStorage
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
HEADS = ("in memory", "in a folder", "by a clock", "state")


def in_memory(asked: Collection, memo: Literal["derived", "stored"]) -> tuple[Device, MemoryStorage]:
    """A device without a disk, in either mode, and its state."""
    storage = MemoryStorage()
    return Device(asked, storage, memo, Policy(), 0), storage


def microseconds(device: Device, values: int, reports: int) -> tuple[float, float]:
    """CPU time and time of a clock per report; every report is about another value."""
    times = []
    for run in range(RUNS):
        cpu, clock = time.process_time(), time.perf_counter()
        for epoch in range(run * reports, (run + 1) * reports):
            device.report(7 * epoch % values, epoch)
        times.append((time.process_time() - cpu, time.perf_counter() - clock))
    cpu, clock = (min(both) / reports * 1e6 for both in zip(*times, strict=True))
    return cpu, clock


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
    print(f"{'protocol':8} {'k':>9} {'memo':8}", *(f"{one:>12}" for one in HEADS))
    memos: tuple[Literal["derived", "stored"], ...] = ("derived", "stored")
    for protocol, size in (("loloha", 10**6), ("l_osue", 1000)):
        asked = parse_collection(_YAML.format(protocol=protocol, size=size))
        for memo in memos:
            device, storage = in_memory(asked, memo)
            alone, _ = microseconds(device, size, reports)
            state = len(pack_state(storage.state))
            with tempfile.TemporaryDirectory() as folder:
                lasting = Device.open(asked, Path(folder) / "device", memo=memo, max_jump=float("inf"))
                cpu, clock = microseconds(lasting, size, max(1, reports // 10))
            figures = (f"{alone:.1f} µs", f"{cpu:.0f} µs", f"{clock:.0f} µs", f"{state:,} B")
            print(f"{protocol:8} {size:>9,} {memo:8}", *(f"{one:>12}" for one in figures), flush=True)
    print(f"import ldpbeam.client: {import_milliseconds():.0f} ms")


if __name__ == "__main__":
    main()
