"""The command ``plan``: which protocol and which levels fit a need, with the errors that they would have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ldpbeam.pipelines.commands.support.console import PrintingCommand
from ldpbeam.pipelines.commands.support.options import InstantOption


@click.command(cls=PrintingCommand)
@click.option("--values", type=click.IntRange(2), metavar="N", help="How many values there are, k.")
@click.option(
    "--domain",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The values: a collection (.yaml), or a text with one label per line.",
)
@click.option(
    "--population",
    metavar="SPEC",
    help="Who is asked, as simulate takes it: csv:FILE:COLUMN …; with --values also zipf:1.1, syn.",
)
@click.option("--devices", type=click.IntRange(1), metavar="N", help="Devices that report in an epoch.")
@click.option(
    "--epochs", type=click.IntRange(1), default=365, show_default=True, help="How many are planned."
)
@click.option(
    "--change-rate",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="The chance that a device draws its value anew from one epoch to the next; without it errors over "
    "epochs are those of the worst one.",
)
@click.option("--epsilon-longitudinal", "longitudinal", type=float, help="ε∞: all reports about one input.")
@click.option("--epsilon-first", "first", type=float, help="ε1: a first report. Default: half of ε∞.")
@click.option("--cap", type=float, help="ε of all reports of a device about which values it held.")
@click.option("--lifetime-epsilon", "lifetime", type=float, help="ε of all reports, whatever changes.")
@click.option("--target-error", "target", type=float, metavar="POINTS", help="± percentage points, 95 %.")
@click.option("--bits", type=click.IntRange(1), help="The most bits that a report may have.")
@click.option("--rows", type=click.IntRange(1), default=12, show_default=True, help="Rows of the table.")
@click.option("--columns", is_flag=True, help="Say what the table's columns are.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write a collection (.yaml).")
@click.option("--row", type=click.IntRange(1), metavar="N", help="Which row --output writes; else the best.")
@click.option("--name", default="planned", show_default=True, help="Name of the written collection.")
@click.option("--epoch", default="1d", show_default=True, metavar="DURATION", help="Length of its epochs.")
@click.option("--start", type=InstantOption(), help="Start of its first epoch. Default: next midnight, UTC.")
@click.option("--chart", type=click.Path(path_type=Path), metavar="FILE", help="Draw error against ε (.svg).")
def plan(**asked: Any) -> None:
    """Find protocol and levels for a need: errors, losses, bits and a recommendation, before any device.

    Give the values and the devices, and any limits. "2 million devices, 360 values, daily for a year, error
    under 1 point, total ε at most 2" is

    \b
      ldpbeam plan --values 360 --devices 2000000 --epochs 365 --target-error 1 --lifetime-epsilon 2

    docs/planning.md says how to read the answer.
    """
    from ldpbeam.pipelines.commands.support.planning import Asked, plan_collection

    plan_collection(Asked(**asked))
