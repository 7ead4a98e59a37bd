"""Microsoft (Ding, Kulkarni, Yekhanin, NeurIPS 2017): means of counters.

The app usage of three million devices cannot be had. Made usage with modes stands in for it, in whole
minutes; the synthetic counters of section 5 are drawn as it describes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import exp, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from ldpbeam.arrays import Ints
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.one_bit_mean import OneBitRRPM
from ldpbeam.simulators.random_words import RandomWords
from reproduction.paper import Comparison, Figure, Panel, Row, Settings, mean, number
from reproduction.study import series, study

DAY = 24 * 3600
"""m: the most that a counter of seconds in a day can be."""

MINUTE = 60
LEVELS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
RUNS = 3000
SMALL, _LARGE = 300_000, 3_000_000

USAGE_NOTE = "Made app usage with modes, in whole minutes; the paper's cannot be had."


# --- populations


def usage(n: int, days: int, seed: int) -> NDArray[np.int32]:
    """Made app usage, int32 (days, n) in minutes: most devices hold to a habit."""
    words = RandomWords(seed)
    rng = words.generator("usage habits", 0)
    kind = rng.choice(4, n, p=(0.60, 0.15, 0.15, 0.10))
    habits = np.minimum(rng.lognormal(3.4, 0.9, (2, n)), 1000)
    out = np.zeros((days, n), np.int32)
    for day in range(days):
        rng = words.generator("usage", day)
        habit = np.where((kind == 2) & (day % 7 >= 5), habits[1], habits[0])
        minutes = np.where(kind == 3, rng.exponential(60, n), habit * rng.normal(1, 0.1, n))
        out[day] = np.where(kind == 0, 0, np.clip(np.rint(minutes), 0, DAY // MINUTE))
    return out


@lru_cache(8)
def minutes(name: str, n: int, seed: int) -> Ints:
    """How many of n devices hold 0, 1, …, 1440 minutes: int64 (1441,)."""
    last = DAY // MINUTE
    rng = RandomWords(seed).generator(name, n)
    if name == "constant":
        held = np.full(n, last // 2)
    elif name == "uniform":
        held = rng.integers(0, last + 1, n)
    elif name == "normal":
        held = np.rint(rng.normal(12, 2, n).clip(0, 24) * 60).astype(np.int64)
    else:
        held = usage(n, 1, seed)[0].astype(np.int64)
    return np.bincount(held, minlength=last + 1)


# --- means: Fig. 2 (a, b), Fig. 3 (a, b)

_FLIPS = {"1BitRRPM": 0.0, "1BitRRPM+OP(1/10)": 1 / 10, "1BitRRPM+OP(1/3)": 1 / 3}
_LAPLACE = "Laplace"


def one_bit(level: float, gamma: float) -> OneBitRRPM:
    """The mean mechanism with one segment, s = m."""
    made = protocol("one_bit_rrpm", DAY + 1, Parameters(epsilon_longitudinal=level, gamma=gamma))
    assert isinstance(made, OneBitRRPM)  # noqa: S101 - it is
    return made


def _means(
    population: str,
    devices: int,
    settings: Settings,
    rng: np.random.Generator,
    mechanism: str,
    level: float,
    runs: int,
) -> list[Row]:
    """Absolute errors of the mean in seconds. A device's bit is a coin whose probability is linear in x."""
    n = settings.devices or devices
    held = minutes(population, n, settings.seed)
    x = np.arange(held.size) * MINUTE
    truth = float((held * x).sum() / n)
    if mechanism == _LAPLACE:
        # A sum of geometric noise with ratio e^(−ε/m): the difference of two negative binomials.
        ratio = exp(-level / DAY)
        errors = (rng.negative_binomial(n, 1 - ratio, runs) - rng.negative_binomial(n, 1 - ratio, runs)) / n
        deviation = sqrt(2 * ratio / n) / (1 - ratio)
    else:
        ends = one_bit(level, _FLIPS[mechanism]).ends
        other, gap = float(ends.other), float(ends.gap)
        p = other + x / DAY * gap
        there = held > 0
        ones = rng.binomial(held[there], p[there], (runs, int(there.sum()))).sum(axis=1)
        errors = DAY * (ones / n - other) / gap - truth
        deviation = DAY * sqrt(float((held * p * (1 - p)).sum())) / (n * gap)
    absolute = np.abs(errors)
    return [
        {
            "population": population,
            "n": n,
            "mechanism": mechanism,
            "epsilon": level,
            "error": float(absolute.mean()),
            "deviation": float(absolute.std()),
            "theory": deviation * sqrt(2 / pi),
            "runs": runs,
        }
    ]


