"""The histogram of the last epoch that could be estimated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ldpbeam.consistency import NOT_ADDED_UP, UNBIASED
from ldpbeam.report_page import charts
from ldpbeam.report_page.data import CollectionData
from ldpbeam.report_page.distribution import distribution
from ldpbeam.report_page.estimates import Floats, Snapshot
from ldpbeam.report_page.parts import Detail, Figure, Key, Table, shortened
from ldpbeam.report_page.significance import discoveries
from ldpbeam.report_page.text import count, share
from ldpbeam.text import plural

_EACH = 60
"""Up to this many values every one gets a bar and a whisker."""

_NUMERIC = frozenset("0123456789-−+.,<>≤≥[(")

_TOP = 20
"""Beyond that, this many of the largest do."""


def histogram(data: CollectionData, detail: Detail, name: str) -> tuple[list[Figure], str]:
    snapshot = data.last
    if snapshot is None:
        nothing = "No epoch has found a string." if data.walks else "This run wrote no estimates for it."
        return [], nothing
    if not snapshot.usable:
        reports = plural(snapshot.n, "report")
        return [], f"Epoch {snapshot.epoch} has {reports}: too few to estimate anything ({snapshot.status})."
    latest = data.epochs[-1]
    note = (
        "Provisional: the epoch was not over, so these numbers will change." if snapshot.provisional else ""
    )
    if latest.epoch != snapshot.epoch:
        note = (
            f"Epoch {latest.epoch} has only {plural(latest.n, 'report')}, so its estimates are "
            f"withheld; this is epoch {snapshot.epoch}."
        )
    if data.distribution:
        return distribution(data, snapshot, detail, name), note
    return _Drawing(data, snapshot, detail, name).figures(), note


@dataclass(frozen=True)
class _Drawing:
    """Draws the histogram of one epoch: bars, intervals, and the truth where a simulation has it."""

    data: CollectionData
    snapshot: Snapshot
    detail: Detail
    name: str

    @property
    def pattern(self) -> str:
        return "~g" if self.data.mean else "~%"

    @property
    def rows(self) -> int:
        return len(self.snapshot.values)

    @property
    def numbered(self) -> bool:
        """Whether the values have no labels but their numbers."""
        labelled = zip(self.snapshot.labels, self.snapshot.values.tolist(), strict=True)
        return all(label in (str(value), f"value {value}") for label, value in labelled)

    def figures(self) -> list[Figure]:
        """One figure where every value fits, otherwise the whole domain and the largest values."""
        if self.data.discovered:
            return [self._each(self._largest[:_EACH], self._title(""), "each", True)]
        if self.rows <= _EACH:
            places = np.arange(self.rows) if self.ordered else self._largest
            return [self._each(places, self._title(""), "each", True)]
        title = self._title(f": the {_TOP} largest estimates")
        return [self._each(self._largest[:_TOP], title, "top", False), self._profile()]

    @property
    def _largest(self) -> np.ndarray:
        """The places of all values, the largest estimate first."""
        return np.argsort(-np.nan_to_num(self.snapshot.estimate, nan=-np.inf), kind="stable")

    def _title(self, more: str) -> str:
        return self.data.dates.title(self.snapshot.epoch) + more

    @property
    def ordered(self) -> bool:
        """Whether the values are numbers or ranges of numbers, whose order says more than their size."""
        return all(label.removeprefix("value ")[:1] in _NUMERIC for label in self.snapshot.labels)

    def _keys(self, shape: str, *, consistent: bool = True) -> list[Key]:
        keys = [Key("dot", charts.RAW, "raw, unbiased"), Key(shape, charts.RAW, "95 % interval")]
        if consistent and np.isfinite(self.snapshot.consistent).any():
            method = "clipped to its range" if self.data.mean else self.snapshot.method
            text = f"consistent ({method or 'post-processed'})"
            keys.append(Key("fill", charts.CONSISTENT, text))
        if self.snapshot.simulated:
            mark = "line" if shape == "band" else "tick"
            keys.append(Key(mark, charts.TRUTH, "truth"))
        return keys

    def _each(self, places: np.ndarray, title: str, kind: str, whole: bool) -> Figure:
        snapshot = self.snapshot
        upright = whole and self.numbered and self.rows > 24
        rows = [self._row(place) for place in places.tolist()]
        names = [snapshot.labels[place] for place in places.tolist()]
        for row, label, place in zip(rows, names, places.tolist(), strict=True):
            value = int(snapshot.values[place])
            short = str(value) if upright else label
            row["name"] = short if names.count(label) == 1 or upright else f"{label} · {value}"
        sentence = self._sentence()
        if not whole:
            sentence += " The largest of many noisy numbers are, on average, too large."

        return Figure.of(
            (charts.columns if upright else charts.bars)(rows, self.pattern),
            f"{self.name}-{kind}",
            title,
            sentence,
            summary=f"{title}: {sentence}",
            keys=self._keys("line"),
            table=self._table() if whole else None,
        )

    def _row(self, place: int) -> charts.Row:
        return {**self.snapshot.numbers(place), "text": self._text(place)}

    def _text(self, place: int) -> str:
        snapshot = self.snapshot
        error = float(snapshot.std_error[place])
        text = f"{snapshot.labels[place]}: raw {self.data.written(float(snapshot.estimate[place]), error)}"
        if math.isfinite(error):
            low, high = float(snapshot.low[place]), float(snapshot.high[place])
            text += f", 95 % interval {self.data.written(low, error)} to {self.data.written(high, error)}"
        if math.isfinite(snapshot.consistent[place]):
            text += f", consistent {self.data.written(float(snapshot.consistent[place]), error)}"
        if math.isfinite(snapshot.truth[place]):
            text += f", truth {self.data.written(float(snapshot.truth[place]), error)}"
        return text

    def _sentence(self) -> str:
        snapshot, uniform = self.snapshot, self.data.uniform
        words = f"{plural(snapshot.n, 'report')} in epoch {snapshot.epoch}"
        if self.data.mean:
            return f"{words} about values in {self.data.reach}."
        if uniform is None:
            return words + "."
        number = discoveries(snapshot, uniform)
        return (
            f"{words}: {count(number)} of {plural(self.rows, 'value')} "
            f"{'differs' if number == 1 else 'differ'} from 1/k = {share(uniform)} by more than the "
            "noise explains (false-discovery rate 5 %: about one in twenty of them by chance)."
        )

    def _profile(self) -> Figure:
        """All values in the order of the domain, neighbours averaged where there are too many."""
        snapshot = self.snapshot
        width = math.ceil(self.rows / self.detail.bins)
        edges = np.arange(0, self.rows, width)
        sizes = np.diff(np.append(edges, self.rows))

        def mean(values: Floats) -> Floats:
            return np.asarray(np.add.reduceat(values, edges) / sizes, dtype=np.float64)

        estimate, truth = mean(snapshot.estimate), mean(snapshot.truth)
        # The mean of neighbours would have all of their bias, and nothing of what a consistent number is for.
        consistent = snapshot.consistent if width == 1 else np.full(edges.size, np.nan)
        error = np.sqrt(mean(snapshot.std_error**2) / sizes)
        rows: list[charts.Row] = []
        for index, start in enumerate(edges.tolist()):
            end = start + int(sizes[index]) - 1
            scale = float(error[index])
            text = self._text(start)
            if width > 1:
                middle, half = (
                    self.data.written(one, scale) for one in (float(estimate[index]), 1.96 * scale)
                )
                text = f"{snapshot.labels[start]} … {snapshot.labels[end]}, mean: raw {middle} ± {half}"
            rows.append(
                {
                    "place": (int(snapshot.values[start]) + int(snapshot.values[end])) / 2,
                    "estimate": float(estimate[index]),
                    "low": float(estimate[index] - 1.96 * scale),
                    "high": float(estimate[index] + 1.96 * scale),
                    "consistent": float(consistent[index]),
                    "truth": float(truth[index]),
                    "text": text,
                }
            )
        sentence = "The same epoch, with the values in the order of the domain."
        if width > 1:
            sentence += (
                f" Each point is the mean of {width} neighbouring values; its interval takes their "
                "errors as independent."
            )
        return Figure.of(
            charts.profile(rows, self.pattern, self.data.uniform),
            f"{self.name}-all",
            self._title(f": all {plural(self.rows, 'value')}"),
            sentence,
            keys=self._keys("band", consistent=width == 1),
            table=self._table(),
        )

    def _table(self) -> Table:
        snapshot, limit = self.snapshot, self.detail.rows
        order: Sequence[int] = self._largest.tolist()
        if self.rows > limit:
            order = order[: min(limit, 300)]
        truth = ["truth"] if self.snapshot.simulated else []
        return Table(
            title=f"Table: epoch {snapshot.epoch} by value, the largest first",
            head=[
                *("value", "label", "sum" if self.data.mean else "support", "raw", "±"),
                *("95 % low", "95 % high", "consistent", *truth),
            ],
            rows=[self._line(place) for place in order],
            names=2,
            note=" ".join(
                filter(None, (shortened(self.rows, len(order), "value", "largest"), self._not_added_up))
            ),
        )

    @property
    def _not_added_up(self) -> str:
        """For who would add up numbers of the table that have a bias."""
        biased = np.isfinite(self.snapshot.consistent).any() and self.snapshot.method not in UNBIASED
        return NOT_ADDED_UP if biased and not self.data.mean else ""

    def _line(self, place: int) -> list[str]:
        snapshot = self.snapshot
        error = float(snapshot.std_error[place])
        columns = [snapshot.estimate, (snapshot.high - snapshot.low) / 2, snapshot.low, snapshot.high]
        columns += [snapshot.consistent, *([snapshot.truth] if self.snapshot.simulated else [])]
        return [
            str(int(snapshot.values[place])),
            snapshot.labels[place],
            count(int(snapshot.support[place])),
            *(self.data.written(float(column[place]), error) for column in columns),
        ]
