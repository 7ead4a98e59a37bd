"""The command line. Heavy packages are imported inside commands, so that --help answers at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ldpbeam import __version__
from ldpbeam.errors import LdpError, UsageError, disk_error, extra_error
from ldpbeam.pipelines.commands.console import PrintingCommand
from ldpbeam.pipelines.limits import LIMITS, MAX_EPOCHS, MAX_EXPANSION, READ_ATTEMPTS
from ldpbeam.text import clean
from ldpbeam.transforms.sinks import SINKS

__all__ = ["main"]

INTERRUPTED = 130

_STREAMS_ONLY = (
    "timestamp_attribute",
    "early_every",
    "late_every",
    "settle",
    "land_every",
    "land_messages",
    "land_bytes",
    "keep_landed",
    "keep_accounting",
    "metrics",
    "stop_when_idle",
    "job",
    "detach",
)
"""Options of ``run`` that say something about messages, and nothing about files."""


class InstantOption(click.ParamType[int]):
    """An instant such as 2026-01-01T00:00:00Z; gives seconds since 1970."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse, or say what is wrong."""
        from ldpbeam.collection.epochs import parse_instant

        try:
            return value if isinstance(value, int) else parse_instant(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Commands(click.Group):
    command_class = PrintingCommand

    def invoke(self, ctx: click.Context) -> Any:
        """A command; Ctrl-C ends it with one line and the exit code that shells expect."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("ldpbeam: interrupted. [E-INTERRUPTED]", err=True)
            sys.exit(INTERRUPTED)


def _spelling(name: str) -> str:
    """Options are spelt with hyphens and results go to ``--output``; older spellings are taken too."""
    return "output" if name == "out" else name.replace("_", "-")


def _sink_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of all optional sinks."""
    for sink in reversed(SINKS.values()):
        command = click.option(sink.option, default="", metavar=sink.metavar, help=sink.help)(command)
    return command


_collections = click.option(
    "--collection",
    "collection_files",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="A collection (YAML) that reports may belong to; repeat it for several.",
)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "token_normalize_func": _spelling},
)
@click.version_option(__version__, prog_name="ldpbeam")
def cli() -> None:
    """Statistics from devices under local differential privacy, again and again over time.

    A device's value becomes a report, reports fall into an epoch, an epoch's reports become support counts,
    counts become an estimate, estimates a consistent histogram.
    """


@cli.command()
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
    from ldpbeam.pipelines.commands.demo import run_demo

    run_demo(out, seed)


@cli.command()
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
    required=True,
    metavar="SPEC",
    help="syn | zipf:1.1 | csv:FILE:COLUMN[,permute] | csv:FILE:COL1..COLn | "
    "panel:FILE:device,epoch,value | table:FILE | marginals:FILE",
)
@click.option("--devices", type=click.IntRange(1), help="Number of devices (data sets: all of them).")
@click.option("--epochs", type=click.IntRange(1), help="Number of epochs (data sets: all of them).")
@click.option("--output", "out", type=click.Path(path_type=Path), help="Where reports/ goes.")
@click.option("--topic", metavar="PATH", help="Publish to projects/P/topics/T instead of writing reports/.")
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
    help="Of the files.",
)
@click.option("--truth", is_flag=True, help="Also write truth.parquet, the true frequencies.")
def simulate(  # noqa: PLR0913, PLR0917 - one argument per option
    collection_file: Path,
    population: str,
    devices: int | None,
    epochs: int | None,
    out: Path | None,
    topic: str | None,
    seed: int,
    report_format: str,
    compression: str,
    truth: bool,
) -> None:
    """Write or publish the reports that a fleet of devices would send. Give --output, --topic or both."""
    from ldpbeam.pipelines.commands.actions import simulate_reports

    simulate_reports(
        collection_file, population, devices, epochs, out, topic, seed, report_format, compression, truth
    )


