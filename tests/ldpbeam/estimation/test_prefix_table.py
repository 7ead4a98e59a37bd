"""A level's table: looks, the law of strings of nobody, and parts that are taken out."""

from __future__ import annotations

from itertools import product
from math import sqrt

import numpy as np
import pytest
from scipy.stats import norm

from ldpbeam.estimation.prefix_plan import FALSE_FINDS
from ldpbeam.estimation.prefix_table import LevelCounts, PrefixTable, Reading, sum_of_moments, threshold
from ldpbeam.hashing import ListedFamily
from tests.reference.counting import affine_hash

FUNCTIONS = 1 << 10


def table_of(counts: np.ndarray, own: float, names: dict[str, int] | None = None) -> PrefixTable:
    """With the first functions of the list; texts are numbers, or have fingerprints by name."""
    words = ListedFamily(2, 9, FUNCTIONS).words()
    a, c = (word[: len(counts)].copy() for word in words)
    prints = lambda _, texts: np.array([(names or {}).get(t) or int(t) for t in texts], np.uint32)  # noqa: E731
    return PrefixTable(LevelCounts(3, 0.5, counts), Reading(("a",), own, (a, c), prints), 0)


def symbols_of(table: PrefixTable, fingerprint: int, functions: int) -> list[int]:
    a, c = (word.tolist() for word in ListedFamily(2, 9, FUNCTIONS).words())
    return [affine_hash(a[f], c[f], fingerprint, table.g) for f in range(functions)]


def test_support_and_residuals_are_looks_at_each_function() -> None:
    counts = np.random.default_rng(1).integers(0, 90, (FUNCTIONS, 5))
    table = table_of(counts, 0.6)
    prints = np.array([0, 77, (1 << 32) - 1], np.uint32)
    for i, fingerprint in enumerate(prints.tolist()):
        looked = [int(counts[f, y]) for f, y in enumerate(symbols_of(table, fingerprint, FUNCTIONS))]
        assert table.support(prints)[i] == sum(looked)
        assert table.excess(prints)[i] == pytest.approx(sum(looked) - table.n / 5)
        share = (sum(looked) / table.n - 1 / 5) / (0.6 - 1 / 5)
        expected = np.array(looked) - counts.sum(axis=1) * (1 / 5 + (0.6 - 1 / 5) * share)
        assert np.allclose(table.residuals(prints)[i], expected)
    assert table.unit == pytest.approx(table.n * 0.4)


def test_strings_of_nobody_have_one_random_cell_of_each_row() -> None:
    counts = np.array([[3, 0, 9], [4, 4, 1], [0, 0, 7], [2, 8, 1]])
    table = table_of(counts, 0.6)
    sums = np.array([sum(some) for some in product(*counts.tolist())]) - table.n / 3
    expected = [(sums**power).mean() for power in (2, 3)]
    assert abs(sums.mean()) < 1e-12
    assert np.allclose(table.moments(), expected)
    assert np.allclose(sum_of_moments([table, table]), 2 * np.array(expected))


@pytest.mark.parametrize("g", [2, 4, 16])
@pytest.mark.parametrize("n", [300, 1024])
@pytest.mark.parametrize("quantile", [4.0, 5.3])
def test_thresholds_are_those_of_the_exact_law(n: int, g: int, quantile: float) -> None:
    """One report of each function: the support of a string of nobody is binomial."""
    from scipy.stats import binom, norm

    table = table_of(np.eye(g, dtype=np.int64)[np.arange(n) % g], 0.6)
    least = table.n / g + threshold(quantile, table.moments())
    chance = binom.sf(np.ceil(least) - 1, n, 1 / g)
    # No more than asked for, but for the steps of so few reports; and a count or two lower it would be more.
    assert chance < 1.25 * norm.sf(quantile)
    assert binom.sf(np.floor(least) - 3, n, 1 / g) > norm.sf(quantile)


def test_parts_of_frequent_strings_are_taken_out() -> None:
    g, own, shares = 8, 0.5, {11: 0.3, 12: 0.1, 13: 0.02}
    table = table_of(np.zeros((FUNCTIONS, g), np.int64), own)
    lie, expected = (1 - own) / (g - 1), np.full((FUNCTIONS, g), 1 / g)
    for fingerprint, share in shares.items():
        expected -= share / g * (own - lie)
        expected[np.arange(FUNCTIONS), symbols_of(table, fingerprint, FUNCTIONS)] += share * (own - lie)
    rows = 10**7 + 10**5 * (np.arange(FUNCTIONS) % 7)
    table = table_of(np.rint(expected * rows[:, None]).astype(np.int64), own)
    prints = np.array([*shares, 14, 15], np.uint32)
    before = table.excess(prints) / table.unit
    assert np.abs(before[:3] - [*shares.values()]).max() > 1e-3
    spread = sqrt(table.moments()[0]) / table.unit
    # A string of nobody collides with others as often as random functions say: Σ f²/(F(g − 1)).
    assert spread == pytest.approx(sqrt(sum(f * f for f in shares.values()) / FUNCTIONS / (g - 1)), rel=0.05)
    table.take_out(prints, 5)
    assert np.abs(table.excess(prints) / table.unit - [*shares.values(), 0, 0]).max() < 1e-5
    assert sqrt(table.moments()[0]) / table.unit < spread / 1000
    assert np.abs(table.residuals(prints)).max() < 100
    # As they were counted.
    assert table.support(prints)[0] == pytest.approx(table.n / g + before[0] * table.unit)


def test_nothing_is_taken_out_of_noise() -> None:
    """Not the highest of many strings of nobody either: the law of the others would be too narrow."""
    table = table_of(np.random.default_rng(1).poisson(1, (FUNCTIONS, 4)), 0.6)
    before, prints = table.moments(), np.arange(100_000, dtype=np.uint32)
    highest = prints[[table.excess(prints).argmax()]]
    assert threshold(4.0, before) < table.excess(highest)[0] < threshold(5.0, before)
    table.take_out(highest, prints.size)
    # Nor by the normal law, which is too low so far out.
    height = table.excess(highest)[0] / sqrt(before[0])
    table.take_out(highest, round(FALSE_FINDS / norm.sf(height - 0.02)))
    assert table.moments().tolist() == before.tolist()
    table.take_out(highest, 1)
    assert table.moments()[0] < 0.995 * before[0]


def test_strings_with_one_fingerprint_are_remembered() -> None:
    table = table_of(np.ones((FUNCTIONS, 3), np.int64), 0.6)
    table.take_out(np.array([5, 9, 5, 7], np.uint32), 3)
    assert table.shared.tolist() == [5]


def test_without_reports_no_threshold_is_reached() -> None:
    table = table_of(np.zeros((FUNCTIONS, 3), np.int64), 0.6)
    table.take_out(np.array([5, 9], np.uint32), 2)
    assert threshold(2.0, table.moments()) == np.inf
    assert table.excess(np.array([5], np.uint32)).tolist() == [0]
    assert not table.residuals(np.array([5], np.uint32)).any()
