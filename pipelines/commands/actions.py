"""What the commands ``simulate``, ``run``, ``replay`` and ``report`` do, once their arguments are known."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldpbeam.collection.advice import warnings_about
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import load_collection
from ldpbeam.errors import UsageError
from ldpbeam.pipelines.commands.console import deliver, say
from ldpbeam.pipelines.commands.outcome import identity, why_nothing
from ldpbeam.pipelines.commands.progress import Bar
from ldpbeam.pipelines.config import RunConfig, resolve_runner
from ldpbeam.pipelines.run_record import RunRecord
from ldpbeam.text import clean
from ldpbeam.transforms.sinks import check_sinks

if TYPE_CHECKING:
    from ldpbeam.simulators.simulate import SimulationRecord

__all__ = [
    "bits_for",
    "books_line",
    "introduction",
    "load",
    "replay_rejects",
    "run_collection",
    "simulate_reports",
    "summary",
    "write_report",
]

_SHARD_BYTES = 256 << 20


def simulate_reports(  # noqa: PLR0913, PLR0917 - one argument per option
    collection_file: Path,
    spec: str,
    devices: int | None,
    epochs: int | None,
    out: Path | None,
    topic: str | None,
    seed: int,
    report_format: str,
    compression: str,
    truth: bool,
) -> None:
    """Simulate a fleet and write its reports, or publish them where there is a topic.

    Raises:
        CollectionError, UsageError: the collection, the population or the topic cannot be used.
    """
    from ldpbeam.simulators.population.joint import Joint, joint_population
    from ldpbeam.simulators.population.specs import Panel, Population, population
    from ldpbeam.simulators.simulate import simulate
    from ldpbeam.simulators.words import Streams

    if topic is not None:
        _require_publishable(topic, compression)
    elif out is None:
        raise UsageError(
            "E-SIMULATE-TARGET", "the reports have nowhere to go", remedy="Add --output or --topic."
        )
    collection = load(collection_file)
    streams = Streams(seed)
    try:
        people: Population | Joint
        if collection.domain is None:
            people = joint_population(
                spec,
                attributes=collection.histograms,
                devices=devices,
                epochs=epochs,
                streams=streams,
                limit=collection.sum_limit,
            )
        else:
            people = population(
                spec,
                domain=collection.domain,
                devices=devices,
                epochs=epochs,
                streams=streams,
                calendar=collection.epochs,
            )
    except ValueError as error:
        raise UsageError("E-USAGE-POPULATION", str(error).rstrip(".")) from None
    with Bar("simulate", people.epochs, "epochs") as bar:
        common: dict[str, Any] = {
            "seed": seed,
            "spec": spec,
            "format": report_format,
            "truth": truth,
            "first_epoch": people.first_epoch if isinstance(people, Panel) else 0,
            "on_epoch": lambda epoch, reports: bar.advance(1, reports),
        }
        if topic is not None:
            done, where = _publish(collection, people, topic, out=out, **common)
        else:
            assert out is not None  # noqa: S101 - refused above
            common["compression"] = compression
            done, where = simulate(collection, people, out, **common), str(out / "reports")
    say(f"{done.reports:,} reports of {people.devices:,} devices in {where}")
    if topic is not None:
        say("read them with: ldpbeam run --subscription … --timestamp-attribute received")
    deliver(asdict(done))


def _require_publishable(topic: str, compression: str) -> None:
    from ldpbeam.transforms.pubsub import library, require_path

    require_path("topic", topic)
    library()
    if compression != "none":
        raise UsageError(
            "E-SIMULATE-FORMAT", "messages are not compressed", remedy="Leave out --compression, or --topic."
        )


def _publish(
    collection: Collection, people: Any, topic: str, **settings: Any
) -> tuple[SimulationRecord, str]:
    """Publish, and say in what."""
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    from ldpbeam.pipelines.local.subscriber import explain
    from ldpbeam.simulators.deliver.pubsub import publish_epochs

    try:
        done = publish_epochs(collection, people, topic, **settings)
    except (GoogleAPIError, GoogleAuthError) as error:
        raise explain(error, "topic", topic) from None
    return done, f"{done.messages:,} messages to {topic}"


def run_collection(
    collection_files: tuple[Path, ...],
    patterns: Sequence[str],
    output: str,
    runner: str | None,
    beam_args: tuple[str, ...] = (),
    *,
    shard_bits: int | None = None,
    **settings: Any,
) -> int:
    """Run the pipeline over files and say what became of every record.

    Args:
        collection_files: YAML.
        patterns: of the input files.
        output: directory.
        runner: as typed.
        beam_args: options for Beam.
        shard_bits: 2**bits shards per epoch; None for what the size of the input asks for.
        settings: further fields of :class:`RunConfig`.

    Returns:
        The exit code.

    Raises:
        CollectionError, UsageError: the job cannot start.
        LdpError: it failed.
    """
    collections = tuple(load(path) for path in collection_files)
    # Before Beam is imported: it warns on the root logger about optional packages that nobody asked for.
    logging.basicConfig(level=logging.ERROR)
    from ldpbeam.pipelines.inputs import find_inputs
    from ldpbeam.pipelines.run import build, rehearse, run

    check_sinks(settings.get("sinks", {}))
    found = find_inputs(patterns)
    size = found.size
    config = RunConfig(
        collections=collections,
        inputs=found.paths,
        output=output,
        shard_bits=bits_for(size) if shard_bits is None else shard_bits,
        runner=resolve_runner(runner),
        beam_args=beam_args,
        **settings,
    )
    for note in found.notes:
        click.echo(f"ldpbeam: {note}", err=True)
    for collection in collections:
        say(introduction(collection))
    if not config.starts:
        say(rehearse(build(config), config))
        return 0
    with Bar("run", size, "bytes") as bar:
        result = run(config, bar.update, size)
    summary(result, output)
    return result.exit_code


def replay_rejects(rejects: Path, collection_files: tuple[Path, ...]) -> int:
    """Take up what a run has rejected, and say what changed.

    Returns:
        The exit code, as of the run.

    Raises:
        CollectionError, UsageError: it cannot start.
        LdpError: it failed.
    """
    collections = tuple(load(path) for path in collection_files)
    logging.basicConfig(level=logging.ERROR)
    from ldpbeam.pipelines.local.replay import replay

    done = replay(rejects, collections)
    for name, epoch, revision in done.revised:
        say(f"{name}, epoch {epoch}: revision {revision}")
    say(f"rejected before {done.before:,}, now {done.after:,}")
    books_line(done.record)
    deliver(done.record.as_record())
    return done.record.exit_code


def write_report(output: Path, page: Path | None, truth: Path | None) -> None:
    """Write the page of a run and say where it is.

    Raises:
        UsageError: no run has finished in ``output``, or ``truth`` is not the truth of a simulation.
    """
    from ldpbeam.pipelines.page import write_page

    if not (output / "run.json").is_file():
        raise UsageError(
            "E-USAGE-REPORT",
            f"{output} holds no run.json, so no run has finished there",
            remedy="Give the directory that was --output of a run.",
        )
    if truth is not None:
        _require_truth(truth)
    written = write_page(output, page or output / "index.html", truth)
    say(f"open {written}")
    deliver({"page": str(written)})


def _require_truth(path: Path) -> None:
    """Refuse what is not the truth of a simulation: a page without it would look like one with it.

    Raises:
        UsageError: the file is missing or is another one.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    why = "does not exist"
    if path.is_file():
        try:
            missing = {"epoch", "value", "frequency"} - set(pq.read_schema(path).names)
        except (pa.ArrowException, OSError):
            why = "is not a Parquet file"
        else:
            if not missing:
                return
            why = f"has no column {min(missing)}"
    raise UsageError(
        "E-USAGE-REPORT",
        f"{path} is not the truth of a simulation: it {why}",
        remedy="Give the truth.parquet that ldpbeam simulate --truth has written, or leave out --truth.",
    )


