"""Questions about collections whose result is a distribution: read off what is published, never added up.

The rows of the values have the cumulative shares with their limits, so they have the quantiles too. The mean
is not in them: it follows from an epoch's counts and stands in ``summaries/``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpbeam.arrays import Floats
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.errors import UsageError
from ldpbeam.over_time.results import HistoryKey, published_rows
from ldpbeam.sums.question import Cumulative, Mean, Quantiles, Question
from ldpbeam.tables import CUMULATIVE, numbers

if TYPE_CHECKING:
    import pyarrow as pa


def curve_quantile(shares: Floats, low: Floats, high: Floats, part: float) -> tuple[int, int, int]:
    """The first value at or below which a part of the devices lies, and its limits, as places.

    A value is left out where the share up to it is surely too small, or the one below it surely too large.

    Args:
        shares: float64 (k,), up to each value; the last is 1.
        low, high: float64 (k,), their limits, which hold them.
        part: between 0 and 1.
    """
    place = min(int(np.searchsorted(shares, part)), shares.size - 1)
    below = np.concatenate([[0.0], low[:-1]])
    left = np.flatnonzero((high >= part) & (below <= part))
    return place, int(left[0]), int(left[-1])


@dataclass(frozen=True, eq=False)
class Curve:
    """The cumulative shares of one attribute in one epoch, with 95 % limits; NaN where there are none.

    Attributes:
        rows: of the attribute and the epoch, in the order of values.
        shares, low, high: float64 (k,).
    """

    rows: pa.Table
    shares: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, rows: pa.Table) -> Curve:
        """From rows of estimates.

        Raises:
            UsageError: they lack the columns of a distribution.
        """
        if not set(CUMULATIVE) <= set(rows.column_names):
            raise UsageError(
                "E-USAGE-RESULTS",
                f"the results have no column {CUMULATIVE[0]}, which a collection of runs has",
                remedy="Give the results as a run wrote them, with all columns.",
            )
        columns = (np.asarray(rows[name].to_numpy(), np.float64) for name in CUMULATIVE)
        return cls(rows, *columns)

    @property
    def known(self) -> bool:
        """Whether there is a result."""
        return bool(np.isfinite(self.shares).all())

    def quantile(self, share: float) -> tuple[int, int, int]:
        """The first value at or below which a share of the devices lies, and its 95 % limits, as places."""
        return curve_quantile(self.shares, self.low, self.high, share)


def answers_of_distribution(
    collection: Collection, epochs: Iterable[pa.Table], question: Question, summaries: pa.Table | None
) -> Iterator[pa.Table]:
    """A question answered for each epoch, in the columns of :func:`ldpbeam.sums.answers`.

    Args:
        collection: one whose result is a distribution.
        epochs: the rows of an attribute, epoch by epoch.
        question: what is asked.
        summaries: of the same results, for their means; None where there is no folder with them.

    Raises:
        UsageError: groups of values, which a distribution does not tell; or means without summaries.
    """
    for rows in epochs:
        curve, domain = Curve.of(rows), _domain(collection, rows)
        if isinstance(question, Cumulative):
            yield _cumulative(curve)
        elif isinstance(question, Quantiles):
            yield _quantiles(curve, domain, question)
        elif isinstance(question, Mean):
            yield _mean(curve, summaries)
        else:
            raise no_single_values(collection)


def no_single_values(collection: Collection) -> UsageError:
    """The error about a question that takes estimates of single values, of a collection that has none."""
    return UsageError(
        "E-USAGE-DISTRIBUTION",
        f"{collection.name} has hash_family interval, whose result is the distribution of each epoch: it has "
        "no estimates of single values to add up, to smooth or to take means of over epochs",
        remedy="Ask for --cumulative, --quantile or --mean of single epochs.",
    )


def read_summaries(folder: Path) -> pa.Table:
    """What ``summaries/`` of a run holds: mean and quantiles of the newest revision of every epoch.

    Raises:
        UsageError: there are none, or damaged ones, or those of an epoch are gone.
    """
    import pyarrow as pa

    paths = sorted(path for path in (folder / "summaries").glob("*.parquet") if path.name[0] != ".")
    gone = _without_summaries(folder, {path.name for path in paths})
    if gone:
        raise UsageError(
            "E-USAGE-RESULTS",
            f"{gone} is gone, though latest/ has the distribution of that epoch",
            remedy="Restore it from a copy, or run again.",
        )
    if not paths:
        raise UsageError(
            "E-USAGE-RESULTS",
            f"{folder} holds no summaries",
            remedy="Give the directory that was --output of a run with a collection of hash_family interval.",
        )
    return pa.concat_tables(published_rows(path) for path in paths)


def _without_summaries(folder: Path, names: set[str]) -> Path | None:
    """The first file that ought to be there and is not.

    A stream writes summaries before the table in ``latest/``, and takes them away after it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for table in sorted((folder / "latest").glob("*.parquet")):
        wanted = folder / "summaries" / table.name
        if table.name in names or table.name[0] == ".":
            continue
        try:
            columns = pq.read_schema(table).names
        except (pa.ArrowException, OSError):
            continue  # whoever reads the estimates is told
        if CUMULATIVE[0] in columns and not wanted.is_file() and table.is_file():
            return wanted
    return None


