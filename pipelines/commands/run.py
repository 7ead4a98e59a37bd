"""The command ``run``: reports to estimates, over files or over messages."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldpbeam.errors import UsageError
from ldpbeam.pipelines.commands.support.console import PrintingCommand, say
from ldpbeam.pipelines.commands.support.options import collections_option, given, run_options
from ldpbeam.pipelines.config import RunConfig, resolve_runner
from ldpbeam.pipelines.option import Over
from ldpbeam.transforms.sinks import check_sinks
from ldpbeam.transforms.sources import chosen_source, source_options

if TYPE_CHECKING:
    from ldpbeam.collection.collection import Collection

__all__ = ["run", "run_over_files"]


@click.command(
    cls=PrintingCommand, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
)
@collections_option
@run_options
@click.pass_context
def run(context: click.Context, /, collection_files: tuple[Path, ...], **typed: Any) -> None:
    """Turn reports into estimates. Further options go to Beam.

    Over files it ends with them; from a subscription, or a folder that grows, it runs until SIGTERM or
    Ctrl-C, which drain it.
    On a cluster (--runner FlinkRunner, DataflowRunner) a subscription or --streaming makes a job with state.

    Exit codes: 0 ok, 2 usage, 3 invalid collection, 4 ok with rejects, 5 nothing was counted or an epoch
    withheld for errors, 6 internal, 130 interrupted.
    """
    from ldpbeam.pipelines.inputs import split_arguments

    patterns = typed["files"]
    files, beam_args = split_arguments(context.args, files_allowed=bool(patterns))
    patterns += files
    _require_one_source(patterns, typed)
    messages = not patterns or "--streaming" in beam_args
    over = {Over.FILES} if patterns else set()
    values = given(context, over | {Over.MESSAGES} if messages else over)
    runner = resolve_runner(typed["runner"])
    values |= {"files": patterns, "runner": runner, "beam_args": beam_args}

    from ldpbeam.pipelines.commands.support.collections import load

    collections = tuple(load(path) for path in collection_files)
    if messages:
        from ldpbeam.pipelines.commands.support.stream import run_over_messages

        sys.exit(run_over_messages(collections, values))
    sys.exit(run_over_files(collections, values))


def _require_one_source(patterns: tuple[str, ...], typed: Mapping[str, Any]) -> None:
    """Reports come from one kind of place.

    Raises:
        UsageError: they come from none, from several, or half of what a source needs is missing.
    """
    source = chosen_source({option.name: typed[option.name] or "" for option in source_options()})
    if bool(patterns) + bool(source) != 1:
        raise UsageError(
            "E-USAGE-SOURCE",
            "reports come from files, a folder that grows, a subscription or a topic, and "
            + ("more than one of them was given" if patterns else "none was given"),
            remedy="Give --input GLOB, --watch DIR, --subscription projects/P/subscriptions/S, "
            "or --kafka-topic TOPIC.",
        )


def run_over_files(collections: tuple[Collection, ...], values: Mapping[str, Any]) -> int:
    """Run the pipeline over files and say what became of every record.

    Args:
        collections: what reports may belong to.
        values: by the names of the fields that they fill; ``files`` are patterns.

    Returns:
        The exit code.

    Raises:
        UsageError: the job cannot start.
        LdpError: it failed.
    """
    # Before Beam is imported: it warns on the root logger about optional packages that nobody asked for.
    logging.basicConfig(level=logging.ERROR)
    from ldpbeam.pipelines import run as bounded
    from ldpbeam.pipelines.beam_job import dry_run
    from ldpbeam.pipelines.commands.support.collections import introduction
    from ldpbeam.pipelines.commands.support.outcome import summary
    from ldpbeam.pipelines.commands.support.progress import Bar
    from ldpbeam.pipelines.inputs import find_inputs, shard_bits_for

    found = find_inputs(values["files"])
    chosen = {"shard_bits": shard_bits_for(found.size), **values, "files": found.paths}
    config = RunConfig.parsed(collections, **chosen)
    check_sinks(config.outputs.targets)
    for note in found.notes:
        click.echo(f"ldpbeam: {note}", err=True)
    for collection in collections:
        say(introduction(collection))
    if not config.job.starts:
        say(dry_run(bounded.build(config), config))
        return 0
    with Bar("run", found.size, "bytes") as bar:
        record = bounded.run(config, bar.reach, found.size)
    summary(record, config.outputs.output)
    return record.exit_code
