"""The sentences, tables and figures of one collection, ready for the template."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ldpbeam.histogram import INSUFFICIENT, TOO_MANY_ERRORS
from ldpbeam.records.run_record import RunRecord
from ldpbeam.report_page import accounting_section as accounting
from ldpbeam.report_page.accuracy import answer, average, error_figure
from ldpbeam.report_page.data import CollectionData
from ldpbeam.report_page.explorer import explorer
from ldpbeam.report_page.histogram import histogram
from ldpbeam.report_page.over_epochs import OverEpochs, by_slice, over_epochs
from ldpbeam.report_page.parts import Detail, Figure, Table
from ldpbeam.report_page.poisoning import poisoning
from ldpbeam.report_page.privacy import privacy
from ldpbeam.report_page.strings import SAYS, epochs_table, walk_table
from ldpbeam.report_page.text import DASH, count, duration, plain, points, share
from ldpbeam.text import plural

_NAMED = 12
"""Most epochs a sentence lists."""

_MOMENT = "%Y-%m-%d %H:%M UTC"


@dataclass(frozen=True)
class Stage:
    """One word of the strip report → epoch → support → estimate → histogram."""

    word: str
    figure: str
    note: str


class Section:
    """Everything that the page says about one collection, or one attribute of it."""

    def __init__(
        self,
        data: CollectionData,
        record: RunRecord,
        detail: Detail,
        prefix: str,
        again: bool = False,
    ) -> None:
        self._data = data
        self._usable = [epoch for epoch in data.epochs if epoch.usable]
        of_run, stream = record.accounting, record.stream is not None
        accounts = [row for row in of_run.epochs if row.digest == data.digest]
        rest = of_run.unattributed if data.alone else None
        self._total = accounting.summed([*(row.account for row in accounts), *filter(None, [rest])])
        withheld = {row.epoch: row.withheld for row in accounts if row.withheld}
        # Why an epoch has no estimates although some of its reports were counted.
        self._withheld = {**withheld, **{e.epoch: e.status for e in data.epochs if not e.usable}}
        early = frozenset(epoch.epoch for epoch in data.epochs if epoch.provisional)
        marks = accounting.Marks(data.dates, early, frozenset(self._withheld))
        why = {epoch: self._why(reason) for epoch, reason in self._withheld.items()}

        self.name = data.title
        self.protocol = data.histogram.protocol
        self.facts = self._facts()
        self.verdict = self._verdict()
        self.stages = self._stages()
        self.epochs_note = self._epochs_note()
        self.followed = over_epochs(data, why, detail, prefix)
        self.by_slice = by_slice(data, detail, prefix)
        self.histograms, self.histogram_note = histogram(data, detail, prefix)
        self.histogram_title = "Strings found" if data.discovered else f"{self._result} of the last epoch"
        listed = not data.distribution and not data.discovered
        self.explorer = explorer(data, why, detail.octets) if listed else None
        self.accounting: Sequence[Figure] = ()
        self.accounting_table: Table | None = None
        self.identity = "As above: reports are counted per collection, not per attribute."
        if not again:
            self.accounting = accounting.figures(accounts, marks, detail, prefix)
            self.accounting_table = accounting.table(accounts, rest, self._total, stream, detail, marks)
            self.identity = accounting.identity(self._total, stream)
        self.balanced = not any(accounting.unexplained(row.account, stream) for row in accounts)
        self.error_title = "Error" if data.uniform is None else "Error: does this beat answering 1/k?"
        self.error: Figure | None = error_figure(data, detail, prefix)
        self.answer, self.answer_numbers = answer(data)
        self.walk: Table | None = None
        if data.walks:
            self._show_walks(detail)
        self.privacy = privacy(data.collection, prefix)
        self.poisoning = poisoning(record.indicators, data.digest, data.histogram, detail.rows)

    def _show_walks(self, detail: Detail) -> None:
        """In the place of what values have that are listed: each epoch has strings of its own."""
        data, (epoch, walk) = self._data, max(self._data.walks.items())
        table = epochs_table(data.walks, data.found, data.dates, detail)
        self.followed = OverEpochs([], [], f"Each epoch has a list of its own: {data.list_in_short}.", table)
        self.walk = walk_table(epoch, walk) if walk.lengths else None
        self.error_title, self.error, self.answer = "What the list says", None, SAYS
        self.answer_numbers = (
            f"It does not say what the other devices hold ({walk.others} in epoch {epoch}): strings that few "
            "devices share are not found, and are not counted one by one."
        )

    @property
    def _result(self) -> str:
        if self._data.distribution:
            return "Distribution"
        return "Mean" if self._data.mean else "Histogram"

    # --- words -------------------------------------------------------------------------------

    def _facts(self) -> str:
        data, total = self._data, self._total
        version, bits = data.collection.version, data.collection.payload_bits
        parts = [f"version {version}"]
        if data.size and not data.mean:
            parts.append(plural(data.size, "value"))
        if data.mean:
            parts.append(f"mean of values in {data.reach}")
        parts.append(plural(data.collected, "epoch"))
        parts.append(f"{plural(total.read, 'report')} read, {count(total.counted)} counted")
        if bits is not None:
            parts.append(f"{plural(bits, 'bit')} of payload per report")
        return " · ".join(parts)

    def _verdict(self) -> str:
        """One sentence that somebody can act on."""
        counted, read = self._total.counted, self._total.read
        # 100 % only where nothing is missing.
        part = f"{share(counted / read, 1 - counted / read)} of" if counted != read else "All"
        scope = "" if self._data.alone else " of its epochs"
        start = f"{part} {plural(read, 'report')}{scope} were counted"
        if self._data.walks:
            return f"{start}, and {self._data.list_in_short}."
        if not self._usable:
            least = self._data.collection.min_reports
            why = f": no epoch reached {plural(least, 'report')}" if least else ""
            return f"{start}, but nothing could be estimated{why}."
        typical = self._typical()
        bound = self._bound(1.96 * typical).replace("points", "percentage points")
        if self._data.mean:
            within = f"the estimated mean of values in {self._data.reach} is typically within ±{bound} (95 %)"
        elif self._data.distribution:
            within = f"the share of the devices up to a value is typically within ±{bound} (95 %)"
        else:
            within = f"estimates are typically within ±{bound} (95 %)"
        raw, uniform = average(self._data, "mse_raw"), average(self._data, "mse_uniform")
        if raw is None or uniform is None:
            return f"{start}, and {within}."
        if raw < uniform:
            return f"{start}, {within}, and they are closer to the truth than answering 1/k."
        return f"{start}, {within}, but simply answering 1/k would have been closer to the truth."

    def _bound(self, error: float) -> str:
        return plain(error, error) if self._data.mean else points(error)

    def _typical(self) -> float:
        return math.sqrt(average(self._data, "variance") or 0.0)

    def _stages(self) -> list[Stage]:
        data, support = self._data, self._data.histogram.support
        length = data.collection.epoch_seconds
        chances = "per epoch: how many reports support each value"
        if support is not None:
            own, other = float(support.own), float(support.other)
            chances += f" ({own:.3g} of the reports of its holders, {other:.3g} of the others)"
        error = f"± {self._bound(1.96 * self._typical())}" if self._usable else "withheld"
        if data.mean:
            shown, chances = "1 sum", "per epoch: of what its reports carry, in exact integers"
            unit, estimate = "half the width of a 95 % interval", "mean, which may lie outside its range"
        elif data.discovered:
            shown, chances = "counts", "per epoch: how many reports name each symbol of each hash function"
            unit, estimate = (
                "half the width of a 95 % interval, in percentage points,",
                "estimate of a string",
            )
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
            Stage("report", count(self._total.read), "read; each device's value, randomised before sending"),
            Stage(
                "epoch",
                count(data.collected),
                f"of {duration(length)} each" if length else "periods of collection",
            ),
            Stage("support", shown, chances),
            Stage("estimate", error, f"{unit} of {estimated}"),
            Stage("histogram", after, promise),
        ]

    def _after(self) -> tuple[str, str]:
        """What stage 5 does, and what it promises, as the record says: a mean has no sum to keep."""
        method, promises = self._data.collection.consistency, self._data.collection.promises
        if self._data.mean:
            if not promises.non_negative:
                return "raw", "the mean as it was estimated"
            return "clipped", f"the mean, brought into {self._data.reach} where it lies outside"
        texts = [("adds up to 1", promises.sums_to_one), ("nothing negative", promises.non_negative)]
        return method, ", ".join(words for words, held in texts if held) or "the raw estimates as they are"

    def _epochs_note(self) -> str:
        if not self._data.epochs:
            return self._withheld_note()
        first, last = self._data.epochs[0], self._data.epochs[-1]
        parts = [f"Epoch {first.epoch} starts {first.start:{_MOMENT}}"] if first.start else []
        if last.start and last is not first:
            parts.append(f"epoch {last.epoch} starts {last.start:{_MOMENT}}")
        notes = [", ".join(parts) + "."] if parts else []
        early = [epoch.epoch for epoch in self._data.epochs if epoch.provisional]
        if early:
            notes.append(
                f"{_named(early)} {'is' if len(early) == 1 else 'are'} provisional: not over when "
                "this was published, so the numbers will change."
            )
        return " ".join([*notes, *filter(None, [self._withheld_note()])])

    def _withheld_note(self) -> str:
        reasons: dict[str, list[int]] = {}
        for epoch, reason in sorted(self._withheld.items()):
            reasons.setdefault(reason, []).append(epoch)
        reasons_given = [f"{_named(epochs)} ({self._why(reason)})" for reason, epochs in reasons.items()]
        return f"Withheld: {'; '.join(reasons_given)}." if reasons_given else ""

    def _why(self, reason: str) -> str:
        least = self._data.collection.min_reports
        if reason == INSUFFICIENT and least:
            return f"fewer than {plural(least, 'report')}"
        return "too many of the records were rejected" if reason == TOO_MANY_ERRORS else reason


def _named(epochs: Sequence[int]) -> str:
    """`Epoch 3`, `Epochs 3, 5 and 2 more`."""
    names = [str(epoch) for epoch in epochs[:_NAMED]]
    rest = len(epochs) - len(names)
    listed = ", ".join(names) + (f" and {count(rest)} more" if rest else "")
    return f"{'Epoch' if len(epochs) == 1 else 'Epochs'} {listed}"
