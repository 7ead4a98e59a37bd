"""Which histogram of values in an order has the least error.

    python benchmarks/ordered.py [--data ../shared/data] [--full] [--seed S]
    python benchmarks/ordered.py --two-rounds
    python benchmarks/ordered.py --coverage [--fleets 400]
    python benchmarks/ordered.py --periods [--fleets 400]
    python benchmarks/ordered.py --figure FILE.svg

A cell is a histogram over k values in their order, a level ε and a number of devices. Made histograms are
bimodal, a spike with a tail, uniform, stairs, Beta(1/2, 1/2), a triangle, a saw, two blocks, log-normal; the
places of their parts are drawn with the seed. Of --data, where it is there: ages and hours a week (Adult),
and a weight of a survey, cut into k stretches (DB_MT). Each cell is simulated several times; the truth is the
fleet's own histogram.

An entry of ESTIMATORS answers a fleet's reports with one or several histograms, which share their draws.
`oue` or `grr`, whichever has the lower variance, is made consistent by several methods here.

Three errors: Wasserstein (W1, the mean difference of the cumulative shares, as a share of the domain),
Kolmogorov (KS, the largest one), and the mean squared error of single values. Prints, as Markdown, geometric
means of the errors relative to those of `bayes`, by k and by histogram, and the share of cells
in which `ordered` has more error than the better one of `norm_sub` and `bayes`, and `interval` (`olh` whose
functions cut the domain into stretches) 1.3 times that of the best of all three.

--two-rounds compares `loloha` with this family to `l_osue`: ε∞ = 2 and ε1 = 1, k = 64, 10,000 devices.
--coverage says how often 95 % limits of `interval` hold the fleet's own cumulative shares (the mean over all
places, and the lowest place) and its own mean, in many fleets of each histogram.
--periods says the same of a week and of four weeks, as `export --every 7` has them: of one fit of the counts,
and of the mean of the curves, which results without counts have; how many times as wide and as far off the
latter is; and how often `compare` of two days with two days names a quartile by either.
--figure draws the cumulative shares of one fleet: true, by `interval` with its limits, and by `bayes`.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.consistency import geometric, supports
from ldpbeam.consistency import consistent
from ldpbeam.consistency.base import FloatArray, Noise
from ldpbeam.estimates import CONFIDENCE
from ldpbeam.estimation.distribution import Distribution
from ldpbeam.hashing.interval import IntervalFamily
from ldpbeam.over_time.period import fit_period
from ldpbeam.over_time.significance import normal_limit
from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol
from ldpbeam.protocols.interval_hash import IntervalEstimator, IntervalHash
from ldpbeam.protocols.part_estimator import PartEstimator
from ldpbeam.simulators.population.specs import ABSENT
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from ldpbeam.sums.distribution import Curve, MeanOfEpochs, mean_curve
from ldpbeam.sums.quartiles import compare_quartiles

SIZES = (64, 256, 1024)
FULL_SIZES = (32, 64, 128, 256, 512, 1024)
LEVELS = (0.5, 1.0, 2.0, 4.0)
DEVICES = (1_000, 10_000, 100_000, 1_000_000)
ROUNDS = 2
FULL_ROUNDS = 8
METHODS = ("none", "norm_sub", "bayes", "ordered")
ERRORS = ("W1", "KS", "MSE")
SHOWN = ("W1", "MSE")
BASE = "bayes"
OTHERS = {"ordered": ("norm_sub", "bayes"), "interval": ("norm_sub", "bayes", "ordered")}
"""What else a collection would have: the best of these is what a method is compared to."""
MUCH = {"ordered": 1.1, "interval": 1.3}
"""How many times the error of the best of the others is a loss; less may be chance."""

ATOM = 0.02
"""Hours a week that a larger part of the people work are declared."""

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


def reported_stretches(
    held: np.ndarray[Any, Any], of: IntervalEstimator, draw: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Counts of one report of each device, (functions·g,)."""
    bounds, g = of.family.bounds(), of.family.g
    drawn = draw.multinomial(held, np.full(len(bounds), 1 / len(bounds))).T  # devices by function and value
    below = np.concatenate([np.zeros((len(bounds), 1), np.int64), np.cumsum(drawn, axis=1)], axis=1)
    in_stretch = np.diff(np.take_along_axis(below, bounds, axis=1), axis=1)
    own, other = map(float, of.symbol)
    chances = np.full((g, g), other) + np.eye(g) * (own - other)
    answers = draw.multinomial(in_stretch, chances / chances.sum(axis=1, keepdims=True)).sum(axis=1)
    return np.asarray(answers.ravel())