def load(path: Path) -> Collection:
    """A collection, with a warning about keys that its protocol does not take."""
    collection = load_collection(path)
    for key in collection.ignored:
        text = (
            f"ldpbeam: {key} has no effect on {collection.protocol_label} in {path}. Remove it, or choose a "
            "protocol that takes it. [W-COLLECTION-IGNORED]"
        )
        click.echo(clean(text), err=True)
    for warning in warnings_about(collection):
        click.echo(clean(f"ldpbeam: {warning.in_file(str(path))}"), err=True)
    return collection


def books_line(record: RunRecord) -> None:
    """One line per change, for whoever watches."""
    say(identity(record.accounting.total))


def bits_for(size: int) -> int:
    """Bits of sharding for inputs of ``size`` bytes: a shard's reports are held together once."""
    return min(8, (size // _SHARD_BYTES).bit_length())


def introduction(collection: Collection) -> str:
    """One line on what is collected; never a bare ε."""
    guarantee = collection.protocol.guarantee
    levels = f"first report ε ≤ {guarantee.first_report:.4g}"
    losses = collection.protocol.losses
    two = None if losses is None else losses.any_changes(2)
    if two is not None:
        levels += ", two reports no bound" if two == inf else f", two reports ε ≤ {two:.4g}"
    if guarantee.per_memoised_input is not None:
        levels += f", per memoised input ε ≤ {guarantee.per_memoised_input:.4g}"
    values = " + ".join(str(domain.size) for _, domain in collection.histograms)
    return (
        f"{collection.name} version {collection.version}: {collection.protocol_label}, "
        f"{values} values, {levels}"
    )


def summary(record: RunRecord, output: str) -> None:
    """What became of every record, and where the results are."""
    books_line(record)
    rejected = record.accounting.total.rejected_record()
    for reason, count in rejected.items():
        click.echo(f"  rejected {count:,}: {reason}", err=True)
    if rejected:
        click.echo(clean(f"  where and why: ldpbeam inspect {output.rstrip('/')}/rejects"), err=True)
    nothing = why_nothing(record)
    if nothing is not None:
        click.echo(f"ldpbeam: {nothing} [E-RUN-NOTHING]", err=True)
    else:
        say(f"estimates in {output.rstrip('/')}/estimates after {record.timings.total_seconds} s")
    deliver(record.as_record())
    sys.stdout.flush()
