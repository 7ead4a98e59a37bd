"""A device's folder: state and waiting reports in one store, a lock, and a sentinel that shows a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from ldpbeam.client.state import pack_state, unpack_state
from ldpbeam.client.storage import Records, Storage, new_state, withdrawn_state
from ldpbeam.durable.errors import (
    DamageError,
    HeldError,
    LostError,
    OlderError,
    SentinelError,
    VersionError,
    Words,
    in_words,
)
from ldpbeam.durable.folder import make_folder, make_lasting_folder
from ldpbeam.durable.newest import NewestStore
from ldpbeam.durable.store import KEYS, Transaction
from ldpbeam.errors import DeviceError, LdpError, disk_errors
from ldpbeam.wire import device_state_pb2

VERSION = 1
"""Of the format."""

PATIENCE = 30.0
"""Seconds to wait for another process that uses the folder."""

_STATE, _OUTBOX = "state", "outbox"
_STATE_KEY = 1
_HEAD = Struct("<Q8sq")


class WaitingReport(NamedTuple):
    due: int
    digest: str
    epoch: int

    @property
    def key(self) -> int:
        return int.from_bytes(sha256(f"{self.digest} {self.epoch}".encode()).digest(), "little") % KEYS


class FolderRecords(Records):
    """The records in a folder within a transaction; made by :meth:`DeviceFolder.transaction`."""

    def __init__(self, rows: Transaction, commit: Callable[[Transaction], None]) -> None:
        self._rows = rows
        self._commit = commit
        content, _ = rows.rows(_STATE)
        if set(content) != {_STATE_KEY}:
            raise DamageError("its row is damaged or gone")
        self.state = unpack_state(content[_STATE_KEY])
        self._reports, lost = rows.rows(_OUTBOX)
        self.state.damaged += lost

    def __len__(self) -> int:
        return len(self._reports)

    @property
    def waiting(self) -> list[WaitingReport]:
        return sorted(_unpack(report)[0] for report in self._reports.values())

    def save(self) -> None:
        _put_state(self._rows, self.state)
        self._commit(self._rows)

    def put(self, waiting: WaitingReport, report: bytes) -> None:
        self._reports[waiting.key] = content = _pack(waiting, report)
        self._rows.put(_OUTBOX, waiting.key, content)

    def remove(self, waiting: WaitingReport) -> None:
        if self._reports.pop(waiting.key, None) is not None:
            self._rows.remove(_OUTBOX, waiting.key)

    def postpone(self, waiting: WaitingReport, due: int) -> None:
        _, report = _unpack(self._reports[waiting.key])
        self.put(waiting._replace(due=due), report)


_WORDS = {
    HeldError: Words(
        "E-DEVICE-BUSY",
        "another process has held the device's folder for too long",
        "End it, or ask again later.",
    ),
    DamageError: Words(
        "E-DEVICE-STATE-DAMAGED",
        "the device's state is damaged: {error}; nothing is reported, because a new draw would spend the "
        "device's privacy again",
        "Restore the folder from a copy; for an older copy, remove {sentinel} too.",
    ),
    LostError: Words(
        "E-DEVICE-STATE-LOST",
        "this device reported before, and its state is gone; a new one would draw its permanent responses "
        "again, and each new draw spends up to ε∞ once more for the same value",
        "Restore the state from a copy, or remove {sentinel} to spend that once more.",
    ),
    OlderError: Words(
        "E-DEVICE-STATE-OLDER",
        "the device's state is an older copy: {error}; what was spent since the copy would be spent again",
        "Restore the newest state, or remove {sentinel} to go on from this one.",
    ),
    VersionError: Words(
        "E-DEVICE-STATE-VERSION",
        "the device's state cannot be read: {error}",
        "Use the version of the program that wrote it, or a newer one.",
    ),
    SentinelError: Words(
        "E-DEVICE-SENTINEL-DAMAGED",
        "the sentinel is damaged, so that nothing tells an older copy of the state from the newest",
        "Remove it, unless the state beside it is gone or comes from a copy.",
    ),
}


class DeviceFolder(Storage):
    def __init__(self, folder: Path, sentinel: Path | None = None) -> None:
        self._path = folder / "device.sqlite"
        self._sentinel = sentinel or folder / "sentinel"
        with self._errors():
            tables = (_STATE, _OUTBOX)
            self._newest = NewestStore(self._path, "ldpbeam device", VERSION, tables, self._sentinel)
            make_folder(folder)
            make_folder(self._sentinel.parent)
            with self._newest.lock().held(PATIENCE):
                if self._newest.never_was():
                    # Before there is something to lose: else the state could go with its folder.
                    make_lasting_folder(folder)
                    make_lasting_folder(self._sentinel.parent)
                    self._newest.create(lambda rows: _put_state(rows, new_state()))

    @contextmanager
    def transaction(self) -> Iterator[FolderRecords]:
        with self._errors(), self._newest.transaction(PATIENCE) as rows:
            yield FolderRecords(rows, self._newest.commit)

    def read(self, waiting: WaitingReport) -> bytes | None:
        with self._errors(), self._newest.transaction(PATIENCE) as rows:
            content = rows.row(_OUTBOX, waiting.key)
            return None if content is None else _unpack(content)[1]

    def withdraw(self) -> None:
        """Overwrite everything; the sentinel and a mark stay, so that no second device begins here."""
        newest = self._newest
        with self._errors(), newest.lock().held(PATIENCE):
            try:
                number = newest.sentinel.read() or 0
            except DamageError:
                number = 0
            try:
                with newest.store.transaction() as rows:
                    rows.clear()
                    rows.counter = max(rows.counter, number)
                    _put_state(rows, withdrawn_state())
                    newest.commit(rows)
            except (DamageError, VersionError, FileNotFoundError):
                newest.store.remove()
                newest.create(lambda rows: _put_state(rows, withdrawn_state()), number)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors of the disk and of what lies on it as DeviceErrors; other OSErrors pass."""
        try:
            with disk_errors(default=str(self._path)), in_words(_WORDS, self._path, self._sentinel):
                yield
        except LdpError as error:
            if isinstance(error, DeviceError):
                raise
            raise DeviceError(error.code, error.message, where=error.where, remedy=error.remedy) from None


def _put_state(rows: Transaction, state: device_state_pb2.DeviceState) -> None:
    rows.put(_STATE, _STATE_KEY, pack_state(state))


def _pack(waiting: WaitingReport, report: bytes) -> bytes:
    return _HEAD.pack(waiting.due, bytes.fromhex(waiting.digest), waiting.epoch) + report


def _unpack(content: bytes) -> tuple[WaitingReport, bytes]:
    due, digest, epoch = _HEAD.unpack_from(content)
    return WaitingReport(due, digest.hex(), epoch), content[_HEAD.size :]
