"""Which files a run reads, from what was typed after ``--input``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ldpbeam.errors import UsageError, option_error
from ldpbeam.job.matching import MatchedFiles, match_path, some_of

CLUSTER_SHARD_BITS = 3
"""Bits of sharding for messages on clusters, whose size nobody knows."""
_SHARD_BYTES = 256 << 20
_SHARD_BYTES_ON_DISK = 16 << 30


@dataclass(frozen=True)
class Inputs:
    """The files that a run reads, and what else there was where it looked for them."""

    paths: tuple[str, ...]  # each file once, in order of their names
    size: int  # bytes in all, or a little more
    passed_over: tuple[str, ...] = ()  # files and folders that were not taken for data

    @property
    def note(self) -> str:
        """What was passed over, for the user; empty for nothing."""
        why = "as no data, unfinished, or a folder that is no partition"
        left = self.passed_over
        return f"passed over {len(left):,}, {why}: {some_of(left)}" if left else ""


def find_inputs(patterns: Sequence[str]) -> Inputs:
    """The files of several paths and patterns together; a file that two of them name is read once."""
    by_identity: dict[str, str] = {}
    size = 0
    passed_over: dict[str, None] = {}
    for pattern in patterns:
        matched = match_inputs(pattern)
        for path in matched.files:
            by_identity.setdefault(_identity(path), path)
        # For a progress display and the number of shards: what patterns share may count twice.
        size += matched.size
        passed_over |= dict.fromkeys((*matched.passed_over, *matched.folders))
    taken_after_all = set(by_identity.values())
    left = tuple(path for path in passed_over if path not in taken_after_all)
    return Inputs(tuple(sorted(by_identity.values())), size, left)


def match_inputs(pattern: str) -> MatchedFiles:
    matched = match_path(pattern)
    if matched.files:
        return matched
    left = (*matched.passed_over, *matched.folders)
    raise UsageError(
        "E-USAGE-INPUT",
        f"{pattern!r} names no file" + (f", but {some_of(left)}" if left else ""),
        remedy=f"Correct --input; {pattern.rstrip('/') + '/**'!r} names the files in all folders below. Name "
        "a file itself if it is passed over.",
    )


def shard_bits_for(size: int, *, held: bool = False) -> int:
    return min(8, (size // (_SHARD_BYTES if held else _SHARD_BYTES_ON_DISK)).bit_length())


def waits_on_disk(runner: str, output: str) -> bool:
    return runner == "FnApiRunner" and "://" not in output


def _identity(path: str) -> str:
    """What two spellings of one file have in common."""
    return path if "://" in path else str(Path(path).resolve())


def split_arguments(
    arguments: Sequence[str], *, files_allowed: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Arguments that ``run`` itself does not know, as (further inputs, options for Beam)."""
    files: list[str] = []
    options: list[str] = []
    for i, argument in enumerate(arguments):
        value = i > 0 and arguments[i - 1].startswith("-") and "=" not in arguments[i - 1]
        if argument.startswith("-") or value:
            options.append(argument)
        elif files_allowed and ("://" in argument or Path(argument).exists()):
            files.append(argument)
        else:
            raise stray(argument)
    return tuple(files), tuple(options)


def stray(argument: str) -> UsageError:
    return option_error(
        f"there is no option {argument}, nor is it a file that could belong to --input",
        "Quote a pattern (--input 'reports/*.pb'): without quotes the shell replaces it by its files.",
    )
