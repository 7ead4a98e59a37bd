"""One state for Python and Rust: a folder passes from one to the other, and both write the same bytes."""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from ldpbeam.channels.exact import float_above
from ldpbeam.client import Device, report_draws, storage
from ldpbeam.client.derivation import DerivedWords
from ldpbeam.client.folder import DeviceFolder
from ldpbeam.client.spending import spent_exactly
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.participation import Participation
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.collection.values import Index
from ldpbeam.durable.store import RowStore
from ldpbeam.errors import DeviceError
from ldpbeam.protocols import Parameters
from tests.crash.lives import COLLECTION
from tests.ldpbeam.client.devices import every_kind, held_journal, loloha, quicken_disk, unary
from tests.rust.reporter import Reporter, RustDevice
from tests.vectors import test_order as order

pytestmark = pytest.mark.rust

KINDS = [
    *every_kind(),
    COLLECTION,
    *(
        replace(one, participation=Participation(6, 40), epochs=Epochs(3600, 0, 40))
        for one in (loloha(), unary())
    ),
]
DAY = 86400
memos = pytest.mark.parametrize("memo", ["derived", "stored"])


@pytest.fixture(scope="module")
def reporter() -> Iterator[Reporter]:
    made = Reporter()
    yield made
    made.close()


# --- the same device in two languages


class PythonDevice:
    """With the interface of :class:`RustDevice`."""

    def __init__(self, collection: Collection, folder: Path, *, script: str = "", **options: Any) -> None:
        self._now = 0.0
        with scripted(script):
            self._device = Device.open(collection, folder, clock=lambda: self._now, **options)

    def report(
        self, value: Any, epoch: int | None = None, *, slice: Any = None, clock: float = 0.0
    ) -> bytes | None:
        self._now = clock
        return self._device.report(value, epoch, slice=slice)

    def waiting(self) -> list[Any]:
        outbox = self._device.outbox
        return [(*one, outbox.read(one)) for one in outbox.waiting()]

    def acknowledge(self, *epochs: int) -> None:
        outbox = self._device.outbox
        outbox.acknowledge(*(one for one in outbox.waiting() if one.epoch in epochs))

    def dropped(self) -> list[int]:
        return [*self._device.outbox.dropped]

    def spent(self) -> Any:
        spent = self._device.spent()
        each = [
            [one.name, one.version, one.digest, one.times, one.epsilon, one.stopped]
            for one in spent.collections
        ]
        return [each, spent.epsilon, spent.budget]

    def withdraw(self) -> None:
        self._device.withdraw()


