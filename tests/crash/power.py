"""A model of a disk that loses power: what may be left of what a program did, from its record.

:class:`Disk` replays a record (:mod:`tests.crash.recorder`). At any place of it :meth:`Disk.states` says what
a machine may find there that lost power. The disk that is modelled promises what POSIX says of ``fsync``, and
no more:

- *Content.* What was written to a file, and its size, lasts after ``fsync`` or ``fdatasync`` of that file.
  Before that each sector of each write (4,096 bytes, at multiples of that) may have come or not, whatever the
  order of the writes. One of them may have come in part: its first byte, half of it, half of it in units of
  512 bytes, or all but its last byte. A file may also have its new size with zeros in place of what was
  written. A call that was refused has done nothing; but what was written before an ``fsync`` that was refused
  may be missing whatever is forced later, since the operating system may have dropped it (not so where the
  disk was full).
- *Names.* A name that comes, goes or changes lasts after ``fsync`` of its folder; forcing the file to disk
  does not keep its name. Before that each call may have had its effect or not, independently of the others,
  in any folder; effects come in the order of the calls. One call has its whole effect or none, so a rename
  never leaves nothing. A rename from folder to folder is certain when both were forced. A folder that was
  made is a name like any other. Certain are the folder of the record itself and all that was in it before.
- Both are independent: a name may last without its content, and content without its name.

ext4, xfs and btrfs keep more: the order of names, a new file's name with its content. What is right here is
right there. Not modelled: a disk that says it has forced what it has not, damage to what was certain (flipped
bits, lost sectors, sectors beside the one that was written), later changes of modes, owners, times.

:func:`losses` walks through a record. Where there are few possibilities all of them are given; beyond a limit
a sample: the extremes, what differs from an extreme in one file, and draws of a generator with a fixed seed.
"""

from __future__ import annotations

import errno
import json
import math
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice, product
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from tests.crash.recorder import Call, Entries, Entry, Kind, Log, Said

SECTOR = 4096
FEW = 5
"""So many uncertain pieces of a file, or names, are tried in all their subsets."""
LIMIT = 256
"""States at one place of a record, at most."""


@dataclass
class _Piece:
    """Part of a write that comes as one; or a size that was set."""

    offset: int
    content: bytes | None
    certain: bool = False
    lost: bool = False
    """Whether a later fsync makes it certain no more."""

    def onto(self, content: bytearray, part: int | None = None) -> None:
        """What the file holds with it, or with its first bytes."""
        if self.content is None:
            grown = self.offset - len(content)
            content[self.offset :] = bytes(max(0, grown))
            return
        some = self.content[:part]
        if self.offset > len(content):
            content.extend(bytes(self.offset - len(content)))
        content[self.offset : self.offset + len(some)] = some