def distribution(
    held: np.ndarray[Any, Any], of: IntervalEstimator, draw: np.random.Generator, atoms: tuple[int, ...] = ()
) -> Distribution:
    """What the server makes of these reports."""
    return of.posterior(atoms).estimate(reported_stretches(held, of, draw))


def estimator_of(name: str, k: int, **parameters: Any) -> IntervalEstimator:
    built = protocol(name, k, Parameters(hash_family=IntervalFamily.NAME, **parameters))
    assert isinstance(built.estimator, IntervalEstimator)
    return built.estimator


def interval(held: np.ndarray[Any, Any], level: float, draw: np.random.Generator) -> dict[str, FloatArray]:
    """The histogram of `olh` with the interval family, g optimal."""
    return {"interval": distribution(held, estimator_of("olh", held.size, epsilon=level), draw).frequency}


ESTIMATORS: tuple[Estimator, ...] = (counted, interval)


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
    shown = [(name, kind) for kind in SHOWN for name in names if name not in (BASE, "none")]
    columns = [f"{kind} `{name}`" for name, kind in shown]
    lines = [f"| {' | '.join([*heads, 'cells', *columns])} |"]
    lines.append("| --- " * (len(heads) + 1 + len(columns)) + "|")
    groups: dict[tuple[str, ...], list[Cell]] = defaultdict(list)
    for cell in found:
        groups[group(cell)].append(cell)
    for key, some in groups.items():
        means = [geometric([cell.ratio(name, kind) for cell in some]) for name, kind in shown]
        row = [*key, str(len(some)), *(f"{mean:.2f}" for mean in means)]
        lines.append(f"| {' | '.join(row)} |")
    return lines


def losses(found: list[Cell], method: str) -> list[str]:
    """By each error: the share of cells in which a method loses, and the worst ratio."""
    lines = [f"| `{method}`: error | cells lost | worst |", "| --- | --- | --- |"]
    for kind in ERRORS:
        ratios = [cell.ratio(method, kind, OTHERS[method]) for cell in found]
        lost = sum(ratio > MUCH[method] for ratio in ratios)
        worst = max(range(len(found)), key=ratios.__getitem__)
        cell = found[worst]
        where = f"{ratios[worst]:.2f}: {cell.shape}, k = {cell.k}, ε = {cell.level:g}, {cell.devices:,}"
        lines.append(f"| {kind} | {100 * lost / len(found):.0f} % | {where if lost else '–'} |")
    return lines


def size_of(cell: Cell) -> str:
    """Its k; ages and hours have sizes of their own."""
    return "74, 96" if cell.shape.startswith("Adult") else f"{cell.k:,}"


def report(found: list[Cell]) -> list[str]:
    """All tables."""
    lines = table(found, ("k",), lambda cell: (size_of(cell),))
    lines += ["", *table(found, ("histogram",), lambda cell: (cell.shape,))]
    for method in MUCH:
        lines += ["", *losses(found, method)]
    return lines


# --- two rounds


def two_rounds(seed: int, fleets: int) -> list[str]:
    """W1·10⁴ of `loloha` by stretches and of `l_osue`, and how many times as large the latter is."""
    k, devices = 64, 10_000
    levels: dict[str, Any] = {"epsilon_longitudinal": 2.0, "epsilon_first": 1.0}
    unary = protocol("l_osue", k, Parameters(**levels))
    assert isinstance(unary, FrequencyProtocol)
    chances = unary.estimator.support
    noise = Noise(devices, float(chances.own), float(chances.other), unary.estimator.EXCLUSIVE)
    of = {name: estimator_of("loloha", k, g=g, **levels) for name, g in (("g optimal", None), ("g = 2", 2))}
    lines = ["| histogram | `l_osue`, `bayes` | `ordered` | g optimal | times | g = 2 | times |"]
    lines.append("| --- " * 7 + "|")
    ratios: dict[str, list[float]] = defaultdict(list)
    for shape, truth in shapes(k, np.random.default_rng([seed, k])).items():
        error: dict[str, float] = defaultdict(float)
        for number in range(fleets):
            draw = np.random.default_rng([seed, number, *shape.encode()])
            held = draw.multinomial(devices, truth)
            estimates = (supports(unary, held, draw) / devices - noise.other) / noise.gap
            found = {name: consistent(name, estimates, noise) for name in ("bayes", "ordered")}
            found |= {name: distribution(held, one, draw).frequency for name, one in of.items()}
            for name, histogram in found.items():
                error[name] += float(np.abs(np.cumsum(histogram - held / devices)).mean()) / fleets
        for name in of:
            ratios[name].append(error["bayes"] / error[name])
        cells = [f"{1e4 * error[name]:.0f}" for name in ("bayes", "ordered")]
        for name in of:
            cells += [f"{1e4 * error[name]:.0f}", f"{ratios[name][-1]:.2f}"]
        lines.append(f"| {' | '.join([shape, *cells])} |")
    means = [f" | {geometric(some):.2f}" for some in ratios.values()]
    return [*lines, f"| geometric mean | | |{' |'.join(means)} |"]


