"""Which files a path or a pattern names. What exists is no pattern, whatever characters are in its name.

Of a folder, its files are taken and those of its partitions: folders ``name=value``, as Hive, Spark and
DuckDB write them. Files that other programs leave beside their data, and unfinished ones, are passed over
wherever a name was not typed out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from typing import Any

from ldpbeam.transforms.wildcards import WILD, at_least

_UNFINISHED = re.compile(
    r"(.*~|#.*#|.*\.(tmp|temp|part|partial|filepart|crdownload|inprogress|swp|crc)|.*\._COPYING_)",
    re.IGNORECASE | re.DOTALL,
)
"""Names of what is being written or edited, of old copies, and of Hadoop's checksums."""


@dataclass(frozen=True)
class MatchedFiles:
    files: tuple[str, ...]
    size: int
    passed_over: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def is_passed_over(name: str) -> bool:
    """Whether a file or folder of this name is no data, as Hadoop and its kin have it, or is not finished."""
    if name.startswith("."):
        return True
    # Spark takes a partition by a column whose name begins with an underscore for data.
    return (name.startswith("_") and "=" not in name) or _UNFINISHED.fullmatch(name) is not None


def is_partition(name: str) -> bool:
    """Whether a folder of this name holds a part of what the folder around it holds."""
    column, equals, _ = name.partition("=")
    return bool(column and equals)


def match_path(pattern: str) -> MatchedFiles:
    """The files that a path, or else a pattern, names; none where nothing matches."""
    matches = _Matches()
    if "://" in pattern:
        _match_remote(pattern, matches)
    elif os.path.lexists(pattern):
        # A link to nothing is not passed over: it counts as a file that cannot be read.
        if os.path.isdir(pattern):  # noqa: PTH112 - Beam paths are text
            matches.folder(pattern)
        else:
            matches.file(pattern)
    else:
        base, parts = _existing(pattern)
        if parts and any(map(WILD.search, parts)):
            matches.matches(base, parts)
    return matches.all()


class _Matches:
    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        self.passed_over: set[str] = set()
        self.folders: set[str] = set()

    def all(self) -> MatchedFiles:
        """What all paths and patterns so far name together, in the order of names."""
        return MatchedFiles(
            tuple(sorted(self.files)),
            sum(self.files.values()),
            tuple(sorted(self.passed_over)),
            tuple(sorted(self.folders)),
        )

    def file(self, path: str) -> None:
        try:
            self.files[path] = os.stat(path).st_size  # noqa: PTH116 - as above
        except OSError:
            self.files[path] = 0

    def folder(self, path: str) -> None:
        """Take the files of a folder and of the partitions in it."""
        for entry in _entries(path):
            place = _joined(path, entry.name)
            if not self._is_data(path, entry):
                continue
            if not entry.is_dir():
                self.file(place)
            elif is_partition(entry.name):
                self.folder(place)
            else:
                self.folders.add(f"{place}/")

    def matches(self, base: str, parts: list[str]) -> None:
        """Take the files below a folder that match the parts of a pattern, one for each step downward."""
        part, *rest = parts
        if part == "**":
            self._below(base, rest)
        elif not WILD.search(part):
            self._step(_joined(base, part), rest)
        else:
            fits = re.compile(translate(part)).match
            for entry in _entries(base):
                if fits(entry.name) and (not rest or entry.is_dir()) and self._is_data(base, entry):
                    self._step(_joined(base, entry.name), rest)

    def _step(self, place: str, rest: list[str]) -> None:
        """Go on in what matches a part of a pattern, or take it where no part is left."""
        is_folder = os.path.isdir(place)  # noqa: PTH112 - as above
        if rest:
            if is_folder:
                self.matches(place, rest)
        elif is_folder:
            self.folders.add(f"{place}/")
        elif os.path.lexists(place):
            self.file(place)

    def _below(self, base: str, rest: list[str]) -> None:
        """What matches the rest of a pattern here and in any folder below; links are not followed."""
        if rest:
            self.matches(base, rest)
        for entry in _entries(base):
            is_folder = entry.is_dir(follow_symlinks=False)
            if (rest and not is_folder) or not self._is_data(base, entry):
                continue
            if is_folder:
                self._below(_joined(base, entry.name), rest)
            else:
                self._step(_joined(base, entry.name), rest)

    def _is_data(self, folder: str, entry: Any) -> bool:
        """Whether something is not passed over; else it is noted."""
        if not is_passed_over(entry.name):
            return True
        self.passed_over.add(_joined(folder, entry.name) + "/" * entry.is_dir())
        return False


def _existing(pattern: str) -> tuple[str, list[str]]:
    """The longest beginning of a pattern that is a folder, which is no pattern; and the parts behind it."""
    # A slash at the end asks for what a folder holds.
    parts = f"{pattern}*".split("/") if pattern.endswith("/") else pattern.split("/")
    for count in range(len(parts) - 1, 0, -1):
        base = "/".join(parts[:count]) or "/"
        if os.path.isdir(base):  # noqa: PTH112 - as above
            return base, [part for part in parts[count:] if part]
    return "", [part for part in parts if part]


def _joined(folder: str, name: str) -> str:
    return f"{folder}{'' if not folder or folder.endswith('/') else '/'}{name}"


def _entries(folder: str) -> list[Any]:
    """What a folder holds, by name; nothing where it cannot be read."""
    try:
        with os.scandir(folder or ".") as scanned:
            return sorted(scanned, key=lambda entry: entry.name)
    except OSError:
        return []


# --- object stores


def _match_remote(pattern: str, matches: _Matches) -> None:
    """Objects by their path, by that of a folder, or by a pattern of Beam's file systems."""
    from apache_beam.io.filesystem import FileSystem
    from apache_beam.io.filesystems import FileSystems

    begin = next((sign.start() for sign in WILD.finditer(pattern)), len(pattern))
    folder = pattern.rstrip("/") + "/"
    if FileSystems.exists(pattern):
        there = FileSystems.match([at_least(pattern)])[0].metadata_list
    else:
        # Beam lists all of these for a pattern too.
        there = FileSystems.match([f"{pattern[:begin]}**"])[0].metadata_list
    objects = {one.path: one.size_in_bytes for one in there}
    if pattern in objects:
        matches.files[pattern] = objects[pattern]
    elif inside := {path: size for path, size in objects.items() if path.startswith(folder)}:
        _sift(inside, len(folder), matches, partitions=True)
    elif begin < len(pattern):
        fits = re.compile(FileSystem.translate_pattern(pattern + "*" * pattern.endswith("/"))).match
        named = {path: size for path, size in objects.items() if fits(path)}
        _sift(named, pattern.rfind("/", 0, begin) + 1, matches, partitions=False)


def _sift(objects: Mapping[str, int], begin: int, matches: _Matches, *, partitions: bool) -> None:
    """Take objects whose names, from a position on, are names of data; of a folder, partitions too."""
    for path, size in objects.items():
        *folders, name = path[begin:].split("/")
        if not name:
            continue  # some stores have objects that stand for folders
        if any(map(is_passed_over, (*folders, name))):
            matches.passed_over.add(path)
        elif partitions and not all(map(is_partition, folders)):
            matches.folders.add(path[: begin + len(folders[0]) + 1])
        else:
            matches.files[path] = size


def some_of(paths: Iterable[str]) -> str:
    """The first five of some paths, and how many more there are."""
    first, more = (ordered := list(paths))[:5], len(ordered) - 5
    return f"{', '.join(first)} and {more:,} more" if more > 0 else ", ".join(first)
