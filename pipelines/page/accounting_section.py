"""The accounting section: what was counted, what was not and why, and the identity checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ldpbeam.accounting import Account
from ldpbeam.pipelines.page import charts
from ldpbeam.pipelines.page.parts import Detail, Figure, Key, Table, shortened
from ldpbeam.pipelines.page.text import count
from ldpbeam.pipelines.run_record import EpochRecord, RunRecord

_HEIGHT = 170
_OWN = ("duplicate", "late")
_REST = "rejected: other reasons"


def summed(accounts: Iterable[Account]) -> Account:
    """The sum of several accounts."""
    total = Account()
    for account in accounts:
        total.merge(account)
    return total


def unexplained(account: Account, stream: bool) -> int:
    """Records that the identity does not explain; the open epochs of a stream may hold pending ones."""
    return min(account.pending, 0) if stream else account.pending


def identity(account: Account | None, stream: bool) -> str:
    """The identity with its numbers in it, as the command line prints it, then the reasons."""
    if account is None:
        return "run.json holds no accounting for this collection."
    reasons = ", ".join(f"{name} {count(value)}" for name, value in account.rejected_record().items())
    pending = account.pending if stream and account.pending > 0 else 0
    return (
        f"read {count(account.read)} {'≠' if unexplained(account, stream) else '='} counted "
        f"{count(account.counted)} + late {count(account.late)} + duplicate {count(account.duplicate)} + "
        f"rejected {count(sum(account.rejected.values()))}"
        + (f" ({reasons})" if reasons else "")
        + (f" + pending {count(pending)} (their epochs are not over)" if pending else "")
    )


def complaints(record: RunRecord) -> list[str]:
    """What is wrong with the accounting of a run: rows that do not balance, a total that is not their sum."""
    accounting, stream = record.accounting, record.stream is not None
    rows = [("Whole run", accounting.total, stream)]
    rows += [(f"{row.collection}, epoch {row.epoch}", row.account, stream) for row in accounting.epochs]
    if accounting.archived is not None:
        rows.append(("Archived epochs", accounting.archived.account, False))
    rows.append(("Reports of no known epoch", accounting.unattributed, False))
    found = [
        f"{scope}: read {count(account.read)}, but counted + late + duplicate + rejected = "
        f"{count(account.read - account.pending)} ({account.pending:+,} unexplained)."
        for scope, account, unfinished in rows
        if unexplained(account, unfinished)
    ]
    stated, parts = (
        {"read": account.read, "counted": account.counted, **_uncounted(account)}
        for account in (accounting.total, summed(account for _, account, _ in rows[1:]))
    )
    return found + [
        f"Whole run: {name} is {count(stated.get(name, 0))}, "
        f"but its epochs and the unattributed reports add up to {count(parts.get(name, 0))}."
        for name in dict.fromkeys([*stated, *parts])
        if stated.get(name, 0) != parts.get(name, 0)
    ]


def _uncounted(account: Account) -> dict[str, int]:
    """Everything that was read and not counted, by reason, in drawing order."""
    return {"duplicate": account.duplicate, "late": account.late, **dict(sorted(account.rejected.items()))}


def figures(epochs: Sequence[EpochRecord], detail: Detail, name: str) -> list[Figure]:
    """Bars per epoch: what was counted and, on a scale of its own, what was not."""
    rows = epochs[-detail.epochs :]
    if not rows:
        return []
    domain = (rows[0].epoch, rows[-1].epoch)
    drawn = [_counted(rows, domain, name)]
    if any(sum(_uncounted(row.account).values()) for row in rows):
        drawn.append(_not_counted(rows, domain, name))
    return drawn


def _counted(rows: Sequence[EpochRecord], domain: tuple[int, int], name: str) -> Figure:
    data = [_bar(row, "counted", row.account.counted, 0) for row in rows]
    return Figure.of(
        lambda small: charts.stack(data, {"counted": charts.COUNTED}, domain, small, _HEIGHT),
        f"{name}-counted",
        "Counted",
        "Reports that went into the estimates of each epoch.",
    )


def _bar(row: EpochRecord, part: str, number: int, order: int) -> charts.Row:
    text = f"epoch {row.epoch}: {count(number)} {part}"
    return {"epoch": row.epoch, "part": part, "number": number, "order": order, "text": text}


def _not_counted(rows: Sequence[EpochRecord], domain: tuple[int, int], name: str) -> Figure:
    total = _uncounted(summed(row.account for row in rows))
    colours = _colours(total)
    parts = list(colours)
    data: list[charts.Row] = []
    for row in rows:
        sums: Counter[str] = Counter()
        for reason, value in _uncounted(row.account).items():
            part = reason if reason in _OWN else f"rejected: {reason}"
            sums[part if part in colours else _REST] += value
        data += [_bar(row, part, value, parts.index(part)) for part, value in sums.items() if value]
    sentence = (
        f"Reports that did not count, by reason, on a scale of their own: "
        f"{count(sum(total.values()))} of the {count(sum(row.account.read for row in rows))} read in these "
        "epochs."
    )
    present = {row["part"] for row in data}
    keys = [Key("box", colour, part) for part, colour in colours.items() if part in present]
    return Figure.of(
        lambda small: charts.stack(data, colours, domain, small, _HEIGHT),
        f"{name}-lost",
        "Not counted",
        sentence,
        keys=keys,
    )


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
    epochs: Sequence[EpochRecord], rest: Account | None, total: Account | None, stream: bool, detail: Detail
) -> Table | None:
    """Exact integers per epoch, then of `rest`, which has no epoch; the identity of each row checked."""
    if total is None:
        return None
    reasons = sorted(total.rejected)
    pending = stream and total.pending > 0
    rows = epochs[-detail.rows :]
    lines = [(str(row.epoch), row.account, stream) for row in rows]
    lines += [("no epoch", rest, False)] if rest and rest.read else []
    lines.append(("whole run" if rest else "all epochs", total, stream))
    return Table(
        title="Table: exact numbers per epoch, and the identity checked",
        head=[
            *("epoch", "read", "counted", "late", "duplicate"),
            *(f"rejected: {reason}" for reason in reasons),
            *(["pending"] if pending else []),
            "identity",
        ],
        rows=[_line(name, account, reasons, pending, unfinished) for name, account, unfinished in lines],
        note=shortened(len(epochs), len(rows), "epoch", "last"),
    )


def _line(name: str, account: Account, reasons: Sequence[str], pending: bool, stream: bool) -> list[str]:
    wrong = unexplained(account, stream)
    return [
        name,
        *(count(value) for value in (account.read, account.counted, account.late, account.duplicate)),
        *(count(account.rejected[reason]) for reason in reasons),
        *([count(max(account.pending, 0) if stream else 0)] if pending else []),
        f"VIOLATED by {wrong:+,}" if wrong else "holds",
    ]
