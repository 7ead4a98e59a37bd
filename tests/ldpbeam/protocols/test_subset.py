"""Subset selection: the size of a set, its variance beside theory and beside other protocols, its sums."""

from __future__ import annotations

from fractions import Fraction
from math import comb, exp, sqrt
from typing import Any

import numpy as np
import pytest

from ldpbeam.channels.exact import exp_below
from ldpbeam.collection.file import parse_collection
from ldpbeam.errors import CollectionError
from ldpbeam.protocols import PROTOCOLS, Parameters, protocol
from ldpbeam.protocols.subset import Subset
from ldpbeam.randomness import FULL

LEVELS = (0.1, 1.0, 5.0)
ONE_ROUND = ("grr", "sue", "oue", "blh", "olh")


def subset(k: int, epsilon: float) -> Subset:
    return Subset.from_parameters(k, Parameters(epsilon=epsilon))


def of_size(k: int, w: int, epsilon: float) -> Subset:
    odds = exp_below(epsilon) * w
    return Subset(k, w, int(FULL * odds / (odds + k - w)), given=w != subset(k, epsilon).w)


@pytest.mark.parametrize("epsilon", LEVELS)
@pytest.mark.parametrize("k", [2, 10, 64])
def test_no_other_size_has_a_smaller_variance(k: int, epsilon: float) -> None:
    best = min(of_size(k, w, epsilon).estimator.support.floor for w in range(1, k))
    assert subset(k, epsilon).estimator.support.floor == best


@pytest.mark.parametrize("epsilon", LEVELS)
@pytest.mark.parametrize("k", [2, 9, 100, 1412])
def test_no_protocol_of_one_round_has_a_smaller_variance(k: int, epsilon: float) -> None:
    """What docs/protocols.md says of it, to a millionth; with one value it is GRR."""
    built = subset(k, epsilon)
    mine = float(built.estimator.support.floor)
    for name in ONE_ROUND:
        other: Any = protocol(name, k, Parameters(epsilon=epsilon))
        assert mine <= float(other.estimator.support.floor) * (1 + 1e-6), name
    if built.w == 1:
        grr: Any = protocol("grr", k, Parameters(epsilon=epsilon))
        assert mine == pytest.approx(float(grr.estimator.support.floor), rel=1e-12)


def test_the_figures_of_the_page() -> None:
    def less(k: int, epsilon: float) -> int:
        others: list[Any] = [protocol(name, k, Parameters(epsilon=epsilon)) for name in ONE_ROUND]
        best = min(float(one.estimator.support.floor) for one in others)
        return round(100 * (1 - float(subset(k, epsilon).estimator.support.floor) / best))

    assert (less(10, 1.0), less(50, 1.0), less(100, 3.0)) == (17, 4, 9)
    for k, epsilon in ((10, 1.0), (10, 2.0), (50, 3.0), (50, 4.0)):
        assert (subset(k, epsilon).w == 1) == (exp(epsilon) + 1 > 2 * k / 3)


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (5, 1.0), (9, 1.0), (9, 0.3)])
def test_a_weighted_sum_has_the_enumerated_variance(k: int, epsilon: float) -> None:
    built = subset(k, epsilon)
    weights = np.random.default_rng(1).normal(size=(3, k))
    law = built.estimator.sum_law(weights)
    for value in range(k):
        chances, sums = [], []
        for response in built.law.responses():
            chances.append(float(built.law.likelihood(response, value)))
            sums.append(weights[:, [v for v in range(k) if response >> v & 1]].sum(axis=1))
        mean = np.average(sums, axis=0, weights=chances)
        spread = np.average((np.array(sums) - mean) ** 2, axis=0, weights=chances)
        assert np.allclose(law.mean[:, value], mean, rtol=1e-12)
        assert np.allclose(law.conditional[:, value], spread, rtol=1e-12)


