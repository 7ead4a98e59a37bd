"""examples/agent/ as a person runs it: two commands, from nothing to a histogram of this machine's load."""

from __future__ import annotations

import os
import re
import runpy
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from ldpbeam.collection.file import load_collection
from tests.conftest import FALSE_ALARM_SUITE, REPOSITORY
from tests.narrow import present
from tests.reference.fits import fits
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * PATIENCE)]

AGENT = REPOSITORY / "examples" / "agent"
DEVICES, EPOCHS = 120, 2
FALSE_ALARM = 1e-9
assert FALSE_ALARM <= FALSE_ALARM_SUITE


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def loads() -> int:
    return int(runpy.run_path(str(AGENT / "agent.py"))["load"]())


@pytest.mark.skipif(not hasattr(os, "getloadavg"), reason="the system has no load average")
def test_two_commands_lead_from_nothing_to_a_histogram(tmp_path: Path) -> None:
    """The collection of the example, but for epochs of 20 s: a minute's would take three."""
    text = (AGENT / "load.yaml").read_text("utf-8")
    quick = tmp_path / "load.yaml"
    quick.write_text(text.replace("length: 1m", "length: 20s"), "utf-8")
    address = f"127.0.0.1:{free_port()}"
    given = ["--collection", str(quick)]
    count = [
        sys.executable,
        str(AGENT / "histogram.py"),
        *given,
        "--listen",
        address,
        "--work",
        str(tmp_path / "work"),
    ]
    agent = [sys.executable, AGENT / "agent.py", *given, "--collector", f"http://{address}/v1/reports"]
    agent += ["--state", tmp_path / "state", "--devices", DEVICES, "--epochs", EPOCHS]
    held = {loads()}
    with subprocess.Popen(count, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as histogram:
        try:
            subprocess.run([*map(str, agent)], check=True, timeout=PATIENCE, cwd=REPOSITORY)
            held.add(loads())
            shown = read_histograms(histogram)
        finally:
            histogram.send_signal(signal.SIGTERM)
        rest = histogram.stdout.read() if histogram.stdout else ""
        assert histogram.wait(PATIENCE) == 0, rest
    agreed = load_collection(quick)
    assert agreed.domain is not None and agreed.domain.labels is not None
    own = present(agreed.protocol.estimator.support)
    rows = ds.dataset(tmp_path / "work" / "results" / "latest").to_table().to_pylist()
    assert {row["epoch"] for row in rows} == shown
    labels = agreed.domain.labels
    for epoch in shown:
        support = {row["label"]: row["support"] for row in rows if row["epoch"] == epoch}
        # All devices of a machine hold the same value; the load may have changed while they reported.
        between = labels[min(held) : max(held) + 1]
        truths = [{other: DEVICES * (other == label) for other in labels} for label in between]
        assert any(fits(support, truth, own, FALSE_ALARM) for truth in truths), (support, between)
        wrong = {label: DEVICES * (label == labels[min(held) - 1]) for label in labels}
        assert not fits(support, wrong, own, FALSE_ALARM)


def read_histograms(process: subprocess.Popen[str]) -> set[int]:
    """The epochs that are printed with all devices and all values; waits for as many as the agent reports."""
    rows: dict[int, set[str]] = {}
    complete: set[int] = set()
    epoch = -1
    assert process.stdout is not None
    for line in process.stdout:
        if start := re.match(r"epoch (\d+)", line):
            epoch = int(start[1])
        if row := re.fullmatch(rf"  (\w+) +[\d.]+%  \([-+.\d]+ to [-+.\d]+ of {DEVICES}\)  #*\n", line):
            rows.setdefault(epoch, set()).add(row[1])
            if len(rows[epoch]) == 5:
                complete.add(epoch)
        if len(complete) == EPOCHS:
            return complete
    raise AssertionError(f"the histogram ended after {rows}")
