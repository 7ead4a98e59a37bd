"""Accounting: read = counted + late + duplicate + Σ rejected(reason), kept as data beside the reports.

Beam's counters would count a retried bundle twice. Entries are summed by the same machinery as the reports,
so they are as exact as the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ldpbeam.durable.record import whole
from ldpbeam.errors import Reason
from ldpbeam.support import Support, Uncounted

EARLY = "early"
"""A provisional result: the epoch had not ended."""
ON_TIME = "on_time"
"""The result of an epoch at its end."""
LATE = "late"
"""A result with reports that came after the end, within the allowed lateness."""
REPLAY = "replay"
"""Pane of a revision that a replay makes."""

CONFLICTING = f"rejected.{Reason.CONFLICTING_ID.value}"
"""Entry of reports that share their id, and not their payload, with the one that counts. Like duplicates, and
unlike all other rejections, they are known only once the reports of an epoch have been brought together."""

Key = tuple[str, int | None]
"""What accounting is kept by: digest (empty when unknown) and epoch (None when unknown)."""

Entry = tuple[tuple[Key, str], int]
"""((digest, epoch), what) and how many; what is a field of :class:`Account` or rejected.<reason>."""


@dataclass
class Account:
    """What became of every record of one epoch, or of those that belong to none."""

    read: int = 0
    counted: int = 0
    late: int = 0
    duplicate: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    repeated: int = 0

    def add(self, what: str, count: int) -> None:
        """Add ``count`` records."""
        if what.startswith("rejected."):
            self.rejected[what.removeprefix("rejected.")] += count
        else:
            setattr(self, what, getattr(self, what) + count)

    def merge(self, other: Account) -> None:
        for what in _NUMBERS:
            self.add(what, getattr(other, what))
        self.rejected.update(other.rejected)

    def subtract(self, other: Account) -> None:
        """Take an account out again that was merged."""
        for what in _NUMBERS:
            self.add(what, -getattr(other, what))
        self.rejected.subtract(other.rejected)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Account:
        """An account as :meth:`as_record` wrote it; what it does not name is 0."""
        account = cls(rejected=Counter({why: whole(n) for why, n in record["rejected"].items()}))
        for what in _NUMBERS:
            account.add(what, whole(record.get(what, 0)))
        return account

    def copy(self) -> Account:
        return replace(self, rejected=self.rejected.copy())

    def entries(self) -> Iterator[tuple[str, int]]:
        for what in sorted(_NUMBERS):
            if count := getattr(self, what):
                yield what, count
        for reason, count in self.rejected_record().items():
            yield f"rejected.{reason}", count

    @property
    def pending(self) -> int:
        """Records of which nothing else is known yet: none once an epoch is closed or a run has finished."""
        return self.read - self.counted - self.late - self.duplicate - sum(self.rejected.values())

    @property
    def balanced(self) -> bool:
        """Whether nothing disappeared and nothing was counted twice."""
        return self.pending == 0

    @property
    def error_fraction(self) -> float:
        """Rejected records out of all records read; 0 where none was."""
        lost = sum(self.rejected.values()) - self.repeated - self.rejected[Reason.CONFLICTING_ID.value]
        return lost / (self.read - self.repeated) if lost else 0.0

    @property
    def identity(self) -> str:
        """What every account of a finished run satisfies, with its numbers in it."""
        return (
            f"read {self.read:,} = counted {self.counted:,} + late {self.late:,} "
            f"+ duplicate {self.duplicate:,} + rejected {sum(self.rejected.values()):,}"
        )

    def rejected_record(self) -> dict[str, int]:
        """Rejections there are, reasons in alphabetical order (a replay may have taken some back)."""
        return {reason: n for reason, n in sorted(self.rejected.items()) if n}

    def as_record(self) -> dict[str, object]:
        """For run.json; reasons in alphabetical order."""
        return {
            "read": self.read,
            "counted": self.counted,
            "late": self.late,
            "duplicate": self.duplicate,
            "rejected": self.rejected_record(),
            **({"repeated": self.repeated} if self.repeated else {}),
        }


_NUMBERS = frozenset(each.name for each in fields(Account)) - {"rejected"}


@dataclass(frozen=True)
class Publication:
    """Which result of its epoch a result is, as the caller decides; fields as in :class:`CountedEpoch`."""

    revision: int = 0
    pane: str = ON_TIME
    closed: bool = True
    position: Mapping[str, int] | None = None


@dataclass(frozen=True, eq=False)
class CountedEpoch:
    """Everything known about one epoch at one moment: what leaves the counting stages."""

    epoch: int
    support: Support | Uncounted | None
    account: Account
    revision: int = 0
    pane: str = ON_TIME
    closed: bool = True
    position: Mapping[str, int] | None = None
    sequence: int = 0


@dataclass
class Accounting:
    """All accounts of a run, by digest and epoch."""

    accounts: dict[Key, Account] = field(default_factory=dict)

    @classmethod
    def from_entries(cls, entries: Iterable[Entry]) -> Accounting:
        """Add entries up, in any order."""
        accounting = cls()
        for (key, what), count in entries:
            accounting.accounts.setdefault(key, Account()).add(what, count)
        return accounting

    @property
    def total(self) -> Account:
        """The sum over all collections and epochs, in a fresh account."""
        total = Account()
        for account in self.accounts.values():
            total.merge(account)
        return total
