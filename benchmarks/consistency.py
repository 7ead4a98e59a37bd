"""Which consistency method has the least error, by number of values and protocol.

    python benchmarks/consistency.py [--data ../shared/data] [--quick] [--seed S]

A cell is a histogram (Zipf 1.1 and 1.5, uniform, one spike, two levels, sparse, geometric, bell, ramp; the
real frequencies of --data where they are there), a protocol at a level, and a number of devices. Each cell is
simulated several times: every device holds a value, and support counts are drawn from their exact law for
direct encoding, and value by value from their exact marginal law for unary encoding and hashing.
The error is the mean squared error over the values, divided by that of norm_sub in the same draws.

Prints, as Markdown, the geometric mean and the worst cell by protocol and k, the worst cells of all, what the
defaults of docs/consistency.md would have cost, the error of shares of ordered values, added up from each
method's results, and the bias of one value among many that nobody holds.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np

from ldpbeam.consistency import consistent
from ldpbeam.consistency.base import FloatArray, Noise
from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol

METHODS = ("norm_sub", "mle_apx", "power_ns", "bayes")
SIZES = (2, 3, 5, 8, 12, 20, 32, 50, 100, 200, 500, 1000, 5000)
LEVELS = (0.5, 1.0, 3.0)
"""ε1; ε∞ is twice as much."""
DEVICES = (10_000, 200_000)
PROTOCOLS = ("l_grr", "l_osue", "loloha")
QUICK_SIZES = (5, 20, 100, 1000)
SUMMED = ("none", "norm", "norm_sub", "bayes")
CUTS = (0.25, 0.5, 0.75, 0.9)
"""Shares of the devices below the values at which histograms are cut."""


@dataclass(frozen=True)
class Cell:
    """One setting, and the error of each method relative to norm_sub's."""

    protocol: str
    k: int
    shape: str
    level: float
    devices: int
    error: dict[str, float]


