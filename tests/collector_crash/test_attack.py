"""Slow and idle clients of one address, with default options, shut nobody out."""

from __future__ import annotations

import http.client
import resource
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ldpbeam.collection.file import parse_collection
from tests.collector_crash.forks import forks
from tests.ldpbeam.collector.serving import TYPE, report
from tests.waiting import PATIENCE, slowness

YAML = "{name: one, domain: {size: 4}, protocol: grr, epsilon: 1, epoch: {length: 36500d, count: 2}}"
HEAD = "POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n"
DECLARED = HEAD.format(TYPE["Content-Type"], 1 << 20).encode()
ATTACKS = {
    "bodies that are declared": (64, DECLARED + b"x"),
    "bodies that lack a byte": (70, DECLARED + bytes((1 << 20) - 1)),
    "idle connections": (1100, b""),
    "slow readers": (1100, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 30),
}


@pytest.mark.thorough
def test_no_attack_shuts_devices_out(tmp_path: Path) -> None:
    body = report(7, digest=parse_collection(YAML).digest)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3000:
        pytest.skip("this process may not open so many connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3000), hard))
    with forks(tmp_path, YAML) as warm:
        collector = warm.fork("collect")
        assert warm.listening(collector)
        worst = {
            name: longest_answer(warm.ports[collector], *attack, body) for name, attack in ATTACKS.items()
        }
    # A machine is several times slower beside other suites; those shut out waited for 20 seconds or more.
    assert max(worst.values()) < 4 * slowness(), worst


def longest_answer(port: int, count: int, sent: bytes, body: bytes) -> float:
    """Seconds that the slowest of 20 reports takes while so many connections have sent this and no more."""
    worst = 0.0
    with ExitStack() as stack:
        for _ in range(count):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
            with suppress(OSError):  # it made way
                line.sendall(sent)
        for _ in range(20):
            began = time.monotonic()
            device = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            device.request("POST", "/v1/reports", body, TYPE)
            assert device.getresponse().status == 204
            device.close()
            worst = max(worst, time.monotonic() - began)
    return worst
