"""The clients that are audited: something that gives the bytes of a report for a value and an epoch."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ldpbeam.audit.law.pairs import Text
from ldpbeam.client import Device
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.slices import WHOLE, Slice
from ldpbeam.collection.values import Index


class ClientHistory(NamedTuple):
    """What a device that never reported is to report, one after the other: indices, or tuples of them."""

    values: Sequence[Any]
    epochs: Sequence[int]


def slice_in(collection: Collection, epoch: int, step: int = 0) -> Slice:
    """What a device says in an epoch: the next slice in each, so that a lasting device goes through all."""
    combinations = collection.slices.combinations or (WHOLE,)
    return combinations[(epoch + step) % len(combinations)]


class LastingDevice(ABC):
    """One device that is asked again and again."""

    @abstractmethod
    def report(self, value: Any, epoch: int, step: int = 0) -> bytes | None:
        """The bytes of a report; None where the device refuses. ``step`` is that of :func:`slice_in`."""

    @abstractmethod
    def reopen(self) -> None:
        """End the device's process, as far as it can tell, and start it again from its state."""


class Client(ABC):
    """A client for one collection."""

    name: str
    forks = False

    @abstractmethod
    def reports(self, histories: Sequence[ClientHistory]) -> list[list[bytes | None]]:
        """The reports of new devices, one per history; None where a device refuses."""

    @abstractmethod
    def device(self) -> LastingDevice:
        """A new device that lasts."""

    def for_two(
        self, other: Collection, histories: Sequence[ClientHistory]
    ) -> list[tuple[list[bytes | None], list[bytes | None]]] | None:
        """Reports of new devices to this collection and to another in turn; None where it cannot be."""
        return None


class Reporter(Protocol):
    """What a device of any Python client can do."""

    def report(self, value: Any, epoch: int, *, slice: Mapping[str, str] | None = None) -> bytes | None:
        """The bytes of a report about an index, or a tuple of them; an exception, or None, refuses it."""
        ...


class _ByIndex:
    """This project's device, asked by indices, or by texts."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def report(self, value: Any, epoch: int, *, slice: Mapping[str, str] | None = None) -> bytes | None:
        given = value.text if isinstance(value, Text) else Index(value)
        return self._device.report(given, epoch, slice=slice)


class Maker(ABC):
    name: str

    @abstractmethod
    def fresh(self, collection: Collection, folder: Path) -> Reporter:
        """A new device. ``folder`` is new too, and may be used or not."""

    @abstractmethod
    def lasting(self, collection: Collection, folder: Path) -> Reporter:
        """The device whose state is in the folder; a new one where there is none."""


class PythonClient(Client):
    forks = True

    def __init__(self, collection: Collection, maker: Maker, folder: Path) -> None:
        """Devices keep their states in folders below ``folder``."""
        self.name = maker.name
        self._collection = collection
        self._maker = maker
        self._folder = folder
        self._made = 0

    def _new_folder(self) -> Path:
        self._made += 1
        # Forked processes count on from the same number, and their devices are to be others.
        return self._folder / f"{os.getpid()}-{self._made}"

    def reports(self, histories: Sequence[ClientHistory]) -> list[list[bytes | None]]:
        sent = []
        for values, epochs in histories:
            device = self._maker.fresh(self._collection, self._new_folder())
            asked = zip(values, epochs, strict=True)
            sent.append([_asked(device, v, e, slice_in(self._collection, e)) for v, e in asked])
        return sent

    def device(self) -> LastingDevice:
        return _PythonDevice(self._maker, self._collection, self._new_folder())

    def for_two(
        self, other: Collection, histories: Sequence[ClientHistory]
    ) -> list[tuple[list[bytes | None], list[bytes | None]]]:
        sent = []
        for values, epochs in histories:
            folder = self._new_folder()
            devices = [self._maker.lasting(one, folder) for one in (self._collection, other)]
            both: tuple[list[bytes | None], list[bytes | None]] = ([], [])
            for value, epoch in zip(values, epochs, strict=True):
                for device, reports in zip(devices, both, strict=True):
                    reports.append(_asked(device, value, epoch, slice_in(other, epoch)))
            sent.append(both)
        return sent


class _PythonDevice(LastingDevice):
    def __init__(self, maker: Maker, collection: Collection, folder: Path) -> None:
        self._maker, self._collection, self._folder = maker, collection, folder
        self.reopen()

    def report(self, value: Any, epoch: int, step: int = 0) -> bytes | None:
        return _asked(self._device, value, epoch, slice_in(self._collection, epoch, step))

    def reopen(self) -> None:
        self._device = self._maker.lasting(self._collection, self._folder)


def _asked(device: Reporter, value: Any, epoch: int, slice_: Slice) -> bytes | None:
    """A client may refuse with any exception."""
    try:
        return device.report(value, epoch, slice=dict(slice_)) if slice_ else device.report(value, epoch)
    except Exception:
        return None


class Memoised(Maker):
    def __init__(self, memo: str) -> None:
        self.name = f"ldpbeam.Device, memo {memo}"
        self._memo: Any = memo

    def fresh(self, collection: Collection, folder: Path) -> Reporter:
        """Without a folder where nothing is derived: it draws the same way, and in far less time."""
        if self._memo == "stored":
            return _ByIndex(Device.ephemeral(collection))
        return self.lasting(collection, folder)

    def lasting(self, collection: Collection, folder: Path) -> Reporter:
        """As people open it; reports leave through the audit, so no outbox keeps them."""
        return _ByIndex(Device.open(collection, folder, memo=self._memo, outbox=0))


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for states, in memory where the machine has such a place: nothing in it is worth a disk."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder below it is made by tempfile
    place = memory if memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="ldpbeam-audit-", dir=place) as folder:
        yield Path(folder)
