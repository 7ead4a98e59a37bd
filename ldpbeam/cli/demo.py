"""The demonstration: a fleet reports for ten days, some reports go wrong, one page shows what is learnt."""

from __future__ import annotations

import logging
import shutil
import time
from importlib.resources import files
from pathlib import Path

import click

from ldpbeam.cli.shared.console import PrintingCommand, say
from ldpbeam.errors import UsageError

_DEVICES = 60_000
_EPOCHS = 40


@click.command(cls=PrintingCommand)
@click.option(
    "--output",
    "out",
    type=click.Path(path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    help="Directory for everything that the demonstration writes.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Seed of the simulation; the same one gives the same reports.",
)
def demo(out: Path, seed: int) -> None:
    """Simulate a fleet, collect its reports, and write one page to look at."""
    logging.basicConfig(level=logging.ERROR)  # before Beam is imported, as in the command run
    from ldpbeam.cli.run import run_over_files
    from ldpbeam.cli.shared.progress import Bar
    from ldpbeam.collection.file import load_collection
    from ldpbeam.report_page.document import write_page
    from ldpbeam.simulators.deliver.simulate import simulate
    from ldpbeam.simulators.faults import write_faults
    from ldpbeam.simulators.population.synthetic_values import Launch
    from ldpbeam.simulators.random_words import RandomWords

    started = time.monotonic()
    _make_room(out)
    source = out / "collection.yaml"
    source.write_text(files("ldpbeam.cli").joinpath("demo.yaml").read_text("utf-8"), "utf-8")
    collection = load_collection(source)
    size = collection.histograms[0][1].size
    say(f"1  devices: {_DEVICES:,} of them, {size} possible values, {_EPOCHS} epochs of six hours")
    people = Launch(_DEVICES, _EPOCHS, size, RandomWords(seed))
    with Bar("simulate", _EPOCHS, "epochs") as bar:
        done = simulate(
            collection,
            people,
            out,
            seed=seed,
            spec="launch (ldpbeam/cli/demo.py)",
            truth=True,
            on_epoch=lambda epoch, reports: bar.count(1, reports),
        )
    write_faults(collection, out / "reports")
    bits = collection.protocol.device.payload_bits
    say(f"2  reports: {done.reports:,} with {bits} bits each, in {out / 'reports'}; then some")
    say("   are sent twice, some arrive ten days late (they still count, in their own epoch)")
    say("   and some are damaged")
    reports, results = str(out / "reports"), str(out / "output")
    run_over_files((collection,), {"files": (reports,), "output": results})
    page = write_page(out / "output", out / "index.html", out / "truth.parquet")
    say(f"3  done in {time.monotonic() - started:.0f} s. Look at {page.resolve().as_uri()}")
    say(f"   then: ldpbeam inspect {out / 'output' / 'rejects'}")


def _make_room(out: Path) -> None:
    """An earlier demo goes; nothing else is touched."""
    if out.exists() and any(out.iterdir()):
        if not (out / "collection.yaml").exists():
            raise UsageError(
                "E-USAGE-OUTPUT",
                f"{out} is not empty and holds no earlier demo",
                remedy="Give a new directory to --output.",
            )
        for name in ("reports", "output"):
            shutil.rmtree(out / name, ignore_errors=True)
        for name in ("truth.parquet", "simulation.json", "index.html"):
            (out / name).unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)
