"""Beside stage 3: further threads of this process count some of the batches, where a run has cores for them.

Counting a batch takes milliseconds where every report is compared with every value. Kernels do not hold the
interpreter's lock, so reading goes on meanwhile. Sums of integers are the same in whatever order they are
added up. The thread that reads counts by itself whenever the others have enough to do: what waits is bounded,
and nobody waits for a thread before all input of a step has been seen.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager

from ldpbeam.collection.collection import Collection
from ldpbeam.epoch_result import count_support
from ldpbeam.reports import ReportColumns
from ldpbeam.support import Support

_WORTH = 5e-4
"""Seconds that counting a batch has to take before another thread is given it."""
_AHEAD = 2
"""Batches that a thread may have, with the one that it counts."""
_MOST = 7
"""Threads; one that reads cannot feed more."""

NAME = "count"
"""What the threads' names begin with."""


class PartlyCounted(Support):
    """Counts, and batches that other threads count.

    Attributes:
        collection: what is counted for.
        aside: the batches, and what will be their counts.
    """

    __slots__ = ("aside", "collection")

    def __init__(self, collection: Collection, support: Support) -> None:
        """Own the arrays of ``support``."""
        super().__init__(support.counts, support.reports, support.signs)
        self.collection = collection
        self.aside: list[tuple[Future[Support], ReportColumns]] = []


class CountingThreads:
    """Threads that count batches for the one that reads."""

    def __init__(self, threads: int) -> None:
        """So many, started when there is something to count."""
        self._pool = ThreadPoolExecutor(threads, NAME)
        self._room = threading.Semaphore(_AHEAD * threads)
        self._seconds: dict[int, float] = {}  # per report of a collection, by digest

    def add(self, columns: ReportColumns, into: PartlyCounted) -> None:
        """Count a batch into ``into``, or have another thread do it."""
        if not self._given_away(columns, into):
            self._count(into.collection, columns, into)
        settle(into, wait=False)

    def close(self) -> None:
        """End the threads; batches that none of them has begun are left to :func:`settle`."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _given_away(self, columns: ReportColumns, into: PartlyCounted) -> bool:
        if self._seconds.get(into.collection.digest, 0.0) * len(columns) < _WORTH:
            return False
        if not self._room.acquire(blocking=False):
            return False
        try:
            future = self._pool.submit(self._count, into.collection, columns)
        except RuntimeError:  # they have been ended
            self._room.release()
            return False
        future.add_done_callback(lambda _: self._room.release())
        into.aside.append((future, columns))
        return True

    def _count(
        self, collection: Collection, columns: ReportColumns, into: PartlyCounted | None = None
    ) -> Support:
        begun = time.thread_time()
        counted = count_support(collection, (columns,), into)
        self._seconds[collection.digest] = (time.thread_time() - begun) / max(len(columns), 1)
        return counted


def settle(support: Support, *, wait: bool = True) -> None:
    """Add what other threads have counted to a support; with ``wait`` all of it, else what is ready.

    Raises:
        Exception: what counting a batch has raised.
    """
    if not isinstance(support, PartlyCounted):
        return
    left = []
    for future, columns in support.aside:
        if not wait and not future.done():
            left.append((future, columns))
            continue
        try:
            counted = future.result()
        except CancelledError:
            counted = count_support(support.collection, (columns,))
        support.merge(counted)
    support.aside = left


_current: CountingThreads | None = None


def current() -> CountingThreads | None:
    """The threads that count for this process, if it has any."""
    return _current


@contextmanager
def counting_with(threads: int) -> Iterator[None]:
    """Have so many further threads count within a block; none of them is left behind it."""
    global _current  # noqa: PLW0603 - Beam takes steps apart into bytes, and threads do not go into them
    if threads < 1:
        yield
        return
    before, made = _current, CountingThreads(threads)
    _current = made
    try:
        yield
    finally:
        _current = before
        made.close()


def spare_cores() -> int:
    """Cores that this process may use beside the one for the thread that reads."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable - 1, _MOST)
