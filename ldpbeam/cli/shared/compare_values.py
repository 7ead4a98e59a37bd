"""What ``compare`` says of values, or groups: of two times or runs, or of two slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ldpbeam.cli.shared.console import say
from ldpbeam.cli.shared.options import named_span
from ldpbeam.collection.slices import COLUMN, slice_text
from ldpbeam.errors import option_error

if TYPE_CHECKING:
    from ldpbeam.cli.shared.histories import Side
    from ldpbeam.over_time.compare import Comparison
    from ldpbeam.over_time.results import History
    from ldpbeam.over_time.weighted_sums import Weight

    Cases = Mapping[str, tuple[Side, Side | None]]  # by the label of --by-slice; "" without it


class Wording(NamedTuple):
    """How a comparison speaks; of two texts the first is for more, and the second for less."""

    changed: str
    by: tuple[str, str]
    alone: tuple[str, str]
    mean: tuple[str, str]
    unclear: str
    ends: str
    values: tuple[str, str, str, str]  # of a quartile: more, less, towards an atom, and away from it
    shares: tuple[str, str]  # of one share up to a quartile, and of two


OVER_TIME = Wording(
    changed="changed",
    by=("rose", "fell"),
    alone=("changed", "changed"),
    mean=("rose", "fell"),
    unclear="no change is clear",
    ends="from {before} to {after}",
    values=("values rose", "values fell", "values moved towards the atom", "values moved away from the atom"),
    shares=("changed", "changed"),
)
BETWEEN_SLICES = Wording(
    changed="differ",
    by=("is higher", "is lower"),
    alone=("higher", "lower"),
    mean=("higher,", "lower,"),
    unclear="no difference is clear",
    ends="{after} against {before}",
    values=("values are higher", "values are lower", "values are nearer the atom", "values are off the atom"),
    shares=("differs", "differ"),
)


def wording(cases: Cases) -> Wording:
    first, second = next(iter(cases.values()))
    return OVER_TIME if second is None or second.folder.slice_ == first.folder.slice_ else BETWEEN_SLICES


def words_of_slices(cases: Cases, by_slice: str | None, weight: Weight) -> str:
    from ldpbeam.over_time.weighted_sums import weight_in_words

    first, second = next(iter(cases.values()))
    assert second is not None  # noqa: S101 - slices come in pairs
    one, other = (
        slice_text(tuple((name, label) for name, label in side.folder.slice_.items() if name != by_slice))
        for side in (second, first)
    )
    epochs = [side.read.history.series.epochs.tolist() for side, _ in cases.values()]
    by = "" if by_slice is None else f" by {by_slice}"
    span = named_span((min(map(min, epochs)), max(map(max, epochs))))
    return f"{one} against {other}{by}, epochs {span}{weight_in_words(weight, *map(len, epochs))}"


@dataclass(frozen=True, eq=False)
class Compared:
    """Values, or groups, of two sides; those of one label of a dimension behind those of another."""

    history: History  # of a side, with the names of the values
    kind: str  # ``values`` or ``groups``
    comparison: Comparison  # of all labels together
    dimension: str | None  # whose labels they are
    labels: tuple[str, ...]
    wording: Wording

    def say_all(self, rate: float, limit: int) -> dict[str, Any]:
        """Say which of all values changed, the clearest first; gives the same for programs."""
        moved, size = self.comparison.moved(rate).tolist(), self.comparison.change.size
        say(
            f"{len(moved):,} of {size:,} {self.kind} {self.wording.changed} (false-discovery rate {rate:.4g})"
        )
        for place in moved[:limit]:
            say(f"  {self._mover(place)}")
        return {"false_discoveries": rate, "changed": [self._named(place) for place in moved]}

    def say_chosen(self, typed: Sequence[str], where: Path) -> dict[str, Any]:
        """Say of each value that was asked for whether it changed; gives the same for programs."""
        from ldpbeam.cli.shared.histories import finite
        from ldpbeam.over_time.compare import chosen_changes

        places = dict.fromkeys(place for one in typed for place in self._places(one, where))
        changes = chosen_changes(self.comparison, list(places))
        for one in changes:
            verdict = self.wording.alone[one.change < 0] if one.clear else self.wording.unclear
            say(
                f"  {self._shown(one.place)}: {verdict}: {one.change:+.4g} ({one.low:+.4g} .. "
                f"{one.high:+.4g}), {self._ends(one.place)}, p = {one.p_value:.3g}"
            )
        what = self.kind.removesuffix("s")
        if len(changes) == 1:
            rate = "The interval and the verdict have a false-alarm rate of 5 %"
        else:
            rate = f"All {len(changes)} intervals and verdicts together have a false-alarm rate of 5 %"
        say(f"p is of that {what} alone, not adjusted for any other. {rate},")
        say(f"where the {what} was chosen before the results were seen.")
        return {
            "chosen": [
                {
                    **self._label(one.place),
                    what: self._named(one.place, alone=True),
                    "change": finite(one.change),
                    "low": finite(one.low),
                    "high": finite(one.high),
                    "p_value": one.p_value,
                    "changed": one.clear,
                }
                for one in changes
            ]
        }

    def _places(self, typed: str, where: Path) -> list[int]:
        """The places of a value by its label, else by its number; of a group by its name."""
        labels, k = self.history.labels, len(self.history.values)
        numbers = [] if self.kind == "groups" else [str(value) for value in self.history.values]
        for names in (labels, numbers):
            if typed in names:
                return list(range(names.index(typed), self.comparison.change.size, k))
        near = get_close_matches(typed, labels, 1)
        hint = f"Did you mean {near[0]}?" if near else f"The first are: {', '.join(labels[:5])}."
        what = f"there is no {self.kind.removesuffix('s')} {typed!r} to compare"
        raise option_error(what, hint, where)

    def _shown(self, place: int) -> str:
        """A value for people: its label, or its number as a number; before it, that of the dimension."""
        at = place % len(self.history.values)
        value, label = str(self.history.values[at]), self.history.labels[at]
        within = "".join(f"{self.dimension}={one}: " for one in self._label(place).values())
        return within + (label if label != value else f"value {value}")

    def _label(self, place: int) -> dict[str, str]:
        """The label of the dimension that a place is of, by the name of its column."""
        if self.dimension is None:
            return {}
        return {COLUMN + self.dimension: self.labels[place // len(self.history.values)]}

    def _named(self, place: int, *, alone: bool = False) -> Any:
        """A value for programs; with the label of the dimension, where there is one."""
        at = place % len(self.history.values)
        name = self.history.labels[at] if self.kind == "groups" else int(self.history.values[at])
        return name if alone or self.dimension is None else {**self._label(place), self.kind[:-1]: name}

    def _ends(self, place: int) -> str:
        before, after = (float(x.estimate[place]) for x in (self.comparison.before, self.comparison.after))
        return self.wording.ends.format(before=f"{before:.4g}", after=f"{after:.4g}")

    def _mover(self, place: int) -> str:
        from ldpbeam.estimates import CONFIDENCE
        from ldpbeam.over_time.significance import normal_limit

        change = float(self.comparison.change[place])
        half = normal_limit(CONFIDENCE) * float(self.comparison.std_error[place])
        moved = self.wording.by[change < 0]
        return f"{self._shown(place)} {moved} by {abs(change):.4g} ± {half:.2g} (95 %), {self._ends(place)}"

    def table(self) -> Any:
        import pyarrow as pa

        from ldpbeam.tables import numbers

        history, comparison, times = self.history, self.comparison, max(len(self.labels), 1)
        k = len(history.values)
        front: dict[str, Any] = {}
        if self.dimension is not None:
            front = {COLUMN + self.dimension: [label for label in self.labels for _ in range(k)]}
        named: dict[str, Any] = {"group": list(history.labels) * times}
        if self.kind == "values":
            named = {"value": pa.array(history.values.tolist() * times, pa.int64())}
            named["label"] = list(history.labels) * times
        return pa.table(
            {
                **front,
                "collection": [history.key.collection] * k * times,
                "attribute": [history.key.attribute] * k * times,
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
