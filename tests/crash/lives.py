"""The lives of a device: what it was asked for, what left it, and what must hold of that whatever stopped it.

The protocol is dBitFlipPM about all of its buckets: a report is the permanent response itself, as it is, so a
second draw is seen at once.
"""

from __future__ import annotations

import json
import os
import secrets
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ldpbeam.client import Device
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.protocols import Parameters
from ldpbeam.wire import report_pb2
from tests.narrow import present

BUCKETS = 48
COLLECTION = Collection(
    "x",
    1,
    Domain(BUCKETS),
    "dbitflip_pm",
    Parameters(epsilon_longitudinal=1.0, d=BUCKETS),
    Epochs(3600, 0, 1 << 20),
)


class Living(Protocol):
    """A device, or what claims to be one."""

    def report(self, value: int, epoch: int) -> bytes:
        """The report of an epoch."""
        ...

    def waiting(self) -> dict[int, bytes]:
        """Reports that a sender is given, by epoch."""
        ...

    def committed(self) -> set[int]:
        """The epoch that the device knows to have reported."""
        ...


class Real:
    """The client."""

    def __init__(self, folder: Path, memo: Any) -> None:
        self._device = Device.open(COLLECTION, folder, memo=memo)

    def report(self, value: int, epoch: int) -> bytes:
        return present(self._device.report(value, epoch))

    def waiting(self) -> dict[int, bytes]:
        outbox = self._device.outbox
        found = ((one.epoch, outbox.read(one)) for one in outbox.waiting())
        return {epoch: report for epoch, report in found if report is not None}

    def withdraw(self) -> None:
        """The person opts out."""
        self._device.withdraw()

    def secret(self) -> bytes:
        """What must be gone then."""
        return self._device._store.load().secret

    def committed(self) -> set[int]:
        spans = self._device._store.load().collections[0].spans
        return {spans[-1].last_epoch} if spans else set()


class Naive:
    """What one would write first: a memo in a JSON file.

    Args:
        folder: where its file is.
        design: ``in place`` rewrites the file before the report leaves; ``emit first`` keeps it after that,
            durably and by replacing; ``no fsync`` replaces it before, without waiting for the disk.
        system: the functions of os.
    """

    def __init__(self, folder: Path, design: str, system: Any = os) -> None:
        self._path = folder / "memo.json"
        self._design = design
        self._os = system
        try:
            descriptor = system.open(self._path, os.O_RDONLY)
            content = b"".join(iter(lambda: system.read(descriptor, 4096), b""))
            system.close(descriptor)
            self._memo = json.loads(content)
        except (OSError, ValueError):
            self._memo = {"answers": {}, "last": -1, "report": ""}
        self._unkept = False

    def report(self, value: int, epoch: int) -> bytes:
        if self._unkept:
            self._keep()
        if epoch == self._memo["last"]:
            return bytes.fromhex(self._memo["report"])
        answer = self._memo["answers"].setdefault(str(value), secrets.token_hex(BUCKETS // 8))
        message = report_pb2.Report(
            epoch=epoch, report_id=secrets.randbits(64), payload=bytes.fromhex(answer)
        ).SerializeToString()
        self._memo |= {"last": epoch, "report": message.hex()}
        self._unkept = True
        if self._design != "emit first":
            self._keep()
        return message

    def waiting(self) -> dict[int, bytes]:
        return {}

    def committed(self) -> set[int]:
        return set()

    def _keep(self) -> None:
        self._unkept = False
        path = self._path if self._design == "in place" else self._path.with_suffix(".tmp")
        descriptor = self._os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        content = json.dumps(self._memo).encode()
        while content:
            content = content[self._os.write(descriptor, content) :]
        if self._design == "emit first":
            self._os.fsync(descriptor)
        self._os.close(descriptor)
        if self._design != "in place":
            self._os.replace(path, self._path)


class Record:
    """What a device was asked for, and what left it, over all its lives."""

    def __init__(self) -> None:
        self.asked: dict[int, set[int]] = defaultdict(set)
        self.left: dict[int, set[bytes]] = defaultdict(set)
        self.lost: set[int] = set()

    def ask(self, device: Living, value: int, epoch: int) -> bytes:
        """One report, noted before and after."""
        self.asked[epoch].add(value)
        message = device.report(value, epoch)
        self.left[epoch].add(message)
        return message

    def hand_out(self, device: Living) -> None:
        """What a sender gets. Nothing is acknowledged: what the device has reported must wait."""
        waiting = device.waiting()
        for epoch, message in waiting.items():
            self.left[epoch].add(message)
        self.lost |= device.committed() - waiting.keys()

    @property
    def newest(self) -> int:
        """The last epoch that was asked for."""
        return max(self.asked, default=0)

    def complaints(self) -> list[str]:
        """Two reports for an epoch, or none that waits; two permanent responses for a value.

        Where an epoch was asked for with several values, because the machine stopped before an answer, any of
        them may be what was reported.
        """
        found = [f"epoch {epoch} has {len(r)} reports" for epoch, r in self.left.items() if len(r) > 1]
        found += [f"the report of epoch {epoch} is lost" for epoch in self.lost]
        responses: dict[int, set[bytes]] = defaultdict(set)
        for epoch, messages in self.left.items():
            if len(self.asked[epoch]) == 1:
                (value,) = self.asked[epoch]
                responses[value] |= {report_pb2.Report.FromString(m).payload for m in messages}
        found += [f"a value has {len(r)} responses" for r in responses.values() if len(r) > 1]
        for epoch, messages in self.left.items():
            known = [responses.get(value) for value in self.asked[epoch]]
            payloads = {report_pb2.Report.FromString(m).payload for m in messages}
            if all(known) and not payloads <= set().union(*filter(None, known)):
                found.append(f"epoch {epoch} shows a response of none of its values")
        return found


Make = Callable[[], Living]
