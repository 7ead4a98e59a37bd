"""The command ``export``: the results of a run as one table, epoch by epoch or rolled up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldpbeam.cli.shared.console import PrintingCommand, deliver, say
from ldpbeam.cli.shared.options import (
    by_slice_option,
    collections_option,
    drawn_anew_option,
    slice_option,
    weight_option,
)
from ldpbeam.cli.shared.sums import chosen, grouped, sum_options
from ldpbeam.collection.slices import COLUMN
from ldpbeam.consistency import NOT_ADDED_UP
from ldpbeam.errors import UsageError, option_error

if TYPE_CHECKING:
    from ldpbeam.cli.shared.histories import Known, ReadHistory
    from ldpbeam.over_time.covariance import DrawnAnew
    from ldpbeam.over_time.rollup import Periods
    from ldpbeam.over_time.weighted_sums import Weight
    from ldpbeam.sums import Question


@dataclass(frozen=True)
class _ExportOptions:
    every: int | None
    by: str | None
    group_file: Path | None
    cumulative: bool
    shares: tuple[float, ...] | None
    mean: bool
    name: str | None
    attribute: str | None
    drawn_anew: DrawnAnew | None
    weight: Weight
    slice_: Mapping[str, str]
    by_slice: str | None
    output: Path | None

    @property
    def rolled(self) -> bool:
        return self.every is not None or self.by is not None

    @property
    def question(self) -> Question | Path | None:
        """What is asked of sums, or the file of its groups; None where single values are asked for."""
        from ldpbeam.sums import Cumulative, Mean, Quantiles

        if (self.group_file is not None) + self.cumulative + (self.shares is not None) + self.mean > 1:
            raise option_error(
                "--group, --cumulative, --quantile and --mean exclude each other", "Give one of them."
            )
        if self.shares is not None:
            return Quantiles(self.shares)
        return Cumulative() if self.cumulative else Mean() if self.mean else self.group_file

    def require_together(self, *, summed: bool) -> None:
        if self.every is not None and self.by is not None:
            raise option_error("--every and --by exclude each other", "Give one of them.")
        if self.drawn_anew is not None and not self.rolled:
            raise option_error("--drawn-anew has no effect on single epochs", "Add --every or --by.")
        if self.weight != "epochs" and not self.rolled:
            raise option_error("--weight has no effect on single epochs", "Add --every or --by.")
        if not summed and (self.name is not None or self.attribute is not None):
            raise option_error("--name and --attribute say of what a sum is", "Add --group or another sum.")


@click.command(cls=PrintingCommand, epilog=NOT_ADDED_UP)
@click.argument("results", type=click.Path(path_type=Path))
@collections_option
@click.option("--every", type=click.IntRange(1), metavar="N", help="The mean of every N epochs instead.")
@click.option(
    "--by",
    type=click.Choice(["day", "week", "month"]),
    help="The mean of every day, week or month (UTC) instead.",
)
@sum_options
@drawn_anew_option
@weight_option
@slice_option("Of this slice alone:")
@by_slice_option("Of each label of a dimension, one below the other, with its column in front.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write it there, as CSV or Parquet by the suffix. Default: CSV on standard output.",
)
def export(results: Path, collection_files: tuple[Path, ...], **asked: Any) -> None:
    """Write the results of a run as one table: epoch by epoch, or means of weeks, months or N epochs.

    The table has a row for each value; or sums of raw estimates with their own standard errors, which are
    groups of values, cumulative shares, quantiles or the mean: ldpbeam docs groups. With hash_family:
    interval, cumulative shares and quantiles are those of the published curve, with its limits.

    Errors of different epochs are not independent, since devices repeat what they memoised. The standard
    errors of means take that into account, and assume nothing unless you give --drawn-anew:
    ldpbeam docs over-time.
    """
    from ldpbeam.cli.shared.histories import require_suffix, show_rows, write_tables

    which = _ExportOptions(**asked)
    require_suffix(which.output)
    which.require_together(summed=which.question is not None)
    tables = _tables(results, _known(results, collection_files, which), which)
    if which.output is None:
        show_rows(tables)
        return
    rows, columns = write_tables(tables, which.output)
    say(f"{rows:,} rows in {which.output}")
    deliver({"export": str(which.output), "rows": rows, "columns": columns})


def _periods(which: _ExportOptions) -> Periods:
    from ldpbeam.over_time import rollup

    made = rollup.CALENDAR[which.by] if which.by else rollup.every(which.every or 1)
    return replace(made, weight=which.weight)


def _known(results: Path, collection_files: tuple[Path, ...], which: _ExportOptions) -> Known:
    """The collections of the results; single rows are written without them."""
    from ldpbeam.cli.shared.histories import known_collections, remark_missing

    by_slice = bool(which.slice_ or which.by_slice)
    if which.question is not None or which.rolled:
        return known_collections(results, collection_files, by_slice=by_slice)
    remark_missing(results, by_slice=by_slice)
    return {}


def _tables(results: Path, known: Known, which: _ExportOptions) -> Iterator[Any]:
    """What is asked; with a column in front where it is asked of each label of a dimension."""
    import pyarrow as pa

    if which.by_slice is not None:
        from ldpbeam.over_time.slice_results import labels_in

        for label in labels_in(results, which.by_slice, which.slice_):
            one = replace(which, slice_={**which.slice_, which.by_slice: label}, by_slice=None)
            for table in _tables(results, known, one):
                column = pa.array([label] * table.num_rows, pa.string())
                yield table.add_column(0, COLUMN + which.by_slice, column)
    elif which.question is not None:
        yield from _answers(results, known, which.question, which)
    else:
        yield from _of_values(results, known, which)


def _of_values(results: Path, known: Known, which: _ExportOptions) -> Iterator[Any]:
    if not which.rolled:
        from ldpbeam.over_time.results import ResultsFolder

        return ResultsFolder.of(results, which.slice_).tables()
    from ldpbeam.cli.shared.histories import read_histories

    _, read = read_histories(known, results, slice_=which.slice_)
    _require_single_values(read)
    return _rolled_up(read, _periods(which), which.drawn_anew)


def _answers(results: Path, known: Known, question: Question | Path, which: _ExportOptions) -> Iterator[Any]:
    """One row per group, value on a curve, quantile or mean."""
    import pyarrow as pa

    from ldpbeam.cli.shared.histories import read_histories, remark_no_counts
    from ldpbeam.over_time.period import EpochCounts
    from ldpbeam.over_time.slice_results import table_folder
    from ldpbeam.sums import Mean, answers
    from ldpbeam.sums.distribution import (
        answers_of_distribution,
        read_counts,
        read_summaries,
        require_no_rate,
    )

    results_read, histories = read_histories(known, results, slice_=which.slice_)
    asked = _with_question(chosen(histories, which.name, which.attribute, results), question, results)
    periods = _periods(which) if which.rolled else None
    summaries, counts = None, EpochCounts(read_counts(results, which.slice_) if which.rolled else None)
    for read, each in asked:
        if read.collection.is_distribution:
            require_no_rate(which.drawn_anew)
            if summaries is None and isinstance(each, Mean):
                summaries = read_summaries(results, which.slice_)
            parts = [part for part in results_read.parts if part.key == read.history.key]
            epochs = (pa.concat_tables(results_read.tables([part])) for part in parts)
            yield from answers_of_distribution(
                read.collection, read.history, epochs, each, summaries, counts, periods
            )
            continue
        yield answers(read.collection, read.history, each, periods, which.drawn_anew)
    remark_no_counts(table_folder(results, "counts", which.slice_), counts.missing)


def _with_question(
    histories: list[ReadHistory], question: Question | Path, results: Path
) -> list[tuple[ReadHistory, Question]]:
    """Attributes with what is asked of them; those that cannot be asked are left out where others can."""
    if isinstance(question, Path):
        if len({(one.history.key.collection, one.history.key.attribute) for one in histories}) > 1:
            raise option_error(
                "there are several collections or attributes, and --group is for one",
                "Name it: --name, --attribute.",
                results,
            )
        return [(one, grouped(one, question)) for one in histories]
    able, why = [], None
    for one in histories:
        try:
            question.sums(one.domain)
            able.append((one, question))
        except UsageError as error:
            why = why or error
    if not able and why is not None:
        raise why
    return able


def _require_single_values(histories: list[ReadHistory]) -> None:
    """Raise UsageError where one of the collections has no estimates of single values."""
    from ldpbeam.sums.distribution import no_single_values

    for read in histories:
        if read.collection.is_distribution:
            raise no_single_values(read.collection)


def _rolled_up(histories: list[ReadHistory], periods: Periods, rate: DrawnAnew | None) -> Iterator[Any]:
    """One row per attribute, period and value."""
    import pyarrow as pa

    from ldpbeam.estimates import CONFIDENCE
    from ldpbeam.over_time.rollup import roll_up
    from ldpbeam.over_time.significance import normal_limit
    from ldpbeam.sums.columns import front_columns, sum_columns

    z = normal_limit(CONFIDENCE)
    for one in histories:
        history = one.history
        k = len(history.values)
        for period in roll_up(history, periods, one.errors, rate):
            mean, error = period.mean.estimate, period.mean.std_error
            front = front_columns(history, period, periods, 0, k)
            provisional = front.pop("provisional")
            limits = mean - z * error, mean + z * error
            columns = {
                **front,
                "epochs": pa.array(period.mean.epochs, pa.int64()),
                "value": pa.array(history.values, pa.int64()),
                "label": list(history.labels),
                **sum_columns(period.n, mean, error, period.mean.std_error_floor, *limits),
                "provisional": provisional,
            }
            yield pa.table(columns)
