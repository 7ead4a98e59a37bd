"""A device's folder: state and waiting reports in one store, a lock, and a sentinel that shows a lost store.

The sentinel holds how often the store has changed, and gets each new number after the store has changed and
before anything leaves the device. So a store with a smaller number is an older copy. One with a larger number
was changed by a process that ended right after; what that process did is made durable before it is relied on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from ldpbeam.client.state import pack_state, unpack_state
from ldpbeam.client.storage import Records, Storage, new_state, withdrawn_state
from ldpbeam.durable.counter import FileCounter
from ldpbeam.durable.errors import DamageError, HeldError, VersionError
from ldpbeam.durable.folder import make_folder, make_lasting_folder, sync_folder
from ldpbeam.durable.lock import Lock
from ldpbeam.durable.store import KEYS, RowStore, Transaction
from ldpbeam.errors import DeviceError, LdpError, disk_error
from ldpbeam.wire import device_state_pb2

VERSION = 1
"""Of the format."""

PATIENCE = 30.0
"""Seconds to wait for another process that uses the folder."""

_STATE, _OUTBOX = "state", "outbox"
_STATE_KEY = 1
_HEAD = Struct("<Q8sq")


class WaitingReport(NamedTuple):
    """A report that waits.

    Attributes:
        due: when it is to be sent, seconds since 1970.
        digest: of its collection, 16 hexadecimal digits.
        epoch: of the report.
    """

    due: int
    digest: str
    epoch: int

    @property
    def key(self) -> int:
        """Of its row: the same for an epoch of a collection, whenever the report is due."""
        return int.from_bytes(sha256(f"{self.digest} {self.epoch}".encode()).digest(), "little") % KEYS


class FolderRecords(Records):
    """The records in a folder within a transaction; made by :meth:`DeviceFolder.transaction`."""

    def __init__(
        self, rows: Transaction, commit: Callable[[Transaction, device_state_pb2.DeviceState], None]
    ) -> None:
        self._rows = rows
        self._commit = commit
        content, _ = rows.rows(_STATE)
        if set(content) != {_STATE_KEY}:
            raise DamageError("its row is damaged or gone")
        self.state = unpack_state(content[_STATE_KEY])
        self._reports, lost = rows.rows(_OUTBOX)
        self.state.damaged += lost

    def __len__(self) -> int:
        """How many reports wait."""
        return len(self._reports)

    @property
    def waiting(self) -> list[WaitingReport]:
        """The reports that wait, the first due first."""
        return sorted(_unpack(report)[0] for report in self._reports.values())

    def save(self) -> None:
        """Keep the state, and what was put into the outbox or taken out.

        Raises:
            OSError: the disk refuses. The records are as they were, or as they are here.
        """
        self._commit(self._rows, self.state)

    def put(self, waiting: WaitingReport, report: bytes) -> None:
        """Add a report."""
        self._reports[waiting.key] = content = _pack(waiting, report)
        self._rows.put(_OUTBOX, waiting.key, content)

    def remove(self, waiting: WaitingReport) -> None:
        """Remove a report, where it still waits."""
        if self._reports.pop(waiting.key, None) is not None:
            self._rows.remove(_OUTBOX, waiting.key)

    def postpone(self, waiting: WaitingReport, due: int) -> None:
        """Give a report that waits another time."""
        _, report = _unpack(self._reports[waiting.key])
        self.put(waiting._replace(due=due), report)


def report_of(rows: Transaction, waiting: WaitingReport) -> bytes | None:
    """The bytes of a report; None where it waits no more, or is damaged."""
    content = rows.row(_OUTBOX, waiting.key)
    return None if content is None else _unpack(content)[1]


class DeviceFolder(Storage):
    """One device's folder.

    Args:
        folder: of the device; made where it does not exist.
        sentinel: file that tells a lost state and an older one. Kept in another place, it tells the loss of
            the whole folder too.
    """

    def __init__(self, folder: Path, sentinel: Path | None = None) -> None:
        """Look at the folder; make the state of a new device where there never was one.

        Raises:
            DeviceError: the state is lost, damaged, older than it was, or of another version; another process
                holds the folder; this Python has no SQLite; or the disk refuses.
        """
        self._path = folder / "device.sqlite"
        self._sentinel = FileCounter(sentinel or folder / "sentinel")
        self._lock = folder / "lock"
        with self._errors():
            self._store = RowStore(self._path, "ldpbeam device", VERSION, (_STATE, _OUTBOX))
            make_folder(folder)
            make_folder(self._sentinel.path.parent)
            with Lock(self._lock).held(PATIENCE):
                if self._sentinel_number() is None and not self._store.exists():
                    # Before there is something to lose: else the state could go with its folder.
                    make_lasting_folder(folder)
                    make_lasting_folder(self._sentinel.path.parent)
                    self._create(new_state(), 0)
        with self.transaction():
            pass

    @contextmanager
    def transaction(self) -> Iterator[FolderRecords]:
        """The records of the folder; one process or thread after the other.

        Reports that are damaged or gone do not wait any more, and are counted in the state.

        Raises:
            DeviceError: as for the class.
        """
        with self._opened() as rows:
            yield FolderRecords(rows, self._commit)

    def read(self, waiting: WaitingReport) -> bytes | None:
        """The bytes of a report; None where it waits no more, or is damaged.

        Raises:
            DeviceError: as for the class.
        """
        with self._opened() as rows:
            return report_of(rows, waiting)

    def withdraw(self) -> None:
        """Overwrite everything; the sentinel and a mark stay, so that no second device begins here.

        A store that cannot be read is removed, and one with the mark takes its place.

        Raises:
            DeviceError: the disk is full or refuses; to be called again.
        """
        with self._errors(), Lock(self._lock).held(PATIENCE):
            try:
                number = self._sentinel.read() or 0
            except DamageError:
                number = 0
            try:
                with self._store.transaction() as rows:
                    for table in (_STATE, _OUTBOX):
                        rows.clear(table)
                    rows.counter = max(rows.counter, number)
                    self._commit(rows, withdrawn_state())
            except (DamageError, VersionError, FileNotFoundError):
                self._store.remove()
                self._create(withdrawn_state(), number)

    def _create(self, state: device_state_pb2.DeviceState, counter: int) -> None:
        with self._store.creation(counter) as rows:
            self._commit(rows, state)

    def _commit(self, rows: Transaction, state: device_state_pb2.DeviceState) -> None:
        rows.put(_STATE, _STATE_KEY, pack_state(state))
        rows.commit()
        self._sentinel.write(rows.counter)

    @contextmanager
    def _opened(self) -> Iterator[Transaction]:
        """The rows, once they are known to be the newest. The lock is opened each time: no fork shares it."""
        with self._errors(), ExitStack() as held:
            try:
                held.enter_context(Lock(self._lock).held(PATIENCE))
                rows = held.enter_context(self._store.transaction())
            except FileNotFoundError:
                raise self._lost() from None
            self._require_newest(rows.counter)
            yield rows

    def _require_newest(self, counter: int) -> None:
        """Compare the store with the sentinel, which learns of changes that it does not know.

        Raises:
            DeviceError: the store is an older copy.
        """
        number = self._sentinel_number()
        if number is not None and counter < number:
            raise DeviceError(
                "E-DEVICE-STATE-OLDER",
                f"the device's state is an older copy: it has changed {counter} times, and the sentinel "
                f"knows of {number}; what was spent since the copy would be spent again",
                where=str(self._path),
                remedy=f"Restore the newest state, or remove {self._sentinel.path} to go on from this one.",
            )
        if number is None or counter > number:
            # The process that changed it may have ended before the folder was on disk.
            sync_folder(self._path.parent)
            self._sentinel.write(counter)

    def _sentinel_number(self) -> int | None:
        try:
            return self._sentinel.read()
        except DamageError:
            raise DeviceError(
                "E-DEVICE-SENTINEL-DAMAGED",
                "the sentinel is damaged, so that nothing tells an older copy of the state from the newest",
                where=str(self._sentinel.path),
                remedy="Remove it, unless the state beside it is gone or comes from a copy.",
            ) from None

    def _lost(self) -> DeviceError:
        return DeviceError(
            "E-DEVICE-STATE-LOST",
            "this device reported before, and its state is gone; a new one would draw its permanent "
            "responses again, and each new draw spends up to ε∞ once more for the same value",
            where=str(self._path),
            remedy=f"Restore the state from a copy, or remove {self._sentinel.path} to spend that once more.",
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors of the disk and of what lies on it as DeviceErrors; other OSErrors pass."""
        where = str(self._path)
        try:
            yield
        except HeldError:
            raise DeviceError(
                "E-DEVICE-BUSY",
                f"another process has held the device's folder for {PATIENCE:.0f} seconds",
                where=where,
                remedy="End it, or ask again later.",
            ) from None
        except DamageError as error:
            raise DeviceError(
                "E-DEVICE-STATE-DAMAGED",
                f"the device's state is damaged: {error}; nothing is reported, because a new draw would "
                "spend the device's privacy again",
                where=where,
                remedy="Restore the folder from a copy; for an older copy, remove "
                f"{self._sentinel.path} too.",
            ) from None
        except VersionError as error:
            raise DeviceError(
                "E-DEVICE-STATE-VERSION",
                f"the device's state has format {error.version}, and this program reads format "
                f"{error.expected}",
                where=where,
                remedy="Use the version of the program that wrote it, or a newer one.",
            ) from None
        except OSError as error:
            refused = disk_error(error, str(error.filename or where))
            if refused is None:
                raise
            raise _of_device(refused) from error
        except LdpError as error:
            raise error if isinstance(error, DeviceError) else _of_device(error) from None


def _of_device(error: LdpError) -> DeviceError:
    return DeviceError(error.code, error.message, where=error.where, remedy=error.remedy)


def _pack(waiting: WaitingReport, report: bytes) -> bytes:
    return _HEAD.pack(waiting.due, bytes.fromhex(waiting.digest), waiting.epoch) + report


def _unpack(content: bytes) -> tuple[WaitingReport, bytes]:
    due, digest, epoch = _HEAD.unpack_from(content)
    return WaitingReport(due, digest.hex(), epoch), content[_HEAD.size :]
