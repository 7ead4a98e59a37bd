"""Errors over epochs: do the stated intervals of means, differences and trends hold, and do naive ones?

    python benchmarks/over_time.py [--groups N] [--seed S] [--only PART]

Many small fleets of devices with memos report for some epochs while values change at a known rate, or all at
once in the middle. Every fleet gives one mean, one difference of two means and one trend per value, each with
three intervals: without the rate that values are drawn anew at, with it, and as if epochs were independent.
Covered is what was true of the fleet. Then: how often `compare` finds a change where no frequency changed,
and how often intervals of means cover where devices come back to their values.
Exit code 0: all bands hold; 1: one does not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.over_time import Combined, DrawnAnew, Series, difference, mean, memo_errors, trend
from ldpbeam.over_time.compare import compare_epochs
from ldpbeam.protocols import LocalProtocol, Parameters, protocol
from ldpbeam.protocols.attributes.allocate import allocate
from ldpbeam.protocols.part_estimator import part_estimators
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ONCE = -1.0
"""Stands for a change of all values at once, in the middle."""
RATES = (0.0, 0.02, 0.25, 1.0, ONCE)
EPOCHS = 10
DEVICES = 2000
K = 8
Z = 1.959964
ROUNDING = 1e-7
"""Errors that cancel leave that much of each other."""
SLACK = 4.0
"""Standard errors of a coverage that a band leaves for chance."""

EXACT = (0.935, 0.965)
"""No interval covers less, but for chance; with the right rate exact ones do not cover more."""
FALSE = 0.05
"""False-discovery rate of the comparisons: where nothing changed, at most so many of them find something."""


@dataclass(frozen=True)
class Setting:
    """A protocol; ``exact`` where its covariance is known and not only bounded."""

    name: str
    build: Callable[[], LocalProtocol[Any]]
    exact: bool = True


def _two(name: str, **more: Any) -> Callable[[], LocalProtocol[Any]]:
    return lambda: protocol(name, K, Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0, **more))


def _several(allocation: str, name: str | None, **levels: Any) -> Callable[[], LocalProtocol[Any]]:
    return lambda: allocate(allocation, name, (K, K), Parameters(**levels))


SETTINGS = (
    Setting("loloha linear g=2", _two("loloha", g=2)),
    Setting("loloha linear", _two("loloha")),
    Setting("loloha affine", _two("loloha", hash_family="affine", g=3)),
    Setting("l_grr", _two("l_grr")),
    Setting("l_sue", _two("l_sue")),
    Setting("l_osue", _two("l_osue")),
    Setting(
        "l_osue 2/1.8", lambda: protocol("l_osue", K, Parameters(epsilon_longitudinal=2.0, epsilon_first=1.8))
    ),
    Setting("l_oue", _two("l_oue")),
    Setting("l_soue", _two("l_soue")),
    Setting("rappor", lambda: protocol("rappor", K, Parameters(epsilon_longitudinal=2.0))),
    Setting("dbitflip_pm d=3", lambda: protocol("dbitflip_pm", K, Parameters(epsilon_longitudinal=2.0, d=3))),
    Setting("one_bit_rrpm", lambda: protocol("one_bit_rrpm", K, Parameters(epsilon_longitudinal=2.0)), False),
    Setting("allomfree", _several("allomfree", None, epsilon_longitudinal=2.0, epsilon_first=1.0)),
    Setting("sample loloha", _several("sample", "loloha", epsilon_longitudinal=2.0, epsilon_first=1.0)),
    Setting("split l_osue", _several("split", "l_osue", epsilon_longitudinal=4.0, epsilon_first=2.0)),
    Setting("sample grr", _several("sample", "grr", epsilon=1.0)),
)


@dataclass
class Fleets:
    """What fleets of equal size reported, by fleet, epoch and value."""

    estimate: Floats
    std_error: Floats
    n: Ints
    truth: Floats
    errors: Any
    changed: float = 0.0


@dataclass(frozen=True)
class Population:
    """How values change."""

    rate: float
    permuted: bool = False

    def moved(self, epoch: int, epochs: int, held: Ints, weights: Floats, rng: np.random.Generator) -> Ints:
        """The values (groups, devices) or (groups, devices, attributes) of the next epoch."""
        chance = float(epoch == epochs // 2) if self.rate == ONCE else self.rate
        some = rng.random(held.shape) < chance
        if not self.permuted:
            return np.where(some, rng.choice(weights.size, held.shape, p=weights), held)
        moved = held.copy()
        for group, who in zip(moved, some, strict=True):
            group[who] = rng.permutation(group[who])
        return moved

    def shown(self, epoch: int, epochs: int, held: Ints) -> Ints:
        """What the devices hold in an epoch, where that is not what they go on from."""
        return held


@dataclass(frozen=True)
class Returning(Population):
    """Devices come back to values of their own."""

    weekly: bool = False

    def moved(self, epoch: int, epochs: int, held: Ints, weights: Floats, rng: np.random.Generator) -> Ints:
        """Homes stay; who is away, and where, is in :meth:`shown`."""
        return held

    def shown(self, epoch: int, epochs: int, held: Ints) -> Ints:
        """All draws anew from the same words, up to this epoch."""
        rng = np.random.Generator(np.random.Philox(17))
        if self.weekly:
            return held if epoch % 7 < 5 else rng.integers(K, size=held.shape)
        away, at = np.zeros(held.shape, np.bool_), held
        for _ in range(epoch + 1):
            chance, anywhere = rng.random(held.shape), rng.integers(K, size=held.shape)
            leaves, returns = ~away & (chance < self.rate), away & (chance < 0.5)
            at = np.where(leaves, anywhere, np.where(returns, held, at))
            away = (away | leaves) & ~returns
        return at


def fleets(
    built: LocalProtocol[Any], groups: int, devices: int, epochs: int, population: Population, seed: int
) -> Fleets:
    """Simulate; values are Zipf-distributed at first. Of several attributes the first."""
    rng = np.random.Generator(np.random.Philox(seed))
    parts = len(built.parts)
    k = built.parts[0].domain_size
    weights = 1 / np.arange(1, k + 1)
    weights /= weights.sum()
    fleet = ProtocolFleet(built, groups * devices, RandomWords(seed), rows_per_batch=devices)
    estimator = part_estimators(built)[0]
    held = rng.choice(k, (groups, devices, *([parts] if parts > 1 else [])), p=weights)
    rows = built.parts[0].estimator.size
    shape = (groups, epochs, rows)
    found = Fleets(
        np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int64), np.zeros(shape), memo_errors(estimator)
    )
    seen = held
    for epoch in range(epochs):
        if epoch:
            held = population.moved(epoch, epochs, held, weights, rng)
        last, seen = seen, population.shown(epoch, epochs, held)
        found.changed += float((seen != last).mean()) / (epochs - 1) if epoch else 0.0
        batches = fleet.reports(epoch, seen.reshape(groups * devices, *held.shape[2:]))
        for group, batch in enumerate(batches):
            counts = np.zeros(built.counter.counts_length, np.int64)
            built.counter.add(batch.payloads, counts)
            cells, reports = built.counter.part_counts(counts, len(batch))[0]
            one = estimator.estimate(cells, reports)
            found.estimate[group, epoch], found.std_error[group, epoch] = one.frequency, one.std_error
            found.n[group, epoch] = one.n
            first = seen[group] if parts == 1 else seen[group, :, 0]
            mine = np.bincount(first, minlength=k) / devices
            found.truth[group, epoch] = mine if rows == k else (mine * np.arange(k)).sum()
    return found


def _estimands(epochs: int) -> dict[str, tuple[Callable[..., Combined], Floats]]:
    """Each with its weights, for the truth."""
    after = np.arange(epochs) >= epochs // 2
    time = np.arange(epochs) - (epochs - 1) / 2
    halves = after / after.sum() - ~after / (~after).sum()
    return {
        "mean": (mean, np.full(epochs, 1 / epochs)),
        "difference": (lambda s, e, r=None: difference(s, after, ~after, e, r), halves),
        "trend": (trend, time / (time**2).sum()),
    }


def _series(found: Fleets, group: int) -> Series:
    epochs = np.arange(found.estimate.shape[1])
    return Series(epochs, found.n[group], found.estimate[group], found.std_error[group])


def coverage(found: Fleets, rate: float) -> dict[str, dict[str, float]]:
    """Share of (fleet, value) whose truth lies in the interval: by estimand, then by interval."""
    groups, epochs, _ = found.estimate.shape
    known = None if rate == ONCE else DrawnAnew(rate, rate)
    table: dict[str, dict[str, float]] = {}
    for name, (estimand, weights) in _estimands(epochs).items():
        hits: dict[str, list[Any]] = {"unknown rate": [], "stated rate": [], "naive": []}
        for group in range(groups):
            true = weights @ found.truth[group]
            kinds = ((found.errors, None), (found.errors, known), (None, None))
            for kind, (errors, given) in zip(hits, kinds, strict=True):
                one = estimand(_series(found, group), errors, given)
                hits[kind].append(np.abs(one.estimate - true) <= Z * one.std_error + ROUNDING)
        table[name] = {kind: float(np.mean(all_of)) for kind, all_of in hits.items()}
    return table


def alarms(found: Fleets) -> tuple[float, float]:
    """Share of fleets of which some value is said to have changed; by `compare`, and as if independent."""
    groups, epochs, _ = found.estimate.shape
    late = np.arange(epochs) >= epochs // 2
    heard = np.array(
        [
            [
                compare_epochs(_series(found, group), ~late, late, errors).moved(0.05).size > 0
                for errors in (found.errors, None)
            ]
            for group in range(groups)
        ]
    )
    return float(heard[:, 0].mean()), float(heard[:, 1].mean())


PANEL_EPOCHS = 30
PANELS = {"home": Returning(0.5), "week": Returning(0.0, weekly=True)}


def returning(found: Fleets) -> dict[str, dict[int, float]]:
    """Coverage of means of 7 and 30 epochs: from 0 to the share that changed, and at this share alone."""
    rates = {
        "from 0": DrawnAnew(0.0, found.changed),
        "share": DrawnAnew(found.changed, found.changed),
    }
    table: dict[str, dict[int, float]] = {}
    for name, rate in rates.items():
        for length in (7, 30):
            hits = []
            for group in range(len(found.estimate)):
                for start in range(0, PANEL_EPOCHS - length + 1, length):
                    rows = slice(start, start + length)
                    one = mean(_series(found, group).rows(rows), found.errors, rate)
                    true = found.truth[group, rows].mean(axis=0)
                    hits.append(np.abs(one.estimate - true) <= Z * one.std_error + ROUNDING)
            table.setdefault(name, {})[length] = float(np.mean(hits))
    return table


def _print_returns(groups: int, seed: int) -> list[str]:
    failed = []
    print("| protocol | devices | changed | from 0: mean of 7, of 30 | the share alone: mean of 7, of 30 |")
    print("| --- | --- | --- | --- | --- |")
    for number, setting in enumerate(SETTINGS):
        for kind, population in PANELS.items():
            found = fleets(
                setting.build(), groups // 2, DEVICES // 4, PANEL_EPOCHS, population, seed * 5000 + number
            )
            table = returning(found)
            chance = SLACK * (0.05 * 0.95 / (groups / 2 * max(1, found.estimate.shape[2] / 2))) ** 0.5
            if min(table["from 0"].values()) < 0.94 - chance:
                failed.append(f"{setting.name}, {kind}: covers too little")
            cells = (", ".join(f"{one:.3f}" for one in row.values()) for row in table.values())
            print(f"| {setting.name} | {kind} | {found.changed:.2f} | {' | '.join(cells)} |", flush=True)
    return failed


def _print_coverage(groups: int, seed: int) -> list[str]:
    failed = []
    print("| protocol | rate | mean | difference | trend |")
    print("| --- | --- | --- | --- | --- |")
    for number, setting in enumerate(SETTINGS):
        for rate in RATES:
            population = Population(rate)
            found = fleets(setting.build(), groups, DEVICES, EPOCHS, population, seed * 1000 + number)
            table = coverage(found, rate)
            # Values of one fleet go together: a fleet counts for half of them.
            chance = SLACK * (0.05 * 0.95 / (groups * max(1, found.estimate.shape[2] / 2))) ** 0.5
            for name, row in table.items():
                place = f"{setting.name}, rate {_named(rate)}, {name}"
                if min(row["unknown rate"], row["stated rate"]) < EXACT[0] - chance:
                    failed.append(f"{place}: covers too little")
                if setting.exact and rate > 0 and row["stated rate"] > EXACT[1] + chance:
                    failed.append(f"{place}: covers too much")
            cells = (" / ".join(f"{row[kind]:.3f}" for kind in row) for row in table.values())
            print(f"| {setting.name} | {_named(rate)} | {' | '.join(cells)} |", flush=True)
    return failed


def _print_alarms(groups: int, seed: int) -> list[str]:
    failed = []
    print(f"| protocol | {' | '.join(f'rate {_named(rate)}' for rate in RATES)} |")
    print(f"| --- |{' --- |' * len(RATES)}")
    for number, setting in enumerate(SETTINGS):
        if setting.build().parts[0].estimator.size == 1:
            continue
        cells = []
        for rate in RATES:
            population = Population(rate, permuted=True)
            ours, naive = alarms(
                fleets(setting.build(), groups, DEVICES, EPOCHS, population, seed * 2000 + number)
            )
            cells.append(f"{ours:.3f} / {naive:.3f}")
            if ours > FALSE + SLACK * (FALSE * (1 - FALSE) / groups) ** 0.5:
                failed.append(f"{setting.name}, rate {_named(rate)}: too many false alarms")
        print(f"| {setting.name} | {' | '.join(cells)} |", flush=True)
    return failed


def _named(rate: float) -> str:
    return "once" if rate == ONCE else f"{rate:g}"


def main(arguments: list[str] | None = None) -> int:
    """Print the tables and what does not hold."""
    parts = {
        "coverage": _print_coverage,
        "alarms": _print_alarms,
        "returns": _print_returns,
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=list(parts))
    asked = parser.parse_args(arguments)
    failed = []
    for name, part in parts.items():
        if asked.only in (None, name):
            failed += part(asked.groups, asked.seed)
            print()
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
