"""The command ``explain``: a collection in words, or one published number followed from its count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldpbeam.cli.shared.console import PrintingCommand, deliver, say
from ldpbeam.cli.shared.options import devices_option
from ldpbeam.errors import LdpError, UsageError

if TYPE_CHECKING:
    from ldpbeam.collection.collection import Collection
    from ldpbeam.estimates import Estimates


@click.command(cls=PrintingCommand)
@click.argument("collection", type=click.Path(path_type=Path))
@devices_option
@click.option(
    "--row",
    type=(click.IntRange(0), str, click.Path(path_type=Path)),
    metavar="EPOCH VALUE RESULTS",
    help="Follow one value (its number or label) of a run from its count to the histogram.",
)
@click.option("--attribute", default="", metavar="NAME", help="With --row: the attribute of the value.")
def explain(collection: Path, devices: int, row: tuple[int, str, Path] | None, attribute: str) -> None:
    """Say what a collection does, stage by stage, with its real integers, formulas and guarantees.

    With --row it computes a published number again from its count, and ends with 6 where the stored one
    differs.
    """
    from ldpbeam.cli.shared.collections import load

    agreed = load(collection)
    if row is not None:
        follow_row(agreed, *row, attribute=attribute)
        return
    from ldpbeam.planning.explanation import explained

    stages = explained(agreed, devices)
    say(f"{agreed.name} version {agreed.version}, digest {agreed.digest_hex}")
    for stage in stages:
        say("", stage.title, *(f"  {line}" for line in stage.lines))
    deliver(
        {
            "schema": "ldpbeam.explain/1",
            "collection": agreed.name,
            "digest": agreed.digest_hex,
            "stages": [{"title": stage.title, "lines": stage.lines} for stage in stages],
        }
    )


# --- --row: one published number, computed again from its count and compared

_NUMBERS = {
    "estimate": "frequency",
    "std_error": "std_error",
    "ci_low": "low",
    "ci_high": "high",
    "ci_low_all": "low_all",
    "ci_high_all": "high_all",
}
"""Columns of a table, and the attribute of :class:`Estimates` that they hold."""

_ROUNDING = 1e-9
"""Relative difference that another version of a library may make."""


@dataclass(frozen=True)
class FollowedRow:
    """A stored row beside what follows from the counts of its table.

    Attributes:
        stored: the row.
        again: the same columns, computed; empty where too few reports came for an estimate.
        differs: columns that are not what they should be.
        others: rows of the table, besides this one, that are not.
    """

    stored: Mapping[str, Any]
    again: Mapping[str, float]
    differs: tuple[str, ...]
    others: int


def follow_row(collection: Collection, epoch: int, value: str, results: Path, *, attribute: str) -> None:
    """Print how a number came to be.

    Raises:
        UsageError: there is no such result, attribute or value.
        LdpError: the stored row is not what its counts give.
    """
    table = _table(collection, epoch, results)
    names = [name for name, _ in collection.histograms]
    if attribute not in names:
        raise _unknown(
            f"{collection.name} has no attribute {attribute!r}"
            if attribute
            else f"{collection.name} has attributes",
            f"Add --attribute with one of: {', '.join(names)}."
            if names != [""]
            else "Leave --attribute out.",
        )
    which = names.index(attribute)
    rows = [row for row in table if row["attribute"] == attribute]
    chosen = _chosen(rows, value)
    recomputed = followed(collection, which, rows, chosen)
    say(*lines(collection, which, recomputed))
    deliver(
        {
            "schema": "ldpbeam.row/1",
            "stored": {
                name: str(one) if hasattr(one, "isoformat") else one
                for name, one in recomputed.stored.items()
            },
            "computed": dict(recomputed.again),
            "differs": recomputed.differs,
            "other_rows_that_differ": recomputed.others,
        }
    )
    if recomputed.differs:
        raise LdpError(
            "E-RUN-DAMAGED",
            f"the stored {', '.join(recomputed.differs)} of this row is not what its counts give",
            where=str(results),
            remedy="The table was changed after it was written, or by another version: run again.",
        )


def followed(
    collection: Collection, which: int, rows: Sequence[Mapping[str, Any]], chosen: int
) -> FollowedRow:
    """Compute the whole attribute again, since consistency looks at all of its values."""
    import numpy as np

    from ldpbeam.estimates import estimate, tie_breakers
    from ldpbeam.over_time.covariance import errors_of, std_error_floor
    from ldpbeam.protocols.estimator import Result

    stored = rows[chosen]
    if collection.is_distribution:
        raise _unknown(
            f"{collection.name} has distributions, which follow from counts of stretches, not from a row",
            "ldpbeam explain COLLECTION says how they are made; ldpbeam replay counts again.",
        )
    if stored["estimate"] is None:
        return FollowedRow(stored, {}, (), 0)
    protocol = collection.protocol
    part = collection.estimators[which]
    sizes = [one.estimator.size for one in protocol.parts]
    ties = np.split(tie_breakers(collection.digest, int(stored["epoch"]), sum(sizes)), np.cumsum(sizes)[:-1])[
        which
    ]
    support = np.array([row["support"] for row in rows], np.int64)
    reports = np.array([row["n"] for row in rows], np.int64)
    again: Estimates
    if part.protocol.estimator.result is Result.MEAN or part.support is None:
        again = part.estimate(support, int(reports[0]), ties)  # one cell: what is counted is what is stored
    else:
        again = estimate(support, reports, part.support, ties, sum_to_one=True)
    columns = {name: getattr(again, one) for name, one in _NUMBERS.items()}
    errors = errors_of(collection)[which]
    columns["std_error_floor"] = std_error_floor(errors, again.frequency, again.n, again.std_error)
    columns["consistent"] = part.consistent(collection.consistency, again)
    wrong = [
        tuple(
            name
            for name, numbers in columns.items()
            if name in row and not _same(row[name], float(numbers[place]))  # older tables have fewer columns
        )
        for place, row in enumerate(rows)
    ]
    others = sum(bool(one) for place, one in enumerate(wrong) if place != chosen)
    return FollowedRow(
        stored, {name: float(numbers[chosen]) for name, numbers in columns.items()}, wrong[chosen], others
    )


def _same(stored: float | None, computed: float) -> bool:
    if stored is None:
        return isnan(computed)
    return isclose(stored, computed, rel_tol=_ROUNDING, abs_tol=1e-12)


def lines(collection: Collection, which: int, recomputed: FollowedRow) -> Iterator[str]:
    """From the count to the histogram, in words."""
    from ldpbeam.planning.error_sentences import points
    from ldpbeam.protocols.estimator import Result

    row, again = recomputed.stored, recomputed.again
    mean = collection.protocol.parts[which].estimator.result is Result.MEAN
    about = f"{row['attribute']} " if row["attribute"] else ""
    yield (
        f"{collection.name}, epoch {row['epoch']} ({row['epoch_start']:%Y-%m-%dT%H:%M:%SZ}), {about}"
        f"{'' if mean else 'value '}{row['label']}, revision {row['revision']}, {row['pane']}"
    )
    if not again:
        few = f"{row['n']:,} reports, fewer than min_reports = {collection.min_reports:,}"
        yield f"{few}: no estimate ({row['status']})"
        return
    support = collection.estimators[which].support
    if support is None:
        yield f"counted: {row['support']:,} over {row['n']:,} reports"
        yield f"estimate: a mean of {again['estimate']:.6g}"
    else:
        share, other, gap = row["support"] / row["n"], float(support.other), float(support.gap)
        yield f"support: {row['support']:,} of {row['n']:,} reports support it, a share of {share:.6f}"
        yield (
            f"without any device that holds it {other:.6f} would; each that does adds {gap:.6f}: "
            f"({share:.6f} − {other:.6f})/{gap:.6f} = {again['estimate']:.6g}"
        )
    yield f"standard error: {again['std_error']:.4g}, from the variance at that frequency clipped to 0 .. 1"
    low, high, all_low, all_high = (again[f"ci_{end}"] for end in ("low", "high", "low_all", "high_all"))
    yield f"95 % interval: {low:.6g} .. {high:.6g}; of all values at once {all_low:.6g} .. {all_high:.6g}"
    moved = again["consistent"] - again["estimate"]
    unit = f"{moved:+.4g}" if mean else f"{points(abs(moved))} points {'up' if moved >= 0 else 'down'}"
    yield f"histogram: {again['consistent']:.6g} after {collection.consistency} over all values, {unit}"
    if recomputed.differs:
        for name in recomputed.differs:
            yield f"DIFFERS: {name} is stored as {row[name]!r} and follows as {again[name]!r}"
    else:
        yield "the stored row is exactly this" + (
            f"; {recomputed.others:,} other rows of its table are not what their counts give"
            if recomputed.others
            else ""
        )


def _chosen(rows: Sequence[Mapping[str, Any]], value: str) -> int:
    """The place of the row with this label, else with this number."""
    for key in ("label", "value"):
        for place, row in enumerate(rows):
            if str(row[key]) == value:
                return place
    raise _unknown(
        "there is no such value in the table",
        f"Give a number of 0 .. {len(rows) - 1}, or a label as it is written.",
    )


def _table(collection: Collection, epoch: int, results: Path) -> list[dict[str, Any]]:
    """The newest published table of an epoch, from the folder of a run or from one of its tables."""
    import pyarrow as pa

    from ldpbeam.table_file import published_table

    paths = [results]
    if results.is_dir():
        pattern = f"*{collection.digest_hex}-epoch-{epoch:06d}.parquet"
        paths = sorted((results / "latest").glob(pattern)) or sorted(results.glob(pattern))
    if not paths or not paths[0].is_file():
        raise _unknown(
            f"{results} has no result for epoch {epoch} of {collection.name} ({collection.digest_hex})",
            "Give the --output folder of a run and an epoch that it published: ldpbeam inspect lists them.",
        )
    try:
        rows: list[dict[str, Any]] = published_table(paths[0]).read().to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise _unknown(f"{paths[0]} is damaged ({type(error).__name__})", "Run again.") from None
    if not rows or any(
        row.get("digest") != collection.digest_hex or row.get("epoch") != epoch for row in rows
    ):
        raise _unknown(
            f"{paths[0]} is no table of {collection.name} (digest {collection.digest_hex}) and epoch {epoch}",
            "Give the collection and the epoch that it was made for.",
        )
    return rows


def _unknown(message: str, remedy: str) -> UsageError:
    return UsageError("E-USAGE-OPTION", message, remedy=remedy)
