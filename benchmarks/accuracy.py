"""Accuracy on real data: errors of published estimates against promised variance and intervals.

    python benchmarks/accuracy.py [--data ../shared/data] [--quick] [--seed S] [--allow-missing]

Each data set goes through `simulate` and `run`, files on disk between them, once per protocol and
round, and what `run` published is compared with `truth.parquet`. docs/accuracy.md says how to read
the tables. Exit code 0: all requirements hold; 1: one does not; 2: data are absent.
"""

from __future__ import annotations

import argparse
import logging
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import parse_collection
from ldpbeam.estimates import CONFIDENCE
from ldpbeam.protocols import FrequencyProtocol

Floats = NDArray[np.float64]

FALSE_ALARM = 1e-4
"""Chance that one band refuses a correct row; there are two bands per row."""

RATIO = (0.93, 1.07)
"""Fixed limits of MSE / variance, for rows of at least MANY intervals."""

MANY = 1000

CROSS_EPOCH = 0.3
"""Bound on the correlation of a value's errors in two epochs; see effective_number."""

CROSS_VALUE = 1.25
"""Bound on what correlation within an epoch adds; L-GRR over 10 values: 1.11."""

SPARSE = 10.0
"""Expected support n·other below which a Wald interval is expected to fail."""

MEMORY_GIB = 4.0

_YAML = """
name: {name}
domain: {{size: {k}}}
protocol: {protocol}
epsilon_longitudinal: 2.0
epsilon_first: 1.0
{more}epoch: {{length: 1d, origin: 2026-01-01T00:00:00Z}}
"""


@dataclass(frozen=True)
class DataSet:
    """One population to measure on."""

    name: str
    file: str
    spec: str
    size: int
    epochs: int | None = None
    quick_epochs: int | None = None
    rounds: int = 1


# Several rounds where one is too few: see docs/accuracy.md, "Bands".
DATA_SETS = (
    DataSet("MS-FIMU", "msfimu_panel.csv", "panel:FILE:Person ID,Date ID,Visit Duration", 10, rounds=10),
    DataSet("Adult", "adult.csv", "csv:FILE:hours-per-week,permute", 96, 20, 20, rounds=4),
    DataSet("DB_MT", "db_mt.csv", "csv:FILE:PWGTP1..PWGTP80", 1412, quick_epochs=8),
)

# Name in the tables, protocol and further keys of the collection.
PROTOCOLS = (
    ("LOLOHA linear", "loloha", "calibration: exact\nhash_family: linear\n"),
    ("LOLOHA affine", "loloha", "calibration: exact\nhash_family: affine\n"),
    ("L-OSUE", "l_osue", ""),
    ("L-SUE", "l_sue", ""),
    ("L-GRR", "l_grr", "calibration: exact\n"),
)


@dataclass(frozen=True)
class Published:
    """What one simulation and run gave; arrays are (epochs, k)."""

    n: NDArray[np.int64]
    truth: Floats
    estimate: Floats
    std_error: Floats
    low: Floats
    high: Floats
    consistent: Floats
    complete: bool


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    data: str
    protocol: str
    intervals: int
    support: float
    mse: float
    consistent: float
    uniform: float
    floor: float
    variance: float
    ratio: float
    ratio_nominal: tuple[float, float]
    ratio_band: tuple[float, float]
    coverage: float
    wald: float
    coverage_nominal: tuple[float, float]
    coverage_band: tuple[float, float]
    effective: tuple[float, float]
    complete: bool
    seconds: float


def make_collection(data: DataSet, protocol: str, more: str) -> Collection:
    name = data.name.lower().replace("-", "_")
    return parse_collection(_YAML.format(name=name, k=data.size, protocol=protocol, more=more))


