"""Devices with the operating system's randomness: the only tests that draw real random numbers.

Each comparison is an exact binomial test. All of them together fail a correct device with
probability at most 1e-9 a run, and would miss a parameter that is 10 % off with probability at most
1e-6 (computed, not hoped).
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from scipy.stats import binom

from ldpbeam.protocols import Memo, Parameters, protocol
from ldpbeam.protocols.direct import GRR
from ldpbeam.protocols.local_hash import LOLOHA
from ldpbeam.protocols.unary import SUE
from ldpbeam.randomness import SystemRandomness
from tests.conftest import FALSE_ALARM_SUITE, REPOSITORY
from tests.narrow import frequencies

FALSE_ALARM = 1e-9
assert FALSE_ALARM <= FALSE_ALARM_SUITE
N = 30_000
COMPARISONS = 40
"""At least as many as this file makes; each has its share of the false alarms."""


def acceptance(n: int, p: float) -> tuple[int, int]:
    """Counts outside [low, high] have probability at most FALSE_ALARM / COMPARISONS under B(n, p)."""
    tail = FALSE_ALARM / COMPARISONS / 2
    return int(binom.ppf(tail, n, p)), int(binom.isf(tail, n, p))


def accepted(count: int, n: int, p: float) -> bool:
    low, high = acceptance(n, p)
    return low <= count <= high


def missed(n: int, stated: float, true: float) -> float:
    """Probability that a device with ``true`` passes as one with ``stated``."""
    low, high = acceptance(n, stated)
    return float(binom.cdf(high, n, true) - binom.cdf(low - 1, n, true))


@pytest.mark.parametrize("value", [0, 3])
def test_direct_reports_have_the_stated_channel(value: int) -> None:
    """GRR over 4 values, ε = 1: the count of every output is binomial with its stated probability."""
    built = protocol("grr", 4, Parameters(epsilon=1.0))
    randomness = SystemRandomness()
    counts = Counter(built.device.privatize(value, Memo(), randomness)[0] for _ in range(N))
    assert sum(counts.values()) == N
    for output in range(4):
        assert accepted(counts[output], N, float(built.law.likelihood(output, value))), (output, counts)


@pytest.mark.parametrize("name", ["sue", "oue"])
def test_unary_bits_have_the_stated_probabilities(name: str) -> None:
    """Bit 2 of 4 is held, the others are not; every bit's count is binomial."""
    built = frequencies(protocol(name, 4, Parameters(epsilon=1.0)))
    randomness = SystemRandomness()
    n = N // 2
    reports = [built.device.privatize(2, Memo(), randomness)[0] for _ in range(n)]
    for bit in range(4):
        count = sum(report >> bit & 1 for report in reports)
        p = built.estimator.support.own if bit == 2 else built.estimator.support.other
        assert accepted(count, n, float(p)), (bit, count)


def test_hash_supports_have_the_stated_probabilities() -> None:
    """LOLOHA with a new device each time: own and other, hash, seed and both rounds together."""
    built = frequencies(LOLOHA.from_parameters(9, Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0)))
    randomness = SystemRandomness()
    n = N // 2
    reports = [built.device.privatize(4, built.device.new_memo(randomness), randomness)[0] for _ in range(n)]
    for value in range(9):
        count = sum(built.law.supports(report, value) for report in reports)
        p = built.estimator.support.own if value == 4 else built.estimator.support.other
        assert accepted(count, n, float(p)), (value, count)


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_ten_percent_wrong_parameter_is_rejected(factor: float) -> None:
    """Power: the acceptance regions above exclude probabilities that are 10 % off."""
    grr = GRR.from_parameters(4, Parameters(epsilon=1.0))
    stated = float(grr.estimator.support.own)
    assert missed(N, stated, factor * stated) < 1e-6
    sue = SUE.from_parameters(4, Parameters(epsilon=1.0))
    assert missed(N // 2, float(sue.estimator.support.own), factor * float(sue.estimator.support.own)) < 1e-6


WORKERS = """
import os
from ldpbeam.randomness import SystemRandomness
randomness = SystemRandomness()
drawn = [randomness.word()]
pipes = []
for _ in range(4):
    read, write = os.pipe()
    if os.fork() == 0:
        words = [randomness.word() for _ in range(200)]
        os.write(write, b"".join(word.to_bytes(8, "little") for word in words))
        os._exit(0)
    os.close(write)
    pipes.append(read)
for read in pipes:
    with os.fdopen(read, "rb") as stream:
        data = stream.read()
    drawn += [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]
for _ in range(4):
    os.wait()
assert len(drawn) == 801, len(drawn)
assert len(set(drawn)) == 801
"""


def test_forked_workers_draw_distinct_words() -> None:
    """A generator with a buffer or a copied state would repeat the parent's noise in every child."""
    run = subprocess.run(
        [sys.executable, "-c", WORKERS], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("limit", [1, 2, 3, 2**63 + 1, 2**64])
def test_words_lie_below_their_limit(limit: int) -> None:
    """Every limit that a channel can ask for, the odd ones included."""
    randomness = SystemRandomness()
    words = [randomness.word(limit) for _ in range(200)]
    assert all(0 <= word < limit for word in words)
    if limit > 2**60:
        assert len(set(words)) == 200
