"""The accounting section: what was counted, what was not and why, and the identity checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ldpbeam.accounting import Account
from ldpbeam.records.run_record import EpochRecord
from ldpbeam.report_page import charts
from ldpbeam.report_page.dates import Dates
from ldpbeam.report_page.parts import Detail, Figure, Key, Table, shortened
from ldpbeam.report_page.text import count
from ldpbeam.text import plural

_OWN = ("duplicate", "late")
_REST = "rejected: other reasons"


COUNTED, EARLY, WITHHELD = "counted", "counted, provisional", "counted, estimates withheld"


@dataclass(frozen=True)
class Marks:
    """When the epochs of a collection begin, which of them are not over, and which have no estimates."""

    dates: Dates = field(default_factory=Dates)
    provisional: Collection[int] = field(default_factory=frozenset)
    withheld: Collection[int] = field(default_factory=frozenset)

    def part(self, epoch: int) -> str:
        """What became of the reports of an epoch that were counted."""
        return EARLY if epoch in self.provisional else WITHHELD if epoch in self.withheld else COUNTED

    def name(self, epoch: int) -> str:
        """As the table names it."""
        mark = self.part(epoch).removeprefix(COUNTED).removeprefix(", ").removeprefix("estimates ")
        return f"{epoch} ({mark})" if mark else str(epoch)


def summed(accounts: Iterable[Account]) -> Account:
    """The sum of several accounts."""
    total = Account()
    for account in accounts:
        total.merge(account)
    return total


def unexplained(account: Account, stream: bool) -> int:
    """Records that the identity does not explain; the open epochs of a stream may hold pending ones."""
    return min(account.pending, 0) if stream else account.pending


def identity(account: Account, stream: bool) -> str:
    """The identity with its numbers in it, then the reasons."""
    reasons = ", ".join(f"{name} {count(value)}" for name, value in account.rejected_record().items())
    pending = account.pending if stream and account.pending > 0 else 0
    return (
        (account.identity.replace("=", "≠") if unexplained(account, stream) else account.identity)
        + (f" ({reasons})" if reasons else "")
        + (f" + pending {count(pending)} (their epochs are not over)" if pending else "")
    )


def _uncounted(account: Account) -> dict[str, int]:
    """Everything that was read and not counted, by reason, in drawing order."""
    return {"duplicate": account.duplicate, "late": account.late, **dict(sorted(account.rejected.items()))}


def figures(epochs: Sequence[EpochRecord], marks: Marks, detail: Detail, name: str) -> list[Figure]:
    """Bars over epochs: what was counted and, on a scale of its own, what was not."""
    if not epochs:
        return []
    bars = _Bars(epochs, marks, detail.marks, name)
    drawn = [bars.counted()]
    if any(sum(_uncounted(row.account).values()) for row in epochs):
        drawn.append(bars.not_counted())
    return drawn


@dataclass(frozen=True)
class _Bars:
    """The two charts of one collection; where epochs are many, some neighbours share a bar."""

    epochs: Sequence[EpochRecord]
    marks: Marks
    most: int
    name: str

    @property
    def domain(self) -> tuple[int, int]:
        return self.epochs[0].epoch, self.epochs[-1].epoch

    @property
    def together(self) -> int:
        return -(-(self.domain[1] - self.domain[0] + 1) // self.most)

    def _figure(
        self,
        colours: dict[str, str],
        parts: Iterable[tuple[int, str, int]],
        kind: str,
        title: str,
        sentence: str,
    ) -> Figure:
        """Bars of (epoch, part, number), summed over the epochs of a bar."""
        (first, last), width, dates = self.domain, self.together, self.marks.dates
        sums: Counter[tuple[int, str]] = Counter()
        for epoch, part, number in parts:
            sums[first + (epoch - first) // width * width, part] += number
        order, rows = list(colours), list[charts.Row]()
        for (start, part), number in sums.items():
            if not number:
                continue
            end = min(start + width - 1, last)
            where = dates.named(start) + (f" to {dates.named(end)}" if end > start else "")
            rows.append(
                {
                    "epoch": start + (width - 1) / 2,
                    "part": part,
                    "number": number,
                    "order": order.index(part),
                    "text": f"{where}: {count(number)} {part}",
                }
            )
        if width > 1:
            sentence += f" Each bar is the sum of {plural(width, 'epoch')}."
        present = {row["part"] for row in rows}
        keys = [Key("box", colour, part) for part, colour in colours.items() if part in present]
        return Figure.of(
            charts.stack(rows, colours, self.domain, dates, width),
            f"{self.name}-{kind}",
            title,
            sentence,
            keys=[] if [key.text for key in keys] == [COUNTED] else keys,
        )

    def counted(self) -> Figure:
        colours = {COUNTED: charts.COUNTED, EARLY: charts.DUPLICATE, WITHHELD: charts.OTHER}
        parts = ((row.epoch, self.marks.part(row.epoch), row.account.counted) for row in self.epochs)
        sentence = "Reports that went into the estimates of each epoch."
        return self._figure(colours, parts, "counted", "Counted", sentence)

    def not_counted(self) -> Figure:
        total = _uncounted(summed(row.account for row in self.epochs))
        colours = _colours(total)
        parts = (
            (row.epoch, part if part in colours else _REST, number)
            for row in self.epochs
            for reason, number in _uncounted(row.account).items()
            for part in [reason if reason in _OWN else f"rejected: {reason}"]
        )
        sentence = (
            f"Reports that did not count, by reason, on a scale of their own: "
            f"{count(sum(total.values()))} of the {count(sum(row.account.read for row in self.epochs))} read "
            "in these epochs."
        )
        return self._figure(colours, parts, "lost", "Not counted", sentence)


def _colours(total: dict[str, int]) -> dict[str, str]:
    """A colour for each part; the commonest reasons have their own, the others share one."""
    reasons = sorted(set(total) - set(_OWN), key=lambda reason: (-total[reason], reason))
    named = reasons[: len(charts.REJECTED)]
    colours = {"duplicate": charts.DUPLICATE, "late": charts.LATE}
    colours |= {f"rejected: {reason}": charts.REJECTED[i] for i, reason in enumerate(named)}
    if len(reasons) > len(named):
        colours[_REST] = charts.OTHER
    return colours


def table(
    epochs: Sequence[EpochRecord],
    rest: Account | None,
    total: Account,
    stream: bool,
    detail: Detail,
    marks: Marks,
) -> Table:
    """Exact integers per epoch; the identity of each row is checked."""
    reasons = sorted(total.rejected)
    pending = stream and total.pending > 0
    rows = epochs[-detail.epochs :]
    dated = marks.dates.start is not None
    # The whole run first: it is what most people look for.
    lines = [("whole run" if rest else "all epochs", "", total, stream)]
    lines += [("no epoch", "", rest, False)] if rest and rest.read else []
    lines += [(marks.name(row.epoch), marks.dates.text(row.epoch), row.account, stream) for row in rows]
    return Table(
        title="Table: exact numbers per epoch, and the identity checked",
        head=[
            *("epoch", *(["starts, UTC"] if dated else []), "read", "counted", "late", "duplicate"),
            *(f"rejected: {reason}" for reason in reasons),
            *(["pending"] if pending else []),
            "identity",
        ],
        rows=[
            [name, *([starts] if dated else []), *_line(account, reasons, pending, unfinished)]
            for name, starts, account, unfinished in lines
        ],
        names=1 + dated,
        note=shortened(len(epochs), len(rows), "epoch", "last"),
    )


def _line(account: Account, reasons: Sequence[str], pending: bool, stream: bool) -> list[str]:
    wrong = unexplained(account, stream)
    return [
        *(count(value) for value in (account.read, account.counted, account.late, account.duplicate)),
        *(count(account.rejected[reason]) for reason in reasons),
        *([count(max(account.pending, 0) if stream else 0)] if pending else []),
        f"VIOLATED by {wrong:+,}" if wrong else "holds",
    ]