# --- coverage


def coverage(data: Path, seed: int, fleets: int) -> list[str]:
    """How often limits hold the fleet's own shares and mean."""
    lines = ["| k, ε, devices | histogram | shares: mean | lowest place | mean | width of a share |"]
    lines.append("| --- " * 6 + "|")
    lowest: list[float] = []
    for k, level, devices in ((64, 1.0, 10_000), (64, 1.0, 1_000), (256, 2.0, 100_000), (64, 0.5, 10_000)):
        settings = [*shapes(k, np.random.default_rng([seed, k])).items(), *real(data, (k,))]
        for shape, truth in settings:
            # Round hours a week, such as 40, are atoms that a collection would declare.
            atoms = tuple(np.flatnonzero(truth > ATOM).tolist()) if shape == "Adult hours" else ()
            of = estimator_of("olh", truth.size, epsilon=level)
            holds, held_mean, width = np.zeros(truth.size), 0, 0.0
            for number in range(fleets):
                draw = np.random.default_rng([seed, k, round(10 * level), devices, number, *shape.encode()])
                held = draw.multinomial(devices, truth)
                found = distribution(held, of, draw, atoms)
                low, high = found.limits(CONFIDENCE)
                share = np.cumsum(held) / devices
                holds += (low - 1e-9 <= share) & (share <= high + 1e-9)
                lower, upper = found.mean_limits(CONFIDENCE)
                held_mean += int(lower <= held @ np.arange(truth.size) / devices <= upper)
                width += float((high - low)[:-1].mean())
            inner = holds[:-1] / fleets
            lowest.append(float(inner.mean()))
            numbers = (inner.mean(), inner.min(), held_mean / fleets, width / fleets)
            row = [f"{truth.size}, {level:g}, {devices:,}", shape, *(f"{one:.3f}" for one in numbers)]
            lines.append(f"| {' | '.join(row)} |")
    return [*lines, "", f"Lowest mean over places: {min(lowest):.3f}"]


# --- periods

PROTOCOLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("olh", {"epsilon": 1.0}),
    ("loloha", {"epsilon_longitudinal": 2.0, "epsilon_first": 1.0}),
    ("loloha", {"epsilon_longitudinal": 2.0, "epsilon_first": 1.8}),
)
CHANGES = ("none", "anew 0.02", "anew 0.1", "step", "half come", "few at first")
"""What devices do from day to day: draw some values anew, change all in the middle, report on half of the
days, or begin to report one by one, so that days have unequal numbers of reports."""
K = 64
SHIFT = 3
"""Places that all values rise by, where `compare` is to find it."""
NO_ROWS: Any = None


@dataclass(frozen=True)
class Fleet:
    """Many devices with one protocol."""

    label: str
    kind: IntervalHash
    devices: int

    @classmethod
    def all(cls, devices: int) -> Iterator[Fleet]:
        """One of each of PROTOCOLS."""
        for name, levels in PROTOCOLS:
            kind = protocol(name, K, Parameters(hash_family=IntervalFamily.NAME, **levels))
            assert isinstance(kind, IntervalHash)
            yield cls(f"{name}, {'/'.join(f'{level:g}' for level in levels.values())}", kind, devices)

    def counts(self, days: Iterable[np.ndarray[Any, Any]], seed: int) -> list[np.ndarray[Any, Any]]:
        """Of the devices' reports, day by day, of their values on each day."""
        fleet, found = ProtocolFleet(self.kind, self.devices, RandomWords(seed)), []
        for day, values in enumerate(days):
            found.append(np.zeros(self.kind.counter.counts_length, np.int64))
            for batch in fleet.reports(day, values.astype(np.int32)):
                self.kind.counter.add(batch.payloads, found[-1])
        return found