def _domain(collection: Collection, rows: pa.Table) -> Domain:
    return dict(collection.histograms)[rows["attribute"][0].as_py()]


def _front(curve: Curve, rows: int) -> dict[str, Any]:
    """What the rows of an epoch have in common."""
    import pyarrow as pa

    names = (*HistoryKey._fields[:3], "epoch", "epoch_start", "epoch_end")
    first = curve.rows.slice(0, 1)

    def repeated(name: str) -> Any:
        return pa.repeat(first[name][0], rows)

    early = first["pane"][0].as_py() == "early"
    return {
        **{name: repeated(name) for name in names},
        "provisional": pa.array([early] * rows),
        "attribute": repeated("attribute"),
    }


def _sums(n: Any, estimate: Any, error: Any, low: Any, high: Any, *, several: bool) -> dict[str, Any]:
    nothing = numbers([np.nan] * len(estimate))
    return {
        "n": n,
        "estimate": numbers(estimate),
        "std_error": nothing if error is None else numbers(error),
        "std_error_floor": nothing,
        "ci_low": numbers(low),
        "ci_high": numbers(high),
        **({"ci_low_all": nothing, "ci_high_all": nothing} if several else {}),
    }


def _cumulative(curve: Curve) -> pa.Table:
    import pyarrow as pa

    rows = curve.rows
    sums = _sums(rows["n"], curve.shares, None, curve.low, curve.high, several=True)
    front = _front(curve, rows.num_rows)
    return pa.table({**front, "value": rows["value"], "label": rows["label"], **sums})


def _quantiles(curve: Curve, domain: Domain, question: Quantiles) -> pa.Table:
    import pyarrow as pa

    unknown = (None, None, None)
    places = [curve.quantile(share) if curve.known else unknown for share in question.shares]
    columns: dict[str, Any] = {"quantile": pa.array(question.shares, pa.float64())}
    for number, name in enumerate(("", "_low", "_high")):
        at = [place[number] for place in places]
        columns[f"value{name}"] = pa.array(at, pa.int64())
        columns[f"label{name}"] = pa.array([None if x is None else domain.label(x) for x in at], pa.string())
    return pa.table({**_front(curve, len(places)), **columns})


def _mean(curve: Curve, summaries: pa.Table | None) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    if summaries is None:
        raise UsageError(
            "E-USAGE-DISTRIBUTION",
            "the mean of a distribution follows from an epoch's counts, which estimates do not have",
            remedy="Take it from summaries/ in the output of a run: ldpbeam.read_summaries(DIR).",
        )
    first = curve.rows.slice(0, 1)
    wanted = pc.equal(summaries["statistic"], "mean")
    for name in ("digest", "epoch", "revision", "attribute"):
        wanted = pc.and_(wanted, pc.equal(summaries[name], first[name][0]))
    row = summaries.filter(wanted)
    if row.num_rows != 1:
        raise UsageError(
            "E-USAGE-RESULTS",
            f"summaries/ does not have the mean of epoch {first['epoch'][0]} as the estimates have it",
            remedy="Run ldpbeam replay, or run again.",
        )
    mean, error, low, high = (
        np.asarray(row[name].to_numpy(), np.float64)
        for name in ("estimate", "std_error", "ci_low", "ci_high")
    )
    return pa.table({**_front(curve, 1), **_sums(row["n"], mean, error, low, high, several=False)})
