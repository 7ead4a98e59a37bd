"""The command ``schema``: what an editor needs to help with collection files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ldpbeam.cli.shared.console import Mode, PrintingCommand, deliver, mode, say


@click.command(cls=PrintingCommand)
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write it there instead.")
def schema(output: Path | None) -> None:
    """Print a JSON Schema of the collection file, for editors that complete and check YAML by one."""
    from ldpbeam.collection.schema import collection_schema

    text = json.dumps(collection_schema(), indent=1) + "\n"
    if output is not None:
        output.write_text(text, "ascii")
        say(f"schema of the collection file in {output}")
        deliver({"schema": str(output)})
    elif mode() is not Mode.QUIET:
        # It is one JSON document, for people and programs alike.
        click.echo(text, nl=False)