@pytest.mark.parametrize(("k", "epsilon"), [(5, 1.0), (9, 1.0), (9, 0.3)])
def test_what_the_law_says_of_reports_is_enumerated(k: int, epsilon: float) -> None:
    law = subset(k, epsilon).law
    rows = np.array([[float(law.likelihood(r, v)) for r in law.responses()] for v in range(k)])
    ((share, equal),) = law.equal_responses(0)
    assert share == 1
    assert equal == pytest.approx(float((rows[0] ** 2).sum()), rel=1e-12)
    assert law.best_guess(1) == pytest.approx(float(rows.max(axis=0).sum()) / k, rel=1e-12)
    two = (rows[:, :, None] * rows[:, None, :]).reshape(k, -1)
    assert 1 - 1e-12 <= law.best_guess(2) / (float(two.max(axis=0).sum()) / k) <= 1.05
    assert len(list(law.responses())) == comb(k, law.w)


def test_sets_that_tell_two_values_apart_are_as_far_as_a_shuffler_is_told() -> None:
    built = subset(9, 1.0)
    found = built.law.one_epoch(renamed=False, alone=False)
    rows = [[built.law.likelihood(r, v) for r in built.law.responses()] for v in (0, 8)]
    distance = sum((max(a - b, Fraction(0)) for a, b in zip(*rows, strict=True)), Fraction(0))
    assert (found.ratio, found.distance) == (built.guarantee.first_ratio, distance)


def test_a_plan_writes_the_size_that_is_best_at_the_frequency_that_it_ranks_by() -> None:
    from ldpbeam.collection.domain import Domain
    from ldpbeam.planning.collection_text import Particulars, collection_text
    from ldpbeam.planning.needs import FrequencyNeeds
    from ldpbeam.planning.plan import make_plan

    def at(w: int) -> float:
        support = of_size(100, w, 4.0).estimator.support
        own, other = float(support.own), float(support.other)
        return (own * (1 - own) / 100 + other * (1 - other) * 0.99) / float(support.gap) ** 2

    assert subset(100, 4.0).w == 1
    assert at(2) < 0.91 * at(1)
    assert min(range(1, 20), key=at) == 2
    needs = FrequencyNeeds(values=100, devices=100_000, epochs=1, first=4.0)
    row = next(row for row in make_plan(needs).rows if row.setting.name == "subset")
    text = collection_text(row, needs, Particulars("a", Domain(100), "1d", 0))
    assert "\nw: 2\n" in text
    written, usual = parse_collection(text), parse_collection(text.replace("w: 2\n", ""))
    assert written.protocol == of_size(100, 2, 4.0)
    assert usual.digest == parse_collection(text.replace("w: 2", "w: 1")).digest != written.digest
    with pytest.raises(CollectionError, match="w = 100 must be at least 1 and below"):
        parse_collection(text.replace("w: 2", "w: 100"))


def test_plan_recommends_it_where_it_is_best() -> None:
    """And the standard error of the plan is that of theory."""
    from ldpbeam.planning.needs import FrequencyNeeds
    from ldpbeam.planning.plan import make_plan

    asked = FrequencyNeeds(values=10, devices=100_000, epochs=1, first=1.0)
    found = make_plan(asked)
    rows = found.rows
    assert found.recommended is not None
    assert found.recommended.setting.name == "subset"
    mine = next(row for row in rows if row.setting.name == "subset")
    assert mine.setting.label.startswith("subset w=3")
    assert mine.figures.std_error <= min(
        row.figures.std_error for row in rows if row.setting.name in ONE_ROUND
    )
    support = of_size(10, 3, 1.0).estimator.support
    even = 1 / 10 * float(support.own * (1 - support.own)) + 9 / 10 * float(
        support.other * (1 - support.other)
    )
    assert mine.figures.std_error == pytest.approx(sqrt(even / 100_000) / float(support.gap), rel=1e-9)
    assert PROTOCOLS["subset"] is Subset
