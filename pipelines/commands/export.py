"""The command ``export``: the results of a run as one table, epoch by epoch or rolled up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldpbeam.consistency import NOT_ADDED_UP
from ldpbeam.errors import UsageError
from ldpbeam.pipelines.commands.support.console import PrintingCommand, deliver, say
from ldpbeam.pipelines.commands.support.drawn_anew import drawn_anew_option
from ldpbeam.pipelines.commands.support.options import collections_option

if TYPE_CHECKING:
    from ldpbeam.over_time.covariance import DrawnAnew
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
@drawn_anew_option
@click.option(
    "--smooth",
    "smoothed",
    is_flag=True,
    help="Add columns smoothed over the epochs; no roll-up then. The band smoothed ± 1.96·smoothed_std_error "
    "holds a change of one epoch by 4 standard errors or more in at least 90 of 100 cases. One of 2 standard "
    "errors looks like noise, and the band holds it in 35 to 55 of 100.",
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
    drawn_anew: DrawnAnew | None,
    smoothed: bool,
    output: Path | None,
) -> None:
    """Write the results of a run as one table: epoch by epoch, or means of weeks, months or N epochs.

    Errors of different epochs are not independent, since devices repeat what they memoised. The errors of
    means are right for that, and need no assumption unless --drawn-anew makes one; docs/over-time.md.
    """
    from ldpbeam.pipelines.commands.support.over_time import (
        read_histories,
        require_suffix,
        show_rows,
        write_table,
    )

    require_suffix(output, "E-USAGE-EXPORT")
    rolled = every is not None or by is not None
    if latest + (every is not None) + (by is not None) > 1:
        raise _usage("--latest, --every and --by exclude each other", "Give one of them.")
    if rolled and smoothed:
        raise _usage("--smooth is for single epochs", "Leave out --every and --by, or --smooth.")
    if drawn_anew is not None and not rolled:
        raise _usage("--drawn-anew has no effect on single epochs", "Add --every or --by.")
    if not rolled and not smoothed:
        from ldpbeam.over_time.results import read_results

        table = read_results(results)
    else:
        table, found = read_histories(results, collection_files)
        place = _place(every, by)
        table = _rolled_up(found, place, drawn_anew) if rolled else _with_smoothed(table, found)
    if output is None:
        show_rows(table)
        return
    write_table(table, output)
    say(f"{table.num_rows:,} rows in {output}")
    deliver({"export": str(output), "rows": table.num_rows, "columns": table.column_names})


def _usage(what: str, remedy: str) -> UsageError:
    return UsageError("E-USAGE-EXPORT", what, remedy=remedy)


def _place(every: int | None, by: str | None) -> Place:
    from ldpbeam.over_time import rollup

    return rollup.PLACES[by] if by else rollup.every(every or 1)


def _rolled_up(found: list[Read], place: Place, rate: DrawnAnew | None) -> Any:
    """One row per attribute, period and value."""
    import numpy as np
    import pyarrow as pa

    from ldpbeam.estimates import CONFIDENCE
    from ldpbeam.over_time.rollup import roll_up
    from ldpbeam.over_time.significance import normal_limit
    from ldpbeam.pipelines.commands.support.over_time import instants, numbers

    z = normal_limit(CONFIDENCE)
    tables = []
    for one in found:
        history = one.history
        k = len(history.values)
        for period in roll_up(history, place, one.errors, rate):
            mean, error = period.found.estimate, period.found.std_error
            tables.append(
                pa.table(
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
            )
    return pa.concat_tables(tables)


def _with_smoothed(table: Any, found: list[Read]) -> Any:
    """The rows of the epochs with two columns more."""
    from ldpbeam.over_time.smooth import smooth
    from ldpbeam.pipelines.commands.support.over_time import numbers

    cells: dict[tuple[str, str, int, int], tuple[float, float]] = {}
    for one in found:
        history = one.history
        made = smooth(history.series, one.errors)
        for row, epoch in enumerate(history.series.epochs.tolist()):
            for column, value in enumerate(history.values.tolist()):
                key = (history.key.digest, history.key.attribute, epoch, value)
                cells[key] = float(made.estimate[row, column]), float(made.std_error[row, column])
    names = ("digest", "attribute", "epoch", "value")
    keys = zip(*(table[name].to_pylist() for name in names), strict=True)
    smoothed, errors = zip(*(cells[key] for key in keys), strict=True)
    table = table.append_column("smoothed", numbers(smoothed))
    return table.append_column("smoothed_std_error", numbers(errors))
