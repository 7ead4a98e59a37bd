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
    from ldpbeam.sums.quartiles import QuartileChange, ShareChange

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
    from ldpbeam.sums.quartiles import QUARTILES, compare_quartiles

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
    history, domain = first.read.history, first.read.domain
    changes = compare_quartiles(before, after, domain.atoms, len(QUARTILES))
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

    ends = f"{_NAMES[change.share]}: from {named(change.before)} to {named(change.after)}"
    several = "shares" if len(change.tested) > 1 else "share"
    return (
        f"{ends}; {_verdict(change)}: the {several} up to "
        f"{' and up to '.join(domain.label(one.place) for one in change.tested)} changed by "
        f"{' and '.join(map(_by, change.tested))}"
    )


def _verdict(change: QuartileChange) -> str:
    """What the shares that surely changed say of the values."""
    clear = [one.change for one in change.tested if one.clear]
    if not clear:
        return "no change is clear"
    if max(clear) < 0:
        return "values rose"
    if min(clear) > 0:
        return "values fell"
    # Below an atom one way and above it the other.
    return "values moved towards the atom" if clear[0] < 0 else "values moved away from the atom"


def _by(one: ShareChange) -> str:
    """How much a share changed, with its limits."""
    return f"{one.change:+.4f} ({one.low:+.4f} .. {one.high:+.4f})"


def _row(change: QuartileChange, domain: Domain) -> dict[str, Any]:
    """A quartile for programs: the share that changed most clearly, and the other one beside an atom."""
    names = ("", "_low", "_high")
    ends = {"before": change.before, "after": change.after}
    clearest = change.clearest
    others = [one for one in change.tested if one is not clearest]
    return {
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


def _usage(what: str, remedy: str, where: Path) -> UsageError:
    return UsageError("E-USAGE-COMPARE", what, where=str(where), remedy=remedy)
