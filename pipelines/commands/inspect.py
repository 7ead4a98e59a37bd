"""The command ``inspect``: what a file or folder is."""

from __future__ import annotations

from pathlib import Path

import click

from .support.console import PrintingCommand
from .support.options import collections_option


@click.command(cls=PrintingCommand)
@click.argument("file", type=click.Path(path_type=Path))
@collections_option
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="How many reports, rejects, epochs or values to show.",
)
def inspect(file: Path, collection_files: tuple[Path, ...], limit: int) -> None:
    """Show what a file or folder is, and the first records in it.

    It may hold reports, rejects, estimates, the results of a run, a simulation, or be a collection.
    """
    from .support.inspection import inspect_file

    inspect_file(file, collection_files, limit)