@contextmanager
def scripted(key: str) -> Iterator[None]:
    """The operating system's random bytes are the words of the stream with a key, for devices opened here."""
    words = DerivedWords(bytes.fromhex(key))

    def drawn(size: int) -> bytes:
        return b"".join(word.to_bytes(8, "little") for word in words.words(size // 8))

    with pytest.MonkeyPatch.context() as patch:
        if key:
            patch.setattr(report_draws, "SystemRandomness", lambda: words)
            patch.setattr(storage, "secrets", SimpleNamespace(token_bytes=drawn))
        yield


class Step(NamedTuple):
    """A device is opened with options, and called."""

    collection: Collection
    script: str
    options: dict[str, Any]
    calls: list[tuple[str, dict[str, Any]]]


def outcome(make: Callable[..., Any], folder: Path, step: Step) -> list[Any]:
    """What a device answers that is opened for a step; an error by its code."""
    found: list[Any] = []
    try:
        device = make(step.collection, folder, script=step.script, **step.options)
        for call, arguments in step.calls:
            found.append(None)
            try:
                found[-1] = getattr(device, call)(*arguments.get("args", ()), **arguments.get("named", {}))
            except DeviceError as error:
                found[-1] = error.code
    except DeviceError as error:
        found.append(error.code)
    return found


def content(folder: Path) -> tuple[list[Any], bytes]:
    """The rows of a folder's file, and its sentinel."""
    with closing(sqlite3.connect(folder / "device.sqlite")) as connection:
        rows = connection.execute(
            "SELECT key, digest, CAST(content AS BLOB) FROM rows ORDER BY key"
        ).fetchall()
    return rows, (folder / "sentinel").read_bytes()


def value_of(collection: Collection, draw: random.Random) -> Any:
    if isinstance(collection.domain, StringDomain):
        return "".join(draw.choices("abcx", k=draw.randrange(7)))
    if collection.domain is not None:
        return Index(draw.randrange(min(collection.domain.size, draw.choice([2, 300]))))
    sizes = [one.domain.size for one in collection.attributes]
    if collection.protocol.device.sum_limit is not None:
        return (draw.randrange(sizes[0]), *(0 for _ in sizes[1:]))
    return tuple(Index(draw.randrange(size)) for size in sizes)


def history(collections: list[Collection], memo: str, draw: random.Random, steps: int) -> Iterator[Step]:
    """A life of a folder: reports, clocks that jump, budgets that end, senders, damage to waiting reports."""
    epoch, length = 0, collections[0].epochs.length
    for number in range(steps):
        collection = draw.choice(collections)
        options: dict[str, Any] = {
            "memo": memo,
            "outbox": draw.choice([3, 3, 100, 0]),
            "spread": draw.choice([0.0, 900.0, 1e9]),
            "budget": draw.choice([None, None, 2.5, 4.0, 1e6]),
            "at_cap": draw.choice(["stop", "noise"]),
            "max_jump": draw.choice([400.0 * DAY, 20.0 * length]),
        }
        calls: list[tuple[str, dict[str, Any]]] = []
        for _ in range(draw.randrange(1, 4)):
            epoch = max(0, epoch + draw.choice([0, 1, 1, 1, 1, 2, -1, -3, 9, 40, -30]))
            behind = draw.choice([0, 0, 0, -5, 60 * DAY // length, -60 * DAY // length])
            named: dict[str, Any] = {"clock": (epoch - behind) * length + draw.random() * length}
            if collection.slices:
                named["slice"] = dict(draw.choice(collection.slices.combinations))
            timed = draw.random() < 0.3
            value = value_of(collection, draw)
            calls.append(("report", {"args": (value, None if timed else epoch), "named": named}))
        calls += [("spent", {})] + [("waiting", {}), ("dropped", {})] * bool(options["outbox"])
        if options["outbox"] and draw.random() < 0.3:
            calls.append(("acknowledge", {"args": (epoch, epoch - 1)}))
        if number == steps - 1:
            calls += [("withdraw", {}), ("spent", {}), ("report", calls[0][1])]
        key = sha256(f"{number} {draw.random()}".encode()).hexdigest()
        yield Step(collection, key, options, calls)


def damage_waiting_report(folders: list[Path], draw: random.Random) -> None:
    """Make text of the same row in all of them, as a flipped bit may, or lose it."""
    rows = [key for key, _, _ in content(folders[0])[0] if key >> 56 == 2]
    if not rows:
        return
    key, lost = draw.choice(rows), draw.random() < 0.5
    statement = "DELETE FROM rows" if lost else "UPDATE rows SET content = CAST(content AS TEXT)"
    for folder in folders:
        with closing(sqlite3.connect(folder / "device.sqlite", isolation_level=None)) as connection:
            connection.execute(f"{statement} WHERE key = ?", (key,))


@memos
def test_python_and_rust_write_the_same_bytes(
    memo: str, reporter: Reporter, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three folders have one history: one in Python, one in Rust, one whose steps take turns."""
    quicken_disk(monkeypatch)
    draw = random.Random(f"states {memo}")
    rust = partial(RustDevice, reporter)
    answers = set()
    for number, first in enumerate(KINDS):
        second = draw.choice([one for one in KINDS if one.epochs == first.epochs])
        folders = [home / f"{number}-{name}" for name in ("python", "rust", "turns")]
        for place, step in enumerate(history([first, second], memo, draw, 9)):
            makes = (PythonDevice, rust, (PythonDevice, rust)[place % 2])
            found = [outcome(make, folder, step) for make, folder in zip(makes, folders, strict=True)]
            contents = [content(folder) for folder in folders]
            for other in (1, 2):
                assert found[other] == found[0], (first, step)
                assert contents[other] == contents[0], (first, step)
            answers |= {one for one in found[0] if isinstance(one, str)}
            if draw.random() < 0.3:
                damage_waiting_report(folders, draw)
    assert answers == {"E-DEVICE-BUDGET", "E-DEVICE-CLOCK", "E-DEVICE-EPOCH", "E-DEVICE-WITHDRAWN"}


@memos
@pytest.mark.parametrize("case", order.CASES, ids=lambda case: case["name"])
def test_a_device_reports_the_epochs_of_the_case(
    case: dict[str, Any], memo: str, reporter: Reporter, home: Path
) -> None:
    """tests/vectors/order, as for the client in Python."""
    epochs = Epochs(case["length"], 0, 5000 * DAY // case["length"])
    protocol = ("grr", Parameters(epsilon=1.0), epochs)
    collections = [Collection("o", version, Domain(11), *protocol) for version in (1, 2)]
    left: dict[tuple[int, int], bytes] = {}
    for number, step in enumerate(case["steps"]):
        which, now = step.get("collection", 0), step["clock"]
        max_jump = float(step.get("max_jump", 400 * DAY))
        device = RustDevice(reporter, collections[which], home / "device", memo=memo, max_jump=max_jump)
        report = partial(device.report, number % 11, step.get("epoch"), clock=float(now))
        asked = which, step.get("epoch", epochs.index(now))
        assert order.answer_of(report, left, asked) == step["answer"], step
        if "spans" in step:
            with DeviceFolder(home / "device").transaction() as records:
                (entry,) = (
                    e for e in records.state.collections if e.digest == collections[which].full_digest
                )
                assert [[one.first_epoch, one.last_epoch] for one in entry.spans] == step["spans"]
        if "due" in step:
            assert sorted(epoch for due, _, epoch, _ in device.waiting() if due <= now) == step["due"]


def test_beyond_128_marks_inputs_count_as_new_up_to_as_many_as_there_are(
    reporter: Reporter, home: Path
) -> None:
    asked = unary(200)
    PythonDevice(asked, home / "python")
    with DeviceFolder(home / "python").transaction() as records:
        (entry,) = records.state.collections
        entry.inputs = b"".join(number.to_bytes(8, "big") for number in range(127))
        entry.levels.add(epsilon=2.0, times=197)
        records.save()
    shutil.copytree(home / "python", home / "rust")
    for device in (PythonDevice(asked, home / "python"), RustDevice(reporter, asked, home / "rust")):
        for epoch in range(6):
            device.report(Index(epoch % 2), epoch, clock=0.0)
        ((entry,), _, _) = device.spent()
        assert entry[3] == 200
    assert content(home / "rust") == content(home / "python")


# --- what stops a device


def older(folder: Path) -> None:
    """The file of before the last report."""
    shutil.copy(folder / "copy", folder / "device.sqlite")


def flipped(name: str, at: int) -> Callable[[Path], object]:
    """A bit of a file changes."""

    def flip(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[at] ^= 4
        (folder / name).write_bytes(content)

    return flip


def of_version_2(folder: Path) -> None:
    """Another program's format, sound."""
    store = RowStore(folder / "device.sqlite", "ldpbeam device", 1, ("state", "outbox"))
    with store.transaction() as rows:
        store.version = 2
        rows.commit()


def of_another(folder: Path) -> None:
    """Another device's, soundly in the place of this one's."""
    Device.open(loloha(), folder / "other")
    for name in ("device.sqlite", "sentinel"):
        shutil.copy(folder / "other" / name, folder / name)


def linked(name: str) -> Callable[[Path], object]:
    """A link in the place of a file."""

    def link(folder: Path) -> None:
        (folder / name).rename(folder / "elsewhere")
        (folder / name).symlink_to(folder / "elsewhere")

    return link


def without(*names: str) -> Callable[[Path], object]:
    def remove(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return remove


STOPS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "lost": ("E-DEVICE-STATE-LOST", without("device.sqlite")),
    "lost to one that is open": ("E-DEVICE-STATE-LOST", without("device.sqlite", "sentinel")),
    "emptied": ("E-DEVICE-STATE-LOST", lambda folder: (folder / "device.sqlite").write_bytes(b"")),
    "older": ("E-DEVICE-STATE-OLDER", older),
    "no database": (
        "E-DEVICE-STATE-DAMAGED",
        lambda folder: (folder / "device.sqlite").write_bytes(b"x" * 9000),
    ),
    "damaged": ("E-DEVICE-STATE-DAMAGED", flipped("device.sqlite", 8000)),
    "another's": ("E-DEVICE-STATE-OTHER", of_another),
    "of another version": ("E-DEVICE-STATE-VERSION", of_version_2),
    "sentinel": ("E-DEVICE-SENTINEL-DAMAGED", lambda folder: (folder / "sentinel").write_bytes(bytes(8192))),
    "sentinel of no size": (
        "E-DEVICE-SENTINEL-DAMAGED",
        lambda folder: (folder / "sentinel").write_bytes(b""),
    ),
    "half a sentinel": ("goes on", flipped("sentinel", 0)),
    "no sentinel": ("goes on", without("sentinel")),
    "a linked state": ("E-DISK-LINK", linked("device.sqlite")),
    "a linked lock": ("E-DISK-LINK", linked("lock")),
    "a linked sentinel": ("E-DISK-LINK", linked("sentinel")),
    "withdrawn": ("E-DEVICE-WITHDRAWN", lambda folder: Device.open(loloha(), folder).withdraw()),
    "a journal of nothing": ("goes on", lambda folder: (folder / "device.sqlite-journal").write_bytes(b"")),
}


@pytest.mark.parametrize("stop", STOPS)
def test_the_same_stops_both(stop: str, reporter: Reporter, home: Path) -> None:
    """Devices are open when it happens; then the person withdraws, whatever it was."""
    code, change = STOPS[stop]
    texts = []
    for name, make in (("python", PythonDevice), ("rust", partial(RustDevice, reporter))):
        folder = home / name
        device = make(loloha(), folder)
        device.report(8, 0)
        shutil.copy(folder / "device.sqlite", folder / "copy")
        report = device.report(7, 1)
        change(folder)
        try:
            assert device.report(8, 2) not in (None, report)
            found = "goes on"
        except DeviceError as error:
            found = error.code
            texts.append(str(error).replace(f"/{name}/", "/"))
        assert found == code
        if code == "E-DISK-LINK":
            continue
        if code == "E-DEVICE-SENTINEL-DAMAGED":
            (folder / "sentinel").write_bytes(bytes(8192))
        device.withdraw()
        rows, _ = content(folder)
        assert [row for _, _, row in rows][1:] == [b"\x20\x01"]
        with pytest.raises(DeviceError, match="E-DEVICE-WITHDRAWN"):
            make(loloha(), folder)
    for text in texts:
        assert re.fullmatch(r"[^\n.]*(\.[\w-]+[^\n.]*)*\. [^\n]+\. \[E-[A-Z-]+\].*", text), text


def test_a_memo_of_the_other_kind_and_a_busy_file(reporter: Reporter, home: Path) -> None:
    PythonDevice(loloha(), home / "derived")
    PythonDevice(loloha(), home / "stored", memo="stored")
    for kind, other in (("derived", "stored"), ("stored", "derived")):
        with pytest.raises(DeviceError, match=f"are {kind} on this device.*E-DEVICE-MEMO"):
            RustDevice(reporter, loloha(), home / kind, memo=other)
    device = RustDevice(reporter, loloha(), home / "derived")
    with held_journal(home / "derived"), pytest.raises(DeviceError, match="E-DEVICE-BUSY"):
        device.report(1, 0)
    assert device.report(1, 0)


def test_figures_are_exact_sums_rounded_up(reporter: Reporter, home: Path) -> None:
    """Levels that no float adds up: of the smallest and of the largest exponents."""
    draw = random.Random("sums")
    device = RustDevice(reporter, loloha(), home / "device", budget=1.0)
    folder = DeviceFolder(home / "device")
    for _ in range(150):
        levels = [
            (
                draw.random() * 2.0 ** draw.choice([-1074, -1040, -300, -1, 0, 1, 52, 900]),
                draw.randrange(1 << 60),
            )
        ]
        levels += [
            (draw.choice([1.0, 0.1, 2.0**-60, 5e-324]), draw.choice([1, 3, 1 << 63])) for _ in range(3)
        ]
        with folder.transaction() as records:
            del records.state.collections[0].levels[:]
            for epsilon, times in levels:
                records.state.collections[0].levels.add(epsilon=epsilon, times=times >> 2)
            records.save()
            exact = spent_exactly((one.epsilon, one.times) for one in records.state.collections[0].levels)
        ((entry,), total, _) = device.spent()
        assert entry[4] == total == float_above(exact)
