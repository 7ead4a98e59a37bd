"""The command ``simulate``: the reports that a fleet of devices would send."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldpbeam.cli.shared.console import PrintingCommand, deliver, say
from ldpbeam.cli.shared.options import TextOption, slice_shares_option
from ldpbeam.errors import UsageError, option_error

if TYPE_CHECKING:
    from ldpbeam.collection.collection import Collection
    from ldpbeam.collection.slice_shares import SliceShares
    from ldpbeam.simulators.deliver.files import Compression, Format
    from ldpbeam.simulators.deliver.simulate import SimulationRecord


def _slice_column(text: str) -> tuple[str, str]:
    """A dimension and its column, which has the same name unless another one is given."""
    name, equals, column = text.partition("=")
    if not name or (equals and not column):
        raise ValueError(f"{text!r} is neither a dimension such as country nor country=COLUMN")
    return name, column or name


@click.command(cls=PrintingCommand)
@click.option(
    "--collection",
    "collection_file",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The collection (YAML) that the devices report for.",
)
@click.option(
    "--population",
    "spec",
    required=True,
    metavar="SPEC",
    help="syn | zipf:1.1 | csv:FILE:COLUMN[,permute] | csv:FILE:COL1..COLn | "
    "panel:FILE:device,epoch,value | table:FILE",
)
@click.option("--devices", type=click.IntRange(1), help="Number of devices. Default: all of a file.")
@click.option(
    "--epochs", type=click.IntRange(1), help="Number of epochs. Default: all of a file that has epochs."
)
@click.option(
    "--output",
    "out",
    type=click.Path(path_type=Path),
    help="Folder for reports/, simulation.json and truth.parquet.",
)
@click.option(
    "--topic", metavar="PATH", help="Publish reports to projects/P/topics/T, and write no reports/."
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Seed of all random words; the same one gives the same reports.",
)
@click.option(
    "--format",
    "report_format",
    type=click.Choice(["batch", "report", "parquet"]),
    default="batch",
    show_default=True,
    help="Messages of many reports, messages of one, or a table.",
)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "zstd"]),
    default="none",
    show_default=True,
    help="Compression of the files.",
)
@click.option(
    "--slice-column",
    "slice_columns",
    type=TextOption("column", _slice_column),
    multiple=True,
    metavar="NAME[=COLUMN]",
    help="Take the labels of slices.NAME from this column of the population's file. Repeat it.",
)
@slice_shares_option("Devices draw their labels once, with these shares, and not with equal ones:")
@click.option(
    "--slice-population",
    "slice_populations",
    multiple=True,
    metavar="NAME=LABEL:SPEC",
    help="Devices with this label hold other values: arm=treatment:zipf:1.3. Repeat it.",
)
@click.option("--truth", is_flag=True, help="Also write truth.parquet, the true frequencies.")
def simulate(  # noqa: PLR0913 - the options
    *,
    collection_file: Path,
    spec: str,
    devices: int | None,
    epochs: int | None,
    out: Path | None,
    topic: str | None,
    seed: int,
    report_format: Format,
    compression: Compression,
    truth: bool,
    slice_columns: tuple[tuple[str, str], ...],
    slice_shares: tuple[SliceShares, ...],
    slice_populations: tuple[str, ...],
) -> None:
    """Write or publish the reports that a fleet of devices would send. Give --output, --topic or both."""
    from ldpbeam.cli.shared.collections import load
    from ldpbeam.cli.shared.progress import Bar
    from ldpbeam.simulators.deliver.simulate import simulate as write_reports
    from ldpbeam.simulators.population.joint import Joint, joint_population
    from ldpbeam.simulators.population.sliced import SlicesAsked, sliced
    from ldpbeam.simulators.population.specs import Panel, Population, population
    from ldpbeam.simulators.random_words import RandomWords

    if topic is not None:
        _require_publishable(topic, compression)
    elif out is None:
        raise option_error("the reports have nowhere to go", "Add --output or --topic.")
    collection = load(collection_file)
    words = RandomWords(seed)
    notes: list[str] = []

    def drawn(spec: str, purpose: str, devices: int | None, epochs: int | None) -> Population | Joint:
        given: dict[str, Any] = {"devices": devices, "epochs": epochs, "purpose": purpose}
        given |= {"random_words": words, "note": notes.append}
        if collection.domain is None:
            limit = collection.protocol.device.sum_limit
            return joint_population(spec, attributes=collection.histograms, limit=limit, **given)
        return population(spec, domain=collection.domain, calendar=collection.epochs, **given)

    try:
        people = drawn(spec, "population", devices, epochs)
        said = sliced(
            *(spec, people, collection, SlicesAsked(slice_columns, slice_shares, slice_populations)),
            random_words=words,
            draw=lambda spec, purpose: drawn(spec, purpose, people.devices, people.epochs),
            note=notes.append,
        )
    except ValueError as error:
        raise UsageError("E-USAGE-POPULATION", str(error).rstrip(".")) from None
    say(*notes)
    with Bar("simulate", people.epochs, "epochs") as bar:
        common: dict[str, Any] = {
            "seed": seed,
            "spec": spec,
            "notes": notes,
            "format": report_format,
            "truth": truth,
            "first_epoch": people.first_epoch if isinstance(people, Panel) else 0,
            "on_epoch": lambda epoch, reports: bar.count(1, reports),
        }
        if topic is not None:
            done, where = _publish(collection, said, topic, out=out, **common)
        else:
            assert out is not None  # noqa: S101 - refused above
            common["compression"] = compression
            done, where = write_reports(collection, said, out, **common), str(out / "reports")
    say(f"{done.reports:,} reports of {people.devices:,} devices in {where}")
    for part, (name, domain) in zip(getattr(people, "parts", (people,)), collection.histograms, strict=True):
        if part.labels is not None and domain.labels is None and domain.values is not None:
            of = f" of {name}" if name else ""
            say(
                f"values{of}: not all are whole numbers 0 to {domain.size - 1}, so the distinct values are "
                "numbered from 0, in ascending order"
            )
    if topic is not None:
        say("read them with: ldpbeam run --subscription … --timestamp-attribute received")
    deliver(asdict(done))


def _require_publishable(topic: str, compression: str) -> None:
    from ldpbeam.transforms.pubsub import library, require_path

    require_path("topic", topic)
    library()
    if compression != "none":
        raise option_error("messages are not compressed", "Leave out --compression, or --topic.")


def _publish(
    collection: Collection, people: Any, topic: str, **settings: Any
) -> tuple[SimulationRecord, str]:
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    from ldpbeam.simulators.deliver.pubsub import publish_epochs
    from ldpbeam.transforms.pubsub import explain

    try:
        done = publish_epochs(collection, people, topic, **settings)
    except (GoogleAPIError, GoogleAuthError) as error:
        raise explain(error, "topic", topic) from None
    return done, f"{done.messages:,} messages to {topic}"
