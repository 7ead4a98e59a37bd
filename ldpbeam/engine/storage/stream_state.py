"""The state of the local engine, in memory and in its file; memory and file change together.

A segment, its entries in the accounting, and the positions in files are one change of the file. So are the
accounting of a result and the state after it. The files in ``accounting/`` are for readers, and the engine
reads none of them: where one differs from the published accounting, a start writes it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ldpbeam.accounting import Account, Accounting, Key
from ldpbeam.admission import ReportColumns
from ldpbeam.collection.collection import digest_hex
from ldpbeam.durable.errors import DamageError
from ldpbeam.durable.record import read_fields, write_fields
from ldpbeam.durable.store import Transaction
from ldpbeam.engine.storage import landing as tables
from ldpbeam.engine.storage.epoch_state import EpochState, UnattributedState
from ldpbeam.engine.storage.landing import Group, Landing
from ldpbeam.engine.storage.refused_messages import RefusedMessages
from ldpbeam.engine.storage.segment import EpochKey, RefusedMessage, Segment
from ldpbeam.records.run_record import Archived, ClockRecord
from ldpbeam.schedule import Schedule
from ldpbeam.transforms.coders import ReportColumnsCoder
from ldpbeam.transforms.sinks.accounting import (
    EpochAccounting,
    Numbered,
    UnattributedAccounting,
    accounting_content,
    write_accounting,
)
from ldpbeam.transforms.sinks.atomic import remove
from ldpbeam.transforms.sinks.file_record import FileRecord
from ldpbeam.transforms.sinks.rejects import write_rejects

_ROW = 1
"""Key of the one row of the table of the engine."""
_NUMBERS = ("number", "watermark", "messages", "unstamped", "next_key")


class StreamState:
    """The state of the engine on one output directory."""

    def __init__(self, landing: Landing, output: str, schedules: Mapping[str, Schedule]) -> None:
        """Read the engine's file, and write the files of ``accounting/`` again that differ from it."""
        self._landing, self._output, self._schedules = landing, output, schedules
        self.number = self.watermark = self.messages = self.unstamped = 0
        self._next_key = 1
        self.clock: ClockRecord | None = None
        self.epochs: dict[EpochKey, EpochState] = {}
        self._unknown: dict[EpochKey, EpochState] = {}
        """Epochs of collections that an earlier engine was given, and this one is not."""
        self.unattributed: dict[str, UnattributedState] = {}
        self.landed: dict[EpochKey, Group] = {}
        self._archive: dict[EpochKey, int] = {}
        """Closed epochs of which only the sums are in memory, and the keys of their rows."""
        self._sums = Archived(0, 0, Account())
        self.taken: dict[str, int] = {}
        self._file_rows: dict[str, int] = {}
        rows = landing.open()
        with landing.parsing():
            self._unpack(rows)
        self._clear()
        self._restore()

    def _unpack(self, rows: Mapping[str, Mapping[int, bytes]]) -> None:
        if rows[tables.ENGINE]:
            line = json.loads(rows[tables.ENGINE][_ROW])
            self.number, self.watermark, self.messages, self.unstamped, self._next_key = (
                line[name] for name in _NUMBERS
            )
            self.clock = None if line["clock"] is None else read_fields(ClockRecord, line["clock"])
        for row, content in rows[tables.OTHERS].items():
            digest, other = UnattributedState.unpack(row, content)
            self.unattributed[digest] = other
        for row, content in rows[tables.EPOCHS].items():
            line = json.loads(content)
            key = line["digest"], line["epoch"]
            if line["archived"]:
                self._archive[key] = row
                self._sum(1, line["published"])
                continue
            epochs = self.epochs if key[0] in self._schedules else self._unknown
            epochs[key] = EpochState.unpack_epoch(row, line)
        for content in rows[tables.LANDED].values():
            digest, epoch, *group = json.loads(content)
            self.landed[digest, epoch] = Group(*group)
        for key, state in (*self.epochs.items(), *self._unknown.items()):
            state.landed = self.landed.get(key)
        self._refused = RefusedMessages(rows[tables.REFUSED])
        for row, content in rows[tables.FILES].items():
            name, end = json.loads(content)
            self.taken[name], self._file_rows[name] = end, row

    def _sum(self, sign: int, record: Mapping[str, Any]) -> None:
        """Count an epoch among the archived ones (1), or no longer (-1)."""
        account, old = Account.from_record(record["accounting"]), self._sums
        total = old.account.copy()
        (total.merge if sign > 0 else total.subtract)(account)
        withheld = bool(record["revisions"]) and bool(record["revisions"][-1]["withheld"])
        self._sums = Archived(old.epochs + sign, old.withheld + sign * withheld, total)

    def _archived_line(self, rows: Transaction, row: int) -> dict[str, Any]:
        content = rows.row(tables.EPOCHS, row)
        if content is None:
            raise DamageError("a row of archived accounting is damaged or gone")
        return dict(json.loads(content))

    def _clear(self) -> None:
        """Remove files that an earlier engine had not finished when it was killed."""
        for pattern in ("*/*.tmp", "run.json.*.tmp"):
            for path in Path(self._output).glob(pattern):
                path.unlink()
        # Tables of rejects are written before their segment is landed.
        remove(self._output, f"rejects/{_rejects(self.number + 1)}.parquet")

    def _restore(self) -> None:
        """Write the files of ``accounting/`` again that differ from the published accounting."""
        accounts: list[EpochAccounting | UnattributedAccounting] = [
            state.published for _, state in self._all_epochs() if state.published
        ]
        accounts += [other.accounting(digest) for digest, other in self.unattributed.items() if other.segment]
        for accounting in accounts:
            there = b""
            with suppress(OSError):
                there = Path(self._output, accounting.file_name).read_bytes()
            if there != accounting_content(accounting):
                write_accounting(self._output, accounting)

    # --- asking

    def __contains__(self, key: object) -> bool:
        """Whether an epoch was published as closed."""
        assert isinstance(key, tuple)  # noqa: S101 - digest and epoch
        known = self.epochs.get(key)
        return known.closed if known is not None else key in self._archive

    @property
    def landed_rows(self) -> int:
        """Rows of reports that are kept: one for each epoch of a segment, or one of many segments."""
        return sum(group.rows for group in self.landed.values())

    def read(self, keys: Iterable[EpochKey]) -> dict[EpochKey, list[ReportColumns]]:
        """The reports of epochs, in the order in which they were landed."""
        coder = ReportColumnsCoder()
        with self._landing.reading() as rows:
            return {
                key: [coder.decode(content) for content in self.landed[key].read(rows)]
                for key in keys
                if key in self.landed
            }

    def refused(self, number: int) -> list[RefusedMessage]:
        """Refused messages of a segment that no replay has admitted; none once they were removed."""
        with self._landing.reading() as rows:
            return self._refused.read(rows, number)

    def is_gone(self, key: EpochKey, horizon: int) -> bool:
        """Whether an epoch closed before ``horizon`` (microseconds) and will not be counted again."""
        if key[0] not in self._schedules or self._schedules[key[0]].close(key[1]) > horizon:
            return False
        known = self.epochs.get(key)
        return known is None or known.is_finished

    def revisions(self) -> dict[EpochKey, int]:
        """Newest revision of each epoch that has one, archived ones among them."""
        newest = {}
        with self._landing.reading() as rows:
            for key, row in self._archive.items():
                revisions = self._archived_line(rows, row)["published"]["revisions"]
                if key[0] in self._schedules and revisions:
                    newest[key] = int(revisions[-1]["revision"])
        newest.update({k: known.next_revision - 1 for k, known in self.epochs.items() if known.next_revision})
        return newest

    @property
    def accounting(self) -> Accounting:
        """The published accounting, without the archive."""
        accounts: dict[Key, Account] = {k: known.account for k, known in self._all_epochs()}
        accounts.update({(digest, None): known.account for digest, known in self.unattributed.items()})
        return Accounting(accounts)

    @property
    def files(self) -> list[FileRecord]:
        """Published tables, without those of the archive."""
        return [file for _, known in self._all_epochs() for file in known.files]

    @property
    def archived(self) -> Archived | None:
        """Numbers and sums of the archive; None where nothing was ever archived."""
        return self._sums if self._archive else None

    @property
    def total(self) -> Account:
        """The account of all landed records, published or not."""
        total = self._sums.account.copy()
        for _, known in self._all_epochs():
            total.merge(known.total)
        for unattributed in self.unattributed.values():
            total.merge(unattributed.total)
        return total

    def _all_epochs(self) -> Iterator[tuple[EpochKey, EpochState]]:
        # Of collections that are not given, only what is published is told.
        yield from ((key, known) for key, known in self._unknown.items() if known.published)
        yield from self.epochs.items()

    # --- landing

    def land(self, segment: Segment) -> None:
        """Keep a segment with its accounting and positions; on disk when this returns."""
        if segment.rejections:
            # Before it is landed: a number whose table is there and which was not landed is given again.
            source = f"{tables.FOLDER}/{self._landing.path.name}#{self.number + 1}"
            moved = [replace(rejection, source=source) for rejection in segment.rejections]
            write_rejects(self._output, _rejects(self.number + 1), moved)
        with self._landing.change() as rows:
            self.number += 1
            self.watermark = segment.watermark  # lower than before, where a clock was taken back
            self.messages += segment.messages
            self.unstamped += segment.unstamped
            self._keep_reports(rows, segment)
            if segment.refused:
                self._refused.add(rows, self.number, segment, self._new_key)
            if segment.replayed:
                self._refused.take_up(rows, segment.replayed, self._new_key)
            for (key, what), count in segment.entries:
                self._of(rows, key).unpublished_entries[what] += count
            for key in self._keys(segment):
                self._put(rows, key)
            for name, end in segment.taken:
                self.taken[name] = end
                if name not in self._file_rows:
                    self._file_rows[name] = self._new_key()
                rows.put(tables.FILES, self._file_rows[name], json.dumps([name, end]).encode())
            self._put_engine(rows)

    @staticmethod
    def _keys(segment: Segment) -> set[Key]:
        """The epochs, or digests without an epoch, whose accounting a segment changes."""
        keys: set[Key] = {key for (key, _), _ in segment.entries}
        return keys | {(digest_hex(some[0].digest), some[0].epoch) for some in segment.admitted}

    def _keep_reports(self, rows: Transaction, segment: Segment) -> None:
        for columns in segment.admitted:
            key = (digest_hex(columns[0].digest), columns[0].epoch)
            group = self._group(key)
            content = b"".join(ReportColumnsCoder.views(columns))
            group.add(rows, content, sum(map(len, columns)))
            self._put_group(rows, key, group)
            state = self._of(rows, key)
            assert isinstance(state, EpochState)  # noqa: S101 - it has an epoch
            state.landed, state.has_new_reports = group, True

    def _group(self, key: EpochKey) -> Group:
        if key not in self.landed:
            self.landed[key] = Group(self._new_key())
        return self.landed[key]

    def _put_group(self, rows: Transaction, key: EpochKey, group: Group) -> None:
        rows.put(tables.LANDED, group.number, json.dumps([*key, *vars(group).values()]).encode())

    def _of(self, rows: Transaction, key: Key) -> UnattributedState:
        """The state of an epoch, or of records without one: known, back from the archive, or new."""
        digest, epoch = key
        if epoch is None:
            if digest not in self.unattributed:
                self.unattributed[digest] = UnattributedState(row=self._new_key())
            return self.unattributed[digest]
        known = self.epochs.get((digest, epoch))
        if known is None:
            row = self._archive.pop((digest, epoch), None)
            if row is None:
                known = EpochState(row=self._new_key())
            else:
                line = self._archived_line(rows, row)
                known = EpochState.unpack_epoch(row, line)
                self._sum(-1, line["published"])
            known.landed = self.landed.get((digest, epoch))
            self.epochs[digest, epoch] = known
        return known

    def _put(self, rows: Transaction, key: Key) -> None:
        """Write the row of a state."""
        digest, epoch = key
        if epoch is None:
            other = self.unattributed[digest]
            rows.put(tables.OTHERS, other.row, other.pack(digest))
        else:
            state = self.epochs[digest, epoch]
            rows.put(tables.EPOCHS, state.row, state.pack_epoch((digest, epoch)))

    def _put_engine(self, rows: Transaction) -> None:
        numbers = (self.number, self.watermark, self.messages, self.unstamped, self._next_key)
        clock = self.clock and write_fields(self.clock)
        line = {**dict(zip(_NUMBERS, numbers, strict=True)), "clock": clock}
        rows.put(tables.ENGINE, _ROW, json.dumps(line).encode())

    def _new_key(self) -> int:
        """A key for a row or a group; no other one gets it, once it is on disk."""
        self._next_key += 1
        return self._next_key - 1

    # --- publishing

    def keep_number(self, key: EpochKey, number: Numbered) -> None:
        """Give a number to a result; on disk when this returns, so that no other result gets it."""
        with self._landing.change() as rows:
            self.epochs[key].numbered = number
            self._put(rows, key)

    def publish(self, accounts: Iterable[EpochAccounting]) -> None:
        """Keep the accounting of published results, then write it for readers."""
        accounts = list(accounts)
        with self._landing.change() as rows:
            for accounting in accounts:
                state = self.epochs[accounting.key]
                state.set_published(accounting)
                self._put(rows, accounting.key)
                self.watermark = state.last_result_watermark
            self._put_engine(rows)
        for accounting in accounts:
            write_accounting(self._output, accounting)

    def maintain(
        self,
        *,
        clock: ClockRecord,
        horizon: int,
        in_memory: int,
        exists: Callable[[str], bool],
    ) -> None:
        """Keep the clock, publish the accounts of records without an epoch, and keep the file small."""
        others = [digest for digest, other in self.unattributed.items() if other.unpublished_entries]
        done = self._done(in_memory)
        for key in done:
            # Before they are archived, since a start writes again what is not.
            published = self.epochs[key].published
            assert published is not None  # noqa: S101 - it is closed
            remove(self._output, published.file_name)
        with self._landing.change() as rows:
            self.clock = clock
            for digest in others:
                other = self.unattributed[digest]
                other.account, other.segment = other.total, self.number
                other.unpublished_entries.clear()
                self._put(rows, (digest, None))
            removed = self._remove_landed(rows, horizon, exists)
            self._fold(rows, done)
            self._put_engine(rows)
        if removed and self._refused.size + sum(g.size for g in self.landed.values()) <= tables.AT_ONCE:
            self._landing.rewrite()
        for digest in others:
            write_accounting(self._output, self.unattributed[digest].accounting(digest))

    def _remove_landed(self, rows: Transaction, horizon: int, exists: Callable[[str], bool]) -> int:
        """Remove reports and refused messages whose time is over, of many some now; gives their bytes."""
        removed = 0
        for key in [key for key in self.landed if self.is_gone(key, horizon)]:
            if removed >= tables.AT_ONCE:
                break
            group = self.landed[key]
            removed += group.size
            if not group.shrink(rows):
                self._put_group(rows, key, group)
                break
            rows.remove(tables.LANDED, group.number)
            del self.landed[key]
            if key in self.epochs:
                self.epochs[key].landed = None
        if removed:
            for name in [name for name in self.taken if not exists(name)]:
                del self.taken[name]
                rows.remove(tables.FILES, self._file_rows.pop(name))
        return removed + self._refused.remove(rows, horizon)

    def _done(self, in_memory: int) -> list[EpochKey]:
        """Finished epochs that are to go into the archive."""
        done = [key for key, known in self.epochs.items() if known.is_finished]
        if len(done) <= 2 * in_memory:
            return []
        done.sort(key=lambda key: (self._schedules[key[0]].close(key[1]), key))
        return done[: len(done) - in_memory]

    def _fold(self, rows: Transaction, done: Iterable[EpochKey]) -> None:
        for key in done:
            state = self.epochs.pop(key)
            assert state.published is not None  # noqa: S101 - it is closed
            rows.put(tables.EPOCHS, state.row, state.pack_epoch(key, archived=True))
            self._archive[key] = state.row
            self._sum(1, state.published.as_record())


def _rejects(number: int) -> str:
    return f"rejects-segment-{number:010d}"
