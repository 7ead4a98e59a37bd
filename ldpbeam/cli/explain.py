"""The command ``explain``: a collection in words."""

from __future__ import annotations

from pathlib import Path

import click

from ldpbeam.cli.shared.console import PrintingCommand, deliver, say
from ldpbeam.cli.shared.options import devices_option


@click.command(cls=PrintingCommand)
@click.argument("collection", type=click.Path(path_type=Path))
@devices_option
def explain(collection: Path, devices: int) -> None:
    """Say what a collection does, stage by stage, with its real integers, formulas and guarantees."""
    from ldpbeam.cli.shared.collections import load
    from ldpbeam.planning.explanation import explained

    agreed = load(collection)
    stages = explained(agreed, devices)
    say(f"{agreed.name} version {agreed.version}, digest {agreed.digest_hex}")
    for title, lines in stages.items():
        say("", title, *(f"  {line}" for line in lines))
    deliver(
        {
            "schema": "ldpbeam.explain/1",
            "collection": agreed.name,
            "digest": agreed.digest_hex,
            "stages": [{"title": title, "lines": lines} for title, lines in stages.items()],
        }
    )
