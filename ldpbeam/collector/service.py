"""A collector from its start to its end."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Sequence

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.distinct_collections import by_wire_digest
from ldpbeam.collector.checks import judge
from ldpbeam.collector.gather import Gather, RequestCounts
from ldpbeam.collector.server import BACKLOG, Collector, Limits
from ldpbeam.collector.store import Store
from ldpbeam.errors import disk_errors
from ldpbeam.host.memory import keep_what_is_loaded
from ldpbeam.host.signals import stopped_by_signals

_FILES = 64
"""Open files of the collector itself, about."""


def serve(
    store: Store,
    collections: Sequence[Collection],
    address: tuple[str, int],
    limits: Limits,
    listening: Callable[[str, int], None],
) -> RequestCounts:
    """Take reports until SIGTERM or SIGINT; a second signal, a second later, does what it always does."""
    by_digest = by_wire_digest(collections)
    judge([b"\0"], by_digest)  # compiles the reader before anybody waits for it
    keep_what_is_loaded()
    _raise_file_limit(limits.connections + BACKLOG + _FILES)
    store.open()
    try:
        return asyncio.run(_serve(store, by_digest, address, limits, listening))
    finally:
        with disk_errors():
            store.close()


def _raise_file_limit(wanted: int) -> None:
    """Allow so many open files, or as many as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(
    store: Store,
    collections: dict[int, Collection],
    address: tuple[str, int],
    limits: Limits,
    listening: Callable[[str, int], None],
) -> RequestCounts:
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    gather = Gather(store, collections)
    names = {collection.digest_hex: collection.name for collection in collections.values()}
    collector = Collector(gather, limits, names)

    def stop() -> None:
        loop.call_soon_threadsafe(stopped.set)

    with stopped_by_signals(stop):
        await collector.serve(address, stopped, listening)
    return gather.counts