@dataclass(eq=False)
class _File:
    number: int
    mode: int
    certain: bytes = b""
    """Content before the first piece."""
    pieces: list[_Piece] = field(default_factory=list)
    known: list[bytes] | None = None
    """Its versions, once they were asked for."""

    def write(self, offset: int, content: bytes) -> None:
        at = 0
        while at < len(content):
            end = min(len(content), (offset + at) // SECTOR * SECTOR + SECTOR - offset)
            self.pieces.append(_Piece(offset + at, content[at:end]))
            at = end
        self.known = None

    def resize(self, size: int) -> None:
        self.pieces.append(_Piece(size, None))
        self.known = None

    def force(self) -> None:
        for piece in self.pieces:
            piece.certain = piece.certain or not piece.lost
        while self.pieces and self.pieces[0].certain:
            self.certain = self._with([0])
            del self.pieces[0]
        self.known = None

    def forget(self) -> None:
        """It could not be forced."""
        for piece in self.pieces:
            piece.lost = not piece.certain

    def _with(self, which: Iterable[int], torn: int = -1, part: int = 0) -> bytes:
        """Content with some of the pieces; of the one that is torn only the first ``part`` bytes."""
        content = bytearray(self.certain)
        for i in which:
            self.pieces[i].onto(content, part if i == torn else None)
        return bytes(content)

    def now(self) -> bytes:
        """What readers see."""
        return self._with(range(len(self.pieces)))

    def versions(self) -> list[bytes]:
        """What may be left: first all of it, then nothing of what is uncertain, then the rest."""
        if self.known is None:
            self.known = list(dict.fromkeys(self._versions()))
        return self.known

    def _versions(self) -> Iterator[bytes]:
        uncertain = [i for i, piece in enumerate(self.pieces) if not piece.certain]
        if not uncertain:
            yield self.now()
            return
        for mask in subsets(len(uncertain)):
            kept = dict(zip(uncertain, mask, strict=True))
            yield self._with(i for i in range(len(self.pieces)) if kept.get(i, True))
        for torn in uncertain:
            size = len(self.pieces[torn].content or b"")
            for part in sorted({1, size // 2, size // 2 // 512 * 512, size - 1} - {-1, 0, size}):
                yield self._with((i for i, p in enumerate(self.pieces) if p.certain or i <= torn), torn, part)
                yield self._with(range(len(self.pieces)), torn, part)
        certain = self._with(i for i, piece in enumerate(self.pieces) if piece.certain)
        now = self.now()
        if len(now) > len(certain):
            yield certain + bytes(len(now) - len(certain))
            yield now[: len(certain)] + bytes(len(now) - len(certain))


@dataclass(eq=False)
class _Folder:
    mode: int = 0o700
    names: dict[str, _Node] = field(default_factory=dict)
    certain: dict[str, _Node] = field(default_factory=dict)


_Node = _File | _Folder


@dataclass(eq=False)
class _Change:
    """Of names, by one call: (folder, name, what it stands for from now on; None: nothing)."""

    names: list[tuple[_Folder, str, _Node | None]]
    waits_for: set[_Folder]
    """Folders that are to be forced before it is certain."""


def subsets(count: int) -> list[tuple[bool, ...]]:
    """Which of ``count`` things last: all, none, then every subset of a few; of many some."""
    if count <= FEW:
        return sorted(product((True, False), repeat=count), key=lambda mask: -abs(2 * sum(mask) - count))
    draw = random.Random(count)
    found = [(True,) * count, (False,) * count]
    found += [tuple(i < first for i in range(count)) for first in range(1, count)]
    for one in range(count):
        found += [tuple(i != one for i in range(count)), tuple(i == one for i in range(count))]
    found += [tuple(draw.random() < 0.5 for _ in range(count)) for _ in range(16)]
    return list(dict.fromkeys(found))


class Disk:
    """A folder on a disk, as a record has left it so far."""

    def __init__(self, log: Log) -> None:
        """As it was before the record's first call."""
        self._path = PurePosixPath(log.folder)
        self._root = _Folder()
        self._made = 0
        self._changes: list[_Change] = []
        self._files: dict[int, _File] = {}
        self._folders: dict[int, _Folder] = {log.inode: self._root}
        for name, entry in log.before.items():
            above, last = self._at(f"{self._path}/{name}")
            above.names[last] = above.certain[last] = self._node(entry)

    def _node(self, entry: Entry) -> _Node:
        if entry.content is None:
            self._folders[entry.inode] = _Folder(entry.mode)
            return self._folders[entry.inode]
        if entry.inode not in self._files:
            self._files[entry.inode] = self._file(entry.mode, entry.content)
        return self._files[entry.inode]

    def _file(self, mode: int, content: bytes = b"") -> _File:
        """A new one. Inode numbers come again when a file has gone; its number does not."""
        self._made += 1
        return _File(self._made, mode & 0o777, content)

    def _at(self, path: str) -> tuple[_Folder, str]:
        *above, last = PurePosixPath(path).relative_to(self._path).parts
        folder = self._root
        for name in above:
            found = folder.names[name]
            assert isinstance(found, _Folder)
            folder = found
        return folder, last

    def apply(self, call: Call) -> None:
        """The disk after one more call."""
        match call.kind:
            case Kind.WRITE:
                self._files[call.inode].write(call.offset, call.first)
            case Kind.SIZE:
                self._files[call.inode].resize(call.offset)
            case Kind.FSYNC:
                self._force(call.inode)
            case Kind.REFUSED:
                if call.first == b"fsync" and call.offset != errno.ENOSPC and call.inode in self._files:
                    self._files[call.inode].forget()
            case _:
                self._name(call, os.fsdecode(call.first))

    def _name(self, call: Call, path: str) -> None:
        """A call that changes names."""
        match call.kind:
            case Kind.CREATE:
                self._files[call.inode] = self._file(call.offset)
                self._change((*self._at(path), self._files[call.inode]))
            case Kind.MKDIR:
                self._folders[call.inode] = _Folder(call.offset & 0o777)
                self._change((*self._at(path), self._folders[call.inode]))
            case Kind.LINK:
                old, name = self._at(path)
                self._change((*self._at(call.second), old.names[name]))
            case Kind.UNLINK | Kind.RMDIR:
                self._change((*self._at(path), None))
            case Kind.RENAME:
                old, name = self._at(path)
                node = old.names[name]
                self._change((old, name, None), (*self._at(call.second), node))

    def _change(self, *names: tuple[_Folder, str, _Node | None]) -> None:
        for folder, name, node in names:
            if node is None:
                del folder.names[name]
            else:
                folder.names[name] = node
        self._changes.append(_Change(list(names), {folder for folder, _, _ in names}))

    def _force(self, inode: int) -> None:
        if inode in self._files:
            self._files[inode].force()
        folder = self._folders.get(inode)
        if folder is None:
            return
        for change in self._changes:
            change.waits_for.discard(folder)
        while self._changes and not self._changes[0].waits_for:
            _last(self._changes.pop(0), lambda folder: folder.certain)

    def now(self) -> dict[str, Entry]:
        """What readers see."""
        return self._listing(lambda folder: folder.names, _File.now)

    def states(self, limit: int = LIMIT) -> Iterator[dict[str, Entry]]:
        """What a machine may find that lost power here; at most about ``limit`` states."""
        uncertain = [change for change in self._changes if change.waits_for]
        masks = subsets(len(uncertain))
        found = [self._with(dict(zip(map(id, uncertain), mask, strict=True))) for mask in masks]
        for names, contents in _choices(found, limit):
            yield self._listing(
                lambda folder, names=names: names.get(folder, folder.certain),  # type: ignore[misc]
                lambda file, contents=contents: contents.get(file, file.certain),  # type: ignore[misc]
            )

    def _with(self, kept: Mapping[int, bool]) -> _Found:
        """Names of folders where some of the uncertain changes last; and the files below with a choice."""
        names: dict[_Folder, dict[str, _Node]] = {}
        for change in self._changes:
            if kept.get(id(change), True):
                _last(change, lambda folder: names.setdefault(folder, dict(folder.certain)))
        files: dict[_File, None] = {}
        for _, node in _walk(self._root, lambda folder: names.get(folder, folder.certain)):
            if isinstance(node, _File) and node.pieces:
                files[node] = None
        return names, list(files)

    def _listing(
        self, names: Callable[[_Folder], dict[str, _Node]], content: Callable[[_File], bytes]
    ) -> dict[str, Entry]:
        found = {}
        for path, node in _walk(self._root, names):
            match node:
                case _File():
                    found[path] = Entry(content(node), node.number, node.mode)
                case _Folder():
                    found[path] = Entry(None, 0, node.mode)
        return found


def _last(change: _Change, of: Callable[[_Folder], dict[str, _Node]]) -> None:
    """Let a change have its effect on the names that ``of`` gives of a folder."""
    for folder, name, node in change.names:
        if node is None:
            of(folder).pop(name, None)
        else:
            of(folder)[name] = node


def _walk(
    root: _Folder, names: Callable[[_Folder], dict[str, _Node]], above: str = ""
) -> Iterator[tuple[str, _Node]]:
    """Everything below a folder, folders before what is in them."""
    for name, node in sorted(names(root).items()):
        yield f"{above}{name}", node
        if isinstance(node, _Folder):
            yield from _walk(node, names, f"{above}{name}/")


_Found = tuple[dict[_Folder, dict[str, _Node]], list[_File]]


def _choices(
    found: Sequence[_Found], limit: int
) -> Iterator[tuple[dict[_Folder, dict[str, _Node]], dict[_File, bytes]]]:
    """Names with a content for each file: all of them, or a sample that begins with the extremes."""
    versions = [[file.versions() for file in files] for _, files in found]
    if sum(math.prod(map(len, some)) for some in versions) <= limit:
        picks: Iterator[tuple[int, Sequence[int]]] = (
            (i, pick) for i, some in enumerate(versions) for pick in product(*(range(len(v)) for v in some))
        )
    else:
        picks = islice(_sample([[len(v) for v in some] for some in versions]), limit)
    for i, pick in picks:
        names, files = found[i]
        yield names, {file: v[j] for file, v, j in zip(files, versions[i], pick, strict=True)}


def _sample(sizes: Sequence[Sequence[int]]) -> Iterator[tuple[int, Sequence[int]]]:
    """(which names, which version of each file), without end; extremes first, then what is near to them."""
    extremes = [(i, [min(low, size - 1) for size in some]) for i, some in enumerate(sizes) for low in (0, 1)]
    yield from extremes
    near = [
        (i, [*pick[:file], version, *pick[file + 1 :]])
        for i, pick in extremes
        for file, size in enumerate(sizes[i])
        for version in range(size)
    ]
    draw = random.Random(len(near))
    draw.shuffle(near)
    for one in near:
        yield one
        i = draw.randrange(len(sizes))
        yield i, [draw.randrange(size) for size in sizes[i]]
    while True:
        i = draw.randrange(len(sizes))
        yield i, [draw.randrange(size) for size in sizes[i]]


class Loss(NamedTuple):
    """A loss of power after so many calls: the marks that the program had made, and what is left."""

    after: int
    said: Said
    state: Entries


def losses(log: Log, limit: int = LIMIT) -> Iterator[Loss]:
    """Every place of a record at which the power may be lost, with everything that may be left there."""
    disk, said = Disk(log), list[Any]()
    seen: set[tuple[int, bytes]] = set()

    def here(after: int) -> Iterator[Loss]:
        for state in disk.states(limit):
            digest = blake2b(digest_size=16)
            for path, entry in state.items():
                digest.update(f"{path}\0{entry.content is None}{len(entry.content or b'')}\0".encode())
                digest.update(entry.content or b"")
            if (key := (len(said), digest.digest())) not in seen:
                seen.add(key)
                yield Loss(after, tuple(said), state)

    yield from here(0)
    for after, call in enumerate(log.calls):
        if call.kind == Kind.MARK:
            said.append(json.loads(call.first))
            if after + 1 == len(log.calls) or log.calls[after + 1].kind != Kind.MARK:
                yield from here(after + 1)
        else:
            disk.apply(call)
            yield from here(after + 1)


def forcing_only(forced: str, log: Log) -> Log:
    """The record of a program that forces only its ``files``, or only its ``folders``, to disk."""
    folders = {log.inode, *(call.inode for call in log.calls if call.kind == Kind.MKDIR)}
    gone = {
        call
        for call in log.calls
        if call.kind == Kind.FSYNC and (call.inode in folders) == (forced == "files")
    }
    assert gone
    return replace(log, calls=tuple(call for call in log.calls if call not in gone))


def final(log: Log, limit: int = LIMIT) -> Iterator[Entries]:
    """What may be left when the power is lost after all calls of a record."""
    disk = Disk(log)
    for call in log.calls:
        disk.apply(call)
    return disk.states(limit)
