"""The central ε behind a shuffler against plain enumeration: of the two worlds, and of small fleets."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from math import exp, factorial
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from ldpbeam.protocols import PROTOCOLS, Parameters, protocol
from ldpbeam.shuffling.randomiser import DELTA, Randomiser, many_epochs, one_epoch
from ldpbeam.shuffling.shuffle import central_epsilon, crowd, hiding, hockey_stick

LEVELS = {"epsilon": 1.0, "epsilon_longitudinal": 2.0, "epsilon_first": 1.0}


def built(name: str, k: int, **more: Any) -> Any:
    given = {key: LEVELS[key] for key in PROTOCOLS[name].PARAMETERS if key in LEVELS}
    return protocol(name, k, Parameters(**{**given, **more}))


def randomiser(name: str, k: int, **more: Any) -> Randomiser:
    found = one_epoch(built(name, k, **more))
    assert found is not None
    return found


def weights(found: Randomiser) -> tuple[float, float, float]:
    p, beta = float(found.ratio), float(found.distance)
    alpha = beta / (p - 1)
    return p, alpha, max(0.0, 1 - (p + 1) * alpha)


def pair(found: Randomiser, others: int) -> dict[tuple[int, int], tuple[float, float]]:
    """What two worlds show of a device among so many others, outcome by outcome, from trinomial chances."""
    p, alpha, rest = weights(found)
    kind = alpha / (2 * alpha + rest / p)
    law: dict[tuple[int, int], list[float]] = {}
    for a in range(others + 1):
        for b in range(others + 1 - a):
            ways = factorial(others) // (factorial(a) * factorial(b) * factorial(others - a - b))
            chance = ways * kind ** (a + b) * max(0.0, 1 - 2 * kind) ** (others - a - b)
            for (x, y), up, down in (
                ((a + 1, b), p * alpha, alpha),
                ((a, b + 1), alpha, p * alpha),
                ((a, b), rest, rest),
            ):
                both = law.setdefault((x, y), [0.0, 0.0])
                both[0] += chance * up
                both[1] += chance * down
    return {key: (up, down) for key, (up, down) in law.items()}


def stick(law: dict[Any, tuple[float, float]], epsilon: float) -> float:
    return sum(max(0.0, up - exp(epsilon) * down) for up, down in law.values())


@pytest.mark.parametrize("others", [0, 1, 2, 6, 40])
@pytest.mark.parametrize(("name", "k"), [("grr", 5), ("grr", 2), ("oue", 5), ("olh", 5)])
def test_binomial_tails_add_up_to_the_sum_over_all_outcomes(name: str, k: int, others: int) -> None:
    found = randomiser(name, k)
    law, curve = pair(found, others), hockey_stick(found, others)
    assert sum(up for up, _ in law.values()) == pytest.approx(1)
    for epsilon in (-0.99, -0.3, -0.01, 0.0, 0.003, 0.05, 0.2, 0.5, 0.9, 0.999):
        assert curve(epsilon) == pytest.approx(stick(law, epsilon), rel=1e-9, abs=3e-14), epsilon


@pytest.mark.parametrize(
    ("name", "k", "devices"),
    [
        ("grr", 3, 2),
        ("grr", 3, 4),
        ("oue", 2, 3),
        ("sue", 2, 3),
        ("blh", 3, 2),
        ("l_grr", 3, 3),
        ("grr", 2, 4),
    ],
)
def test_no_small_fleet_is_told_apart_better_than_stated(name: str, k: int, devices: int) -> None:
    """Every pair of values, whatever the others hold, over every set of reports that a server can see."""
    kind, found = built(name, k), randomiser(name, k)
    p, alpha, rest = weights(found)
    epsilons = (0.0, 0.1, 0.4, 0.8)
    chance = binom.pmf(np.arange(devices), devices - 1, min(1.0, 2 * alpha + rest / p))
    curves = [hockey_stick(found, others) for others in range(devices)]
    stated = {e: sum(c * curve(e) for c, curve in zip(chance, curves, strict=True)) for e in epsilons}
    single = [[float(w * kind.law.likelihood(r, v)) for r, w in _weighted(kind)] for v in range(k)]
    worst = dict.fromkeys(epsilons, 0.0)
    for others in combinations_with_replacement(range(k), devices - 1):
        laws = [_shown(single, (mine, *others)) for mine in range(k)]
        for mine, yours in permutations(range(k), 2):
            both = {seen: (laws[mine][seen], laws[yours][seen]) for seen in laws[mine]}
            for epsilon in epsilons:
                worst[epsilon] = max(worst[epsilon], stick(both, epsilon))
    for epsilon in epsilons:
        assert worst[epsilon] <= stated[epsilon] + 1e-12
    assert stated[0.1] < 2 * worst[0.1]
    if (name, k) == ("grr", 2):
        assert worst[0.4] == pytest.approx(stated[0.4], rel=0.03)  # hardly anything is given away
    for delta in (0.3, 0.05):
        central = central_epsilon(found, devices, 1, delta)
        assert sum(c * curve(min(central, 0.9999)) for c, curve in zip(chance, curves, strict=True)) <= delta


def _shown(single: list[list[float]], held: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """The law of the set of reports."""
    law: dict[tuple[int, ...], float] = {(): 1.0}
    for value in held:
        longer: dict[tuple[int, ...], float] = defaultdict(float)
        for seen, chance in law.items():
            for index, one in enumerate(single[value]):
                longer[tuple(sorted((*seen, index)))] += chance * one
        law = dict(longer)
    return law


def _weighted(kind: Any) -> list[tuple[Any, Fraction]]:
    responses = list(kind.law.responses())
    seeds = {getattr(one, "seed", None) for one in responses}
    return [(one, Fraction(1, len(seeds))) for one in responses]


@pytest.mark.parametrize(("name", "devices"), [("grr", 60), ("oue", 40)])
def test_two_epochs_are_the_product_of_two(name: str, devices: int) -> None:
    """Never below the exact composition, and above it by the grid only."""
    found = randomiser(name, 4)
    others = hiding(found, devices, 1e-2 / 400)
    law = list(pair(found, others).values())
    both = {i: (a[0] * b[0], a[1] * b[1]) for i, (a, b) in enumerate(product(law, law))}
    stated = central_epsilon(found, devices, 2, 1e-2)
    assert stick(both, stated) <= 1e-2
    assert stick(both, stated * 0.97) > 1e-2


@pytest.mark.thorough
def test_the_figures_of_many_devices() -> None:
    """Close to what a Gaussian of the same mean and spread gives, and above no local level."""
    for name in ("olh", "oue"):
        found = randomiser(name, 360, **({"g": 3} if name == "olh" else {}))
        p, beta = float(found.ratio), float(found.distance)
        mu = 2 * beta / np.sqrt(2 * beta / (p - 1) * 10**5)
        stated = central_epsilon(found, 10**5)
        over = central_epsilon(found, 10**5, 30)
        for epsilon, spread in ((stated, mu), (over, mu * np.sqrt(30))):
            gaussian = norm.cdf(-epsilon / spread + spread / 2) - exp(epsilon) * norm.cdf(
                -epsilon / spread - spread / 2
            )
            assert 0.3 * DELTA < gaussian < 1.7 * DELTA, name
        assert stated < over < 30 * stated
    assert central_epsilon(randomiser("grr", 4), 1) == pytest.approx(1.0, rel=1e-5)
    assert central_epsilon(randomiser("grr", 4), 2, 3) == pytest.approx(3.0, rel=1e-3)


def test_more_devices_hide_better_and_more_epochs_worse() -> None:
    found = randomiser("oue", 9)
    by_devices = [central_epsilon(found, n) for n in (1, 10, 100, 1000, 10_000)]
    assert by_devices == sorted(by_devices, reverse=True)
    by_epochs = [central_epsilon(found, 10_000, t) for t in (1, 2, 10, 100)]
    assert by_epochs == sorted(by_epochs)
    assert central_epsilon(found, 10_000, 1, 1e-6) < by_epochs[0]


def test_devices_with_their_own_function_hide_among_those_that_share_it() -> None:
    """LOLOHA's functions last for life; a one-round device draws another one for each report."""
    linear, affine = built("loloha", 360, g=3), built("loloha", 360, g=3, hash_family="affine")
    found = one_epoch(linear)
    assert found is not None
    assert found.functions == 728
    others = crowd(found, 10**6) - 1
    assert binom.cdf(others - 1, 10**6 - 1, 1 / 728) <= 5e-12 < binom.cdf(others, 10**6 - 1, 1 / 728)
    assert 1_100 < crowd(found, 10**6) < 10**6 / 728
    assert crowd(found, 1) == 1
    assert one_epoch(affine) is None
    assert many_epochs(affine) is None
    fresh = one_epoch(built("olh", 360, hash_family="affine"))
    assert fresh is not None
    assert fresh.functions == 1
    assert central_epsilon(found, 10**5) > 20 * central_epsilon(fresh, 10**5)