def draw_errors(figure: str, error: str, rows: Sequence[Row]) -> list[Figure]:
    """One panel: the mean error of every mechanism over ε."""
    lines = series(rows, "epsilon", "error", "mechanism")
    caption = f"{rows[0]['population']}, n = {rows[0]['n']:,}: {error}."
    panels = [Panel(error, "ε", "error", lines, log_x=True)]
    return [Figure(f"microsoft-{figure}", caption, panels)]


def _compare_means(figure: str, rows: Sequence[Row]) -> list[Comparison]:
    def ratios(name: str) -> dict[float, float]:
        return {
            level: mean(rows, "theory", mechanism=name, epsilon=level)
            / mean(rows, "theory", mechanism=_LAPLACE, epsilon=level)
            for level in LEVELS
        }

    plain, flipped = ratios("1BitRRPM"), ratios("1BitRRPM+OP(1/10)")
    worse = [f"{level:g}" for level, ratio in plain.items() if ratio > 1]
    off = [number(row, "error") / number(row, "theory") for row in rows]
    place = f"{figure}, {rows[0]['population']}, n = {rows[0]['n']:,}"
    return [
        Comparison(
            f"Section 5, {place}: '1BitRRPM is consistently better than Laplace'",
            "at ε = 0.1 to 10",
            f"error {min(plain.values()):.2f} to {max(plain.values()):.2f} times that of Laplace",
            "reproduced" if not worse else "holds with a correction",
            f"not at ε = {', '.join(worse)}: Laplace noise falls as 1/ε, a bit about a value inside 0 … m "
            "is never sure"
            if worse
            else "",
        ),
        Comparison(
            f"Section 5, {place}: with γ = 1/10 they are 'comparable in accuracy'",
            "comparable",
            f"up to ε = 1: {min(flipped[e] for e in LEVELS[:4]):.2f} to "
            f"{max(flipped[e] for e in LEVELS[:4]):.2f} times the error of Laplace",
            "reproduced" if max(flipped[e] for e in LEVELS[:4]) < 1.5 else "does not hold",
        ),
        Comparison(
            f"Theorem 3, {place}: rounding and memoization cost no accuracy",
            "error of the one-round mechanism",
            f"{min(off):.3f} to {max(off):.3f} times the exact expectation of |error|",
            "reproduced"
            if max(abs(one - 1) for one in off) < 5 / sqrt(number(rows[0], "runs"))
            else "differs",
        ),
    ]


EXPERIMENTS = tuple(
    study(
        *("microsoft:{figure}", f"Microsoft Fig. {part}", f"Mean of {population} counters, n = {n:,}"),
        {
            "mechanism": (*_FLIPS, _LAPLACE),
            "level": LEVELS,
            "runs": lambda settings: [settings.repeats(RUNS)],
        },
        _means,
        figures=draw_errors,
        compare=_compare_means,
        constants={
            "figure": figure,
            "population": population,
            "devices": n,
            "error": "mean absolute error, seconds",
        },
        note=USAGE_NOTE if population == "usage" else "",
    )
    for figure, part, population, n in (
        ("fig2a", "2 (a)", "usage", SMALL),
        ("fig2b", "2 (b)", "usage", _LARGE),
        ("fig3a", "3 (a)", "constant", SMALL),
        ("fig3b", "3 (b)", "uniform", SMALL),
    )
)
"""Errors of means; :mod:`.microsoft_histograms` and :mod:`.microsoft_privacy` have the rest."""
