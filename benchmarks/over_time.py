"""Errors over epochs: do the stated intervals of means, differences and trends hold, and do naive ones?

    python benchmarks/over_time.py [--groups N] [--seed S]

Many small fleets of devices with memos report for some epochs while values change at a known rate, or all at
once in the middle. Every fleet gives one mean, one difference of two means and one trend per value, each with
three intervals: without a change rate, with it, and as if epochs were independent. Covered is what was true
of the fleet. docs/over-time.md has the table. Exit code 0: all bands hold; 1: one does not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.over_time import ChangeRate, Combined, Series, difference, mean, memo_errors, trend
from ldpbeam.protocols import LocalProtocol, Parameters, protocol
from ldpbeam.protocols.attributes.allocate import allocate
from ldpbeam.simulators.fleet import Fleet
from ldpbeam.simulators.words import RandomWords

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

LEAST = 0.935
"""No stated interval may cover less, but for chance."""
EXACT = (0.935, 0.965)
"""Intervals with the right change rate cover this much, but for chance, where the model is exact."""


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


def fleets(
    built: LocalProtocol[Any], groups: int, devices: int, epochs: int, rate: float, seed: int
) -> Fleets:
    """Simulate; values are Zipf-distributed and drawn anew with the rate. Of several attributes the first."""
    rng = np.random.Generator(np.random.Philox(seed))
    parts = len(built.parts)
    k = built.parts[0].domain_size
    weights = 1 / np.arange(1, k + 1)
    several = (parts,) if parts > 1 else ()

    def drawn() -> Ints:
        return rng.choice(k, (groups * devices, *several), p=weights / weights.sum()).astype(np.int64)

    fleet = Fleet(built, groups * devices, RandomWords(seed), rows_per_batch=devices)
    estimator = built.estimators[0]
    held = drawn()
    rows = built.parts[0].results
    shape = (groups, epochs, rows)
    found = Fleets(
        np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int64), np.zeros(shape), memo_errors(estimator)
    )
    for epoch in range(epochs):
        if epoch:
            now = float(epoch == epochs // 2) if rate == ONCE else rate
            held = np.where(rng.random(held.shape) < now, drawn(), held)
        first = (held[:, 0] if several else held).reshape(groups, devices)
        for group, batch in enumerate(fleet.reports(epoch, held)):
            counts = np.zeros(built.counts_length, np.int64)
            built.add_support(batch.payloads, counts)
            cells, reports = built.part_counts(counts, len(batch))[0]
            one = estimator.estimate(cells, reports)
            found.estimate[group, epoch], found.std_error[group, epoch] = one.frequency, one.std_error
            found.n[group, epoch] = one.n
            mine = np.bincount(first[group], minlength=k) / devices
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


def coverage(found: Fleets, rate: float) -> dict[str, dict[str, float]]:
    """Share of (fleet, value) whose truth lies in the interval: by estimand, then by interval."""
    groups, epochs, _ = found.estimate.shape
    table: dict[str, dict[str, float]] = {}
    for name, (estimand, weights) in _estimands(epochs).items():
        hits: dict[str, list[Floats]] = {"unknown rate": [], "stated rate": [], "naive": []}
        for group in range(groups):
            series = Series(np.arange(epochs), found.n[group], found.estimate[group], found.std_error[group])
            true = weights @ found.truth[group]
            known = None if rate == ONCE else ChangeRate(rate, rate)
            for kind, errors, given in (
                ("unknown rate", found.errors, None),
                ("stated rate", found.errors, known),
                ("naive", None, None),
            ):
                one = estimand(series, errors, given)
                hits[kind].append(np.abs(one.estimate - true) <= Z * one.std_error + ROUNDING)
        table[name] = {kind: float(np.mean(all_of)) for kind, all_of in hits.items()}
    return table


def main(arguments: list[str] | None = None) -> int:
    """Print the table and what does not hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    failed = []
    print("| protocol | rate | mean | difference | trend |")
    print("| --- | --- | --- | --- | --- |")
    for number, setting in enumerate(SETTINGS):
        for rate in RATES:
            found = fleets(setting.build(), asked.groups, DEVICES, EPOCHS, rate, asked.seed * 1000 + number)
            table = coverage(found, rate)
            # Values of one fleet go together; a fleet counts as little more than one.
            chance = SLACK * (0.05 * 0.95 / (asked.groups * found.estimate.shape[2] / 2)) ** 0.5
            cells = []
            for name, row in table.items():
                cells.append(" / ".join(f"{row[kind]:.3f}" for kind in row))
                if row["unknown rate"] < LEAST - chance or row["stated rate"] < LEAST - chance:
                    failed.append(f"{setting.name}, rate {rate}, {name}: covers too little")
                if setting.exact and rate > 0 and row["stated rate"] > EXACT[1] + chance:
                    failed.append(f"{setting.name}, rate {rate}, {name}: covers too much")
            print(
                f"| {setting.name} | {'once' if rate == ONCE else rate} | {' | '.join(cells)} |", flush=True
            )
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
