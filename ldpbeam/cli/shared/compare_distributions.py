"""``compare`` for collections whose result is a distribution: mean and quartiles of two sides."""

from __future__ import annotations

from math import floor, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ldpbeam.cli.shared.compare_values import BETWEEN_SLICES, Wording, wording, words_of_slices
from ldpbeam.cli.shared.console import deliver, say
from ldpbeam.cli.shared.options import named_span
from ldpbeam.collection.slices import COLUMN, slice_text
from ldpbeam.errors import option_error
from ldpbeam.planning.quantity import points

if TYPE_CHECKING:
    from ldpbeam.cli.shared.compare_values import Cases
    from ldpbeam.cli.shared.histories import Side
    from ldpbeam.collection.domain import Domain
    from ldpbeam.over_time.weighted_sums import Weight
    from ldpbeam.sums.distribution import Curve
    from ldpbeam.sums.quartiles import MeanChange, QuartileChange, ShareChange

_NAMES = {0.25: "first quartile", 0.5: "median", 0.75: "third quartile"}


class _Found(NamedTuple):
    words: str
    mean: MeanChange | None
    quartiles: list[QuartileChange]


def compare_distributions(cases: Cases, by_slice: str | None, weight: Weight, output: Path | None) -> None:
    """Say whether the mean and which quartiles changed from the epochs of one side to those of the other."""
    from ldpbeam.cli.shared.histories import write_tables
    from ldpbeam.sums.quartiles import QUARTILES

    first = next(iter(cases.values()))[0]
    key, domain, speech = first.read.history.key, first.read.domain, wording(cases)
    verdicts = (len(QUARTILES) + (domain.labels is None)) * len(cases)  # texts have no mean
    found = {label: _found(*sides, weight, verdicts) for label, sides in cases.items()}
    (words, *_), *_ = found.values()
    if speech is BETWEEN_SLICES:
        words = words_of_slices(cases, by_slice, weight)
    say(f"{key.collection}: {words}")
    tables, documents = [], []
    for label, (_, mean, changes) in found.items():
        within = f"{by_slice}={label}: " if by_slice else ""
        if mean is not None:
            say(f"  {within}{_sentence_of_mean(mean, speech)}")
        for change in changes:
            say(f"  {within}{_sentence(change, domain, speech)}")
        rows = [_row(change, domain) for change in changes]
        row_of_mean = None if mean is None else _row_of_mean(mean)
        documents.append({"mean": row_of_mean, "quartiles": rows})
        table = _table(rows, row_of_mean)
        if by_slice:
            table = table.add_column(0, COLUMN + by_slice, [[label] * table.num_rows])
        tables.append(table)
    number = {3: "three", 4: "four"}.get(verdicts, verdicts)
    say(f"All {number} verdicts together have a false-alarm rate of 5 %.")
    if output is not None:
        write_tables(tables, output)
        say(f"all verdicts in {output}")
    deliver(
        {
            "collection": key.collection,
            "attribute": key.attribute,
            "compared": words,
            "weight": weight,
            **({"labels": dict(zip(found, documents, strict=True))} if by_slice else documents[0]),
        }
    )


def _found(first: Side, second: Side | None, weight: Weight, verdicts: int) -> _Found:
    """The changes of one of the cases, whose verdicts share a false-alarm rate with so many in all."""
    from ldpbeam.over_time.weighted_sums import weight_in_words
    from ldpbeam.sums.distribution import mean_of_epochs, read_summaries
    from ldpbeam.sums.quartiles import compare_means, compare_quartiles

    domain, other = first.read.domain, second or first
    slices = other.folder.slice_ != first.folder.slice_
    one_memo = first.read.history.key.digest == other.read.history.key.digest and not slices
    same = one_memo and first.place == other.place
    if second is None:
        known = [one for one in _curves(first) if one[1].known]
        if len(known) < 2:
            raise option_error(
                "there are not two epochs with results", "Give a second run as B.", first.place
            )
        sides = [[one] for one in known[-2:]]
    else:
        sides = [_known(first), _known(second)]
        if same and {e for e, _ in sides[0]} & {e for e, _ in sides[1]}:
            raise option_error(
                "an epoch cannot be compared with itself",
                "Name epochs for each side, none of them for both: --epochs A..B --against C..D.",
                first.place,
            )
    if first.read.history.labels != other.read.history.labels:
        raise option_error(
            "the two have different values, so their quartiles cannot be compared",
            "Compare collections with the same domain.",
            other.place,
        )
    curves = [[curve for _, curve in side] for side in sides]
    before, after = (
        _curve_of_epochs(side, some, weight, sampled=slices)
        for side, some in zip((first, other), curves, strict=True)
    )
    mean = None
    if domain.labels is None:
        earlier, later = (
            mean_of_epochs(
                side.read.collection,
                some,
                read_summaries(side.place, side.folder.slice_),
                weight,
                sampled=slices,
            )
            for side, some in zip((first, other), curves, strict=True)
        )
        mean = compare_means(earlier, later, verdicts, one_memo=one_memo)
    if same:
        words = " against ".join(_named([epoch for epoch, _ in side]) for side in sides)
    else:
        words = f"{first.words} against {other.words}"
    if first.folder.slice_:
        words = f"{slice_text(tuple(first.folder.slice_.items()))}, {words}"
    words += weight_in_words(weight, *map(len, curves))
    return _Found(words, mean, compare_quartiles(before, after, domain.atoms, verdicts))


