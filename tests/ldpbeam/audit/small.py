"""A small client, written to be broken: every step of a device is one method that a planted bug replaces.

It is honest as it stands. All its words follow from a secret, the collection, and what they are for, so that
there is nothing to keep but the secret and the last report.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from pathlib import Path
from typing import Any

from ldpbeam.audit.client.clients import Maker
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.slices import WHOLE, Slice
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.wire import report_pb2


class Words(Randomness):
    """SHA-256 of a label and a counter."""

    def __init__(self, small: Small, label: str) -> None:
        self.small, self.label, self.count = small, label, 0

    def word(self, limit: int = FULL) -> int:
        while True:
            self.count += 1
            text = f"{self.small.key(self.label).hex()}/{self.label}/{self.count}".encode()
            word = int.from_bytes(hashlib.sha256(text).digest()[:8], "little")
            # The highest multiple of the limit, so that every residue is as likely.
            if word < FULL - FULL % limit:
                return word % limit

    def permanent(self, key: int) -> Randomness:
        return Words(self.small, self.small.permanent_label(self.label, key))

    def part(self, index: int) -> Randomness:
        return Words(self.small, self.small.part_label(self.label, index))


class Small:
    """One device for one collection; without a folder it ends with the object."""

    def __init__(self, collection: Collection, folder: Path | None) -> None:
        self.collection = collection
        self.folder = folder
        self.protocol: LocalProtocol[Any] = self.made(collection.protocol)
        self.value: Any = None
        self.epoch = 0
        self.slice: Slice = WHOLE
        self.last: tuple[int, bytes] | None = None
        self.secret = self.new_secret()
        if folder is not None:
            folder.mkdir(exist_ok=True)
            kept = folder / "secret"
            if not kept.exists():
                kept.write_bytes(self.secret)
            self.secret = self.read_secret(kept)
        self.memo = self.protocol.device.new_memo(Words(self, "life"))

    # What bugs replace

    def made(self, protocol: LocalProtocol[Any]) -> LocalProtocol[Any]:
        """The protocol that the device runs."""
        return protocol

    def new_secret(self) -> bytes:
        return secrets.token_bytes(16)

    def read_secret(self, kept: Path) -> bytes:
        return kept.read_bytes()

    def key(self, label: str) -> bytes:
        return self.secret + self.collection.digest.to_bytes(8, "little")

    def permanent_label(self, label: str, key: int) -> str:
        """Attributes share no answer, so their number stays in the label."""
        part = label.partition(" part")[2]
        return f"permanent {key} of part{part}"

    def part_label(self, label: str, index: int) -> str:
        return f"{label} part {index}"

    def epoch_label(self, epoch: int) -> str:
        return f"epoch {epoch}"

    def response(self, value: Any, epoch: int) -> Any:
        return self.protocol.device.privatize(value, self.memo, Words(self, self.epoch_label(epoch)))[0]

    def report_id(self, value: Any, epoch: int) -> int:
        return Words(self, f"id {epoch}").word()

    def payload(self, response: Any, value: Any) -> bytes:
        return self.protocol.device.encode(response)

    def stated_epoch(self, epoch: int) -> int:
        return epoch

    def again(self, value: Any, epoch: int) -> bytes | None:
        """The report of an epoch that was reported; None where it is a new epoch."""
        last = self.read_last()
        if last is None or epoch > last[0]:
            return None
        if epoch < last[0]:
            raise ValueError("an earlier epoch")
        return last[1]

    # What they do not

    def read_last(self) -> tuple[int, bytes] | None:
        if self.folder is not None and (self.folder / str(self.collection.digest)).exists():
            epoch, text = json.loads((self.folder / str(self.collection.digest)).read_text())
            return epoch, bytes.fromhex(text)
        return self.last

    def report(self, value: Any, epoch: int, *, slice: dict[str, str] | None = None) -> bytes:
        self.slice = self.collection.slices.of_device(slice)
        before = self.again(value, epoch)
        if before is not None:
            return before
        self.value, self.epoch = value, epoch
        response = self.response(value, epoch)
        message = report_pb2.Report(
            digest=self.collection.slice_digest(self.slice),
            epoch=self.stated_epoch(epoch),
            report_id=self.report_id(value, epoch),
            payload=self.payload(response, value),
        ).SerializeToString()
        self.last = epoch, message
        if self.folder is not None:
            (self.folder / str(self.collection.digest)).write_text(json.dumps([epoch, message.hex()]))
        return message


class KindMaker(Maker):
    """Devices of one kind."""

    def __init__(self, kind: type[Any]) -> None:
        self.name, self.kind = kind.__name__, kind

    def fresh(self, collection: Collection, folder: Path) -> Any:
        return self.kind(collection, None)

    def lasting(self, collection: Collection, folder: Path) -> Any:
        return self.kind(collection, folder)