def test_what_a_report_tells_about_a_memoised_answer_is_the_second_round() -> None:
    kind = built("loloha", 360, g=3)
    found = many_epochs(kind)
    assert found is not None
    assert found.ratio == kind.rounds.last.ratio
    rows = [
        [Fraction(kind.rounds.last.keep if a == b else kind.rounds.last.each) for b in range(3)]
        for a in range(3)
    ]
    distance = sum(abs(x - y) for x, y in zip(rows[0], rows[1], strict=True)) / 2 / kind.rounds.last.total
    assert found.distance == distance
    # From the value on: both rounds, for values with different symbols.
    first = one_epoch(kind)
    assert first is not None
    whole = kind.rounds.permanent.then(kind.rounds.last)
    assert first.distance == whole[0] - whole[1]
    assert many_epochs(built("l_osue", 360)) is None
    assert many_epochs(built("l_osue", 3)) is None
    assert many_epochs(built("oue", 360)) == one_epoch(built("oue", 360))


@pytest.mark.parametrize("name", ["dbitflip_pm", "one_bit_mean", "laplace_mean", "binflip_plus"])
def test_of_other_encodings_nothing_is_stated(name: str) -> None:
    more = {"d": 2} if name == "dbitflip_pm" else {}
    assert one_epoch(built(name, 9, **more)) is None


@pytest.mark.parametrize(("devices", "epochs", "delta"), [(0, 1, 0.1), (1, 0, 0.1), (1, 1, 0.0), (1, 1, 1.0)])
def test_nonsense_is_refused(devices: int, epochs: int, delta: float) -> None:
    with pytest.raises(ValueError, match="at least one device"):
        central_epsilon(randomiser("grr", 3), devices, epochs, delta)
