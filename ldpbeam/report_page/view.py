"""The sentences, tables and figures of one collection, ready for the template."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ldpbeam.histogram import INSUFFICIENT, TOO_MANY_ERRORS
from ldpbeam.records.run_record import RunRecord
from ldpbeam.report_page import accounting_section as accounting
from ldpbeam.report_page.accuracy import answer, average, error_figure
from ldpbeam.report_page.data import CollectionData
from ldpbeam.report_page.explorer import Explorer, explorer
from ldpbeam.report_page.histogram import histogram
from ldpbeam.report_page.over_epochs import OverEpochs, over_epochs
from ldpbeam.report_page.parts import Detail, Figure, Table
from ldpbeam.report_page.poisoning import Poisoning, poisoning
from ldpbeam.report_page.privacy import Privacy, privacy
from ldpbeam.report_page.sums import AddedUp, SumsAsked, added_up
from ldpbeam.report_page.text import DASH, count, duration, plain, plural, points, share

_NAMED = 12
"""Most epochs a sentence lists."""


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
    followed: OverEpochs
    histograms: Sequence[Figure]
    histogram_title: str
    histogram_note: str
    explorer: Explorer | None
    added_up: AddedUp | None
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
        record: RunRecord | None,
        detail: Detail,
        name: str,
        asked: SumsAsked,
        again: bool = False,
    ) -> None:
        """Bind the data; nothing is drawn yet. `asked` says what is added up.

        Where an attribute comes `again`, a section above has the accounting of the collection already. Where
        the run has one collection only, its totals are those of the run: reports of no known collection and
        epoch are part of them.
        """
        self.data = data
        self.detail = detail
        self.name = name
        self.asked = asked
        self.again = again
        self.form = plain if data.mean else share
        self.usable = [epoch for epoch in data.epochs if epoch.usable]
        of_run = record.accounting if record else None
        self.indicators = record.indicators if record else None
        self.stream = record is not None and record.stream is not None
        self.accounts = [row for row in of_run.epochs if row.digest == data.digest] if of_run else []
        self.rest = of_run.unattributed if of_run and data.alone else None
        everything = [row.account for row in self.accounts] + ([self.rest] if self.rest else [])
        self.total = accounting.summed(everything) if everything else None
        self.withheld = self._withheld()
        early = frozenset(epoch.epoch for epoch in data.epochs if epoch.provisional)
        self.marks = accounting.Marks(data.dates, early, frozenset(self.withheld))

    def section(self) -> Section:
        """Draw and word everything."""
        data, detail = self.data, self.detail
        verdict, numbers = answer(data)
        why = {epoch: self._why(reason) for epoch, reason in self.withheld.items()}
        followed = over_epochs(data, why, detail, self.name, self.form)
        figures, note = histogram(data, detail, self.name, self.form)
        first = not self.again
        return Section(
            name=data.title,
            protocol=data.histogram.protocol or "unknown protocol",
            facts=self._facts(),
            verdict=self._verdict(),
            stages=self._stages(),
            epochs_note=self._epochs_note(),
            followed=followed,
            histograms=figures,
            histogram_title=f"{self._result} of the last epoch",
            histogram_note=note,
            explorer=None if data.distribution else explorer(data, why, detail.octets),
            added_up=added_up(data, self.asked, detail, self.name),
            accounting=accounting.figures(self.accounts, self.marks, detail, self.name) if first else [],
            accounting_table=accounting.table(
                self.accounts, self.rest, self.total, self.stream, detail, self.marks
            )
            if first
            else None,
            identity=accounting.identity(self.total, self.stream)
            if first
            else "As above: reports are counted per collection, not per attribute.",
            balanced=not any(accounting.unexplained(row.account, self.stream) for row in self.accounts),
            error_title="Error" if data.uniform is None else "Error: does this beat answering 1/k?",
            error=error_figure(data, detail, self.name),
            answer=verdict,
            answer_numbers=numbers,
            privacy=privacy(data.collection, self.name),
            poisoning=poisoning(self.indicators, data.digest, data.histogram, detail.rows),
        )

    @property
    def _result(self) -> str:
        if self.data.distribution:
            return "Distribution"
        return "Mean" if self.data.mean else "Histogram"

    # --- words -------------------------------------------------------------------------------

    def _facts(self) -> str:
        data, total = self.data, self.total
        version, bits = data.collection.version, data.collection.payload_bits
        parts = [f"version {version}"] if version else []
        if data.size and not data.mean:
            parts.append(plural(data.size, "value"))
        if data.mean:
            parts.append(f"mean of values in {data.reach}")
        parts.append(plural(len(data.epochs), "epoch"))
        if total is not None:
            parts.append(f"{plural(total.read, 'report')} read, {count(total.counted)} counted")
        else:
            parts.append(f"{count(sum(epoch.n for epoch in data.epochs))} reports counted")
        if bits is not None:
            parts.append(f"{plural(bits, 'bit')} of payload per report")
        return " · ".join(parts)

    def _verdict(self) -> str:
        """One sentence that somebody can act on."""
        if self.total is not None and self.total.read:
            counted, read = self.total.counted, self.total.read
            # 100 % only where nothing is missing.
            part = f"{share(counted / read, 1 - counted / read)} of" if counted != read else "All"
            scope = "" if self.data.alone else " of its epochs"
            start = f"{part} {plural(read, 'report')}{scope} were counted"
        else:
            start = f"{plural(sum(epoch.n for epoch in self.data.epochs), 'report')} were counted"
        if not self.usable:
            least = self.data.collection.min_reports
            why = f": no epoch reached {plural(least, 'report')}" if least else ""
            return f"{start}, but nothing could be estimated{why}."
        typical = self._typical()
        bound = self._bound(1.96 * typical).replace("points", "percentage points")
        if self.data.mean:
            within = f"the estimated mean of values in {self.data.reach} is typically within ±{bound} (95 %)"
        elif self.data.distribution:
            within = f"the share of the devices up to a value is typically within ±{bound} (95 %)"
        else:
            within = f"estimates are typically within ±{bound} (95 %)"
        raw, uniform = average(self.data, "mse_raw"), average(self.data, "mse_uniform")
        if raw is None or uniform is None:
            return f"{start}, and {within}."
        if raw < uniform:
            return f"{start}, {within}, and they are closer to the truth than answering 1/k."
        return f"{start}, {within}, but simply answering 1/k would have been closer to the truth."

    def _bound(self, error: float) -> str:
        return plain(error, error) if self.data.mean else points(error)

    def _typical(self) -> float:
        return math.sqrt(average(self.data, "variance") or 0.0)

    def _stages(self) -> list[Stage]:
        data, support = self.data, self.data.histogram.support
        length = data.collection.epoch_seconds
        read = self.total.read if self.total else sum(item.n for item in data.epochs)
        chances = "per epoch: how many reports support each value"
        if support is not None:
            own, other = float(support.own), float(support.other)
            chances += f" ({own:.3g} of the reports of its holders, {other:.3g} of the others)"
        error = f"± {self._bound(1.96 * self._typical())}" if self.usable else "withheld"
        if data.mean:
            shown, chances = "1 sum", "per epoch: of what its reports carry, in exact integers"
            unit, estimate = "half the width of a 95 % interval", "mean, which may lie outside its range"
        elif data.distribution:
            shown, chances = "counts", "per epoch: how many reports name each stretch of each hash function"
            unit, estimate = "half the width of a 95 % interval, in percentage points,", ""
        else:
            shown = f"{count(data.size)} counts" if data.size else DASH
            unit = "half the width of a 95 % interval, in percentage points,"
            estimate = "estimate, which may be negative"
        estimated = (
            "the share of the devices up to a value" if data.distribution else f"an unbiased {estimate}"
        )
        after, promise = self._after()
        return [
            Stage("report", count(read), "read; each device's value, randomised before sending"),
            Stage(
                "epoch",
                count(len(data.epochs)),
                f"of {duration(length)} each" if length else "periods of collection",
            ),
            Stage("support", shown, chances),
            Stage("estimate", error, f"{unit} of {estimated}"),
            Stage("histogram", after, promise),
        ]

    def _after(self) -> tuple[str, str]:
        """What stage 5 does, and what it promises, as the record says: a mean has no sum to keep."""
        method, promises = self.data.collection.consistency, self.data.collection.promises
        if promises is None:
            method = self.data.last.method if self.data.last else ""
            return (method, "after post-processing") if method else ("raw", "not post-processed")
        if self.data.mean:
            if not promises.non_negative:
                return "raw", "the mean as it was estimated"
            return "clipped", f"the mean, brought into {self.data.reach} where it lies outside"
        texts = [("adds up to 1", promises.sums_to_one), ("nothing negative", promises.non_negative)]
        return method, ", ".join(words for words, held in texts if held) or "the raw estimates as they are"

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
        withheld = {row.epoch: row.withheld for row in self.accounts if row.withheld}
        return {**withheld, **{e.epoch: e.status for e in self.data.epochs if not e.usable}}

    def _withheld_note(self) -> str:
        reasons: dict[str, list[int]] = {}
        for epoch, reason in sorted(self.withheld.items()):
            reasons.setdefault(reason, []).append(epoch)
        reasons_given = [f"{_named(epochs)} ({self._why(reason)})" for reason, epochs in reasons.items()]
        return f"Withheld: {'; '.join(reasons_given)}." if reasons_given else ""

    def _why(self, reason: str) -> str:
        least = self.data.collection.min_reports
        if reason == INSUFFICIENT and least:
            return f"fewer than {plural(least, 'report')}"
        return "too many of the records were rejected" if reason == TOO_MANY_ERRORS else reason


def _when(start: datetime | None) -> str:
    return start.strftime("%Y-%m-%d %H:%M UTC") if start else DASH


def _named(epochs: Sequence[int]) -> str:
    """`Epoch 3`, `Epochs 3, 5 and 2 more`."""
    names = [str(epoch) for epoch in epochs[:_NAMED]]
    rest = len(epochs) - len(names)
    listed = ", ".join(names) + (f" and {count(rest)} more" if rest else "")
    return f"{'Epoch' if len(epochs) == 1 else 'Epochs'} {listed}"
