"""Binomial limits against halving, and against the equation that they solve."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Barrier

import numba
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import betainc, betaincc, betainccinv, betaincinv
from scipy.stats import binom

from ldpbeam import binomial
from ldpbeam.binomial import Limits, limits
from ldpbeam.clopper_pearson import clopper_pearson
from ldpbeam.estimates import estimate
from ldpbeam.kernels import binomial as kernels
from ldpbeam.kernels._vectors import along_rows, polynomial
from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol
from tests.ldpbeam.binomial_limits import binomial_limits
from tests.reference import binomial as reference

PAIRS = [(0.4, 1e-12), (0.025, 1e-5), (0.025, 2.5e-8)]
"""Tail areas; the last pair is that of a million values."""

SIZES = (1, 2, 3, 5, 10, 17, 50, 63, 64, 65, 300, 10**4, 10**6, 10**10)


def settings(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts and splits: both ends, the middle, few, many; and splits at the ends and beside one half."""
    draw = np.random.default_rng(n)
    ends = np.concatenate([np.arange(8), n - np.arange(8), [n // 2, n // 2 + 1, 511, 512]])
    many = 12 if n < 10**6 else 2  # halving takes long there
    drawn = np.concatenate([draw.poisson(20, many), draw.poisson(200, many), draw.integers(0, n + 1, many)])
    counts = np.unique(np.clip(np.concatenate([ends, drawn]), 0, n))
    splits = [0.5, np.nextafter(0.5, 1), 1e-9, 2.0**-40, 1 - 1e-9, 1e-4, *draw.random(4)]
    return np.repeat(counts, len(splits)), np.tile(splits, counts.size)


def assert_close(
    count: np.ndarray, n: np.ndarray, ties: np.ndarray, tails: tuple[float, float], slack: float = 1e-9
) -> None:
    """To a billionth of a report or of an interval's width: far within what a published limit may move by."""
    low, high = binomial_limits(count, n, ties, tails)
    left, right = reference.binomial_limits(count, n, ties, np.array(tails))
    # Beside 1 the spacing of floats is wider than that, from 10**6 reports on; and from millions of supports
    # on, digits are lost in the incomplete beta function itself.
    slacks = slack * np.maximum(right - left, 1.0 / n) + 2.0**-51
    for found, slow in ((low, left), (high, right)):
        assert (np.abs(found - slow) <= slacks).all()
    assert ((low >= 0) & (low <= high) & (high <= 1)).all()


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize("tails", PAIRS)
@pytest.mark.parametrize("n", SIZES)
def test_limits_are_those_found_by_halving(n: int, tails: tuple[float, float]) -> None:
    counts, ties = settings(n)
    # No published one is at 1e-12.
    assert_close(counts, np.full(counts.size, n), ties, tails, slack=1e-8 if tails[1] < 1e-8 else 1e-9)


@pytest.mark.parametrize("tails", PAIRS[1:])
def test_limits_are_right_in_every_cell_of_a_few_counts(tails: tuple[float, float]) -> None:
    """Splits at both ends and in the middle of each cell, and numbers of reports within their ranges."""
    cells = np.concatenate([binomial._splits(octaves) for octaves in range(14)])
    splits = np.unique(np.clip(cells[:, [0, 4, 9]].ravel(), 1e-12, 1 - 1e-12))
    splits = splits[:: splits.size // 60]
    for count in (1, 2, 3, 5, 9, 17, 40):
        for n in (17, max(64, 2 * count), 143, 64 * (count + 24), 10**7):
            known = np.full(splits.size, max(n, 2 * count))
            assert_close(np.full(splits.size, count), known, splits, tails)


def test_limits_are_right_all_along_ranges_of_reports_and_counts() -> None:
    draw = np.random.default_rng(1)
    n = np.unique(np.concatenate([np.arange(2, 300), (2 ** draw.uniform(8, 24, 100)).astype(np.int64)]))
    for count in (n // 2, np.minimum(n // 2, draw.poisson(30, n.size)), n - n // 7):
        assert_close(count, n, draw.random(n.size), (0.025, 1e-5))
    many = np.unique((2 ** draw.uniform(8.9, 11, 100)).astype(np.int64))
    assert_close(many, np.full(many.size, 4099), draw.random(many.size), (0.025, 1e-5))


def test_small_limits_keep_their_digits() -> None:
    """Below 1e-4 the slack of the tests above would hide a limit of half its size."""
    n = 10**10
    counts, ties = settings(n)
    few = counts < 100
    counts, ties = counts[few], ties[few]
    reports = np.full(counts.size, n)
    found = binomial_limits(counts, reports, ties, PAIRS[1])
    slow = reference.binomial_limits(counts, reports, ties, np.array(PAIRS[1]))
    for some, others in zip(found, slow, strict=True):
        np.testing.assert_allclose(some, others, rtol=1e-9, atol=1e-10 / n)


def test_limits_hold_down_to_the_least_tail_areas() -> None:
    """Far below any that is asked for they may be wrong, but come to an end; down to 1e-20 they are right."""
    counts = np.arange(1, 30)
    reports, ties = np.full(counts.size, 10**6), np.tile([0.3], counts.size)
    tails = (1e-17, 1e-20)
    low, high = binomial_limits(counts, reports, ties, tails)
    below = binom.cdf(counts - 1, reports, high) + 0.7 * binom.pmf(counts, reports, high)
    above = binom.sf(counts, reports, low) + 0.3 * binom.pmf(counts, reports, low)
    for areas in (below, above):
        np.testing.assert_allclose(areas, np.broadcast_to(np.array(tails)[:, None], areas.shape), rtol=1e-6)
    binomial_limits(counts, reports, ties, (1e-60, 1e-300))


@pytest.mark.parametrize("octaves", [0, 1, 3, 8])
def test_nodes_lie_where_a_kernel_looks_for_their_cell(octaves: int) -> None:
    height = 0.5**octaves
    nodes, side = binomial._nodes(kernels.SPLITS), np.nextafter(0.5 + height, 0)
    splits, met = binomial._splits(octaves), set()
    for cell, row in enumerate(splits):
        # The last cells reach beyond the middle, where no split is looked for.
        inside = row >= 0.5 if cell % 2 else row <= 0.5
        for split, node in zip(row[inside], nodes[inside], strict=True):
            found, y = kernels._cell(split, height, side)
            assert (found, y) == (cell, pytest.approx(node, abs=1e-9))
            met.add(cell)
    for split in (1e-300, 1 - 2.0**-53, 0.5, np.nextafter(0.5, 1)):
        met.add(kernels._cell(split, height, side)[0])
    assert met == set(range(len(splits)))


def test_a_tie_that_falls_to_one_side_leaves_the_limits_of_clopper_and_pearson() -> None:
    """At split 1 those of the count, at split 0 those of the next one."""
    n, tails = 200, (0.025, 1e-5)
    count = np.arange(1, n)
    for tie, shift in ((1.0, 0), (0.0, 1)):
        low, high = binomial_limits(count, np.full(count.size, n), np.full(count.size, tie), tails)
        a, b = count + shift, n - count - shift + 1
        for level, tail in enumerate(tails):
            np.testing.assert_allclose(low[level], betaincinv(a, b, tail), rtol=1e-9, atol=1e-10 / n)
            np.testing.assert_allclose(high[level], betainccinv(a, b, tail), rtol=1e-9)


def test_limits_are_right_where_scipy_is_wrong_about_clopper_and_pearson() -> None:
    """A count of 1000 of 10105 has an upper limit of 0.105, not of 0.250."""
    _, high = binomial_limits(np.array([1000]), np.array([10_105]), np.array([0.99]), (0.025, 1e-5))
    assert high[0, 0] == pytest.approx(0.10485, abs=1e-5)


def test_a_series_whose_last_coefficient_vanishes_is_not_trusted_far() -> None:
    def series(at: float) -> tuple[float, float]:
        """The last coefficient, and the reach."""
        coefficients = np.full(kernels.COEFFICIENTS, 0.02)
        reach = kernels._expand.py_func(coefficients, kernels.OVER, at, 5.0, 100.0)
        return coefficients[kernels.OVER.size, 0], reach

    splits = np.linspace(0.05, 0.95, 60)
    changes = [pair for pair in pairwise(splits) if series(pair[0])[0] * series(pair[1])[0] < 0]
    assert changes
    for low, high in changes:
        begin, end = float(low), float(high)
        for _ in range(60):
            middle = (begin + end) / 2
            begin, end = (begin, middle) if series(begin)[0] * series(middle)[0] < 0 else (middle, end)
        assert abs(series(begin)[0]) < 1e-9 * max(abs(series(float(low))[0]), abs(series(float(high))[0]))
        assert series(begin)[1] < 1.5 * max(series(float(low))[1], series(float(high))[1])


def test_curves_solve_the_equation_at_every_target() -> None:
    """Also for numbers of reports and counts that are not whole, and at both ends of the split."""
    counts, reports = np.array([1.0, 3.5, 28.0, 700.25]), np.array([2.5, 16.2, 10_000.7, 1_500.1])
    tails, splits = np.array([0.025, 1e-5]), np.array([1.0, 1.0, 0.9, 0.31, 1e-3, 1e-9, 0.0])
    begins = clopper_pearson(counts, reports, tails)
    found, scratch = np.empty((4, splits.size, 4)), np.empty(kernels.COEFFICIENTS)
    kernels.curves(counts, reports, begins, splits, kernels.OVER, scratch, found)
    assert np.array_equal(found[:, 0], begins)
    c, n = counts[:, None, None], reports[:, None, None]
    t = splits[None, :, None]
    low, high = found[..., :2], found[..., 2:]
    lower = t * betainc(c, n - c + 1, low) + (1 - t) * betainc(c + 1, n - c, low)
    upper = t * betaincc(c, n - c + 1, high) + (1 - t) * betaincc(c + 1, n - c, high)
    np.testing.assert_allclose(lower, np.broadcast_to(tails, lower.shape), rtol=1e-9)
    np.testing.assert_allclose(upper, np.broadcast_to(tails, upper.shape), rtol=1e-9)


@pytest.mark.parametrize("length", [2, 4, 6, 10])
def test_polynomials_of_vectors_are_those_of_numbers_bit_for_bit(length: int) -> None:
    cells = np.random.default_rng(2).normal(size=(5, 4 * length))
    function = polynomial(length)

    @numba.njit
    def value(cells: np.ndarray, at: int, x: float) -> tuple[float, ...]:
        return function(cells, at, x)

    def powers(row: np.ndarray, square: float) -> float:
        found = 0.0
        for coefficient in row[::-1]:
            found = found * square + coefficient
        return found

    for at, x in ((0, -0.7), (4, 1.0), (2, 0.0), (3, 0.123)):
        rows = cells[at].reshape(length, 4).T
        expected = [powers(row[1::2], x * x) * x + powers(row[::2], x * x) for row in rows]
        assert list(value(cells, at, x)) == expected
        np.testing.assert_allclose(expected, [np.polynomial.Polynomial(row)(x) for row in rows], rtol=1e-12)


@pytest.mark.parametrize("orders", [3, 6])
def test_polynomials_along_rows_are_those_of_numbers_bit_for_bit(orders: int) -> None:
    """And nothing but the row that is asked for is written."""
    cells, x = np.random.default_rng(2).normal(size=(5, 6, 40)), 0.37
    function = along_rows(40, orders)

    @numba.njit
    def write(cells: np.ndarray, at: int, x: float, out: np.ndarray) -> None:
        function(cells, at, x, out)

    for at in (0, 2, 4):
        out = np.full((5, 40), np.nan)
        write(cells, at, x, out)
        expected = np.zeros(40)
        for coefficients in cells[at, :orders][::-1]:
            expected = expected * x + coefficients
        assert out[at].tolist() == expected.tolist()
        assert np.isfinite(out).all(1).sum() == 1


ALMOST_1 = 1 - 2.0**-52
"""n times 1/n is not always 1."""


@example(n=1, share=1.0, tie=0.25, tails=PAIRS[0])
@example(n=1609, share=1.0, tie=0.5, tails=PAIRS[0])
@given(
    n=st.integers(1, 2000),
    share=st.floats(0, 1),
    tie=st.floats(1e-6, 1 - 1e-6),
    tails=st.sampled_from(PAIRS),
)
def test_the_tail_areas_are_as_asked(n: int, share: float, tie: float, tails: tuple[float, float]) -> None:
    count = round(share * n)
    found = binomial_limits(np.array([count]), np.array([n]), np.array([tie]), tails)
    for tail, low, high in zip(tails, *(bound[:, 0].tolist() for bound in found), strict=True):
        if low > 0:
            area = binom.sf(count, n, low) + tie * binom.pmf(count, n, low)
            # A billionth of a report moves the area by more where the limit is a small part of one.
            reached = area == pytest.approx(tail, rel=1e-6 + 1e-8 / (n * low))
            # A split tail can also be too small for every p.
            assert reached or (low >= ALMOST_1 and count == n and area <= tail * (1 + 1e-9))
        else:  # only a split tail can be too large for every p
            assert count == 0
            assert tie >= tail * (1 - 1e-9)
        if high < ALMOST_1:
            area = binom.cdf(count - 1, n, high) + (1 - tie) * binom.pmf(count, n, high)
            reached = area == pytest.approx(tail, rel=1e-6 + 1e-8 / (n * (1 - high)))
            assert reached or (high == 0 and area <= tail * (1 + 1e-9))
        else:
            assert count == n
            assert 1 - tie >= tail * (1 - 1e-9)


@given(data=st.data())
def test_a_limit_does_not_depend_on_what_stands_beside_it(data: st.DataObject) -> None:
    """Bit for bit: a result may be estimated in any parts, after any others."""
    draw = np.random.default_rng(data.draw(st.integers(0, 1000)))
    size = 300
    n = draw.choice([7, 90, 5000], size) if data.draw(st.booleans()) else np.full(size, 5000)
    counts = np.minimum(draw.choice([draw.poisson(4, size), draw.poisson(900, size)]), n)
    ties, tails = draw.random(size), (0.025, 1e-6)
    together = np.concatenate(binomial_limits(counts, n, ties, tails, Limits(tails)))
    some = draw.permutation(size)[: data.draw(st.integers(1, size))]
    found_by = Limits(tails)
    for part in (some[: some.size // 2], some[some.size // 2 :]):
        alone = np.concatenate(binomial_limits(counts[part], n[part], ties[part], tails, found_by))
        assert np.array_equal(together[:, part], alone)


def test_limits_are_the_same_after_cells_were_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded, however many numbers of reports there are."""
    draw = np.random.default_rng(4)
    n = draw.integers(2, 5_000, 3_000)
    counts, ties, tails = np.minimum(draw.poisson(20, n.size), n), draw.random(n.size), (0.025, 1e-6)
    kept = Limits(tails)
    together = np.concatenate(binomial_limits(counts, n, ties, tails, kept))
    monkeypatch.setattr(binomial, "_MOST", 500)
    forgetful, sizes = Limits(tails), []
    for part in np.array_split(np.arange(n.size), 100):
        alone = np.concatenate(binomial_limits(counts[part], n[part], ties[part], tails, forgetful))
        sizes.append(forgetful._used)
        assert np.array_equal(together[:, part], alone)
    assert np.diff(sizes).min() < 0
    assert max(sizes) < 3_000 < kept._used
    assert len(forgetful._cells) <= 2 * max(sizes)
    # One call may need more than that.
    whole = np.concatenate(binomial_limits(counts, n, ties, tails, forgetful))
    assert np.array_equal(together, whole)


def test_cells_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where more are missing than are made at once, and each range is asked for by many values."""
    made = 0
    curves = kernels.curves

    def counted(counts: np.ndarray, *rest: np.ndarray) -> None:
        nonlocal made
        made += counts.size
        curves(counts, *rest)

    monkeypatch.setattr(kernels, "curves", counted)
    n = np.repeat(np.arange(40, 1_020), 2)
    counts, tails, found_by = np.tile(np.arange(6, 16), n.size // 10), (0.025, 1e-6), Limits((0.025, 1e-6))
    assert made == 0
    binomial_limits(counts, n, np.full(n.size, 0.5), tails, found_by)
    ranges = {(int(kernels._row(one)[0]), int(c)) for one, c in zip(n, counts, strict=True)}
    assert len(ranges) > binomial._AT_ONCE
    # Six numbers of reports for each range, or three where there are so many.
    assert 3 * len(ranges) <= made <= 6 * len(ranges)
    before = made
    binomial_limits(counts, n, np.full(n.size, 0.25), tails, found_by)
    assert made == before


def test_cells_that_could_not_be_made_are_made_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    count, n, tie, tails = np.array([3, 20]), np.array([500, 500]), np.array([0.2, 0.7]), (0.025, 1e-6)
    found_by = Limits(tails)
    with monkeypatch.context() as patch:
        patch.setattr(binomial, "clopper_pearson", None)
        with pytest.raises(TypeError):
            binomial_limits(count, n, tie, tails, found_by)
    expected = np.concatenate(binomial_limits(count, n, tie, tails, Limits(tails)))
    assert np.isfinite(expected).all()
    assert np.array_equal(np.concatenate(binomial_limits(count, n, tie, tails, found_by)), expected)


def test_threads_find_the_same_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while cells are made, moved to more room and forgotten."""
    monkeypatch.setattr(binomial, "_MOST", 2_000)
    monkeypatch.setattr(binomial, "_TOGETHER", 300)
    draw = np.random.default_rng(5)
    n = draw.integers(2, 50_000, 2_000)
    counts, ties, tails = np.minimum(draw.poisson(20, n.size), n), draw.random(n.size), (0.025, 3e-6)
    begin, shared = Barrier(4), Limits(tails)
    expected = np.concatenate(binomial_limits(counts, n, ties, tails, Limits(tails)))

    def found(_: int) -> np.ndarray:
        begin.wait()
        parts = [
            np.concatenate(binomial_limits(counts[part], n[part], ties[part], tails, shared))
            for part in np.array_split(np.arange(n.size), 40)
        ]
        return np.concatenate(parts, axis=1)

    with ThreadPoolExecutor(4) as pool:
        for bounds in pool.map(found, range(4)):
            assert np.array_equal(bounds, expected)


def test_a_child_process_does_not_wait_for_a_thread_of_its_parent() -> None:
    tails = (0.025, 4e-6)
    with limits(tails)._turn:
        child = os.fork()
        if child == 0:
            os._exit(0 if not limits(tails)._turn.locked() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_each_kernel_is_compiled_for_one_kind_of_arguments() -> None:
    """Compiling again would cost a second; arrays of one element or one range must not differ from others."""
    for size in (1, 2, 300):
        draw = np.random.default_rng(size)
        n = draw.integers(1, 3_000, size)
        binomial_limits(np.minimum(draw.poisson(300, size), n), n, draw.random(size), (0.03, 1e-5))
        estimate(np.arange(size), 2 * size, protocol("grr", 100, Parameters(epsilon=1.0)).support)
    assert len(kernels.curves.signatures) == 1
    assert len(kernels.widen.signatures) == 1


def test_only_few_counts_have_limits() -> None:
    """Below the bound, and where there are reports."""
    n, counts = np.array([0, 10, 99, 100, 101]), np.array([0, 3, 3, 3, 3])
    found = np.array([np.full(5, bound) for bound in (7.0, 7.0, 0.5, 0.25, 0.5, 0.25)])
    values = counts.copy(), n.copy(), np.full(5, 0.5)
    Limits((0.025, 1e-5)).widen(values, (0.5, 50.0), (1.0, 0.0, 1.0, 0.0), found)
    assert (found[:2] == 7.0).all()
    for low in found[2::2]:
        assert (low < 0.5).tolist() == [False, True, True, False, False]
    assert (found[5] > 0.25).tolist() == [False, True, False, False, False]


def test_what_is_no_count_has_no_limits() -> None:
    """Sums of cells that nobody counted can be anything; they must not be looked up."""
    counts = np.array([-1, -10_000, 31, 10**9, 3])
    low, high = binomial_limits(counts, np.full(5, 30), np.full(5, 0.5), (0.025, 1e-5))
    assert np.isfinite(low).all(0).tolist() == [False] * 4 + [True]
    assert np.isfinite(high).all(0).tolist() == [False] * 4 + [True]


def _published() -> Iterator[tuple[FrequencyProtocol, int]]:
    two = {"epsilon_longitudinal": 3.0, "epsilon_first": 1.0}
    for n in (1, 100, 10_336):
        yield protocol("grr", 200, Parameters(epsilon=2.0)), n
        yield protocol("l_grr", 360, Parameters(**two)), n
        yield protocol("oue", 96, Parameters(epsilon=5.0)), n
        yield protocol("loloha", 360, Parameters(**two)), n
        yield protocol("blh", 50, Parameters(epsilon=8.0)), n


def test_published_intervals_are_those_found_by_halving() -> None:
    """Both published intervals of protocols whose counts are few for want of reports, or of noise."""
    from ldpbeam.estimates import FEW
    from tests.reference.estimates import limits as slow_limits

    for kind, n in _published():
        draw = np.random.default_rng(n)
        size = kind.domain_size
        chances = np.where(np.arange(size) % 9, float(kind.support.other), float(kind.support.own))
        support, ties = draw.binomial(n, chances), draw.random(size)
        fast, reports = estimate(support, n, kind.support, ties), np.full(size, n)
        for level, bounds in (
            (0.95, (fast.low, fast.high)),
            (1 - 0.05 / size, (fast.low_all, fast.high_all)),
        ):
            for found, slow in zip(
                bounds, slow_limits(support, reports, kind.support, ties, level, FEW), strict=True
            ):
                assert (np.abs(found - slow) <= 1e-9 * np.maximum(1.0, np.abs(slow))).all()
