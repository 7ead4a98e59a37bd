"""What a report says about a weighted sum, against an enumeration of every report in rational numbers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import gcd
from typing import Any

import numpy as np
import pytest

from ldpbeam.hashing import AffineFamily, LinearFamily, collisions
from ldpbeam.hashing.affine import line_collision
from ldpbeam.over_time.covariance import memo_errors, slotted_errors
from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol
from ldpbeam.protocols.estimator import EVERYONE
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.part_estimator import PartEstimator
from ldpbeam.protocols.sum_laws import HashedSymbol
from ldpbeam.sums.sum_errors import DrawingError, SumErrors, sum_errors
from tests.ldpbeam.over_time import test_covariance as memo

ONE, TWO = Parameters(epsilon=1.0), Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0)


def with_g(g: int, *, two: bool = True) -> Parameters:
    levels: dict[str, Any] = {"epsilon_longitudinal": 2.0, "epsilon_first": 1.0} if two else {"epsilon": 1.0}
    return Parameters(**levels, g=g, hash_family="linear")


ENUMERATED: list[tuple[str, int, Parameters]] = [
    ("grr", 5, ONE),
    ("l_grr", 5, TWO),
    *((name, 4, ONE) for name in ("sue", "oue", "binflip")),
    *((name, 4, TWO) for name in ("l_sue", "l_osue", "l_oue", "l_soue")),
    ("rappor", 4, Parameters(epsilon_longitudinal=2.0)),
    ("blh", 6, Parameters(epsilon=1.0, hash_family="linear")),
    ("olh", 9, with_g(3, two=False)),
    ("olh", 7, with_g(3, two=False)),
    ("olh", 10, with_g(5, two=False)),
    ("olh", 5, with_g(7, two=False)),
    ("loloha", 8, with_g(2)),
    ("loloha", 12, with_g(3)),
]
IDS = [f"{name}-{k}-{levels.g or ''}" for name, k, levels in ENUMERATED]


def weights(k: int) -> Any:
    """A group, a prefix without its mean, places, and weights without a pattern."""
    some = np.array([np.arange(k) % 3 == 1, np.arange(k) < k // 2, np.arange(k), np.arange(k) ** 2 % 7])
    found = some.astype(np.float64)
    found[1:] -= found[1:].mean(axis=1, keepdims=True)
    return found


def moments(built: FrequencyProtocol[Any], row: Any, value: int) -> tuple[float, float]:
    """Mean and variance of what one report of a device with this value supports, by enumeration."""
    exact = [Fraction(float(one)) for one in row]
    responses = list(built.law.responses())
    seeds = sum((built.law.likelihood(one, value) for one in responses), Fraction(0))
    mean = second = Fraction(0)
    for response in responses:
        chance = built.law.likelihood(response, value) / seeds
        said = sum((w for v, w in enumerate(exact) if built.law.supports(response, v)), Fraction(0))
        mean, second = mean + chance * said, second + chance * said**2
    return float(mean), float(second - mean**2)


@pytest.mark.parametrize(("name", "k", "levels"), ENUMERATED, ids=IDS)
def test_mean_and_variance_of_what_one_report_supports(name: str, k: int, levels: Parameters) -> None:
    built: Any = protocol(name, k, levels)
    asked = weights(k)
    law = built.estimator.sum_law(asked)
    for row, mean, conditional in zip(asked, law.mean, law.conditional, strict=True):
        for value in range(k):
            exact = moments(built, row, value)
            assert mean[value] == pytest.approx(exact[0], abs=1e-9)
            assert conditional[value] == pytest.approx(exact[1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("name", "k", "levels"), ENUMERATED[:1] + ENUMERATED[2:3] + ENUMERATED[11:12])
def test_a_fleet_is_the_sum_of_its_devices(name: str, k: int, levels: Parameters) -> None:
    built: Any = protocol(name, k, levels)
    row, fleet = weights(k)[0], (1, 3)
    n, own, other = len(fleet), float(built.estimator.support.own), float(built.estimator.support.other)
    responses = list(built.law.responses())
    seeds = float(sum(built.law.likelihood(one, 0) for one in responses))
    mean = second = 0.0
    said = {one: [built.law.supports(one, v) for v in range(k)] for one in responses}
    for pair in product(responses, repeat=2):
        chances = [float(built.law.likelihood(r, x)) / seeds for r, x in zip(pair, fleet, strict=True)]
        chance = float(np.prod(chances))
        support = np.sum([said[one] for one in pair], axis=0)
        estimate = row @ ((support / n - other) / (own - other))
        mean, second = mean + chance * estimate, second + chance * estimate**2
    truth = np.bincount(fleet, minlength=k) / n
    errors = SumErrors(built, row[None])
    assert mean == pytest.approx(row @ truth, abs=1e-9)
    found = errors.variance(truth[None], np.full((1, k), n))
    assert found[0, 0] == pytest.approx(second - mean**2, rel=1e-9)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_buckets_that_only_some_devices_were_asked_about(d: int) -> None:
    k = 4
    built: Any = protocol("dbitflip", k, Parameters(epsilon=1.0, d=d))
    truth, n = np.array([0.4, 0.3, 0.2, 0.1]), 1000
    own, other = float(built.estimator.support.own), float(built.estimator.support.other)
    share = d / k
    errors = SumErrors(built, weights(k))
    found = errors.variance(truth[None], np.full((1, k), round(n * share)))[0]
    responses = list(built.law.responses())
    sets = float(sum(built.law.likelihood(one, 0) for one in responses))
    for row, variance in zip(weights(k), found, strict=True):
        total = 0.0
        for value, f in enumerate(truth):
            mean = second = 0.0
            for response in responses:
                chance = float(built.law.likelihood(response, value)) / sets
                # f̂_v − f_v is Σ over devices asked about v of (bit − E[bit]) / (n share (own − other)).
                said = sum(
                    row[v] * (built.law.supports(response, v) - other - (own - other) * truth[v])
                    for v in response.indices
                ) / (share * (own - other))
                mean, second = mean + chance * said, second + chance * said**2
            total += f * (second - mean**2)
        assert variance == pytest.approx(total / n, rel=1e-9)


# --- collisions of three


def brute(family: Any, row: Any) -> Any:
    found = np.zeros(family.domain_size)
    seeds = list(family.seeds())
    for seed in seeds:
        symbols = np.array([family.hash(seed, v) for v in range(family.domain_size)])
        found += np.bincount(symbols, weights=row, minlength=family.g)[symbols] ** 2
    return found / len(seeds)


@pytest.mark.parametrize(("g", "k"), [(2, 3), (3, 20), (5, 24), (11, 8)])
def test_linear_functions_by_lines_by_tables_and_one_by_one(g: int, k: int) -> None:
    family, asked = LinearFamily(g, k), weights(k)
    expected = np.array([brute(family, row) for row in asked])
    assert family.class_squares(asked) == pytest.approx(expected, abs=1e-10)
    triple = max(family.points // g**2 - 1, 0) / (family.points - 1)
    if family.digits > 1:
        by_lines = collisions.on_lines(asked, g, family.digits, float(family.collision), triple)
        assert by_lines == pytest.approx(expected, abs=1e-10)
    table = family.table()
    assert table is not None
    assert len(table) == family.classes
    by_table = collisions.class_squares(iter([table]), len(table), asked, np.ones(g))
    assert by_table == pytest.approx(expected, abs=1e-10)


def test_very_large_families_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = weights(20)
    exact = LinearFamily(3, 20).class_squares(asked)
    monkeypatch.setattr(collisions, "LARGEST", 26)
    triple = 2 / 26
    bound = collisions.on_lines(asked, 3, 3, 8 / 26, triple)
    assert (bound >= exact - 1e-9).all()
    # Equal where every line has equal weights: all values of the whole space.
    flat = np.ones((1, 27))
    assert collisions.on_lines(flat, 3, 3, 8 / 26, triple) == pytest.approx(81.0)


def on_a_circle(k: int, g: int, row: Any) -> Any:
    """Where a·v + c is taken modulo 1: every triple by its Fourier series."""
    found = np.zeros(k)
    for x, v, u in product(range(k), repeat=3):
        three = sorted({x, v, u})
        chance = 1.0 if len(three) == 1 else 1 / g
        if len(three) == 3:
            q, r = three[1] - three[0], three[2] - three[0]
            chance = line_collision(q // gcd(q, r), r // gcd(q, r), g)
        found[x] += row[v] * row[u] * chance
    return found


@pytest.mark.cases(2)
@pytest.mark.parametrize(("g", "k"), [(3, 12), (2, 12)])
def test_affine_functions_by_those_that_stand_for_them(g: int, k: int) -> None:
    """Within 3 % for a single value, and 1 % on average: half of that in a standard error."""
    asked = weights(k)[:2] - weights(k)[:2].mean(axis=1, keepdims=True)
    expected = np.array([on_a_circle(k, g, row) for row in asked])
    found = AffineFamily(g, k).class_squares(asked)
    scale = expected.mean(axis=1, keepdims=True)
    assert abs((found - expected) / scale).max() < 0.03
    assert abs(found.mean(axis=1) / expected.mean(axis=1) - 1).max() < 0.01
    # As if triples were independent it would be another number.
    if g > 2:
        naive = collisions.by_triples(asked, 1 / g, 1 / g**2)
        assert abs(naive.mean(axis=1) / expected.mean(axis=1) - 1).max() > 0.02


# --- what a device keeps for life


MEMO: list[tuple[str, int, Parameters]] = [
    ("l_grr", 3, TWO),
    ("l_osue", 3, TWO),
    ("loloha", 6, with_g(3)),
    ("loloha", 4, with_g(2)),
]


def joint_of_sums(built: Any, row: Any, x: int, y: int) -> tuple[float, float, float]:
    """E[XX'], E[X], E[X'] of two reports of one device, by what it draws for life."""
    both = first = second = 0.0
    for chance, one, two in lives(built, x, y):
        said, again = (float(row @ np.array(each)) for each in (one, two))
        both, first, second = both + chance * said * again, first + chance * said, second + chance * again
    return both, first, second


Life = tuple[float, list[float], list[float]]


def lives(built: Any, x: int, y: int) -> Iterator[Life]:
    """Chance, and which values the kept answers for x and for y support, of everything kept for life."""
    if isinstance(built, LocalHash):
        return lives_of_hash(built, x, y)
    return lives_of_values(built, x, y) if built.device.ENCODING == "direct" else lives_of_bits(built, x, y)


def lives_of_hash(built: Any, x: int, y: int) -> Iterator[Life]:
    seeds, k = list(built.family.seeds()), built.domain_size
    for seed in seeds:
        symbols = [built.family.hash(seed, v) for v in range(k)]
        for one, two in product(range(built.g), repeat=2):
            same = symbols[x] == symbols[y]
            if same and one != two:
                continue
            chance = float(memo.symbol(built.rounds.permanent, symbols[x], one)) / len(seeds)
            chance *= 1.0 if same else float(memo.symbol(built.rounds.permanent, symbols[y], two))
            yield chance, [float(s == one) for s in symbols], [float(s == two) for s in symbols]


def lives_of_values(built: Any, x: int, y: int) -> Iterator[Life]:
    k = built.domain_size
    for one, two in product(range(k), repeat=2):
        if x == y and one != two:
            continue
        chance = float(memo.symbol(built.rounds.permanent, x, one))
        chance *= 1.0 if x == y else float(memo.symbol(built.rounds.permanent, y, two))
        yield chance, [float(v == one) for v in range(k)], [float(v == two) for v in range(k)]


def lives_of_bits(built: Any, x: int, y: int) -> Iterator[Life]:
    k, own, other = built.domain_size, float(built.rounds.permanent.own), float(built.rounds.permanent.other)
    for bits in product((0, 1), repeat=2 * k):
        one, two = bits[:k], bits[k:]
        if x == y and one != two:
            continue
        chance = of_answer(one, x, own, other) * (1.0 if x == y else of_answer(two, y, own, other))
        yield chance, [float(bit) for bit in one], [float(bit) for bit in two]


def of_answer(bits: Any, held: int, own: float, other: float) -> float:
    """The chance of these bits, of which one is that of the value held."""
    ones = [own if place == held else other for place in range(len(bits))]
    return float(np.prod([p if bit else 1 - p for p, bit in zip(ones, bits, strict=True)]))


@pytest.mark.parametrize(("name", "k", "levels"), MEMO, ids=[f"{one[0]}-{one[1]}" for one in MEMO])
def test_covariance_of_two_epochs_of_a_sum(name: str, k: int, levels: Parameters) -> None:
    built: Any = protocol(name, k, levels)
    asked = weights(k)
    errors = SumErrors(built, asked)
    law = errors._floor_laws[0]
    truth, later = np.arange(1, k + 1) / (k * (k + 1) / 2), np.full(k, 1 / k)
    for row, place in zip(asked, range(len(asked)), strict=True):
        exact = np.empty((k, k))
        for x, y in product(range(k), repeat=2):
            both, first, second = joint_of_sums(built, row, x, y)
            exact[x, y] = both - first * second
        assert law.conditional[place] == pytest.approx(np.diag(exact), rel=1e-9, abs=1e-12)
        anew = law.again(truth, later)
        assert anew[0][place] == anew[1][place] == pytest.approx(truth @ exact @ later, abs=1e-10)
        apart = exact[~np.eye(k, dtype=bool)].min()
        assert law.least[place] == pytest.approx(min(apart, 0.0), abs=1e-10)


def test_bounds_where_pairs_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    built: Any = protocol("loloha", 12, with_g(3))
    asked = weights(12)
    truth, later = np.arange(1, 13) / 78, np.full(12, 1 / 12)
    exact = SumErrors(built, asked)._floor_laws[0]
    monkeypatch.setattr(LinearFamily, "table", lambda self: None)
    bounds = HashedSymbol(asked, exact.own, exact.other, float(built.rounds.permanent.other), built.family)
    least, most = bounds.again(truth, later)
    found = exact.again(truth, later)[0]
    assert (least <= found).all()
    assert (found <= most).all()
    assert (bounds.least <= exact.least + 1e-12).all()
    assert (bounds.least < 0).all()


def test_the_tables_of_a_family_stand_for_all_of_it() -> None:
    table = LinearFamily(5, 20).table()
    assert table is not None
    alike = (table[:, :, None] == table[:, None, :]).mean(axis=0)
    expected = np.full((20, 20), float(LinearFamily(5, 20).collision))
    np.fill_diagonal(expected, 1.0)
    assert alike == pytest.approx(expected, abs=1e-12)
    spread = AffineFamily(3, 20).table()
    assert spread is not None
    close = (spread[:, :, None] == spread[:, None, :]).mean(axis=0)[~np.eye(20, dtype=bool)]
    assert abs(close - 1 / 3).max() < 0.01


# --- sums of one value are that value: against the errors of single values


SINGLE = [("l_grr", 5, TWO), ("l_osue", 5, TWO), ("loloha", 9, with_g(3))]


@pytest.mark.parametrize("share", [EVERYONE, Fraction(1, 3)])
@pytest.mark.parametrize("slots", [None, (1, 3), (2, 4)])
@pytest.mark.parametrize(("name", "k", "levels"), [*SINGLE, ("grr", 5, ONE)], ids=lambda one: str(one)[:9])
def test_errors_over_time_of_one_value(
    name: str, k: int, levels: Parameters, slots: tuple[int, int] | None, share: Fraction
) -> None:
    estimator = PartEstimator(protocol(name, k, levels), share)
    one = memo_errors(estimator) if slots is None else slotted_errors(estimator, *slots)
    if slots is not None:
        estimator = PartEstimator(estimator.protocol, share, Fraction(*slots))
    sums = sum_errors(estimator, np.eye(k), slots)
    assert sums.independent == (one is None)
    if one is None:
        return
    frequency = np.arange(1.0, k + 1)[::-1] / (k * (k + 1) / 2)
    series = np.stack([frequency, np.roll(frequency, 1)])
    assert sums.floor_variance(series) == pytest.approx(one.floor_variance(series), rel=1e-9, abs=1e-12)
    assert sums.drawn_apart(series) == pytest.approx(one.drawn_apart(series), rel=1e-9, abs=1e-15)
    # Whether as factors of one cause or of another.
    factors = [errors.opposed(series, errors.place(series)) for errors in (sums, one)]
    products = [(each[:, 0] * each[:, 1]).sum(axis=0) for each in factors]
    assert products[0] == pytest.approx(products[1], rel=1e-6, abs=1e-12)
    anew = [errors.drawn_anew(frequency, series[1]) for errors in (sums, one)]
    # Of hashed values the errors of single ones take the average over triples.
    near = 0.2 if name == "loloha" else 1e-9
    assert anew[0][0] == pytest.approx(anew[1][0], rel=near, abs=1e-12)


def test_of_sampled_buckets_fewer_reports_speak_about_each() -> None:
    """Errors of sums are per report, those of one value per report about it."""
    estimator = PartEstimator(protocol("dbitflip_pm", 5, Parameters(epsilon_longitudinal=1.0, d=2)))
    one, sums = memo_errors(estimator), sum_errors(estimator, np.eye(5))
    assert one is not None
    before, after = np.array([0.4, 0.3, 0.2, 0.1, 0.0]), np.full(5, 0.2)
    expected = one.drawn_anew(before, after)[0] / (2 / 5)
    assert sums.drawn_anew(before, after)[0] == pytest.approx(expected, rel=1e-9)


def test_estimates_that_do_not_add_up_to_one() -> None:
    frequency = np.array([0.5, 0.3, 0.15, 0.05])
    for name, levels in (("oue", ONE), ("grr", ONE), ("olh", with_g(3, two=False))):
        built: Any = protocol(name, 4, levels)
        law = built.estimator.sum_law(weights(4))
        assert law.noise(frequency + 0.02) == pytest.approx(law.noise(frequency))
        assert law.noise(frequency) == pytest.approx(law.conditional @ frequency)
        drawn = DrawingError(weights(4), 0.0, 1.0)
        mean = weights(4) @ frequency
        assert drawn.of_weights(frequency + 0.02) == pytest.approx(weights(4) ** 2 @ frequency - mean**2)
        # Beyond any fleet it ends at what a fleet can have.
        for far in (np.array([9.0, 0, 0, 0]), np.array([-9.0, 0, 0, 0])):
            assert (law.noise(far) >= law.conditional.min(axis=1)).all()
            assert (law.noise(far) <= law.conditional.max(axis=1)).all()
            assert (drawn.of_weights(far) >= 0).all()


def test_the_share_that_reports_is_part_of_the_error() -> None:
    built: Any = protocol("oue", 4, ONE)
    truth, n, asked = np.array([[0.4, 0.3, 0.2, 0.1]]), np.full((1, 4), 500), weights(4)
    spread = asked**2 @ truth[0] - (asked @ truth[0]) ** 2
    alone = sum_errors(PartEstimator(built), asked).variance(truth, n)
    third = Fraction(1, 3)
    for share, present in ((third, EVERYONE), (EVERYONE, third), (Fraction(1, 2), third)):
        found = sum_errors(PartEstimator(built, share, present), asked).variance(truth, n)
        assert (found - alone)[0] == pytest.approx(float(1 - share * present) * spread / 500, rel=1e-9)
