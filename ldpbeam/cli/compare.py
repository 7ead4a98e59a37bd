"""The command ``compare``: which values changed between two epochs, two runs or two versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldpbeam.cli.shared.console import Mode, PrintingCommand, complain, deliver, mode, say
from ldpbeam.cli.shared.options import (
    TextOption,
    collections_option,
    drawn_anew_option,
    named_span,
    weight_option,
)
from ldpbeam.cli.shared.sums import chosen, group_option, history_of_groups
from ldpbeam.errors import UsageError
from ldpbeam.text import plural

if TYPE_CHECKING:
    from ldpbeam.cli.shared.histories import ReadHistory, Side
    from ldpbeam.collection.collection import Collection
    from ldpbeam.over_time.compare import Comparison
    from ldpbeam.over_time.covariance import DrawnAnew
    from ldpbeam.over_time.results import Choice, History, Part
    from ldpbeam.over_time.weighted_sums import Weight

    Epochs = tuple[int, int]


_RATE = 0.05  # of false discoveries, where none is given


def _epochs(text: str) -> Epochs:
    """The first and the last of an epoch such as 12, or of several such as 7..13."""
    first, _, last = text.partition("..")
    try:
        ends = int(first), int(last or first)
    except ValueError:
        raise ValueError(f"{text!r} is neither an epoch nor a range such as 7..13") from None
    if ends[0] > ends[1]:
        raise ValueError(f"{text!r} ends before it begins")
    return ends


@dataclass(frozen=True)
class _CompareOptions:
    epochs: Epochs | None
    against: Epochs | None
    by: str | None
    name: str | None
    attribute: str | None
    group_file: Path | None
    drawn_anew: DrawnAnew | None
    weight: Weight
    false_discoveries: float | None
    chosen: tuple[str, ...]  # labels or numbers of values, or names of groups; empty for all
    limit: int
    output: Path | None


@click.command(cls=PrintingCommand)
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path), required=False)
@collections_option
@click.option(
    "--epochs",
    type=TextOption("epochs", _epochs),
    metavar="E|E..E",
    help="Epochs of A. Default: all; without B the last but one.",
)
@click.option(
    "--against",
    type=TextOption("epochs", _epochs),
    metavar="E|E..E",
    help="Epochs of B. Default: all; without B the last one.",
)
@click.option(
    "--by",
    type=click.Choice(["day", "week", "month"]),
    help="The last day, week or month (UTC) of A that has results against the one before it.",
)
@click.option("--name", help="The collection, where results have several.")
@click.option("--attribute", help="The attribute, where the collection has several.")
@group_option
@drawn_anew_option
@weight_option
@click.option(
    "--false-discoveries",
    type=click.FloatRange(0, 1, min_open=True),
    help="Of the values that are named as changed, the part that is expected not to have changed, at most "
    "(Benjamini and Hochberg). Default: 0.05.",
)
@click.option(
    "--value",
    "chosen",
    multiple=True,
    metavar="VALUE",
    help="Ask about this value (label or number), or group, alone. Choose it before you see the results. "
    "Repeat it for several, which share a false-alarm rate of 5 %.",
)
@click.option(
    "--limit", type=click.IntRange(1), default=10, show_default=True, help="How many changed values to show."
)
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="FILE", help="All values, as CSV or Parquet."
)
def compare(  # noqa: PLR0912, PLR0915 - the options of a command
    a: Path, b: Path | None, collection_files: tuple[Path, ...], **asked: Any
) -> None:
    """Say which values changed from A to B: epochs of one run, two runs, or two versions of a collection.

    With A alone, its last epoch is compared with the one before, or the epochs of --against with those of
    --epochs, or with --by its last month, week or day with the one before. With A and B, means over all
    epochs are compared, or over those of --epochs and --against. Of
    a folder that holds several versions of a collection each side is the newest version that has its epochs.
    The tests take into account that devices repeat what they memoised. With --group, shares of groups are
    compared in place of single values, all at one false-discovery rate. With --value, the answer is about
    that value or group alone, with its own p-value.

    Of a collection with hash_family interval the mean and the quartiles are compared: of two epochs, or of
    several, fitted once. A quartile at a declared atom is compared by the shares before and after it.
    """
    from ldpbeam.cli.shared.histories import (
        Side,
        documents,
        known_collections,
        read_histories,
        require_suffix,
        write_tables,
    )

    which = _CompareOptions(**asked)
    output = which.output
    if which.chosen and which.false_discoveries is not None:
        raise _usage(
            "--false-discoveries is for all values together, --value for those that it names",
            "Leave one of them out.",
        )
    if which.by is not None and (b or which.epochs or which.against):
        raise _usage("--by says which epochs of A are compared", "Leave out --by, or B and the epochs.", a)
    require_suffix(output)
    # Only what is compared is read: of a large domain an epoch takes much memory.
    known = known_collections(a, collection_files)
    folder, histories = read_histories(known, a, _chosen(which, alone=b is None))
    newest = _one(histories, which, which.attribute, which.epochs, a)
    if which.by is not None:
        before, after = _last_periods(newest, which.by, a)
        which = replace(which, epochs=before, against=after)
    first = Side(folder, newest, which.epochs, a)
    distributions, key = first.read.collection.is_distribution, first.read.history.key
    if distributions:
        _require_quartiles(first.read.collection, which, a)
    if b is None and (which.epochs is None) != (which.against is None):
        raise _usage("--epochs and --against belong together", "Give both, or neither.", a)
    second = None
    if b is not None:
        known = known_collections(b, collection_files)
        folder, histories = read_histories(known, b, _within_some(which.against))
        second = Side(folder, _one(histories, which, key.attribute, which.against, b), which.against, b)
    elif which.against is not None:
        second = Side(folder, _one(histories, which, key.attribute, which.against, a), which.against, a)
    if distributions:
        from ldpbeam.cli.shared.compare_distributions import compare_distributions

        compare_distributions(first, second, which.weight, output)
        return
    if b is None and second is not None and second.read.history.key.digest == key.digest:
        second = None  # two sets of epochs of one run and version
    kind = "values" if which.group_file is None else "groups"
    if which.group_file is not None:
        first = first._replace(read=history_of_groups(first.read, which.group_file))
        if second is not None:
            groups = history_of_groups(second.read, which.group_file, remark=False)
            second = second._replace(read=groups)
    history = first.read.history
    comparison, words = _compared(first, second, which)
    table = _table(history, comparison, kind)
    places = list(dict.fromkeys(_place(history, one, kind, a) for one in which.chosen))
    say(f"{key.collection}: {words}")
    answer = _of_chosen(history, comparison, places, kind) if places else None
    if answer is None:
        answer = _of_all(history, comparison, which, kind)
    if output is not None:
        write_tables([table], output)
        say(f"all {kind} in {output}")
    if mode() is Mode.JSON:  # a million rows are a gigabyte as documents
        deliver(
            {
                "collection": key.collection,
                "attribute": key.attribute,
                "compared": words,
                "weight": which.weight,
                **answer,
                "rows": documents(table),
            }
        )


def _require_quartiles(collection: Collection, which: _CompareOptions, where: Path) -> None:
    """Raise UsageError for an option that is for single values, which distributions do not have."""
    given = {
        "--group": which.group_file,
        "--value": which.chosen,
        "--false-discoveries": which.false_discoveries,
        "--drawn-anew": which.drawn_anew,
    }
    unfit = [name for name, value in given.items() if value]
    if unfit:
        raise _usage(
            f"{collection.name} has distributions, whose mean and quartiles are compared, and {unfit[0]} is "
            "for single values",
            f"Leave out {unfit[0]}.",
            where,
        )


def _of_all(history: History, comparison: Comparison, which: _CompareOptions, kind: str) -> dict[str, Any]:
    """Say which of all values changed, the clearest first; gives the same for programs."""
    rate = _RATE if which.false_discoveries is None else which.false_discoveries
    moved = comparison.moved(rate).tolist()
    say(f"{len(moved):,} of {len(history.values):,} {kind} changed (false-discovery rate {rate:.4g})")
    for place in moved[: which.limit]:
        say(f"  {_mover(history, comparison, place)}")
    return {"false_discoveries": rate, "changed": [_named(history, place, kind) for place in moved]}


def _of_chosen(history: History, comparison: Comparison, places: Sequence[int], kind: str) -> dict[str, Any]:
    """Say of each value that was asked for whether it changed; gives the same for programs."""
    from ldpbeam.cli.shared.histories import finite
    from ldpbeam.over_time.compare import chosen_changes

    changes = chosen_changes(comparison, places)
    for one in changes:
        before, after = (float(end.estimate[one.place]) for end in (comparison.before, comparison.after))
        verdict = "changed" if one.clear else "no change is clear"
        say(
            f"  {_shown(history, one.place)}: {verdict}: {one.change:+.4g} "
            f"({one.low:+.4g} .. {one.high:+.4g}), from {before:.4g} to {after:.4g}, p = {one.p_value:.3g}"
        )
    what = kind.removesuffix("s")
    if len(changes) == 1:
        rate = "The interval and the verdict have a false-alarm rate of 5 %"
    else:
        rate = f"All {len(changes)} intervals and verdicts together have a false-alarm rate of 5 %"
    say(f"p is of that {what} alone, not adjusted for any other. {rate},")
    say(f"where the {what} was chosen before the results were seen.")
    return {
        "chosen": [
            {
                kind.removesuffix("s"): _named(history, one.place, kind),
                "change": finite(one.change),
                "low": finite(one.low),
                "high": finite(one.high),
                "p_value": one.p_value,
                "changed": one.clear,
            }
            for one in changes
        ]
    }


def _place(history: History, typed: str, kind: str, where: Path) -> int:
    """The place of a value by its label, else by its number; of a group by its name."""
    if typed in history.labels:
        return history.labels.index(typed)
    numbers = [] if kind == "groups" else [str(value) for value in history.values]
    if typed in numbers:
        return numbers.index(typed)
    near = get_close_matches(typed, history.labels, 1)
    hint = f"Did you mean {near[0]}?" if near else f"The first are: {', '.join(history.labels[:5])}."
    raise _usage(f"there is no {kind.removesuffix('s')} {typed!r} to compare", hint, where)


def _shown(history: History, place: int) -> str:
    """A value for people: its label, or its number as a number."""
    value, label = str(history.values[place]), history.labels[place]
    return label if label != value else f"value {value}"


def _usage(what: str, remedy: str, where: Path | None = None) -> UsageError:
    return UsageError("E-USAGE-OPTION", what, where="" if where is None else str(where), remedy=remedy)


def _one(
    histories: list[ReadHistory],
    which: _CompareOptions,
    attribute: str | None,
    epochs: Epochs | None,
    where: Path,
) -> ReadHistory:
    """The attribute that was asked for; of several versions the newest that has results of these epochs."""
    left = chosen(histories, which.name, attribute, where)
    if len({(one.history.key.collection, one.history.key.attribute) for one in left}) > 1:
        raise _usage("there are several collections or attributes", "Name one: --name, --attribute.", where)
    taken = max(left, key=lambda one: (_has(one, epochs), one.history.key.version))
    if len(left) > 1:
        versions = ", ".join(str(one.history.key.version) for one in left)
        about = "" if epochs is None else f" for epochs {named_span(epochs)}"
        say(
            f"{where} has versions {versions} of {taken.history.key.collection}; compared{about} is "
            f"version {taken.history.key.version}"
        )
    return taken


def _has(read: ReadHistory, epochs: Epochs | None) -> bool:
    return epochs is None or bool(_inside(read.history.series.epochs, epochs).any())


def _inside(epochs: Any, span: Epochs) -> Any:
    return (epochs >= span[0]) & (epochs <= span[1])


def _chosen(which: _CompareOptions, *, alone: bool) -> Choice:
    """Those epochs of A that are compared."""
    if not alone or which.by is not None:
        return _within_some(which.epochs)
    if which.epochs is None or which.against is None:
        return _last_two
    return _within_some(which.epochs, which.against)


def _within_some(*spans: Epochs | None) -> Choice:
    """Those of the spans, None being all; of none, another one, so that the epochs can be named."""

    def choose(parts: Sequence[Part]) -> Sequence[Part]:
        some = [p for p in parts if any(one is None or one[0] <= p.epoch <= one[1] for one in spans)]
        return some or parts[-1:]

    return choose


def _last_periods(read: ReadHistory, by: str, where: Path) -> tuple[Epochs, Epochs]:
    """The epochs of the last two periods that have results; a line says from when to when they are."""
    import numpy as np

    from ldpbeam.collection.epochs import instant
    from ldpbeam.over_time.rollup import CALENDAR

    history = read.history
    known = np.concatenate([block.known.any(axis=1) for block in history.series.blocks()])
    periods: dict[int, list[tuple[int, int]]] = {}
    for epoch, start, usable in zip(history.series.epochs, history.starts, known, strict=True):
        if usable or read.collection.is_distribution:
            one = int(epoch), int(start)
            periods.setdefault(CALENDAR[by].number(*one), []).append(one)
    if len(periods) < 2:
        raise _usage(f"there are not two {by}s with results", "ldpbeam inspect names the epochs.", where)
    last = [periods[number] for number in sorted(periods)[-2:]]
    dates = [
        f"{instant(one[0][1] // 10**6)[:10]} .. {instant(one[-1][1] // 10**6)[:10]} "
        f"({plural(len(one), 'epoch')})"
        for one in last
    ]
    say(f"by {by}: {' against '.join(dates)}")
    before, after = ((one[0][0], one[-1][0]) for one in last)
    return before, after


def _last_two(parts: Sequence[Part]) -> Sequence[Part]:
    """From the last one back, until two have estimates."""
    begin, usable = len(parts), 0
    while begin > 0 and usable < 2:
        begin -= 1
        usable += parts[begin].usable is True
    return parts[begin:]


def _compared(first: Side, second: Side | None, which: _CompareOptions) -> tuple[Comparison, str]:
    """What changed, and a line on what was compared."""
    from ldpbeam.over_time.weighted_sums import weight_in_words

    found, words = _of_one(first, which) if second is None else _of_two(first, second, which)
    return found, words + weight_in_words(which.weight, found.before.epochs, found.after.epochs)


def _of_one(first: Side, which: _CompareOptions) -> tuple[Comparison, str]:
    """Two sets of epochs of one run, and a line on what was compared."""
    import numpy as np

    from ldpbeam.over_time.compare import compare_epochs

    series, epochs, where = first.read.history.series, first.span, first.place
    against = which.against
    if epochs is None or against is None:
        some = np.concatenate([block.known.any(axis=1) for block in series.blocks()])
        usable = series.epochs[some].tolist()
        if len(usable) < 2:
            raise _usage("there are not two epochs with estimates", "Give a second run as B.", where)
        epochs, against = (usable[-2], usable[-2]), (usable[-1], usable[-1])
    before, after = (_within(series.epochs, one, where) for one in (epochs, against))
    if (before & after).any():
        raise _usage("an epoch cannot be compared with itself", "Give epochs that do not overlap.", where)
    either = before | after
    comparison = compare_epochs(
        series.rows(either), before[either], after[either], first.read.errors, which.drawn_anew, which.weight
    )
    earlier = ", which are earlier" if against[1] < epochs[0] else ""
    return comparison, f"epochs {named_span(epochs)} against {named_span(against)}{earlier}"


def _of_two(first: Side, second: Side, which: _CompareOptions) -> tuple[Comparison, str]:
    """Two runs, and a line on what was compared."""
    import numpy as np

    from ldpbeam.over_time import mean
    from ldpbeam.over_time.compare import compare_epochs, compare_runs, together

    if first.read.history.labels != second.read.history.labels:
        raise _usage(
            "the two have different values, so they cannot be compared one by one",
            "Compare collections with the same domain, or groups of values that both have: --group FILE.",
            second.place,
        )
    rows = []
    for _, read, span, place in (first, second):
        series = read.history.series
        rows.append(series if span is None else series.rows(_within(series.epochs, span, place)))
    compared, errors = f"{first.words} against {second.words}", first.read.errors
    asked = which.drawn_anew, which.weight
    # Devices keep their memos from run to run, but not from version to version.
    same = first.read.history.key.digest == second.read.history.key.digest
    joined = together(*rows) if same else None
    if joined is not None:
        before = np.isin(joined.epochs, rows[0].epochs)
        return compare_epochs(joined, before, ~before, errors, *asked), compared
    return compare_runs(mean(rows[0], errors, *asked), mean(rows[1], second.read.errors, *asked)), compared


def _within(epochs: Any, span: Epochs, where: Path) -> Any:
    chosen = _inside(epochs, span)
    if not chosen.any():
        raise _usage(
            f"there is no result of epochs {named_span(span)}", "ldpbeam inspect names the epochs.", where
        )
    missing = span[1] - span[0] + 1 - int(chosen.sum())
    if missing:
        have = [int(epoch) for epoch in epochs[chosen]]
        some = ", ".join(map(str, have[:8])) + (", …" if len(have) > 8 else "")
        complain(
            f"{where}: of epochs {named_span(span)} {missing:,} have no result; "
            f"compared is what there is: {some}. [W-RESULTS-EPOCHS]"
        )
    return chosen


def _named(history: History, place: int, kind: str) -> int | str:
    return history.labels[place] if kind == "groups" else int(history.values[place])


def _table(history: History, comparison: Comparison, kind: str) -> Any:
    import pyarrow as pa

    from ldpbeam.tables import numbers

    k = len(history.values)
    named: dict[str, Any] = {"group": list(history.labels)}
    if kind == "values":
        named = {"value": pa.array(history.values, pa.int64()), "label": list(history.labels)}
    return pa.table(
        {
            "collection": [history.key.collection] * k,
            "attribute": [history.key.attribute] * k,
            **named,
            "before": numbers(comparison.before.estimate),
            "before_std_error": numbers(comparison.before.std_error),
            "after": numbers(comparison.after.estimate),
            "after_std_error": numbers(comparison.after.std_error),
            "change": numbers(comparison.change),
            "std_error": numbers(comparison.std_error),
            "p_value": numbers(comparison.p_value),
            "adjusted": numbers(comparison.adjusted),
        }
    )


def _mover(history: History, comparison: Comparison, place: int) -> str:
    from ldpbeam.estimates import CONFIDENCE
    from ldpbeam.over_time.significance import normal_limit

    change = float(comparison.change[place])
    half = normal_limit(CONFIDENCE) * float(comparison.std_error[place])
    return (
        f"{_shown(history, place)} {'rose' if change > 0 else 'fell'} by {abs(change):.4g} ± {half:.2g} "
        f"(95 %), from {comparison.before.estimate[place]:.4g} to {comparison.after.estimate[place]:.4g}"
    )
