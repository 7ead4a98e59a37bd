"""When a prefix goes on, and the chance that a string is found."""

from __future__ import annotations

from math import inf, log, sqrt

import numpy as np
import pytest

from ldpbeam.arrays import Floats
from ldpbeam.estimation.intervals import cumulants
from ldpbeam.estimation.prefix_plan import (
    CREDIT,
    FALSE_FINDS,
    SCREEN,
    PlannedWalk,
    deficit,
    deviations,
    false_find_share,
    law_variance,
)


def test_false_finds_of_all_levels_add_up() -> None:
    for levels in (1, 2, 8):
        shares = [false_find_share(level, levels) for level in range(levels)]
        assert sum(shares) == pytest.approx(FALSE_FINDS)
        assert max(shares) == shares[-1]
    assert deviations(0.025, 1) == pytest.approx(1.959964)
    assert deviations(0.05, 0) == inf


def test_a_prefix_pays_what_the_evidence_lacks() -> None:
    heights = np.array([-2.0, 0.0, 3.0, sqrt(2 * log(1600)), 9.0])
    expected = [log(1600), log(1600), log(1600) - 4.5, 0.0, 0.0]
    assert deficit(heights, 1600).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("own", "g", "asked"), [(0.5, 8, 0.3), (0.9, 2, 1.0), (0.3, 57, 0.05)])
def test_the_law_is_that_of_other_estimates(own: float, g: int, asked: float) -> None:
    for share in (0.0, 0.01, 0.4, 1.0):
        variance, _ = cumulants(share, (own, 1 / g, own - 1 / g, 1 - asked))
        assert law_variance(share, own, g, asked) == pytest.approx(variance / (own - 1 / g) ** 2)


@pytest.mark.parametrize(
    ("n", "own", "g", "lengths", "weights", "symbols"),
    [(10**5, 0.5, 8, (2, 4, 6), (1, 1, 3), 40), (3000, 0.9, 20, (3, 5, 6, 9), (1, 2, 1, 1), 10)],
)
def test_the_chance_is_that_of_drawn_estimates(
    n: int, own: float, g: int, lengths: tuple[int, ...], weights: tuple[int, ...], symbols: int
) -> None:
    walk = PlannedWalk(own, g, lengths, weights, symbols)
    share = walk.smallest_share(n, 0.8)
    draw, times = np.random.default_rng(1), 400_000
    credit = np.full(times, CREDIT)
    for level, weight in enumerate(weights):
        asked = weight / sum(weights)
        none, spread = (sqrt(law_variance(f, own, g, asked) / n / asked) for f in (0, share))
        heights = (share + spread * draw.standard_normal(times)) / none
        if level < len(lengths) - 1:
            credit -= deficit(heights, symbols ** (lengths[level + 1] - lengths[level]))
            credit[heights < SCREEN] = -inf
    candidates = walk.expected_candidates(share)[-1]
    found = ((credit >= 0) & (heights >= deviations(FALSE_FINDS / 2, candidates))).mean()
    # Five deviations of the draws, and what rounding to cells takes.
    assert found == pytest.approx(0.8, abs=5 * 0.0006 + 0.002)
    # Without credit it would be another chance.
    assert abs((credit >= CREDIT).mean() - 0.8) > 0.1
    assert walk.find_chance(share, n) == pytest.approx(0.8)


def test_candidates_are_those_of_drawn_heights() -> None:
    lengths, symbols, times, frequent = (2, 4, 5), 40, 4_000_000, 20
    draw = np.random.default_rng(1)

    def passing(credit: Floats, extensions: int) -> Floats:
        heights = draw.standard_normal(len(credit))
        left = credit - deficit(heights, extensions)
        return np.asarray(left[(left >= 0) & (heights >= SCREEN)])

    first = passing(np.full(times, CREDIT), 1600)
    false, true = len(first) / times * 1600 * 1600, frequent * 1600
    second = false + true
    # Of the candidates of the second level, those of frequent prefixes have their whole credit.
    drawn = np.concatenate([np.resize(first, times), np.full(round(true / false * times), CREDIT)])
    third = (len(passing(drawn, 40)) / len(drawn) * second + frequent) * 40
    expected = PlannedWalk(0.5, 8, lengths, (1, 1, 1), symbols).expected_candidates(1 / frequent)
    assert expected == pytest.approx([1600, second, third], rel=0.03)


def test_shares_shrink_with_devices_and_are_infinite_for_too_few() -> None:
    walk = PlannedWalk(0.51, 8, (2, 4, 6, 8), (1, 1, 1, 3), 40)
    shares = [walk.smallest_share(n) for n in (10**4, 10**6, 10**8)]
    assert shares[0] > 9 * shares[1] > 81 * shares[2] > 0
    assert walk.smallest_share(50) == inf
    assert walk.smallest_share(10**4, 0.5) < shares[0]
    # One level asks all of them whole.
    assert PlannedWalk(0.51, 8, (2,), (1,), 40).smallest_share(10**4) < shares[0] / 2
