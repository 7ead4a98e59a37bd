"""Microsoft: histograms of counters (Fig. 2 c, Fig. 3 c)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ldpbeam.arrays import Floats, Ints
from ldpbeam.protocols.bit_flip import BitFlip
from ldpbeam.protocols.public_string import BinFlipPlus
from reproduction.draws import fresh_symbols
from reproduction.microsoft import LEVELS, RUNS, SMALL, USAGE_NOTE, draw_errors, minutes
from reproduction.paper import Cell, Comparison, Row, Settings, mean
from reproduction.protocols import frequency_protocol
from reproduction.study import study

_TOGETHER = 300
"""Runs of a cell."""

_BUCKETS = 32
_SAMPLED = (1, 2, 4)
_WHOLE = ("BinFlip", "KFlip", "BinFlip+")


def _histogram_cells(settings: Settings) -> list[Cell]:
    runs = settings.repeats(RUNS)
    blocks = [(first, min(_TOGETHER, runs - first)) for first in range(0, runs, _TOGETHER)]
    return [
        {"mechanism": name, "first": first, "runs": count}
        for name in (*_WHOLE, *(f"{d}BitFlipPM" for d in _SAMPLED))
        for first, count in blocks
    ]


def bucketed(population: str, n: int, seed: int) -> Ints:
    """How many devices are in each of 32 buckets of equal width: int64 (32,)."""
    held = minutes(population, n, seed)
    bucket = np.minimum(np.arange(held.size) * _BUCKETS // (held.size - 1), _BUCKETS - 1)
    return np.bincount(bucket, weights=held, minlength=_BUCKETS).astype(np.int64)


def _histograms(
    population: str, settings: Settings, rng: np.random.Generator, mechanism: str, runs: int
) -> list[Row]:
    """Largest error over the bars, of every run."""
    n = settings.devices or SMALL
    held = bucketed(population, n, settings.seed)
    truth = held / n
    errors = (
        _sampled_errors(rng, held, int(mechanism[0]), runs)
        if mechanism[0].isdigit()
        else {
            (mechanism, level): np.abs(DRAWS[mechanism](rng, held, level, runs) - truth).max(axis=1)
            for level in LEVELS
        }
    )
    return [
        {
            "population": population,
            "n": n,
            "mechanism": label,
            "epsilon": level,
            "error": float(distances.mean()),
            "deviation": float(distances.std()),
            "runs": runs,
        }
        for (label, level), distances in errors.items()
    ]


def _bin_flip(rng: np.random.Generator, held: Ints, level: float, runs: int) -> Floats:
    support = frequency_protocol("binflip", _BUCKETS, epsilon=level).estimator.support
    own, other = float(support.own), float(support.other)
    n = int(held.sum())
    shape = (runs, _BUCKETS)
    counts = rng.binomial(held, own, shape) + rng.binomial(n - held, other, shape)
    return np.asarray((counts / n - other) / (own - other))


def _k_flip(rng: np.random.Generator, held: Ints, level: float, runs: int) -> Floats:
    support = frequency_protocol("grr", _BUCKETS, epsilon=level).estimator.support
    own, other = float(support.own), float(support.other)
    counts = fresh_symbols(rng, np.tile(held, (runs, 1)), own, other)
    return np.asarray((counts / held.sum() - other) / (own - other))


def _bin_flip_plus(rng: np.random.Generator, held: Ints, level: float, runs: int) -> Floats:
    """Of public strings with independent bits; those of the protocol are pairwise independent."""
    one = frequency_protocol("binflip_plus", _BUCKETS, epsilon=level)
    assert isinstance(one, BinFlipPlus)  # noqa: S101 - it is
    share, accept, refuse = one.threshold / 2**32, float(one.instant.own), float(one.instant.other)
    with_one = rng.binomial(held, share, (runs, _BUCKETS))
    yes = rng.binomial(with_one, accept)
    accepted = yes + rng.binomial(held - with_one, refuse)
    others = accepted.sum(axis=1, keepdims=True) - accepted
    counts = yes + rng.binomial(others, share)
    own, other = float(one.estimator.support.own), float(one.estimator.support.other)
    return np.asarray((counts / held.sum() - other) / (own - other))


DRAWS: dict[str, Callable[[np.random.Generator, Ints, float, int], Floats]] = {
    "BinFlip": _bin_flip,
    "KFlip": _k_flip,
    "BinFlip+": _bin_flip_plus,
}
"""Estimated frequencies of the mechanisms about all buckets, float64 (runs, 32)."""


def sampled_sets(rng: np.random.Generator, n: int, d: int) -> NDArray[np.int64]:
    """n sets of d different buckets, int64 (n, d), each set equally likely."""
    sets = rng.integers(0, _BUCKETS, (n, d))
    while True:
        ordered = np.sort(sets, axis=1)
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if not again.size:
            return sets
        sets[again] = rng.integers(0, _BUCKETS, (again.size, d))


def _sampled_errors(
    rng: np.random.Generator, held: Ints, d: int, runs: int
) -> dict[tuple[str, float], Floats]:
    """dBitFlipPM with d of 32 buckets for life: by the reports that sampled a bucket, and by Eq. (3)."""
    n, truth = int(held.sum()), held / held.sum()
    values = np.repeat(np.arange(_BUCKETS), held)
    names = (f"{d}BitFlipPM", f"{d}BitFlipPM, Eq. (3)")
    errors = {(name, level): np.zeros(runs) for name in names for level in LEVELS}
    for run in range(runs):
        sets = sampled_sets(rng, n, d)
        table = np.bincount((values[:, None] * _BUCKETS + sets).ravel(), minlength=_BUCKETS**2)
        table = table.reshape(_BUCKETS, _BUCKETS)
        mine, sampled = np.diagonal(table), table.sum(axis=0)
        for level in LEVELS:
            one = frequency_protocol("dbitflip_pm", _BUCKETS, epsilon_longitudinal=level, d=d)
            assert isinstance(one, BitFlip)  # noqa: S101 - it is
            own, other = float(one.estimator.support.own), float(one.estimator.support.other)
            ones = rng.binomial(mine, own) + rng.binomial(sampled - mine, other)
            counted = (ones / sampled - other) / (own - other)
            published = _BUCKETS / (n * d) * (ones - sampled * other) / (own - other)
            for name, histogram in zip(names, (counted, published), strict=True):
                errors[name, level][run] = np.abs(histogram - truth).max()
    return errors


def _compare_histograms(figure: str, rows: Sequence[Row]) -> list[Comparison]:
    def at(name: str, level: float) -> float:
        return mean(rows, "error", mechanism=name, epsilon=level)

    def factor(name: str, base: str, levels: Sequence[float]) -> list[float]:
        return [at(name, level) / at(base, level) for level in levels]

    place = f"{figure}, {rows[0]['population']}"
    low, high = (0.1, 0.2, 0.5), (5.0, 10.0)
    best = [level for level in LEVELS if at("BinFlip", level) <= 1.02 * at("KFlip", level)]
    four = factor("4BitFlipPM", "KFlip", low)
    plus = [value for d in _SAMPLED for value in factor(f"{d}BitFlipPM", "BinFlip+", high)]
    counted = factor("4BitFlipPM", "4BitFlipPM, Eq. (3)", LEVELS)
    return [
        Comparison(
            f"Section 5, {place}: BinFlip 'has the best accuracy overall'",
            "best",
            f"better than KFlip up to ε = {max(best):g}" if best else "never better than KFlip",
            "reproduced" if len(best) == len(LEVELS) else "holds with a correction",
            ""
            if len(best) == len(LEVELS)
            else "beyond that KFlip is better, as the paper says of ε = Ω(ln k)",
        ),
        Comparison(
            f"Section 5, {place}: 4BitFlipPM is comparable to KFlip at ε = 0.1 to 0.5",
            "comparable",
            f"{min(four):.2f} to {max(four):.2f} times its error",
            "reproduced" if max(four) < 1.3 else "does not hold",
        ),
        Comparison(
            f"Section 5, {place}: 4BitFlipPM to 1BitFlipPM are better than BinFlip+ at ε = 5 to 10",
            "better",
            f"{min(plus):.2f} to {max(plus):.2f} times its error",
            "reproduced" if max(plus) < 1 else "holds with a correction",
            "BinFlip+ here accepts with e^ε/(e^ε+1), so that a report spends exactly ε; the generic "
            "protocol's refusals tell more",
        ),
        Comparison(
            f"Eq. (3), {place}: the estimator divides by n d/k",
            "expected number of reports",
            f"dividing by the reports that sampled the bucket gives {min(counted):.2f} to {max(counted):.2f} "
            "times the error",
            "holds with a correction",
            "both are unbiased",
        ),
    ]


EXPERIMENTS = tuple(
    study(
        *("microsoft:{figure}", f"Microsoft Fig. {part}"),
        f"Histogram of {population} counters in 32 buckets, n = {SMALL:,}",
        _histogram_cells,
        _histograms,
        figures=draw_errors,
        compare=_compare_histograms,
        constants={"figure": figure, "population": population, "error": "largest error of a bar"},
        note=USAGE_NOTE if population == "usage" else "",
    )
    for figure, part, population in (("fig2c", "2 (c)", "usage"), ("fig3c", "3 (c)", "normal"))
)
"""Errors of histograms."""