def publish(collection: Collection, data: DataSet, path: Path, epochs: int | None, seed: int) -> Published:
    """Simulate a fleet into files, run the pipeline over them, read what it published."""
    from ldpbeam.job.config import RunConfig
    from ldpbeam.job.inputs import match_inputs, shard_bits_for
    from ldpbeam.pipelines.run import run
    from ldpbeam.simulators.deliver.simulate import simulate
    from ldpbeam.simulators.population.specs import population
    from ldpbeam.simulators.random_words import RandomWords

    spec = data.spec.replace("FILE", str(path))
    domain = collection.domain
    assert domain is not None
    people = population(spec, domain=domain, devices=None, epochs=epochs, random_words=RandomWords(seed))
    with tempfile.TemporaryDirectory() as temporary:
        fleet, output = Path(temporary, "fleet"), Path(temporary, "out")
        written = simulate(collection, people, fleet, seed=seed, spec=spec, truth=True)
        matched = match_inputs(str(fleet / "reports"))
        result = run(
            RunConfig.parsed(
                (collection,),
                files=matched.files,
                output=str(output),
                shard_bits=shard_bits_for(matched.size),
            )
        )
        truth = pq.read_table(fleet / "truth.parquet")
        table = ds.dataset(output / "estimates").to_table()
    table = table.sort_by([("epoch", "ascending"), ("value", "ascending")])
    truth = truth.sort_by([("epoch", "ascending"), ("value", "ascending")])
    same = all(table[c].to_pylist() == truth[c].to_pylist() for c in ("epoch", "value", "n"))
    total = result.accounting.total
    counted = total.read == total.counted == written.reports

    def matrix(column: object) -> Floats:
        return np.asarray(column, np.float64).reshape(-1, data.size)

    return Published(
        n=matrix(truth["n"])[:, 0].astype(np.int64),
        truth=matrix(truth["frequency"]),
        estimate=matrix(table["estimate"]),
        std_error=matrix(table["std_error"]),
        low=matrix(table["ci_low"]),
        high=matrix(table["ci_high"]),
        consistent=matrix(table["consistent"]),
        complete=same and counted and result.exit_code == 0,
    )


def theoretical_variance(truth: Floats, n: Floats, own: float, other: float) -> Floats:
    """Of a fixed population; written anew here, so that it can disagree with ldpbeam.estimates."""
    spread = truth * own * (1 - own) + (1 - truth) * other * (1 - other)
    return spread / (n * (own - other) ** 2)


def clustered(residuals: NDArray[np.floating[Any]]) -> float:
    """Variance of the sum of residuals (rounds, epochs, k), which are dependent in two ways."""
    total = 0.0
    for sums, sign in ((residuals.sum(1), 1), (residuals.sum(2), 1), (residuals, -1)):
        clusters = sums.size
        total += sign * float((sums**2).sum()) * clusters / max(clusters - 1, 1)
    return total


def effective_number(one: float, variance: float, shape: tuple[int, ...]) -> float:
    """How many independent intervals, each of variance ``one``, have a mean of this variance."""
    rounds, epochs, size = shape
    intervals = rounds * epochs * size
    floor = intervals / (CROSS_VALUE * (1 + (epochs - 1) * CROSS_EPOCH**2))
    return min(float(intervals), max(floor, one / variance if variance > 0 else 0.0))


def ratio_band(intervals: float) -> tuple[float, float]:
    """Where a mean of so many independent squared standard normals lies, but for FALSE_ALARM."""
    from scipy.stats import chi2

    low, high = (float(chi2.ppf(q, intervals)) for q in (FALSE_ALARM / 2, 1 - FALSE_ALARM / 2))
    return low / intervals, high / intervals


def coverage_band(intervals: float, more: float = 0.0) -> tuple[float, float]:
    """Likewise for the part of so many independent intervals that cover, with a chance of so much more."""
    from scipy.stats import binom

    n = max(1, int(intervals))
    tails = (FALSE_ALARM / 2, 1 - FALSE_ALARM / 2)
    low, high = (float(binom.ppf(q, n, CONFIDENCE)) for q in tails)
    return low / n + more, high / n + more


