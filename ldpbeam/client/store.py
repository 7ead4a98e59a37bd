"""Where a device's state is kept: in a folder that processes share, or in memory for tests and audits."""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from ldpbeam.client import durable
from ldpbeam.client.state import pack_state, unpack_state
from ldpbeam.errors import DeviceError
from ldpbeam.wire import device_state_pb2

try:
    from fcntl import LOCK_EX, flock
except ImportError:  # pragma: no cover - no such lock on Windows
    flock = None  # type: ignore[assignment]


class Store(ABC):
    """One device's state."""

    @abstractmethod
    def locked(self) -> AbstractContextManager[None]:
        """Nobody else reads or changes the state meanwhile."""

    @abstractmethod
    def load(self) -> device_state_pb2.DeviceState:
        """The state, for the caller to change and :meth:`save`."""

    @abstractmethod
    def save(self, state: device_state_pb2.DeviceState) -> None:
        """Keep a state; durable when this returns."""

    @abstractmethod
    def withdraw(self) -> None:
        """Keep that the person has withdrawn, and nothing else; durable when this returns.

        Called again after a failure, it goes on. The caller holds the lock.
        """

    @abstractmethod
    def settle(self) -> None:
        """Make durable what :meth:`load` gave: another process may have ended before it had done so."""


class MemoryStore(Store):
    """A state that ends with the process."""

    def __init__(self) -> None:
        """A new device."""
        self._state = _new_state()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else can see it."""
        yield

    def load(self) -> device_state_pb2.DeviceState:
        """A copy: what is not saved must not last."""
        state = device_state_pb2.DeviceState()
        state.CopyFrom(self._state)
        return state

    def save(self, state: device_state_pb2.DeviceState) -> None:
        """Keep it."""
        self._state = state

    def withdraw(self) -> None:
        """Forget everything else."""
        self._state = _withdrawn_state()

    def settle(self) -> None:
        """Nothing is durable here."""


class FileStore(Store):
    """A state file with a sentinel beside it, in a folder with a lock.

    Args:
        folder: of the device; made where it does not exist.
        sentinel: a file that says that there is a state. Kept in another place, it shows when the whole
            folder is lost.
    """

    def __init__(self, folder: Path, sentinel: Path | None = None) -> None:
        """Look at the folder; make the state of a new device where there never was one.

        Raises:
            DeviceError: the state is lost, damaged, or of another version; or the disk refuses.
        """
        if flock is None:  # pragma: no cover - see above
            raise NotImplementedError("a device's folder needs the file locks of POSIX systems")
        self.folder = folder
        self._path = folder / "state"
        self._sentinel = sentinel or folder / "sentinel"
        self._settled: bytes | None = None
        self._content = b""
        with durable.said(folder):
            durable.make_folder(folder)
            durable.make_folder(self._sentinel.parent)
        with self.locked():
            if not durable.exists(self._path) and not durable.exists(self._sentinel):
                # Before there is something to lose: else the state could go with the folder.
                with durable.said(folder):
                    durable.settle_above(folder)
                    durable.settle_above(self._sentinel.parent)
                self.save(_new_state())
            state = self.load()
            if not durable.exists(self._sentinel):
                # Only now: a machine that stops before has lost nothing, and must not say that it had.
                with durable.said(self._sentinel):
                    durable.write(self._sentinel, b"")
            if state.withdrawn:
                self._remove_reports()  # which a machine left that stopped while the person withdrew

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process or thread after the other. The lock is opened each time, so that no fork shares it."""
        with durable.said(self.folder):
            descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            flock(descriptor, LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def load(self) -> device_state_pb2.DeviceState:
        """The state in the file.

        Raises:
            DeviceError: as for the class.
        """
        with durable.said(self._path):
            content = durable.read(self._path)
        if content is None:
            raise DeviceError(
                "E-DEVICE-STATE-LOST",
                "this device reported before, and its state is gone; a new one would draw its permanent "
                "responses again, and each new draw spends up to ε∞ once more for the same value",
                where=str(self._path),
                remedy=f"Restore the state from a copy, or remove {self._sentinel} to spend that once more.",
            )
        if content != self._settled:
            self._settled = None
        self._content = content
        return unpack_state(content, str(self._path))

    def save(self, state: device_state_pb2.DeviceState) -> None:
        """Replace the file.

        Raises:
            DeviceError: the disk is full or refuses. The device is as it was, or as ``state`` has it.
            OSError: it fails otherwise, likewise.
        """
        self._settled = None
        content = pack_state(state)
        with durable.said(self._path):
            durable.write(self._path, content)
        self._settled = content

    def withdraw(self) -> None:
        """The state first: from then on nothing that is left is handed out or drawn with.

        The sentinel stays, and the state too, so that no second device begins here.

        Raises:
            DeviceError: the disk is full or refuses; to be called again.
        """
        self.save(_withdrawn_state())
        self._remove_reports()

    def _remove_reports(self) -> None:
        """The whole outbox, also of a device that keeps none by now."""
        outbox = self.folder / "outbox"
        with durable.said(outbox):
            if durable.exists(outbox):
                for name in durable.listed(outbox):
                    durable.remove(outbox / name)
                durable.settle(outbox)

    def settle(self) -> None:
        """Where this process did not write the file itself, the folder's names may not be durable yet."""
        if self._settled is None:
            with durable.said(self.folder):
                durable.settle(self.folder)
            self._settled = self._content


def _withdrawn_state() -> device_state_pb2.DeviceState:
    return device_state_pb2.DeviceState(withdrawn=True)


def _new_state() -> device_state_pb2.DeviceState:
    return device_state_pb2.DeviceState(secret=secrets.token_bytes(32))
