"""The lives of a device: what it was asked for, what left it, and what must hold of that whatever stopped it.

The protocol is dBitFlipPM about all of its buckets: a report is the permanent response itself, as it is, so a
second draw is seen at once. With so many buckets a device that derives its responses draws its last report
again when it is asked for it. Devices of the kind ``strings`` lie once in 10¹¹ reports: one shows the length,
the function and the hash, which are for life. The slice changes from epoch to epoch, and from life to life
within an epoch.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from ldpbeam.client import Device
from ldpbeam.client.folder import DeviceFolder
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.slices import Slices
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.errors import DeviceError
from ldpbeam.hashing.strings import Strings
from ldpbeam.protocols import Parameters
from ldpbeam.wire import report_pb2
from tests.crash.recorder import Said, mark
from tests.narrow import present
from tests.rust.reporter import RustDevice, shared_reporter

BUCKETS = 2048
COLLECTION = Collection(
    "x",
    1,
    Domain(BUCKETS),
    "dbitflip_pm",
    Parameters(epsilon_longitudinal=1.0, d=BUCKETS),
    Epochs(3600, 0, 1 << 20),
    slices=Slices.of({"channel": ["release", "beta"]}),
)
TEXTS = Collection(
    "x",
    1,
    StringDomain(
        strings=Strings(4, "0123456789", fold=False, drop=False, lengths=(1, 2, 4), weights=(1, 1, 2))
    ),
    "loloha",
    Parameters(epsilon_longitudinal=32.0, epsilon_first=31.0, g=64),
    COLLECTION.epochs,
    slices=COLLECTION.slices,
)
SLICES = COLLECTION.slices.combinations


PLAN = [(3, 0), (3, 1), (5, 2), (3, 3)]
"""(value, epoch) of a first life: a new value, the same, another one, the first again."""


def slice_of(epoch: int, step: int) -> dict[str, str]:
    """The labels that a device says in an epoch; ``step`` is another number for each life."""
    return dict(SLICES[(epoch + step) % len(SLICES)])


class Living:
    """A device of the client, in Python."""

    def __init__(self, folder: Path, kind: str, step: int = 0) -> None:
        self._texts = kind == "strings"
        self._step = step
        self._device: Any = self._opened(folder, *((TEXTS, "stored") if self._texts else (COLLECTION, kind)))

    def _opened(self, folder: Path, asked: Collection, memo: Any) -> Any:
        return Device.open(asked, folder, memo=memo, outbox=4096)

    def report(self, value: int, epoch: int) -> bytes:
        given = 4 * str(value) if self._texts else value
        return present(self._device.report(given, epoch, slice=slice_of(epoch, self._step)))

    def waiting(self) -> dict[int, bytes]:
        outbox = self._device.outbox
        found = ((one.epoch, outbox.read(one)) for one in outbox.waiting())
        return {epoch: report for epoch, report in found if report is not None}

    def withdraw(self) -> None:
        """The person opts out."""
        self._device.withdraw()


class LivingInRust(Living):
    """The device of the client in Rust, in a process that all lives of this one share."""

    def _opened(self, folder: Path, asked: Collection, memo: Any) -> Any:
        return RustDevice(shared_reporter(), asked, folder, memo=memo, outbox=4096)

    def waiting(self) -> dict[int, bytes]:
        return {epoch: report for _, _, epoch, report in self._device.waiting() if report is not None}


LIVINGS = {"python": Living, "rust": LivingInRust}


class Record:
    """What a device was asked for, and what left it, over all its lives; ``tell`` hears each addition."""

    def __init__(self, tell: Callable[..., None] | None = None) -> None:
        self.asked: dict[int, set[int]] = defaultdict(set)
        self.left: dict[int, set[bytes]] = defaultdict(set)
        self.lost: set[int] = set()
        self._tell = tell

    @classmethod
    def of(cls, said: Said, tell: Callable[..., None] | None = None) -> Record:
        """What was told, taken down."""
        made = cls()
        for words in said:
            made.add(**words)
        made._tell = tell
        return made

    def add(
        self,
        asked: tuple[int, int] | None = None,
        left: tuple[int, str] | None = None,
        lost: int | None = None,
        **_: Any,
    ) -> None:
        """Asked: epoch and value; left: epoch and report, in hex; lost: epoch whose report does not wait."""
        if asked is not None:
            self.asked[asked[0]].add(asked[1])
        if left is not None:
            self.left[left[0]].add(bytes.fromhex(left[1]))
        if lost is not None:
            self.lost.add(lost)
        if self._tell is not None:
            words = {"asked": asked, "left": left, "lost": lost}
            self._tell(**{name: value for name, value in words.items() if value is not None})

    def ask(self, device: Living, value: int, epoch: int) -> None:
        """One report, noted before and after."""
        self.add(asked=(epoch, value))
        self.add(left=(epoch, device.report(value, epoch).hex()))

    def hand_out(self, device: Living) -> None:
        """What a sender gets. Nothing is acknowledged: every report that ever left must wait."""
        waiting = device.waiting()
        for epoch, message in waiting.items():
            self.add(left=(epoch, message.hex()))
        for epoch in self.left.keys() - waiting.keys():
            self.add(lost=epoch)

    @property
    def newest(self) -> int:
        """The last epoch that was asked for."""
        return max(self.asked, default=0)

    def complaints(self) -> list[str]:
        """Two reports for an epoch, or none that waits; two permanent responses for a value."""
        found = [f"epoch {epoch} has {len(r)} reports" for epoch, r in self.left.items() if len(r) > 1]
        found += [f"the report of epoch {epoch} is lost" for epoch in self.lost]
        payloads = {epoch: {_payload(m) for m in messages} for epoch, messages in self.left.items()}
        found += [f"epoch {epoch} has what is no report" for epoch, some in payloads.items() if None in some]
        responses: dict[int, set[bytes | None]] = defaultdict(set)
        for epoch, some in payloads.items():
            if len(self.asked[epoch]) == 1:
                (value,) = self.asked[epoch]
                responses[value] |= some
        found += [f"a value has {len(r)} responses" for r in responses.values() if len(r) > 1]
        for epoch, some in payloads.items():
            known = [responses.get(value) for value in self.asked[epoch]]
            if all(known) and not some <= set().union(*filter(None, known)):
                found.append(f"epoch {epoch} shows a response of none of its values")
        return found


def _payload(message: bytes) -> bytes | None:
    """Of a report; None where it is none, torn say."""
    try:
        return report_pb2.Report.FromString(message).payload or None
    except DecodeError:
        return None


def secret_in(folder: Path) -> bytes:
    """Of a device that another program made."""
    with DeviceFolder(folder).transaction() as records:
        return records.state.secret


# --- lives that the recorder runs, in a folder below the recorded one, of a device in a language


def first_life(folder: Path, kind: str, language: str = "python") -> None:
    """The plan."""
    record = Record(mark)
    device = LIVINGS[language](folder / "device", kind)
    for value, epoch in PLAN:
        record.ask(device, value, epoch)
        record.hand_out(device)


def second_life(
    folder: Path,
    kind: str,
    said: Said = (),
    tell: Callable[..., None] | None = mark,
    language: str = "python",
) -> Record:
    """From the newest epoch on, with another value first: all that was seen must be seen again."""
    record = Record.of(said, tell)
    device = LIVINGS[language](folder / "device", kind, step=1 + len(said))
    record.hand_out(device)
    newest = record.newest
    record.ask(device, 5, newest)
    for step, value in enumerate((3, 5, 3, 8), 1):
        record.ask(device, value, newest + step)
    record.hand_out(device)
    return record


def refused_life(folder: Path, kind: str, language: str = "python") -> None:
    """The plan, where a call may fail; the program asks again with another value, then goes on."""
    record = Record(mark)
    device = None
    for value, epoch in PLAN:
        for attempt in (value, 8):
            try:
                device = device or LIVINGS[language](folder / "device", kind)
                record.ask(device, attempt, epoch)
                record.hand_out(device)
                break
            except (DeviceError, OSError) as error:
                mark(failed=str(error))


def withdrawing_life(folder: Path, kind: str, language: str = "python") -> None:
    """The plan, then the person withdraws; what may fail is tried again once."""
    record, made = Record(mark), list[Any]()

    def drawn(size: int, real: Callable[[int], bytes] = secrets.token_bytes) -> bytes:
        found = real(size)
        mark(drawn=found.hex())
        return found

    secrets.token_bytes = drawn  # type: ignore[assignment]
    steps: list[Callable[[], Any]] = [lambda: made.append(LIVINGS[language](folder / "device", kind))]
    if language == "rust":
        steps.append(lambda: mark(drawn=secret_in(folder / "device").hex()))
    steps += [partial(lambda value, epoch: record.ask(made[0], value, epoch), *asked) for asked in PLAN]
    steps.append(lambda: made[0].withdraw())  # noqa: PLW0108 - there is none yet
    for step in steps:
        try:
            step()
        except (DeviceError, OSError) as error:
            mark(failed=str(error))
            step()
    mark(withdrew=True)
