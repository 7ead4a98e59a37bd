"""Strings that nobody listed: what the list of those found says, and how they were found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ldpbeam.errors import UsageError
from ldpbeam.report_page.dates import Dates
from ldpbeam.report_page.parts import Detail, Table, shortened
from ldpbeam.report_page.text import DASH, count, share
from ldpbeam.summaries import WALKED
from ldpbeam.sums.distribution import read_summaries

SAYS = (
    "The list says which strings many devices hold. In 95 of 100 epochs some device holds each string on it; "
    "limits hold although the same reports chose the strings."
)


class Walk(NamedTuple):
    """How an epoch was searched: the share of devices with strings that are not on its list, and the numbers
    of each prefix length by their names."""

    n: int
    status: str
    others: str
    lengths: dict[str, dict[str, float | None]]


def walks(folder: Path, digest: str) -> dict[int, Walk]:
    """Of each epoch of a collection, from ``summaries/``; nothing where that is missing."""
    try:
        rows = read_summaries(folder, {}).to_pylist()
    except UsageError:
        return {}
    made: dict[int, Walk] = {}
    for row in rows:
        if row["digest"] == digest and row["statistic"] == "not_found":
            unfound, error = row["estimate"], row["std_error"]
            known = unfound is not None
            others = f"{share(unfound, error)} ± {share(1.96 * error, error)}" if known else DASH
            made[row["epoch"]] = Walk(row["n"], row["status"], others, {})
        elif row["digest"] == digest:
            length = made[row["epoch"]].lengths.setdefault(row["label"], {"n": row["n"]})
            length[row["statistic"]] = row["estimate"]
    return dict(sorted(made.items()))


def epochs_table(
    walked: Mapping[int, Walk], found: Callable[[int], int], dates: Dates, detail: Detail
) -> Table:
    """Each epoch with the number of strings that it found, and what they leave out."""
    shown = list(walked.items())[-detail.epochs :]
    lines = [
        [str(epoch), dates.text(epoch), count(one.n), count(found(epoch)), one.others, one.status]
        for epoch, one in shown
    ]
    head = ["epoch", "starts, UTC", "reports", "strings found", "devices with another one", "status"]
    note = shortened(len(walked), len(shown), "epoch", "last")
    return Table("Table: strings found, epoch by epoch", head, lines, names=2, note=note)


def walk_table(epoch: int, walk: Walk) -> Table:
    """What was tried and kept of each prefix length."""
    lines = []
    for length, numbers in walk.lengths.items():
        tried, kept, *least = (numbers[name] for name in WALKED)
        whole = (DASH if one is None else count(int(one)) for one in (numbers["n"], tried, kept))
        lines.append([length, *whole, *(DASH if one is None else share(one, 0.001) for one in least)])
    return Table(
        f"Table: how epoch {epoch} was searched, by prefix length",
        ["prefix length", "devices", "tried", "kept", "kept from", "found from"],
        lines,
        note="A prefix is kept from one estimated share on, and tried with all symbols behind it; a string "
        "that ends at a length is found from the other share on.",
    )
