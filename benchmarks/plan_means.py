"""Whether ``ldpbeam plan --mean`` predicts errors as they are, and recommends what is best.

    python benchmarks/plan_means.py [--needs N] [--seed S]

Draws needs for a mean at random. For each, the settings that miss nothing and are within 1.3 of the least
predicted error are simulated by the protocols' own fleet: groups of devices that keep their values for all
epochs, spread evenly over the range. Errors are root mean squares over the groups, of one epoch and of the
mean of all, against the mean of the group's true values. What a plan predicts is the error that a run
publishes for these values, which for bits counts the variance of the values too. docs/planning.md has the
figures.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ldpbeam.collection.participation import Participation
from ldpbeam.planning.figures import Figures
from ldpbeam.planning.needs import MeanNeeds
from ldpbeam.planning.plan import ALIKE, Row, make_plan
from ldpbeam.planning.spread import WIDE
from ldpbeam.protocols.part_estimator import PartEstimator
from ldpbeam.simulators.participation import silenced
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords

GROUPS, DEVICES = 1000, 300
CLOSE = 1.3
"""Settings with errors within this factor of the least are simulated."""


@dataclass(frozen=True)
class Measured:
    """Of one setting and population: measured over predicted."""

    error: float
    one: float
    mean: float


def needs_at_random(count: int, seed: int) -> Iterator[MeanNeeds]:
    """Needs that leave something to choose, of at most seven epochs."""
    draw = np.random.default_rng(seed)
    made = 0
    while made < count:
        level = float(draw.choice([0.5, 1.0, 2.0, 3.0, 4.0]))
        limits = [
            partial(MeanNeeds, longitudinal=level),
            partial(MeanNeeds, longitudinal=level, first=level * float(draw.choice([0.3, 0.5, 0.7]))),
            partial(MeanNeeds, inputs_cap=level * float(draw.choice([2.0, 3.0]))),
            partial(MeanNeeds, lifetime=level),
            partial(MeanNeeds, longitudinal=level, bits=1),
        ]
        m, epochs = int(draw.choice([2, 60, 1000, 86_400])), int(draw.choice([1, 2, 3]))
        needs = limits[int(draw.integers(len(limits)))](m + 1, DEVICES, epochs)
        if make_plan(needs).meets:
            made += 1
            yield needs


def measured(row: Row, needs: MeanNeeds, held: NDArray[np.int64], seed: int) -> Measured:
    """Groups of devices that hold ``held`` (DEVICES,) for all epochs."""
    protocol, words = row.setting.protocol, RandomWords(seed)
    fleet = ProtocolFleet(protocol, GROUPS * DEVICES, words)
    estimator = PartEstimator(protocol, present=row.setting.share)
    values = np.tile(held, GROUPS)
    life = Participation(row.setting.reports, row.setting.epochs)
    found = np.full((needs.epochs, GROUPS), np.nan)
    for epoch in range(needs.epochs):
        present = silenced(life, words, epoch, values) if row.setting.participates else values
        payloads = np.concatenate([batch.payloads for batch in fleet.reports(epoch, present)])
        of_group = np.flatnonzero(present >= 0) // DEVICES
        for group, mine in enumerate(np.split(payloads, np.searchsorted(of_group, np.arange(1, GROUPS)))):
            counts = np.zeros(protocol.counter.counts_length, np.int64)
            protocol.counter.add(mine, counts)
            found[epoch, group] = estimator.estimate(counts, len(mine)).frequency[0]
    off = found - held.mean()
    error, whole = (float(np.sqrt(np.nanmean(one**2))) for one in (off, off.mean(axis=0)))
    predicted: Figures = row.figures
    return Measured(error, error / predicted.std_error, WIDE * whole / predicted.mean_7)


def main() -> None:
    """Draw, plan, simulate, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--needs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    begun = time.process_time()
    worst: list[Measured] = []
    losses: list[float] = []
    for number, needs in enumerate(needs_at_random(asked.needs, asked.seed)):
        plan, m = make_plan(needs), needs.maximum
        even = np.linspace(0, m, DEVICES).round().astype(np.int64)
        fit = [row for row in plan.rows if not row.missed]
        fit = [row for row in fit if row.figures.std_error <= CLOSE * fit[0].figures.std_error]
        seeds = [1000 * number + place + 100_000 * asked.seed for place in range(len(fit))]
        here = [measured(row, needs, even, seed) for row, seed in zip(fit, seeds, strict=True)]
        worst += here
        mine = next(one for one, row in zip(here, fit, strict=True) if row is plan.recommended)
        losses.append(mine.error / min(one.error for one in here))
        assert plan.recommended is not None
        print(
            f"{number:3}  m={m:6} T={needs.epochs}  {plan.recommended.setting.label:32} {mine.one:.3f} of "
            f"predicted, mean {mine.mean:.3f}; {losses[-1]:.3f} of the best of {len(fit):2}",
            flush=True,
        )
    print(f"needs {len(losses)}, settings simulated {len(worst)}")
    for name in ("one", "mean"):
        found = [getattr(measure, name) for measure in worst]
        inside = sum(abs(ratio - 1) <= 0.05 for ratio in found)
        print(f"{name}: measured over predicted {min(found):.3f} .. {max(found):.3f}, within 5 %: {inside}")
    best = sum(loss <= ALIKE for loss in losses)
    print(f"recommended within {ALIKE} of the least simulated error: {best}; furthest {max(losses):.3f}")
    print(f"{time.process_time() - begun:.0f} CPU s")


if __name__ == "__main__":
    main()
