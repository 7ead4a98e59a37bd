"""How far off the mean of a counter is by each protocol of one round, for values of several shapes.

    python benchmarks/means.py [--runs N] [--devices N] [--of T]

Every device has one value in 0 .. 86,400 and reports it in one of T epochs, by default in the only one.
The error is the root mean square over simulated fleets of the mean of an epoch, in per cent of the range, and
``coverage`` is how often the published 95 % limits hold the true mean. docs/means.md has the figures.
"""

from __future__ import annotations

import argparse
from fractions import Fraction

import numpy as np

from ldpbeam.arrays import Ints
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords

MAXIMUM = 86_400
PROTOCOLS = ("one_bit_mean", "laplace_mean", "piecewise_mean")


def shapes(devices: int) -> dict[str, Ints]:
    draw = np.random.default_rng(1)
    parts = {
        "even": draw.random(devices),
        "beta(2, 2)": draw.beta(2, 2, devices),
        "log-normal": np.minimum(draw.lognormal(-2.5, 1, devices), 1),
        "one point": np.full(devices, 0.5),
        "both ends": (np.arange(devices) % 2).astype(float),
    }
    return {name: (part * MAXIMUM).round().astype(np.int64) for name, part in parts.items()}


def measured(name: str, epsilon: float, held: Ints, epochs: int, runs: int) -> tuple[float, float]:
    """Error over the range, and coverage."""
    kind = protocol(name, MAXIMUM + 1, Parameters(epsilon=epsilon))
    truth, squares, covered = held.mean(), 0.0, 0
    for run in range(runs):
        values = held[np.random.default_rng([run, 2]).random(held.size) < 1 / epochs].astype(np.int32)
        counts = np.zeros(kind.counter.counts_length, np.int64)
        for batch in ProtocolFleet(kind, values.size, RandomWords(run)).reports(0, values):
            kind.counter.add(batch.payloads, counts)
        found = kind.estimator.estimate(counts, values.size, share=Fraction(1, epochs))
        squares += float(found.frequency[0] - truth) ** 2
        covered += bool(found.low[0] <= truth <= found.high[0])
    return (squares / runs) ** 0.5 / MAXIMUM, covered / runs


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--devices", type=int, default=20_000)
    parser.add_argument("--of", type=int, default=1)
    asked = parser.parse_args()
    for shape, held in shapes(asked.devices).items():
        for epsilon in (1.0, 2.0, 4.0, 8.0):
            found = {name: measured(name, epsilon, held, asked.of, asked.runs) for name in PROTOCOLS}
            errors = {name: error for name, (error, _) in found.items()}
            times = min(errors["one_bit_mean"], errors["laplace_mean"]) / errors["piecewise_mean"]
            line = ", ".join(f"{name} {100 * error:.3f}" for name, error in errors.items())
            print(
                f"{shape:10} ε = {epsilon:g}: {line}; {times:.2f} times less, "
                f"coverage {found['piecewise_mean'][1]:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
