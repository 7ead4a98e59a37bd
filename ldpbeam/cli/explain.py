"""The command ``explain``: a collection in words."""

from __future__ import annotations

from pathlib import Path

import click

from ldpbeam.cli.shared.console import PrintingCommand, deliver, say


@click.command(cls=PrintingCommand)
@click.argument("collection", type=click.Path(path_type=Path))
def explain(collection: Path) -> None:
    """Say what a collection does, stage by stage, with its integers and formulas; check says its promise."""
    from ldpbeam.cli.shared.collections import load
    from ldpbeam.planning.explanation import explained

    agreed = load(collection)
    stages = explained(agreed)
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
