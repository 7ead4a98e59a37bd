"""Accounting of epochs that have long been closed, a thousand to a row: years of a stream stay small.

A row of the table ``archive`` holds the accounting of up to a thousand epochs of a collection, compressed,
behind their sums, which can be read alone. When all epochs of a row have been closed for longer than their
accounting is kept, the row becomes a part of its collection's row of sums in the table ``sums``. An epoch is
in the archive or in the table ``epochs``, never in both: each move is part of one change.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from ldpbeam.accounting import Account
from ldpbeam.collection.epochs import parse_instant
from ldpbeam.durable.errors import DamageError
from ldpbeam.durable.record import read_fields, write_fields
from ldpbeam.durable.store import Transaction
from ldpbeam.engine.storage.landing import ARCHIVE, SUMS, Landing
from ldpbeam.engine.storage.segment import EpochKey
from ldpbeam.records.run_record import Archived
from ldpbeam.transforms.sinks.accounting import EpochAccounting

_BLOCK = 1000
"""How many neighbouring epochs of a collection share a row."""
_HELD = 4
"""Rows that are kept in memory after they were read."""
_LENGTH = Struct("<I")

_Place = tuple[str, int]
"""Digest, and which thousand of epochs."""

_Records = dict[int, dict[str, Any]]
"""Accounting by epoch, as :meth:`EpochAccounting.as_record` has it."""


@dataclass
class _SumsBlock:
    """The head of a row: its sums, without its epochs."""

    key: int  # of the row
    digest: str
    block: int  # which thousand of the collection's epochs
    epochs: int = 0  # how many
    withheld: int = 0  # how many of them have no estimates
    account: Account = field(default_factory=Account)  # the sum of their accounts
    closes: int = 0  # when the last of them closed, seconds since 1970

    @classmethod
    def of(cls, key: int, place: _Place, records: Iterable[Mapping[str, Any]]) -> _SumsBlock:
        """Sums over the epochs of a row."""
        block = cls(key, *place)
        for record in records:
            block.epochs += 1
            block.account.merge(Account.from_record(record["accounting"]))
            block.withheld += bool(record["revisions"]) and bool(record["revisions"][-1]["withheld"])
            block.closes = max(block.closes, parse_instant(record["closes"]))
        return block


@dataclass
class _ArchivedSum:
    """The sum over epochs whose own accounting is no longer kept."""

    key: int  # of the row
    digest: str
    through: int = -1  # index of the last of these epochs
    account: Account = field(default_factory=Account)


class Archive:
    """The archived accounting of a stream."""

    def __init__(self, landing: Landing, rows: Mapping[str, Mapping[int, bytes]]) -> None:
        """Read the heads of the rows; epochs are read at their first use."""
        self._landing = landing
        self._blocks: dict[_Place, _SumsBlock] = {}
        self._sums: dict[str, _ArchivedSum] = {}
        self._held: dict[_Place, _Records] = {}
        for content in rows[ARCHIVE].values():
            head = content[_LENGTH.size :][: _LENGTH.unpack_from(content)[0]]
            block = read_fields(_SumsBlock, json.loads(head))
            self._blocks[block.digest, block.block] = block
        for content in rows[SUMS].values():
            one = read_fields(_ArchivedSum, json.loads(content))
            self._sums[one.digest] = one

    # --- looking

    def sums(self) -> Archived | None:
        """Numbers and sums of the archive, for the record of the run; None where nothing is archived."""
        if not self._blocks and not self._sums:
            return None
        blocks = self._blocks.values()
        epochs, withheld = sum(block.epochs for block in blocks), sum(block.withheld for block in blocks)
        return Archived(epochs, withheld, self.account)

    @property
    def account(self) -> Account:
        """The sum over all archived epochs, with the sums of the table ``sums``."""
        total = Account()
        for block in self._blocks.values():
            total.merge(block.account)
        for one in self._sums.values():
            total.merge(one.account)
        return total

    def __contains__(self, key: EpochKey) -> bool:
        """Whether an epoch is archived, or part of a sum."""
        known = self._sums.get(key[0])
        return (known is not None and key[1] <= known.through) or self.find(key) is not None

    def find(self, key: EpochKey) -> dict[str, Any] | None:
        """The archived accounting of an epoch, as :meth:`EpochAccounting.as_record` has it, or None."""
        place = _place(key)
        if place in self._blocks and place not in self._held:
            with self._landing.reading() as rows:
                self._hold(place, self._read(rows, place))
        return self._held.get(place, {}).get(key[1])

    def records(self) -> Iterable[dict[str, Any]]:
        """The archived accounting of all epochs, one by one."""
        for place in list(self._blocks):
            with self._landing.reading() as rows:
                accounts = self._read(rows, place)
            yield from accounts.values()

    # --- changing

    def add(self, rows: Transaction, records: Iterable[dict[str, Any]], key: int) -> int:
        """Add accounting of epochs."""
        places: dict[_Place, _Records] = {}
        for record in records:
            places.setdefault(_place((record["digest"], record["epoch"])), {})[record["epoch"]] = record
        for place, new in places.items():
            known = self._blocks.get(place)
            self._write(rows, place, known.key if known else key, {**self._read(rows, place), **new})
            key += known is None
        return key

    def take_out(self, rows: Transaction, key: EpochKey) -> EpochAccounting | None:
        """Remove an epoch and return its accounting; None where it is not archived, or a part of a sum."""
        place = _place(key)
        records = dict(self._read(rows, place))
        record = records.pop(key[1], None)
        if record is None:
            return None
        if records:
            self._write(rows, place, self._blocks[place].key, records)
        else:
            self._drop(rows, place)
        return read_fields(EpochAccounting, record)

    def forget(self, rows: Transaction, before: int, key: int) -> int:
        """Replace rows by sums, where all epochs of a row closed before a time."""
        for place in [place for place, block in self._blocks.items() if block.closes <= before]:
            digest, _ = place
            known = self._sums.get(digest)
            if known is None:
                known, key = _ArchivedSum(key, digest), key + 1
                self._sums[digest] = known
            known.account.merge(self._blocks[place].account)
            known.through = max(known.through, *self._read(rows, place))
            self._drop(rows, place)
            rows.put(SUMS, known.key, json.dumps(write_fields(known)).encode())
        return key

    def _drop(self, rows: Transaction, place: _Place) -> None:
        rows.remove(ARCHIVE, self._blocks.pop(place).key)
        self._held.pop(place, None)

    def _hold(self, place: _Place, records: _Records) -> None:
        self._held = dict(list(self._held.items())[1 - _HELD :])
        self._held[place] = records

    def _read(self, rows: Transaction, place: _Place) -> _Records:
        if place in self._held or place not in self._blocks:
            return self._held.get(place, {})
        content = rows.row(ARCHIVE, self._blocks[place].key)
        if content is None:
            raise DamageError("a row of archived accounting is damaged or gone")
        begin = _LENGTH.size + _LENGTH.unpack_from(content)[0]
        lines = zlib.decompress(content[begin:]).splitlines()
        return {record["epoch"]: record for record in map(json.loads, lines)}

    def _write(self, rows: Transaction, place: _Place, key: int, records: _Records) -> None:
        block = _SumsBlock.of(key, place, records.values())
        packed = json.dumps(write_fields(block)).encode()
        lines = "".join(f"{json.dumps(records[epoch])}\n" for epoch in sorted(records))
        rows.put(ARCHIVE, key, _LENGTH.pack(len(packed)) + packed + zlib.compress(lines.encode()))
        self._blocks[place] = block
        self._hold(place, records)


def _place(key: EpochKey) -> _Place:
    return key[0], key[1] // _BLOCK
