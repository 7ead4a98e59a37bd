"""What random schedules of the local engine are made of: deaths at chosen points, a broker, a reader."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq

from ldpbeam.durable import file as files
from ldpbeam.durable.store import Transaction
from tests.ldpbeam.engine.broker import Broker, Clock, Message
from tests.ldpbeam.engine.kept import EPOCHS, kept
from tests.reference.stream import Key

BEFORE, HALF, AFTER = "before", "half", "after"


# --- deaths


class Killed(BaseException):
    """The process is gone: nobody catches this, and nothing it was about to do is done."""


@dataclass
class Death:
    """Where to die: the n-th time something is done in a folder, before it, after it or in the midst."""

    does: str
    folder: str
    n: int = 1
    moment: str = BEFORE


DOES = (
    *((does, folder) for does in ("write", "fsync", "replace") for folder in ("accounting",)),
    *[("commit", "landing")] * 3,
    *((does, "estimates") for does in ("write", "replace")),
    *((does, "rejects") for does in ("write", "replace")),
    ("write", "run.json"),
    ("replace", "run.json"),
    ("unlink", "accounting"),
    ("unlink", "rejects"),
    ("acknowledge", ""),
)
"""What a process does that the outside world can see."""


class Disk:
    """Stands between the engine and the disk: dies when told to, and knows what is forced."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.death: Death | None = None
        self.dead = False
        self.deaths = 0
        self.forced: set[int] = set()
        """Files (inodes) whose content is on disk."""
        self.loose: dict[str, str] = {}
        """Renamed files whose folder is not forced yet: path and folder."""
        self.when_replaced: Callable[[str], None] = lambda path: None
        self.when_committed: Callable[[], None] = lambda: None
        self._patches = ExitStack()

    def __enter__(self) -> Disk:
        enter = self._patches.enter_context
        enter(mock.patch.object(files, "open", self._open, create=True))
        enter(mock.patch.object(Transaction, "commit", self._commit(Transaction.commit)))
        for name, instead in {
            "fsync": self._fsync,
            "replace": self._replace,
            "unlink": self._unlink,
            "remove": self._unlink,
        }.items():
            enter(mock.patch.object(os, name, self._only_here(name, getattr(os, name), instead)))
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    def at(self, does: str, folder: str, do: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        """One point."""
        if self.dead:
            raise Killed
        death = self.death
        if death and (death.does, death.folder) == (does, folder):
            death.n -= 1
            if death.n == 0:
                self.dead = True
                self.deaths += 1
                if death.moment == AFTER:
                    do()
                elif death.moment == HALF and half:
                    half()
                raise Killed
        return do()

    def folder(self, path: str) -> str:
        """The one below the output, or the record."""
        parts = Path(path).relative_to(self.root).parts
        first = next(iter(parts), "")
        return "run.json" if first.startswith("run.json.") else first

    def _only_here(self, name: str, original: Any, instead: Any) -> Any:
        def patched(first: Any, *more: Any, **named: Any) -> Any:
            path = Path(f"/proc/self/fd/{first}").readlink() if name == "fsync" else os.fspath(first)
            if not str(path).startswith(self.root + os.sep) and str(path) != self.root:
                return original(first, *more, **named)
            return instead(original, str(path), first, *more)

        return patched

    def _open(self, path: str, mode: str, opener: Callable[[str, int], int] | None = None) -> _Handle:
        if self.dead:
            raise Killed
        return _Handle(open(path, mode, opener=opener), self, path)

    def _commit(self, original: Callable[[Transaction], None]) -> Callable[[Transaction], None]:
        def commit(rows: Transaction) -> None:
            def do() -> None:
                original(rows)
                self.when_committed()

            self.at("commit", "landing", do)

        return commit

    def _fsync(self, original: Any, path: str, descriptor: int) -> None:
        def force() -> None:
            self.forced.add(os.fstat(descriptor).st_ino)
            self.loose = {name: folder for name, folder in self.loose.items() if folder != path}

        self.at("fsync", self.folder(path), force)

    def _replace(self, original: Any, path: str, source: str, target: str) -> None:
        def rename() -> None:
            original(source, target)
            self.loose[target] = str(Path(target).parent)
            self.when_replaced(target)

        self.at("replace", self.folder(path), rename)

    def _unlink(self, original: Any, path: str, first: Any) -> None:
        self.at("unlink", self.folder(path), lambda: original(first))

    def is_safe(self, path: Path) -> bool:
        """Whether content and name are on disk."""
        return path.stat().st_ino in self.forced and str(path) not in self.loose


class _Handle:
    """A file that can be left half written."""

    def __init__(self, handle: Any, disk: Disk, path: str) -> None:
        self._handle, self._disk, self._folder = handle, disk, disk.folder(path)

    def __enter__(self) -> _Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def write(self, content: bytes) -> None:
        def some(part: bytes) -> Callable[[], Any]:
            return lambda: self._handle.write(part)

        self._disk.at("write", self._folder, some(content), some(content[: len(content) // 2]))


class Leases(Broker):
    """A broker whose pull and acknowledgement are watched; it may forget that something was acknowledged."""

    def __init__(self, clock: Clock, disk: Disk) -> None:
        super().__init__(clock)
        self.disk = disk
        self.drawn: list[Message] = []
        """Pulled since the last landing."""
        self.before_acknowledge: Callable[[Sequence[Message]], None] = lambda messages: None
        self.everything: dict[int, Message] = {}
        self.orderly: set[int] = set()
        """Published at their arrival, delivered in that order and for the first time."""

    def send(self, data: bytes, ago: float = 0.0, stamped: bool = True) -> Message:
        message = self.publish(data, self.clock.now - ago)
        message = replace(message, stamped=stamped)
        self.queue[-1] = self.everything[message.number] = message
        if not ago:
            self.orderly.add(message.number)
        return message

    def pull(self, limit_messages: int, limit_bytes: int, timeout_seconds: float) -> list[Message]:
        some = super().pull(limit_messages, limit_bytes, timeout_seconds)
        self.drawn += some
        return some

    def acknowledge(self, messages: Sequence[Message]) -> None:
        self.before_acknowledge(messages)
        every, half = super().acknowledge, messages[: len(messages) // 2]
        self.disk.at("acknowledge", "", lambda: every(messages), lambda: every(half))

    def redeliver(self) -> None:
        self.orderly -= self.out.keys()
        super().redeliver()

    def again(self, message: Message) -> None:
        """Although it was delivered, or is on its way."""
        self.orderly.discard(message.number)
        self.queue.append(message)

    def reorder(self, order: Callable[[list[Message]], None]) -> None:
        self.orderly -= {message.number for message in self.queue}
        order(self.queue)


# --- a reader


class Reader:
    """Somebody who looks at the output at any moment: what was named once stays, and is there."""

    def __init__(self, output: Path, disk: Disk) -> None:
        self.output, self.disk = output, disk
        self.books: dict[Key, dict[str, Any]] = {}
        self.archived: set[Key] = set()
        self._seen: dict[str, tuple[int, int]] = {}
        self._sums: dict[str, tuple[tuple[int, int], str]] = {}
        self.rejected: dict[str, Counter[tuple[str, str, int | None]]] = {}

    @property
    def closed(self) -> set[Key]:
        """Epochs that take no more reports, as published."""
        return {key for key, record in self.books.items() if record.get("closed")}

    def look(self) -> None:
        """At all books, and at every file that they name."""
        self.read_archive()
        for path in sorted(self.output.glob("accounting/*.json")):
            self.read(path)
        for record in self.books.values():
            for revision in record.get("revisions", ()):
                if revision["file"]:
                    assert self._sum(revision["file"]) == revision["sha256"], revision["file"]

    def read(self, path: Path) -> None:
        """One epoch's books, against what they were before."""
        mark = _mark(path)
        if self._seen.get(str(path)) == mark:
            return
        self._seen[str(path)] = mark
        self._take(path.name, json.loads(path.read_text()))

    def read_archive(self) -> None:
        """Books of closed epochs that have no file of their own any more."""
        self.archived = set()
        for content in kept(self.output, EPOCHS).values():
            line = json.loads(content)
            if line["archived"]:
                record = line["published"]
                assert record["closed"]
                self.archived.add((record["digest"], record["epoch"]))
                name = f"{record['collection']}-{record['digest']}-epoch-{record['epoch']:06d}.json"
                assert not (self.output / "accounting" / name).is_file()
                self._take(name, record)

    def _take(self, name: str, now: dict[str, Any]) -> None:
        path = Path(name)
        key: Key = (now["digest"], now.get("epoch"))
        before = self.books.get(key)
        self.books[key] = now
        line = now["accounting"]
        sound = line.get("counted", 0) + line.get("late", 0) + line.get("duplicate", 0)
        assert line["read"] == sound + sum(line["rejected"].values()), f"{path.name} does not balance"
        numbers = [revision["revision"] for revision in now.get("revisions", ())]
        assert numbers == sorted(set(numbers)), f"{path.name}: revisions are not in order"
        # A number that was given is not given to other content; who dies then leaves a gap of one.
        assert not numbers or numbers[-1] < len(numbers) + self.disk.deaths, (
            f"{path.name}: revisions are missing"
        )
        for revision in now.get("revisions", ()):
            if revision["file"] and not (before and revision in before["revisions"]):
                table = self.output / revision["file"]
                assert table.is_file(), f"{path.name} names {table.name}, which is not there"
                assert self.disk.is_safe(table), (
                    f"{path.name} names {table.name}, which is not forced to disk"
                )
                assert self._sum(revision["file"]) == revision["sha256"]
        if before:
            _goes_on(path.name, before, now)

    def _sum(self, name: str) -> str:
        path = self.output / name
        assert path.is_file(), f"{name} is named and not there"
        mark = _mark(path)
        if self._sums.get(name, ((0, 0), ""))[0] != mark:
            self._sums[name] = mark, hashlib.sha256(path.read_bytes()).hexdigest()
        return self._sums[name][1]

    def rejects(self) -> Counter[tuple[str, str, int | None]]:
        """Reports in the tables of rejects, by what is said of them."""
        found: dict[str, Counter[tuple[str, str, int | None]]] = {}
        for path in self.output.glob("rejects/*.parquet"):
            mark = f"{path.name} {_mark(path)}"
            if mark not in self.rejected:
                self.rejected[mark] = Counter()
                for row in pq.read_table(path).to_pylist():
                    self.rejected[mark][row["reason"], row["digest"], row["epoch"]] += row["count"]
            found[mark] = self.rejected[mark]
        return sum(found.values(), Counter())


def _mark(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


def _goes_on(name: str, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Books only grow, and of a closed epoch only what does not count."""
    old, new = before["accounting"], now["accounting"]
    for what in ("read", "counted", "late", "duplicate"):
        assert new.get(what, 0) >= old.get(what, 0), f"{name}: fewer {what} than before"
    assert all(new["rejected"].get(reason, 0) >= n for reason, n in old["rejected"].items()), name
    revisions = before.get("revisions", [])
    assert now.get("revisions", [])[: len(revisions)] == revisions, f"{name}: a revision has changed"
    if before.get("closed"):
        assert now["closed"], f"{name} was closed and is open again"
        assert now["revisions"] == revisions, f"{name} was closed and has another revision"
        assert new["counted"] == old["counted"]
        assert new["duplicate"] == old["duplicate"]
