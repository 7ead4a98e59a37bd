"""Positional population counts against unpacked bits."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.arrays import read_only
from ldpbeam.channels.degenerate import count_ones
from ldpbeam.estimation.bit_counts import OnesBounds, add_bits, add_bits_and_look, masks_of
from ldpbeam.kernels import bits, positional
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.kernels.vectors import REPORTS


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


def looked_at(payloads: np.ndarray, k: int, bounds: OnesBounds) -> tuple[int, int, list[int]]:
    """How many reports have many ones, and few, and the code of each; one bit after the other."""
    plain = np.unpackbits(payloads, axis=1, bitorder="little")
    ones = plain.sum(axis=1, dtype=np.int64)
    codes = np.where((ones < bounds.least) | (ones > bounds.most), CheckCode.DEGENERATE, CheckCode.SOUND)
    codes[plain[:, k:].any(axis=1)] = CheckCode.UNUSED_BITS
    return int((ones >= bounds.many).sum()), int((ones <= bounds.few).sum()), codes.tolist()


def checked(payloads: np.ndarray, k: int, bounds: OnesBounds) -> list[int]:
    codes, ones = np.empty(len(payloads), np.uint8), np.empty(REPORTS, np.int64)
    rows = read_only(payloads).reshape(-1)
    bits.check_bits(rows, payloads.shape[1], masks_of(k), bounds.least, bounds.most, ones, codes)
    return codes.tolist()


# Reports of fewer bytes than a register holds, of just as many, and of more; with and without bits beyond.
WIDTHS = [1, 9, 63, 360, 505, 511, 512, 513, 520, 1016, 1024, 1025, 1030, 5000, 16_387]


@pytest.mark.parametrize("k", WIDTHS)
def test_reports_are_looked_at_in_the_pass_that_counts(k: int) -> None:
    """Numbers of ones at every bound, and one off it, and bits beyond the domain, wherever a report lies."""
    draw = np.random.default_rng(k)
    n = min(1500, 400_000 // k) + 5
    payloads = np.packbits(draw.random((n, k)) < 0.5, axis=1, bitorder="little")
    ones = np.sort(np.unpackbits(payloads, axis=1).sum(axis=1, dtype=np.int64))
    spread = max(1, n // 100)
    few, many = int(ones[spread]), int(ones[-spread - 1]) + 1
    bounds = OnesBounds(max(few - 1, 0), max(many, few + 1), few, max(many, few + 1))
    for beyond in (False, True) if k % 8 else (False,):
        if beyond:
            payloads[draw.choice(n, spread), -1] |= np.uint8(0x80)
        for rows in (payloads, payloads[:1], payloads[: n - 7], payloads[n // 2 :]):
            counts = np.zeros(k, np.int64)
            looked = add_bits_and_look(rows, counts, bounds)
            assert np.array_equal(counts, unpacked(rows, k))
            above, below, codes = looked_at(rows, k, bounds)
            assert (looked.many, looked.few, looked.sound) == (above, below, not any(codes))
            assert checked(rows, k, bounds) == codes


@pytest.mark.parametrize("k", [13, 360, 509, 1029])
def test_a_report_that_no_device_sends_is_seen_wherever_it_lies(k: int) -> None:
    """Each place by itself, in a batch that ends in some blocks, a part of one, and a part of a register."""
    row_bytes = -(-k // 8)
    n = 2 * positional.ROWS * max(1, 704 // row_bytes) + 21
    bounds = OnesBounds(1, k - 1, 0, k)
    sound = np.zeros((n, row_bytes), np.uint8)
    sound[:, 0] = 1
    full = np.packbits(np.ones(k, bool), bitorder="little")
    refused = [(full, CheckCode.DEGENERATE), (np.zeros_like(full), CheckCode.DEGENERATE)]
    if k % 8:
        refused.append(
            (sound[0] | np.uint8(0x80) * (np.arange(row_bytes) == row_bytes - 1), CheckCode.UNUSED_BITS)
        )
    for row, code in refused:
        for place in (*range(40), *range(n // 2, n // 2 + 40), *range(n - 40, n)):
            payloads = sound.copy()
            payloads[place] = row
            looked = add_bits_and_look(payloads, np.zeros(k, np.int64), bounds)
            assert not looked.sound
            assert (looked.many, looked.few) == (int(row is full), int(not row.any()))
            codes = checked(payloads, k, bounds)
            assert codes.pop(place) == code
            assert not any(codes)


_AT_THE_END_OF_MEMORY = """
import ctypes, mmap
import numpy as np
from ldpbeam.arrays import read_only
from ldpbeam.estimation.bit_counts import OnesBounds, add_bits_and_look, masks_of
from ldpbeam.channels.degenerate import count_ones
from ldpbeam.kernels import bits

page = mmap.PAGESIZE
held = mmap.mmap(-1, 65 * page)
whole = np.frombuffer(held, np.uint8)
mprotect = ctypes.CDLL(None, use_errno=True).mprotect
assert not mprotect(ctypes.c_void_p(whole.ctypes.data + 64 * page), ctypes.c_size_t(page), 0)
for width in (1, 12, 45, 63, 64, 65, 128, 129):
    for n in {*range(1, 30), 64 * page // width}:
        payloads = whole[64 * page - n * width : 64 * page].reshape(n, width)
        assert not count_ones(payloads).any()
        codes, ones = np.empty(n, np.uint8), np.empty(8, np.int64)
        bits.check_bits(read_only(payloads).reshape(-1), width, masks_of(8 * width), 0, 8, ones, codes)
        assert not codes.any()
        assert add_bits_and_look(payloads, np.zeros(8 * width, np.int64), OnesBounds(0, 8, -1, 9)).sound
print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="protects a page of memory as Linux does")
def test_nothing_behind_the_payloads_is_read() -> None:
    """Payloads that end where memory ends: reading further ends the process."""
    done = subprocess.run(
        [sys.executable, "-c", _AT_THE_END_OF_MEMORY], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
