"""The option ``--drawn-anew``, which --help shows: what computes is imported when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ldpbeam.over_time.covariance import DrawnAnew


class DrawnAnewOption(click.ParamType[Any]):
    """A range such as 0..0.25, or one rate such as 0.02."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> DrawnAnew:
        """Parse a rate or a range of rates; raises BadParameter for anything else."""
        from ldpbeam.over_time.covariance import DrawnAnew

        if isinstance(value, DrawnAnew):
            return value
        ends = str(value).split("..")
        try:
            least, most = float(ends[0]), float(ends[-1])
            if len(ends) > 2:
                raise ValueError("more than two ends")
            return DrawnAnew(least, most)
        except ValueError:
            self.fail(f"{value!r} is neither a range such as 0..0.25 nor a rate from 0 to 1", param, ctx)


def _warned(ctx: click.Context, param: click.Parameter, rate: DrawnAnew | None) -> DrawnAnew | None:
    """A warning where the rate rests on devices that never come back: the series cannot tell that they do."""
    if rate is not None and rate.least > 0:
        from ldpbeam.text import clean

        given = f"{rate.least:g}" if rate.least == rate.most else f"{rate.least:g}..{rate.most:g}"
        text = (
            f"ldpbeam: --drawn-anew {given} says that in each epoch at least {100 * rate.least:.4g} % of the "
            "devices draw a new value and do not come back to an earlier one; where they come back, "
            "intervals of means are too narrow. "
            f"Write --drawn-anew 0..{rate.most:g} if {rate.most:g} is the share that changed. [W-USAGE-ANEW]"
        )
        click.echo(clean(text), err=True)
    return rate


drawn_anew_option = click.option(
    "--drawn-anew",
    type=DrawnAnewOption(),
    callback=_warned,
    metavar="LOW..HIGH|R",
    help="The share of the devices that draw their value anew from one epoch to the next, from the whole "
    "population, and do not come back to an earlier one. Devices do come back, so give 0 as LOW unless you "
    "know better, and as HIGH the largest share that changes its value. Without this option errors hold "
    "whatever devices do.",
)
