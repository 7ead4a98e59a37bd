"""``compare`` for collections whose result is a distribution: the quartiles of two epochs, or of several."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldpbeam.cli.shared.console import deliver, say
from ldpbeam.errors import UsageError

if TYPE_CHECKING:
    from ldpbeam.cli.shared.histories import Side
    from ldpbeam.collection.domain import Domain
    from ldpbeam.sums.distribution import Curve
    from ldpbeam.sums.quartiles import QuartileChange

_NAMES = {0.25: "first quartile", 0.5: "median", 0.75: "third quartile"}


def compare_distributions(first: Side, second: Side | None, output: Path | None) -> None:
    """Say which quartiles changed from the epochs of one side to those of the other.

    Args:
        first, second: without the second the last two epochs of the first are compared. Of several epochs the
            mean of their curves is compared, see :meth:`ldpbeam.sums.distribution.Curve.mean`.
        output: a file for all rows, or None.

    Raises:
        UsageError: an epoch on both sides, none with a result, or other values on the other side.
    """
    from ldpbeam.cli.shared.histories import write_tables
    from ldpbeam.sums.distribution import Curve
    from ldpbeam.sums.quartiles import compare_quartiles

    if second is None:
        known = [one for one in _curves(first) if one[1].known]
        if len(known) < 2:
            raise _usage("there are not two epochs with results", "Give a second run as B.", first.place)
        sides = [[one] for one in known[-2:]]
    else:
        sides = [_known(first), _known(second)]
        same = (first.place, first.read.history.key.digest) == (second.place, second.read.history.key.digest)
        if same and {e for e, _ in sides[0]} & {e for e, _ in sides[1]}:
            raise _usage(
                "an epoch cannot be compared with itself",
                "Name epochs for each side, none of them for both: --epochs A..B --against C..D.",
                first.place,
            )
    before, after = (Curve.mean([curve for _, curve in side]) for side in sides)
    if second is not None and first.read.history.labels != second.read.history.labels:
        raise _usage(
            "the two have different values, so their quartiles cannot be compared",
            "Compare collections with the same domain.",
            second.place,
        )
    changes = compare_quartiles(before, after)
    history, domain = first.read.history, first.read.domain
    words = " against ".join(_named([epoch for epoch, _ in side]) for side in sides)
    say(f"{history.key.collection}: {words}")
    for change in changes:
        say(f"  {_sentence(change, domain)}")
    say("All three verdicts together have a false-alarm rate of 5 %.")
    rows = [_row(change, domain) for change in changes]
    if output is not None:
        import pyarrow as pa

        write_tables([pa.Table.from_pylist(rows)], output)
        say(f"all quartiles in {output}")
    deliver(
        {
            "collection": history.key.collection,
            "attribute": history.key.attribute,
            "compared": words,
            "quartiles": rows,
        }
    )


def _curves(source: Side) -> list[tuple[int, Curve]]:
    import pyarrow as pa

    from ldpbeam.sums.distribution import Curve

    key, span, folder = source.read.history.key, source.span, source.folder
    parts = [p for p in folder.parts if p.key == key and (span is None or span[0] <= p.epoch <= span[1])]
    return [(part.epoch, Curve.of(pa.concat_tables(folder.tables([part])))) for part in parts]


def _known(source: Side) -> list[tuple[int, Curve]]:
    """The epochs of a side that have a result, at least one."""
    known = [one for one in _curves(source) if one[1].known]
    if not known:
        raise _usage("there is no epoch with a result", "ldpbeam inspect names the epochs.", source.place)
    return known


def _named(epochs: list[int]) -> str:
    return f"epoch {epochs[0]}" if len(epochs) == 1 else f"epochs {epochs[0]}..{epochs[-1]}"


def _sentence(change: QuartileChange, domain: Domain) -> str:
    """A quartile for people."""

    def named(places: tuple[int, int, int]) -> str:
        middle, low, high = map(domain.label, places)
        return f"{middle} ({low} .. {high})"

    verdict = "no change is clear"
    if change.clear:
        verdict = "values rose" if change.change < 0 else "values fell"
    return (
        f"{_NAMES[change.share]}: from {named(change.before)} to {named(change.after)}; {verdict}: the share "
        f"up to {domain.label(change.before[0])} changed by {change.change:+.4f} "
        f"({change.low:+.4f} .. {change.high:+.4f})"
    )


def _row(change: QuartileChange, domain: Domain) -> dict[str, Any]:
    names = ("", "_low", "_high")
    ends = {"before": change.before, "after": change.after}
    return {
        "share": change.share,
        **{
            f"{side}{n}": domain.label(x) for side, of in ends.items() for n, x in zip(names, of, strict=True)
        },
        "change": change.change,
        "low": change.low,
        "high": change.high,
        "changed": change.clear,
    }


def _usage(what: str, remedy: str, where: Path) -> UsageError:
    return UsageError("E-USAGE-COMPARE", what, where=str(where), remedy=remedy)
