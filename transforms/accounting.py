"""The books: read = counted + late + duplicate + Σ rejected(reason), kept as data beside the reports.

Not Beam counters: those count a retried bundle twice. Entries are summed by the same machinery as the
reports, so they are as exact as the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ldp.reports import Key

__all__ = ["Books", "Entry", "Line"]

Entry = tuple[tuple[Key, str], int]
"""((digest, epoch), what) and how many; what is read, counted, late, duplicate or rejected.<reason>."""


@dataclass
class Line:
    """One line of the books.

    Attributes:
        read, counted, late, duplicate: records.
        rejected: records by reason.
    """

    read: int = 0
    counted: int = 0
    late: int = 0
    duplicate: int = 0
    rejected: Counter[str] = field(default_factory=Counter)

    def add(self, what: str, count: int) -> None:
        """Book ``count`` records."""
        if what.startswith("rejected."):
            self.rejected[what.removeprefix("rejected.")] += count
        else:
            setattr(self, what, getattr(self, what) + count)

    @property
    def balanced(self) -> bool:
        """Whether nothing disappeared and nothing was counted twice."""
        return self.read == self.counted + self.late + self.duplicate + sum(self.rejected.values())

    def as_record(self) -> dict[str, object]:
        """For run.json; reasons in alphabetical order."""
        return {
            "read": self.read,
            "counted": self.counted,
            "late": self.late,
            "duplicate": self.duplicate,
            "rejected": dict(sorted(self.rejected.items())),
        }


@dataclass
class Books:
    """All lines of a run, by digest and epoch."""

    lines: dict[Key, Line] = field(default_factory=dict)

    @classmethod
    def from_entries(cls, entries: Iterable[Entry]) -> Books:
        """Add entries up, in any order."""
        books = cls()
        for (key, what), count in entries:
            books.lines.setdefault(key, Line()).add(what, count)
        return books

    @property
    def total(self) -> Line:
        """Everything."""
        total = Line()
        for line in self.lines.values():
            for what in ("read", "counted", "late", "duplicate"):
                total.add(what, getattr(line, what))
            total.rejected.update(line.rejected)
        return total
