"""Two slices compared: how often a difference is said that is none, and how many differences are found.

    python benchmarks/slices.py [--pairs N] [--seed S]

Support counts are drawn directly. The devices of both slices are drawn from one population and keep their
values, so that as much as possible repeats itself in every epoch. Where nothing differs, some of 8 values may
be said to differ in at most 5 % of the pairs, and so may a value that was chosen beforehand; the third column
has that value with errors for the given devices alone. Where a value differs by four standard errors, one
epoch is compared, with Fisher's exact test of the same counts beside it.
Exit code 0: all bands hold; 1: one does not.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import fisher_exact

from ldpbeam.estimates import estimate, variance
from ldpbeam.over_time import Series, mean, memo_errors
from ldpbeam.over_time.compare import Comparison, compare_runs, of_sample
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.part_estimator import PartEstimator
from ldpbeam.support import SupportProbabilities

Floats = NDArray[np.float64]

DEVICES = 12_000, 4_000
POPULATION = np.array([0.3, 0.25, 0.15, 0.12, 0.08, 0.06, 0.03, 0.01])
TESTED = 1
RATE = 0.05
SLACK = 4.0
"""Standard errors of a rate that a band leaves for chance."""

TWO = Parameters(epsilon_longitudinal=4.0, epsilon_first=2.0)


@dataclass(frozen=True)
class Setting:
    """A protocol whose devices have bits of their own for each value."""

    part: PartEstimator
    rng: np.random.Generator

    @property
    def support(self) -> SupportProbabilities:
        assert self.part.support is not None
        return self.part.support

    def series(self, frequency: Floats, devices: int, epochs: int) -> Series:
        """What devices say that keep values and memos."""
        lasting, binomial = self.part.lasting, self.rng.binomial
        held = self.rng.multinomial(devices, frequency)
        own, other = float(self.support.own), float(self.support.other)
        if lasting is not None:
            first, second = float(lasting.own), float(lasting.other)
            held = binomial(held, first) + binomial(devices - held, second)
            # The second round, which with the first one makes the chances of a report.
            slope = (own - other) / (first - second)
            own, other = own + slope * (1 - first), own - slope * first
        made = []
        for _ in range(epochs):
            counts = binomial(held, own) + binomial(devices - held, other)
            made.append(estimate(counts, devices, self.support, None, sum_to_one=True))
        n = np.array([one.n for one in made])
        frequencies, errors = (
            np.array([getattr(one, name) for one in made]) for name in ("frequency", "std_error")
        )
        return Series(np.arange(epochs), n, frequencies, errors)

    def compared(self, one: Series, other: Series, *, sampled: bool = True) -> Comparison:
        errors = memo_errors(self.part.of_sample if sampled else self.part)
        before, after = (of_sample(x, self.part) if sampled else x for x in (one, other))
        return compare_runs(mean(before, errors), mean(after, errors))

    def alarms(self, epochs: int) -> tuple[bool, bool, bool]:
        pair = [self.series(POPULATION, devices, epochs) for devices in DEVICES]
        found, alone = (self.compared(*pair, sampled=sampled) for sampled in (True, False))
        some = bool(found.moved(RATE).size)
        return some, bool(found.p_value[TESTED] <= RATE), bool(alone.p_value[TESTED] <= RATE)

    def hits(self) -> tuple[bool, bool]:
        """Whether it is found, and found by the exact test."""
        drawn = self.part.of_sample.support
        assert drawn is not None
        spread = sum(float(variance(POPULATION[TESTED : TESTED + 1], n, drawn)[0]) for n in DEVICES)
        moved = POPULATION * (1 - 4 * spread**0.5 / (1 - POPULATION[TESTED]))
        moved[TESTED] = POPULATION[TESTED] + 4 * spread**0.5
        pair = [self.series(one, n, 1) for one, n in zip((POPULATION, moved), DEVICES, strict=True)]
        gap, other = float(self.support.gap), float(self.support.other)
        counts = [
            round((other + gap * x.estimate[0, TESTED]) * n) for x, n in zip(pair, DEVICES, strict=True)
        ]
        exact = fisher_exact(np.array([counts, np.array(DEVICES) - counts]))[1]
        return bool(self.compared(*pair).p_value[TESTED] <= RATE), bool(exact <= RATE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng, pairs, held = np.random.default_rng(given.seed), range(given.pairs), True
    settings = {
        name: Setting(PartEstimator(protocol(name.split()[0], POPULATION.size, parameters)), rng)
        for name, parameters in (
            ("oue ε=1", Parameters(epsilon=1.0)),
            ("oue ε=5", Parameters(epsilon=5.0)),
            ("l_osue ε∞=4 ε1=2", TWO),
            ("l_sue ε∞=4 ε1=2", TWO),
        )
    }
    most = RATE + SLACK * np.sqrt(RATE * (1 - RATE) / given.pairs)
    print("false alarms: of 8 values, of a chosen one, of that one with errors for the given devices alone")
    for name, setting in settings.items():
        for epochs in (1, 14):
            some, one, alone = np.mean([setting.alarms(epochs) for _ in pairs], axis=0)
            held &= bool(max(some, one) <= most)
            print(f"  {name:18} {epochs:2} epochs   {some:.3f}   {one:.3f}   {alone:.3f}")
    print("found, of a value that differs by 4 standard errors; by Fisher's exact test")
    for name, setting in settings.items():
        ours, exact = np.mean([setting.hits() for _ in pairs], axis=0)
        held &= bool(ours >= exact - 0.02)
        print(f"  {name:18}  1 epoch    {ours:.3f}   {exact:.3f}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
