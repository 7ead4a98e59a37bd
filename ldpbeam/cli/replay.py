"""The command ``replay``: take up again what a run has rejected."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ldpbeam.cli.shared.console import PrintingCommand, deliver, say
from ldpbeam.cli.shared.options import collections_option
from ldpbeam.errors import Reason

if TYPE_CHECKING:
    from ldpbeam.collection.collection import Collection
    from ldpbeam.records.rejects import Replayed


@click.command(cls=PrintingCommand)
@click.argument("rejects", type=click.Path(path_type=Path))
@collections_option
def replay(rejects: Path, collection_files: tuple[Path, ...]) -> None:
    """Count rejected records again once their cause is mended: REJECTS is OUTPUT/rejects, or a table in it.

    The counts become what they would be had nothing been rejected; epochs that change get a further revision.
    Collections that the run had need not be given again: --collection adds to them.
    """
    from ldpbeam.cli.shared.collections import load

    collections = tuple(load(path) for path in collection_files)
    logging.basicConfig(level=logging.ERROR)
    done = replay_rejects(rejects, collections)
    for name, epoch, revision in done.revised:
        say(f"{name}, epoch {epoch}: revision {revision}")
    say(f"rejected before {done.before:,}, now {done.after:,}")
    unknown = done.record.accounting.total.rejected.get(Reason.UNKNOWN_COLLECTION.value, 0)
    if unknown:
        say(f"{unknown:,} are of a collection that was not given: --collection FILE adds it")
    say(done.record.accounting.total.identity)
    deliver(done.record.as_record())
    sys.exit(done.record.exit_code)


def replay_rejects(rejects: Path, collections: tuple[Collection, ...] = ()) -> Replayed:
    """Take up rejected records again, in the output that they belong to: of a run over files, or of a
    stream."""
    from ldpbeam.records.rejects import find_rejects

    source = find_rejects(rejects, collections)
    if source.record.stream is not None:
        from ldpbeam.engine.replay import replay_stream

        return replay_stream(source)
    from ldpbeam.pipelines.replay import replay_files

    return replay_files(source)
