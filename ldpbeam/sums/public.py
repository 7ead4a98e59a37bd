"""Public functions about sums. They take a collection, its results and a question, or read summaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.values import Index
from ldpbeam.errors import UsageError
from ldpbeam.over_time.covariance import DrawnAnew
from ldpbeam.over_time.period import EpochCounts
from ldpbeam.over_time.results import History, histories
from ldpbeam.over_time.rollup import CALENDAR, Periods
from ldpbeam.over_time.rollup import every as every_epochs
from ldpbeam.over_time.weighted_sums import Weight
from ldpbeam.sums.distribution import answers_of_distribution, require_no_rate
from ldpbeam.sums.distribution import read_counts as read_tables_of_counts
from ldpbeam.sums.distribution import read_summaries as read_tables_of_summaries
from ldpbeam.sums.question import Cumulative, Groups, Mean, Quantiles, Question
from ldpbeam.sums.tables import answers, changes

if TYPE_CHECKING:
    import pyarrow as pa


def group_shares(
    collection: Collection,
    results: pa.Table,
    groups: Mapping[str, Iterable[int | str | Index]],
    *,
    every: int | str | None = None,
    drawn_anew: DrawnAnew | None = None,
    weight: Weight = "epochs",
    attribute: str = "",
) -> pa.Table:
    """The share of the devices in each group of values, with errors and intervals.

        >>> import ldpbeam
        >>> collection = ldpbeam.load_collection("examples/first_choice.yaml")
        >>> reports = ldpbeam.simulate(collection, ["red"] * 6000 + ["blue"] * 4000, seed=7)
        >>> results = ldpbeam.estimate(collection, reports)
        >>> found = ldpbeam.group_shares(collection, results, {"warm": ["red"], "cold": ["green", "blue"]})
        >>> for row in found.to_pylist():
        ...     print("{group} {estimate:.3f} ± {std_error:.3f}".format(**row))
        warm 0.600 ± 0.017
        cold 0.408 ± 0.020

    Args:
        collection: what devices and server agreed on.
        results: of it, from :func:`ldpbeam.estimate` or :func:`ldpbeam.read`; raw estimates are added up.
        groups: values by the name of their group: integers, which are indices, or labels where the
            collection lists labels. Of a range in buckets 0 is the first bucket. Groups may overlap.
        every: a number of epochs, or ``"day"``, ``"week"``, ``"month"``: a row then has the mean of such a
            period. None for single epochs.
        drawn_anew: the rate at which devices draw their values anew, a
            :class:`ldpbeam.over_time.DrawnAnew`; it matters with ``every`` only. None where the rate is not
            known: errors of means then hold whatever devices do.
        weight: what weighs the same in the mean of a period, each of its ``"epochs"`` or ``"reports"``.
        attribute: its name, where the collection has several.

    Returns:
        A row for each period and group; docs/groups.md explains the columns.

    Raises:
        ValueError: no results of that attribute, an index or a label outside the domain, no group, or an
            empty one.
        TypeError: a value of a group is neither an index nor a label.
        UsageError: a collection of means.
    """
    return _answered(collection, results, Groups(groups), _periods(every, weight), drawn_anew, attribute)


def group_changes(
    collection: Collection,
    results: pa.Table,
    groups: Mapping[str, Iterable[int | str | Index]],
    before: Iterable[int],
    after: Iterable[int],
    *,
    drawn_anew: DrawnAnew | None = None,
    weight: Weight = "epochs",
    attribute: str = "",
) -> pa.Table:
    """How much the share of each group rose from the mean of some epochs to the mean of others.

        >>> import ldpbeam
        >>> collection = ldpbeam.load_collection("examples/first_choice.yaml")
        >>> fleet = ldpbeam.Fleet(collection, devices=9000, seed=7)
        >>> held = (["red"] * 3000 + ["green"] * 6000, ["red"] * 6000 + ["green"] * 3000)
        >>> results = ldpbeam.estimate(collection, [fleet.report(held[day > 1]) for day in range(4)])
        >>> (row,) = ldpbeam.group_changes(collection, results, {"red": [0]}, [0, 1], [2, 3]).to_pylist()
        >>> print("{group} {estimate:+.3f} ± {std_error:.3f}".format(**row))
        red +0.368 ± 0.020

    Args:
        collection, results, groups, attribute: as for :func:`group_shares`.
        before, after: indices of epochs; none may be in both. Epochs without an estimate are left out.
        drawn_anew: the rate at which devices draw their values anew, a
            :class:`ldpbeam.over_time.DrawnAnew`; None where it is not known. An interval then holds whatever
            devices do, and is wide where they keep their values.
        weight: what weighs the same in the mean of a side, each of its ``"epochs"`` or ``"reports"``.

    Returns:
        A row for each group: ``group``, ``values`` (how many there are in it), ``estimate`` (after less
        before), ``std_error``, and ``ci_low`` and ``ci_high`` at 95 %; null where either side has no
        estimate.

    Raises:
        ValueError, TypeError: as for :func:`group_shares`; an epoch is on both sides, or a side has none.
        UsageError: a collection of means.
    """
    sides = set(before), set(after)
    if not all(sides) or sides[0] & sides[1]:
        raise ValueError("before and after each take at least one epoch, and have none in common")
    history = _history(collection, results, attribute)
    if not all(side.intersection(history.series.epochs.tolist()) for side in sides):
        raise ValueError("before and after each take at least one epoch that the results have")
    return changes(collection, history, Groups(groups), sides, drawn_anew, _known(weight))


def cumulative_shares(
    collection: Collection,
    results: pa.Table,
    *,
    every: int | str | None = None,
    drawn_anew: DrawnAnew | None = None,
    weight: Weight = "epochs",
    attribute: str = "",
    counts: pa.Table | None = None,
) -> pa.Table:
    """The share of the devices at each value or below it; parameters as of :func:`group_shares`.

    Args:
        collection, results, every, drawn_anew, weight, attribute: as of :func:`group_shares`.
        counts: of :func:`read_counts`, with ``every`` and ``hash_family: interval``: a period is then one fit
            of its counts. Without them its limits are as wide as those of one epoch.

    Raises:
        UsageError: the values have no order (``ordered: true``), or are too many.
    """
    return _answered(
        collection, results, Cumulative(), _periods(every, weight), drawn_anew, attribute, counts
    )


def quantiles(
    collection: Collection,
    results: pa.Table,
    shares: Sequence[float],
    *,
    every: int | str | None = None,
    drawn_anew: DrawnAnew | None = None,
    weight: Weight = "epochs",
    attribute: str = "",
    counts: pa.Table | None = None,
) -> pa.Table:
    """The first value at or below which each of these shares of the devices lies: 0.5 for the median.

    Other parameters as of :func:`group_shares`. From ``value_low`` to ``value_high`` are the values that a
    95 % test does not reject.

    Args:
        shares: between 0 and 1.
        collection, results, every, drawn_anew, weight, attribute: as of :func:`group_shares`.
        counts: as of :func:`cumulative_shares`.

    Raises:
        UsageError: the values have no order (``ordered: true``), or are too many.
        ValueError: shares that are not between 0 and 1.
    """
    return _answered(
        collection, results, Quantiles(tuple(shares)), _periods(every, weight), drawn_anew, attribute, counts
    )


def value_mean(
    collection: Collection,
    results: pa.Table,
    *,
    every: int | str | None = None,
    drawn_anew: DrawnAnew | None = None,
    weight: Weight = "epochs",
    attribute: str = "",
) -> pa.Table:
    """The mean of the values, of buckets by their middles; parameters as of :func:`group_shares`.

    Args:
        collection, results, every, drawn_anew, weight, attribute: as of :func:`group_shares`.

    Raises:
        UsageError: values that have labels, or no order (``ordered: true``).
    """
    return _answered(collection, results, Mean(), _periods(every, weight), drawn_anew, attribute)


def read_summaries(results: str | PathLike[str], *, slice: Mapping[str, str] | None = None) -> pa.Table:
    """Mean and quantiles of every epoch that a run has published, of collections that give a distribution.

        >>> import ldpbeam
        >>> try:
        ...     ldpbeam.read_summaries("no-such-folder")
        ... except ldpbeam.LdpError as error:
        ...     print(error.message)
        no-such-folder holds no summaries

    Args:
        results: the directory that was ``--output`` of a run.
        slice: as of :func:`ldpbeam.read`.

    Returns:
        A row for each collection, attribute, epoch and statistic; docs/outputs.md explains the columns.

    Raises:
        UsageError: no summaries are there, or damaged ones.
    """
    return read_tables_of_summaries(Path(results), slice or {})


def read_counts(results: str | PathLike[str], *, slice: Mapping[str, str] | None = None) -> pa.Table:
    """The counts behind the newest revision of every epoch of collections that give a distribution.

    Args:
        results: the directory that was ``--output`` of a run.
        slice: as of :func:`ldpbeam.read`.

    Returns:
        A row for each collection, attribute and epoch with a result; docs/outputs.md explains the columns.

    Raises:
        UsageError: damaged ones.
    """
    return read_tables_of_counts(Path(results), slice or {})


def _answered(
    collection: Collection,
    results: pa.Table,
    question: Question,
    periods: Periods | None,
    drawn_anew: DrawnAnew | None,
    attribute: str,
    counts: pa.Table | None = None,
) -> pa.Table:
    if drawn_anew is not None and periods is None:
        raise ValueError("drawn_anew has no effect on single epochs: give every as well, or leave it out")
    if collection.is_distribution:
        require_no_rate(drawn_anew)
        return _of_distribution(collection, results, question, periods, attribute, counts)
    history = _history(collection, results, attribute)
    return answers(collection, history, question, periods, drawn_anew)


def _of_distribution(
    collection: Collection,
    results: pa.Table,
    question: Question,
    periods: Periods | None,
    attribute: str,
    counts: pa.Table | None,
) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    history = _history(collection, results, attribute)
    own = results.filter(
        pc.and_(pc.equal(results["digest"], collection.digest_hex), pc.equal(results["attribute"], attribute))
    )
    epochs = sorted(set(own["epoch"].to_pylist()))
    tables = [own.filter(pc.equal(own["epoch"], epoch)).sort_by("value") for epoch in epochs]
    cells = EpochCounts(counts)
    found = pa.concat_tables(
        answers_of_distribution(collection, history, tables, question, None, cells, periods)
    )
    if counts is not None and cells.missing:
        raise UsageError(
            "E-USAGE-RESULTS",
            f"counts has none of epoch {min(cells.missing)} as the results have it",
            remedy="Leave out counts for the mean of the epochs' curves, or run again.",
        )
    return found


def _history(collection: Collection, results: pa.Table, attribute: str) -> History:
    for one in histories(results):
        if one.key.digest == collection.digest_hex and one.key.attribute == attribute:
            return one
    there = [name for name, _ in collection.histograms]
    raise ValueError(f"there are no results of {collection.name!r} for {attribute!r}, one of {there}")


def _periods(every: int | str | None, weight: Weight) -> Periods | None:
    if every is None:
        if weight != "epochs":
            raise ValueError("weight has no effect on single epochs: give every as well, or leave it out")
        return None
    if isinstance(every, str):
        if every not in CALENDAR:
            raise ValueError(f"every is a number of epochs or one of {', '.join(CALENDAR)}, not {every!r}")
        return replace(CALENDAR[every], weight=_known(weight))
    if every < 1:
        raise ValueError("every is at least one epoch")
    return replace(every_epochs(every), weight=_known(weight))


def _known(weight: Weight) -> Weight:
    if weight not in get_args(Weight):
        raise ValueError(f"weight is one of {', '.join(get_args(Weight))}, not {weight!r}")
    return weight
