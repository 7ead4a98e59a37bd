"""What the commands about sums of frequencies have in common: their options, and attributes to answer for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldpbeam.cli.shared.console import complain
from ldpbeam.cli.shared.options import TextOption
from ldpbeam.errors import option_error

if TYPE_CHECKING:
    from ldpbeam.cli.shared.histories import ReadHistory
    from ldpbeam.sums import Question

Command = Callable[..., Any]


def _shares(text: str) -> tuple[float, ...]:
    try:
        shares = tuple(float(one) for one in text.split(","))
    except ValueError:
        shares = ()
    if not shares or not all(0 < share < 1 for share in shares):
        raise ValueError(f"{text!r} is no list of shares between 0 and 1, such as 0.5,0.9")
    return shares


group_option = click.option(
    "--group",
    "group_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Shares of groups of values, which FILE lists: CSV with the columns group,value.",
)


def sum_options(command: Command) -> Command:
    more = (
        group_option,
        click.option("--cumulative", is_flag=True, help="Shares of the devices at each value or below it."),
        click.option(
            "--quantile",
            "shares",
            type=TextOption("shares", _shares),
            metavar="Q,Q",
            help="Values at or below which these shares of the devices lie: 0.5 is the median.",
        ),
        click.option(
            "--mean", is_flag=True, help="The mean of whole numbers, or of buckets by their middles."
        ),
        click.option("--name", help="With one of these four: answer for this collection only."),
        click.option("--attribute", help="With one of these four: answer for this attribute only."),
    )
    for option in reversed(more):
        command = option(command)
    return command


def grouped(read: ReadHistory, path: Path, *, remark: bool = True) -> Question:
    from ldpbeam.sums import Groups, read_groups
    from ldpbeam.sums.group_file import shared_values

    groups = read_groups(path, read.domain)
    both = shared_values(groups)
    if both is not None and remark:
        text = f"groups {both[0]!r} and {both[1]!r} of {path} have values in common: shares do not add up"
        complain(f"{text}. [W-GROUPS-OVERLAP]")
    return Groups(groups)


def history_of_groups(
    read: ReadHistory, path: Path, *, remark: bool = True, sampled: bool = False
) -> ReadHistory:
    """An attribute with a column per group of a file in the place of one per value."""
    from dataclasses import replace

    from ldpbeam.sums.series import require_frequencies, summed

    require_frequencies(read.collection)  # before the file is read
    question = grouped(read, path, remark=remark)
    _, made, errors = summed(read.collection, read.history, question, sampled=sampled)
    return replace(read, history=made, errors=errors)


def chosen(
    histories: list[ReadHistory],
    name: str | None,
    attribute: str | None,
    results: Path,
) -> list[ReadHistory]:
    left = [
        one
        for one in histories
        if name in (None, one.history.key.collection) and attribute in (None, one.history.key.attribute)
    ]
    if not left:
        there = {"/".join(filter(None, (one.history.key[0], one.history.key[3]))) for one in histories}
        listed = ", ".join(sorted(there))
        what = "no such collection or attribute is there"
        raise option_error(what, f"There are: {listed}.", results)
    return left
