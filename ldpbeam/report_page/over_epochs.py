"""The section over epochs: a few values followed from epoch to epoch, as small charts and a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ldpbeam.report_page import charts, svg
from ldpbeam.report_page.charts import PROVISIONAL, WITHHELD
from ldpbeam.report_page.data import CollectionData, EpochSummary
from ldpbeam.report_page.estimates import Snapshot
from ldpbeam.report_page.parts import Detail, Key, Multiple, Table, shortened
from ldpbeam.report_page.text import DASH, LABEL_LIMIT, count, points, share
from ldpbeam.text import clean

LABELS = 8
"""So many labels of a dimension have a chart."""

_NAMED = 12
"""So many of the others a sentence names."""


@dataclass(frozen=True)
class OverEpochs:
    """The charts with their legend and sentence, and the table."""

    multiples: Sequence[Multiple]
    keys: Sequence[Key]
    sentence: str
    table: Table | None


def over_epochs(data: CollectionData, withheld: Mapping[int, str], detail: Detail, name: str) -> OverEpochs:
    """Draw and word the values that stand out."""
    shown = data.epochs[-detail.drawn :]
    first = shown[0].epoch if shown else 0
    withheld = {epoch: why for epoch, why in withheld.items() if epoch >= first}
    return _Drawing(data, shown, withheld, detail, name).drawn()


@dataclass(frozen=True)
class BySlice:
    """The labels of one dimension, a chart each, and a sentence on those that have none."""

    dimension: str
    multiples: Sequence[Multiple]
    sentence: str


def by_slice(data: CollectionData, detail: Detail, name: str) -> list[BySlice]:
    """The first of the values that stand out, in each label of each dimension."""
    shown = [epoch for epoch in data.epochs if epoch.epoch in data.sliced][-detail.epochs // 2 :]
    if not data.ranked or not shown:
        return []
    read = [data.read_slices(epoch.epoch, data.ranked[:1], single=True) for epoch in shown]
    labels = dict.fromkeys(pair for one in read for (pair,) in one)
    drawing, found = _Drawing(data, shown, {}, detail, name), []
    for place, dimension in enumerate(dict.fromkeys(one for one, _ in labels)):
        series = {
            label: drawing._series(data.ranked[0], [one[pair,] for one in read if (pair,) in one])
            for pair in labels
            for label in pair[1:]
            if pair[0] == dimension
        }
        found.append(drawing.dimension(dimension, series, f"{name}-s{place}"))
    return found


@dataclass(frozen=True)
class _Drawing:
    """Draws one collection or attribute: the epochs shown, and those of them that are withheld."""

    data: CollectionData
    shown: Sequence[EpochSummary]
    withheld: Mapping[int, str]
    detail: Detail
    name: str

    def drawn(self) -> OverEpochs:
        data, keys = self.data, self._keys()
        usable = any(epoch.usable for epoch in data.epochs)
        if not data.ranked or not usable:
            nothing = "No epoch has estimates yet, so there is nothing to draw over time."
            return OverEpochs([], keys, nothing, None)
        snapshots = [data.read(epoch.epoch, data.ranked) for epoch in self.shown]
        labels = {
            value: self._label(value, label)
            for item in snapshots
            for value, label in zip(item.values.tolist(), item.labels, strict=True)
        }
        series = {value: self._marked(self._series(value, snapshots)) for value in data.ranked}
        domains, common = _domains(list(series.values()), data.uniform)
        noun, pattern = ("mean", "~g") if data.mean else ("frequency", "~%")
        if data.distribution:
            noun = "share of the devices"
        multiples = []
        for index, (value, rows) in enumerate(series.items()):
            reason = self._reason(value)
            chart = charts.multiple(
                rows, domains[index], data.uniform, pattern, data.dates, self.detail.marks
            )
            summary = f"{noun.capitalize()} of {labels[value]} over epochs, {reason}"
            multiples.append(
                Multiple(labels[value], reason, svg.render(chart, summary, f"{self.name}-m{index}"))
            )
        return OverEpochs(multiples, keys, self._sentence(len(series), common), self._table(series, labels))

    def dimension(self, dimension: str, series: Mapping[str, list[charts.Row]], name: str) -> BySlice:
        """Draw the labels that have estimates, on one scale where that is possible; name the others."""
        known = [label for label, rows in series.items() if any(row["text"] for row in rows)]
        drawn, multiples, uniform = known[:LABELS], [], self.data.uniform
        domains = _domains([series[label] for label in drawn], uniform)[0] if drawn else []
        pattern, marks = "~g" if self.data.mean else "~%", self.detail.marks // 4
        for place, (label, domain) in enumerate(zip(drawn, domains, strict=True)):
            chart = charts.multiple(series[label], domain, uniform, pattern, self.data.dates, marks)
            shown = clean(label, LABEL_LIMIT)
            drawing = svg.render(chart, f"{dimension}={shown} over epochs", f"{name}-{place}")
            multiples.append(Multiple(shown, "", drawing))
        others = (
            ("Not drawn", known[LABELS:]),
            ("Too few reports", [one for one in series if one not in known]),
        )
        sentences = (f"{why}: {_listed(labels)}." for why, labels in others if labels)
        return BySlice(dimension, multiples, " ".join(sentences))

    def _label(self, value: int, label: str) -> str:
        if self.data.distribution:
            return f"up to {label}"
        return f"value {label}" if label == str(value) else label

    def _keys(self) -> list[Key]:
        data = self.data
        keys = [Key("line", charts.RAW, "estimate"), Key("band", charts.RAW, "95 % interval")]
        if data.truth is not None:
            keys.append(Key("line", charts.TRUTH, "truth"))
        if data.uniform is not None:
            keys.append(Key("dash", charts.UNIFORM, f"1/k = {share(data.uniform)}"))
        if any(epoch.provisional for epoch in self.shown):
            keys.append(Key("ring", charts.RAW, "provisional: the epoch was not over"))
        if self.withheld:
            keys.append(Key("cross", charts.UNIFORM, "withheld"))
        return keys

    def _sentence(self, values: int, common: bool) -> str:
        true = self.data.truth is not None
        if self.data.mean:
            against = " against the true mean" if true else ""
            return f"The estimated mean{against} in each epoch.{self._cut()}"
        if self.data.distribution:
            against = ", against the true share" if true else ""
            last = max(epoch.epoch for epoch in self.data.epochs if epoch.usable)
            return (
                f"The share of the devices up to each quartile of epoch {last}, in every epoch{against}. "
                f"A share that falls means that values rose.{self._cut()}"
            )
        which = "The value" if values == 1 else f"The {values} values"
        changed_too = ", or whose frequency changed most clearly between the first and second half"
        if len(self.data.epochs) < 2:
            changed_too = ""
        scale = " All panels share one scale." if common else " Each panel has its own scale."
        return (
            f"{which} that the reports tell most clearly from 1/k"
            f"{changed_too}: chosen by significance, not by "
            f"size{', each against its true frequency' if true else ''}."
            + (scale if values > 1 else "")
            + self._cut()
        )

    def _cut(self) -> str:
        """What the charts over epochs leave out."""
        drawn, total = len(self.shown), len(self.data.epochs)
        return "" if drawn == total else f" Drawn are the last {count(drawn)} of {count(total)} epochs."

    def _series(self, value: int, snapshots: Sequence[Snapshot]) -> list[charts.Row]:
        rows: list[charts.Row] = []
        before: int | None = None
        for item in snapshots:
            places = (item.values == value).nonzero()[0].tolist()
            if before is not None and item.epoch > before + 1:
                rows.append(_gap(before + 1))
            before = item.epoch
            if not places or not math.isfinite(item.estimate[places[0]]):
                rows.append(_gap(item.epoch))
                continue
            row: charts.Row = {"epoch": item.epoch, **item.numbers(places[0])}
            error = float(item.std_error[places[0]])
            text = f"{self.data.dates.named(item.epoch)}{', provisional' if item.provisional else ''}: "
            text += self.data.written(row["estimate"], error)
            if math.isfinite(row["low"]):
                text += (
                    f" ({self.data.written(row['low'], error)} to {self.data.written(row['high'], error)})"
                )
            if math.isfinite(row["truth"]):
                text += f", truth {self.data.written(row['truth'], error)}"
            mark = PROVISIONAL if item.provisional else ""
            rows.append({**row, "error": error, "text": text, "mark": mark})
        return rows

    def _marked(self, rows: list[charts.Row]) -> list[charts.Row]:
        """The rows with a mark at each epoch whose estimates are withheld."""
        shown = [row for row in rows if row["epoch"] not in self.withheld]
        gaps = [
            {**_gap(epoch), "mark": WITHHELD, "note": f"{self.data.dates.named(epoch)}: withheld, {why}"}
            for epoch, why in self.withheld.items()
        ]
        return sorted([*shown, *gaps], key=lambda row: int(row["epoch"]))

    def _reason(self, value: int) -> str:
        if self.data.uniform is None:
            return ""
        distance, _, change = self.data.standing[value]
        side = "above" if distance > 0 else "below"
        where = f"{abs(distance):.1f} standard errors {side} 1/k"
        if value in self.data.changed and sum(epoch.usable for epoch in self.data.epochs) > 3:
            verb = "rose" if change > 0 else "fell"
            where += f"; {verb} by {points(abs(change))}"
        return where

    def _table(self, series: dict[int, list[charts.Row]], labels: dict[int, str]) -> Table:
        listed = {epoch.epoch: epoch.provisional for epoch in self.shown}
        listed |= dict.fromkeys(self.withheld, False)
        epochs = sorted(listed)[-self.detail.epochs :]
        dates = self.data.dates
        dated = dates.start is not None
        cells = {value: {row["epoch"]: self._cell(row) for row in rows} for value, rows in series.items()}
        truth = ", then the truth" if self.data.truth is not None else ""
        return Table(
            title=f"Table: estimate ± half its 95 % interval{truth}",
            head=["epoch", *(["starts, UTC"] if dated else []), *(labels[value] for value in series)],
            rows=[
                [
                    f"{epoch} (provisional)" if listed[epoch] else str(epoch),
                    *([dates.text(epoch)] if dated else []),
                    *(cells[value].get(epoch, DASH) for value in series),
                ]
                for epoch in epochs
            ],
            names=1 + dated,
            note=shortened(len(self.data.epochs), len(epochs), "epoch", "last"),
        )

    def _cell(self, row: charts.Row) -> str:
        if not row["text"]:
            return "withheld" if row["mark"] == WITHHELD else DASH
        error = row["error"]
        cell = self.data.written(row["estimate"], error)
        if math.isfinite(row["low"]):
            cell += f" ± {self.data.written((row['high'] - row['low']) / 2, error)}"
        if math.isfinite(row["truth"]):
            cell += f" ({self.data.written(row['truth'], error)})"
        return cell


def _listed(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - _NAMED:,} more" if len(labels) > _NAMED else ""
    return ", ".join(clean(label, LABEL_LIMIT) for label in labels[:_NAMED]) + more


def _gap(epoch: int) -> charts.Row:
    nothing = dict.fromkeys(("estimate", "low", "high", "truth", "error"), math.nan)
    return {"epoch": epoch, "text": "", "mark": "", **nothing}


def _domains(
    series: Sequence[Sequence[charts.Row]], uniform: float | None
) -> tuple[list[tuple[float, float]], bool]:
    """The vertical range of each panel, and whether all have the same one."""
    domains = [_domain(rows, uniform) for rows in series]
    widths = [high - low for low, high in domains]
    common = max(widths) < 4 * min(widths)
    if common:
        domains = [(min(low for low, _ in domains), max(high for _, high in domains))] * len(domains)
    return domains, common


def _domain(rows: Sequence[charts.Row], uniform: float | None) -> tuple[float, float]:
    """A vertical range that one wild interval cannot flatten."""
    good = [row for row in rows if row["text"]]
    core = [row["estimate"] for row in good]
    core += [row["truth"] for row in good if math.isfinite(row["truth"])]
    if uniform is not None:
        core.append(uniform)
    lows = sorted(row["low"] for row in good if math.isfinite(row["low"]))
    highs = sorted(row["high"] for row in good if math.isfinite(row["high"]))
    if lows and highs:
        core += [lows[len(lows) // 50], highs[-1 - len(highs) // 50]]
    low, high = min(core), max(core)
    room = 0.04 * (high - low) or 0.01
    return low - room, high + room
