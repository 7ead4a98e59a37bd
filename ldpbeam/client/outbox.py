"""Reports that wait to be sent: durable from before they leave the device until a collector has them."""

from __future__ import annotations

from typing import NamedTuple

from ldpbeam.client.folder import DeviceFolder, FolderRecords, WaitingReport


class DropCounts(NamedTuple):
    """Reports that waited and were never sent, since the device began."""

    full: int
    damaged: int


class Outbox:
    def __init__(self, folder: DeviceFolder, most: int) -> None:
        """Raises ValueError where ``most`` is below 1; nothing is read from the disk yet."""
        if most < 1:
            raise ValueError(f"an outbox holds at least one report, not {most}")
        self._folder = folder
        self._most = most

    def put(self, records: FolderRecords, waiting: WaitingReport, report: bytes) -> None:
        more = len(records) + 1 - self._most
        for one in records.waiting[:more] if more > 0 else ():
            records.remove(one)
            records.state.dropped += 1
        records.put(waiting, report)

    @staticmethod
    def hasten(records: FolderRecords, digest: str, epoch: int, now: int) -> None:
        """Reports of later epochs, which a clock made that was ahead, have nothing to wait for: due now."""
        for one in records.waiting:
            if one.digest == digest and one.epoch > epoch and one.due > now:
                records.postpone(one, now)

    def waiting(self) -> list[WaitingReport]:
        """All reports that wait, the first due first."""
        with self._folder.transaction() as records:
            return records.waiting

    def read(self, waiting: WaitingReport) -> bytes | None:
        """A report's bytes; None where another process has sent or dropped it meanwhile."""
        return self._folder.read(waiting)

    def acknowledge(self, *sent: WaitingReport) -> None:
        """Forget reports that a collector has, or will never take."""
        with self._folder.transaction() as records:
            before = len(records)
            for one in sent:
                records.remove(one)
            if len(records) < before:
                records.save()

    @property
    def dropped(self) -> DropCounts:
        with self._folder.transaction() as records:
            return DropCounts(records.state.dropped, records.state.damaged)

    def __len__(self) -> int:
        """The number of reports that wait, read from the disk; raises DeviceError as :meth:`waiting`."""
        return len(self.waiting())
