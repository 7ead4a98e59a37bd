"""Whether ``ldpbeam plan`` predicts errors as they are, and recommends what is best.

    python benchmarks/plan.py [--needs N] [--seed S]

Draws needs at random: values, devices, epochs and limits. For each, every setting that misses nothing is
simulated by the protocols' own fleet on a Zipf population: one epoch of fresh devices, again and again. The
error is the root mean square over values and repetitions, against the true frequencies of the population. The
settings within a fifth of the best get an accuracy of 1 %, the others one of 4 %, which is enough to
see that they are worse. docs/planning.md has the figures.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil, sqrt

import numpy as np

from ldpbeam.planning.needs import FrequencyNeeds, zipf
from ldpbeam.planning.plan import ALIKE, Plan, Row, make_plan
from ldpbeam.protocols import FrequencyProtocol
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords

CLOSE = 1.2
"""Errors within this factor of the least predicted one are measured finely."""

FINE, COARSE = 6000, 400
"""Squared errors that a measurement takes the mean of: a relative error of 1/√(2·FINE) = 0.9 %, and 3.5 %."""


@dataclass(frozen=True)
class Measured:
    """One setting of one need."""

    row: Row
    error: float
    fine: bool

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.error / self.row.figures.std_error


def needs_at_random(count: int, seed: int) -> Iterator[FrequencyNeeds]:
    """Needs that leave something to choose; devices are as many as make the noise of n itself small."""
    draw = np.random.default_rng(seed)
    made = 0
    while made < count:
        k, epochs = int(draw.choice([6, 12, 24, 48, 96])), int(draw.choice([1, 3, 6, 10]))
        level = float(draw.choice([0.5, 1.0, 2.0, 3.0, 4.0]))
        limits = [
            partial(FrequencyNeeds, longitudinal=level),
            partial(
                FrequencyNeeds, longitudinal=level, first=level * float(draw.choice([0.3, 0.5, 0.7, 0.9]))
            ),
            partial(FrequencyNeeds, inputs_cap=level * float(draw.choice([2.0, 3.0]))),
            partial(FrequencyNeeds, lifetime=level),
            partial(FrequencyNeeds, longitudinal=level, bits=int(draw.choice([8, 16, 64]))),
        ]
        make = limits[int(draw.integers(len(limits)))]
        needs = make(k, int(draw.choice([2000, 4000])), epochs)
        if make_plan(needs).meets:
            made += 1
            yield needs


def simulated(row: Row, needs: FrequencyNeeds, squares: int, seed: int) -> float:
    """Root mean square error over values, of as many single epochs as give so many squares."""
    k, n, protocol = needs.values, needs.devices, row.setting.protocol
    assert isinstance(protocol, FrequencyProtocol)
    repetitions = ceil(squares / k)
    held = np.repeat(np.arange(k), np.random.default_rng(seed).multinomial(n, zipf(k)))
    truth = np.bincount(held, minlength=k) / n
    draw = np.random.default_rng([seed, 1])
    total, values = 0.0, 0
    # The fleet makes batches no larger than it likes: so a fleet of one epoch's devices each time.
    for repetition in range(repetitions):
        fleet = ProtocolFleet(protocol, n, RandomWords(seed * 100_003 + repetition))
        present = held
        if row.setting.participates:
            present = np.where(draw.random(n) < float(row.setting.share), held, -1)
        counts, reports = np.zeros(protocol.counter.counts_length, np.int64), 0
        for batch in fleet.reports(0, present):
            protocol.counter.add(batch.payloads, counts)
            reports += len(batch)
        supported, behind = (
            protocol.counter.support_counts(counts),
            protocol.counter.report_counts(counts, reports),
        )
        share = np.divide(supported, behind, out=np.full(k, np.nan), where=np.asarray(behind) > 0)
        error = (share - float(protocol.estimator.support.other)) / float(
            protocol.estimator.support.gap
        ) - truth
        total += float(np.nansum(error**2))
        values += int(np.isfinite(error).sum())
    return sqrt(total / values)


def measured(plan: Plan, seed: int) -> list[Measured]:
    """Every setting that misses nothing."""
    needs, fit = plan.needs, [row for row in plan.rows if not row.missed]
    assert isinstance(needs, FrequencyNeeds)
    least = fit[0].figures.std_error
    found = []
    for number, row in enumerate(fit):
        fine = row.figures.std_error <= CLOSE * least
        error = simulated(row, needs, FINE if fine else COARSE, seed + number)
        found.append(Measured(row, error, fine))
    return found


def main() -> None:
    """Draw, plan, simulate, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--needs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    begun = time.process_time()
    ratios: list[float] = []
    own: list[float] = []
    losses: list[float] = []
    settings = 0
    for number, needs in enumerate(needs_at_random(asked.needs, asked.seed)):
        plan = make_plan(needs)
        found = measured(plan, 1000 * number + asked.seed)
        settings += len(found)
        ratios += [one.ratio for one in found if one.fine]
        mine = next(one for one in found if one.row is plan.recommended)
        own.append(mine.ratio)
        losses.append(mine.error / min(one.error for one in found))
        worst = max((one for one in found if one.fine), key=lambda one: abs(one.ratio - 1))
        print(
            f"{number:3}  k={needs.values:3} n={needs.devices} T={needs.epochs:2}  "
            f"{mine.row.setting.label:28} {mine.ratio:.3f} of predicted, {losses[-1]:.3f} of the best "
            f"of {len(found):2}; furthest {worst.ratio:.3f} ({worst.row.setting.label})",
            flush=True,
        )
    good = sum(abs(ratio - 1) <= 0.05 for ratio in own)
    best = sum(loss <= ALIKE for loss in losses)
    print(f"needs {len(own)}, settings simulated {settings}, of them finely {len(ratios)}")
    print(f"recommended: measured over predicted {min(own):.3f} .. {max(own):.3f}, within 5 %: {good}")
    inside = sum(abs(ratio - 1) <= 0.05 for ratio in ratios)
    print(
        f"all finely measured: {min(ratios):.3f} .. {max(ratios):.3f}, within 5 %: {inside} of {len(ratios)}"
    )
    print(f"recommended within {ALIKE} of the best simulated error: {best}; furthest {max(losses):.3f}")
    print(f"{time.process_time() - begun:.0f} CPU s")


if __name__ == "__main__":
    main()
