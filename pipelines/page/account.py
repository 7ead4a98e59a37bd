"""The accounting of a run, and the identity that every row of it must satisfy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ldpbeam.pipelines.page.text import count, integer


@dataclass(frozen=True)
class Account:
    """Where the reports of one scope (an epoch, the rest, the whole run) went.

    `read` must equal `counted + late + duplicate + sum(rejected)`, and in an epoch that a stream still
    collects `+ pending`; the page says so loudly if not. `withheld` says why an epoch has no estimates
    although reports of it were counted.
    """

    scope: str
    read: int
    counted: int
    late: int
    duplicate: int
    rejected: Mapping[str, int] = field(default_factory=dict)
    epoch: int | None = None
    start: str = ""
    pending: int = 0
    withheld: str = ""

    @property
    def explained(self) -> int:
        """The right-hand side of the identity."""
        return self.counted + self.late + self.duplicate + self.pending + sum(self.rejected.values())

    @property
    def balanced(self) -> bool:
        """Whether the identity holds."""
        return self.read == self.explained

    @property
    def uncounted(self) -> dict[str, int]:
        """Everything that was read and not counted, by reason, in drawing order."""
        return {"duplicate": self.duplicate, "late": self.late, **self.rejected}

    @property
    def identity(self) -> str:
        """The identity with its numbers in it, as the command line prints it, then the reasons."""
        reasons = ", ".join(f"{name} {count(value)}" for name, value in self.rejected.items() if value)
        return (
            f"read {count(self.read)} {'=' if self.balanced else '≠'} counted {count(self.counted)} "
            f"+ late {count(self.late)} + duplicate {count(self.duplicate)} + rejected "
            f"{count(sum(self.rejected.values()))}"
            + (f" ({reasons})" if reasons else "")
            + (f" + pending {count(self.pending)} (their epochs are not over)" if self.pending else "")
        )

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


def account(raw: Mapping[str, Any], scope: str, unfinished: bool = False) -> Account:
    """Read one account; a missing count is 0. What an `unfinished` run has not counted yet is pending."""
    rejected = raw.get("rejected")
    reasons = rejected if isinstance(rejected, Mapping) else {}
    epoch = raw.get("epoch")
    found = Account(
        scope=scope,
        read=integer(raw.get("read")),
        counted=integer(raw.get("counted")),
        late=integer(raw.get("late")),
        duplicate=integer(raw.get("duplicate")),
        rejected={str(name): integer(number) for name, number in sorted(reasons.items())},
        epoch=None if epoch is None else integer(epoch),
        start=str(raw.get("epoch_start") or ""),
        withheld=str(raw.get("withheld") or ""),
    )
    return replace(found, pending=max(found.read - found.explained, 0)) if unfinished else found


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
        pending=sum(item.pending for item in accounts),
    )


def books(raw: object, unfinished: bool = False) -> Books:
    """Read the `accounting` of run.json and check it, row by row and as a whole.

    A stream is `unfinished`: its open epochs may hold reports that have been read and not been counted.
    """
    accounting = raw if isinstance(raw, Mapping) else {}
    epochs: dict[str, list[Account]] = {}
    for row in accounting.get("epochs") or ():
        if isinstance(row, Mapping):
            scope = f"{row.get('collection')}, epoch {row.get('epoch')}"
            epochs.setdefault(str(row.get("digest")), []).append(account(row, scope, unfinished))
    ordered = {
        digest: tuple(sorted(rows, key=lambda row: row.epoch if row.epoch is not None else -1))
        for digest, rows in epochs.items()
    }
    total = _optional(accounting.get("total"), "Whole run", unfinished)
    rest = _optional(accounting.get("unattributed"), "Reports of no known epoch")
    archived = _optional(accounting.get("archived"), "Epochs whose books are archived")
    rows = [row for group in ordered.values() for row in group]
    rows += [row for row in (archived, rest) if row is not None]
    complaints = [row.complaint for row in rows if not row.balanced]
    if total is not None:
        if not total.balanced:
            complaints.insert(0, total.complaint)
        if rows:
            complaints.extend(_compare(total, add(rows, "Sum of the rows")))
    return Books(total=total, unattributed=rest, epochs=ordered, complaints=tuple(complaints))


def _optional(raw: object, scope: str, unfinished: bool = False) -> Account | None:
    return account(raw, scope, unfinished) if isinstance(raw, Mapping) and raw else None


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
