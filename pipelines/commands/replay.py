"""The command ``replay``: take up again what a run has rejected."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click

from .support.console import PrintingCommand, deliver, say
from .support.options import collections_option


@click.command(cls=PrintingCommand)
@click.argument("rejects", type=click.Path(path_type=Path))
@collections_option
def replay(rejects: Path, collection_files: tuple[Path, ...]) -> None:
    """Count rejected records again once their cause is mended: REJECTS is OUTPUT/rejects, or a table in it.

    The counts become what they would be had nothing been rejected; epochs that change get a further revision.
    Collections that the run had need not be given again: --collection adds to them.
    """
    from .support.collections import load
    from .support.outcome import identity

    collections = tuple(load(path) for path in collection_files)
    logging.basicConfig(level=logging.ERROR)
    from ..local import replay as local

    done = local.replay(rejects, collections)
    for name, epoch, revision in done.revised:
        say(f"{name}, epoch {epoch}: revision {revision}")
    say(f"rejected before {done.before:,}, now {done.after:,}")
    say(identity(done.record.accounting.total))
    deliver(done.record.as_record())
    sys.exit(done.record.exit_code)
