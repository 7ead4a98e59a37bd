"""The accounting of a run, and the identity that every row of it must satisfy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.page.text import count, integer


@dataclass(frozen=True)
class Account:
    """Where the reports of one scope (an epoch, the rest, the whole run) went.

    `read` must equal `counted + late + duplicate + sum(rejected)`; the page says so loudly if not.
    """

    scope: str
    read: int
    counted: int
    late: int
    duplicate: int
    rejected: Mapping[str, int] = field(default_factory=dict)
    epoch: int | None = None
    start: str = ""

    @property
    def explained(self) -> int:
        """The right-hand side of the identity."""
        return self.counted + self.late + self.duplicate + sum(self.rejected.values())

    @property
    def balanced(self) -> bool:
        """Whether the identity holds."""
        return self.read == self.explained

    @property
    def uncounted(self) -> dict[str, int]:
        """Everything that was read and not counted, by reason, in drawing order."""
        return {"duplicate": self.duplicate, "late": self.late, **self.rejected}

    @property
    def complaint(self) -> str:
        """The violated identity in words; only meaningful when not balanced."""
        return (
            f"{self.scope}: read {count(self.read)}, but counted + late + duplicate + rejected "
            f"= {count(self.explained)} ({self.read - self.explained:+,} unexplained)."
        )


@dataclass(frozen=True)
class Books:
    """All accounts of a run, and what is wrong with them."""

    total: Account | None
    unattributed: Account | None
    epochs: Mapping[str, tuple[Account, ...]]
    complaints: tuple[str, ...]

    def of(self, digest: str) -> tuple[Account, ...]:
        """The accounts of one collection, by epoch."""
        return self.epochs.get(digest, ())


def account(raw: Mapping[str, Any], scope: str) -> Account:
    """Read one account; a missing count is 0."""
    rejected = raw.get("rejected")
    reasons = rejected if isinstance(rejected, Mapping) else {}
    epoch = raw.get("epoch")
    return Account(
        scope=scope,
        read=integer(raw.get("read")),
        counted=integer(raw.get("counted")),
        late=integer(raw.get("late")),
        duplicate=integer(raw.get("duplicate")),
        rejected={str(name): integer(number) for name, number in sorted(reasons.items())},
        epoch=None if epoch is None else integer(epoch),
        start=str(raw.get("epoch_start") or ""),
    )


def add(accounts: Sequence[Account], scope: str) -> Account:
    """The sum of several accounts."""
    rejected: dict[str, int] = {}
    for item in accounts:
        for reason, number in item.rejected.items():
            rejected[reason] = rejected.get(reason, 0) + number
    return Account(
        scope=scope,
        read=sum(item.read for item in accounts),
        counted=sum(item.counted for item in accounts),
        late=sum(item.late for item in accounts),
        duplicate=sum(item.duplicate for item in accounts),
        rejected=dict(sorted(rejected.items())),
    )


def books(raw: object) -> Books:
    """Read the `accounting` of run.json and check it, row by row and as a whole."""
    accounting = raw if isinstance(raw, Mapping) else {}
    epochs: dict[str, list[Account]] = {}
    for row in accounting.get("epochs") or ():
        if isinstance(row, Mapping):
            scope = f"{row.get('collection')}, epoch {row.get('epoch')}"
            epochs.setdefault(str(row.get("digest")), []).append(account(row, scope))
    ordered = {
        digest: tuple(sorted(rows, key=lambda row: row.epoch if row.epoch is not None else -1))
        for digest, rows in epochs.items()
    }
    total = _optional(accounting.get("total"), "Whole run")
    rest = _optional(accounting.get("unattributed"), "Reports of no known epoch")
    rows = [row for group in ordered.values() for row in group]
    if rest is not None:
        rows.append(rest)
    complaints = [row.complaint for row in rows if not row.balanced]
    if total is not None:
        if not total.balanced:
            complaints.insert(0, total.complaint)
        if rows:
            complaints.extend(_compare(total, add(rows, "Sum of the rows")))
    return Books(total=total, unattributed=rest, epochs=ordered, complaints=tuple(complaints))


def _optional(raw: object, scope: str) -> Account | None:
    return account(raw, scope) if isinstance(raw, Mapping) and raw else None


def _compare(total: Account, rows: Account) -> list[str]:
    """What differs between the stated total and the sum of the rows."""
    stated = {"read": total.read, "counted": total.counted, **total.uncounted}
    summed = {"read": rows.read, "counted": rows.counted, **rows.uncounted}
    return [
        f"Whole run: {name} is {count(stated.get(name, 0))}, "
        f"but its epochs and the unattributed reports add up to {count(summed.get(name, 0))}."
        for name in dict.fromkeys([*stated, *summed])
        if stated.get(name, 0) != summed.get(name, 0)
    ]
