"""The command ``explain``: a collection in words, or one published number followed from its count."""

from __future__ import annotations

from pathlib import Path

import click

from .support.console import PrintingCommand, deliver, say


@click.command(cls=PrintingCommand)
@click.argument("collection", type=click.Path(path_type=Path))
@click.option(
    "--devices",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    metavar="N",
    help="Devices that report in an epoch: errors are stated for so many.",
)
@click.option(
    "--row",
    type=(click.IntRange(0), str, click.Path(path_type=Path)),
    metavar="EPOCH VALUE RESULTS",
    help="Follow one value (its number or label) of a run from its count to the histogram.",
)
@click.option("--attribute", default="", metavar="NAME", help="With --row: the attribute of the value.")
def explain(collection: Path, devices: int, row: tuple[int, str, Path] | None, attribute: str) -> None:
    """Say what a collection does, stage by stage, with its real integers, formulas and guarantees.

    With --row it computes a published number again from its count, and ends with 6 where the stored one
    differs.
    """
    from .support.collections import load

    agreed = load(collection)
    if row is not None:
        from .support.followed import follow_row

        follow_row(agreed, *row, attribute=attribute)
        return
    from ldpbeam.planning.explained import explained

    stages = explained(agreed, devices)
    say(f"{agreed.name} version {agreed.version}, digest {agreed.digest_hex}")
    for stage in stages:
        say("")
        say(stage.title)
        for line in stage.lines:
            say(f"  {line}")
    deliver(
        {
            "schema": "ldpbeam.explain/1",
            "collection": agreed.name,
            "digest": agreed.digest_hex,
            "stages": [{"title": stage.title, "lines": stage.lines} for stage in stages],
        }
    )
