"""What keeps a device's state: a folder (:mod:`ldpbeam.client.folder`), or memory for tests and audits."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from ldpbeam.wire import device_state_pb2


class Records(ABC):
    """The records of a device within a transaction.

    Attributes:
        state: for the caller to change and :meth:`save`; what is not saved does not last.
    """

    state: device_state_pb2.DeviceState

    @abstractmethod
    def save(self) -> None:
        """Keep the state and all other changes; durable when this returns."""


class Storage(ABC):
    @abstractmethod
    def transaction(self) -> AbstractContextManager[Records]:
        """The records; nobody else reads or changes them meanwhile."""

    @abstractmethod
    def withdraw(self) -> None:
        """Keep that the person has withdrawn, and nothing else; durable when this returns.

        Called again after a failure, it goes on.
        """


class _MemoryRecords(Records):
    def __init__(self, storage: MemoryStorage) -> None:
        self._storage = storage
        self.state = device_state_pb2.DeviceState()
        self.state.CopyFrom(storage.state)

    def save(self) -> None:
        self._storage.state.CopyFrom(self.state)


class MemoryStorage(Storage):
    """Records that end with the process."""

    def __init__(self) -> None:
        self.state = new_state()

    @contextmanager
    def transaction(self) -> Iterator[Records]:
        yield _MemoryRecords(self)

    def withdraw(self) -> None:
        self.state = withdrawn_state()


def new_state() -> device_state_pb2.DeviceState:
    return device_state_pb2.DeviceState(secret=secrets.token_bytes(32))


def withdrawn_state() -> device_state_pb2.DeviceState:
    """All that stays of a device whose person has withdrawn."""
    return device_state_pb2.DeviceState(withdrawn=True)
