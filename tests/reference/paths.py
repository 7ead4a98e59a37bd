"""Which files a path or a pattern names, decided for each file there is, sign by sign."""

# Paths are text here.
# ruff: noqa: PTH100, PTH112, PTH113, PTH118

from __future__ import annotations

import os
from collections.abc import Sequence


def passed_over(name: str) -> bool:
    """Hidden, left by another program, or unfinished."""
    hidden = name[:1] == "." or (name[:1] == "_" and "=" not in name)
    ends = (".tmp", ".temp", ".part", ".partial", ".filepart", ".crdownload", ".inprogress", ".swp", ".crc")
    lower = name.lower()
    unfinished = name[-1:] == "~" or name.endswith("._COPYING_") or any(lower.endswith(end) for end in ends)
    return hidden or unfinished or (len(name) > 1 and name[0] == name[-1] == "#")


def fits(pattern: str, name: str) -> bool:
    """Whether a name without slashes fits a pattern without slashes."""
    if not pattern:
        return not name
    first, rest = pattern[0], pattern[1:]
    if first == "*":
        return fits(rest, name) or (bool(name) and fits(pattern, name[1:]))
    if not name:
        return False
    if first == "?":
        return fits(rest, name[1:])
    if first == "[":
        end = pattern.find("]", 3 if pattern[1:2] == "!" else 2)
        if end > 0:
            inside = pattern[1:end]
            other = inside[0] == "!"
            return (name[0] in inside[other:]) != other and fits(pattern[end + 1 :], name[1:])
    return first == name[0] and fits(rest, name[1:])


def wild(part: str) -> bool:
    """Whether a part has a sign with a meaning."""
    return any(sign in part for sign in "*?[")


def below(parts: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a file, by the names on the way to it, fits the parts of a pattern."""
    if not parts or not names:
        return not parts and not names
    part, name = parts[0], names[0]
    if part == "**":
        rest = parts[1:] or ["*"]
        deeper = len(names) > 1 and not passed_over(name) and below(parts, names[1:])
        return below(rest, names) or deeper
    if wild(part):
        return fits(part, name) and not passed_over(name) and below(parts[1:], names[1:])
    return part == name and below(parts[1:], names[1:])


def in_folder(names: Sequence[str]) -> bool:
    """Whether a file is taken when its folder is given: in it, or in partitions in it."""
    *folders, _ = names
    partitions = all("=" in folder and folder[0] != "=" for folder in folders)
    return partitions and not any(map(passed_over, names))


def all_files(base: str) -> list[str]:
    """Every file below a folder."""
    return [os.path.join(folder, name) for folder, _, names in os.walk(base) for name in names]


def named(text: str, there: Sequence[str]) -> set[str]:
    """Which of the files that are ``there``, as absolute paths, a path or pattern from here names."""
    place = os.path.abspath(text)
    if os.path.isfile(text):
        return {place}
    if os.path.isdir(text):
        inside = [path for path in there if path.startswith(place + os.sep)]
        return {path for path in inside if in_folder(path[len(place) + 1 :].split("/"))}
    parts = text.split("/")
    split = max((i for i in range(1, len(parts)) if os.path.isdir("/".join(parts[:i]) or "/")), default=0)
    base = os.path.abspath("/".join(parts[:split]) or ("/" if split else "."))
    wanted = [part for part in parts[split:] if part]
    if not any(map(wild, wanted)):
        return set()
    inside = [path for path in there if path.startswith(base + os.sep)]
    return {path for path in inside if below(wanted, path[len(base) + 1 :].split("/"))}
