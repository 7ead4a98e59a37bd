"""Positional population counts, and the ones of each report, against unpacked bits."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.arrays import read_only, unused_bits
from ldpbeam.estimation.bit_counts import add_bits
from ldpbeam.kernels import bits, positional
from ldpbeam.kernels.check_codes import CheckCode


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


@pytest.mark.parametrize("width", [1, 7, 45, 1000, 1025, 2047, 2048, 2049, 5000])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_counts_are_right_around_whole_rows_and_blocks(width: int, more: int) -> None:
    """As many reports as fill 16 rows, or the rows of a few blocks, and one more or less; of any width."""
    draw = np.random.default_rng(width)
    beside = max(1, positional.COLUMNS // width)
    for n in (positional.ROWS * beside, 3 * positional.ROWS * beside, positional.ROWS, 2 * positional.ROWS):
        payloads = draw.integers(0, 256, (n + more, width), np.uint8)
        counts = np.zeros(8 * width - 3, np.int64)
        add_bits(payloads, counts)
        assert np.array_equal(counts, unpacked(payloads, counts.size))


@pytest.mark.parametrize("blocks", [1, 2, 254, 255, 256, 510, 511])
@pytest.mark.parametrize("more", [0, 3])
def test_cells_are_read_before_they_run_over(blocks: int, more: int) -> None:
    """All bits set: every carry is 1, and a cell holds at most 255 of them."""
    n = positional.ROWS * blocks + more
    payloads = np.full((n, 1100), 255, np.uint8)  # one report a row
    counts = np.zeros(8 * 1100 - 2, np.int64)
    add_bits(payloads, counts)
    assert (counts == n).all()
    # What is read after that is what comes next.
    some = positional.ROWS * (blocks // 2)
    payloads[some:] = 0
    add_bits(payloads, counts)
    assert (counts == n + some).all()


def codes_of(payloads: np.ndarray, k: int, least: int, most: int) -> list[int]:
    """The code of each report; one bit after the other."""
    plain = np.unpackbits(payloads, axis=1, bitorder="little")
    ones = plain.sum(axis=1, dtype=np.int64)
    codes = np.where((ones < least) | (ones > most), CheckCode.DEGENERATE, CheckCode.SOUND)
    codes[plain[:, k:].any(axis=1)] = CheckCode.UNUSED_BITS
    found: list[int] = codes.tolist()
    return found


def checked(payloads: np.ndarray, k: int, least: int, most: int) -> list[int]:
    codes = np.empty(len(payloads), np.uint8)
    rows = read_only(payloads).reshape(-1)
    bits.check_bits(rows, payloads.shape[1], unused_bits(k), least, most, codes)
    found: list[int] = codes.tolist()
    return found


@pytest.mark.parametrize("k", [1, 9, 63, 64, 65, 360, 505, 511, 512, 513, 1029, 5000, 16_387])
def test_reports_are_checked_wherever_they_lie(k: int) -> None:
    """Numbers of ones at every bound, and one off it, and bits beyond the domain."""
    draw = np.random.default_rng(k)
    n = min(1500, 400_000 // k) + 5
    payloads = np.packbits(draw.random((n, k)) < 0.5, axis=1, bitorder="little")
    ones = np.sort(np.unpackbits(payloads, axis=1).sum(axis=1, dtype=np.int64))
    spread = max(1, n // 100)
    least, most = int(ones[spread]), int(ones[-spread - 1])
    for beyond in (False, True) if k % 8 else (False,):
        if beyond:
            payloads[draw.choice(n, spread), -1] |= np.uint8(0x80)
        for rows in (payloads, payloads[:1], payloads[: n - 7], payloads[n // 2 :]):
            assert checked(rows, k, least, most) == codes_of(rows, k, least, most)
            plain = np.unpackbits(rows, axis=1).sum(axis=1, dtype=np.int64)
            found = np.full(2, 5, np.int64)
            bits.count_rare(read_only(rows).reshape(-1), rows.shape[1], least, most, found)
            assert found.tolist() == [5 + (plain >= most).sum(), 5 + (plain <= least).sum()]


_AT_THE_END_OF_MEMORY = """
import ctypes, mmap
import numpy as np
from ldpbeam.arrays import read_only
from ldpbeam.estimation.bit_counts import add_bits
from ldpbeam.kernels import bits

page = mmap.PAGESIZE
held = mmap.mmap(-1, 65 * page)
whole = np.frombuffer(held, np.uint8)
mprotect = ctypes.CDLL(None, use_errno=True).mprotect
assert not mprotect(ctypes.c_void_p(whole.ctypes.data + 64 * page), ctypes.c_size_t(page), 0)
for width in (1, 12, 45, 63, 64, 65, 128, 129):
    for n in {*range(1, 30), 64 * page // width}:
        payloads = whole[64 * page - n * width : 64 * page].reshape(n, width)
        codes, counts = np.empty(n, np.uint8), np.zeros(8 * width, np.int64)
        bits.check_bits(read_only(payloads).reshape(-1), width, 0, 0, 8, codes)
        assert not codes.any()
        add_bits(payloads, counts)
        assert not counts.any()
        found = np.zeros(2, np.int64)
        bits.count_rare(read_only(payloads).reshape(-1), width, -1, 1, found)
        assert not found.any()
print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="protects a page of memory as Linux does")
@pytest.mark.thorough
def test_nothing_behind_the_payloads_is_read() -> None:
    """Payloads that end where memory ends: reading further ends the process."""
    done = subprocess.run(
        [sys.executable, "-c", _AT_THE_END_OF_MEMORY], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
