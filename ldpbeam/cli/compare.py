"""The command ``compare``: which values changed between two epochs, two runs or two versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldpbeam.cli.shared.console import Mode, PrintingCommand, complain, deliver, mode, say
from ldpbeam.cli.shared.options import (
    TextOption,
    by_slice_option,
    collections_option,
    drawn_anew_option,
    named_span,
    slice_option,
    weight_option,
)
from ldpbeam.cli.shared.sums import chosen, group_option, history_of_groups
from ldpbeam.collection.slices import slice_text
from ldpbeam.errors import option_error
from ldpbeam.text import plural

if TYPE_CHECKING:
    from ldpbeam.arrays import Ints
    from ldpbeam.cli.shared.compare_values import Cases, Compared
    from ldpbeam.cli.shared.histories import Known, ReadHistory, Side
    from ldpbeam.collection.collection import Collection
    from ldpbeam.over_time.compare import Comparison
    from ldpbeam.over_time.covariance import DrawnAnew
    from ldpbeam.over_time.results import Choice, Part
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
    slice_: Mapping[str, str]
    against_slice: Mapping[str, str]
    by_slice: str | None
    false_discoveries: float | None
    chosen: tuple[str, ...]  # labels or numbers of values, or names of groups; empty for all
    limit: int
    output: Path | None

    def require_together(self, a: Path, b: Path | None) -> None:
        if self.chosen and self.false_discoveries is not None:
            raise option_error(
                "--false-discoveries is for all values together, --value for those that it names",
                "Leave one of them out.",
            )
        if self.by is not None and (b or self.epochs or self.against):
            raise option_error(
                "--by says which epochs of A are compared", "Leave out --by, or B and the epochs.", a
            )
        if self.against_slice:
            self._require_slices(a, b)
        elif self.by_slice is not None:
            raise option_error("--by-slice is for two slices", "Add --slice and --against-slice.", a)
        elif b is None and (self.epochs is None) != (self.against is None):
            raise option_error("--epochs and --against belong together", "Give both, or neither.", a)

    def _require_slices(self, a: Path, b: Path | None) -> None:
        """Raise UsageError for two slices that can have devices in common, or options that are for others."""
        others = {"B": b, "--against": self.against, "--by": self.by, "--drawn-anew": self.drawn_anew}
        unfit = [name for name, value in others.items() if value]
        if unfit:
            raise option_error(
                f"two slices are compared over the same epochs of one run, for which {unfit[0]} says nothing",
                f"Leave out {unfit[0]}; --epochs is for both slices.",
                a,
            )
        from ldpbeam.over_time.slice_results import require_slice

        for slice_ in (self.slice_, self.against_slice):
            if slice_:
                require_slice(a, slice_)
        if all(self.slice_.get(name, label) == label for name, label in self.against_slice.items()):
            one, other = (slice_text(tuple(each.items())) for each in (self.slice_, self.against_slice))
            raise option_error(
                f"the slices {one} and {other} can have devices in common",
                "Compare two labels of one dimension.",
                a,
            )


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
@slice_option("Compare the results of this slice alone, which has")
@slice_option(
    "Compare --slice with this slice over the same epochs: how much higher values are in --slice. It has",
    "--against-slice",
)
@by_slice_option("Compare the two slices within each label of this further dimension, all at one rate.")
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
def compare(a: Path, b: Path | None, collection_files: tuple[Path, ...], **asked: Any) -> None:
    """Say which values changed from A to B: epochs of one run, two runs, or two versions of a collection.

    With A alone, its last epoch is compared with the one before, or the epochs of --against with those of
    --epochs, or with --by its last month, week or day with the one before. With A and B, means over all
    epochs are compared, or over those of --epochs and --against. Of
    a folder that holds several versions of a collection each side is the newest version that has its epochs.
    The tests take into account that devices repeat what they memoised. With --group, shares of groups are
    compared in place of single values, all at one false-discovery rate. With --value, the answer is about
    that value or group alone, with its own p-value.

    With --against-slice two slices of A are compared over the same epochs, all or those of --epochs. Their
    devices stand for all of their kind: what they hold by chance is in the errors.

    Of a collection with hash_family interval the mean and the quartiles are compared: of two epochs, or of
    several, fitted once. A quartile at a declared atom is compared by the shares before and after it.
    """
    from ldpbeam.cli.shared.histories import documents, known_collections, require_suffix, write_tables

    which = _CompareOptions(**asked)
    which.require_together(a, b)
    require_suffix(which.output)
    known = known_collections(a, collection_files, by_slice=bool(which.slice_))
    cases: Cases = _slices(a, known, which) if which.against_slice else {}
    if not cases:
        other = known if b is None else known_collections(b, collection_files, by_slice=bool(which.slice_))
        cases = {"": _sides(a, b, (known, other), which)}
    collection = next(iter(cases.values()))[0].read.collection
    if collection.is_distribution:
        from ldpbeam.cli.shared.compare_distributions import compare_distributions

        _require_quartiles(collection, which, a)
        compare_distributions(cases, which.by_slice, which.weight, which.output)
        return
    compared, words = _compared(cases, which)
    key = compared.history.key
    say(f"{key.collection}: {words}")
    if which.chosen:
        answer = compared.say_chosen(which.chosen, a)
    else:
        answer = compared.say_all(which.false_discoveries or _RATE, which.limit)
    if which.output is not None:
        write_tables([compared.table()], which.output)
        say(f"all {compared.kind} in {which.output}")
    if mode() is Mode.JSON:  # a million rows are a gigabyte as documents
        deliver(
            {
                "collection": key.collection,
                "attribute": key.attribute,
                "compared": words,
                "weight": which.weight,
                **answer,
                "rows": documents(compared.table()),
            }
        )


def _sides(
    a: Path, b: Path | None, known: tuple[Known, Known], which: _CompareOptions
) -> tuple[Side, Side | None]:
    """What is compared; without a second side the last two epochs."""
    from ldpbeam.cli.shared.histories import Side, read_histories

    # Only what is compared is read: of a large domain an epoch takes much memory.
    folder, histories = read_histories(known[0], a, _chosen(which, alone=b is None), which.slice_)
    read = _one(histories, which, which.attribute, which.epochs, a)
    epochs, against = which.epochs, which.against
    if which.by is not None:
        epochs, against = _last_periods(read, which.by, a)
    first, attribute = Side(folder, read, epochs, a), read.history.key.attribute
    if b is not None:
        folder, histories = read_histories(known[1], b, _within_some(against), which.slice_)
        return first, Side(folder, _one(histories, which, attribute, against, b), against, b)
    if against is None:
        return first, None
    return first, Side(folder, _one(histories, which, attribute, against, a), against, a)


def _slices(a: Path, known: Known, which: _CompareOptions) -> Cases:
    """The two slices within each label of a dimension, over the epochs in which both have results."""
    import numpy as np

    from ldpbeam.cli.shared.histories import Side, read_histories
    from ldpbeam.over_time.slice_results import labels_in

    by, cases, choice = which.by_slice, dict[str, tuple[Side, Side | None]](), _within_some(which.epochs)
    for label in ("",) if by is None else labels_in(a, by, which.slice_):
        sides = []
        for slice_ in (which.against_slice, which.slice_):
            folder, histories = read_histories(known, a, choice, {**slice_, **({by: label} if by else {})})
            read = _one(histories, which, which.attribute, which.epochs, a)
            sides.append(Side(folder, read, which.epochs, a))
        one, other = map(_usable, sides)
        both, lost = np.intersect1d(one, other), np.setxor1d(one, other)
        if lost.size or not both.size:
            complain(
                f"{a}: {f'{by}={label}: ' if by else ''}compared are the {plural(both.size, 'epoch')} of "
                f"which both slices have min_reports reports; {lost.size:,} of which one alone has them are "
                "left out. [W-RESULTS-EPOCHS]"
            )
        if both.size:
            cases[label] = sides[0].at(both), sides[1].at(both)
    if not cases:
        raise option_error("there is no epoch in which both slices have results", "Compare larger slices.", a)
    return cases


def _usable(side: Side) -> Ints:
    import numpy as np

    series = side.read.history.series
    rows = True if side.span is None else _within(series.epochs, side.span, side.place)
    if side.read.collection.is_distribution:
        from ldpbeam.cli.shared.compare_distributions import known_epochs

        return np.array(known_epochs(side), np.int64)
    known = np.concatenate([block.known.any(axis=1) for block in series.blocks()])
    return series.epochs[known & rows]


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
        raise option_error(
            f"{collection.name} has distributions, whose mean and quartiles are compared, and {unfit[0]} is "
            "for single values",
            f"Leave out {unfit[0]}.",
            where,
        )


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
        raise option_error(
            "there are several collections or attributes", "Name one: --name, --attribute.", where
        )
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
        raise option_error(
            f"there are not two {by}s with results", "ldpbeam inspect names the epochs.", where
        )
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


def _compared(cases: Cases, which: _CompareOptions) -> tuple[Compared, str]:
    from ldpbeam.cli.shared.compare_values import Compared, wording, words_of_slices
    from ldpbeam.over_time.compare import pooled
    from ldpbeam.over_time.weighted_sums import weight_in_words

    parts: dict[str, Comparison] = {}
    words = ""
    for label, (first, second) in cases.items():
        one_run = second is None or (
            second.folder is first.folder and second.read.history.key == first.read.history.key
        )
        history = _prepared(first.read, which, remark=not parts)
        if second is None or one_run:
            parts[label], words = _of_one(first._replace(read=history), second, which)
        else:
            other = second._replace(read=_prepared(second.read, which, remark=False))
            parts[label], words = _of_two(first._replace(read=history), other, which)
    found = pooled(list(parts.values()))
    words += weight_in_words(which.weight, found.before.epochs, found.after.epochs)
    if which.against_slice:
        words = words_of_slices(cases, which.by_slice, which.weight)
    elif which.slice_:
        words = f"{slice_text(tuple(which.slice_.items()))}, {words}"
    kind = "values" if which.group_file is None else "groups"
    return Compared(history.history, kind, found, which.by_slice, tuple(parts), wording(cases)), words


def _prepared(read: ReadHistory, which: _CompareOptions, *, remark: bool) -> ReadHistory:
    """The attribute as it is compared: by groups, and of slices with the errors of a sample."""
    sampled = bool(which.against_slice)
    if which.group_file is not None:
        return history_of_groups(read, which.group_file, remark=remark, sampled=sampled)
    return read.of_sample if sampled else read


def _of_one(first: Side, second: Side | None, which: _CompareOptions) -> tuple[Comparison, str]:
    """Two sets of epochs of one run, and a line on what was compared."""

    from ldpbeam.over_time.compare import compare_epochs

    series, epochs, where = first.read.history.series, first.span, first.place
    against = None if second is None else second.span
    if epochs is None or against is None:
        usable = _usable(first).tolist()
        if len(usable) < 2:
            raise option_error("there are not two epochs with estimates", "Give a second run as B.", where)
        epochs, against = (usable[-2], usable[-2]), (usable[-1], usable[-1])
    before, after = (_within(series.epochs, one, where) for one in (epochs, against))
    if (before & after).any():
        raise option_error(
            "an epoch cannot be compared with itself", "Give epochs that do not overlap.", where
        )
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
        raise option_error(
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
    # Devices keep their memos from run to run, but not from version to version. Slices share their epochs.
    same = first.read.history.key.digest == second.read.history.key.digest
    joined = together(*rows) if same else None
    if joined is not None:
        before = np.isin(joined.epochs, rows[0].epochs)
        return compare_epochs(joined, before, ~before, errors, *asked), compared
    return compare_runs(mean(rows[0], errors, *asked), mean(rows[1], second.read.errors, *asked)), compared


def _within(epochs: Any, span: Epochs, where: Path) -> Any:
    chosen = _inside(epochs, span)
    if not chosen.any():
        raise option_error(
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
