"""The sentences, tables and figures of one collection, ready for the template."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ldpbeam.histogram import INSUFFICIENT, TOO_MANY_ERRORS
from ldpbeam.pipelines.page import charts, ledger, svg
from ldpbeam.pipelines.page.account import Account, add
from ldpbeam.pipelines.page.accuracy import answer, average, error_figure
from ldpbeam.pipelines.page.charts import PROVISIONAL, WITHHELD
from ldpbeam.pipelines.page.data import CollectionData
from ldpbeam.pipelines.page.histogram import histogram
from ldpbeam.pipelines.page.parts import Detail, Figure, Key, Multiple, Table, shortened
from ldpbeam.pipelines.page.poisoning import Poisoning, poisoning
from ldpbeam.pipelines.page.privacy import Privacy, privacy
from ldpbeam.pipelines.page.significance import changed
from ldpbeam.pipelines.page.text import (
    DASH,
    count,
    duration,
    integer,
    number,
    plain,
    plural,
    share,
)

_NAMED = 12
"""Most epochs a sentence lists."""

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
    histogram_title: str
    histogram_note: str
    accounting: Sequence[Figure]
    accounting_table: Table | None
    identity: str
    balanced: bool
    error_title: str
    error: Figure | None
    answer: str
    answer_numbers: str
    privacy: Privacy
    poisoning: Poisoning


class Writer:
    """Writes the section of one collection; `name` is a prefix unique on the page."""

    def __init__(
        self,
        data: CollectionData,
        accounts: Sequence[Account],
        detail: Detail,
        name: str,
        books: bool = True,
        rest: Account | None = None,
        record: Mapping[str, Any] | None = None,
    ) -> None:
        """Bind the data; nothing is drawn yet.

        Without `books` the accounting stands elsewhere. `rest` are the reports of no known collection and
        epoch, where the run has one collection only, so that its totals are those of the run. `record` is
        the content of run.json.
        """
        self.data = data
        self.books = books
        self.record = record or {}
        self.accounts = accounts
        self.detail = detail
        self.name = name
        self.form = plain if data.mean else share
        self.pattern = "~g" if data.mean else "~%"
        self.noun = "mean" if data.mean else "frequency"
        self.usable = [epoch for epoch in data.epochs if epoch.usable]
        self.shown = data.epochs[-detail.epochs :]
        self.rest = rest
        everything = [*accounts, *([rest] if rest else [])]
        self.total = add(everything, "Whole run" if rest else "All epochs") if everything else None
        self.withheld = self._withheld()

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
        if any(epoch.provisional for epoch in self.shown):
            keys.append(Key("ring", charts.RAW, "provisional: the epoch was not over"))
        if self.withheld:
            keys.append(Key("cross", charts.UNIFORM, "withheld"))
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
            histogram_title=f"{'Mean' if data.mean else 'Histogram'} of the last epoch",
            histogram_note=note,
            accounting=ledger.figures(self.accounts, self.detail, self.name) if self.books else [],
            accounting_table=ledger.table(self.accounts, self.rest, self.total, self.detail)
            if self.books
            else None,
            identity=ledger.identity(self.total)
            if self.books
            else "As above: reports are counted per collection, not per attribute.",
            balanced=all(row.balanced for row in self.accounts),
            error_title="Error" if data.mean else "Error: does this beat answering 1/k?",
            error=error_figure(data, self.detail, self.name),
            answer=verdict,
            answer_numbers=numbers,
            privacy=privacy(data.config, self.name),
            poisoning=poisoning(self.record, data.config, data.attribute, data.mean, self.detail.rows),
        )

    # --- words -------------------------------------------------------------------------------

    def _facts(self) -> str:
        data, total = self.data, self.total
        parts = [f"version {data.config['version']}"] if data.config.get("version") else []
        if data.size and not data.mean:
            parts.append(plural(data.size, "value"))
        if data.mean:
            parts.append(f"mean of values in {data.reach}")
        parts.append(plural(len(data.epochs), "epoch"))
        if total is not None:
            parts.append(f"{plural(total.read, 'report')} read, {count(total.counted)} counted")
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
            scope = "" if self.data.alone else " of its epochs"
            start = f"{part} {plural(read, 'report')}{scope} were counted"
        else:
            start = f"{plural(sum(epoch.n for epoch in self.data.epochs), 'report')} were counted"
        if not self.usable:
            least = integer(self.data.config.get("min_reports"))
            why = f": no epoch reached {plural(least, 'report')}" if least else ""
            return f"{start}, but nothing could be estimated{why}."
        typical = self._typical()
        bound = self._points(1.96 * typical).replace("points", "percentage points")
        if self.data.mean:
            within = f"the estimated mean of values in {self.data.reach} is typically within ±{bound} (95 %)"
        else:
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
        error = f"± {self._points(1.96 * self._typical())}" if self.usable else "withheld"
        if data.mean:
            shown, chances = "1 sum", "per epoch: of what its reports carry, in exact integers"
            unit, estimate = "half a 95 % interval", "mean, which may lie outside its range"
        else:
            shown = f"{count(data.size)} counts" if data.size else DASH
            unit = "half a 95 % interval, in percentage points,"
            estimate = "estimate, which may be negative"
        method = str(config.get("consistency") or (data.last.method if data.last else ""))
        after, promise = self._after(method)
        return [
            Stage("report", count(read), "read; each device's value, randomised before sending"),
            Stage(
                "epoch",
                count(len(data.epochs)),
                f"of {duration(length)} each" if length else "periods of collection",
            ),
            Stage("support", shown, chances),
            Stage("estimate", error, f"{unit} of an unbiased {estimate}"),
            Stage("histogram", after, promise),
        ]

    def _after(self, method: str) -> tuple[str, str]:
        """What stage 5 does, and what it promises: one mean has no sum to keep, it is only clipped."""
        if not method:
            return "raw", "not post-processed"
        if not self.data.mean:
            return method, _CONSISTENT.get(method, "after post-processing")
        if method == "none":
            return "raw", "the mean as it was estimated"
        return "clipped", f"the mean, brought into {self.data.reach} where it lies outside"

    def _epochs_note(self) -> str:
        if not self.data.epochs:
            return self._withheld_note()
        first, last = self.data.epochs[0], self.data.epochs[-1]
        parts = [f"Epoch {first.epoch} starts {_when(first.start)}"] if first.start else []
        if last.start and last is not first:
            parts.append(f"epoch {last.epoch} starts {_when(last.start)}")
        notes = [", ".join(parts) + "."] if parts else []
        early = [epoch.epoch for epoch in self.data.epochs if epoch.provisional]
        if early:
            notes.append(
                f"{_named(early)} {'is' if len(early) == 1 else 'are'} provisional: not over when "
                "this was published, so the numbers will change."
            )
        return " ".join([*notes, *filter(None, [self._withheld_note()])])

    def _withheld(self) -> dict[int, str]:
        """Why an epoch has no estimates although some of its reports were counted, by epoch."""
        found = {row.epoch: row.withheld for row in self.accounts if row.withheld and row.epoch is not None}
        return {**found, **{e.epoch: e.status for e in self.data.epochs if not e.usable}}

    def _withheld_note(self) -> str:
        reasons: dict[str, list[int]] = {}
        for epoch, reason in sorted(self.withheld.items()):
            reasons.setdefault(reason, []).append(epoch)
        told = [f"{_named(epochs)} ({self._why(reason)})" for reason, epochs in reasons.items()]
        return f"Withheld: {'; '.join(told)}." if told else ""

    def _why(self, reason: str) -> str:
        least = integer(self.data.config.get("min_reports"))
        if reason == INSUFFICIENT and least:
            return f"fewer than {plural(least, 'report')}"
        return "too many of the records were rejected" if reason == TOO_MANY_ERRORS else reason

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
        series = {value: self._marked(self._series(value, snapshots)) for value in data.ranked}
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
            against = " against the true mean" if data.truth is not None else ""
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
            text = f"epoch {item.epoch}{' (provisional)' if item.provisional else ''}: "
            text += self.form(row["estimate"], error)
            if math.isfinite(row["low"]):
                text += f" ({self.form(row['low'], error)} to {self.form(row['high'], error)})"
            if math.isfinite(row["truth"]):
                text += f", truth {self.form(row['truth'], error)}"
            mark = PROVISIONAL if item.provisional else ""
            rows.append({**row, "error": error, "text": text, "mark": mark})
        return rows

    def _marked(self, rows: list[charts.Row]) -> list[charts.Row]:
        """The rows with a mark at each epoch whose estimates are withheld."""
        shown = {epoch: why for epoch, why in self.withheld.items() if epoch >= self.shown[0].epoch}
        kept = [row for row in rows if row["epoch"] not in shown]
        gaps = [
            {**_gap(epoch), "mark": WITHHELD, "note": f"epoch {epoch}: withheld, {self._why(why)}"}
            for epoch, why in shown.items()
        ]
        return sorted([*kept, *gaps], key=lambda row: int(row["epoch"]))

    def _reason(self, value: int) -> str:
        distance, jump, change = self.data.standing[value]
        if self.data.uniform is None:
            return ""
        side = "above" if distance > 0 else "below"
        where = f"{abs(distance):.1f} standard errors {side} 1/k"
        if changed(jump, self.data.size) and len(self.usable) > 3:
            verb = "rose" if change > 0 else "fell"
            where += f"; {verb} by {self._points(abs(change))}"
        return where

    def _tracked_table(self, series: dict[int, list[charts.Row]], labels: dict[int, str]) -> Table:
        listed = {epoch.epoch: epoch.provisional for epoch in self.shown}
        listed |= {epoch: False for epoch in self.withheld if epoch >= self.shown[0].epoch}
        epochs = sorted(listed)[-self.detail.rows :]
        cells = {value: {row["epoch"]: self._cell(row) for row in rows} for value, rows in series.items()}
        truth = ", then the truth" if self.data.truth is not None else ""
        return Table(
            title=f"Table: estimate ± half its 95 % interval{truth}",
            head=["epoch", *(labels[value] for value in series)],
            rows=[
                [
                    f"{epoch} (provisional)" if listed[epoch] else str(epoch),
                    *(cells[value].get(epoch, DASH) for value in series),
                ]
                for epoch in epochs
            ],
            note=shortened(len(self.data.epochs), len(epochs), "epoch", "last"),
        )

    def _cell(self, row: charts.Row) -> str:
        if not row["text"]:
            return "withheld" if row["mark"] == WITHHELD else DASH
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
    return {"epoch": epoch, "text": "", "mark": "", **nothing}


def _named(epochs: Sequence[int]) -> str:
    """`Epoch 3`, `Epochs 3, 5 and 2 more`."""
    names = [str(epoch) for epoch in epochs[:_NAMED]]
    rest = len(epochs) - len(names)
    listed = ", ".join(names) + (f" and {count(rest)} more" if rest else "")
    return f"{'Epoch' if len(epochs) == 1 else 'Epochs'} {listed}"


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
