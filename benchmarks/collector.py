"""Reports per second that a collector makes safe, how long devices wait, and whether its memory stays flat.

``wrk`` (Debian: apt-get install wrk) sends real reports over loopback, one per request and 100 per request,
with a client that keeps its connections. What was answered is counted again in the files: an answer that is
not on disk fails the benchmark.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import load_collection
from ldpbeam.collection.values import Index
from ldpbeam.simulators.fleet import Fleet
from ldpbeam.wire import codec, report_pb2

REPOSITORY = Path(__file__).parent.parent
COLLECTION = REPOSITORY / "examples" / "minutes_in_app.yaml"
SCRIPT = """
local bodies = {}
for line in io.lines("%s") do
  bodies[#bodies + 1] = line:gsub("..", function(pair) return string.char(tonumber(pair, 16)) end)
end
local at = 0
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/x-protobuf"
request = function()
  at = at %% #bodies + 1
  return wrk.format(nil, nil, nil, bodies[at])
end
done = function(summary, latency, requests)
  local e = summary.errors
  local format = '"requests": %%d, "micros": %%d, "p50": %%d, "p99": %%d, "max": %%d, "failed": %%d'
  io.write(string.format('RESULT {' .. format .. '}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency.max,
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


@dataclass(frozen=True)
class Load:
    """Figures of one load."""

    reports_per_request: int
    connections: int
    reports_per_second: float
    p50: float
    p99: float
    longest: float
    cpu_micros: float
    memory: tuple[float, float]


def bodies(agreed: Collection, per_request: int, count: int) -> Iterator[bytes]:
    """Serialised messages of a simulated fleet."""
    fleet = Fleet(agreed, per_request * count, 1, rows_per_batch=per_request)
    assert agreed.domain is not None
    values = np.random.default_rng(1).integers(0, agreed.domain.size, per_request * count).astype(np.int32)
    for batch in fleet.batches(Index(values), 0)[1]:
        if per_request == 1:
            one = report_pb2.Report(
                digest=agreed.digest, report_id=int(batch.report_ids[0]), payload=batch.payloads.tobytes()
            )
            yield one.SerializeToString()
        else:
            many = report_pb2.ReportBatch(
                digest=agreed.digest, count=per_request, payloads=batch.payloads.tobytes()
            )
            many.report_ids.extend(batch.report_ids.tolist())
            yield many.SerializeToString()


@contextmanager
def collector(output: Path) -> Iterator[tuple[int, int]]:
    """A collector in a process of its own; gives its port and process id."""
    command = [sys.executable, "-m", "ldpbeam", "collect", "--collection", str(COLLECTION)]
    command += ["--listen", "127.0.0.1:0", "--output", str(output), "--json"]
    process = subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["port"], process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(60) == 0


def memory(pid: int) -> float:
    """Resident MiB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


def cpu_seconds(pid: int) -> float:
    """User and system time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stored(output: Path) -> int:
    """Reports in the files."""
    total = 0
    for path in output.glob("reports-*.pb"):
        _, batches, _ = codec.parse(codec.frames(np.frombuffer(path.read_bytes(), np.uint8)))
        total += sum(batch.count for batch in batches)
    return total


def measure(folder: Path, agreed: Collection, per_request: int, connections: int, seconds: int) -> Load:
    """One load against a fresh collector."""
    lines, script, output = folder / "bodies.txt", folder / "post.lua", folder / secrets.token_hex(4)
    lines.write_text("".join(f"{body.hex()}\n" for body in bodies(agreed, per_request, 512)))
    script.write_text(SCRIPT % lines)
    with collector(output) as (port, pid):
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script)]
        wrk = subprocess.Popen(  # noqa: S603 - as above
            [*command, f"http://127.0.0.1:{port}/v1/reports"], stdout=subprocess.PIPE, text=True
        )
        before = cpu_seconds(pid)
        time.sleep(seconds / 5)
        early = memory(pid)
        time.sleep(seconds * 3 / 5)
        late = memory(pid)
        printed = wrk.communicate(timeout=seconds + 60)[0]
        used = cpu_seconds(pid) - before
    found = re.search(r"RESULT (.*)", printed)
    assert found, printed
    result = json.loads(found[1])
    assert result["failed"] == 0, result
    # wrk does not wait for the last answers, so a few more may be there.
    kept = stored(output)
    assert 0 <= kept - result["requests"] * per_request <= connections * per_request, (kept, result)
    shutil.rmtree(output)
    return Load(
        per_request,
        connections,
        result["requests"] * per_request / (result["micros"] / 1e6),
        result["p50"] / 1000,
        result["p99"] / 1000,
        result["max"] / 1000,
        1e6 * used / result["requests"],
        (early, late),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10, help="of each load")
    parser.add_argument("--connections", type=int, default=32)
    asked = parser.parse_args()
    if shutil.which("wrk") is None:
        print("skipped: wrk is not installed (Debian: apt-get install wrk)")
        return
    agreed = load_collection(COLLECTION)
    print("reports/request  connections  reports/s   p50 ms   p99 ms   max ms  CPU µs/request  memory MiB")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        for per_request in (1, 100):
            load = measure(Path(folder), agreed, per_request, asked.connections, asked.seconds)
            print(
                f"{load.reports_per_request:15}  {load.connections:11}  {load.reports_per_second:9,.0f}"
                f"  {load.p50:7.1f}  {load.p99:7.1f}  {load.longest:7.1f}  {load.cpu_micros:14.0f}"
                f"  {load.memory[0]:.0f} → {load.memory[1]:.0f}"
            )


if __name__ == "__main__":
    main()
