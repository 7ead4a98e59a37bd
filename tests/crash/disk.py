"""A disk that forgets: what a machine may find after it lost power, as far as nothing was made durable.

:class:`Disk` stands in for the functions of ``os`` that the client writes files with. Content is durable
after ``fsync`` of its file, names are after ``fsync`` of their folder. :meth:`Disk.after_power_loss`
enumerates what may be left: every subset of the changes of names since then, with content that is whole,
absent or torn.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

__all__ = ["Disk", "PowerLoss"]


_FEW = 4


class PowerLoss(BaseException):
    """The machine stops."""


@dataclass
class _File:
    content: bytes = b""
    durable: bytes = b""

    def versions(self) -> list[bytes]:
        """What may be left of the content; all of it where it is durable."""
        if self.content == self.durable:
            return [self.content]
        torn = self.content[: len(self.content) // 2]
        return list(dict.fromkeys([self.durable, torn, self.content]))


Change = tuple[str, _File | None]
"""A name and what it stands for from now on; None: nothing."""


@dataclass
class _Folder:
    names: dict[str, _File] = field(default_factory=dict)
    durable: dict[str, _File] = field(default_factory=dict)
    changes: list[list[Change]] = field(default_factory=list)

    def change(self, *changes: Change) -> None:
        """Changes of one call: all or none of them last."""
        _apply(self.names, list(changes))
        self.changes.append(list(changes))


def _apply(names: dict[str, _File], changes: list[Change]) -> None:
    for name, file in changes:
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


def _masks(changes: int) -> list[tuple[bool, ...]]:
    """Which changes of names last: every subset of a few; of many, each beginning and all but one."""
    if changes <= _FEW:
        return list(product((False, True), repeat=changes))
    beginnings = [tuple(i < first for i in range(changes)) for first in range(changes + 1)]
    return beginnings + [tuple(i != lost for i in range(changes)) for lost in range(changes)]


class Disk:
    """Files in folders, with a log of calls.

    Args:
        stop_after: the call after which the machine stops; None for never.
        refuse: the call that fails, and its error number.

    Attributes:
        calls: names of the calls that change something, in order.
    """

    def __init__(self, stop_after: int | None = None, refuse: tuple[int, int] | None = None) -> None:
        self.folders: dict[str, _Folder] = {"/": _Folder()}
        self.calls: list[str] = []
        self._open: dict[int, tuple[str, _File | None]] = {}
        self._positions: dict[int, int] = {}
        self._next = 1000
        self._stop_after = stop_after
        self._refuse = refuse

    def __getattr__(self, name: str) -> Any:
        """Constants are those of the operating system; another function would reach the real disk."""
        if not name.startswith("O_"):
            raise AttributeError(f"the shim has no os.{name}")
        return getattr(os, name)

    def after_power_loss(self) -> Iterator[Disk]:
        """Every disk that may be found."""
        choices = []
        for path, folder in self.folders.items():
            choices.append([(path, mask) for mask in _masks(len(folder.changes))])
        for chosen in product(*choices):
            names = {}
            for path, mask in chosen:
                names[path] = dict(self.folders[path].durable)
                for keep, changes in zip(mask, self.folders[path].changes, strict=True):
                    if keep:
                        _apply(names[path], changes)
            files = list({id(file): file for found in names.values() for file in found.values()}.values())
            for contents in product(*(file.versions() for file in files)):
                fresh = {id(file): _File(c, c) for file, c in zip(files, contents, strict=True)}
                disk = Disk()
                disk.folders = {}
                for path, found in names.items():
                    made = {name: fresh[id(file)] for name, file in found.items()}
                    disk.folders[path] = _Folder(made, dict(made))
                yield disk

    def copy(self, stop_after: int | None = None) -> Disk:
        """The same disk for another machine; everything on it is durable."""
        disk = Disk(stop_after)
        for path, folder in self.folders.items():
            made = {name: _File(file.content, file.content) for name, file in folder.names.items()}
            disk.folders[path] = _Folder(made, dict(made))
        return disk

    def _call(self, name: str) -> None:
        if self._refuse and len(self.calls) == self._refuse[0]:
            self.calls.append(f"{name} refused")
            raise OSError(self._refuse[1], os.strerror(self._refuse[1]))
        self.calls.append(name)

    def _done(self) -> None:
        if self._stop_after is not None and len(self.calls) > self._stop_after:
            raise PowerLoss

    def _at(self, path: str | Path) -> tuple[_Folder, str]:
        parent, name = os.path.split(str(path))
        if parent not in self.folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(path))
        return self.folders[parent], name

    # What the client uses of os

    def stat(self, path: Path) -> None:
        if str(path) in self.folders:
            return
        folder, name = self._at(path)
        if name not in folder.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))

    def mkdir(self, path: Path, mode: int) -> None:
        """Names of folders are durable at once: what is asked here is what becomes of files."""
        assert stat.S_IMODE(mode) == 0o700
        self.folders[str(path)] = _Folder()

    def listdir(self, path: Path) -> list[str]:
        return list(self.folders[str(path)].names)

    def open(self, path: Path, flags: int, mode: int = 0) -> int:
        self._next += 1
        if str(path) in self.folders:
            self._open[self._next] = (str(path), None)
            return self._next
        folder, name = self._at(path)
        writing = flags & (os.O_WRONLY | os.O_RDWR)
        if writing and name != "lock":
            self._call("open")
        if name not in folder.names:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
            assert mode == 0o600
            if name == "lock":  # holds nothing
                folder.names[name] = folder.durable[name] = _File()
            else:
                folder.change((name, _File()))
        elif flags & os.O_TRUNC:
            folder.names[name].content = b""
        self._open[self._next] = (str(path), folder.names[name])
        self._positions[self._next] = 0
        if writing and name != "lock":
            self._done()
        return self._next

    def read(self, descriptor: int, size: int) -> bytes:
        file = self._open[descriptor][1]
        assert file is not None
        position = self._positions[descriptor]
        part = file.content[position : position + size]
        self._positions[descriptor] += len(part)
        return part

    def write(self, descriptor: int, content: bytes | memoryview) -> int:
        """At most 100 bytes at a time, so that a writer has to go on."""
        self._call("write")
        file = self._open[descriptor][1]
        assert file is not None
        written = bytes(content[:100])
        file.content += written
        self._done()
        return len(written)

    def fsync(self, descriptor: int) -> None:
        self._call("fsync")
        path, file = self._open[descriptor]
        if file is None:
            folder = self.folders[path]
            folder.durable, folder.changes = dict(folder.names), []
        else:
            file.durable = file.content
        self._done()

    def close(self, descriptor: int) -> None:
        del self._open[descriptor]

    def replace(self, source: Path, target: Path) -> None:
        self._call("replace")
        folder, name = self._at(source)
        folder.change((name, None), (self._at(target)[1], folder.names[name]))
        self._done()

    def unlink(self, path: Path) -> None:
        folder, name = self._at(path)
        if name not in folder.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        self._call("unlink")
        folder.change((name, None))
        self._done()
