"""The option ``--change-rate``, which --help shows: what computes is imported when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ldpbeam.over_time.covariance import ChangeRate


class ChangeRateOption(click.ParamType[Any]):
    """A rate such as 0.02, or a range such as 0.01..0.05."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ChangeRate:
        """Parse, or say what is wrong."""
        from ldpbeam.over_time.covariance import ChangeRate

        if isinstance(value, ChangeRate):
            return value
        ends = str(value).split("..")
        try:
            least, most = float(ends[0]), float(ends[-1])
            if len(ends) > 2:
                raise ValueError("more than two ends")
            return ChangeRate(least, most)
        except ValueError:
            self.fail(f"{value!r} is neither a rate from 0 to 1 nor a range such as 0.01..0.05", param, ctx)


change_rate_option = click.option(
    "--change-rate",
    type=ChangeRateOption(),
    metavar="R|LOW..HIGH",
    help="The chance that a device draws its value anew from one epoch to the next, if it is known. Without "
    "it errors are those that hold whatever devices do.",
)
