"""The command ``run``: reports to estimates, over files or over messages."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldpbeam.cli.shared.console import Mode, PrintingCommand, complain, deliver, mode, say
from ldpbeam.cli.shared.options import collections_option, given, run_options
from ldpbeam.errors import Reason, option_error
from ldpbeam.job.config import RunConfig, resolve_runner
from ldpbeam.job.option import Over
from ldpbeam.text import clean
from ldpbeam.transforms.sources import chosen_source, source_options

if TYPE_CHECKING:
    from ldpbeam.collection.collection import Collection
    from ldpbeam.engine.status import Status
    from ldpbeam.job.inputs import Inputs
    from ldpbeam.records.run_record import RunRecord


@click.command(
    cls=PrintingCommand, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
)
@collections_option
@run_options
@click.pass_context
def run(context: click.Context, /, collection_files: tuple[Path, ...], **typed: Any) -> None:
    """Turn reports into estimates. Further options go to Beam.

    Over files it ends once all are counted. From a subscription, or a folder that grows, it runs until
    SIGTERM or Ctrl-C, and then drains: it counts all that it has received.
    On a cluster (--runner FlinkRunner, DataflowRunner) a subscription or --streaming makes a job with state.

    Exit codes: 0 ok, 2 usage, 3 invalid collection, 4 ok with rejects, 5 nothing was counted or an epoch
    withheld for errors, 6 internal, 130 interrupted.
    """
    from ldpbeam.job.inputs import split_arguments

    patterns = typed["files"]
    files, beam_args = split_arguments(context.args, files_allowed=bool(patterns))
    patterns += files
    _require_one_source(patterns, typed)
    messages = not patterns or "--streaming" in beam_args
    runner = resolve_runner(typed["runner"])
    over = {Over.FILES} if patterns else {Over.LOCAL} if runner == "FnApiRunner" else set()
    values = given(context, over | {Over.MESSAGES} if messages else over)
    values |= {"files": patterns, "runner": runner, "beam_args": beam_args}

    from ldpbeam.cli.shared.collections import load

    collections = tuple(load(path) for path in collection_files)
    # Before Beam is imported: it warns on the root logger about optional packages that nobody asked for.
    logging.basicConfig(level=logging.ERROR)
    sys.exit((run_over_messages if messages else run_over_files)(collections, values))


def _require_one_source(patterns: tuple[str, ...], typed: Mapping[str, Any]) -> None:
    """Raise UsageError unless reports come from one kind of place, with all that it needs."""
    source = chosen_source({option.name: typed[option.name] or "" for option in source_options()})
    if bool(patterns) + bool(source) != 1:
        raise option_error(
            "reports come from files, a folder that grows, a subscription or a topic, and "
            + ("more than one of them was given" if patterns else "none was given"),
            "Give --input GLOB, --watch DIR, --subscription projects/P/subscriptions/S, "
            "or --kafka-topic TOPIC.",
        )


# --- what it does; values are by the names of the fields that they fill, ``files`` are patterns


def run_over_files(collections: tuple[Collection, ...], values: Mapping[str, Any]) -> int:
    """Run the pipeline over files and say what became of every record; gives the exit code."""
    from ldpbeam.cli.shared.progress import Bar
    from ldpbeam.job.file_times import doubtful_times
    from ldpbeam.job.inputs import find_inputs, shard_bits_for, waits_on_disk
    from ldpbeam.pipelines import run as bounded
    from ldpbeam.pipelines.beam_job import dry_run

    inputs = find_inputs(values["files"])
    held = not waits_on_disk(values.get("runner", "FnApiRunner"), values["output"])
    config = _config(collections, inputs, {"shard_bits": shard_bits_for(inputs.size, held=held), **values})
    if config.input.not_after is None:
        for line in doubtful_times(inputs.paths, collections, int(time.time())):
            complain(line)
    if not config.job.starts:
        say(dry_run(bounded.build(config), config))
        return 0
    with Bar("run", inputs.size, "bytes") as bar:
        record = bounded.run(config, bar.reach, inputs.size)
    _print_summary(record, config.outputs.output)
    return record.exit_code


def _config(collections: tuple[Collection, ...], inputs: Inputs, values: Mapping[str, Any]) -> RunConfig:
    """The run that is asked for, with its sinks checked and its collections introduced."""
    from ldpbeam.cli.shared.collections import introduction
    from ldpbeam.transforms.sinks import check_sinks

    config = RunConfig.parsed(
        collections, **{**values, "files": inputs.paths, "passed_over": inputs.passed_over}
    )
    check_sinks(config.outputs.targets)
    _require_supported(config)
    if inputs.note:
        click.echo(f"ldpbeam: {inputs.note}", err=True)
    say(*map(introduction, collections))
    return config


def run_over_messages(collections: tuple[Collection, ...], values: Mapping[str, Any]) -> int:
    """Run over messages, or over files as if they were a stream; gives the exit code."""
    from ldpbeam.engine.run import run_local
    from ldpbeam.job.inputs import CLUSTER_SHARD_BITS, Inputs, find_inputs
    from ldpbeam.pipelines.beam_job import beam_options, dry_run
    from ldpbeam.pipelines.submit import build, submit

    inputs = find_inputs(values["files"]) if values["files"] else Inputs((), 0)
    bits = 0 if values["runner"] == "FnApiRunner" else CLUSTER_SHARD_BITS
    config = _config(collections, inputs, {"shard_bits": bits, **values})
    if not config.job.starts:
        say(dry_run(build(config), config))
        return 0
    output, source = config.outputs.output, config.input.subscription or config.input.watch
    if config.job.local and source:
        say(f"reading {source}; Ctrl-C or SIGTERM drains and stops")
        beam_options(config)  # refuses options that nobody knows, before anything is touched
        lines = mode() is Mode.JSON
        reads = "the folder" if config.input.watch else "Pub/Sub"
        record = run_local(config, _json_line if lines else partial(_line, source=reads))
        if lines:
            total = record.accounting.total.as_record()
            click.echo(json.dumps({"event": "stopped", "exit_code": record.exit_code, **total}))
            return record.exit_code
        say("stopped")
    else:
        done = submit(config, warn=partial(click.echo, err=True))
        if done is None or done.job is not None:
            if done is not None and done.job is not None:
                say(_named(done.job))
                deliver(done.as_record())
            say(f"submitted; results will appear in {output}")
            return 0
        record = done
    _print_summary(record, output)
    return record.exit_code


def _require_supported(config: RunConfig) -> None:
    source = chosen_source(config.input.given)
    reads = config.input.subscription or config.input.watch
    if config.job.local and source is not None and not reads:
        raise option_error(
            f"the runner of this machine does not read from {source.target.option}",
            "Run on a cluster (--runner FlinkRunner), or use --subscription, --watch or --input.",
        )
    if config.job.local and config.input.given.get("pubsub_expansion"):
        raise option_error(
            "the runner of this machine reads Pub/Sub by itself",
            "Leave --pubsub-expansion out, or run on a cluster (--runner FlinkRunner).",
        )
    if config.input.watch and config.input.timestamp_attribute:
        raise option_error(
            "files have no attributes; those of a collector hold the arrival themselves",
            "Leave --timestamp-attribute out with --watch.",
        )


def _named(job: Mapping[str, str]) -> str:
    what = job.get("cluster_id") or job.get("id") or job.get("name") or "a job"
    return f"{what} on {job.get('cluster') or job['runner']}"


def _line(event: str, record: RunRecord, status: Status, source: str = "Pub/Sub") -> None:
    """For people: the accounting so far, and what keeps results from coming."""
    from ldpbeam.collection.epochs import instant

    if event == "published":
        say(f"{instant(int(time.time()))} {record.accounting.total.identity}")
    else:
        text = _EVENTS[event].format(ahead=status.clock_ahead, source=source)
        click.echo(f"ldpbeam: {text}", err=True)


def _json_line(event: str, record: RunRecord, status: Status) -> None:
    click.echo(json.dumps({"event": event, "time": round(time.time(), 3), **status.as_record()}))


_EVENTS = {
    "disconnected": "{source} does not answer; results wait until it does. [W-STREAM-DISCONNECTED]",
    "connected": "{source} answers again.",
    "clock": "the clock of this machine is {ahead:+.0f} s away from what messages and its steady clock say; "
    "no epoch closes because of it. [W-STREAM-CLOCK]",
}


def _print_summary(record: RunRecord, output: str) -> None:
    """Print the accounting, each reason for rejection, warnings, and the folder of the estimates."""
    from ldpbeam.records.run_sentences import (
        copied_devices,
        cut_off_files,
        details_of_reasons,
        missing_epochs,
        time_of_files,
        why_nothing,
    )

    say(record.accounting.total.identity)
    rejected = record.accounting.total.rejected_record()
    details = details_of_reasons(record, output)
    for reason, count in rejected.items():
        click.echo(f"  rejected {count:,}: {reason}", err=True)
        if reason in details:
            click.echo(clean(f"    {details[reason]}"), err=True)
    if rejected.get(Reason.FUTURE_EPOCH.value) and record.stream is None:
        click.echo(clean(f"  future_epoch is judged by {time_of_files(record)}"), err=True)
    if rejected:
        click.echo(clean(f"  where and why: ldpbeam inspect {output.rstrip('/')}/rejects"), err=True)
    for line in (*cut_off_files(record, output), *missing_epochs(record), *copied_devices(record)):
        complain(line)
    nothing = why_nothing(record, details)
    if nothing is not None:
        click.echo(f"ldpbeam: {nothing} [E-RUN-NOTHING]", err=True)
    else:
        say(f"estimates in {output.rstrip('/')}/estimates after {record.timings.total_seconds} s")
    deliver(record.as_record())
    sys.stdout.flush()