def shapes(k: int) -> dict[str, FloatArray]:
    """Histograms over k values."""
    rank = np.arange(1.0, k + 1.0)
    made = {
        "zipf 1.1": rank**-1.1,
        "zipf 1.5": rank**-1.5,
        "uniform": np.ones(k),
        "spike": np.where(rank == 1, k - 1.0, 1.0),
        "two levels": np.where(rank <= max(1, k // 10), 9.0, 1.0),
        "sparse": np.where(rank <= max(2, k // 20), 1.0, 0.0),
        "geometric": exp(-4.0 / k) ** rank,
        "bell": np.exp(-0.5 * ((rank - (k + 1) / 2) / (k / 8)) ** 2),
        "ramp": rank,
    }
    return {name: shape / shape.sum() for name, shape in made.items()}


def real(folder: Path) -> dict[str, FloatArray]:
    """Frequencies of the data that is there."""
    found = {}
    marginals = folder / "msfimu_marginals.json"
    if marginals.exists():
        for name, counts in json.loads(marginals.read_text("utf-8")).items():
            if isinstance(counts, list):
                found[f"MS-FIMU {name}"] = np.array(counts) / sum(counts)
    for label, file, column, k in (
        ("Adult hours", "adult.csv", "hours-per-week", 96),
        ("DB_MT", "db_mt.csv", "PWGTP1", 1412),
    ):
        if (folder / file).exists():
            with (folder / file).open(encoding="utf-8", newline="") as stream:
                counts = sorted(Counter(row[column] for row in csv.DictReader(stream)).values())
            padded = np.array([0.0] * max(0, k - len(counts)) + counts)
            found[label] = padded / padded.sum()
    return found


def supports(
    kind: FrequencyProtocol[Any], held: np.ndarray[Any, Any], draw: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Support counts of a population with so many devices at each value."""
    own, other, k = float(kind.estimator.support.own), float(kind.estimator.support.other), held.size
    kept = draw.binomial(held, own)
    if not kind.estimator.EXCLUSIVE:
        return np.asarray(kept + draw.binomial(int(held.sum()) - held, other))
    # The others name another value than their own, each with the same chance.
    lost = np.repeat(np.arange(k), held - kept)
    named = (lost + draw.integers(1, k, lost.size)) % k
    return np.asarray(kept + np.bincount(named, minlength=k))


def cell_of(
    name: str, shape: str, truth: FloatArray, level: float, devices: int, rounds: int, seed: int
) -> Cell:
    """Simulate one cell."""
    k = truth.size
    kind = protocol(name, k, Parameters(epsilon_longitudinal=2 * level, epsilon_first=level))
    assert isinstance(kind, FrequencyProtocol)
    draw = np.random.default_rng([seed, PROTOCOLS.index(name), k, round(10 * level), devices, len(shape)])
    noise = Noise(
        devices,
        float(kind.estimator.support.own),
        float(kind.estimator.support.other),
        kind.estimator.EXCLUSIVE,
    )
    error: dict[str, float] = dict.fromkeys(METHODS, 0.0)
    for _ in range(rounds):
        held = draw.multinomial(devices, truth)
        true = held / devices
        estimates = (supports(kind, held, draw) / devices - noise.other) / noise.gap
        for method in METHODS:
            error[method] += float(np.mean((consistent(method, estimates, noise) - true) ** 2))
    tiny = 1e-6 * rounds * noise.floor_variance  # two answers that are both exact are equally good
    base = error["norm_sub"] + tiny
    return Cell(name, k, shape, level, devices, {m: (e + tiny) / base for m, e in error.items()})


def cells(data: Path, seed: int, *, quick: bool) -> Iterator[Cell]:
    rounds = 2 if quick else 6
    settings = [
        (shape, truth) for k in (QUICK_SIZES if quick else SIZES) for shape, truth in shapes(k).items()
    ]
    settings += list(real(data).items())
    for name in PROTOCOLS:
        for shape, truth in settings:
            for level in LEVELS:
                for devices in DEVICES[:1] if quick else DEVICES:
                    yield cell_of(name, shape, truth, level, devices, rounds, seed)


def ordered(folder: Path) -> dict[str, FloatArray]:
    """Frequencies of values that have an order."""
    found = {
        "Zipf 1.05, k = 1,000": shapes_of(1000)["zipf 1.05"],
        "exponential, k = 100": shapes_of(100)["exponential"],
        "bell, k = 100": shapes(100)["bell"],
        "ramp, k = 50": shapes(50)["ramp"],
    }
    if (folder / "adult.csv").exists():
        with (folder / "adult.csv").open(encoding="utf-8", newline="") as stream:
            counts = Counter(int(row["age"]) for row in csv.DictReader(stream))
        ages = np.array([counts[age] for age in range(min(counts), max(counts) + 1)], float)
        found[f"Adult age, k = {ages.size}"] = ages / ages.sum()
    return found


def shapes_of(k: int) -> dict[str, FloatArray]:
    """Histograms that are only added up."""
    rank = np.arange(1.0, k + 1.0)
    made = {"zipf 1.05": rank**-1.05, "exponential": np.exp(-6.0 * rank / k)}
    return {name: shape / shape.sum() for name, shape in made.items()}


@dataclass(frozen=True)
class Summed:
    """What adding up each method's results does."""

    below: dict[str, float]
    rare: float
    single: float


def summed(truth: FloatArray, devices: int, level: float, rounds: int, seed: int) -> Summed:
    """Simulate one histogram of ordered values."""
    k = truth.size
    kind = protocol("l_osue", k, Parameters(epsilon_longitudinal=2 * level, epsilon_first=level))
    assert isinstance(kind, FrequencyProtocol)
    draw = np.random.default_rng([seed, k, devices, round(10 * level)])
    noise = Noise(
        devices,
        float(kind.estimator.support.own),
        float(kind.estimator.support.other),
        kind.estimator.EXCLUSIVE,
    )
    cuts = [int(np.searchsorted(np.cumsum(truth), cut)) + 1 for cut in CUTS]
    rarer = np.argsort(truth, kind="stable")[: k // 2]
    squares, single = dict.fromkeys(SUMMED, 0.0), dict.fromkeys(SUMMED, 0.0)
    rare = 0.0
    for _ in range(rounds):
        held = draw.multinomial(devices, truth)
        estimates = (supports(kind, held, draw) / devices - noise.other) / noise.gap
        for method in SUMMED:
            error = consistent(method, estimates, noise) - held / devices
            squares[method] += sum(float(error[:cut].sum()) ** 2 for cut in cuts) / len(cuts) / rounds
            single[method] += float(np.mean(error**2))
            if method == "bayes":
                rare += float(error[rarer].sum()) / rounds
    below = {method: 100 * square**0.5 for method, square in squares.items()}
    return Summed(below, 100 * rare, single["bayes"] / single["none"])


def sums(histograms: dict[str, FloatArray], seed: int, rounds: int) -> list[str]:
    """Rows of a table about what is added up from each method's results."""
    lines = [
        "| values | devices | ε1 | "
        + " | ".join(f"`{m}`" for m in SUMMED)
        + " | rarer half by `bayes` | MSE of one value, `bayes` / `none` |",
        "| --- " * (5 + len(SUMMED)) + "|",
    ]
    for label, truth in histograms.items():
        for devices, level in ((5_000, 1.0), (50_000, 1.0), (50_000, 2.0)):
            found = summed(truth, devices, level, rounds, seed)
            cells = " | ".join(f"{found.below[m]:.1f}" for m in SUMMED)
            lines.append(
                f"| {label} | {devices:,} | {level:g} | {cells} | {found.rare:+.1f} | {found.single:.2f} |"
            )
    return lines


def biases(seed: int, rounds: int) -> list[str]:
    """Rows of a table: bias of one value, in standard errors of a value that nobody holds."""
    lines = ["| standard errors above 0 | `norm_sub` | `bayes` |", "| --- | --- | --- |"]
    kind = protocol("l_osue", 1000, Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0))
    assert isinstance(kind, FrequencyProtocol)
    noise = Noise(
        100_000,
        float(kind.estimator.support.own),
        float(kind.estimator.support.other),
        kind.estimator.EXCLUSIVE,
    )
    error = noise.floor_variance**0.5
    for high in (1, 2, 3, 4, 5, 6, 8, 12):
        draw = np.random.default_rng([seed, high])
        held = np.zeros(1000, np.int64)
        held[:2] = round(high * error * noise.n), 0
        held[-1] = noise.n - held.sum()
        bias = dict.fromkeys(("norm_sub", "bayes"), 0.0)
        for _ in range(rounds):
            estimates = (supports(kind, held, draw) / noise.n - noise.other) / noise.gap
            for method in bias:
                found = consistent(method, estimates, noise)
                bias[method] += float(found[0] - held[0] / noise.n) / error / rounds
        lines.append(f"| {high} | {bias['norm_sub']:+.2f} | {bias['bayes']:+.2f} |")
    return lines


def geometric(ratios: list[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, ratios)) / len(ratios))


def table(found: list[Cell]) -> str:
    """By protocol and k: geometric mean and worst cell of each method."""
    lines = [
        "| protocol | k | cells | " + " | ".join(f"`{m}` mean | worst" for m in METHODS[1:]) + " |",
        "| --- " * (3 + 2 * len(METHODS[1:])) + "|",
    ]
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in found:
        made = cell.shape in shapes(cell.k)
        groups[cell.protocol, f"{cell.k:,}" if made else "real data"].append(cell)
    for (name, k), some in groups.items():
        shown = []
        for method in METHODS[1:]:
            ratios = [cell.error[method] for cell in some]
            shown.append(f"{geometric(ratios):.2f} | {max(ratios):.2f}")
        lines.append(f"| `{name}` | {k} | {len(some)} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def worst(found: list[Cell], method: str, rows: int = 8) -> str:
    """The cells in which a method does worst."""
    lines = [
        f"| `{method}` against `norm_sub` | protocol | histogram | k | ε1 | devices |",
        "| --- " * 6 + "|",
    ]
    for cell in sorted(found, key=lambda cell: -cell.error[method])[:rows]:
        lines.append(
            f"| {cell.error[method]:.2f} | `{cell.protocol}` | {cell.shape} | {cell.k:,} | {cell.level:g} | "
            f"{cell.devices:,} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of real data")
    parser.add_argument("--quick", action="store_true", help="few sizes and rounds")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    found = list(cells(given.data, given.seed, quick=given.quick))
    print(table(found))
    for method in ("power_ns", "bayes"):
        print()
        print(worst(found, method))
    for start in (0, 12, 20, 50, 100):
        chosen = [cell.error["bayes" if cell.k >= start else "norm_sub"] for cell in found]
        print(f"\nbayes from k = {start}: geometric mean {geometric(chosen):.3f}, worst {max(chosen):.2f}")
    print("", *sums(ordered(given.data), given.seed, 4 if given.quick else 40), sep="\n")
    print("", *biases(given.seed, 10 if given.quick else 200), sep="\n")


if __name__ == "__main__":
    main()