def measure(
    name: str, data: DataSet, collection: Collection, rounds: Sequence[Published], seconds: float
) -> Row:
    """Compare what was published in some rounds with the truth."""
    protocol = collection.protocol
    assert isinstance(protocol, FrequencyProtocol)
    support = protocol.estimator.support
    own, other = float(support.own), float(support.other)
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)

    def stack(of: Callable[[Published], Floats]) -> Floats:
        return np.stack([of(one) for one in rounds])

    n = stack(lambda one: one.n[:, None].astype(np.float64))
    truth = stack(lambda one: one.truth)
    errors = stack(lambda one: one.estimate - one.truth)
    variances = theoretical_variance(truth, n, own, other)
    low, high = stack(lambda one: one.low), stack(lambda one: one.high)
    covered = (low <= truth) & (truth <= high)
    wald = np.abs(errors) <= z * stack(lambda one: one.std_error)
    intervals = errors.size
    ratio = float((errors**2).sum() / variances.sum())
    coverage = float(covered.mean())
    # What nobody holds is missed from below only, as intervals end at 0.
    more = (1 - CONFIDENCE) / 2 * float(((truth <= 0) | (truth >= 1)).mean())
    # 2/N is the variance of a mean of N squared standard normals, c(1-c)/N that of a part of N.
    ratio_variance = clustered(errors**2 - ratio * variances) / float(variances.sum()) ** 2
    coverage_variance = clustered(covered - np.float64(coverage)) / intervals**2
    effective = (
        effective_number(2, ratio_variance, errors.shape),
        effective_number(CONFIDENCE * (1 - CONFIDENCE), coverage_variance, errors.shape),
    )
    return Row(
        data=data.name,
        protocol=name,
        intervals=intervals,
        support=float((n * other).mean()),
        mse=float((errors**2).mean()),
        consistent=float((stack(lambda one: one.consistent - one.truth) ** 2).mean()),
        uniform=float(((truth - 1 / data.size) ** 2).mean()),
        floor=float((float(support.floor) / n).mean()),
        variance=float(variances.mean()),
        ratio=ratio,
        ratio_nominal=ratio_band(intervals),
        ratio_band=ratio_band(effective[0]),
        coverage=coverage,
        wald=float(wald.mean()),
        coverage_nominal=coverage_band(intervals),
        coverage_band=coverage_band(effective[1], more),
        effective=effective,
        complete=all(one.complete for one in rounds),
        seconds=seconds,
    )


def rows(data: DataSet, path: Path, seed: int, quick: bool) -> Iterator[Row]:
    """Every protocol on one data set."""
    epochs = data.quick_epochs if quick else data.epochs
    for number, (name, protocol, more) in enumerate(PROTOCOLS):
        collection = make_collection(data, protocol, more)
        started = time.perf_counter()
        # Seeds differ between protocols too: their rows shall not err together.
        seeds = [(seed * len(PROTOCOLS) + number) * 100 + r for r in range(1 if quick else data.rounds)]
        published = [publish(collection, data, path, epochs, s) for s in seeds]
        yield measure(name, data, collection, published, time.perf_counter() - started)


HEAD = (
    f"{'protocol':<14}{'intervals':>10}{'n·other':>10}{'MSE':>10}{'V*':>10}{'variance':>10}{'ratio':>7}"
    f"{'nominal':>14}{'band':>14}{'coverage':>9}{'nominal':>15}{'band':>15}{'Wald':>7}"
    f"{'MSE cons.':>11}{'eff. N':>16}{'s':>6}"
)


def line(row: Row) -> str:
    """One line of the table."""

    def pair(band: tuple[float, float], form: str) -> str:
        return f"{format(band[0], form)}..{format(band[1], form)}"

    percent = [tuple(100 * x for x in b) for b in (row.coverage_nominal, row.coverage_band)]
    return (
        f"{row.protocol:<14}{row.intervals:>10,}{row.support:>10,.1f}{row.mse:>10.2e}{row.floor:>10.2e}"
        f"{row.variance:>10.2e}{row.ratio:>7.3f}{pair(row.ratio_nominal, '.3f'):>14}"
        f"{pair(row.ratio_band, '.3f'):>14}{100 * row.coverage:>9.2f}"
        f"{pair((percent[0][0], percent[0][1]), '.2f'):>15}"
        f"{pair((percent[1][0], percent[1][1]), '.2f'):>15}{100 * row.wald:>7.2f}"
        f"{row.consistent:>11.2e}{row.effective[0]:>8.0f}{row.effective[1]:>8.0f}{row.seconds:>6.1f}"
    )


