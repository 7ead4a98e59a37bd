"""When files of reports had been written, as far as the files of this machine say, in words.

Reports of an epoch that had not begun when their file was written are refused. Archives, images and wrong
clocks give files other times, so a person is shown the time that was used, and where it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import LAST_SECOND, instant

REMEDY = "Give --not-after with the time by which the files had been written"


def doubtful_times(paths: Sequence[str], collections: Sequence[Collection], now: int) -> Iterator[str]:
    """A line about files from before all collections, and one about files from the future."""
    origin = min(collection.opens(0) for collection in collections)
    begun = [collection.begun(now) for collection in collections]
    early, ahead = [], []
    for modified, path in file_times(paths):
        if modified + 1 < origin:
            early.append((modified, path))
        elif modified > now and [collection.begun(modified) for collection in collections] != begun:
            ahead.append((modified, path))
    if early:
        first = min(collection.epochs.origin for collection in collections)
        yield (
            f"{_named(min(early), early)} is before the first epoch ({instant(first)}), so it is not "
            f"believed: all epochs are taken that have begun by now. {REMEDY}, if it was earlier. "
            "[W-FILE-TIME]"
        )
    if ahead:
        yield (
            f"{_named(max(ahead), ahead)} is in the future, so epochs are taken that have not begun. "
            f"{REMEDY}. [W-FILE-TIME]"
        )


def file_times(paths: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Seconds since 1970 of the files of this machine that can be seen, each with its path."""
    for path in paths:
        if "://" in path:
            continue
        try:
            yield int(Path(path).stat().st_mtime), path
        except (OSError, ValueError):
            continue


def _named(one: tuple[int, str], those: Sequence[object]) -> str:
    more = f" (and that of {len(those) - 1:,} more)" if len(those) > 1 else ""
    return f"{one[1]}: the file's own time, {_instant(one[0])},{more}"


def _instant(seconds: int) -> str:
    return instant(min(max(seconds, 0), LAST_SECOND))
