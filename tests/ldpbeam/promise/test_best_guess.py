"""How often the best guess is right, against (1/k)·Σ over all reports of the largest likelihood."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product
from math import comb, exp, factorial
from typing import Any

import numpy as np
import pytest

from ldpbeam.privacy.guess_laws import largest, majority
from ldpbeam.promise.best_guess import best_guess
from ldpbeam.protocols import PROTOCOLS, Parameters, protocol
from ldpbeam.protocols.attributes.allocate import ALLOCATIONS, allocate
from ldpbeam.protocols.one_bit_mean import OneBitRRPM
from ldpbeam.protocols.public_string import BinFlipPlus
from tests.reference.channels import (
    channel,
    first_rows,
    second_rows,
    weighted_responses,
)
from tests.reference.settings import Setting, settings

TIMES = (1, 2, 3)
MOST = 3_000_000
"""Entries of a table that is enumerated."""


# --- enumeration: P(y | v) for all sequences of reports y


def words(answers: np.ndarray, second: np.ndarray, reports: int) -> np.ndarray:
    """P(y | v), a row per value: memoised answers of a value (v, a), then reports of an answer (a, y)."""
    sent = np.ones((len(second), 1))
    for _ in range(reports):
        sent = (sent[:, :, None] * second[:, None, :]).reshape(len(second), -1)
    return answers @ sent


def floats(rows: Any) -> np.ndarray:
    return np.array([[float(entry) for entry in row] for row in rows])


def of_each_seed(built: Any) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """For each device constant its probability, P(answer | value) and P(report | answer)."""
    k = built.domain_size
    if isinstance(built, OneBitRRPM):
        # α is no part of a report: one table, averaged over it.
        ones = [
            sum(built.bit.weight(built.device.point(v, a) * built.segment) for a in range(built.segment))
            for v in range(k)
        ]
        share = [Fraction(one, built.segment << 64) for one in ones]
        flip = Fraction(built.flip, 1 << 64)
        yield (
            1.0,
            floats([[1 - one, one] for one in share]),
            floats([[1 - flip, flip], [flip, 1 - flip]]),
        )
        return
    if built.guarantee.memoised_ratio is None:
        # Fresh in every report, and so is its seed: a value is its own answer.
        yield 1.0, np.eye(k), strings(built) if isinstance(built, BinFlipPlus) else floats(channel(built))
        return
    seeds = {getattr(response, "seed", None) for response, _ in weighted_responses(built)}
    for seed in seeds:
        yield 1 / len(seeds), floats(first_rows(built, seed)), floats(second_rows(built, seed))


def strings(built: BinFlipPlus) -> np.ndarray:
    """P(string, bit | value), all strings with independent bits."""
    one = built.threshold / 2**32
    accept = float(built.instant.own), float(built.instant.other)
    rows = []
    for value in range(built.domain_size):
        row = []
        for string in product((0, 1), repeat=built.domain_size):
            drawn = float(np.prod([one if bit else 1 - one for bit in string]))
            row += [drawn * accept[1 - string[value]], drawn * accept[string[value]]]
        rows.append(row)
    return np.array(rows)


def enumerated(built: Any, reports: int) -> float | None:
    """(1/k)·Σ over y of max over v; None where there are too many y."""
    total = 0.0
    for share, answers, second in of_each_seed(built):
        if second.shape[1] ** reports * max(len(answers), len(second)) > MOST:
            return None
        total += share * float(words(answers, second, reports).max(axis=0).sum())
    return total / int(built.domain_size)


SMALL = [s for s in settings((2, 3, 4, 5)) if "affine" not in str(s)]


@pytest.mark.cases(12)
@pytest.mark.parametrize("setting", SMALL, ids=str)
def test_the_best_guess_is_right_as_often_as_enumerated(setting: Setting) -> None:
    built = setting.build()
    found = 0
    for t in TIMES:
        if built.law.guess_is_exact(t) and (truth := enumerated(built, t)) is not None:
            assert abs(best_guess(built, t) - truth) < 1e-12, t
            found += 1
    assert found


def test_approximations_are_as_near_as_is_said() -> None:
    """Of several reports that have a function, a set or a stretch each: figures of the docstring."""
    found: dict[str, list[float]] = {}
    for setting, t in product(SMALL, (2, 3, 4)):
        built = setting.build()
        if not built.law.guess_is_exact(t) and (truth := enumerated(built, t)) is not None:
            found.setdefault(setting.name, []).append(best_guess(built, t) / truth)
    assert set(found) == {"blh", "olh", "dbitflip", "piecewise_mean"}
    for name, ratios in found.items():
        low, high = (0.94, 1.18) if name in ("blh", "olh") else (0.95, 1.02)
        assert low < min(ratios), name
        assert max(ratios) < high, name


# --- the laws behind, at sizes that no enumeration of reports reaches


def power(polynomial: list[Any], exponent: int) -> list[Any]:
    """Up to the degree that the polynomial has."""
    zero = polynomial[0] * 0
    found = [zero + 1] + [zero] * (len(polynomial) - 1)
    while exponent:
        if exponent & 1:
            found = multiplied(found, polynomial)
        polynomial = multiplied(polynomial, polynomial)
        exponent >>= 1
    return found


def multiplied(first: list[Any], second: list[Any]) -> list[Any]:
    if isinstance(first[0], float):
        return list(np.convolve(first, second)[: len(first)])
    size = len(first)
    return [sum((first[j] * second[i - j] for j in range(i + 1)), Fraction(0)) for i in range(size)]


def slow_largest(own: Any, each: Any, rivals: int, free: int, reports: int) -> Any:
    """By generating functions, with Fractions or floats: for each own count c and number of ties."""
    t, zero = reports, own * 0
    series, anything = (
        [zero + (t * p) ** j / factorial(j) for j in range(t + 1)] for p in (each, each * free)
    )
    total = zero
    for c in range(t + 1):
        below = [*series[:c], *[zero] * (t + 1 - c)]
        for ties in range(min(rivals, t // c) + 1) if c else [rivals]:
            rest = t - c - ties * c
            if rest >= 0:
                others = multiplied(power(below, rivals - ties), anything)[rest]
                tied = comb(rivals, ties) * series[c] ** ties / (1 + ties)
                total += (t * own) ** c / factorial(c) * tied * others
    return total * (zero + Fraction(factorial(t), t**t))


@pytest.mark.parametrize(
    ("own", "rivals", "free", "reports"),
    [
        (Fraction(3, 10), 2, 0, 14),
        (Fraction(3, 10), 2, 3, 9),
        (Fraction(1, 50), 4, 1, 10),
        (Fraction(1, 4), 1, 0, 15),
        (Fraction(1, 4), 1, 2, 13),
        (Fraction(1, 8), 7, 0, 12),
        (Fraction(1, 90), 999, 0, 8),
        (Fraction(9, 10), 3, 2, 9),
        (Fraction(1, 100_000), 1, 40, 7),
    ],
)
def test_the_largest_count_is_as_often_the_own_one_as_in_rationals(
    own: Fraction, rivals: int, free: int, reports: int
) -> None:
    each = (1 - own) / (rivals + free)
    exact = float(slow_largest(own, each, rivals, free, reports))
    assert largest(float(own), float(each), rivals, free, reports) == pytest.approx(exact, rel=1e-12)


def test_a_majority_is_counted_with_half_of_the_ties() -> None:
    for t in range(1, 8):
        p = Fraction(3, 7)
        law = [comb(t, n) * p**n * (1 - p) ** (t - n) for n in range(t + 1)]
        exact = sum(w * (1 + (2 * n > t) - (2 * n < t)) / 2 for n, w in enumerate(law))
        assert majority(t, p) == pytest.approx(float(exact), rel=1e-14)


# --- laws of all protocols

WIDE = settings((2, 60))


@pytest.mark.parametrize("setting", WIDE, ids=str)
@pytest.mark.cases(16)
def test_more_reports_never_guess_worse(setting: Setting) -> None:
    built = setting.build()
    found = [best_guess(built, t) for t in (1, 2, 3, 4, 5, 8, 30, 100, 365, 5000)]
    # Where one is exact and the next an approximation, this may lie a little lower.
    slack = 1e-12 if built.law.guess_is_exact(2) else 0.04
    for fewer, more in pairwise(found):
        assert fewer - slack <= more <= 1
    assert found[0] >= 1 / setting.domain_size
    assert found[0] <= exp(setting.nominal_first) / setting.domain_size
    if built.guarantee.memoised_ratio is None:
        assert found[-1] > found[0]


@pytest.mark.parametrize(
    ("name", "once", "more"),
    [
        ("l_grr", "grr", {}),
        ("l_sue", "sue", {}),
        ("l_osue", "oue", {}),
        ("l_oue", "oue", {}),
        ("l_soue", "sue", {}),
        ("rappor", "sue", {}),
        ("loloha", "olh", {"g": 2}),
        ("loloha", "olh", {"g": 5}),
        ("loloha", "olh", {"g": 5, "hash_family": "affine"}),
        ("dbitflip_pm", "dbitflip", {"d": 2}),
        ("dbitflip_pm", "binflip", {"d": 30}),
        ("one_bit_rrpm", "one_bit_mean", {"gamma": 0.2, "segment": 1}),
        ("one_bit_rrpm", "one_bit_mean", {}),
    ],
)
def test_many_reports_tell_the_memoised_answer_and_no_more(
    name: str, once: str, more: dict[str, Any]
) -> None:
    """The limit of many reports about a memoised answer is one report of the permanent round alone."""
    takes = {"epsilon": 2.0, "epsilon_longitudinal": 2.0, "epsilon_first": 1.0, **more}

    def build(kind: str) -> Any:
        allowed = (*PROTOCOLS[kind].PARAMETERS, *PROTOCOLS[kind].OPTIONAL)
        return protocol(kind, 30, Parameters(**{n: v for n, v in takes.items() if n in allowed}))

    limit = best_guess(build(once), 1)
    assert best_guess(build(name), 5000) == pytest.approx(limit, rel=1e-9)
    if name != "dbitflip_pm" and (name, more) != ("one_bit_rrpm", {}):
        assert best_guess(build(name), 1) < 0.95 * limit


def test_with_several_attributes_the_one_that_is_guessed_best_counts() -> None:
    both = Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0)
    for name in ALLOCATIONS:
        kind = {"allomfree": None, "together": "one_bit_rrpm"}.get(name, "l_grr")
        sizes = [7, 7] if name == "together" else [9, 3, 40]
        levels = Parameters(epsilon_longitudinal=2.0) if name == "together" else both
        built = allocate(name, kind, sizes, levels)
        for t in (1, 20):
            each = [best_guess(part, t) for part in built.parts]
            assert best_guess(built, t) == max(each)
            assert name == "together" or len(set(each)) == 3
    # Of a device that drew an attribute: all of ε for it; of one that reports all of them: its share.
    sampled, split = (allocate(n, "grr", [9, 3], Parameters(epsilon=2.0)) for n in ("sample", "split"))
    assert best_guess(sampled, 1) == best_guess(protocol("grr", 3, Parameters(epsilon=2.0)), 1)
    assert best_guess(split, 1) == best_guess(protocol("grr", 3, Parameters(epsilon=1.0)), 1)