@cli.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@_collections
@click.option(
    "--input",
    "patterns",
    metavar="GLOB",
    multiple=True,
    help="Files of reports: a file, a folder or a quoted pattern; repeat it for several.",
)
@click.option(
    "--subscription",
    metavar="projects/P/subscriptions/S",
    help="Pub/Sub subscription of reports, instead of files: runs until it is stopped.",
)
@click.option(
    "--kafka-topic",
    default="",
    metavar="TOPIC",
    help="Kafka topic of reports, instead of files; on a cluster.",
)
@click.option("--kafka-servers", default="", metavar="HOST:PORT,…", help="Brokers of the topic.")
@click.option(
    "--kafka-expansion", default="", metavar="HOST:PORT", help="Beam's expansion service for Kafka, see docs."
)
@click.option(
    "--pubsub-expansion",
    default="",
    metavar="HOST:PORT",
    help="Beam's expansion service for Pub/Sub, for --subscription on Flink; see docs.",
)
@click.option("--output", required=True, metavar="DIR", help="Where estimates/ and run.json go.")
@click.option(
    "--overwrite", is_flag=True, help="Over files: replace results of other collections in DIR too."
)
@click.option("--runner", help="Any Beam runner; DirectRunner (the default) runs in this process.")
@click.option(
    "--dedup/--no-dedup",
    default=True,
    show_default=True,
    help="Count one report per report id, or every report as it comes.",
)
@click.option(
    "--max-error-fraction",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    help="Publish no estimate for an epoch of whose records a larger part was rejected.",
)
@click.option(
    "--timestamp-attribute",
    default="",
    metavar="NAME",
    help="Message attribute that says when a collector received it (milliseconds since 1970, or RFC 3339); "
    "else the time of publication counts.",
)
@click.option(
    "--early-every", metavar="DURATION", help="Provisional results while an epoch lasts, such as 10m."
)
@click.option(
    "--late-every",
    metavar="DURATION",
    default="1m",
    show_default=True,
    help="At most one further result per this long when late reports come.",
)
@click.option(
    "--settle",
    metavar="DURATION",
    default="30s",
    show_default=True,
    help="Wait this long after an epoch's end for messages under way.",
)
@click.option(
    "--land-every",
    metavar="DURATION",
    default="5s",
    show_default=True,
    help="Messages landed together on disk.",
)
@click.option(
    "--land-messages",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="Messages landed together at most.",
)
@click.option(
    "--land-bytes",
    type=click.IntRange(1),
    default=64 << 20,
    show_default=True,
    help="Bytes landed together at most.",
)
@click.option(
    "--keep-landed",
    metavar="DURATION",
    default="7d",
    show_default=True,
    help="Keep the reports of closed epochs this long, for replays.",
)
@click.option(
    "--keep-accounting",
    metavar="DURATION",
    default="730d",
    show_default=True,
    help="Keep the books of closed epochs one by one this long, then their sums.",
)
@click.option(
    "--metrics", metavar="[HOST:]PORT", help="Answer Prometheus there; without HOST on this machine only."
)
@click.option("--stop-when-idle", metavar="DURATION", help="Stop after this long without a message.")
@click.option(
    "--shard-bits",
    type=click.IntRange(0, 8),
    help="2**bits shards per epoch. Default: by the input's size; 3 on clusters.",
)
@click.option(
    "--max-expansion",
    type=click.IntRange(1),
    default=MAX_EXPANSION,
    show_default=True,
    help="Bytes of reports that each stored byte of a file may stand for; the rest is rejected unread.",
)
@click.option(
    "--max-epochs",
    type=click.IntRange(1),
    default=MAX_EPOCHS,
    show_default=True,
    help="Epochs of a collection in a run over files; those with the fewest records are left out.",
)
@click.option(
    "--not-after",
    type=InstantOption(),
    help="When the files had been written; reports of epochs that had not begun are rejected. "
    "Default: each file's time.",
)
@click.option(
    "--read-attempts",
    type=click.IntRange(1),
    default=READ_ATTEMPTS,
    show_default=True,
    help="How often a file is tried that cannot be read.",
)
@_sink_options
@click.option(
    "--job", default="", metavar="NAME", help="Name of a cluster's job in the books. Default: random."
)
@click.option("--detach", is_flag=True, help="Do not wait for a cluster's job.")
@click.pass_context
def run(  # noqa: PLR0913, PLR0917 - one argument per option
    context: click.Context,
    /,
    collection_files: tuple[Path, ...],
    patterns: tuple[str, ...],
    subscription: str | None,
    output: str,
    runner: str | None,
    dedup: bool,
    max_error_fraction: float,
    overwrite: bool,
    **streaming: Any,
) -> None:
    """Turn reports into estimates. Further options go to Beam.

    Over files it ends with them; from a subscription it runs until SIGTERM or Ctrl-C, which drain it.
    On a cluster (--runner FlinkRunner, DataflowRunner) a subscription or --streaming makes a job with state.

    Exit codes: 0 ok, 2 usage, 3 invalid collection, 4 ok with rejects, 5 nothing was counted or an epoch
    withheld for errors, 6 internal, 130 interrupted.
    """
    from ldpbeam.pipelines.commands.actions import run_collection
    from ldpbeam.pipelines.commands.stream import run_stream
    from ldpbeam.pipelines.inputs import split_arguments

    settings: dict[str, Any] = {
        "deduplicate": dedup,
        "max_error_fraction": max_error_fraction,
        "sinks": {name: streaming.pop(name) for name in SINKS},
    }
    kafka = [streaming[f"kafka_{name}"] for name in ("topic", "servers", "expansion")]
    if any(kafka) and not all(kafka):
        raise UsageError(
            "E-USAGE-SOURCE",
            "a Kafka topic needs its brokers and an expansion service",
            remedy="Give --kafka-topic, --kafka-servers and --kafka-expansion together.",
        )
    if streaming["pubsub_expansion"] and not subscription:
        raise UsageError(
            "E-USAGE-SOURCE",
            "--pubsub-expansion goes with --subscription",
            remedy="Give --subscription projects/P/subscriptions/S, or leave it out.",
        )
    files, beam_args = split_arguments(context.args, files_allowed=bool(patterns))
    patterns += files
    if bool(patterns) + bool(subscription) + any(kafka) != 1:
        raise UsageError(
            "E-USAGE-SOURCE",
            "reports come from files, a subscription or a topic, and "
            + ("more than one of them was given" if patterns or subscription else "none was given"),
            remedy="Give --input GLOB, --subscription projects/P/subscriptions/S, or --kafka-topic TOPIC.",
        )
    limits = {name: streaming.pop(name) for name in LIMITS}
    if patterns:
        settings |= limits
    if patterns and "--streaming" not in beam_args:
        idle = [name for name in _STREAMS_ONLY if _typed(context, name)]
        if idle:
            raise UsageError(
                "E-USAGE-OPTION",
                f"--{idle[0].replace('_', '-')} is for messages and has no effect on files",
                remedy="Leave it out, or read from --subscription or --kafka-topic.",
            )
        settings |= {"shard_bits": streaming["shard_bits"], "overwrite": overwrite}
        code = run_collection(collection_files, patterns, output, runner, beam_args, **settings)
    else:
        settings |= streaming
        code = run_stream(collection_files, patterns, subscription, output, runner, beam_args, **settings)
    sys.exit(code)


