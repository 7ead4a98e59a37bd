"""The local engine's state of an epoch: what is published, and what was landed since."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from ldpbeam.accounting import CONFLICTING, Account
from ldpbeam.durable.record import read_fields
from ldpbeam.engine.storage.landing import Group
from ldpbeam.engine.storage.segment import EpochKey
from ldpbeam.errors import Reason
from ldpbeam.transforms.sinks.accounting import EpochAccounting, Numbered, UnattributedAccounting
from ldpbeam.transforms.sinks.file_record import FileRecord


@dataclass
class UnattributedState:
    """Records that belong to no epoch of a collection, or to no collection."""

    account: Account = field(default_factory=Account)  # as published
    unpublished_entries: Counter[str] = field(default_factory=Counter)  # of segments landed since
    row: int = 0  # key of its row in the engine's file
    segment: int = 0  # number of the last one in the published account

    @property
    def total(self) -> Account:
        """The account, with the entries that are not published yet."""
        total = self.account.copy()
        for what, count in self.unpublished_entries.items():
            total.add(what, count)
        return total

    def accounting(self, digest: str) -> UnattributedAccounting:
        """The published account, as its file has it."""
        return UnattributedAccounting(digest, self.account, position={"segment": self.segment})

    def pack(self, digest: str) -> bytes:
        """The state as JSON, the content of its row in the table ``others``."""
        line = {
            "digest": digest,
            "account": self.account.as_record(),
            "unpublished": self.unpublished_entries,
            "segment": self.segment,
        }
        return json.dumps(line).encode()

    @classmethod
    def unpack(cls, row: int, content: bytes) -> tuple[str, UnattributedState]:
        """Digest and state, from the key and the content of a row: the reverse of :meth:`pack`."""
        line = json.loads(content)
        account, entries = Account.from_record(line["account"]), Counter(line["unpublished"])
        return line["digest"], cls(account, entries, row, line["segment"])


@dataclass
class EpochState(UnattributedState):
    """One epoch of a collection."""

    landed: Group | None = None
    has_new_reports: bool = False
    numbered: Numbered | None = None
    published: EpochAccounting | None = None
    next_revision: int = 0
    last_result_watermark: int = 0
    closed: bool = False
    files: list[FileRecord] = field(default_factory=list)
    indicators: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_unpublished(self) -> bool:
        """Whether reports or entries were landed that are in no result and no published account."""
        return self.has_new_reports or bool(self.unpublished_entries)

    @property
    def is_finished(self) -> bool:
        """Whether the epoch is closed, and its last result and account are published."""
        return self.closed and not self.is_unpublished

    @property
    def total_without_counts(self) -> Account:
        """``total`` without the numbers of counted, duplicate and conflicting reports: a count finds them."""
        total = self.total
        total.counted = total.duplicate = 0
        total.add(CONFLICTING, -total.rejected[Reason.CONFLICTING_ID.value])
        return total

    def set_published(self, accounting: EpochAccounting) -> None:
        """Take over the published accounting: no report or entry is unpublished any more."""
        self.published, position = accounting, accounting.position or {}
        self.account, self.unpublished_entries = accounting.account, Counter()
        self.has_new_reports = False
        self.last_result_watermark = position.get("watermark", 0)
        self.next_revision = accounting.newest.number + 1 if accounting.newest else 0
        self.closed = accounting.closed
        self.files = list(accounting.tables)
        self.indicators = accounting.indicators

    @property
    def newest_number(self) -> Numbered | None:
        """The number of the newest result; of an epoch that was archived it is in the accounting alone."""
        newest = self.published.newest if self.published else None
        return self.numbered or (Numbered(newest.number, newest.content, newest.job) if newest else None)

    def pack_epoch(self, key: EpochKey, archived: bool = False) -> bytes:
        """The state as JSON, the content of its row in the table ``epochs``; its reports lie elsewhere."""
        line = {
            "archived": archived,
            "digest": key[0],
            "epoch": key[1],
            "published": self.published.as_record() if self.published else None,
            "unpublished": self.unpublished_entries,
            "new": self.has_new_reports,
            "number": asdict(self.numbered) if self.numbered else None,
        }
        return json.dumps(line).encode()

    @classmethod
    def unpack_epoch(cls, row: int, line: dict[str, Any]) -> EpochState:
        """The state, from the key and the parsed content of a row: the reverse of :meth:`pack_epoch`."""
        state = cls(row=row)
        if line["published"] is not None:
            state.set_published(read_fields(EpochAccounting, line["published"]))
        state.unpublished_entries = Counter(line["unpublished"])
        state.has_new_reports = line["new"]
        state.numbered = None if line["number"] is None else Numbered(**line["number"])
        return state