def requirements(measured: Sequence[Row], peak_gib: float) -> list[tuple[bool, str]]:
    """(holds, sentence) for each requirement."""

    def verdict(text: str, chosen: Sequence[Row], holds: Callable[[Row], bool]) -> tuple[bool, str]:
        bad = [f"{row.data} {row.protocol}" for row in chosen if not holds(row)]
        if bad:
            return False, f"{text}: not on {', '.join(bad)}"
        return True, f"{text}: {len(chosen)} of {len(chosen)} rows"

    def inside(x: float, band: tuple[float, float]) -> bool:
        return band[0] <= x <= band[1]

    many = [row for row in measured if row.intervals >= MANY]
    sparse = [row for row in measured if row.support < SPARSE]
    return [
        verdict("every report written is read and counted once", measured, lambda r: r.complete),
        verdict(
            f"MSE / variance in {RATIO[0]}..{RATIO[1]} where there are {MANY:,} intervals",
            many,
            lambda r: inside(r.ratio, RATIO),
        ),
        verdict("MSE / variance in the row's band", measured, lambda r: inside(r.ratio, r.ratio_band)),
        verdict(
            f"coverage of the {CONFIDENCE:.0%} interval in the row's band",
            measured,
            lambda r: inside(r.coverage, r.coverage_band),
        ),
        verdict(
            f"where the expected support is below {SPARSE:.0f}, Wald would miss the nominal one",
            sparse,
            lambda r: not inside(r.wald, r.coverage_nominal),
        ),
        (peak_gib < MEMORY_GIB, f"peak memory {peak_gib:.2f} GiB, below {MEMORY_GIB:.0f} GiB"),
    ]


def main(arguments: Sequence[str] | None = None, data_sets: Sequence[DataSet] = DATA_SETS) -> int:
    """Print tables and requirements; returns the exit code."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=beside, help="directory of the data sets")
    parser.add_argument("--quick", action="store_true", help="one round, few epochs of DB_MT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--allow-missing", action="store_true", help="absent data are no failure")
    asked = parser.parse_args(arguments)
    logging.basicConfig(level=logging.ERROR)  # Beam warns of optional packages otherwise
    started = time.perf_counter()
    missing = [data for data in data_sets if not (asked.data / data.file).is_file()]
    for data in missing:
        print(f"{data.name} is skipped: {asked.data / data.file} is absent; give --data DIR.")
    if missing and not asked.allow_missing:
        print("Nothing was measured; --allow-missing measures what is present.")
        return 2
    measured: list[Row] = []
    for data in data_sets:
        if data in missing:
            continue
        rounds = 1 if asked.quick else data.rounds
        print(f"\n{data.name}: k = {data.size}, {rounds} round(s), seed {asked.seed}\n{HEAD}")
        of_data = []
        for row in rows(data, asked.data / data.file, asked.seed, asked.quick):
            of_data.append(row)
            print(line(row), flush=True)
        print(f"{'answer 1/k':<34}{of_data[0].uniform:>10.2e}")
        measured += of_data
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    seconds = time.perf_counter() - started
    print(f"\n{seconds:.0f} s in all; a band refuses a correct row once in {1 / FALSE_ALARM:,.0f}")
    checked = requirements(measured, peak)
    for holds, sentence in checked:
        print(f"{'holds' if holds else 'FAILS'}: {sentence}")
    return 0 if all(holds for holds, _ in checked) else 1


if __name__ == "__main__":
    sys.exit(main())
