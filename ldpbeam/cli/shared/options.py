"""Options as click takes them, made from those that ldpbeam/job/config.py declares."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from ldpbeam.cli.shared.console import complain
from ldpbeam.errors import option_error
from ldpbeam.job.config import options
from ldpbeam.job.option import Option, OptionKind, Over

if TYPE_CHECKING:
    from ldpbeam.collection.slice_shares import SliceShares
    from ldpbeam.over_time.covariance import DrawnAnew

_DAY = 86400  # seconds

Command = TypeVar("Command", bound=Callable[..., Any])

collections_option = click.option(
    "--collection",
    "collection_files",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="A collection (YAML) that reports may belong to; repeat it for several.",
)


class TextOption(click.ParamType[Any]):
    """What a function makes of a text; its ValueError becomes the usage error, with the same words."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        """``name`` stands in --help where an option has no other word for its value."""
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


def named_span(span: tuple[int, int]) -> str:
    """Epochs as ``--epochs`` takes them: the first and the last, or the only one."""
    return str(span[0]) if span[0] == span[1] else f"{span[0]}..{span[1]}"


def _instant(text: str) -> int:
    from ldpbeam.collection.epochs import parse_instant

    return parse_instant(text)


def _date_or_instant(text: str) -> int:
    """The same, where a date such as 2026-01-01 is its first second in UTC."""
    date = re.fullmatch(r"\s*([0-9]{4}-[0-9]{2}-[0-9]{2})\s*", text)
    return _instant(f"{date[1]}T00:00:00Z" if date else text)


START = TextOption("instant", _date_or_instant)
"""Where a first epoch begins."""


def next_midnight() -> int:
    """The next midnight in UTC, in seconds since 1970: where an epoch may begin that nobody else gave."""
    return (int(time.time()) // _DAY + 1) * _DAY


def slice_option(about: str, name: str = "--slice") -> Callable[[Command], Command]:
    """``--slice``, or another name; ``about`` begins its help."""

    def parsed(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
        from ldpbeam.collection.slices import parse_slice

        try:
            return parse_slice(texts)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return click.option(
        name,
        "slice_" if name == "--slice" else "against_slice",
        callback=parsed,
        multiple=True,
        metavar="DIMENSION=LABEL",
        help=f"{about} one label of a dimension, or one of each, with the option repeated.",
    )


def by_slice_option(about: str) -> Callable[[Command], Command]:
    return click.option("--by-slice", metavar="DIMENSION", help=about)


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


weight_option = click.option(
    "--weight",
    type=click.Choice(["epochs", "reports"]),
    default="epochs",
    show_default=True,
    help="What weighs the same in a mean of several epochs: each epoch, however many reports it has, or each "
    "report.",
)


def slice_shares_option(about: str) -> Callable[[Command], Command]:

    def different(ctx: click.Context, param: click.Parameter, shares: tuple[Any, ...]) -> tuple[Any, ...]:
        names = [one.name for one in shares]
        if len(set(names)) < len(names):
            raise click.BadParameter("a dimension is given twice", ctx, param)
        return shares

    return click.option(
        "--slice-shares",
        type=TextOption("shares", _slice_shares),
        callback=different,
        multiple=True,
        metavar="NAME=SHARES",
        help=f"{about} country=50%,30%,20%, or with labels country=DE:50%,FR:30%,other:20%. Repeat it for "
        "further dimensions.",
    )


def _slice_shares(text: str) -> SliceShares:
    from ldpbeam.collection.slice_shares import SliceShares

    return SliceShares.parse(text)


class DurationOption(click.ParamType[int]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        spelt = param.opts[0] if param is not None else "a duration"
        return value if isinstance(value, int) else _seconds(spelt, value)


def epoch_option(about: str) -> Callable[[Command], Command]:
    return click.option(
        "--epoch", type=DurationOption(), default="1d", show_default=True, metavar="DURATION", help=about
    )


def run_options(command: Command) -> Command:
    for name, (option, default) in reversed(options().items()):
        command = _click_option(name, option, default)(command)
    return command


def _click_option(name: str, option: Option, default: Any) -> Callable[[Command], Command]:
    from ldpbeam.collection.epochs import duration

    kinds: dict[OptionKind, dict[str, Any]] = {
        OptionKind.TEXTS: {"multiple": True},
        OptionKind.FLAG: {"is_flag": True},
        OptionKind.COUNT: {"type": click.IntRange(option.least, option.most)},
        OptionKind.FRACTION: {"type": click.FloatRange(0, 1)},
        OptionKind.INSTANT: {"type": TextOption("instant", _instant)},
    }
    more = kinds.get(option.kind, {})
    if option.shown:
        shown = duration(default) if option.kind is OptionKind.DURATION else default
        more |= {"default": shown, "show_default": True}
    return click.option(
        option.spelt(name), name, metavar=option.metavar, required=option.required, help=option.help, **more
    )


def given(context: click.Context, over: Collection[Over]) -> dict[str, Any]:
    """The values of the options by the name of their field, durations in seconds."""
    values: dict[str, Any] = {}
    for name, (option, _) in options().items():
        value = context.params[name]
        about = {Over.ALL, *over}
        if option.over not in about | {Over.FILES} and _typed(context, name):
            what, remedy = "the engine that reads --subscription on this machine", "run without --runner."
            if Over.MESSAGES not in over:
                what = "messages and has no effect on files"
                remedy = "read from --subscription, --watch or --kafka-topic."
            spelt = option.spelt(name)
            raise option_error(f"{spelt} is for {what}", f"Leave it out, or {remedy}")
        if value is not None and option.over in about:
            values[name] = (
                _seconds(option.spelt(name), value) if option.kind is OptionKind.DURATION else value
            )
    return values


def _typed(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _seconds(option: str, text: str) -> int:
    """A duration in seconds; raises UsageError for less than one."""
    from ldpbeam.collection.epochs import parse_duration

    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise option_error(f"{option}: {error}", "Write for example 90s or 10m.") from None
    if seconds < 1:
        raise option_error(f"{option} must be at least 1s", "Write for example 90s or 10m.")
    return seconds
