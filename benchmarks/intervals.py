"""What estimates with both intervals cost beside the counting of the reports, on one core.

    python benchmarks/intervals.py [--repeats R]

For each protocol, number of values and number of reports: processor seconds of checking and counting the
reports, with what shows forged ones, of the estimates with both intervals from the support counts, and their
ratio, measured in turn; medians over the repetitions, with the least and the greatest ratio. Counts are few
where the count of a value that nobody holds, or that all hold, has a variance below FEW: then most of the
second is limits from the exact law of the count. Prints a table as Markdown.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.peers import seconds
from ldpbeam.arrays import Ints
from ldpbeam.estimates import FEW, estimate, tie_breakers
from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords

_SIZES = (20, 96, 360, 1412)
_REPORTS = (10_000, 30_000, 100_000, 300_000)
_EPOCHS = 16
_SETTINGS = {
    "grr": Parameters(epsilon=1.0),
    "oue": Parameters(epsilon=1.0),
    "loloha": Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0),
    "dbitflip_pm": Parameters(epsilon_longitudinal=3.0, d=1),
}


def row(name: str, k: int, n: int, repeats: int) -> str:
    """One line of the table."""
    kind = protocol(name, k, _SETTINGS[name])
    assert isinstance(kind, FrequencyProtocol)
    values = np.random.default_rng(1).integers(0, k, n)
    ties = tie_breakers(1, 1, k)
    payloads = np.concatenate([b.payloads for b in ProtocolFleet(kind, n, RandomWords(1)).reports(0, values)])
    found, signs = (
        np.zeros(kind.counter.counts_length, np.int64),
        np.zeros(kind.counter.signs_length, np.int64),
    )

    def count() -> tuple[Ints, int | Ints]:
        found[:] = 0
        assert not kind.counter.check(payloads).any()
        kind.counter.add_reports(payloads, found, signs)
        return kind.counter.support_counts(found), kind.counter.report_counts(found, n)

    support, behind = count()
    # No epoch has as many reports as the one before.
    more = cycle(range(_EPOCHS))

    def estimates() -> None:
        estimate(support, behind + next(more), kind.estimator.support, ties)

    for _ in range(_EPOCHS):
        estimates()
    pairs = [(seconds(count), seconds(estimates)) for _ in range(repeats)]
    own, other, _, _ = kind.estimator.support.chances
    least = float(np.min(behind)) * min(own * (1 - own), other * (1 - other))
    ratios = [one / other for other, one in pairs]
    counted, estimated = (median(side) for side in zip(*pairs, strict=True))
    return (
        f"| `{name}` | {k:,} | {n:,} | {'yes' if least < FEW else 'no'} | {1e6 * counted:,.0f} "
        f"| {1e6 * estimated:,.0f} | **{median(ratios):.2f}** ({min(ratios):.2f} – {max(ratios):.2f}) |"
    )


def lines(repeats: int) -> Iterator[str]:
    """The table."""
    yield "| protocol | k | reports | counts are few | counting, µs | estimates with intervals, µs | ratio |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for name in _SETTINGS:
        for k in _SIZES:
            for n in _REPORTS:
                yield row(name, k, n, repeats)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    for line in lines(parser.parse_args().repeats):
        print(line, flush=True)


if __name__ == "__main__":
    main()