def _typed(context: click.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@_collections
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="How many reports, rejects, epochs or values to show.",
)
def inspect(file: Path, collection_files: tuple[Path, ...], limit: int) -> None:
    """Show what a file or folder is, and the first records in it.

    It may hold reports, rejects, estimates, the results of a run, a simulation, or be a collection.
    """
    from ldpbeam.pipelines.commands.inspection import inspect_file

    inspect_file(file, collection_files, limit)


@cli.command()
@click.argument("rejects", type=click.Path(path_type=Path))
@_collections
def replay(rejects: Path, collection_files: tuple[Path, ...]) -> None:
    """Count rejected records again once their cause is mended: REJECTS is OUTPUT/rejects, or a table in it.

    The counts become what they would be had nothing been rejected; epochs that change get a further revision.
    Collections that the run had need not be given again: --collection adds to them.
    """
    from ldpbeam.pipelines.commands.actions import replay_rejects

    sys.exit(replay_rejects(rejects, collection_files))


@cli.command()
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--page", type=click.Path(path_type=Path), help="The page. Default: OUTPUT/index.html.")
@click.option("--truth", type=click.Path(path_type=Path), help="truth.parquet of a simulation.")
def report(output: Path, page: Path | None, truth: Path | None) -> None:
    """Write the page of a finished run: one file, no server, nothing fetched from elsewhere."""
    from ldpbeam.pipelines.commands.actions import write_report

    write_report(output, page, truth)


def main() -> None:
    """Entry point: errors become one line and an exit code; LDPBEAM_DEBUG=1 adds the traceback."""
    try:
        cli.main(standalone_mode=True)
    except LdpError as error:
        click.echo(f"ldpbeam: {error}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        known = disk_error(error) if isinstance(error, OSError) else None
        if isinstance(error, ModuleNotFoundError):
            known = extra_error(error)
        if known is not None:
            click.echo(f"ldpbeam: {known}", err=True)
            sys.exit(known.exit_code)
        if os.environ.get("LDPBEAM_DEBUG") == "1":
            import traceback

            traceback.print_exc()
        text = clean(" ".join(f"{type(error).__name__}: {error}".split()), 300)
        advice = "Set LDPBEAM_DEBUG=1 to see where, and please report it."
        click.echo(f"ldpbeam: {text}. {advice} [E-INTERNAL]", err=True)
        sys.exit(LdpError.exit_code)


if __name__ == "__main__":
    main()