def _curves(source: Side) -> list[tuple[int, Curve]]:
    import pyarrow as pa

    from ldpbeam.sums.distribution import Curve

    key, span, folder = source.read.history.key, source.span, source.folder
    parts = [p for p in folder.parts if p.key == key and (span is None or span[0] <= p.epoch <= span[1])]
    return [(part.epoch, Curve.of(pa.concat_tables(folder.tables([part])))) for part in parts]


def _curve_of_epochs(source: Side, curves: list[Curve], weight: Weight, *, sampled: bool) -> Curve:
    from ldpbeam.cli.shared.histories import remark_no_counts
    from ldpbeam.over_time.period import EpochCounts
    from ldpbeam.over_time.slice_results import table_folder
    from ldpbeam.sums.distribution import Curve, read_counts

    slice_ = source.folder.slice_
    counts = EpochCounts(read_counts(source.place, slice_) if len(curves) > 1 else None)
    curve = Curve.of_epochs(source.read.collection, curves, counts, weight, sampled=sampled)
    remark_no_counts(table_folder(source.place, "counts", slice_), counts.missing)
    return curve


def known_epochs(source: Side) -> list[int]:
    return [epoch for epoch, curve in _curves(source) if curve.known]


def _known(source: Side) -> list[tuple[int, Curve]]:
    """The epochs of a side that have a result, at least one."""
    known = [one for one in _curves(source) if one[1].known]
    if not known:
        raise option_error(
            "there is no epoch with a result", "ldpbeam inspect names the epochs.", source.place
        )
    return known


def _named(epochs: list[int]) -> str:
    return f"epoch{'s' if len(epochs) > 1 else ''} {named_span((epochs[0], epochs[-1]))}"


def _sentence_of_mean(change: MeanChange, speech: Wording) -> str:
    """The mean for people, in as many places as three digits of its limits have."""
    digits = max(2 - floor(log10(change.half_width)), 0)
    before, after, half = (
        f"{x:.{digits}f}".replace("-", "−")
        for x in (change.before.mean, change.after.mean, change.half_width)
    )
    verdict, by = f"{speech.unclear}:", f"{change.change:+.{digits}f}".replace("-", "−")
    if change.clear:
        verdict, by = speech.mean[change.change < 0], f"{abs(change.change):.{digits}f}"
    return f"mean: {verdict} {speech.ends.format(before=before, after=after)}, by {by} ± {half}"


def _row_of_mean(change: MeanChange) -> dict[str, Any]:
    return {
        "statistic": "mean",
        "before": change.before.mean,
        "before_std_error": change.before.std_error,
        "after": change.after.mean,
        "after_std_error": change.after.std_error,
        "change": change.change,
        "low": change.change - change.half_width,
        "high": change.change + change.half_width,
        "changed": change.clear,
    }


def _table(quartiles: list[dict[str, Any]], mean: dict[str, Any] | None) -> Any:
    """All rows with the same columns; ``before`` and ``after`` are labels, or the mean as a text."""
    import pyarrow as pa

    rows = quartiles
    if mean is not None:
        rows = [*rows, mean | {"before": str(mean["before"]), "after": str(mean["after"])}]
    names = dict.fromkeys(name for row in rows for name in row)
    texts = ("statistic", "before", "before_low", "before_high", "after", "after_low", "after_high")
    kinds = {**dict.fromkeys((*texts, "up_to", "other_up_to"), pa.string()), "changed": pa.bool_()}
    return pa.Table.from_pylist(rows, pa.schema([(name, kinds.get(name, pa.float64())) for name in names]))


def _sentence(change: QuartileChange, domain: Domain, speech: Wording) -> str:
    def named(places: tuple[int, int, int]) -> str:
        middle, low, high = map(domain.label, places)
        return f"{middle} ({low} .. {high})"

    ends = speech.ends.format(before=named(change.before), after=named(change.after))
    several = len(change.tested) > 1
    places = " and up to ".join(domain.label(one.place) for one in change.tested)
    return (
        f"{_NAMES[change.share]}: {ends}; {_verdict(change, speech)}: the {'shares' if several else 'share'} "
        f"up to {places} {speech.shares[several]} by {' and '.join(map(_by, change.tested))}"
    )


def _verdict(change: QuartileChange, speech: Wording) -> str:
    clear = [one.change for one in change.tested if one.clear]
    if not clear:
        return speech.unclear
    more, less, nearer, farther = speech.values
    if max(clear) < 0:
        return more
    if min(clear) > 0:
        return less
    # Below an atom one way and above it the other.
    return nearer if clear[0] < 0 else farther


def _by(one: ShareChange) -> str:
    """How much a share changed, in points, with its limits."""
    change, low, high = map(_signed_points, (one.change, one.low, one.high))
    return f"{change} points ({low} .. {high})"


def _signed_points(change: float) -> str:
    return f"{'−' if change < 0 else '+'}{points(abs(change))}"


def _row(change: QuartileChange, domain: Domain) -> dict[str, Any]:
    """A quartile for programs: the share that changed most clearly, and the other one beside an atom."""
    names = ("", "_low", "_high")
    ends = {"before": change.before, "after": change.after}
    clearest = change.clearest
    others = [one for one in change.tested if one is not clearest]
    return {
        "statistic": "quantile",
        "share": change.share,
        **{
            f"{side}{n}": domain.label(x) for side, of in ends.items() for n, x in zip(names, of, strict=True)
        },
        **_share(clearest, domain, ""),
        **_share(others[0] if others else None, domain, "other_"),
        "changed": change.clear,
    }


def _share(one: ShareChange | None, domain: Domain, prefix: str) -> dict[str, Any]:
    return {
        f"{prefix}up_to": one and domain.label(one.place),
        f"{prefix}change": one and one.change,
        f"{prefix}low": one and one.low,
        f"{prefix}high": one and one.high,
    }
