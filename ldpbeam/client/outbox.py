"""Reports that wait to be sent: durable from before they leave the device until a collector has them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ldpbeam.client import durable, order
from ldpbeam.client.store import FileStore


class Waiting(NamedTuple):
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
    def name(self) -> str:
        """Of its file."""
        return f"{self.due:012d}-{self.digest}-{self.epoch}"


class Outbox:
    """A folder with a file for each report.

    A report is handed out again until it is acknowledged, to every process that asks; a collector counts it
    once, by its id. What was written but is not part of the state, because the machine stopped between the
    two, is never handed out.

    Args:
        store: of the device.
        most: reports that wait at most; the oldest are dropped for newer ones.

    Attributes:
        dropped: how many this process has dropped.
    """

    def __init__(self, store: FileStore, most: int) -> None:
        """Make the folder."""
        if most < 1:
            raise ValueError(f"an outbox holds at least one report, not {most}")
        self._store = store
        self._folder = store.folder / "outbox"
        self._most = most
        self.dropped = 0
        with durable.said(self._folder):
            durable.make_folder(self._folder)

    def put(self, waiting: Waiting, report: bytes, reported: Sequence[order.Range]) -> None:
        """Keep a report; durable when this returns. The device holds the lock, and changes its state next.

        Args:
            waiting: the report.
            report: its bytes.
            reported: epochs of the collection in the state: reports of others are remains of a machine that
                stopped before it kept the state with them.

        Raises:
            DeviceError: the disk is full or refuses.
        """
        sound = self.without_remains(waiting.digest, reported)
        with durable.said(self._folder):
            for one in sound[: max(0, len(sound) + 1 - self._most)]:
                durable.remove(self._folder / one.name)
                self.dropped += 1
            durable.write(self._folder / waiting.name, report)

    def hasten(self, digest: str, epoch: int, now: int) -> None:
        """Reports of later epochs, which a clock made that was ahead, have nothing to wait for: due now.

        The device holds the lock.

        Args:
            digest: of the collection.
            epoch: that is being reported.
            now: seconds since 1970.

        Raises:
            DeviceError: the disk is full or refuses.
        """
        with durable.said(self._folder):
            for one in self._listed():
                if one.digest == digest and one.epoch > epoch and one.due > now:
                    durable.rename(self._folder / one.name, self._folder / one._replace(due=now).name)

    def without_remains(self, digest: str, reported: Sequence[order.Range]) -> list[Waiting]:
        """Remove what a machine left that stopped before it kept the state; the rest, the first due first.

        The device holds the lock, and changes its state next.

        Args:
            digest: of the collection.
            reported: epochs of the collection in the state.

        Raises:
            DeviceError: the disk is full or refuses.
        """
        with durable.said(self._folder):
            durable.remove_temporary(self._folder)
            sound = []
            for one in self._listed():
                if one.digest == digest and not order.contain(reported, one.epoch):
                    durable.remove(self._folder / one.name)
                else:
                    sound.append(one)
            return sound

    def waiting(self) -> list[Waiting]:
        """All reports that wait, the first due first."""
        with self._store.locked():
            state = self._store.load()
            self._store.settle()
            reported = {entry.digest[:8].hex(): entry.spans for entry in state.collections}
            return [one for one in self._listed() if order.contain(reported.get(one.digest, ()), one.epoch)]

    def read(self, waiting: Waiting) -> bytes | None:
        """A report's bytes; None where another process has sent or dropped it meanwhile."""
        return durable.read(self._folder / waiting.name)

    def acknowledge(self, waiting: Waiting) -> None:
        """A collector has the report, or will never take it: forget it."""
        durable.remove(self._folder / waiting.name)

    def __len__(self) -> int:
        """How many reports wait."""
        return len(self.waiting())

    def _listed(self) -> list[Waiting]:
        """What the folder holds, in the order of due times; temporary files are passed over."""
        found = []
        for name in durable.listed(self._folder):
            with suppress(ValueError):
                due, digest, epoch = name.split("-")
                found.append(Waiting(int(due), digest, int(epoch)))
        return sorted(found)
