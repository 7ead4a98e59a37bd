"""The command ``export``: the results of a run as one table, epoch by epoch or rolled up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldpbeam.consistency import NOT_ADDED_UP
from ldpbeam.errors import UsageError
from ldpbeam.pipelines.commands.support.change_rate import change_rate_option
from ldpbeam.pipelines.commands.support.console import PrintingCommand, deliver, say
from ldpbeam.pipelines.commands.support.options import collections_option

if TYPE_CHECKING:
    from ldpbeam.over_time.covariance import ChangeRate
    from ldpbeam.over_time.results import Results
    from ldpbeam.over_time.rollup import Place
    from ldpbeam.pipelines.commands.support.over_time import Read


@click.command(cls=PrintingCommand, epilog=NOT_ADDED_UP)
@click.argument("results", type=click.Path(path_type=Path))
@collections_option
@click.option(
    "--latest", is_flag=True, help="One row per epoch and value, of the newest revision. The default."
)
@click.option("--every", type=click.IntRange(1), metavar="N", help="The mean of every N epochs instead.")
@click.option(
    "--by", type=click.Choice(["day", "week", "month"]), help="The mean of every day, … of UTC instead."
)
@change_rate_option
@click.option(
    "--smooth", "smoothed", is_flag=True, help="Add columns smoothed over the epochs; no roll-up then."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write it there, as CSV or Parquet by the suffix. Default: CSV on standard output.",
)
def export(
    results: Path,
    collection_files: tuple[Path, ...],
    latest: bool,
    every: int | None,
    by: str | None,
    change_rate: ChangeRate | None,
    smoothed: bool,
    output: Path | None,
) -> None:
    """Write the results of a run as one table: epoch by epoch, or means of weeks, months or N epochs.

    Errors of different epochs are not independent, since devices repeat what they memoised. The errors of
    means are right for that, and need no assumption unless --change-rate makes one; docs/over-time.md.
    """
    from ldpbeam.pipelines.commands.support.over_time import (
        read_histories,
        require_suffix,
        show_rows,
        write_tables,
    )

    require_suffix(output, "E-USAGE-EXPORT")
    rolled = every is not None or by is not None
    if latest + (every is not None) + (by is not None) > 1:
        raise _usage("--latest, --every and --by exclude each other", "Give one of them.")
    if rolled and smoothed:
        raise _usage("--smooth is for single epochs", "Leave out --every and --by, or --smooth.")
    if change_rate is not None and not rolled and not smoothed:
        raise _usage("--change-rate has no effect on single epochs", "Add --every, --by or --smooth.")
    if not rolled and not smoothed:
        from ldpbeam.over_time.results import Results

        tables = Results.of(results).tables()
    else:
        found, read = read_histories(results, collection_files)
        if rolled:
            tables = _rolled_up(read, _place(every, by), change_rate)
        else:
            tables = _with_smoothed(found, read, change_rate)
    if output is None:
        show_rows(tables)
        return
    rows, columns = write_tables(tables, output)
    say(f"{rows:,} rows in {output}")
    deliver({"export": str(output), "rows": rows, "columns": columns})


def _usage(what: str, remedy: str) -> UsageError:
    return UsageError("E-USAGE-EXPORT", what, remedy=remedy)


def _place(every: int | None, by: str | None) -> Place:
    from ldpbeam.over_time import rollup

    return rollup.PLACES[by] if by else rollup.every(every or 1)


def _rolled_up(found: list[Read], place: Place, rate: ChangeRate | None) -> Iterator[Any]:
    """One row per attribute, period and value."""
    import numpy as np
    import pyarrow as pa

    from ldpbeam.estimates import CONFIDENCE
    from ldpbeam.over_time.rollup import roll_up
    from ldpbeam.over_time.significance import normal_limit
    from ldpbeam.pipelines.commands.support.over_time import instants, numbers

    z = normal_limit(CONFIDENCE)
    for one in found:
        history = one.history
        k = len(history.values)
        for period in roll_up(history, place, one.errors, rate):
            mean, error = period.found.estimate, period.found.std_error
            yield pa.table(
                {
                    "collection": [history.key.collection] * k,
                    "version": [history.key.version] * k,
                    "digest": [history.key.digest] * k,
                    "first_epoch": pa.array([period.first] * k, pa.int64()),
                    "last_epoch": pa.array([period.last] * k, pa.int64()),
                    "start": instants([period.start] * k),
                    "end": instants([period.end] * k),
                    "epochs": pa.array(period.found.epochs, pa.int64()),
                    "attribute": [history.key.attribute] * k,
                    "value": pa.array(history.values, pa.int64()),
                    "label": list(history.labels),
                    "n": pa.array(period.n, pa.int64()),
                    "estimate": numbers(mean),
                    "std_error": numbers(error),
                    "std_error_floor": numbers(period.found.std_error_floor),
                    "ci_low": numbers(mean - z * error),
                    "ci_high": numbers(mean + z * error),
                    "provisional": pa.array(np.full(k, period.provisional)),
                }
            )


def _with_smoothed(found: Results, read: list[Read], rate: ChangeRate | None) -> Iterator[Any]:
    """The rows of the epochs with two columns more."""
    import numpy as np

    from ldpbeam.over_time.smooth import smooth
    from ldpbeam.pipelines.commands.support.over_time import numbers

    for one in read:
        history = one.history
        made = smooth(history.series, one.errors, rate)
        parts = [part for part in found.parts if part.key == history.key]
        for row, part in enumerate(parts):
            for table in found.tables([part]):
                at = np.searchsorted(history.values, table["value"].to_numpy())
                more = table.append_column("smoothed", numbers(made.estimate[row, at]))
                yield more.append_column("smoothed_std_error", numbers(made.std_error[row, at]))
