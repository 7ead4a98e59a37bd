"""The accounting section: what was counted, what was not and why, and the identity checked."""

from __future__ import annotations

from collections.abc import Sequence

from ldpbeam.pipelines.page import charts
from ldpbeam.pipelines.page.account import Account, add
from ldpbeam.pipelines.page.parts import Detail, Figure, Key, Table, draw, shortened
from ldpbeam.pipelines.page.text import count

_HEIGHT = 170
_OWN = ("duplicate", "late")
_REST = "rejected: other reasons"


def identity(total: Account | None) -> str:
    """The identity of a collection with its numbers in it."""
    if total is None:
        return "run.json holds no accounting for this collection."
    return total.identity


def figures(accounts: Sequence[Account], detail: Detail, name: str) -> list[Figure]:
    """Bars per epoch: what was counted and, on a scale of its own, what was not."""
    rows = [row for row in accounts if row.epoch is not None][-detail.epochs :]
    if not rows:
        return []
    domain = (rows[0].epoch or 0, rows[-1].epoch or 0)
    drawn = [_counted(rows, domain, name)]
    if any(sum(row.uncounted.values()) for row in rows):
        drawn.append(_uncounted(rows, domain, name))
    return drawn


def _counted(rows: Sequence[Account], domain: tuple[int, int], name: str) -> Figure:
    data = [
        {
            "epoch": row.epoch,
            "part": "counted",
            "number": row.counted,
            "order": 0,
            "text": f"epoch {row.epoch}: {count(row.counted)} counted",
        }
        for row in rows
    ]
    colours = {"counted": charts.COUNTED}
    sentence = "Reports that went into the estimates of each epoch."
    wide, narrow = draw(
        lambda small: charts.stack(data, colours, domain, small, _HEIGHT),
        sentence,
        f"{name}-counted",
    )
    return Figure("Counted", sentence, wide, narrow)


def _uncounted(rows: Sequence[Account], domain: tuple[int, int], name: str) -> Figure:
    total = add(rows, "").uncounted
    colours = _colours(total)
    parts = list(colours)
    data: list[charts.Row] = []
    for row in rows:
        sums: dict[str, int] = {}
        for reason, value in row.uncounted.items():
            part = reason if reason in _OWN else f"rejected: {reason}"
            part = part if part in colours else _REST
            sums[part] = sums.get(part, 0) + value
        data += [
            {
                "epoch": row.epoch,
                "part": part,
                "number": value,
                "order": parts.index(part),
                "text": f"epoch {row.epoch}: {count(value)} {part}",
            }
            for part, value in sums.items()
            if value
        ]
    sentence = (
        f"Reports that did not count, by reason, on a scale of their own: "
        f"{count(sum(total.values()))} of the {count(sum(row.read for row in rows))} read in these "
        "epochs."
    )
    wide, narrow = draw(
        lambda small: charts.stack(data, colours, domain, small, _HEIGHT),
        sentence,
        f"{name}-lost",
    )
    present = {row["part"] for row in data}
    keys = [Key("box", colour, part) for part, colour in colours.items() if part in present]
    return Figure("Not counted", sentence, wide, narrow, keys)


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
    accounts: Sequence[Account], rest: Account | None, total: Account | None, detail: Detail
) -> Table | None:
    """Exact integers per epoch, then of `rest`, which has no epoch; the identity of each row checked."""
    if total is None:
        return None
    reasons = sorted(total.rejected)
    pending = ["pending"] if total.pending else []
    rows = list(accounts)[-detail.rows :]
    return Table(
        title="Table: exact numbers per epoch, and the identity checked",
        head=[
            *("epoch", "read", "counted", "late", "duplicate"),
            *(f"rejected: {reason}" for reason in reasons),
            *pending,
            "identity",
        ],
        rows=[
            *(_line(str(row.epoch), row, reasons, pending) for row in rows),
            *([_line("no epoch", rest, reasons, pending)] if rest and rest.read else []),
            _line("whole run" if rest else "all epochs", total, reasons, pending),
        ],
        note=shortened(len(accounts), len(rows), "epoch", "last"),
    )


def _line(name: str, row: Account, reasons: Sequence[str], pending: Sequence[str]) -> list[str]:
    return [
        name,
        *(count(value) for value in (row.read, row.counted, row.late, row.duplicate)),
        *(count(row.rejected.get(reason, 0)) for reason in reasons),
        *(count(row.pending) for _ in pending),
        "holds" if row.balanced else f"VIOLATED by {row.read - row.explained:+,}",
    ]