def lives(
    change: str, truth: FloatArray, devices: int, days: int, draw: np.random.Generator
) -> Iterator[tuple[np.ndarray[Any, Any], FloatArray]]:
    """Day by day what devices report, some of them nothing, and the histogram that it is about."""
    values, begins = draw.choice(K, devices, p=truth), draw.integers(0, days, devices)
    for day in range(days):
        if change == "step" and day == days // 2:
            values = np.minimum(values + K // 8, K - 1)
        if change.startswith("anew"):
            again = draw.random(devices) < float(change.removeprefix("anew "))
            values = np.where(again, draw.choice(K, devices, p=truth), values)
        there = begins <= day if change == "few at first" else np.ones(devices, bool)
        about = np.bincount(values[there], minlength=K) / there.sum()
        if change == "half come":
            there = draw.random(devices) < 1 / 2
        yield np.where(there, values, ABSENT), about


def shapes_of_periods(seed: int) -> dict[str, FloatArray]:
    place = (np.arange(K) + 0.5) / K
    ages = place * (1 - place) ** 4
    return {"ages": ages / ages.sum()} | shapes(K, np.random.default_rng([seed, K]))


def periods(seed: int, fleets: int) -> list[str]:
    """How often limits of a period hold the mean of its true curves, and how wide they are."""
    heads = ("protocol", "days", "histogram", "change", "fit: shares held", "lowest place", "curves: held")
    more = ("mean: held", "its error, of a day's", "width, times", "error, times", "half-width / error")
    lines = [f"| {' | '.join((*heads, *more))} |", "| --- " * (len(heads) + len(more)) + "|"]
    for fleet in Fleet.all(2_000):
        for days, changes in ((7, CHANGES), (28, CHANGES[:1])):
            for shape in ("ages", "spike", "stairs"):
                for change in changes:
                    row = [fleet.label, str(days), shape, change]
                    key = [seed, days, *"".join(row).encode()]
                    truth = shapes_of_periods(seed)[shape]
                    lines.append(
                        f"| {' | '.join([*row, *_period(fleet, truth, change, days, key, fleets)])} |"
                    )
    return [*lines, "", *compared(seed, fleets)]


def _period(
    fleet: Fleet, truth: FloatArray, change: str, days: int, key: list[int], fleets: int
) -> Iterator[str]:
    """The numbers of a row; pairs are of one fit, and of the mean of the curves."""
    estimator = fleet.kind.estimator
    holds, width, error = np.zeros((2, K - 1)), np.zeros(2), np.zeros(2)
    held_mean = narrower = 0.0
    for number in range(fleets):
        draw = np.random.default_rng([number, *key])
        reported, about = zip(*lives(change, truth, fleet.devices, days, draw), strict=True)
        true = np.cumsum(np.mean(about, axis=0))
        counts = fleet.counts(reported, int(draw.integers(1 << 60)))
        found = [estimator.posterior().estimate(one) for one in counts]
        fit = fit_period(PartEstimator(fleet.kind), counts)
        both = ((fit.cumulative, *fit.limits(CONFIDENCE)), mean_of_curves(found))
        for place, (curve, low, high) in enumerate(both):
            holds[place] += ((low - 1e-9 <= true) & (true <= high + 1e-9))[:-1] / fleets
            width[place] += np.mean((high - low)[:-1]) / fleets
            error[place] += np.mean((curve - true)[:-1] ** 2) / fleets
        parts = [estimator.lasting_part_of_mean(one.cumulative, Fraction(1)) for one in found]
        means, errors = np.array([(one.mean, one.mean_std_error) for one in found]).T
        mean = MeanOfEpochs.of(means, errors**2, np.array(parts), np.full(len(means), 1 / len(means)))
        off = abs(mean.mean - np.diff(true, prepend=0.0) @ np.arange(K))
        held_mean += bool(off <= normal_limit(CONFIDENCE) * mean.std_error) / fleets
        narrower += mean.std_error / errors.mean() / fleets
    rms = np.sqrt(error)
    yield from (f"{one:.3f}" for one in (holds[0].mean(), holds[0].min(), holds[1].mean(), held_mean))
    ratios = (narrower, width[1] / width[0], rms[1] / rms[0], width[0] / 2 / rms[0])
    yield from (f"{one:.2f}" for one in ratios)


def mean_of_curves(found: list[Distribution]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What results without counts have: the mean of the curves, and of their limits."""
    limits = np.array([one.limits(CONFIDENCE) for one in found])
    return mean_curve(np.array([one.cumulative for one in found]), limits[:, 0], limits[:, 1])


def compared(seed: int, fleets: int) -> list[str]:
    """How often `compare` of two days with two days names a quartile."""
    lines = ["| protocol | histogram | change | one fit | mean of curves |", "| --- " * 5 + "|"]
    for fleet in Fleet.all(3_000):
        estimator = fleet.kind.estimator
        for shape in ("ages", "bimodal", "stairs"):
            for change in (f"rise by {SHIFT}", "none", "dealt anew"):
                named = np.zeros(2)
                for number in range(fleets):
                    draw = np.random.default_rng([seed, number, *f"{fleet.label}{shape}{change}".encode()])
                    first = draw.choice(K, fleet.devices, p=shapes_of_periods(seed)[shape])
                    risen = np.minimum(first + SHIFT * change.startswith("rise"), K - 1)
                    then = draw.permutation(first) if change == "dealt anew" else risen
                    counts = fleet.counts([first, first, then, then], int(draw.integers(1 << 60)))
                    sides = []
                    for some in (counts[:2], counts[2:]):
                        fit = fit_period(PartEstimator(fleet.kind), some)
                        found = [estimator.posterior().estimate(one) for one in some]
                        sides.append(((fit.cumulative, *fit.limits(CONFIDENCE)), mean_of_curves(found)))
                    for place, pair in enumerate(zip(*sides, strict=True)):
                        before, after = (Curve(NO_ROWS, *one) for one in pair)
                        verdicts = compare_quartiles(before, after, (), 4)
                        named[place] += any(one.clear for one in verdicts) / fleets
                numbers = (f"{one:.3f}" for one in named)
                lines.append(f"| {' | '.join([fleet.label, shape, change, *numbers])} |")
    return lines


# --- a picture


def figure(seed: int) -> str:
    """An SVG of one fleet: a spike with a tail, k = 256, ε = 1, 10,000 devices."""
    import altair as alt

    from ldpbeam.report_page.svg import document

    k, level, devices, draw = 256, 1.0, 10_000, np.random.default_rng(seed)
    held = draw.multinomial(devices, shapes(k, np.random.default_rng([seed, k]))["spike"])
    found = distribution(held, estimator_of("olh", k, epsilon=level), draw)
    low, high = found.limits(CONFIDENCE)
    curves = {
        "true": np.cumsum(held) / devices,
        "interval, with 95 % limits": found.cumulative,
        "oue and bayes": np.cumsum(counted(held, level, draw)["bayes"]),
    }
    rows = [
        {"value": value, "share": float(share), "curve": name}
        for name, curve in curves.items()
        for value, share in enumerate(curve)
    ]
    limits = [
        {"value": value, "low": float(ends[0]), "high": float(ends[1])}
        for value, ends in enumerate(zip(low, high, strict=True))
    ]
    colours = alt.Scale(domain=list(curves), range=["#D55E00", "#0072B2", "#7a7a7a"])
    whole = alt.Scale(domain=[0, 1])
    share = alt.Y("share:Q", title="share of the devices at the value or below", scale=whole)
    across = alt.X("value:Q", title="value", scale=alt.Scale(domain=[0, k - 1]))
    band = (
        alt.Chart(alt.InlineData(values=limits))
        .mark_area(opacity=0.2, color="#0072B2")
        .encode(across, y="low:Q", y2="high:Q")
    )
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=1.5, interpolate="step-after")
        .encode(across, share, alt.Color("curve:N", scale=colours, title=None))
    )
    both = alt.LayerChart(layer=[band, lines])
    return document(
        both.properties(width=560, height=300),
        "Cumulative shares of one fleet: true, estimated from stretches with limits, and from single values",
        "ordered",
    )


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of real data")
    parser.add_argument("--full", action="store_true", help="more sizes and rounds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--two-rounds", action="store_true", help="l_osue and loloha at ε∞ = 2, ε1 = 1")
    parser.add_argument("--periods", action="store_true", help="the same of means over seven epochs")
    parser.add_argument("--coverage", action="store_true", help="how often limits hold the truth")
    parser.add_argument(
        "--fleets", type=int, default=400, help="of each histogram, where limits are looked at"
    )
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw one fleet, as SVG")
    given = parser.parse_args()
    if given.figure is not None:
        given.figure.write_text(figure(given.seed), "utf-8")
        lines = [f"{given.figure} is written"]
    elif given.two_rounds:
        lines = two_rounds(given.seed, max(1, given.fleets // 20))
    elif given.periods:
        lines = periods(given.seed, given.fleets)
    elif given.coverage:
        lines = coverage(given.data, given.seed, given.fleets)
    else:
        lines = report(list(cells(given.data, given.seed, full=given.full)))
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
