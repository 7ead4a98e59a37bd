"""The command ``plan``: which protocol and which levels fit a need, with the errors that they would have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ldpbeam.pipelines.commands.support.console import PrintingCommand
from ldpbeam.pipelines.commands.support.drawn_anew import drawn_anew_option
from ldpbeam.pipelines.commands.support.options import InstantOption


class _RangeOption(click.ParamType[int]):
    """The range of a counter, 86400 or 0..86400; gives its end."""

    name = "range"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse, or say what is wrong."""
        if isinstance(value, int):
            return value
        begin, dots, end = value.partition("..")
        text = end if dots else begin
        if dots and begin.strip() != "0":
            self.fail(f"{value!r}: a counter counts from 0; subtract where it begins", param, ctx)
        try:
            maximum = int(text.replace("_", ""))
        except ValueError:
            self.fail(f"{value!r} is no range of whole numbers such as 0..86400", param, ctx)
        if maximum < 1:
            self.fail(f"{value!r}: the range ends at 1 or above", param, ctx)
        return maximum


class _ErrorOption(click.ParamType[tuple[float, bool]]):
    """An error, 0.5 or 0.5%; gives the number, and whether it was written in per cent."""

    name = "error"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, bool]:
        """Parse, or say what is wrong."""
        if isinstance(value, tuple):
            return value
        text = value.strip()
        try:
            return float(text.removesuffix("%")), text.endswith("%")
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)


@click.command(cls=PrintingCommand)
@click.option("--values", type=click.IntRange(2), metavar="N", help="How many values there are, k.")
@click.option(
    "--mean",
    "maximum",
    type=_RangeOption(),
    metavar="MAX",
    help="Ask for the mean of a counter instead: its range as 86400 or 0..86400.",
)
@click.option(
    "--domain",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The values: a collection (.yaml; of a mean it asks for a mean), or a text with a label per line.",
)
@click.option(
    "--population",
    metavar="SPEC",
    help="Who is asked, as simulate takes it: csv:FILE:COLUMN …; with --values or --mean also zipf:1.1, syn.",
)
@click.option(
    "--devices",
    type=click.IntRange(1),
    metavar="N",
    help="Devices that are there in an epoch. One that is there in one epoch of seven counts as a seventh.",
)
@click.option(
    "--epochs", type=click.IntRange(1), default=365, show_default=True, help="How many are planned."
)
@drawn_anew_option
@click.option(
    "--epsilon-longitudinal",
    "longitudinal",
    type=float,
    help="ε∞: all reports about one memoised input; where nothing is memoised, all reports.",
)
@click.option("--epsilon-first", "first", type=float, help="ε1: a first report. Default: half of ε∞.")
@click.option(
    "--cap",
    type=float,
    help="The most that all reports of a device may tell, an ε; --cap-of says about what.",
)
@click.option(
    "--cap-of",
    type=click.Choice(["changes", "inputs"]),
    default="changes",
    show_default=True,
    help="changes: whatever its values were and whenever they changed. inputs: which inputs it memoised "
    "(values, hash symbols, buckets or rounding points), to somebody who knows when each changed and came "
    "back.",
)
@click.option("--lifetime-epsilon", "lifetime", type=float, help="The same as --cap ε --cap-of changes.")
@click.option(
    "--target-error",
    "target",
    type=_ErrorOption(),
    metavar="ERROR",
    help="Half-width of the 95 % interval of an epoch: percentage points; of a mean units of the counter, "
    "or per cent of its range where it ends in %.",
)
@click.option("--bits", type=click.IntRange(1), help="The most bits that a report may have.")
@click.option("--rows", type=click.IntRange(1), default=12, show_default=True, help="Rows of the table.")
@click.option("--columns", is_flag=True, help="Say what the table's columns are.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write a collection (.yaml).")
@click.option("--row", type=click.IntRange(1), metavar="N", help="Which row --output writes; else the best.")
@click.option("--name", default="planned", show_default=True, help="Name of the written collection.")
@click.option("--epoch", default="1d", show_default=True, metavar="DURATION", help="Length of its epochs.")
@click.option(
    "--start",
    type=InstantOption(dates=True),
    help="Start of its first epoch; a date is midnight UTC. Default: the next one.",
)
@click.option(
    "--chart",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw error against ε (.svg; needs the extra page).",
)
def plan(**asked: Any) -> None:
    """Find protocol and levels for a need: errors, losses, bits and a recommendation, before any device.

    Give the values and the devices, and any limits. "2 million devices, 360 values, daily for a year, error
    under 1 point, total ε at most 2" is

    \b
      ldpbeam plan --values 360 --devices 2000000 --epochs 365 --target-error 1 --lifetime-epsilon 2

    "The mean of seconds in use per day, within a minute, for a month" is

    \b
      ldpbeam plan --mean 86400 --devices 2000000 --epochs 30 --target-error 60 --lifetime-epsilon 2

    docs/planning.md says how to read the answer.
    """
    from ldpbeam.pipelines.commands.support.planning import Asked, plan_collection

    plan_collection(Asked(**asked))
