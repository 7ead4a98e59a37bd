"""Which histogram of values in an order has the least error.

    python benchmarks/ordered.py [--data ../shared/data] [--full] [--seed S]

A cell is a histogram over k values in their order, a level ε and a number of devices. Made histograms are
bimodal, a spike with a tail, uniform, stairs, Beta(1/2, 1/2), a triangle, a saw, two blocks, log-normal; the
places of their parts are drawn with the seed. Of --data, where it is there: ages and hours a week (Adult),
and a weight of a survey, cut into k runs (DB_MT). Each cell is simulated several times; the truth is the
fleet's own histogram.

An entry of ESTIMATORS answers a fleet's reports with one or several histograms, which share their draws.
`oue` or `grr`, whichever has the lower variance, is made consistent by several methods here.

Three errors: Wasserstein (W1, the mean difference of the cumulative shares, as a share of the domain),
Kolmogorov (KS, the largest one), and the mean squared error of single values. Prints, as Markdown, geometric
means of the errors relative to those of `bayes`, by k and number of devices and by histogram, and the cells
in which `ordered` has more error than the better one of `norm_sub` and `bayes`.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.consistency import geometric, supports
from ldpbeam.consistency import consistent
from ldpbeam.consistency.base import FloatArray, Noise
from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol

SIZES = (64, 256, 1024)
FULL_SIZES = (32, 64, 128, 256, 512, 1024)
LEVELS = (0.5, 1.0, 2.0, 4.0)
DEVICES = (1_000, 10_000, 100_000, 1_000_000)
ROUNDS = 2
FULL_ROUNDS = 8
METHODS = ("none", "norm_sub", "bayes", "ordered")
ERRORS = ("W1", "KS", "MSE")
BASE = "bayes"
OTHERS = ("norm_sub", "bayes")
"""Without `ordered` a collection would have one of these."""
MUCH = 1.1
"""How many times the error of the better one of the others is a loss; less may be chance."""

Estimator = Callable[[np.ndarray[Any, Any], float, np.random.Generator], dict[str, FloatArray]]
"""Of (devices at each value, ε, random generator): the histograms by their names, float64 (k,)."""


def counted(held: np.ndarray[Any, Any], level: float, draw: np.random.Generator) -> dict[str, FloatArray]:
    """Raw estimates and what methods make of them, of the one-round protocol with the lower V*."""
    kinds = [protocol(name, held.size, Parameters(epsilon=level)) for name in ("oue", "grr")]
    kind = min(
        (one for one in kinds if isinstance(one, FrequencyProtocol)),
        key=lambda one: one.estimator.support.floor,
    )
    probabilities, devices = kind.estimator.support, int(held.sum())
    noise = Noise(devices, float(probabilities.own), float(probabilities.other), kind.estimator.EXCLUSIVE)
    estimates = (supports(kind, held, draw) / devices - noise.other) / noise.gap
    return {name: consistent(name, estimates, noise) for name in METHODS}


ESTIMATORS: tuple[Estimator, ...] = (counted,)


@dataclass(frozen=True)
class Cell:
    """One setting, and its errors: (method, kind of error) to the mean of the rounds."""

    k: int
    shape: str
    level: float
    devices: int
    error: dict[tuple[str, str], float]

    def ratio(self, method: str, kind: str, others: tuple[str, ...] = (BASE,)) -> float:
        """How many times the error of the best of the others a method has."""
        return self.error[method, kind] / min(self.error[other, kind] for other in others)


def shapes(k: int, draw: np.random.Generator) -> dict[str, FloatArray]:
    """Histograms over k values in their order."""
    place = (np.arange(k) + 0.5) / k
    u = draw.uniform(size=8)

    def bell(centre: float, width: float) -> FloatArray:
        return np.asarray(np.exp(-0.5 * ((place - centre) / width) ** 2), np.float64)

    stairs = draw.uniform(0.2, 1.8, 7)[np.minimum((place * 7).astype(int), 6)]
    tail = np.exp(-place * (4 + 4 * u[0]))
    tail *= 0.7 / tail.sum()
    tail[0] += 0.3
    made = {
        "bimodal": bell(0.2 + 0.1 * u[1], 0.06) + 0.5 * bell(0.65 + 0.1 * u[2], 0.1),
        "spike": tail,
        "uniform": np.ones(k),
        "stairs": stairs,
        "beta": 1 / np.sqrt(place * (1 - place)),
        "triangle": np.minimum(place / (0.2 + 0.2 * u[3]), (1 - place) / (0.8 - 0.2 * u[3])),
        "saw": 0.1 + (3 * place + u[4]) % 1.0,
        "blocks": 0.1 + (np.abs(place - 0.2 - 0.1 * u[5]) < 0.08) + 0.6 * (np.abs(place - 0.7) < 0.12),
        "log-normal": np.exp(-0.5 * ((np.log(place) + 1.8 - 0.4 * u[6]) / 0.6) ** 2) / place,
    }
    return {name: shape / shape.sum() for name, shape in made.items()}


def real(folder: Path, sizes: tuple[int, ...]) -> Iterator[tuple[str, FloatArray]]:
    """Frequencies of the data that is there; what is not there is named on standard error."""
    for label, file, column, cut in (
        ("Adult age", "adult.csv", "age", False),
        ("Adult hours", "adult.csv", "hours-per-week", False),
        ("DB_MT weight", "db_mt.csv", "PWGTP1", True),
    ):
        if not (folder / file).exists():
            print(f"{label} is left out: {folder / file} is not there", file=sys.stderr)
            continue
        with (folder / file).open(encoding="utf-8", newline="") as stream:
            counts = Counter(int(row[column]) for row in csv.DictReader(stream))
        values = np.array(list(counts.elements()))
        first, last = int(values.min()), int(values.max())
        for k in sizes if cut else (last - first + 1,):
            held = np.bincount((values - first) * k // (last - first + 1), minlength=k)
            yield label, held / held.sum()


def measured(shape: str, truth: FloatArray, level: float, devices: int, rounds: int, seed: int) -> Cell:
    """Simulate one cell. Every estimator has random numbers of its own: a further one changes no other."""
    k = truth.size
    error: dict[tuple[str, str], float] = defaultdict(float)
    for number in range(rounds):
        key = [seed, k, round(10 * level), devices, number, *shape.encode()]
        held = np.random.default_rng(key).multinomial(devices, truth)
        for place, estimator in enumerate(ESTIMATORS):
            draw = np.random.default_rng([*key, place])
            for name, histogram in estimator(held, level, draw).items():
                wrong = histogram - held / devices
                above = np.abs(np.cumsum(wrong))
                for kind, size in zip(ERRORS, (above.mean(), above.max(), np.mean(wrong**2)), strict=True):
                    error[name, kind] += float(size) / rounds
    return Cell(k, shape, level, devices, dict(error))


def cells(data: Path, seed: int, *, full: bool) -> Iterator[Cell]:
    """Every cell."""
    sizes, rounds = (FULL_SIZES, FULL_ROUNDS) if full else (SIZES, ROUNDS)
    settings: list[tuple[str, FloatArray]] = []
    for k in sizes:
        settings += shapes(k, np.random.default_rng([seed, k])).items()
    settings += real(data, sizes)
    for shape, truth in settings:
        for level in LEVELS:
            for devices in DEVICES:
                yield measured(shape, truth, level, devices, rounds, seed)


def table(found: list[Cell], heads: tuple[str, ...], group: Callable[[Cell], tuple[str, ...]]) -> list[str]:
    """Geometric means of the errors relative to BASE, one row for a group of cells."""
    names = list(dict.fromkeys(name for name, _ in found[0].error))
    shown = [name for name in names if name != BASE]
    columns = [f"{kind} `{name}`" for kind in ERRORS for name in shown]
    lines = [f"| {' | '.join([*heads, 'cells', *columns])} |"]
    lines.append("| --- " * (len(heads) + 1 + len(columns)) + "|")
    groups: dict[tuple[str, ...], list[Cell]] = defaultdict(list)
    for cell in found:
        groups[group(cell)].append(cell)
    for key, some in groups.items():
        means = [geometric([cell.ratio(name, kind) for cell in some]) for kind in ERRORS for name in shown]
        row = [*key, str(len(some)), *(f"{mean:.2f}" for mean in means)]
        lines.append(f"| {' | '.join(row)} |")
    return lines


def losses(found: list[Cell]) -> list[str]:
    """By k and number of devices: in how many cells `ordered` loses by each error, and the worst ratio."""
    heads = [f"{kind}: cells lost | worst" for kind in ERRORS]
    lines = [f"| k | devices | cells | {' | '.join(heads)} |", "| --- " * (3 + 2 * len(ERRORS)) + "|"]
    groups: dict[tuple[str, int], list[Cell]] = defaultdict(list)
    for cell in found:
        groups[size_of(cell), cell.devices].append(cell)
    for (size, devices), some in groups.items():
        row = [size, f"{devices:,}", str(len(some))]
        for kind in ERRORS:
            worst = max(some, key=lambda cell: cell.ratio("ordered", kind, OTHERS))
            ratio = worst.ratio("ordered", kind, OTHERS)
            lost = sum(cell.ratio("ordered", kind, OTHERS) > MUCH for cell in some)
            row += [str(lost), f"{ratio:.2f}: {worst.shape}, ε = {worst.level:g}" if lost else "–"]
        lines.append(f"| {' | '.join(row)} |")
    return lines


def size_of(cell: Cell) -> str:
    """Its k; ages and hours have sizes of their own."""
    return "74, 96" if cell.shape.startswith("Adult") else f"{cell.k:,}"


def report(found: list[Cell]) -> list[str]:
    """All tables."""
    lost = {
        kind: sum(cell.ratio("ordered", kind, OTHERS) > MUCH for cell in found) / len(found)
        for kind in ERRORS
    }
    shares = ", ".join(f"{kind} in {100 * share:.0f} %" for kind, share in lost.items())
    return [
        *table(found, ("k", "devices"), lambda cell: (size_of(cell), f"{cell.devices:,}")),
        "",
        *table(found, ("ε",), lambda cell: (f"{cell.level:g}",)),
        "",
        *table(found, ("histogram",), lambda cell: (cell.shape,)),
        "",
        f"Of {len(found):,} cells `ordered` loses by {shares}.",
        "",
        *losses(found),
    ]


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of real data")
    parser.add_argument("--full", action="store_true", help="more sizes and rounds")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(*report(list(cells(given.data, given.seed, full=given.full))), sep="\n")


if __name__ == "__main__":
    main()
