"""Positional population counts against unpacked bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.bit_counts import add_bits
from ldpbeam.degenerate import count_ones
from ldpbeam.kernels import positional


def unpacked(payloads: np.ndarray, k: int) -> np.ndarray:
    return np.unpackbits(payloads, axis=1, bitorder="little")[:, :k].sum(axis=0, dtype=np.int64)


@settings(max_examples=40)
@given(
    n=st.one_of(st.integers(0, 70), st.integers(0, 6000)),
    k=st.one_of(st.integers(1, 70), st.integers(1, 800), st.integers(5000, 20_000)),
    seed=st.integers(0, 1000),
    cut=st.integers(0, 6000),
)
def test_counts_are_those_of_unpacked_bits_in_any_parts(n: int, k: int, seed: int, cut: int) -> None:
    draw = np.random.default_rng(seed)
    n = min(n, 1_000_000 // k)
    payloads = draw.integers(0, 256, (n, -(-k // 8)), np.uint8)
    if seed % 3 == 0:
        payloads &= draw.integers(0, 256, payloads.shape, np.uint8)
    before = draw.integers(0, 100, k)
    counts = before.copy()
    add_bits(payloads, counts)
    assert np.array_equal(counts - before, unpacked(payloads, k))
    add_bits(payloads[:cut], before)
    add_bits(payloads[cut:], before)
    assert np.array_equal(counts, before)
    # What lies behind the payloads in memory is not theirs.
    part = before.copy()
    add_bits(payloads[: n // 2], part)
    assert np.array_equal(part - before, unpacked(payloads[: n // 2], k))
    assert np.array_equal(count_ones(payloads), np.unpackbits(payloads, axis=1).sum(axis=1, dtype=np.int64))


@pytest.mark.parametrize("blocks", [1, 2, 3, 255, 256, (1 << positional.DIGITS) - 2, 1 << positional.DIGITS])
def test_counters_are_read_before_they_run_over(blocks: int) -> None:
    """All bits set: every digit of every column's counter is used, and the 16-bit cells are full."""
    n = positional.ROWS * blocks + 3
    payloads = np.full((n, 705), 255, np.uint8)  # one report a row
    counts = np.zeros(8 * 705 - 2, np.int64)
    add_bits(payloads, counts)
    assert (counts == n).all()
    # What is read after that is what comes next.
    some = positional.ROWS * (blocks // 2)
    payloads[some:] = 0
    add_bits(payloads, counts)
    assert (counts == n + some).all()
