"""The option ``--drawn-anew``, which --help shows: what computes is imported when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ldpbeam.cli.shared.console import complain
from ldpbeam.cli.shared.options import TextOption

if TYPE_CHECKING:
    from ldpbeam.over_time.covariance import DrawnAnew


def _rate(text: str) -> DrawnAnew:
    """A range such as 0..0.25, or one rate such as 0.02."""
    from ldpbeam.over_time.covariance import DrawnAnew

    least, dots, most = text.partition("..")
    try:
        return DrawnAnew(float(least), float(most if dots else least))
    except ValueError:
        raise ValueError(f"{text!r} is neither a range such as 0..0.25 nor a rate from 0 to 1") from None


def _warned(ctx: click.Context, param: click.Parameter, rate: DrawnAnew | None) -> DrawnAnew | None:
    """A warning where the rate rests on devices that never come back: the series cannot tell that they do."""
    if rate is not None and rate.least > 0:
        given = f"{rate.least:g}" if rate.least == rate.most else f"{rate.least:g}..{rate.most:g}"
        complain(
            f"--drawn-anew {given} says that in each epoch at least {100 * rate.least:.4g} % of the "
            "devices draw a new value and do not come back to an earlier one; where they come back, "
            "intervals of means are too narrow. "
            f"Write --drawn-anew 0..{rate.most:g} if {rate.most:g} is the share that changed. [W-USAGE-ANEW]"
        )
    return rate


drawn_anew_option = click.option(
    "--drawn-anew",
    type=TextOption("rate", _rate),
    callback=_warned,
    metavar="LOW..HIGH|R",
    help="The share of the devices that draw their value anew from one epoch to the next, from the whole "
    "population, and do not come back to an earlier one. Devices do come back, so give 0 as LOW unless you "
    "know better, and as HIGH the largest share that changes its value. Without this option errors hold "
    "whatever devices do.",
)
