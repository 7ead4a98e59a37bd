"""The sentences, tables and figures of one collection, ready for the template."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipelines.page import charts, ledger, svg
from pipelines.page.account import Account, add
from pipelines.page.accuracy import answer, average, error_figure
from pipelines.page.data import CollectionData
from pipelines.page.histogram import histogram
from pipelines.page.parts import Detail, Figure, Key, Multiple, Table, shortened
from pipelines.page.privacy import Privacy, privacy
from pipelines.page.text import (
    DASH,
    count,
    duration,
    integer,
    number,
    plain,
    plural,
    share,
)

_WHOLE = "adds up to 1, nothing negative"
_CONSISTENT = {
    "none": "the raw estimates as they are",
    "base_pos": "nothing negative",
    "base_cut": "nothing negative, noise cut to 0",
    "norm": "adds up to 1",
    "norm_cut": "adds up to 1 at most, nothing negative",
    "power": "nothing negative",
    **dict.fromkeys(("norm_mul", "norm_sub", "mle", "mle_apx", "power_ns"), _WHOLE),
}
"""What each consistency method promises, in the words of the strip."""


@dataclass(frozen=True)
class Stage:
    """One word of the strip report → epoch → support → estimate → histogram."""

    word: str
    figure: str
    note: str


@dataclass(frozen=True)
class Section:
    """Everything the page says about one collection."""

    name: str
    protocol: str
    facts: str
    verdict: str
    stages: Sequence[Stage]
    epochs_note: str
    multiples: Sequence[Multiple]
    multiples_keys: Sequence[Key]
    multiples_sentence: str
    multiples_table: Table | None
    histograms: Sequence[Figure]
    histogram_note: str
    accounting: Sequence[Figure]
    accounting_table: Table | None
    identity: str
    balanced: bool
    error: Figure | None
    answer: str
    answer_numbers: str
    privacy: Privacy


class Writer:
    """Writes the section of one collection; `name` is a prefix unique on the page."""

    def __init__(
        self,
        data: CollectionData,
        accounts: Sequence[Account],
        detail: Detail,
        name: str,
        books: bool = True,
    ) -> None:
        """Bind the data; nothing is drawn yet. Without `books` the accounting stands elsewhere."""
        self.data = data
        self.books = books
        self.accounts = accounts
        self.detail = detail
        self.name = name
        self.form = plain if data.mean else share
        self.pattern = "~g" if data.mean else "~%"
        self.noun = "mean" if data.mean else "frequency"
        self.usable = [epoch for epoch in data.epochs if epoch.usable]
        self.shown = data.epochs[-detail.epochs :]
        self.total = add(accounts, "All epochs") if accounts else None

    def section(self) -> Section:
        """Draw and word everything."""
        data = self.data
        multiples, sentence, table = self._multiples()
        verdict, numbers = answer(data)
        keys = [Key("line", charts.RAW, "estimate"), Key("band", charts.RAW, "95 % interval")]
        if data.truth is not None:
            keys.append(Key("line", charts.TRUTH, "truth"))
        if data.uniform is not None:
            keys.append(Key("dash", charts.UNIFORM, f"1/k = {share(data.uniform)}"))
        figures, note = histogram(data, self.detail, self.name, self.form)
        return Section(
            name=data.title,
            protocol=str(data.config.get("protocol") or "unknown protocol"),
            facts=self._facts(),
            verdict=self._verdict(),
            stages=self._stages(),
            epochs_note=self._epochs_note(),
            multiples=multiples,
            multiples_keys=keys,
            multiples_sentence=sentence,
            multiples_table=table,
            histograms=figures,
            histogram_note=note,
            accounting=ledger.figures(self.accounts, self.detail, self.name) if self.books else [],
            accounting_table=ledger.table(self.accounts, self.total, self.detail) if self.books else None,
            identity=ledger.identity(self.total)
            if self.books
            else "As above: reports are counted per collection, not per attribute.",
            balanced=all(row.balanced for row in self.accounts),
            error=error_figure(data, self.detail, self.name),
            answer=verdict,
            answer_numbers=numbers,
            privacy=privacy(data.config, self.name),
        )

    # --- words -------------------------------------------------------------------------------

    def _facts(self) -> str:
        data, total = self.data, self.total
        parts = [f"version {data.config['version']}"] if data.config.get("version") else []
        if data.size and not data.mean:
            parts.append(plural(data.size, "value"))
        parts.append(plural(len(data.epochs), "epoch"))
        if total is not None:
            parts.append(f"{count(total.read)} reports read, {count(total.counted)} counted")
        else:
            parts.append(f"{count(sum(epoch.n for epoch in data.epochs))} reports counted")
        bits = number(data.config.get("payload_bits"))
        if bits is not None:
            parts.append(f"{plural(int(bits), 'bit')} of payload per report")
        return " · ".join(parts)

    def _verdict(self) -> str:
        """One sentence that somebody can act on."""
        counted, read = None, None
        if self.total is not None:
            counted, read = self.total.counted, self.total.read
        if counted is not None and read:
            # 100 % only where nothing is missing.
            part = f"{share(counted / read, 1 - counted / read)} of" if counted != read else "All"
            start = f"{part} {plural(read, 'report')} were counted"
        else:
            start = f"{plural(sum(epoch.n for epoch in self.data.epochs), 'report')} were counted"
        if not self.usable:
            least = integer(self.data.config.get("min_reports"))
            why = f": no epoch reached {plural(least, 'report')}" if least else ""
            return f"{start}, but nothing could be estimated{why}."
        typical = self._typical()
        bound = self._points(1.96 * typical).replace("points", "percentage points")
        within = f"estimates are typically within ±{bound} (95 %)"
        raw, uniform = average(self.data, "mse_raw"), average(self.data, "mse_uniform")
        if raw is None or uniform is None:
            return f"{start}, and {within}."
        if raw < uniform:
            return f"{start}, {within}, and they are closer to the truth than answering 1/k."
        return f"{start}, {within}, but simply answering 1/k would have been closer to the truth."

    def _points(self, error: float) -> str:
        if self.data.mean:
            return plain(error, error)
        return share(error, error).removesuffix(" %") + " points"

    def _typical(self) -> float:
        return math.sqrt(average(self.data, "variance") or 0.0)

    def _stages(self) -> list[Stage]:
        data, config = self.data, self.data.config
        epoch = config.get("epoch")
        length = number(epoch.get("length_seconds")) if isinstance(epoch, dict) else None
        raw = config.get("support")
        support: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
        own, other = number(support.get("own")), number(support.get("other"))
        read = self.total.read if self.total else sum(item.n for item in data.epochs)
        chances = "per epoch: how many reports support each value"
        if own is not None and other is not None:
            chances += f" ({own:.3g} of its holders' do, {other:.3g} of the others')"
        error = f"± {self._points(self._typical())}" if self.usable else "withheld"
        unit = "standard error" if data.mean else "standard error in percentage points"
        method = str(config.get("consistency") or (data.last.method if data.last else ""))
        return [
            Stage("report", count(read), "read; each device's value, randomised before sending"),
            Stage(
                "epoch",
                count(len(data.epochs)),
                f"of {duration(length)} each" if length else "periods of collection",
            ),
            Stage("support", f"{count(data.size)} counts" if data.size else DASH, chances),
            Stage("estimate", error, f"{unit} of an unbiased estimate, which may be negative"),
            Stage(
                "histogram",
                method or "raw",
                _CONSISTENT.get(method, "after post-processing") if method else "not post-processed",
            ),
        ]

    def _epochs_note(self) -> str:
        epoch = self.data.config.get("epoch")
        if not isinstance(epoch, dict) or not self.data.epochs:
            return ""
        first, last = self.data.epochs[0], self.data.epochs[-1]
        parts = [f"Epoch {first.epoch} starts {_when(first.start)}"] if first.start else []
        if last.start and last is not first:
            parts.append(f"epoch {last.epoch} starts {_when(last.start)}")
        return ", ".join(parts) + "." if parts else ""

    # --- over epochs -------------------------------------------------------------------------

    def _multiples(self) -> tuple[list[Multiple], str, Table | None]:
        data = self.data
        if not data.ranked or not self.usable:
            return [], "No epoch has estimates yet, so there is nothing to draw over time.", None
        snapshots = [data.read(epoch.epoch, data.ranked) for epoch in self.shown]
        labels = {
            value: f"value {label}" if label == str(value) else label
            for item in snapshots
            for value, label in zip(item.values.tolist(), item.labels, strict=True)
        }
        series = {value: self._series(value, snapshots) for value in data.ranked}
        domains = [_domain(rows, data.uniform) for rows in series.values()]
        widths = [high - low for low, high in domains]
        common = max(widths) < 4 * min(widths)
        if common:
            domains = [(min(low for low, _ in domains), max(high for _, high in domains))] * len(domains)
        multiples = []
        for index, (value, rows) in enumerate(series.items()):
            reason = self._reason(value)
            chart = charts.multiple(rows, domains[index], data.uniform, self.pattern)
            summary = f"{self.noun.capitalize()} of {labels[value]} over epochs, {reason}"
            drawn = svg.render(chart, summary, f"{self.name}-m{index}")
            multiples.append(Multiple(labels[value], reason, drawn))
        which = "The value" if len(series) == 1 else f"The {len(series)} values"
        against = " against its true frequency" if data.truth is not None else ""
        scale = (
            ""
            if len(series) == 1
            else (" All panels share one scale." if common else " Each panel has its own scale.")
        )
        if data.mean:
            sentence = f"The estimated mean{against} in each epoch."
        else:
            sentence = (
                f"{which} that the reports tell most clearly from 1/k, or whose frequency changed "
                f"most clearly between the first and second half: chosen by significance, not by "
                f"size{against and ', each' + against}." + scale
            )
        return multiples, sentence, self._tracked_table(series, labels)

    def _series(self, value: int, snapshots: Sequence[Any]) -> list[charts.Row]:
        rows: list[charts.Row] = []
        before: int | None = None
        for item in snapshots:
            where = [i for i, code in enumerate(item.values.tolist()) if code == value]
            if before is not None and item.epoch > before + 1:
                rows.append(_gap(before + 1))
            before = item.epoch
            if not where or not math.isfinite(item.estimate[where[0]]):
                rows.append(_gap(item.epoch))
                continue
            place = where[0]
            row = {
                "epoch": item.epoch,
                "estimate": float(item.estimate[place]),
                "low": float(item.low[place]),
                "high": float(item.high[place]),
                "truth": float(item.truth[place]),
            }
            error = float(item.std_error[place])
            text = f"epoch {item.epoch}: {self.form(row['estimate'], error)}"
            if math.isfinite(row["low"]):
                text += f" ({self.form(row['low'], error)} to {self.form(row['high'], error)})"
            if math.isfinite(row["truth"]):
                text += f", truth {self.form(row['truth'], error)}"
            rows.append({**row, "error": error, "text": text})
        return rows

    def _reason(self, value: int) -> str:
        distance, jump, change = self.data.standing[value]
        if self.data.uniform is None:
            return ""
        side = "above" if distance > 0 else "below"
        where = f"{abs(distance):.1f} standard errors {side} 1/k"
        if abs(jump) > 3 and len(self.usable) > 3:
            verb = "rose" if change > 0 else "fell"
            where += f"; {verb} by {self._points(abs(change))}"
        return where

    def _tracked_table(self, series: dict[int, list[charts.Row]], labels: dict[int, str]) -> Table:
        epochs = [epoch.epoch for epoch in self.shown][-self.detail.rows :]
        cells = {value: {row["epoch"]: self._cell(row) for row in rows} for value, rows in series.items()}
        truth = ", then the truth" if self.data.truth is not None else ""
        return Table(
            title=f"Table: estimate ± half its 95 % interval{truth}",
            head=["epoch", *(labels[value] for value in series)],
            rows=[[str(epoch), *(cells[value].get(epoch, DASH) for value in series)] for epoch in epochs],
            note=shortened(len(self.data.epochs), len(epochs), "epoch", "last"),
        )

    def _cell(self, row: charts.Row) -> str:
        if not row["text"]:
            return "withheld"
        error = row["error"]
        cell = self.form(row["estimate"], error)
        if math.isfinite(row["low"]):
            cell += f" ± {self.form((row['high'] - row['low']) / 2, error)}"
        if math.isfinite(row["truth"]):
            cell += f" ({self.form(row['truth'], error)})"
        return cell


def _when(start: datetime | None) -> str:
    return start.strftime("%Y-%m-%d %H:%M UTC") if start else DASH


def _gap(epoch: int) -> charts.Row:
    nothing = dict.fromkeys(("estimate", "low", "high", "truth", "error"), math.nan)
    return {"epoch": epoch, "text": "", **nothing}


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
