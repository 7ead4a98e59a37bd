"""What the commands ``simulate`` and ``run`` do, once their arguments are known."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldp.collection import Collection
from ldp.collection_file import load_collection
from ldp.errors import UsageError
from pipelines.options import RunConfig, resolve_runner
from pipelines.progress import Bar

if TYPE_CHECKING:
    from simulators.simulate import SimulationRecord

__all__ = [
    "bits_for",
    "books_line",
    "check_sinks",
    "introduction",
    "load",
    "replay_rejects",
    "run_collection",
    "simulate_reports",
    "summary",
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
    from simulators.attributes import Joint, joint_population
    from simulators.population import Population, population
    from simulators.simulate import simulate
    from simulators.streams import Streams

    if topic is not None:
        _require_publishable(topic, compression)
    elif out is None:
        raise UsageError(
            "E-SIMULATE-TARGET", "the reports have nowhere to go", remedy="Add --out or --topic."
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
                spec, domain=collection.domain, devices=devices, epochs=epochs, streams=streams
            )
    except ValueError as error:
        raise UsageError("E-USAGE-POPULATION", str(error).rstrip(".")) from None
    with Bar("simulate", people.epochs, "epochs") as bar:
        common: dict[str, Any] = {
            "seed": seed,
            "spec": spec,
            "format": report_format,
            "truth": truth,
            "on_epoch": lambda epoch, reports: bar.advance(1, reports),
        }
        if topic is not None:
            done, where = _publish(collection, people, topic, out=out, **common)
        else:
            assert out is not None  # noqa: S101 - refused above
            common["compression"] = compression
            done, where = simulate(collection, people, out, **common), str(out / "reports")
    click.echo(f"{done.reports:,} reports of {people.devices:,} devices in {where}")
    if topic is not None:
        click.echo("read them with: ldpbeam run --subscription … --timestamp_attribute received")


def _require_publishable(topic: str, compression: str) -> None:
    from pipelines.pubsub import library, require_path

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

    from pipelines.pubsub import explain
    from simulators.transports import publish_epochs

    try:
        done = publish_epochs(collection, people, topic, **settings)
    except (GoogleAPIError, GoogleAuthError) as error:
        raise explain(error, "topic", topic) from None
    return done, f"{done.messages:,} messages to {topic}"


def run_collection(
    collection_files: tuple[Path, ...],
    pattern: str,
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
        pattern: of the input files.
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
    from pipelines.run import build, match_inputs, rehearse, run

    check_sinks(**settings)
    inputs, size = match_inputs(pattern)
    config = RunConfig(
        collections=collections,
        inputs=inputs,
        output=output,
        shard_bits=bits_for(size) if shard_bits is None else shard_bits,
        runner=resolve_runner(runner),
        beam_args=beam_args,
        **settings,
    )
    for collection in collections:
        click.echo(introduction(collection))
    if not config.starts:
        click.echo(rehearse(build(config), config))
        return 0
    with Bar("run", size, "bytes") as bar:
        result = run(config, bar.update, size)
    summary(result.record, output)
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
    from pipelines.replay import replay

    done = replay(rejects, collections)
    for name, epoch, revision in done.revised:
        click.echo(f"{name}, epoch {epoch}: revision {revision}")
    click.echo(f"rejected before {done.before:,}, now {done.after:,}")
    books_line(done.record)
    return int(done.record["exit_code"])


def check_sinks(publish_topic: str = "", bigquery_table: str = "", **_: Any) -> None:
    """Names of sinks, before anything is started.

    Raises:
        UsageError: one is not a name, or its library is not installed.
    """
    if publish_topic:
        from pipelines.pubsub import library, require_path

        require_path("topic", publish_topic)
        library()
    if bigquery_table:
        from transforms.bigquery import require_table

        require_table(bigquery_table)


def load(path: Path) -> Collection:
    """A collection, with a warning about keys that its protocol does not take."""
    collection = load_collection(path)
    for key in collection.ignored:
        click.echo(
            f"ldpbeam: {key} has no effect on {collection.protocol_label} in {path}. Remove it, or choose a "
            "protocol that takes it. [W-COLLECTION-IGNORED]",
            err=True,
        )
    return collection


def books_line(record: dict[str, Any]) -> None:
    """One line per change, for whoever watches."""
    total = record["accounting"]["total"]
    click.echo(
        f"read {total['read']:,} = counted {total['counted']:,} + late {total['late']:,} "
        f"+ duplicate {total['duplicate']:,} + rejected {sum(total['rejected'].values()):,}"
    )


def bits_for(size: int) -> int:
    """Bits of sharding for inputs of ``size`` bytes: a shard's reports are held together once."""
    return min(8, (size // _SHARD_BYTES).bit_length())


def introduction(collection: Collection) -> str:
    """One line on what is collected; never a bare ε."""
    guarantee = collection.protocol.guarantee
    levels = f"first report ε ≤ {guarantee.first_report:.4g}"
    if guarantee.per_memoised_input is not None:
        levels += f", per memoised input ε ≤ {guarantee.per_memoised_input:.4g}"
    values = " + ".join(str(domain.size) for _, domain in collection.histograms)
    return (
        f"{collection.name} version {collection.version}: {collection.protocol_label}, "
        f"{values} values, {levels}"
    )


def summary(record: dict[str, Any], output: str) -> None:
    """What became of every record, and where the results are."""
    accounting = record["accounting"]
    assert isinstance(accounting, dict)  # noqa: S101 - our own record
    total = accounting["total"]
    books_line(record)
    for reason, count in total["rejected"].items():
        click.echo(f"  rejected {count:,}: {reason}", err=True)
    if total["rejected"]:
        click.echo(f"  where and why: ldpbeam inspect {output.rstrip('/')}/rejects", err=True)
    timings = record["timings"]
    assert isinstance(timings, dict)  # noqa: S101 - our own record
    click.echo(f"estimates in {output.rstrip('/')}/estimates after {timings['total_seconds']} s")
    sys.stdout.flush()
