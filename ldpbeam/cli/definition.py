"""The command ``definition``: what devices in other languages are given of a collection."""

from __future__ import annotations

from pathlib import Path

import click

from ldpbeam.cli.shared.console import Mode, PrintingCommand, deliver, mode, say


@click.command(cls=PrintingCommand)
@click.argument("collection", type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write it there instead.")
def definition(collection: Path, output: Path | None) -> None:
    """Print what a device in another language needs of a collection: JSON, all integers worked out.

    It holds nothing secret and nothing of the server's own. ldpbeam docs wire says what a device does
    with it.
    """
    from ldpbeam.cli.shared.collections import load
    from ldpbeam.collection.device_definition import device_definition_text

    agreed = load(collection)
    if output is not None:
        output.write_text(device_definition_text(agreed), "ascii")
        say(f"definition of {agreed.name} version {agreed.version} (digest {agreed.digest_hex}) in {output}")
        deliver({"definition": str(output), "digest": agreed.digest_hex})
    elif mode() is not Mode.QUIET:
        # It is one JSON document, for people and programs alike.
        click.echo(device_definition_text(agreed), nl=False)
