"""The command ``collect``: what devices send their reports to."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldpbeam.cli.shared.console import Mode, PrintingCommand, complain, mode, say
from ldpbeam.cli.shared.options import DurationOption, collections_option
from ldpbeam.errors import LdpError, option_error

if TYPE_CHECKING:
    from ldpbeam.collection.collection import Collection
    from ldpbeam.collector.gather import RequestCounts
    from ldpbeam.collector.store import Store


_FILE_BYTES = 16 << 20  # at which a file is finished before its age


@click.command(cls=PrintingCommand)
@collections_option
@click.option(
    "--listen",
    required=True,
    metavar="[HOST:]PORT",
    help="Where devices, or a proxy, connect; without HOST on this machine only.",
)
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="Where files of reports go.")
@click.option("--topic", metavar="projects/P/topics/T", help="Publish to a Pub/Sub topic instead.")
@click.option(
    "--file-every",
    type=DurationOption(),
    default="10s",
    show_default=True,
    help="Age at which a file of reports is finished and can be read.",
)
@click.option(
    "--max-body",
    type=click.IntRange(1, 16 << 20),
    default=1 << 20,
    show_default=True,
    help="The most bytes of a request's body.",
)
@click.option(
    "--max-waiting",
    type=click.IntRange(1),
    default=64 << 20,
    show_default=True,
    help="The most bytes of all bodies at once; beyond it the costliest makes way.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="The most connections at once; beyond it the idlest makes way.",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="A web origin whose pages may send reports (CORS), or *; repeat it for several.",
)
def collect(  # noqa: PLR0913 - the options
    *,
    collection_files: tuple[Path, ...],
    listen: str,
    output: Path | None,
    topic: str | None,
    file_every: int,
    max_body: int,
    max_waiting: int,
    max_connections: int,
    origins: tuple[str, ...],
) -> None:
    """Take reports over HTTP, and answer once they are on disk, or confirmed by Pub/Sub.

    Devices POST one Report or ReportBatch to /v1/reports. It runs until SIGTERM or Ctrl-C. Then it answers
    the requests that have come, finishes the files and ends with 0.

    Exit codes: 0 stopped, 2 usage, 3 invalid collection, 6 another collector or the disk.
    """
    from ldpbeam.cli.shared.collections import introduction, load
    from ldpbeam.collection.distinct_collections import require_distinct
    from ldpbeam.collector.server import Limits
    from ldpbeam.collector.service import serve
    from ldpbeam.collector.store import FileStore
    from ldpbeam.host.http import parse_address

    address = parse_address(listen, "--listen", "127.0.0.1:8080")
    if (output is None) == (topic is None):
        raise option_error(
            "reports go to a folder or to a topic, and "
            + ("none" if topic is None else "both")
            + " was given",
            "Give --output DIR, or --topic projects/P/topics/T.",
        )
    collections = tuple(load(path) for path in collection_files)
    require_distinct(collections)
    store: Store
    if output is not None:
        store = FileStore(output, file_every, _FILE_BYTES, notice=_notice)
    else:
        from ldpbeam.collector.topic import TopicStore

        assert topic is not None  # noqa: S101 - refused above
        store = TopicStore(topic)
    say(*map(introduction, collections))
    limits = Limits(max_body, max_waiting, max_connections, origins=frozenset(origins))
    counts = serve(
        store, collections, address, limits, lambda host, port: _listening(host, port, output or topic)
    )
    _stopped(counts, collections)


def _notice(error: LdpError) -> None:
    complain(str(error))
    _event("notice", code=error.code, text=str(error))


def _listening(host: str, port: int, target: Any) -> None:
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    say(f"listening on http://{shown}/v1/reports, writing to {target}; Ctrl-C or SIGTERM stops")
    sys.stdout.flush()
    _event("listening", host=host, port=port)


def _stopped(counts: RequestCounts, collections: tuple[Collection, ...]) -> None:
    names = {collection.digest_hex: collection.name for collection in collections}
    taken, refused = sum(counts.reports.values()), sum(counts.refused.values())
    say(f"stopped: {taken:,} reports taken, {refused:,} refused")
    for (digest, reason), number in sorted(counts.refused.items()):
        say(f"  refused {number:,}: {reason}" + (f" of {names[digest]}" if digest else ""))
    reasons = [
        {"digest": digest, "reason": reason, "reports": n}
        for (digest, reason), n in sorted(counts.refused.items())
    ]
    _event("stopped", taken=dict(sorted(counts.reports.items())), refused=reasons, failures=counts.failures)


def _event(event: str, **fields: Any) -> None:
    """For programs: one object per line."""
    if mode() is Mode.JSON:
        click.echo(json.dumps({"event": event, **fields}))
        sys.stdout.flush()
