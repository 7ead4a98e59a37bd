"""The papers' tables and figures, from this library's own protocols: ``python -m reproduction``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ldpbeam.cli.main import main
from ldpbeam.cli.shared.console import PrintingCommand, deliver, say
from ldpbeam.errors import UsageError

if TYPE_CHECKING:
    from reproduction.paper import Experiment


@click.command(cls=PrintingCommand)
@click.argument("experiments", nargs=-1, metavar="[EXPERIMENT]...")
@click.option("--list", "listing", is_flag=True, help="Name the experiments, and compute nothing.")
@click.option("--quick", is_flag=True, help="A tenth of the papers' runs.")
@click.option("--runs", type=click.IntRange(1), help="Independent runs, in place of the papers' number.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("data"),
    show_default=True,
    help="Folder of the public data sets; docs/reproduction.md says where they come from.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of every random draw.")
@click.option("--jobs", type=click.IntRange(1), help="Processes. Default: one for each processor.")
@click.option(
    "--output",
    "out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reproduction-output"),
    show_default=True,
    help="Folder for tables, figures and the page; what it holds already is not computed again.",
)
def reproduce(
    experiments: tuple[str, ...],
    listing: bool,
    quick: bool,
    runs: int | None,
    data: Path,
    seed: int,
    jobs: int | None,
    out: Path,
) -> None:
    """Run the papers' evaluations again: all of them, or those named, such as loloha:fig2 or allomfree."""
    from ldpbeam.cli.shared.progress import Bar
    from reproduction.experiments import EXPERIMENTS
    from reproduction.paper import Settings

    names = _chosen(experiments, EXPERIMENTS)
    if listing:
        for name in names:
            say(f"{name:28} {EXPERIMENTS[name].source}: {EXPERIMENTS[name].title}")
        deliver([{"name": name, "source": EXPERIMENTS[name].source} for name in names])
        return
    from reproduction.results import write, write_page
    from reproduction.runner import run

    settings = Settings(quick, seed, data, runs)
    results = []
    with Bar("reproduce", 1, "cells", remaining=True) as bar:
        for outcome in run(names, settings, out, jobs=jobs or _processors(), progress=bar.reach):
            if outcome.skipped:
                say(f"{outcome.name}: skipped. {outcome.skipped}")
                continue
            comparisons = write(out, settings, outcome)
            say(
                f"{outcome.name}: {len(outcome.rows):,} rows, {outcome.computed} cells computed, "
                f"{outcome.kept} kept"
            )
            for one in comparisons:
                say(f"  {one.verdict}: {one.claim}; published {one.published}; found {one.found}")
            results.append({"experiment": outcome.name, "comparisons": [vars(one) for one in comparisons]})
    if results:
        say(f"see {write_page(out).resolve().as_uri()}")
    deliver(results)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _chosen(asked: tuple[str, ...], known: Mapping[str, Experiment]) -> list[str]:
    """Names of experiments without repeats, in their own order; all where none is asked for."""
    chosen = set()
    for text in asked:
        names = {name for name in known if name == text or name.startswith(f"{text.rstrip(':')}:")}
        if not names:
            raise UsageError(
                "E-USAGE-OPTION",
                f"there is no experiment {text!r}",
                remedy="make reproduce OPTIONS=--list names them all.",
            )
        chosen |= names
    return [name for name in known if name in chosen or not asked]


if __name__ == "__main__":
    main(reproduce)
